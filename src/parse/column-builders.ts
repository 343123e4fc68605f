/**
 * Columns that grow by rows, the key column that is made of them, and the batch that they become.
 *
 * A row is written in place at an index, and counts only once the caller goes on at the next one. A
 * caller takes rows back by going on at a smaller index. So every setter writes every part of its
 * row.
 */
import {
  align8,
  BATCH_MAGIC,
  BATCH_VERSION,
  type BatchBuffer,
  COLUMN_WORDS,
  HEADER_WORDS,
  KIND,
  type Kind,
  WIDTH_OF_KIND,
} from '../format/batch-layout.ts'
import { STRING_PART_BYTES_MAX, writeKeyPart, writeLong } from '../format/key.ts'
import { type ColumnType, KEY_RECEIVED_AT, type PoolSchema } from '../format/schema.ts'
import { assert } from '../util/errors.ts'
import type { Allocate } from './kernel.ts'

const ROWS_AT_FIRST = 128
const BYTES_AT_FIRST = 2 * 1024
/** Below this a loop copies faster than `set`, which first makes a view. */
const LOOP_BYTES_MAX = 48

/** One column under construction; its rows are those below the caller's count. */
export class Column {
  readonly kind: Kind
  /** By row: 1 for a value, 0 for null. */
  valid = new Uint8Array(ROWS_AT_FIRST)
  /** bool, i8, i16, i32: a word a row. i64: two, low word first. binary: rows + 1 offsets. */
  words: Int32Array
  /** f32 (already rounded) and f64. */
  doubles: Float64Array
  /** The bytes of the rows, in a binary column. */
  bytes: Uint8Array<ArrayBuffer>
  #rowsMax = ROWS_AT_FIRST

  constructor(kind: Kind) {
    this.kind = kind
    const float = kind === KIND.f32 || kind === KIND.f64
    this.words = new Int32Array(float ? 0 : 2 * ROWS_AT_FIRST + 1)
    this.doubles = new Float64Array(float ? ROWS_AT_FIRST : 0)
    this.bytes = new Uint8Array(kind === KIND.binary ? BYTES_AT_FIRST : 0)
  }

