/**
 * The rows that a question selects: the WHERE of its statement, and the segments that can hold such
 * rows.
 *
 * Column names come from the schema and are quoted, values are bound, operators come from a list.
 * No text of the caller stands in the SQL.
 *
 *   filter    ((column operator value) AND all of `and`) OR any of `or`
 *   list      its filters, joined by AND
 *
 * NOT stands only before a single LIKE comparison, so SQL's unknown and false leave out the same
 * rows: nulls match only IS_NULL.
 *
 *   W-8  Pruning keeps a segment when in doubt: it never leaves out a selected row.
 */
import type { ColumnType, PoolSchema } from '../format/schema.ts'
import type { SegmentMeta } from '../format/segment-meta.ts'
import type { QuerySegment } from '../index/index-types.ts'
import {
  FILTER_DEPTH_MAX,
  FILTERS_MAX,
  LIKE_PATTERN_CHARACTERS_MAX,
  LIKE_PATTERNS_MAX,
} from '../util/limits.ts'
import { quoteName } from '../util/sql.ts'
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

const COMPARISON: Partial<Record<FilterOperator, string>> = {
  EQUALS: '=',
  NOT_EQUALS: '<>',
  GREATER_THAN: '>',
  GREATER_THAN_OR_EQUAL_TO: '>=',
  LESS_THAN: '<',
  LESS_THAN_OR_EQUAL_TO: '<=',
}

