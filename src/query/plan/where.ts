/**
 * The rows that a question selects: its condition, and what it says for pruning segments.
 *
 * Column names come from the schema, operators from a list, and every text of the caller becomes a
 * value.
 *
 *   filter    ((column operator value) AND all of `and`) OR any of `or`
 *   list      its filters, joined by AND
 *
 * NOT stands only before a single LIKE comparison, so SQL's unknown and false leave out the same
 * rows: nulls match only IS_NULL.
 */

import { FILTER_DEPTH_MAX, FILTERS_MAX } from '../../util/limits.ts'
import { readLike } from '../expression/like-pattern.ts'
import {
  findColumn,
  type PoolView,
  parseInstant,
  parseValue,
  type QueryColumn,
  quoted,
  timestampColumn,
} from '../expression/operand.ts'
import { allOf } from '../expression/select.ts'
import { boundValue, columnOf, operation, type Typed } from '../expression/typed.ts'
import { type BadQuery, type Bound, isBadQuery } from '../expression/values.ts'
import { isGivenText, type PlanContext, planFilterSql } from './plan-context.ts'
import { type Pruning, tenantOf, tenantOfCondition } from './prune-segments.ts'
import { relativeRange } from './relative-time.ts'
import { isTimeZone } from './time-zone.ts'

const DAY_US = 86_400_000_000n
/**
 * 0001-01-01, the first instant of a TIMESTAMP and the zero time of Go, whose clients send it for
 * "no bound".
 */
const ZERO_TIME_US = -62_135_596_800_000_000n

/** Filter operators as the API spells them. */
export const FILTER_OPERATORS = [
  'EQUALS',
  'NOT_EQUALS',
  'GREATER_THAN',
  'GREATER_THAN_OR_EQUAL_TO',
  'LESS_THAN',
  'LESS_THAN_OR_EQUAL_TO',
  'IS_NULL',
  'IS_NOT_NULL',
  'LIKE',
  'NOT_LIKE',
] as const
export type FilterOperator = (typeof FILTER_OPERATORS)[number]

/** ((column operator value) AND all of `and`) OR any of `or`. */
export interface Filter {
  readonly column: string
  readonly operator: FilterOperator
  readonly value?: string | null
  readonly and?: readonly Filter[] | null
  readonly or?: readonly Filter[] | null
}

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
export interface PlannedWhere {
  /** Undefined where every live row is selected. */
  readonly where: Typed | undefined
  readonly pruning: Pruning
  readonly range: RangeBounds
}

/** The instants of a range: from `fromUs` to before `toUs`. `null`: no bound on that side. */
export interface RangeBounds {
  readonly fromUs: bigint | null
  readonly toUs: bigint | null
}

/** Conditions besides those of a question: a metric's own. */
export interface OwnFilters {
  readonly filters: readonly Filter[]
  readonly filterSql: string | null
}

/**
 * What a reader learns of a predefined metric that needs a column which its policy hides: the
 * metric was checked when it was stored, and its texts would name the column.
 */
export const UNSEEN_IN_METRIC: BadQuery = {
  badRequest: 'the metric needs a column that the Data Pool Access Policy of the application hides',
}

/** The rows that an input selects, without its other fields. */
export function selectionOf({
  timeRange = null,
  timeZone = null,
  filters = null,
  filterSql = null,
}: RowSelection): RowSelection {
  return { timeRange, timeZone, filters, filterSql }
}

/** The SQL texts of a selection, which must be parsed before it is planned. */
export function selectionTexts({ filterSql }: Pick<RowSelection, 'filterSql'>): readonly string[] {
  return isGivenText(filterSql) ? [filterSql] : []
}

/** The condition of a selection and its pruning, or BadQuery. All its parts are joined by AND. */
export function planWhere(
  view: PoolView,
  selection: RowSelection,
  context: PlanContext,
  own: OwnFilters = { filters: [], filterSql: null },
): PlannedWhere | BadQuery {
  const range = planTimeRange(view, selection, context)
  if ('badRequest' in range) return range
  if (view.visible !== undefined && isBadQuery(planFilters(view, own.filters))) return UNSEEN_IN_METRIC
  const filters = [...own.filters, ...(selection.filters ?? [])]
  const condition = planFilters(view, filters)
  if (isBadQuery(condition)) return condition
  const conditions = [range.condition, condition]
  let tenantEquals = tenantOf(view, filters)
  const texts = [
    { name: 'the filterSql of the metric', text: own.filterSql, isUnseen: view.visible !== undefined },
    { name: 'filterSql', text: selection.filterSql, isUnseen: false },
  ]
  for (const { name, text, isUnseen } of texts) {
    if (!isGivenText(text)) continue
    const planned = planFilterSql(name, text, view, context)
    if (isBadQuery(planned)) return isUnseen ? UNSEEN_IN_METRIC : planned
    conditions.push(planned)
    tenantEquals ??= tenantOfCondition(view, planned)
  }
  return {
    where: allOf(conditions),
    range: { fromUs: range.fromUs, toUs: range.toUs },
    pruning: {
      timeFromUs: range.fromUs === null ? null : Number(range.fromUs),
      timeToUs: range.toUs === null ? null : Number(range.toUs),
      timeIsPrimary: range.isPrimary,
      tenantEquals,
    },
  }
}

