/**
 * The segments that a question must read: what its conditions say of time and tenant, compared with
 * the minima and maxima of each segment.
 *
 *   W-8  Pruning keeps a segment when in doubt: it never leaves out a selected row.
 */
import { type PoolSchema, ZONE_TYPES } from '../../format/schema.ts'
import type { SegmentMeta } from '../../format/segment-meta.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { type PoolView, timestampColumn } from '../expression/operand.ts'
import type { Typed } from '../expression/typed.ts'
import type { Bound } from '../expression/values.ts'

const DAY_US = 86_400_000_000

/** The facts by which `prune` leaves out segments. `null`: nothing is known. */
export interface Pruning {
  /** The primary timestamp is not below it, in microseconds since 1970. */
  readonly timeFromUs: number | null
  /** The primary timestamp is below it, in microseconds since 1970. */
  readonly timeToUs: number | null
  readonly tenantEquals: string | null
}

/** Nothing is known: every segment is read. */
export const EVERY_SEGMENT: Pruning = {
  timeFromUs: null,
  timeToUs: null,
  tenantEquals: null,
}

/** What a checked condition says of the rows for which it is true. */
export function pruningOf(view: PoolView, condition: Typed | undefined): Pruning {
  if (condition === undefined) return EVERY_SEGMENT
  return { ...timeOfCondition(view, condition), tenantEquals: tenantOfCondition(view, condition) }
}

/** The tenant of every row, where an equation of the outermost AND names it; else null. */
function tenantOfCondition(view: PoolView, typed: Typed): string | null {
  const tenant = view.columns[view.tenant]
  if (tenant === undefined || !ZONE_TYPES.includes(tenant.type)) return null
  if (typed.op === 'and')
    return typed.operands.reduce<string | null>((found, each) => found ?? tenantOfCondition(view, each), null)
  const [left, right] = typed.operands
  if (typed.op !== '=' || left === undefined || right === undefined) return null
  const [column, value] = left.op === 'column' ? [left, right] : [right, left]
  const isTenant = column.column?.name === tenant.name && value.bound?.type === tenant.type
  return isTenant ? String(value.bound?.value) : null
}

type Range = Pick<Pruning, 'timeFromUs' | 'timeToUs'>

/** The range of the primary timestamp in which every row is. */
function timeOfCondition(view: PoolView, typed: Typed): Range {
  const none = { timeFromUs: null, timeToUs: null }
  if (typed.op === 'and')
    return typed.operands.map(each => timeOfCondition(view, each)).reduce(intersection, none)
  const [column, low, high = low] = typed.operands
  const { name, type } = timestampColumn(view)
  const isPrimary = column?.op === 'column' && column.column?.name === name
  if (!isPrimary || low?.bound?.type !== type || high?.bound?.type !== type) return none
  const [from, to] = [usOf(low.bound), usOf(high.bound)]
  switch (typed.op) {
    case '>':
    case '>=':
      return { timeFromUs: from, timeToUs: null }
    case '<':
      return { timeFromUs: null, timeToUs: to }
    case '<=':
      return { timeFromUs: null, timeToUs: to + 1 }
    case '=':
    case 'between':
      return { timeFromUs: from, timeToUs: to + 1 }
    default:
      return none
  }
}

/** Of a TIMESTAMP, or of the midnight of a DATE. */
function usOf({ type, value }: Bound): number {
  return Number(value) * (type === 'DATE' ? DAY_US : 1)
}

function intersection(a: Range, b: Range): Range {
  const later = (x: number | null, y: number | null) => (x === null || (y !== null && y > x) ? y : x)
  const earlier = (x: number | null, y: number | null) => (x === null || (y !== null && y < x) ? y : x)
  return {
    timeFromUs: later(a.timeFromUs, b.timeFromUs),
    timeToUs: earlier(a.timeToUs, b.timeToUs),
  }
}

/**
 * The segments that a planned query must read: those that may hold a selected row by their meta. A
 * segment without rows has no Parquet file and is left out too.
 */
export function prune(
  schema: PoolSchema,
  pruning: Pruning,
  segments: readonly QuerySegment[],
): readonly QuerySegment[] {
  return segments.filter(
    ({ meta }) =>
      meta.rows > 0 && mayHoldTime(pruning, meta) && mayHoldTenant(schema, pruning.tenantEquals, meta),
  )
}

function mayHoldTime(pruning: Pruning, meta: SegmentMeta): boolean {
  const { timeFromUs: from, timeToUs: to } = pruning
  if (from !== null && meta.timestampToUs !== null && meta.timestampToUs < from) return false
  if (to === null || meta.timestampFromUs === null) return true
  // Microseconds beyond 2^53 (the year 2255) are rounded, so equal numbers may stand for different
  // instants.
  return meta.timestampFromUs < to || (meta.timestampFromUs === to && !Number.isSafeInteger(to))
}

function mayHoldTenant(schema: PoolSchema, tenant: string | null, meta: SegmentMeta): boolean {
  if (tenant === null || meta.tenant === null) return true
  const { min, max } = meta.tenant
  if (schema.columns[schema.tenant]?.type !== 'STRING') {
    const value = BigInt(tenant)
    return value >= BigInt(min) && value <= BigInt(max)
  }
  const value = Buffer.from(tenant, 'utf8')
  return (
    Buffer.compare(value, Buffer.from(min, 'utf8')) >= 0 &&
    Buffer.compare(value, Buffer.from(max, 'utf8')) <= 0
  )
}
