/**
 * The zone map of a segment: smallest and largest value of the columns that the planner prunes by.
 * They are read from the segment's file here, and equal those that the flush put into its
 * SegmentMeta.
 */
import type { Data } from 'apache-arrow'
import type { ColumnType } from './schema.ts'
import type { ColumnRange, SegmentMeta } from './segment-meta.ts'

/** A stored value; null where it is null. Strings are their UTF-8. */
type Value = bigint | number | boolean | Uint8Array | null

/** Smallest and largest of a column; undefined where a row is null, or there is no row. */
type Range = { readonly min: NonNullable<Value>; readonly max: NonNullable<Value> } | undefined

/** The columns that the planner prunes by. */
interface Ranges {
  readonly received: Range
  readonly timestamp: Range
  readonly timestampIsDate: boolean
  readonly tenant: Range
  readonly tenantType: ColumnType | undefined
}

const DAY_US = 86_400_000_000
/** A tenant longer than this, in UTF-8, has no range (SegmentMeta). */
const TENANT_BYTES_MAX = 64

/** The range of a column; undefined where a row is null, or no range of its type is kept. */
export function rangeOf(pieces: readonly Data[], type: ColumnType): Range {
  if (pieces.some(piece => piece.nullCount > 0)) return undefined
  const ranges = pieces.filter(piece => piece.length > 0).map(piece => rangeOfPiece(piece, type))
  let all = ranges[0]
  for (const range of ranges) {
    if (range === undefined || all === undefined) return undefined
    const min = compare(range.min, all.min) < 0 ? range.min : all.min
    const max = compare(range.max, all.max) > 0 ? range.max : all.max
    all = { min, max }
  }
  return all
}

function rangeOfPiece(piece: Data, type: ColumnType): Range {
  const order = orderOf(piece, type)
  if (order === undefined) return undefined
  const [min, max] = minMaxRows(order, piece.length)
  const read = valueReader(piece, type)
  return { min: read(min), max: read(max) }
}

/** The order of a piece's rows; undefined where no range of the type is kept. */
function orderOf(piece: Data, type: ColumnType): RowOrder | undefined {
  switch (type) {
    case 'STRING':
      return textOrder(piece.valueOffsets as Int32Array, piece.values as Uint8Array)
    case 'INT64':
    case 'TIMESTAMP':
      return longOrder(wordsOf(piece))
    case 'INT8':
    case 'INT16':
    case 'INT32':
    case 'DATE':
      return numberOrder(piece.values as Int32Array)
    default:
      return undefined
  }
}

/** Below 0, 0 or above 0, as the value of row `a` is below, equal to or above that of row `b`. */
export type RowOrder = (a: number, b: number) => number

/** The first rows with the smallest and with the largest value. There is at least one row. */
export function minMaxRows(order: RowOrder, rows: number): readonly [min: number, max: number] {
  let [min, max] = [0, 0]
  for (let row = 1; row < rows; row++) {
    if (order(row, min) < 0) min = row
    else if (order(row, max) > 0) max = row
  }
  return [min, max]
}

/** Order of integers of up to 32 bits. */
export function numberOrder(values: ArrayLike<number>): RowOrder {
  return (a, b) => values[a]! - values[b]!
}

/** Order of signed 64-bit integers, compared as halves: a bigint per row would be garbage. */
export function longOrder(words: Int32Array): RowOrder {
  return (a, b) => {
    const high = words[2 * a + 1]! - words[2 * b + 1]!
    return high !== 0 ? high : (words[2 * a]! >>> 0) - (words[2 * b]! >>> 0)
  }
}

/** Order of texts: by bytes, as DuckDB compares strings, then the shorter first. */
export function textOrder(offsets: Int32Array, bytes: Uint8Array): RowOrder {
  return (a, b) => {
    const [from, other] = [offsets[a]!, offsets[b]!]
    const [length, otherLength] = [offsets[a + 1]! - from, offsets[b + 1]! - other]
    const shared = Math.min(length, otherLength)
    for (let i = 0; i < shared; i++) {
      const difference = bytes[from + i]! - bytes[other + i]!
      if (difference !== 0) return difference
    }
    return length - otherLength
  }
}

function compare(a: NonNullable<Value>, b: NonNullable<Value>): number {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b)
  return a < b ? -1 : a > b ? 1 : 0
}

/** 64-bit values as pairs of words, the low one first. */
export function wordsOf({ values }: Data): Int32Array {
  const { buffer, byteOffset, byteLength } = values as ArrayBufferView
  return new Int32Array(buffer as ArrayBuffer, byteOffset, byteLength / 4)
}

/** Reads values of a piece without nulls. Arrow's getters round timestamps to milliseconds. */
export function valueReader(piece: Data, type: ColumnType): (row: number) => NonNullable<Value> {
  if (type === 'STRING' || type === 'JSON') {
    const offsets = piece.valueOffsets as Int32Array
    const bytes = piece.values as Uint8Array
    return row => bytes.subarray(offsets[row], offsets[row + 1])
  }
  const values = piece.values as ArrayLike<number | bigint>
  if (type === 'BOOLEAN') return row => ((Number(values[row >> 3]) >> (row & 7)) & 1) === 1
  return row => values[row]!
}

/** The parts of SegmentMeta that come from values: the planner prunes segments by them. */
export type ZoneMap = Pick<
  SegmentMeta,
  'receivedFromUs' | 'receivedToUs' | 'timestampFromUs' | 'timestampToUs' | 'tenant'
>

/** The zone map of a segment; undefined stands for one without rows. */
export function rangeFields(ranges: Ranges | undefined): ZoneMap {
  if (ranges === undefined)
    return { receivedFromUs: 0, receivedToUs: 0, timestampFromUs: null, timestampToUs: null, tenant: null }
  const { received, timestamp, tenant, tenantType } = ranges
  const unit = ranges.timestampIsDate ? DAY_US : 1
  return {
    receivedFromUs: Number(received?.min ?? 0),
    receivedToUs: Number(received?.max ?? 0),
    timestampFromUs: timestamp === undefined ? null : Number(timestamp.min) * unit,
    timestampToUs: timestamp === undefined ? null : Number(timestamp.max) * unit,
    tenant: tenantRange(tenant, tenantType),
  }
}

function tenantRange(range: Range, type: ColumnType | undefined): ColumnRange | null {
  if (range === undefined) return null
  const { min, max } = range
  if (min instanceof Uint8Array && max instanceof Uint8Array) {
    if (type !== 'STRING' || min.length > TENANT_BYTES_MAX || max.length > TENANT_BYTES_MAX) return null
    return { min: Buffer.from(min).toString(), max: Buffer.from(max).toString() }
  }
  return type?.startsWith('INT') ? { min: String(min), max: String(max) } : null
}
