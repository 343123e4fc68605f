/**
 * The report: several metrics by the values of columns, by page. A group is there if any row of the
 * report's selection has it. The filters of a metric are conditions of its own aggregates, so they
 * take no group away.
 */
import { PAGE_ROWS_MAX, REPORT_METRICS_MAX } from '../../util/limits.ts'
import { withFilter } from '../expression/functions.ts'
import { findColumn, type PoolView } from '../expression/operand.ts'
import { internal, type Order, type Output, outputOf } from '../expression/select.ts'
import { boundValue, castTo, nullOf, operation, type Typed } from '../expression/typed.ts'
import { partOf, Refused } from '../expression/values.ts'
import type { OrderKey } from './keyset.ts'
import {
  type FindMetric,
  type MetricInput,
  type MetricQuery,
  metricTexts,
  planDimensions,
  planMetric,
  readMetric,
} from './metric.ts'
import { type Page, type PageInput, type PlannedPage, planPage, readPage } from './page.ts'
import type { PlanContext } from './plan-context.ts'
import { isGiven, type PoolReference, type Question } from './question.ts'
import { planWhere, type RowSelection, selectionOf, selectionTexts } from './where.ts'

type Direction = Order['direction']

interface MetricReportInput extends RowSelection, PageInput {
  readonly dimensions: readonly {
    readonly columnName: string
    readonly displayName?: string | null
    readonly sort?: Direction | null
  }[]
  readonly metrics: readonly MetricReportMetricInput[]
  readonly orderByColumn?: number | null
}

/** Its filters are joined with those of the metric. */
interface MetricReportMetricInput extends Pick<RowSelection, 'filters' | 'filterSql'> {
  readonly metric?: MetricInput | null
  readonly uniqueName?: string | null
  readonly id?: string | null
  readonly displayName?: string | null
  readonly sort?: Direction | null
}

export interface ReportQuery extends RowSelection {
  /** Names of columns. */
  readonly dimensions: readonly string[]
  readonly metrics: readonly MetricQuery[]
  /** Of the dimensions, then of the metrics. */
  readonly headers: readonly string[]
  readonly sorts: readonly Direction[]
  /** The column that orders the rows, from 1. Ties are ordered by the dimensions. */
  readonly orderByColumn: number
  readonly page: Page
}

export type ReportAnswer = { readonly headers: readonly string[] } & ReturnType<PlannedPage['answer']>

export const metricReport: Question<MetricReportInput, ReportQuery, ReportAnswer> = {
  type: 'REPORT',
  subtype: null,
  rowsMax: PAGE_ROWS_MAX + 1,
  read: readReport,
  texts: query => [...selectionTexts(query), ...query.metrics.flatMap(metricTexts)],
  plan(view, query, context) {
    const rows = planWhere(view, query, context)
    const dimensions = planDimensions(view, 'dimensions', query.dimensions)
    const metrics = query.metrics.map((each, index) => ({
      name: internal(`m${index}`),
      value: partOf(`metrics, number ${index + 1}`, () => planReportMetric(view, each, context)),
    }))
    const inner = [...dimensions, ...metrics]
    const from = { where: rows.where, outputs: inner, groupBy: dimensions.map(({ value }) => value) }
    const outputs = inner.map(output => ({ name: output.name, value: outputOf(output) }))
    const order = [...new Set([query.orderByColumn - 1, ...dimensions.keys()])]
    const keys = order.map((index): OrderKey => {
      const { value } = outputs[index] as Output
      const direction = query.sorts[index] ?? 'DESC'
      const name = query.dimensions[index]
      if (name === undefined) return metricKey(value, direction)
      return { value, type: findColumn(view, name).type, direction, isNullable: true }
    })
    const described = [query.dimensions, query.metrics, query.sorts, query.orderByColumn]
    const name = JSON.stringify(['report', view.pool, ...described])
    const page = planPage({ name, rows: { from }, outputs, keys, isTotal: true }, query.page)
    return {
      select: page.select,
      rowsShown: query.page.count,
      ...rows.pruning,
      answer: printed => ({ headers: query.headers, ...page.answer(query.headers, printed) }),
    }
  },
}

