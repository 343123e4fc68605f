/** A metric: the number that a counter, time series or leaderboard computes over rows. */
import type { Metric as StoredMetric } from '../catalog/model.ts'
import { NUMBER_TYPES, ORDERED_TYPES } from '../format/schema.ts'
import { unreachable } from '../util/assert.ts'
import { checkMetric } from './expression/check.ts'
import { columnOf, operation, type Typed } from './expression/typed.ts'
import { findColumn, type PoolView, quoted } from './operand.ts'
import { isGivenText, type PlanContext, parsedText } from './plan-context.ts'
import type { BadQuery } from './query-types.ts'
import { isGiven, type PoolReference } from './question.ts'
import { type Filter, type OwnFilters, UNSEEN_IN_METRIC } from './where.ts'

/**
 * The part of a question's input that chooses its metric. Clients send explicit nulls beside the
 * form they mean.
 */
export interface MetricChoice {
  readonly metricId?: string | null
  readonly metricName?: string | null
  readonly metric?: MetricInput | null
}

interface Measured {
  readonly dataPool: PoolReference
  readonly measure: { readonly columnName: string }
}

/** MetricInput of the GraphQL schema. */
interface MetricInput {
  readonly id?: string | null
  readonly name?: string | null
  readonly count?: { readonly dataPool: PoolReference } | null
  readonly sum?: Measured | null
  readonly average?: Measured | null
  readonly min?: Measured | null
  readonly max?: Measured | null
  readonly countDistinct?: {
    readonly dataPool: PoolReference
    readonly dimension: { readonly columnName: string }
  } | null
  readonly custom?: { readonly dataPool: PoolReference; readonly expression: string } | null
}

/** What is computed over the rows. */
export type Metric =
  | { readonly kind: 'count' }
  | { readonly kind: 'sum' | 'average' | 'min' | 'max' | 'countDistinct'; readonly column: string }
  | { readonly kind: 'custom'; readonly expression: string }

/** A metric, its pool, and the filters of its own. */
export interface MetricOfPool {
  readonly metric: Metric
  readonly pool: PoolReference
  /** undefined for an inline metric. */
  readonly own: OwnFilters | undefined
  /** The catalog holds the metric, so another scope lets the caller ask for it. */
  readonly isPredefined: boolean
  /** The unique name of a predefined metric; `value` for an inline one. */
  readonly name: string
}

/** Finds a predefined metric; throws where there is none or the caller may not ask for it. */
export type FindMetric = (reference: { readonly id: string } | { readonly name: string }) => StoredMetric

/** The metric of an input and the pool that it is about, or BadQuery. */
export function readMetric(
  { metricId, metricName, metric }: MetricChoice,
  find: FindMetric,
): MetricOfPool | BadQuery {
  if ([metricId, metricName, metric].filter(isGiven).length !== 1)
    return { badRequest: 'Give exactly one of "metric", "metricId" and "metricName".' }
  if (isGiven(metricId)) return predefined(find({ id: metricId }))
  if (isGiven(metricName)) return predefined(find({ name: metricName }))
  const forms = Object.entries(metric ?? {}).filter(([, form]) => isGiven(form))
  if (forms.length !== 1)
    return { badRequest: '"metric" must have exactly one form, such as "count" or "sum".' }
  return readForm(metric ?? {}, find)
}

function readForm(metric: MetricInput, find: FindMetric): MetricOfPool | BadQuery {
  const { id, name, count, countDistinct, custom } = metric
  if (isGiven(id)) return predefined(find({ id }))
  if (isGiven(name)) return predefined(find({ name }))
  const inline = (pool: PoolReference, of: Metric) => ({
    metric: of,
    pool,
    own: undefined,
    isPredefined: false,
    name: 'value',
  })
  if (isGiven(count)) return inline(count.dataPool, { kind: 'count' })
  if (isGiven(custom)) return inline(custom.dataPool, { kind: 'custom', expression: custom.expression })
  if (isGiven(countDistinct)) {
    const { dataPool, dimension } = countDistinct
    return inline(dataPool, { kind: 'countDistinct', column: dimension.columnName })
  }
  for (const kind of ['sum', 'average', 'min', 'max'] as const) {
    const form = metric[kind]
    if (isGiven(form)) return inline(form.dataPool, { kind, column: form.measure.columnName })
  }
  return { badRequest: 'This form of "metric" is not known.' }
}