  /** Makes room for row `row`. Called once a row, before its setter. */
  reserve(row: number): void {
    if (row < this.#rowsMax) return
    this.#rowsMax *= 2
    this.valid = copyInto(new Uint8Array(this.#rowsMax), this.valid)
    if (this.doubles.length > 0) this.doubles = copyInto(new Float64Array(this.#rowsMax), this.doubles)
    else this.words = copyInto(new Int32Array(2 * this.#rowsMax + 1), this.words)
  }

  /** A null has zero as its value. */
  setNull(row: number): void {
    if (this.kind === KIND.binary) this.words[row + 1] = this.words[row]!
    else if (this.kind === KIND.i64) this.setLong(row, 0)
    else if (this.doubles.length > 0) this.doubles[row] = 0
    else this.words[row] = 0
    this.valid[row] = 0
  }

  /** bool (0 or 1), i8, i16, i32. */
  setWord(row: number, value: number): void {
    this.words[row] = value
    this.valid[row] = 1
  }

  /** i64 from an integer within ±2^53. */
  setLong(row: number, value: number): void {
    this.words[2 * row] = value | 0 // ToInt32 is modulo 2^32: the low word of two's complement
    this.words[2 * row + 1] = Math.floor(value / 4294967296)
    this.valid[row] = 1
  }

  /** i64 from any 64-bit integer. */
  setBig(row: number, value: bigint): void {
    this.words[2 * row] = Number(BigInt.asIntN(32, value))
    this.words[2 * row + 1] = Number(BigInt.asIntN(32, value >> 32n))
    this.valid[row] = 1
  }

  /** f32 (rounded by the caller) or f64. Adding zero makes −0 a 0. */
  setDouble(row: number, value: number): void {
    this.doubles[row] = value + 0
    this.valid[row] = 1
  }

  /** Makes room for `length` bytes of the row; returns their place. `endBytes` must follow. */
  beginBytes(row: number, length: number): number {
    const at = this.words[row]!
    if (at + length > this.bytes.length)
      this.bytes = copyInto(new Uint8Array(Math.max(2 * this.bytes.length, at + length)), this.bytes)
    return at
  }

  endBytes(row: number, end: number): void {
    this.words[row + 1] = end
    this.valid[row] = 1
  }

  /** Sets the value of a binary column to the bytes [from, to) of `source`. */
  setBytes(row: number, source: Uint8Array, from: number, to: number): void {
    const length = to - from
    const at = this.beginBytes(row, length)
    const bytes = this.bytes
    if (length <= LOOP_BYTES_MAX) for (let i = 0; i < length; i++) bytes[at + i] = source[from + i]!
    else bytes.set(source.subarray(from, to), at)
    this.endBytes(row, at + length)
  }

  /** Bytes of the values of the first `rows` rows, as the layout stores them. */
  dataBytes(rows: number): number {
    if (this.kind === KIND.binary) return this.words[rows]!
    if (this.kind === KIND.bool) return (rows + 7) >> 3
    return rows * WIDTH_OF_KIND[this.kind]
  }

  /** Writes the values of the first `rows` rows at byte `at`. */
  writeData(batch: BatchBuffer, at: number, rows: number): void {
    if (this.kind === KIND.binary) new Uint8Array(batch).set(this.bytes.subarray(0, this.words[rows]!), at)
    else if (this.kind === KIND.bool) packBits(new Uint8Array(batch, at), this.words, rows)
    else if (this.doubles.length > 0)
      numbersOf(this.kind, batch, at, rows).set(this.doubles.subarray(0, rows))
    else {
      const words = this.kind === KIND.i64 ? 2 * rows : rows
      numbersOf(this.kind, batch, at, words).set(this.words.subarray(0, words))
    }
  }
}

/** A batch's values of a fixed width, as the numbers to be stored; i64 as words. */
function numbersOf(kind: Kind, batch: BatchBuffer, at: number, count: number) {
  switch (kind) {
    case KIND.i8:
      return new Int8Array(batch, at, count)
    case KIND.i16:
      return new Int16Array(batch, at, count)
    case KIND.f32:
      return new Float32Array(batch, at, count)
    case KIND.f64:
      return new Float64Array(batch, at, count)
    default:
      return new Int32Array(batch, at, count)
  }
}

function copyInto<T extends { set(from: T): void }>(larger: T, values: T): T {
  larger.set(values)
  return larger
}

function packBits(into: Uint8Array, values: Int32Array | Uint8Array, rows: number): void {
  for (let row = 0; row < rows; row++) if (values[row] !== 0) into[row >> 3]! |= 1 << (row & 7)
}

function countNulls(valid: Uint8Array, rows: number): number {
  let nulls = 0
  for (let row = 0; row < rows; row++) nulls += 1 - valid[row]!
  return nulls
}

/** Writes the key column of a batch from the columns of the same row (format/key.ts). */
export class KeyWriter {
  readonly #columns: readonly (Column | null)[]
  readonly #types: readonly ColumnType[]

  /** @param columns the schema's, in order. A schema without a key gives keys without bytes. */
  constructor(schema: PoolSchema, columns: readonly Column[]) {
    const key = schema.key?.columns ?? []
    for (const index of key) {
      if (index === KEY_RECEIVED_AT) continue
      const column = schema.columns[index]
      assert(column?.required && column.type !== 'JSON', 'a key names required columns of its schema')
    }
    this.#columns = key.map(index => (index === KEY_RECEIVED_AT ? null : columns[index]!))
    this.#types = key.map(index => (index === KEY_RECEIVED_AT ? 'TIMESTAMP' : schema.columns[index]!.type))
  }

  /** Writes row `row` of `into`. `receivedAtUs` is the value of a received-at column. */
  write(into: Column, row: number, receivedAtUs: number): void {
    const count = this.#columns.length
    let end = into.beginBytes(row, count * STRING_PART_BYTES_MAX)
    for (let i = 0; i < count; i++) {
      const column = this.#columns[i]!
      if (column === null) {
        end = writeLong(into.bytes, end, Math.floor(receivedAtUs / 4294967296), receivedAtUs | 0)
      } else end = writeKeyPart(into.bytes, end, this.#types[i]!, column, row)
    }
    into.endBytes(row, end)
  }
}

/** Writes the batch of the first `rows` rows (format/batch.md) into memory of `allocate`. */
export function writeBatch(columns: readonly Column[], rows: number, allocate: Allocate): BatchBuffer {
  const words: number[] = [BATCH_MAGIC, BATCH_VERSION, rows, columns.length, 0, 0]
  let end = align8(4 * (HEADER_WORDS + COLUMN_WORDS * columns.length))
  const place = (bytes: number): number => {
    const at = end
    end = align8(at + bytes)
    return at
  }
  for (const column of columns) {
    const nulls = countNulls(column.valid, rows)
    const validity = nulls > 0 ? place((rows + 7) >> 3) : 0
    const offsets = column.kind === KIND.binary ? place(4 * (rows + 1)) : 0
    const dataBytes = column.dataBytes(rows)
    words.push(column.kind, nulls, validity, offsets, place(dataBytes), dataBytes)
  }
  words[4] = end
  const batch = allocate(end, rows)
  new Uint8Array(batch, 0, end).fill(0) // bits are set into zeros, and the gaps are zero
  new Int32Array(batch, 0, words.length).set(words)
  columns.forEach((column, index) => {
    const at = HEADER_WORDS + COLUMN_WORDS * index
    if (words[at + 2]! > 0) packBits(new Uint8Array(batch, words[at + 2]!), column.valid, rows)
    if (words[at + 3]! > 0)
      new Int32Array(batch, words[at + 3]!, rows + 1).set(column.words.subarray(0, rows + 1))
    column.writeData(batch, words[at + 4]!, rows)
  })
  return batch
}