interface PlannedRange extends RangeBounds {
  /** undefined if neither bound is given. */
  readonly condition: Typed | undefined
  readonly isPrimary: boolean
}

/** The zone of a selection. */
export function zoneOf({ timeZone }: Pick<RowSelection, 'timeZone'>): string {
  return timeZone || 'UTC'
}

/** The column that a range is on: the one that it names, else the primary timestamp. */
export function timeColumn(
  view: PoolView,
  { timeRange }: Pick<RowSelection, 'timeRange'>,
): QueryColumn | BadQuery {
  const name = timeRange?.timestamp
  return isGivenText(name) ? rangeColumn(view, name) : primaryColumn(view)
}

/** Start is inclusive, stop exclusive. A row whose timestamp is null is outside of every range. */
function planTimeRange(
  view: PoolView,
  { timeRange = null, timeZone = null }: RowSelection,
  { nowMs }: PlanContext,
): PlannedRange | BadQuery {
  const zone = zoneOf({ timeZone })
  if (!isTimeZone(zone)) return badZone(zone)
  const bounds = rangeBounds(timeRange ?? {}, zone, nowMs)
  if ('badRequest' in bounds) return bounds
  const { from, to } = bounds
  if (!isGivenText(timeRange?.timestamp) && from === null && to === null)
    return { condition: undefined, fromUs: null, toUs: null, isPrimary: true }
  const column = timeColumn(view, { timeRange })
  if ('badRequest' in column) return column
  const condition = allOf([
    from === null ? undefined : side(column, '>=', from),
    to === null ? undefined : side(column, '<', to),
  ])
  const isPrimary = column.name === timestampColumn(view).name
  return { condition, fromUs: from, toUs: to, isPrimary }
}

/** A relative range wins: clients send the zero time beside it. */
function rangeBounds(
  { relative, n, start, stop }: TimeRange,
  zone: string,
  nowMs: number,
): { readonly from: bigint | null; readonly to: bigint | null } | BadQuery {
  if (relative !== null && relative !== undefined) return relativeRange(relative, n ?? null, zone, nowMs)
  const from = bound('start', start)
  if (from !== null && typeof from !== 'bigint') return from
  const to = bound('stop', stop)
  if (to !== null && typeof to !== 'bigint') return to
  return { from, to }
}

/** The primary timestamp, which a reader may not see. */
function primaryColumn(view: PoolView): QueryColumn | BadQuery {
  const column = timestampColumn(view)
  if (!('badRequest' in findColumn(view, column.name))) return column
  return { badRequest: 'timeRange.timestamp: it must be given, because there is no primary timestamp' }
}

/** The zone has no effect on absolute ranges of a counter, and is refused all the same. */
export function badZone(zone: string): BadQuery {
  return { badRequest: `timeZone ${quoted(zone)} is not an IANA time zone` }
}

