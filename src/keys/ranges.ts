/** Ranges of a rebuilt segment's columns: the same that the seal put into its SegmentMeta. */
import type { ColumnType } from '../batch/plan.ts'
import type { ColumnRange, SegmentMeta } from './protocol.ts'

/** A stored value; null where it is null. Strings are their UTF-8. */
export type Value = bigint | number | boolean | Uint8Array | null

/** Smallest and largest of a column; undefined where a row is null, or there is no row. */
export type Range = { readonly min: NonNullable<Value>; readonly max: NonNullable<Value> } | undefined

/** The columns that the planner prunes by. */
export interface Ranges {
  readonly received: Range
  readonly timestamp: Range
  readonly timestampIsDate: boolean
  readonly tenant: Range
  readonly tenantType: ColumnType | undefined
}

const DAY_US = 86_400_000_000
/** A tenant longer than this, in UTF-8, has no range (SegmentMeta). */
const TENANT_BYTES_MAX = 64

/** The range of rows [0, rows). */
export function createRange(read: (row: number) => Value, rows: number): Range {
  if (rows === 0) return undefined
  let min = read(0)
  let max = min
  for (let row = 0; row < rows; row++) {
    const value = read(row)
    if (value === null || min === null || max === null) return undefined
    if (compare(value, min) < 0) min = value
    else if (compare(value, max) > 0) max = value
  }
  return min === null || max === null ? undefined : { min, max }
}

function compare(a: NonNullable<Value>, b: NonNullable<Value>): number {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b)
  return a < b ? -1 : a > b ? 1 : 0
}

/** The range fields of a SegmentMeta. */
export function rangeFields(
  ranges: Ranges | undefined,
): Pick<SegmentMeta, 'receivedFromUs' | 'receivedToUs' | 'timestampFromUs' | 'timestampToUs' | 'tenant'> {
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
