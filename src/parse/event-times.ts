/**
 * Received-at of each event, in pools whose key holds it.
 *
 *   W-7  Of two accepted events with one unique id, both stay: no other event of the pool has the
 *        same received-at.
 *
 * How many events of a request are accepted is known after the kernel ran. The kernel writes the
 * received-at of the request into each key. Then the worker reserves one value for each accepted
 * event from the pool's shared clock, and writes the values over it. An import's batch and a body
 * of gzip need no other rule, and the clock runs ahead by no more than there are events.
 */

import { type BatchBuffer, batchRows, columnView, KEY_COLUMN } from '../format/batch-layout.ts'
import { keyPartEnd, writeLong } from '../format/key.ts'
import { type ColumnType, KEY_RECEIVED_AT, type PoolSchema } from '../format/schema.ts'

/** The types of the key's parts before received-at; undefined where the key does not hold it. */
export function partsBeforeReceivedAt(schema: PoolSchema): readonly ColumnType[] | undefined {
  const columns = schema.key?.columns ?? []
  const place = columns.indexOf(KEY_RECEIVED_AT)
  if (place < 0) return undefined
  return columns.slice(0, place).flatMap(index => schema.columns[index]?.type ?? [])
}

/** Sets received-at in the keys of rows [from, from + rows): `firstUs`, then a step for each. */
export function setReceivedAt(
  batch: BatchBuffer,
  partsBefore: readonly ColumnType[],
  from: number,
  rows: number,
  firstUs: number,
  stepUs: number,
): void {
  const { offsetsOffset, dataOffset, dataBytes } = columnView(batch, KEY_COLUMN)
  const offsets = new Int32Array(batch, offsetsOffset, batchRows(batch) + 1)
  const keys = new Uint8Array(batch, dataOffset, dataBytes)
  for (let row = from; row < from + rows; row++) {
    const us = firstUs + (row - from) * stepUs
    let at = offsets[row]!
    for (const type of partsBefore) at = keyPartEnd(keys, at, type)
    writeLong(keys, at, Math.floor(us / 0x1_0000_0000), us | 0)
  }
}
