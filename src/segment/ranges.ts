/** Smallest and largest values of a new segment, for the manifest: the planner prunes by them. */
import { FIRST_PLAN_COLUMN, KIND_OF_TYPE, WIDTH_OF_KIND } from '../batch/layout.ts'
import type { Plan } from '../batch/plan.ts'
import type { ColumnRange } from '../keys/protocol.ts'
import { PLACE_WORDS, PLACES_FIRST_COLUMN } from './assembler.ts'
import type { StreamLayout } from './stream.ts'

/** A tenant longer than this, in UTF-8, has no range. */
const TENANT_BYTES_MAX = 64
const DAY_US = 86_400_000_000

/** The parts of SegmentMeta that come from values. */
export interface Ranges {
  readonly receivedFromUs: number
  readonly receivedToUs: number
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  readonly tenant: ColumnRange | null
}

/** Ranges of the rows in `stream`, which `layout` describes; at least one row. */
export function rangesOf(
  plan: Plan,
  rows: number,
  sums: Float64Array,
  stream: Uint8Array,
  layout: StreamLayout,
): Ranges {
  const column = (index: number) => {
    const batchColumn = FIRST_PLAN_COLUMN + index
    const place = PLACES_FIRST_COLUMN + PLACE_WORDS * batchColumn
    return {
      nulls: sums[2 * batchColumn]!,
      offsets: layout.places[place + 1]!,
      data: layout.places[place + 2]!,
    }
  }
  const received = integerRange(stream, layout.places[0]!, rows, 8)
  const base = { receivedFromUs: Number(received.min), receivedToUs: Number(received.max) }
  const stamp = plan.timestamp < 0 ? received : timestampRange(plan, rows, stream, column(plan.timestamp))
  const tenant = plan.tenant < 0 ? null : tenantRange(plan, rows, stream, column(plan.tenant))
  return {
    ...base,
    timestampFromUs: stamp === null ? null : Number(stamp.min),
    timestampToUs: stamp === null ? null : Number(stamp.max),
    tenant,
  }
}

interface Buffers {
  readonly nulls: number
  readonly offsets: number
  readonly data: number
}

interface IntegerRange {
  readonly min: bigint
  readonly max: bigint
}

function timestampRange(plan: Plan, rows: number, stream: Uint8Array, at: Buffers): IntegerRange | null {
  if (at.nulls > 0) return null
  const isDate = plan.columns[plan.timestamp]!.type === 'DATE'
  const range = integerRange(stream, at.data, rows, isDate ? 4 : 8)
  const unit = isDate ? BigInt(DAY_US) : 1n
  return { min: range.min * unit, max: range.max * unit }
}

function tenantRange(plan: Plan, rows: number, stream: Uint8Array, at: Buffers): ColumnRange | null {
  const type = plan.columns[plan.tenant]!.type
  if (at.nulls > 0) return null
  if (type === 'STRING') return textRange(stream, at, rows)
  if (type !== 'INT8' && type !== 'INT16' && type !== 'INT32' && type !== 'INT64') return null
  const range = integerRange(stream, at.data, rows, WIDTH_OF_KIND[KIND_OF_TYPE[type]])
  return { min: String(range.min), max: String(range.max) }
}

/** Of signed integers. 64-bit ones are compared as halves: no BigInt per row. */
function integerRange(stream: Uint8Array, data: number, rows: number, width: number): IntegerRange {
  const view = new DataView(stream.buffer, stream.byteOffset + data, rows * width)
  if (width < 8) {
    const read = (row: number) =>
      width === 1
        ? view.getInt8(row)
        : width === 2
          ? view.getInt16(2 * row, true)
          : view.getInt32(4 * row, true)
    let [min, max] = [read(0), read(0)]
    for (let row = 1; row < rows; row++) {
      const value = read(row)
      if (value < min) min = value
      if (value > max) max = value
    }
    return { min: BigInt(min), max: BigInt(max) }
  }
  let [least, most] = [0, 0]
  for (let row = 1; row < rows; row++) {
    if (compare64(view, row, least) < 0) least = row
    else if (compare64(view, row, most) > 0) most = row
  }
  return { min: view.getBigInt64(8 * least, true), max: view.getBigInt64(8 * most, true) }
}

function compare64(view: DataView, a: number, b: number): number {
  const high = view.getInt32(8 * a + 4, true) - view.getInt32(8 * b + 4, true)
  return high !== 0 ? high : view.getUint32(8 * a, true) - view.getUint32(8 * b, true)
}

/** By bytes, as DuckDB compares strings; null where either end is long. */
function textRange(stream: Uint8Array, at: Buffers, rows: number): ColumnRange | null {
  const offsets = new Int32Array(stream.buffer, stream.byteOffset + at.offsets, rows + 1)
  const data = Buffer.from(stream.buffer, stream.byteOffset + at.data, offsets[rows]!)
  let [least, most] = [0, 0]
  for (let row = 1; row < rows; row++) {
    if (compareText(data, offsets, row, least) < 0) least = row
    else if (compareText(data, offsets, row, most) > 0) most = row
  }
  const text = (row: number) => data.subarray(offsets[row], offsets[row + 1])
  if (text(least).length > TENANT_BYTES_MAX || text(most).length > TENANT_BYTES_MAX) return null
  return { min: text(least).toString(), max: text(most).toString() }
}

function compareText(data: Uint8Array, offsets: Int32Array, a: number, b: number): number {
  let [i, j] = [offsets[a]!, offsets[b]!]
  const [iEnd, jEnd] = [offsets[a + 1]!, offsets[b + 1]!]
  for (; i < iEnd && j < jEnd; i++, j++) {
    const order = data[i]! - data[j]!
    if (order !== 0) return order
  }
  return iEnd - i - (jEnd - j)
}