function rangeColumn(view: PoolView, name: string): QueryColumn | BadQuery {
  const column = findColumn(view, name)
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
function side(column: QueryColumn, operator: '>=' | '<', us: bigint): Typed {
  const bound =
    column.type === 'DATE'
      ? ({ type: 'DATE', value: String(ceilDays(us)) } as const)
      : ({ type: 'TIMESTAMP', value: String(us) } as const)
  return comparison(column, operator, bound)
}

function comparison(column: QueryColumn, operator: string, bound: Bound): Typed {
  return operation(operator, 'boolean', [columnOf(column), boundValue(bound)])
}

function ceilDays(us: bigint): bigint {
  const days = us / DAY_US
  return us > 0n && us % DAY_US !== 0n ? days + 1n : days
}

const COMPARISON = {
  EQUALS: '=',
  NOT_EQUALS: '<>',
  GREATER_THAN: '>',
  GREATER_THAN_OR_EQUAL_TO: '>=',
  LESS_THAN: '<',
  LESS_THAN_OR_EQUAL_TO: '<=',
} as const satisfies Partial<Record<FilterOperator, string>>

/** The condition of a list of filters, undefined for an empty list; or BadQuery. */
export function planFilters(view: PoolView, filters: readonly Filter[]): Typed | undefined | BadQuery {
  const bad = checkSize(filters)
  if (bad !== undefined) return bad
  const conditions = planEach(view, filters)
  return isBadQuery(conditions) ? conditions : allOf(conditions)
}

/** Checks number and depth first, so that the planning may recurse. */
function checkSize(filters: readonly Filter[]): BadQuery | undefined {
  let level = filters
  let count = 0
  for (let depth = 1; level.length > 0; depth++) {
    count += level.length
    if (depth > FILTER_DEPTH_MAX) return { badRequest: `filters nest deeper than ${FILTER_DEPTH_MAX}` }
    if (count > FILTERS_MAX) return { badRequest: `a query takes at most ${FILTERS_MAX} filters` }
    level = level.flatMap(filter => [...(filter.and ?? []), ...(filter.or ?? [])])
  }
  return undefined
}

function planOne(view: PoolView, filter: Filter): Typed | BadQuery {
  const own = condition(view, filter)
  if (isBadQuery(own)) return own
  const and = planEach(view, filter.and ?? [])
  if (isBadQuery(and)) return and
  const or = planEach(view, filter.or ?? [])
  if (isBadQuery(or)) return or
  return joined('or', [joined('and', [own, ...and]), ...or])
}

function planEach(view: PoolView, filters: readonly Filter[]): readonly Typed[] | BadQuery {
  const conditions: Typed[] = []
  for (const filter of filters) {
    const planned = planOne(view, filter)
    if (isBadQuery(planned)) return planned
    conditions.push(planned)
  }
  return conditions
}

function joined(op: 'and' | 'or', conditions: readonly [Typed, ...Typed[]]): Typed {
  return conditions.length > 1 ? operation(op, 'boolean', conditions) : conditions[0]
}

function condition(view: PoolView, filter: Filter): Typed | BadQuery {
  const { operator } = filter
  const column = findColumn(view, filter.column)
  if ('badRequest' in column) return column
  if (!FILTER_OPERATORS.includes(operator))
    return { badRequest: `there is no operator ${quoted(String(operator))}` }
  const value = filter.value ?? null
  if (operator === 'IS_NULL' || operator === 'IS_NOT_NULL') {
    if (value !== null && value !== '')
      return { badRequest: `column ${quoted(column.name)}: ${operator} takes no value` }
    const op = operator === 'IS_NULL' ? 'is_null' : 'is_not_null'
    return operation(op, 'boolean', [columnOf(column)])
  }
  if (value === null) return { badRequest: `column ${quoted(column.name)}: ${operator} needs a value` }
  if (operator === 'LIKE' || operator === 'NOT_LIKE') return compareLike(column, operator, value)
  return compare(column, operator, value)
}

function compare(column: QueryColumn, operator: keyof typeof COMPARISON, value: string): Typed | BadQuery {
  const where = `column ${quoted(column.name)}`
  if (column.type === 'JSON' && operator !== 'EQUALS' && operator !== 'NOT_EQUALS')
    return { badRequest: `${where}: ${operator} is not for JSON columns` }
  if (column.type === 'JSON' && value.trim() === 'null')
    return { badRequest: `${where}: JSON null is null, use IS_NULL or IS_NOT_NULL` }
  const bound = parseValue(column.type, value)
  if ('badRequest' in bound) return { badRequest: `${where}: ${bound.badRequest}` }
  return comparison(column, COMPARISON[operator], bound)
}

function compareLike(column: QueryColumn, operator: 'LIKE' | 'NOT_LIKE', pattern: string): Typed | BadQuery {
  const where = `column ${quoted(column.name)}`
  if (column.type !== 'STRING') return { badRequest: `${where}: ${operator} is for STRING columns` }
  const bound = parseValue('STRING', pattern)
  const read = 'badRequest' in bound ? bound : readLike(pattern)
  if ('badRequest' in read) return { badRequest: `${where}: ${read.badRequest}` }
  const like = operation('like', 'boolean', [columnOf(column)], { word: pattern })
  return operator === 'LIKE' ? like : operation('not', 'boolean', [like])
}
