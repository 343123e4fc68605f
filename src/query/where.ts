/**
 * Which rows a question selects: the WHERE of its statement, and the segments that can hold such
 * rows.
 *
 *   W-8  Pruning keeps a segment when in doubt: it never leaves out a selected row.
 */
import type { ColumnType, PoolSchema } from '../format/schema.ts'
import type { SegmentMeta } from '../format/segment-meta.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { quoteName } from '../util/sql.ts'
import { type Filter, planFilters } from './filter.ts'
import {
  type Binder,
  findColumn,
  parseInstant,
  parseValue,
  type QueryColumn,
  quoted,
  timestampColumn,
} from './operand.ts'
import type { BadQuery, Pruning } from './query-types.ts'

/** Types of tenant columns whose zone map `prune` can compare. */
const TENANT_TYPES: readonly ColumnType[] = ['STRING', 'INT8', 'INT16', 'INT32', 'INT64']
const DAY_US = 86_400_000_000n
/**
 * 0001-01-01, the first instant of a TIMESTAMP and the zero time of Go, whose clients send it for
 * "no bound".
 */
const ZERO_TIME_US = -62_135_596_800_000_000n

/** The rows that a question selects, as the API gives them. Absent and null mean the same. */
export interface RowSelection {
  readonly timeRange?: TimeRange | null
  readonly timeZone?: string | null
  readonly filters?: readonly Filter[] | null
  readonly filterSql?: string | null
}

/** As the API gives it. Absent and null mean the same. */
export interface TimeRange {
  readonly timestamp?: string | null
  readonly relative?: string | null
  readonly n?: number | null
  readonly start?: string | null
  readonly stop?: string | null
}

/** The rows of a statement. */
interface PlannedWhere {
  /** ` WHERE …`, '' if every live row is selected. Its values are in the binder. */
  readonly where: string
  readonly pruning: Pruning
}

/** The WHERE of a selection and its pruning, or BadQuery. */
export function planWhere(
  schema: PoolSchema,
  selection: RowSelection,
  binder: Binder,
): PlannedWhere | BadQuery {
  const { timeRange, timeZone, filters } = selection
  if ((selection.filterSql ?? '').trim() !== '')
    return { badRequest: 'filterSql is not supported by this version; use filters.' }
  const badZone = timeZone ? checkTimeZone(timeZone) : undefined
  if (badZone !== undefined) return badZone
  const range = planTimeRange(schema, timeRange ?? {}, binder)
  if ('badRequest' in range) return range
  const condition = planFilters(schema, filters ?? [], binder)
  if (typeof condition !== 'string') return condition
  const where = [range.condition, condition].filter(part => part !== '').join(' AND ')
  return {
    where: where === '' ? '' : ` WHERE ${where}`,
    pruning: {
      timeFromUs: range.fromUs === null ? null : Number(range.fromUs),
      timeToUs: range.toUs === null ? null : Number(range.toUs),
      timeIsPrimary: range.isPrimary,
      tenantEquals: tenantOf(schema, filters ?? []),
    },
  }
}

/** `null`: no bound on that side. */
interface PlannedRange {
  /** '' if neither bound is given. */
  readonly condition: string
  readonly fromUs: bigint | null
  readonly toUs: bigint | null
  readonly isPrimary: boolean
}

/** Start is inclusive, stop exclusive. A row whose timestamp is null is outside of every range. */
function planTimeRange(schema: PoolSchema, range: TimeRange, binder: Binder): PlannedRange | BadQuery {
  if (range.relative !== null && range.relative !== undefined)
    return {
      badRequest: `timeRange.relative ${quoted(range.relative)} is not built yet: give start and stop`,
    }
  const column = rangeColumn(schema, range.timestamp)
  if ('badRequest' in column) return column
  const from = bound('start', range.start)
  if (from !== null && typeof from !== 'bigint') return from
  const to = bound('stop', range.stop)
  if (to !== null && typeof to !== 'bigint') return to
  const parts: string[] = []
  if (from !== null) parts.push(side(column, '>=', from, binder))
  if (to !== null) parts.push(side(column, '<', to, binder))
  const isPrimary = column.name === timestampColumn(schema).name
  return { condition: parts.join(' AND '), fromUs: from, toUs: to, isPrimary }
}

/** BadQuery if `zone` is not an IANA time zone. The zone has no effect on absolute ranges. */
function checkTimeZone(zone: string): BadQuery | undefined {
  try {
    // A newer Intl accepts offsets such as +05:00, which are not IANA zones.
    if (/^[A-Za-z]/.test(zone)) {
      new Intl.DateTimeFormat('en', { timeZone: zone })
      return undefined
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
  }
  return { badRequest: `timeZone ${quoted(zone)} is not an IANA time zone` }
}

function rangeColumn(schema: PoolSchema, name: string | null | undefined): QueryColumn | BadQuery {
  if (name === null || name === undefined || name === '') return timestampColumn(schema)
  const column = findColumn(schema, name)
  if ('badRequest' in column) return { badRequest: `timeRange.timestamp: ${column.badRequest}` }
  if (column.type === 'TIMESTAMP' || column.type === 'DATE') return column
  return { badRequest: `timeRange.timestamp: ${quoted(name)} is neither TIMESTAMP nor DATE` }
}

function bound(side: 'start' | 'stop', text: string | null | undefined): bigint | null | BadQuery {
  if (text === null || text === undefined) return null
  const us = parseInstant(text)
  if (us === undefined) return { badRequest: `timeRange.${side}: ${quoted(text)} is not a time` }
  return us === ZERO_TIME_US ? null : us
}

/**
 * A DATE is the instant of its midnight: midnight(d) >= x equals d >= ceil(x in days), and the same
 * with `<`.
 */
function side(column: QueryColumn, operator: '>=' | '<', us: bigint, binder: Binder): string {
  const left = quoteName(column.name)
  if (column.type !== 'DATE')
    return `${left} ${operator} ${binder.bind({ type: 'TIMESTAMP', value: String(us) })}`
  return `${left} ${operator} ${binder.bind({ type: 'DATE', value: String(ceilDays(us)) })}`
}

function ceilDays(us: bigint): bigint {
  const days = us / DAY_US
  return us > 0n && us % DAY_US !== 0n ? days + 1n : days
}

/**
 * The tenant that every selected row has, if an EQUALS in the outermost conjunction names it; else
 * null.
 */
function tenantOf(schema: PoolSchema, filters: readonly Filter[]): string | null {
  const tenant = schema.columns[schema.tenant]
  if (tenant === undefined || !TENANT_TYPES.includes(tenant.type)) return null
  for (const filter of filters) {
    if ((filter.or ?? []).length > 0) continue
    if (filter.column === tenant.name && filter.operator === 'EQUALS') {
      const bound = parseValue(tenant.type, filter.value ?? '')
      if (!('badRequest' in bound)) return String(bound.value)
    }
    const inner = tenantOf(schema, filter.and ?? [])
    if (inner !== null) return inner
  }
  return null
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
  if (!pruning.timeIsPrimary) return true
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
