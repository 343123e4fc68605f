/**
 * Chunks of a DuckDB result become messages of Arrow's IPC stream format. DuckDB's memory is laid
 * out as Arrow's except for texts, Booleans and bitmaps that do not begin at a byte, so each value
 * is copied once, into the message.
 *
 *   W-9  A message has at most EXPORT_BATCH_ROWS rows, and about EXPORT_BATCH_BYTES or the bytes of
 *        one row.
 */
import type { DuckDBResult } from '@duckdb/node-api'
import { Message } from 'apache-arrow'
import { BufferRegion, FieldNode, RecordBatch } from 'apache-arrow/ipc/metadata/message'
import { envelope } from '../../format/arrow.ts'
import { valueBytes } from '../../format/batch-layout.ts'
import type { ColumnType } from '../../format/schema.ts'
import { disk } from '../../util/disk.ts'
import { assert } from '../../util/errors.ts'
import { EXPORT_BATCH_BYTES, EXPORT_BATCH_ROWS } from '../../util/limits.ts'
import type { KernelChoice } from '../../util/native.ts'
import { runMinorGc } from '../../util/this-thread.ts'
import {
  gatherTextsJs,
  isText,
  isValid,
  type RawColumn,
  rawColumn,
  type TextGatherer,
  textBytes,
  tryGatherTextsNative,
} from './duckdb-vectors.ts'
import { copyFailed } from './export-stream.ts'

/**
 * Writes the rows of a result to a new file of IPC messages, without schema and end, and returns
 * their number.
 * @param types the types of the result's columns
 * @param kernel `js`: the TypeScript one, even if the native module is there
 * @param check throws to stop the copy; called for each chunk
 */
export async function copyBatches(
  result: DuckDBResult,
  types: readonly ColumnType[],
  file: string,
  kernel: KernelChoice | undefined,
  check: () => void,
): Promise<number> {
  assert(result.columnCount === types.length, 'a statement has the columns that were planned')
  const gather = tryGatherTextsNative(kernel) ?? gatherTextsJs
  const handle = orUnavailable(file, () => disk.open(file, 'wx'))
  try {
    let position = 0
    const batches = new RecordBatches(gather, message => {
      orUnavailable(file, () => disk.write(handle, message, position))
      position += message.reduce((sum, { byteLength }) => sum + byteLength, 0)
    })
    let rows = 0
    let written = 0
    for (;;) {
      check()
      if (position > written) runMinorGc() // the chunks that were written
      written = position
      const chunk = await result.fetchChunk()
      if (chunk === null || chunk.rowCount === 0) break
      const columns = types.map((type, index) => rawColumn(chunk, index, type))
      batches.add(columns, chunk.rowCount)
      rows += chunk.rowCount
    }
    check()
    batches.flush()
    return rows
  } finally {
    disk.close(handle)
  }
}

/** Throws a failure of the copy's file as Unavailable: the machine is at fault, not a segment. */
function orUnavailable<T>(file: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw copyFailed(file, 'written', error)
  }
}

/** Buffers begin at a multiple of this. */
const ALIGN = 64

/** Rows [from, to) of a chunk, which wait for a message. */
interface Piece {
  readonly columns: readonly RawColumn[]
  readonly from: number
  readonly to: number
}

class RecordBatches {
  readonly #gather: TextGatherer
  readonly #write: (message: readonly Uint8Array[]) => void
  #pieces: Piece[] = []
  #rows = 0
  #bytes = 0
  #body = new Uint8Array(0)

  /** @param write takes a message, whose memory is reused when it returns */
  constructor(gather: TextGatherer, write: (message: readonly Uint8Array[]) => void) {
    this.#gather = gather
    this.#write = write
  }

