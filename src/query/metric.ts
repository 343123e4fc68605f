/** A metric: the number that a counter, time series or leaderboard computes over rows. */
import type { ColumnType, PoolSchema } from '../format/schema.ts'
import { quoteName } from '../util/sql.ts'
import { findColumn, quoted } from './operand.ts'
import type { BadQuery } from './query-types.ts'
import { isGiven, type PoolReference } from './question.ts'

/**
 * The part of a question's input that chooses its metric. Clients send explicit nulls beside the
 * form they mean.
 */
export interface MetricChoice {
  readonly metricId?: string | null
  readonly metricName?: string | null
  readonly metric?: MetricInput | null
}

/** MetricInput of the schema. Only the forms that are built have their shape here. */
interface MetricInput {
  readonly count?: { readonly dataPool: PoolReference } | null
  readonly sum?: {
    readonly dataPool: PoolReference
    readonly measure: { readonly columnName: string }
  } | null
}

export type Metric = { readonly kind: 'count' } | { readonly kind: 'sum'; readonly column: string }

const BUILT = 'This version answers metrics given inline as "count" or "sum".'
const INTEGERS: readonly ColumnType[] = ['INT8', 'INT16', 'INT32', 'INT64']
const FLOATS: readonly ColumnType[] = ['FLOAT', 'DOUBLE']

/** The metric of an input and the pool that it is about. */
export function readMetric({
  metricId,
  metricName,
  metric,
}: MetricChoice): { readonly metric: Metric; readonly pool: PoolReference } | BadQuery {
  if ([metricId, metricName, metric].filter(isGiven).length !== 1)
    return { badRequest: 'Give exactly one of "metric", "metricId" and "metricName".' }
  if (!isGiven(metric)) return { badRequest: `Metrics by id or name are not supported. ${BUILT}` }
  if (Object.values(metric).filter(isGiven).length !== 1)
    return { badRequest: '"metric" must have exactly one form, such as "count" or "sum".' }
  if (isGiven(metric.count)) return { metric: { kind: 'count' }, pool: metric.count.dataPool }
  if (!isGiven(metric.sum)) return { badRequest: BUILT }
  const { dataPool, measure } = metric.sum
  return { metric: { kind: 'sum', column: measure.columnName }, pool: dataPool }
}

/**
 * The SQL of a metric, or BadQuery. DuckDB sums integers in 128 bits. It sums floating-point
 * numbers with compensation, so that the order of rows hardly matters.
 */
export function metricSql(schema: PoolSchema, metric: Metric): string | BadQuery {
  if (metric.kind === 'count') return 'COUNT(*)'
  const column = findColumn(schema, metric.column)
  if ('badRequest' in column) return column
  if (INTEGERS.includes(column.type)) return `SUM(${quoteName(column.name)})`
  if (FLOATS.includes(column.type)) return `FSUM(${quoteName(column.name)})`
  return { badRequest: `column ${quoted(column.name)} is ${column.type}: only numbers can be summed` }
}
