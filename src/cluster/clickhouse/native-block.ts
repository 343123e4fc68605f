/**
 * Rows of batches as blocks of ClickHouse's Native format: columns, each whole, in the order of a
 * table. No value is parsed again. Source: the documentation of the format.
 *
 *   block   varint columns, varint rows, the columns
 *   column  text name, text type, its values
 *   values  Nullable: a byte a row, 1 = null; then fixed width as in a batch, texts each behind its
 *           length, a byte for a bool
 *   text    varint bytes, the bytes
 */

import type { BatchBuffer } from '../../format/batch-layout.ts'
import {
  batchRows,
  type ColumnView,
  columnView,
  FIRST_SCHEMA_COLUMN,
  KEY_COLUMN,
  KIND,
  PAYLOAD_COLUMN,
  WIDTH_OF_KIND,
} from '../../format/batch-layout.ts'
import { PAYLOAD, type PoolSchema, RECEIVED_AT, type RequestKind } from '../../format/schema.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { crc32 } from '../../util/crc32.ts'
import { DELETED, isNullable, tableType } from './table.ts'

/** The rows of one batch, and the requests that they came in (store/flush/memtable.ts). */
export interface BlockEntry {
  readonly batch: BatchBuffer
  /** Sequence, received-at of the first row in µs, rows, and µs from a row to the next. */
  readonly requests: Float64Array
  /** The version of each request's first row. Each further row has the next one. */
  readonly versions: BigInt64Array
}

/** Words of each request in `requests`. */
export const REQUEST_WORDS = 4

/** Rows that are chosen of a batch; undefined: all of them. */
type Chosen = Uint32Array | undefined

/**
 * The shard of each row: a checksum of its key, so that all rows of a key are on one. Rows without
 * a key follow their request.
 */
export function shardsOf(entry: BlockEntry, hasKey: boolean, shards: number): Uint32Array {
  const rows = batchRows(entry.batch)
  const placed = new Uint32Array(rows)
  if (!hasKey) {
    // Not the version itself: its low bits are those of a row, and nearly always 0.
    const shardOf = (version: bigint) => crc32(Buffer.from(String(version))) % shards
    const ofRequests = Array.from(entry.versions, shardOf)
    eachRow(entry, (row, request) => {
      placed[row] = ofRequests[request]!
    })
    return placed
  }
  const { offsetsOffset, dataOffset } = columnView(entry.batch, KEY_COLUMN)
  const offsets = new Int32Array(entry.batch, offsetsOffset, rows + 1)
  const data = new Uint8Array(entry.batch, dataOffset)
  for (let row = 0; row < rows; row += 1)
    placed[row] = crc32(data.subarray(offsets[row]!, offsets[row + 1]!)) % shards
  return placed
}

/** @param act gets the row, the index of its request, and its place in the request */
function eachRow({ requests }: BlockEntry, act: (row: number, request: number, place: number) => void): void {
  let row = 0
  for (let request = 0; request * REQUEST_WORDS < requests.length; request += 1) {
    const rows = requests[request * REQUEST_WORDS + 2]!
    for (let place = 0; place < rows; place += 1) act(row++, request, place)
  }
}

/** Rows of one shard in the Native format. */
export interface NativeBlock {
  readonly bytes: Uint8Array
  readonly rows: number
}

/**
 * A block for each shard: the rows of the entries that are on it; undefined where there are none.
 * Deletes have the columns of `deleteSchema`, and say so in `_deleted`.
 */
export function nativeBlocks(
  schema: PoolSchema,
  kind: RequestKind,
  entries: readonly BlockEntry[],
  shards: number,
): (NativeBlock | undefined)[] {
  const placed = shards === 1 ? [] : entries.map(entry => shardsOf(entry, schema.key !== null, shards))
  return Array.from({ length: shards }, (_, shard) =>
    blockOf(
      schema,
      kind,
      entries.map((entry, index) => ({ entry, chosen: rowsOn(shard, placed[index]) })),
    ),
  )
}

interface Part {
  readonly entry: BlockEntry
  readonly chosen: Chosen
}

function blockOf(schema: PoolSchema, kind: RequestKind, parts: readonly Part[]): NativeBlock | undefined {
  const rows = parts.reduce((sum, { entry, chosen }) => sum + (chosen?.length ?? batchRows(entry.batch)), 0)
  if (rows === 0) return undefined
  const out = new BlockWriter(parts.reduce((sum, { entry }) => sum + entry.batch.byteLength, 1_024))
  const isDelete = kind === 'delete'
  const hasKey = schema.key !== null
  const own = isDelete ? [] : [RECEIVED_AT, PAYLOAD]
  out.varint(own.length + schema.columns.length + (hasKey ? 2 : 1))
  out.varint(rows)
  if (!isDelete) {
    out.header(RECEIVED_AT, tableType('TIMESTAMP', false))
    for (const part of parts) writeReceivedAt(out, part.entry, part.chosen)
    out.header(PAYLOAD, tableType('JSON', false))
    for (const part of parts) writeColumn(out, part.entry.batch, PAYLOAD_COLUMN, part.chosen)
  }
  for (const [index, { name, type }] of schema.columns.entries()) {
    const nullable = isNullable(schema, index)
    out.header(name, tableType(type, nullable))
    const column = FIRST_SCHEMA_COLUMN + index
    if (nullable) for (const part of parts) writeNulls(out, part.entry.batch, column, part.chosen)
    for (const part of parts) writeColumn(out, part.entry.batch, column, part.chosen)
  }
  out.header(VERSION, 'UInt64')
  for (const part of parts) writeVersions(out, part.entry, part.chosen)
  if (hasKey) {
    out.header(DELETED, 'UInt8')
    out.fill(rows, isDelete ? 1 : 0)
  }
  return { bytes: out.bytes(), rows }
}

