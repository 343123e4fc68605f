/** The common part of questions about one metric: the metric, and the rows that it computes. */
import { DIMENSIONS_MAX } from '../util/limits.ts'
import { columnOf, type Typed } from './expression/typed.ts'
import {
  type FindMetric,
  type Metric,
  type MetricChoice,
  type MetricOfPool,
  metricTexts,
  planMetric,
  readMetric,
} from './metric.ts'
import { findColumn, type PoolView } from './operand.ts'
import type { Output } from './plan.ts'
import type { PlanContext } from './plan-context.ts'
import type { BadQuery } from './query-types.ts'
import { type OwnFilters, type PlannedWhere, planWhere, type RowSelection, selectionTexts } from './where.ts'

/** The fields that the inputs of these questions have in common. */
export interface MetricRowsInput extends MetricChoice, RowSelection {}

export interface MetricRows extends RowSelection {
  readonly metric: Metric
  /** The filters of a predefined metric. */
  readonly own?: OwnFilters | undefined
}

/** The metric of an input with its rows, and the pool that it is about; or BadQuery. */
export function readMetricRows(
  input: MetricRowsInput,
  find: FindMetric,
): (Pick<MetricOfPool, 'pool' | 'isPredefined' | 'name'> & { readonly query: MetricRows }) | BadQuery {
  const read = readMetric(input, find)
  if ('badRequest' in read) return read
  const { metric, own, ...rest } = read
  const { timeRange = null, timeZone = null, filters = null, filterSql = null } = input
  return { ...rest, query: { metric, own, timeRange, timeZone, filters, filterSql } }
}

/** The SQL texts, which must be parsed before the question is planned. */
export function metricRowsTexts(query: MetricRows): readonly string[] {
  return [...metricTexts(query.metric, query.own), ...selectionTexts(query)]
}

/** The rows of a question, and the aggregate over them. */
interface PlannedMetricRows extends PlannedWhere {
  readonly metric: Typed
}

export function planMetricRows(
  view: PoolView,
  query: MetricRows,
  context: PlanContext,
): PlannedMetricRows | BadQuery {
  const rows = planWhere(view, query, context, query.own)
  if ('badRequest' in rows) return rows
  const metric = planMetric(view, query.metric, context, query.own)
  return 'badRequest' in metric ? metric : { ...rows, metric }
}

/**
 * The columns by which a question groups, as outputs `d0`, `d1` and so on; or BadQuery, which names
 * the field of the input.
 */
export function planDimensions(
  view: PoolView,
  field: 'dimensions' | 'groupBy',
  names: readonly string[],
): readonly Output[] | BadQuery {
  if (names.length > DIMENSIONS_MAX) return { badRequest: `${field}: there are at most ${DIMENSIONS_MAX}` }
  const outputs: Output[] = []
  for (const name of names) {
    const column = findColumn(view, name)
    if ('badRequest' in column) return { badRequest: `${field}: ${column.badRequest}` }
    outputs.push({ name: `d${outputs.length}`, value: columnOf(column) })
  }
  return outputs
}