  /** Adds the columns of a chunk, each of `rows` rows, and writes every message that is full. */
  add(columns: readonly RawColumn[], rows: number): void {
    const bytes = columns.reduce((sum, column) => sum + bytesOf(column, rows), 0)
    const step = Math.max(1, Math.min(EXPORT_BATCH_ROWS, Math.floor((EXPORT_BATCH_BYTES * rows) / bytes)))
    for (let from = 0; from < rows; from += step) {
      const to = Math.min(from + step, rows)
      const more = (bytes * (to - from)) / rows
      if (this.#rows + to - from > EXPORT_BATCH_ROWS || this.#bytes + more > EXPORT_BATCH_BYTES) this.flush()
      this.#pieces.push({ columns, from, to })
      this.#rows += to - from
      this.#bytes += more
    }
  }

  /** Writes the last message. */
  flush(): void {
    if (this.#rows === 0) return
    const layout = layOut(this.#pieces, this.#rows)
    if (this.#body.byteLength < layout.bytes) this.#body = new Uint8Array(layout.bytes)
    const body = this.#body.subarray(0, layout.bytes)
    for (const column of layout.columns) fill(column, this.#pieces, body, this.#rows, this.#gather)
    const metadata = new RecordBatch(this.#rows, layout.nodes, layout.regions, null)
    this.#write([envelope(Message.encode(Message.from(metadata, layout.bytes))), body])
    this.#pieces = []
    this.#rows = 0
    this.#bytes = 0
  }
}

function bytesOf(column: RawColumn, rows: number): number {
  return isText(column.type)
    ? 4 * rows + textBytes(column, 0, rows)
    : rows * valueBytes(column.type) + rows / 8
}

interface Places {
  readonly index: number
  readonly nulls: number
  readonly validity: BufferRegion
  /** Undefined for a column without texts. */
  readonly offsets: BufferRegion | undefined
  readonly values: BufferRegion
}

function layOut(pieces: readonly Piece[], rows: number) {
  const regions: BufferRegion[] = []
  let bytes = 0
  const add = (length: number) => {
    const region = new BufferRegion(bytes, length)
    regions.push(region)
    bytes += Math.ceil(length / ALIGN) * ALIGN
    return region
  }
  const bits = Math.ceil(rows / 8)
  const columns = (pieces[0]?.columns ?? []).map(({ type }, index): Places => {
    const sum = (of: (column: RawColumn, from: number, to: number) => number) =>
      pieces.reduce((all, { columns, from, to }) => all + of(columns[index] as RawColumn, from, to), 0)
    const nulls = sum(countNulls)
    const validity = add(nulls > 0 ? bits : 0)
    const offsets = isText(type) ? add(4 * (rows + 1)) : undefined
    const values = add(isText(type) ? sum(textBytes) : type === 'BOOLEAN' ? bits : rows * valueBytes(type))
    return { index, nulls, validity, offsets, values }
  })
  const nodes = columns.map(({ nulls }) => new FieldNode(rows, nulls))
  return { bytes, columns, nodes, regions }
}

function countNulls({ valid }: RawColumn, from: number, to: number): number {
  let nulls = 0
  if (valid !== undefined) for (let row = from; row < to; row++) if (!isValid(valid, row)) nulls++
  return nulls
}

function fill(
  places: Places,
  pieces: readonly Piece[],
  body: Uint8Array,
  rows: number,
  gather: TextGatherer,
): void {
  const region = ({ offset, length }: BufferRegion) =>
    body.subarray(offset, Math.ceil((offset + length) / ALIGN) * ALIGN)
  const validity = region(places.validity).fill(0)
  const values = region(places.values)
  const offsets = places.offsets === undefined ? undefined : region(places.offsets).fill(0)
  const target = offsets && {
    offsets: new Int32Array(offsets.buffer, offsets.byteOffset, rows + 1),
    data: values.subarray(0, places.values.length),
  }
  values.fill(0, pieces[0]?.columns[places.index]?.type === 'BOOLEAN' ? 0 : places.values.length)
  let row = 0
  for (const { columns, from, to } of pieces) {
    const column = columns[places.index] as RawColumn
    if (places.nulls > 0) setBits(at => isValid(column.valid, at), from, to, validity, row)
    if (target !== undefined) gather(column, from, to, target, row)
    else if (column.type === 'BOOLEAN') setBits(at => isTrue(column, at), from, to, values, row)
    else copyValues(column, from, to, values, row)
    row += to - from
  }
}

/** Writes a bit for each row of [from, to) to bit `at` of `target`, which is zero there. */
function setBits(
  isSet: (row: number) => boolean,
  from: number,
  to: number,
  target: Uint8Array,
  at: number,
): void {
  for (let row = from; row < to; row++, at++)
    if (isSet(row)) target[at >> 3] = (target[at >> 3] as number) | (1 << (at & 7))
}

/** False for a null too. */
function isTrue({ values, valid }: RawColumn, row: number): boolean {
  return values[row] === 1 && isValid(valid, row)
}

/** Writes zero for a null, because DuckDB's memory there holds values of an earlier query. */
function copyValues(column: RawColumn, from: number, to: number, target: Uint8Array, at: number): void {
  const { type, values, valid } = column
  const width = valueBytes(type)
  target.set(values.subarray(from * width, to * width), at * width)
  if (valid === undefined) return
  for (let i = from; i < to; i++, at++) if (!isValid(valid, i)) target.fill(0, at * width, (at + 1) * width)
}
