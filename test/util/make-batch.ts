/**
 * Batches (src/format/batch-layout.ts) from typed rows: an independent writer of the layout for
 * tests of the layers above the kernels.
 */
import {
  align8,
  BATCH_MAGIC,
  BATCH_VERSION,
  COLUMN_WORDS,
  HEADER_WORDS,
  KIND,
  type Kind,
  kindOf,
  WIDTH_OF_KIND,
} from '../../src/format/batch-layout.ts'
import type { PoolSchema } from '../../src/format/schema.ts'

/**
 * A column's value: text for STRING and JSON, bigint for 64 bits (INT64, TIMESTAMP in µs), days for
 * DATE.
 */
export type Value = string | number | bigint | boolean | null

export interface Row {
  readonly payload?: string | Uint8Array
  /** The encoded key; left out in a pool without a unique id. */
  readonly key?: string | Uint8Array
  /** In the order of the schema; left out in a delete. */
  readonly values?: readonly Value[]
}

/** One batch of posts. */
export function makeBatch(schema: PoolSchema, rows: readonly Row[]): ArrayBuffer {
  return writeBatch(rows.length, [
    ...payloadAndKey(rows),
    ...schema.columns.map((column, i) =>
      makeColumn(
        kindOf(column.type),
        rows.map(row => row.values?.[i] ?? null),
      ),
    ),
  ])
}

/** One batch of deletes: only keys. */
export function makeDeletes(keys: readonly (string | Uint8Array)[]): ArrayBuffer {
  return writeBatch(keys.length, payloadAndKey(keys.map(key => ({ key }))))
}

interface Column {
  readonly kind: Kind
  readonly nulls: number
  readonly validity: Uint8Array
  readonly offsets: Uint8Array
  readonly data: Uint8Array
}

function payloadAndKey(rows: readonly Row[]): Column[] {
  return [rows.map(row => row.payload ?? ''), rows.map(row => row.key ?? '')].map(values =>
    makeColumn(KIND.binary, values),
  )
}

function makeColumn(kind: Kind, values: readonly (Value | Uint8Array)[]): Column {
  const validity = new Uint8Array(Math.ceil(values.length / 8))
  for (let i = 0; i < values.length; i++) if (values[i] !== null) validity[i >> 3]! |= 1 << (i & 7)
  const nulls = values.filter(value => value === null).length
  if (kind === KIND.binary) {
    const parts = values.map(value =>
      value instanceof Uint8Array ? value : Buffer.from(String(value ?? '')),
    )
    const offsets = new Int32Array(values.length + 1)
    for (let i = 0; i < parts.length; i++) offsets[i + 1] = offsets[i]! + parts[i]!.length
    return { kind, nulls, validity, offsets: new Uint8Array(offsets.buffer), data: Buffer.concat(parts) }
  }
  return { kind, nulls, validity, offsets: new Uint8Array(0), data: fixedData(kind, values) }
}

function fixedData(kind: Kind, values: readonly (Value | Uint8Array)[]): Uint8Array {
  if (kind === KIND.bool) {
    const bits = new Uint8Array(Math.ceil(values.length / 8))
    for (let i = 0; i < values.length; i++) if (values[i] === true) bits[i >> 3]! |= 1 << (i & 7)
    return bits
  }
  const width = WIDTH_OF_KIND[kind]
  const data = new Uint8Array(width * values.length)
  const view = new DataView(data.buffer)
  for (let i = 0; i < values.length; i++) setValue(view, kind, i * width, values[i] ?? 0)
  return data
}

function setValue(view: DataView, kind: Kind, at: number, value: Value | Uint8Array): void {
  if (kind === KIND.i64) view.setBigInt64(at, BigInt(value as bigint), true)
  else if (kind === KIND.f64) view.setFloat64(at, Number(value), true)
  else if (kind === KIND.f32) view.setFloat32(at, Number(value), true)
  else if (kind === KIND.i32) view.setInt32(at, Number(value), true)
  else if (kind === KIND.i16) view.setInt16(at, Number(value), true)
  else view.setInt8(at, Number(value))
}

function writeBatch(rows: number, columns: readonly Column[]): ArrayBuffer {
  let end = align8(4 * (HEADER_WORDS + COLUMN_WORDS * columns.length))
  const place = (bytes: number) => {
    const at = end
    end = align8(end + bytes)
    return at
  }
  const places = columns.map(column => ({
    validity: column.nulls > 0 ? place(column.validity.length) : 0,
    offsets: column.offsets.length > 0 ? place(column.offsets.length) : 0,
    data: place(column.data.length),
  }))
  const batch = new ArrayBuffer(end)
  const bytes = new Uint8Array(batch)
  const words = new Int32Array(batch, 0, HEADER_WORDS + COLUMN_WORDS * columns.length)
  words.set([BATCH_MAGIC, BATCH_VERSION, rows, columns.length, end, 0])
  columns.forEach((column, c) => {
    const at = places[c]!
    const view = [column.kind, column.nulls, at.validity, at.offsets, at.data, column.data.length]
    words.set(view, HEADER_WORDS + COLUMN_WORDS * c)
    if (at.validity > 0) bytes.set(column.validity, at.validity)
    if (at.offsets > 0) bytes.set(column.offsets, at.offsets)
    bytes.set(column.data, at.data)
  })
  return batch
}
