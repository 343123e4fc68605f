/**
 * Filters → one SQL condition. Column names come from the plan and are quoted, values are bound, operators are
 * looked up in a list: no text of the caller stands in the SQL.
 *
 *   element   ((column op value) AND all of `and`) OR any of `or`
 *   list      its elements ANDed
 *
 * NOT stands only before one comparison, so SQL's unknown and false leave out the same rows: nulls match only IS_NULL.
 */

import type { Plan } from '../batch/plan.ts'
import { FILTER_DEPTH_MAX, FILTERS_MAX } from '../limits.ts'
import { quoteName } from '../util/sql.ts'
import type { Binder } from './binder.ts'
import { findColumn, type QueryColumn } from './column.ts'
import { planLike } from './like.ts'
import { type BadQuery, FILTER_OPERATORS, type Filter, type FilterOperator } from './protocol.ts'
import { parseValue, quoted } from './value.ts'

const COMPARISON: Partial<Record<FilterOperator, string>> = {
  EQUALS: '=',
  NOT_EQUALS: '<>',
  GREATER_THAN: '>',
  GREATER_THAN_OR_EQUAL_TO: '>=',
  LESS_THAN: '<',
  LESS_THAN_OR_EQUAL_TO: '<=',
}

/** The condition of a list of filters, '' for an empty one; else what is wrong. */
export function planFilters(plan: Plan, filters: readonly Filter[], binder: Binder): string | BadQuery {
  const bad = checkSize(filters)
  return bad ?? join(filters, ' AND ', filter => planOne(plan, filter, binder))
}

/** Counts and depths first: the rest may then recurse. */
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

function join(
  filters: readonly Filter[],
  by: string,
  one: (filter: Filter) => string | BadQuery,
): string | BadQuery {
  const parts: string[] = []
  for (const filter of filters) {
    const part = one(filter)
    if (typeof part !== 'string') return part
    parts.push(part)
  }
  return parts.join(by)
}

function planOne(plan: Plan, filter: Filter, binder: Binder): string | BadQuery {
  const own = condition(plan, filter, binder)
  if (typeof own !== 'string') return own
  const and = join(filter.and ?? [], ' AND ', each => planOne(plan, each, binder))
  if (typeof and !== 'string') return and
  const or = join(filter.or ?? [], ' OR ', each => planOne(plan, each, binder))
  if (typeof or !== 'string') return or
  const all = and === '' ? own : `(${own} AND ${and})`
  return or === '' ? all : `(${all} OR ${or})`
}

function condition(plan: Plan, filter: Filter, binder: Binder): string | BadQuery {
  const { operator } = filter
  const column = findColumn(plan, filter.column)
  if (column === undefined) return { badRequest: `there is no column ${quoted(filter.column)}` }
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