function predefined(stored: StoredMetric): MetricOfPool {
  return {
    metric: metricOf(stored),
    pool: { id: stored.poolId },
    own: ownFilters(stored),
    isPredefined: true,
    name: stored.uniqueName,
  }
}

/** The metric's own conditions. */
export function ownFilters({ filters, filterSql }: StoredMetric): OwnFilters {
  return { filters: filters as readonly Filter[], filterSql }
}

/** The metric of a document. */
function metricOf({ type, column, expression }: StoredMetric): Metric {
  switch (type) {
    case 'COUNT':
      return { kind: 'count' }
    case 'CUSTOM':
      return { kind: 'custom', expression: expression ?? '' }
    case 'SUM':
      return { kind: 'sum', column: column ?? '' }
    case 'AVERAGE':
      return { kind: 'average', column: column ?? '' }
    case 'MIN':
      return { kind: 'min', column: column ?? '' }
    case 'MAX':
      return { kind: 'max', column: column ?? '' }
    case 'COUNT_DISTINCT':
      return { kind: 'countDistinct', column: column ?? '' }
    default:
      return unreachable(type)
  }
}

/** The SQL texts of a metric, which must be parsed before it is planned. */
export function metricTexts(metric: Metric, own: OwnFilters | undefined): readonly string[] {
  return [metric.kind === 'custom' ? metric.expression : null, own?.filterSql].filter(isGivenText)
}

/**
 * The aggregate of a metric, or BadQuery.
 * @param own the filters of a predefined metric; undefined for an inline one
 */
export function planMetric(
  view: PoolView,
  metric: Metric,
  context: PlanContext,
  own?: OwnFilters,
): Typed | BadQuery {
  const planned = planAggregate(view, metric, context)
  const isUnseen = 'badRequest' in planned && own !== undefined && view.visible !== undefined
  return isUnseen ? UNSEEN_IN_METRIC : planned
}

function planAggregate(view: PoolView, metric: Metric, context: PlanContext): Typed | BadQuery {
  if (metric.kind === 'count') return operation('count_rows', 'integer', [])
  if (metric.kind === 'custom') return planCustom(view, metric.expression, context)
  const column = findColumn(view, metric.column)
  if ('badRequest' in column) return column
  const { name, type } = column
  const operand = columnOf(column)
  if (metric.kind === 'countDistinct') return operation('count_distinct', 'integer', [operand])
  if (metric.kind === 'min' || metric.kind === 'max') {
    if (ORDERED_TYPES.includes(type)) return operation(metric.kind, operand.kind, [operand])
    return { badRequest: `column ${quoted(name)} is ${type}, which has no order` }
  }
  if (!NUMBER_TYPES.includes(type)) {
    const what = metric.kind === 'sum' ? 'summed' : 'averaged'
    return { badRequest: `column ${quoted(name)} is ${type}: only numbers can be ${what}` }
  }
  return operation(metric.kind, metric.kind === 'sum' ? operand.kind : 'real', [operand])
}

function planCustom(view: PoolView, expression: string, context: PlanContext): Typed | BadQuery {
  if (!isGivenText(expression)) return { badRequest: 'expression: the text is empty' }
  const parsed = parsedText(expression, context)
  const planned = 'badRequest' in parsed ? parsed : checkMetric(parsed, { view, nowMs: context.nowMs })
  return 'badRequest' in planned ? { badRequest: `expression: ${planned.badRequest}` } : planned
}