/** @param placed the shard of each row; undefined: there is one shard */
function rowsOn(shard: number, placed: Uint32Array | undefined): Chosen {
  if (placed === undefined) return undefined
  const chosen: number[] = []
  for (let row = 0; row < placed.length; row += 1) if (placed[row] === shard) chosen.push(row)
  return Uint32Array.from(chosen)
}

function writeReceivedAt(out: BlockWriter, entry: BlockEntry, chosen: Chosen): void {
  const { batch, requests } = entry
  const values = new BigInt64Array(batchRows(batch))
  eachRow(entry, (row, request, place) => {
    const at = request * REQUEST_WORDS
    values[row] = BigInt(requests[at + 1]! + place * requests[at + 3]!)
  })
  out.longs(values, chosen)
}

function writeVersions(out: BlockWriter, entry: BlockEntry, chosen: Chosen): void {
  const values = new BigInt64Array(batchRows(entry.batch))
  eachRow(entry, (row, request, place) => {
    values[row] = entry.versions[request]! + BigInt(place)
  })
  out.longs(values, chosen)
}

function writeNulls(out: BlockWriter, batch: BatchBuffer, column: number, chosen: Chosen): void {
  const rows = batchRows(batch)
  const { nulls, validityOffset } = columnView(batch, column)
  if (nulls === 0) {
    out.fill(chosen?.length ?? rows, 0)
    return
  }
  out.bits(new Uint8Array(batch, validityOffset, (rows + 7) >> 3), rows, chosen, 1)
}

function writeColumn(out: BlockWriter, batch: BatchBuffer, column: number, chosen: Chosen): void {
  const rows = batchRows(batch)
  const view = columnView(batch, column)
  if (view.kind === KIND.binary) {
    writeTexts(out, batch, view, rows, chosen)
    return
  }
  if (view.kind === KIND.bool) {
    out.bits(new Uint8Array(batch, view.dataOffset, (rows + 7) >> 3), rows, chosen, 0)
    return
  }
  const width = WIDTH_OF_KIND[view.kind]
  out.fixed(new Uint8Array(batch, view.dataOffset, rows * width), width, chosen)
}

function writeTexts(
  out: BlockWriter,
  batch: BatchBuffer,
  { offsetsOffset, dataOffset, dataBytes }: ColumnView,
  rows: number,
  chosen: Chosen,
): void {
  const offsets = new Int32Array(batch, offsetsOffset, rows + 1)
  const data = new Uint8Array(batch, dataOffset, dataBytes)
  const count = chosen?.length ?? rows
  for (let i = 0; i < count; i += 1) {
    const row = chosen?.[i] ?? i
    out.text(data, offsets[row]!, offsets[row + 1]!)
  }
}

/** Bytes that grow. */
class BlockWriter {
  #bytes: Uint8Array
  #length = 0

  constructor(bytes: number) {
    this.#bytes = new Uint8Array(bytes)
  }

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  varint(value: number): void {
    this.#room(5)
    let rest = value
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    this.#bytes[this.#length++] = rest
  }

  header(name: string, type: string): void {
    for (const each of [name, type]) {
      const bytes = Buffer.from(each)
      this.text(bytes, 0, bytes.byteLength)
    }
  }

  text(data: Uint8Array, from: number, to: number): void {
    this.varint(to - from)
    this.#room(to - from)
    this.#bytes.set(data.subarray(from, to), this.#length)
    this.#length += to - from
  }

  fill(count: number, value: number): void {
    this.#room(count)
    this.#bytes.fill(value, this.#length, this.#length + count)
    this.#length += count
  }

  fixed(data: Uint8Array, width: number, chosen: Chosen): void {
    if (chosen === undefined) {
      this.#room(data.byteLength)
      this.#bytes.set(data, this.#length)
      this.#length += data.byteLength
      return
    }
    this.#room(chosen.length * width)
    for (const row of chosen) {
      for (let i = 0; i < width; i += 1) this.#bytes[this.#length + i] = data[row * width + i]!
      this.#length += width
    }
  }

  longs(values: BigInt64Array, chosen: Chosen): void {
    this.fixed(new Uint8Array(values.buffer), 8, chosen)
  }

  /** A byte for each bit: `flip` where a 0 becomes 1. */
  bits(bits: Uint8Array, rows: number, chosen: Chosen, flip: 0 | 1): void {
    const count = chosen?.length ?? rows
    this.#room(count)
    for (let i = 0; i < count; i += 1) {
      const row = chosen?.[i] ?? i
      this.#bytes[this.#length++] = ((bits[row >> 3]! >> (row & 7)) & 1) ^ flip
    }
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.byteLength) return
    const larger = new Uint8Array(Math.max(2 * this.#bytes.byteLength, this.#length + bytes))
    larger.set(this.#bytes)
    this.#bytes = larger
  }
}
