/** The counter: one metric over the rows that a question selects, answered as one value. */
import type { PoolSchema } from '../format/schema.ts'
import { type Metric, type MetricChoice, metricSql, readMetric } from './metric.ts'
import { Binder } from './operand.ts'
import type { BadQuery, QueryPlan } from './query-types.ts'
import type { Question } from './question.ts'
import { planWhere, type RowSelection } from './where.ts'

/** CounterInput of the GraphQL schema. */
interface CounterInput extends MetricChoice, RowSelection {}

export interface CounterQuery extends RowSelection {
  readonly metric: Metric
}

export const counter: Question<CounterInput, CounterQuery> = {
  field: 'counter',
  type: 'METRIC',
  subtype: 'COUNTER',
  rowsMax: 1,
  read(input) {
    const read = readMetric(input)
    if ('badRequest' in read) return read
    const { timeRange = null, timeZone = null, filters = null, filterSql = null } = input
    return { pool: read.pool, query: { metric: read.metric, timeRange, timeZone, filters, filterSql } }
  },
  plan: planCounter,
  answer: rows => ({ value: rows[0]?.[0] ?? null }),
}

/** A statement with one row and one column, `value`. */
function planCounter(schema: PoolSchema, query: CounterQuery): QueryPlan | BadQuery {
  const binder = new Binder()
  const rows = planWhere(schema, query, binder)
  if ('badRequest' in rows) return rows
  const metric = metricSql(schema, query.metric)
  if (typeof metric !== 'string') return metric
  const countsAllRows = rows.where === '' && query.metric.kind === 'count'
  return {
    statement: {
      sql: `SELECT ${metric} AS "value" FROM rows${rows.where}`,
      bounds: binder.bounds(),
      ...(countsAllRows ? { countsAllRows } : {}),
    },
    ...rows.pruning,
  }
}
