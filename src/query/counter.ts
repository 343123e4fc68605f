/** A counter query → one statement, and what the planner knows to prune segments by. */

import type { ColumnType, Plan } from '../batch/plan.ts'
import { quoteName } from '../util/sql.ts'
import { Binder } from './binder.ts'
import { findColumn } from './column.ts'
import { planFilters } from './filter.ts'
import type { BadQuery, CounterQuery, Filter, Planned } from './protocol.ts'
import { checkTimeZone, type PlannedRange, planTimeRange } from './time-range.ts'
import { parseValue, quoted } from './value.ts'

const NO_RANGE: PlannedRange = { condition: '', fromUs: null, toUs: null, isPrimary: false }
const INTEGERS: readonly ColumnType[] = ['INT8', 'INT16', 'INT32', 'INT64']
const FLOATS: readonly ColumnType[] = ['FLOAT', 'DOUBLE']
/** Tenant columns of these types have a range that `prune` can compare. */
const TENANT_TYPES: readonly ColumnType[] = ['STRING', ...INTEGERS]

/** One row with one column, `value`: the metric over the rows that the query selects. */
export function planCounter(plan: Plan, query: CounterQuery): Planned | BadQuery {
  const zone = query.timeZone ?? ''
  const badZone = zone === '' ? undefined : checkTimeZone(zone)
  if (badZone !== undefined) return badZone
  const metric = metricSql(plan, query.metric)
  if (typeof metric !== 'string') return metric
  const binder = new Binder()
  const range = query.timeRange ? planTimeRange(plan, query.timeRange, binder) : NO_RANGE
  if ('badRequest' in range) return range
  const filters = query.filters ?? []
  const condition = planFilters(plan, filters, binder)
  if (typeof condition !== 'string') return condition
  const where = [range.condition, condition].filter(part => part !== '').join(' AND ')
  return {
    statement: {
      sql: `SELECT ${metric} AS "value" FROM rows${where === '' ? '' : ` WHERE ${where}`}`,
      bounds: binder.bounds(),
      ...(where === '' && query.metric.kind === 'count' ? { countsAllRows: true } : {}),
    },
    timeFromUs: range.fromUs === null ? null : Number(range.fromUs),
    timeToUs: range.toUs === null ? null : Number(range.toUs),
    timeIsPrimary: range.isPrimary,
    tenantEquals: tenantOf(plan, filters),
  }
}

/** Integers are summed in 128 bits; doubles with compensation, so that the order of rows hardly matters. */
function metricSql(plan: Plan, metric: CounterQuery['metric']): string | BadQuery {
  if (metric.kind === 'count') return 'COUNT(*)'
  const column = findColumn(plan, metric.column)
  if (column === undefined) return { badRequest: `there is no column ${quoted(metric.column)}` }
  if (INTEGERS.includes(column.type)) return `SUM(${quoteName(column.name)})`
  if (FLOATS.includes(column.type)) return `FSUM(${quoteName(column.name)})`
  return { badRequest: `column ${quoted(column.name)} is ${column.type}: only numbers can be summed` }
}

/** The tenant that every selected row has, where an EQUALS in the outermost conjunction says so. */
export function tenantOf(plan: Plan, filters: readonly Filter[]): string | null {
  const tenant = plan.columns[plan.tenant]
  if (tenant === undefined || !TENANT_TYPES.includes(tenant.type)) return null
  for (const filter of filters) {
    if ((filter.or ?? []).length > 0) continue
    if (filter.column === tenant.name && filter.operator === 'EQUALS') {
      const bound = parseValue(tenant.type, filter.value ?? '')
      if (!('badRequest' in bound)) return String(bound.value)
    }
    const inner = tenantOf(plan, filter.and ?? [])
    if (inner !== null) return inner
  }
  return null
}
