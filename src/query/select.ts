/** A selection of rows → one statement: chosen columns, filters, a time range. What the Arrow stream and exports read. */

import type { Plan } from '../batch/plan.ts'
import { FILTER_DEPTH_MAX } from '../limits.ts'
import { quoteName } from '../util/sql.ts'
import { Binder } from './binder.ts'
import { findColumn, type QueryColumn, queryColumns } from './column.ts'
import { tenantOf } from './counter.ts'
import { planFilters } from './filter.ts'
import type { BadQuery, Filter, FilterOperator, Planned } from './protocol.ts'
import { planTimeRange } from './time-range.ts'
import { quoted } from './value.ts'

/** What to read. Absent: all columns, all rows. */
export interface Selection {
  readonly columns?: readonly string[]
  /** JSON text: a list of filters as the API takes them. */
  readonly filters?: string
  /** On the primary timestamp: from `start`, up to but without `stop`. */
  readonly start?: string
  readonly stop?: string
}

export interface PlannedSelection extends Planned {
  /** In the order of the answer. */
  readonly columns: readonly QueryColumn[]
  /** No filter and no range: every live row is selected. */
  readonly selectsAll: boolean
}

/** The statement of a selection, or what is wrong, beginning with the name of the part that is. */
export function planSelection(plan: Plan, selection: Selection): PlannedSelection | BadQuery {
  const columns = columnsOf(plan, selection.columns)
  if ('badRequest' in columns) return columns
  const binder = new Binder()
  const { start, stop } = selection
  const range = planTimeRange(plan, { start: start ?? null, stop: stop ?? null }, binder)
  if ('badRequest' in range) return { badRequest: range.badRequest.replace(/^timeRange\./, '') }
  const filters = selection.filters === undefined ? [] : readFilters(selection.filters)
  if ('badRequest' in filters) return { badRequest: `filters: ${filters.badRequest}` }
  const condition = planFilters(plan, filters, binder)
  if (typeof condition !== 'string') return { badRequest: `filters: ${condition.badRequest}` }
  const where = [range.condition, condition].filter(part => part !== '').join(' AND ')
  const list = columns.map(({ name, type }) => {
    const quotedName = quoteName(name)
    // Columns added later are null without a zone; with the cast every file says UTC.
    return type === 'TIMESTAMP' ? `${quotedName}::TIMESTAMPTZ AS ${quotedName}` : quotedName
  })
  return {
    statement: {
      sql: `SELECT ${list.join(', ')} FROM rows${where === '' ? '' : ` WHERE ${where}`}`,
      bounds: binder.bounds(),
    },
    columns,
    selectsAll: where === '',
    timeFromUs: range.fromUs === null ? null : Number(range.fromUs),
    timeToUs: range.toUs === null ? null : Number(range.toUs),
    timeIsPrimary: range.isPrimary,
    tenantEquals: tenantOf(plan, filters),
  }
}

function columnsOf(plan: Plan, names: readonly string[] | undefined): readonly QueryColumn[] | BadQuery {
  if (names === undefined) return queryColumns(plan)
  const columns: QueryColumn[] = []
  const seen = new Set<string>()
  for (const name of names) {
    const column = findColumn(plan, name)
    if (column === undefined) return { badRequest: `columns: there is no column ${quoted(name)}` }
    if (seen.has(name)) return { badRequest: `columns: ${quoted(name)} is given more than once` }
    seen.add(name)
    columns.push(column)
  }
  return columns
}

/** Names between commas; a JSON list where one has a comma, or where the first begins with a bracket. */
export function readColumns(text: string): readonly string[] | BadQuery {
  if (!text.startsWith('[')) return text.split(',')
  try {
    const names: unknown = JSON.parse(text)
    if (Array.isArray(names) && names.length > 0 && names.every(name => typeof name === 'string'))
      return names as string[]
  } catch {
    // Told below: not JSON, and not a list of texts, need the same.
  }
  return {
    badRequest: `columns: names between commas, or a JSON list of them as in ["a","b, with a comma"], not ${quoted(text)}`,
  }
}

const KEYS: ReadonlySet<string> = new Set(['column', 'operator', 'value', 'and', 'or'])

/** Filters in JSON, of the API's shape. What columns, operators and values they name is planFilters' to check. */
function readFilters(text: string): readonly Filter[] | BadQuery {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return { badRequest: 'this is not JSON' }
  }
  return shapeOf(json, 1)
}

function shapeOf(json: unknown, depth: number): readonly Filter[] | BadQuery {
  if (depth > FILTER_DEPTH_MAX) return { badRequest: `filters nest deeper than ${FILTER_DEPTH_MAX}` }
  if (!Array.isArray(json)) return { badRequest: 'a list of {"column", "operator", "value"} is needed' }
  const filters: Filter[] = []
  for (const item of json as unknown[]) {
    if (typeof item !== 'object' || item === null || Array.isArray(item))
      return { badRequest: 'each filter is an object' }
    const one = item as Record<string, unknown>
    const odd = Object.keys(one).find(key => !KEYS.has(key))
    if (odd !== undefined) return { badRequest: `a filter has no ${quoted(odd)}` }
    const { column, operator, value = null } = one
    if (typeof column !== 'string' || typeof operator !== 'string')
      return { badRequest: 'a filter needs "column" and "operator", both strings' }
    if (value !== null && typeof value !== 'string')
      return { badRequest: `column ${quoted(column)}: the value is a string` }
    const and = shapeOf(one['and'] ?? [], depth + 1)
    if ('badRequest' in and) return and
    const or = shapeOf(one['or'] ?? [], depth + 1)
    if ('badRequest' in or) return or
    filters.push({ column, operator: operator as FilterOperator, value, and, or })
  }
  return filters
}