/** The condition of a list of filters, '' for an empty list; or BadQuery. */
function planFilters(schema: PoolSchema, filters: readonly Filter[], binder: Binder): string | BadQuery {
  const bad = checkSize(filters)
  return bad ?? joinAll(filters, ' AND ', filter => planOne(schema, filter, binder))
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

function joinAll(
  filters: readonly Filter[],
  by: string,
  planEach: (filter: Filter) => string | BadQuery,
): string | BadQuery {
  const parts: string[] = []
  for (const filter of filters) {
    const part = planEach(filter)
    if (typeof part !== 'string') return part
    parts.push(part)
  }
  return parts.join(by)
}

function planOne(schema: PoolSchema, filter: Filter, binder: Binder): string | BadQuery {
  const own = condition(schema, filter, binder)
  if (typeof own !== 'string') return own
  const and = joinAll(filter.and ?? [], ' AND ', each => planOne(schema, each, binder))
  if (typeof and !== 'string') return and
  const or = joinAll(filter.or ?? [], ' OR ', each => planOne(schema, each, binder))
  if (typeof or !== 'string') return or
  const all = and === '' ? own : `(${own} AND ${and})`
  return or === '' ? all : `(${all} OR ${or})`
}

function condition(schema: PoolSchema, filter: Filter, binder: Binder): string | BadQuery {
  const { operator } = filter
  const column = findColumn(schema, filter.column)
  if ('badRequest' in column) return column
  if (!FILTER_OPERATORS.includes(operator))
    return { badRequest: `there is no operator ${quoted(String(operator))}` }
  const value = filter.value ?? null
  if (operator === 'IS_NULL' || operator === 'IS_NOT_NULL') {
    if (value !== null && value !== '')
      return { badRequest: `column ${quoted(column.name)}: ${operator} takes no value` }
    return `${quoteName(column.name)} ${operator === 'IS_NULL' ? 'IS NULL' : 'IS NOT NULL'}`
  }
  if (value === null) return { badRequest: `column ${quoted(column.name)}: ${operator} needs a value` }
  return compare(column, operator, value, binder)
}

function compare(
  column: QueryColumn,
  operator: FilterOperator,
  value: string,
  binder: Binder,
): string | BadQuery {
  const where = `column ${quoted(column.name)}`
  if (operator === 'LIKE' || operator === 'NOT_LIKE') return compareLike(column, operator, value, binder)
  if (column.type === 'JSON' && operator !== 'EQUALS' && operator !== 'NOT_EQUALS')
    return { badRequest: `${where}: ${operator} is not for JSON columns` }
  if (column.type === 'JSON' && value.trim() === 'null')
    return { badRequest: `${where}: JSON null is null, use IS_NULL or IS_NOT_NULL` }
  const bound = parseValue(column.type, value)
  if ('badRequest' in bound) return { badRequest: `${where}: ${bound.badRequest}` }
  const left = quoteName(column.name)
  return `${left} ${COMPARISON[operator]} ${binder.bind(bound)}`
}

function compareLike(
  column: QueryColumn,
  operator: 'LIKE' | 'NOT_LIKE',
  pattern: string,
  binder: Binder,
): string | BadQuery {
  const where = `column ${quoted(column.name)}`
  if (column.type !== 'STRING') return { badRequest: `${where}: ${operator} is for STRING columns` }
  const bound = parseValue('STRING', pattern)
  if ('badRequest' in bound) return { badRequest: `${where}: ${bound.badRequest}` }
  const like = planLike(quoteName(column.name), pattern, binder)
  if (typeof like !== 'string') return { badRequest: `${where}: ${like.badRequest}` }
  return operator === 'LIKE' ? like : `NOT (${like})`
}

/** The part of a pattern between two `%`: literal texts and `_`. */
type Piece = readonly (string | typeof ONE)[]
const ONE = Symbol('_')
const REGEX = ['regex', ''] as const

/**
 * The condition that `column` (quoted SQL) is like `pattern`, or BadQuery. `%` is any characters,
 * `_` one, `\` takes the next character literally. Case-sensitive, by code point.
 *
 * NOTE: not DuckDB's LIKE, which tries each `%` at every position and cannot be interrupted:
 * `%a%a%a%b` takes the fourth power of a text's length, 26 s for 400 characters. This uses a
 * comparison, a search for one text, or RE2, which is linear. A text to search for is short, since
 * a search takes the product of both lengths at worst.
 */
function planLike(column: string, pattern: string, binder: Binder): string | BadQuery {
  const pieces = readPattern(pattern)
  if (pieces === undefined) return { badRequest: 'the pattern ends with a lone backslash' }
  const bind = (value: string) => binder.bind({ type: 'STRING', value })
  const [form, text] = plainForm(pieces)
  if (form === '=') return `${column} = ${bind(text)}`
  if (form === 'starts_with' || form === 'ends_with') return `${form}(${column}, ${bind(text)})`
  if (pattern.length > LIKE_PATTERN_CHARACTERS_MAX)
    return { badRequest: `the pattern is longer than ${LIKE_PATTERN_CHARACTERS_MAX} characters` }
  if (form === 'contains') return `contains(${column}, ${bind(text)})`
  if (binder.patterns >= LIKE_PATTERNS_MAX)
    return { badRequest: `a query takes at most ${LIKE_PATTERNS_MAX} patterns of this kind` }
  binder.patterns += 1
  const regex = pieces.map(piece => piece.map(part => (part === ONE ? '.' : quoteRegex(part))).join(''))
  return `regexp_full_match(${column}, ${bind(`(?s)${regex.join('.*')}`)})`
}

/** The pieces between the `%`; undefined if the pattern ends with a lone `\`. */
function readPattern(pattern: string): readonly Piece[] | undefined {
  const pieces: (string | typeof ONE)[][] = [[]]
  let text = ''
  const endText = () => {
    if (text !== '') pieces.at(-1)!.push(text)
    text = ''
  }
  for (let at = 0; at < pattern.length; at++) {
    const unit = pattern[at]!
    if (unit === '%' || unit === '_') endText()
    if (unit === '%') pieces.push([])
    else if (unit === '_') pieces.at(-1)!.push(ONE)
    else if (unit !== '\\') text += unit
    else if (++at < pattern.length) text += pattern[at]
    else return undefined
  }
  endText()
  return pieces
}

/**
 * The plain form of a pattern that is one text, alone or with `%` around it; all others need a
 * regular expression.
 */
function plainForm(
  pieces: readonly Piece[],
): readonly ['=' | 'starts_with' | 'ends_with' | 'contains' | 'regex', string] {
  if (pieces.some(piece => piece.length > 1 || piece[0] === ONE)) return REGEX
  const texts = pieces.map(([text = '']) => text as string)
  const inner = texts.slice(1, -1).filter(text => text !== '')
  const [first, last] = [texts[0]!, texts.at(-1)!]
  if (texts.length === 1) return ['=', first]
  if (first === '' && last === '' && inner.length <= 1) return ['contains', inner[0] ?? '']
  if (inner.length > 0) return REGEX
  if (last === '') return ['starts_with', first]
  return first === '' ? ['ends_with', last] : REGEX
}

/** Escapes ASCII punctuation and spells NUL out; any other character stands for itself. */
function quoteRegex(text: string): string {
  return text.replaceAll(/[\0!-/:-@[-`{-~]/g, char => (char === '\0' ? '\\x00' : `\\${char}`))
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
