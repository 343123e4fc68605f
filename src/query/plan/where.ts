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
  exactColumn,
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
import { type Bound, partOf, Refused, reworded } from '../expression/values.ts'
import { isGivenText, type PlanContext, planFilterSql } from './plan-context.ts'
import { type Pruning, pruningOf } from './prune-segments.ts'
import { relativeRange } from './relative-time.ts'
import { firstDay, isTimeZone } from './time-zone.ts'

const DAY_US = 86_400_000_000n
/** 0001-01-01, the first TIMESTAMP and Go's zero time, which its clients send for "no bound". */
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
 * Plans a part of a predefined metric. Where the policy of a reader hides columns, a Refused does
 * not say why: the metric was checked when it was stored, and its texts would name the column.
 */
export function planStored<T>(view: PoolView, plan: () => T): T {
  if (view.visible === undefined) return plan()
  return reworded(
    plan,
    () => 'the metric needs a column that the Data Pool Access Policy of the application hides',
  )
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

/** The condition of a selection, whose parts are joined by AND, and its pruning. Throws Refused. */
export function planWhere(
  view: PoolView,
  selection: RowSelection,
  context: PlanContext,
  own: OwnFilters = { filters: [], filterSql: null },
): PlannedWhere {
  const range = planTimeRange(view, selection, context)
  if (view.visible !== undefined) planStored(view, () => planFilters(view, own.filters))
  const filters = [...own.filters, ...(selection.filters ?? [])]
  const condition = planFilters(view, filters)
  const sql = (name: string, text: string | null | undefined) =>
    isGivenText(text) ? planFilterSql(name, text, view, context) : undefined
  const texts = [
    planStored(view, () => sql('the filterSql of the metric', own.filterSql)),
    sql('filterSql', selection.filterSql),
  ]
  const where = allOf([range.condition, condition, ...texts])
  return { where, range, pruning: pruningOf(view, where) }
}

export function zoneOf({ timeZone }: Pick<RowSelection, 'timeZone'>): string {
  return timeZone || 'UTC'
}

/** The column that a range is on: the one that it names, else the primary timestamp. */
export function timeColumn(view: PoolView, { timeRange }: Pick<RowSelection, 'timeRange'>): QueryColumn {
  const name = timeRange?.timestamp
  return isGivenText(name) ? rangeColumn(view, name) : primaryColumn(view)
}

/**
 * Start is inclusive, stop exclusive. A row whose timestamp is null is outside of every range that
 * has one of them.
 */
function planTimeRange(
  view: PoolView,
  { timeRange = null, timeZone = null }: RowSelection,
  { nowMs }: PlanContext,
): RangeBounds & { readonly condition: Typed | undefined } {
  const zone = zoneOf({ timeZone })
  if (!isTimeZone(zone)) throw badZone(zone)
  const { from, to } = rangeBounds(timeRange ?? {}, zone, nowMs)
  if (!isGivenText(timeRange?.timestamp) && from === null && to === null)
    return { condition: undefined, fromUs: null, toUs: null }
  const column = timeColumn(view, { timeRange })
  const condition = allOf([
    from === null ? undefined : side(column, '>=', from, zone),
    to === null ? undefined : side(column, '<', to, zone),
  ])
  return { condition, fromUs: from, toUs: to }
}

/** A relative range wins: clients send the zero time beside it. */
function rangeBounds(
  { relative, n, start, stop }: TimeRange,
  zone: string,
  nowMs: number,
): { readonly from: bigint | null; readonly to: bigint | null } {
  if (relative !== null && relative !== undefined) return relativeRange(relative, n ?? null, zone, nowMs)
  return { from: bound('start', start), to: bound('stop', stop) }
}

/** The primary timestamp, which a reader may not see. */
function primaryColumn(view: PoolView): QueryColumn {
  const column = exactColumn(view, timestampColumn(view).name)
  if (column !== undefined) return column
  throw new Refused('timeRange.timestamp: it must be given, because there is no primary timestamp')
}

/** The zone has no effect on an absolute range of a TIMESTAMP, and is refused all the same. */
export function badZone(zone: string): Refused {
  return new Refused(`timeZone ${quoted(zone)} is not an IANA time zone`)
}

function rangeColumn(view: PoolView, name: string): QueryColumn {
  return partOf('timeRange.timestamp', () => {
    const column = findColumn(view, name)
    if (column.type === 'TIMESTAMP' || column.type === 'DATE') return column
    throw new Refused(`${quoted(name)} is neither TIMESTAMP nor DATE`)
  })
}

function bound(side: 'start' | 'stop', text: string | null | undefined): bigint | null {
  if (text === null || text === undefined) return null
  const us = parseInstant(text)
  if (us === undefined) throw new Refused(`timeRange.${side}: ${quoted(text)} is not a time`)
  return us === ZERO_TIME_US ? null : us
}

/**
 * A DATE is the first instant of its day on the clock of the zone: begin(d) >= x equals
 * d >= firstDay(x), and the same with `<`.
 */
function side(column: QueryColumn, operator: '>=' | '<', us: bigint, zone: string): Typed {
  const bound =
    column.type === 'DATE'
      ? ({ type: 'DATE', value: String(zone === 'UTC' ? ceilDays(us) : firstDay(us, zone)) } as const)
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

/** The condition of a list of filters, undefined for an empty list. Throws Refused. */
export function planFilters(view: PoolView, filters: readonly Filter[]): Typed | undefined {
  checkSize(filters)
  return allOf(filters.map(filter => planOne(view, filter)))
}

/** Checks number and depth first, so that the planning may recurse. */
function checkSize(filters: readonly Filter[]): void {
  let level = filters
  let count = 0
  for (let depth = 1; level.length > 0; depth++) {
    count += level.length
    if (depth > FILTER_DEPTH_MAX) throw new Refused(`filters nest deeper than ${FILTER_DEPTH_MAX}`)
    if (count > FILTERS_MAX) throw new Refused(`a query takes at most ${FILTERS_MAX} filters`)
    level = level.flatMap(filter => [...(filter.and ?? []), ...(filter.or ?? [])])
  }
}

function planOne(view: PoolView, filter: Filter): Typed {
  const own = condition(view, filter)
  const and = (filter.and ?? []).map(each => planOne(view, each))
  const or = (filter.or ?? []).map(each => planOne(view, each))
  return joined('or', [joined('and', [own, ...and]), ...or])
}

function joined(op: 'and' | 'or', conditions: readonly [Typed, ...Typed[]]): Typed {
  return conditions.length > 1 ? operation(op, 'boolean', conditions) : conditions[0]
}

function condition(view: PoolView, filter: Filter): Typed {
  const { operator } = filter
  const column = findColumn(view, filter.column)
  if (!FILTER_OPERATORS.includes(operator))
    throw new Refused(`there is no operator ${quoted(String(operator))}`)
  const value = filter.value ?? null
  if (operator === 'IS_NULL' || operator === 'IS_NOT_NULL') {
    if (value !== null && value !== '')
      throw new Refused(`column ${quoted(column.name)}: ${operator} takes no value`)
    const op = operator === 'IS_NULL' ? 'is_null' : 'is_not_null'
    return operation(op, 'boolean', [columnOf(column)])
  }
  if (value === null) throw new Refused(`column ${quoted(column.name)}: ${operator} needs a value`)
  return partOf(`column ${quoted(column.name)}`, () =>
    operator === 'LIKE' || operator === 'NOT_LIKE'
      ? compareLike(column, operator, value)
      : compare(column, operator, value),
  )
}

function compare(column: QueryColumn, operator: keyof typeof COMPARISON, value: string): Typed {
  if (column.type === 'JSON' && operator !== 'EQUALS' && operator !== 'NOT_EQUALS')
    throw new Refused(`${operator} is not for JSON columns`)
  if (column.type === 'JSON' && value.trim() === 'null')
    throw new Refused('JSON null is null, use IS_NULL or IS_NOT_NULL')
  return comparison(column, COMPARISON[operator], parseValue(column.type, value, column.roundsEpochs))
}

function compareLike(column: QueryColumn, operator: 'LIKE' | 'NOT_LIKE', pattern: string): Typed {
  if (column.type !== 'STRING') throw new Refused(`${operator} is for STRING columns`)
  parseValue('STRING', pattern)
  readLike(pattern)
  const like = operation('like', 'boolean', [columnOf(column)], { word: pattern })
  return operator === 'LIKE' ? like : operation('not', 'boolean', [like])
}
