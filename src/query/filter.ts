/**
 * Filters become one SQL condition. Column names come from the schema and are quoted, values are
 * bound, operators come from a list. No text of the caller stands in the SQL.
 *
 *   element   ((column operator value) AND all of `and`) OR any of `or`
 *   list      its elements, joined by AND
 *
 * NOT stands only before a single LIKE comparison, so SQL's unknown and false leave out the same
 * rows: nulls match only IS_NULL.
 */
import type { PoolSchema } from '../format/schema.ts'
import {
  FILTER_DEPTH_MAX,
  FILTERS_MAX,
  LIKE_PATTERN_CHARACTERS_MAX,
  LIKE_PATTERNS_MAX,
} from '../util/limits.ts'
import { quoteName } from '../util/sql.ts'
import { type Binder, findColumn, parseValue, type QueryColumn, quoted } from './operand.ts'
import type { BadQuery } from './query-types.ts'

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

const COMPARISON: Partial<Record<FilterOperator, string>> = {
  EQUALS: '=',
  NOT_EQUALS: '<>',
  GREATER_THAN: '>',
  GREATER_THAN_OR_EQUAL_TO: '>=',
  LESS_THAN: '<',
  LESS_THAN_OR_EQUAL_TO: '<=',
}

/** The condition of a list of filters, '' for an empty list; or BadQuery. */
export function planFilters(
  schema: PoolSchema,
  filters: readonly Filter[],
  binder: Binder,
): string | BadQuery {
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
