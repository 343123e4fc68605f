/**
 * A batch: the accepted rows of one or more requests as columns, in one buffer that passes between
 * threads whole. batch.md has its bytes, which both kernels write exactly.
 */
import { EVENTS_MAX } from '../util/limits.ts'
import { COLUMN_TYPE, type ColumnType, type PoolSchema } from './schema.ts'

/** Its own memory, or shared memory that is used again (parse/batch-buffers.ts) and is longer. */
export type BatchBuffer = ArrayBuffer | SharedArrayBuffer

export const BATCH_MAGIC = 0x54414257
export const BATCH_VERSION = 1
export const HEADER_WORDS = 6
export const COLUMN_WORDS = 6
export const PAYLOAD_COLUMN = 0
export const KEY_COLUMN = 1
export const FIRST_SCHEMA_COLUMN = 2

/** The kind of values in a column's buffers. The numbers are part of the layout. */
export const KIND = {
  binary: 1,
  bool: 2,
  i8: 3,
  i16: 4,
  i32: 5,
  i64: 6,
  f32: 7,
  f64: 8,
} as const

export type Kind = (typeof KIND)[keyof typeof KIND]

/** Bytes a row of each kind takes; 0 for bits and variable width. */
export const WIDTH_OF_KIND: Readonly<Record<Kind, number>> = {
  [KIND.binary]: 0,
  [KIND.bool]: 0,
  [KIND.i8]: 1,
  [KIND.i16]: 2,
  [KIND.i32]: 4,
  [KIND.i64]: 8,
  [KIND.f32]: 4,
  [KIND.f64]: 8,
}

/** The layout's kind of a column type. */
export function kindOf(type: ColumnType): Kind {
  return KIND[COLUMN_TYPE[type].kind]
}

/** Bytes of a value in a batch and in Arrow; 0 for bits and for a variable width. */
export function valueBytes(type: ColumnType): number {
  return WIDTH_OF_KIND[kindOf(type)]
}

/** Rows of a batch. */
export function batchRows(batch: BatchBuffer): number {
  return new Int32Array(batch, 0, HEADER_WORDS)[2]!
}

/** Columns of a batch, payload and key included. */
export function batchColumns(batch: BatchBuffer): number {
  return new Int32Array(batch, 0, HEADER_WORDS)[3]!
}

/** Bytes of a batch; its memory may be longer. */
export function batchBytes(batch: BatchBuffer): number {
  return new Int32Array(batch, 0, HEADER_WORDS)[4]!
}

/** Bytes that a batch of `columns` columns takes, however few its rows: header words and gaps. */
export function batchFixedBytes(columns: number): number {
  return columns * (4 * COLUMN_WORDS + 3 * 8)
}

export type ColumnView = Readonly<ReturnType<typeof columnView>>

/** The places of a column's buffers, in bytes from the batch's start. Its header has them. */
export function columnView(batch: BatchBuffer, index: number) {
  const words = new Int32Array(batch, 4 * (HEADER_WORDS + COLUMN_WORDS * index), COLUMN_WORDS)
  return {
    kind: words[0]! as Kind,
    nulls: words[1]!,
    validityOffset: words[2]!,
    offsetsOffset: words[3]!,
    dataOffset: words[4]!,
    dataBytes: words[5]!,
  }
}

/** The next multiple of 8. */
export function align8(bytes: number): number {
  return (bytes + 7) & ~7
}

/** Upper bounds for the size of a body's batch; they depend on the schema alone. */
export interface BatchCost {
  /** Bytes of a batch, however few its rows: header words and gaps. */
  readonly fixedBytes: number
  /** Bytes of a row beside those copied from its body: numbers, offsets, bits and key parts. */
  readonly rowBytes: number
  /** The most copies of a byte of the body: payload, key, and columns that read the value. */
  readonly copies: number
}

/** A key part's tag and its bytes where it is not text (key.ts). */
const KEY_PART_BYTES = 16

/** Computes the bounds for a schema. Callers keep them with the schema. */
export function batchCostOf(schema: PoolSchema): BatchCost {
  // Payload and key have an offset of 4 bytes each.
  let rowBytes = 4 + 4 + KEY_PART_BYTES * (schema.key?.columns.length ?? 0)
  const readers = new Map<string, number>()
  for (const { type, jsonProperty, path = jsonProperty.split('.') } of schema.columns) {
    const kind = kindOf(type)
    rowBytes += (kind === KIND.binary ? 4 : WIDTH_OF_KIND[kind]) + 1 / 8
    if (kind === KIND.bool) rowBytes += 1 / 8
    const steps = JSON.stringify(path)
    if (kind === KIND.binary) readers.set(steps, (readers.get(steps) ?? 0) + 1)
  }
  // A value at `a.b` or `a[0]` is part of the value at `a`: columns read the same bytes only along
  // such a path.
  let columnCopies = 0
  for (const steps of readers.keys()) {
    const path = JSON.parse(steps) as readonly (string | number)[]
    let copies = 0
    for (let length = 1; length <= path.length; length += 1)
      copies += readers.get(JSON.stringify(path.slice(0, length))) ?? 0
    columnCopies = Math.max(columnCopies, copies)
  }
  return {
    fixedBytes: batchFixedBytes(FIRST_SCHEMA_COLUMN + schema.columns.length),
    rowBytes: Math.ceil(rowBytes),
    copies: 1 + columnCopies + (schema.key?.columns.length ?? 0),
  }
}

/** The most bytes of a body's batch. A body of n bytes holds at most n / 3 + 1 events: `{},`. */
export function batchBytesMax(
  cost: BatchCost,
  bodyBytes: number,
  events = Math.min(EVENTS_MAX, Math.floor(bodyBytes / 3) + 1),
): number {
  return cost.fixedBytes + cost.rowBytes * events + cost.copies * bodyBytes
}