function readReport(input: MetricReportInput, find: FindMetric): ReturnType<typeof metricReport.read> {
  const page = readPage(input)
  const { dimensions } = input
  if (input.metrics.length === 0 || input.metrics.length > REPORT_METRICS_MAX)
    throw new Refused(`metrics: a report has 1 to ${REPORT_METRICS_MAX}`)
  const columns = [...dimensions, ...input.metrics]
  const orderByColumn = input.orderByColumn ?? 1
  if (orderByColumn < 1 || orderByColumn > columns.length)
    throw new Refused(`orderByColumn: it is 1 to ${columns.length}, the number of columns`)
  const metrics: MetricQuery[] = []
  const pools: PoolReference[] = []
  const headers = dimensions.map(({ columnName, displayName }) => displayName || columnName)
  let isPredefined = true
  for (const each of input.metrics) {
    const read = readReportMetric(each, find)
    isPredefined &&= read.isPredefined
    pools.push(read.pool)
    headers.push(each.displayName || read.name)
    metrics.push(read.query)
  }
  const [pool, ...alsoOf] = pools as [PoolReference, ...PoolReference[]]
  const query = {
    dimensions: dimensions.map(({ columnName }) => columnName),
    metrics,
    headers,
    sorts: columns.map(({ sort }) => sort ?? 'DESC'),
    orderByColumn,
    ...selectionOf(input),
    page,
  }
  return { pool, alsoOf, query, isPredefined }
}

function readReportMetric(
  { metric = null, id = null, uniqueName = null, filters = null, filterSql = null }: MetricReportMetricInput,
  find: FindMetric,
) {
  if ([metric, id, uniqueName].filter(isGiven).length !== 1)
    throw new Refused('metrics: give exactly one of "metric", "id" and "uniqueName".')
  return readMetric({ metric, metricId: id, metricName: uniqueName, filters, filterSql }, find)
}

/** The aggregate of a metric, over those rows that its filters select. */
function planReportMetric(view: PoolView, query: MetricQuery, context: PlanContext): Typed {
  const { metric, where } = planMetric(view, query, context)
  return where === undefined ? metric : withFilter(metric, where)
}

/** A value that an answer prints as null, such as an infinite sum, is ordered as null too. */
function metricKey(value: Typed, direction: Direction): OrderKey {
  const key = { direction, isNullable: true }
  switch (value.kind) {
    case 'integer':
      return { ...key, value, type: 'INTEGER' }
    case 'real': {
      const condition = operation('is_finite', 'boolean', [value])
      return { ...key, value: onlyIf(condition, castTo('DOUBLE', value)), type: 'DOUBLE' }
    }
    case 'boolean':
      return { ...key, value, type: 'BOOLEAN' }
    case 'date':
      return { ...key, value: onlyIf(within('DATE', value, DATE_DAYS), value), type: 'DATE' }
    case 'instant':
      return { ...key, value: onlyIf(within('TIMESTAMP', value, INSTANT_US), value), type: 'TIMESTAMP' }
    default:
      return { ...key, value, type: 'STRING' }
  }
}

/** What an answer prints: the range of a JavaScript Date, without a day at each end. */
const DATE_DAYS = ['-99999999', '99999999'] as const
const INSTANT_US = ['-8639999913600000000', '8639999913600000000'] as const

function within(type: 'DATE' | 'TIMESTAMP', value: Typed, range: readonly [string, string]): Typed {
  return operation('between', 'boolean', [value, ...range.map(bound => boundValue({ type, value: bound }))])
}

function onlyIf(condition: Typed, value: Typed): Typed {
  return operation('case', value.kind, [condition, value, nullOf(value.kind)])
}
