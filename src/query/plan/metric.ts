/** Questions about one metric, and the rows that it is computed over. */
import type { Metric, MetricType } from '../../catalog/documents/model.ts'
import { NUMBER_TYPES, ORDERED_TYPES } from '../../format/schema.ts'
import { checkMetric } from '../expression/check.ts'
import { findColumn, type PoolView, quoted } from '../expression/operand.ts'
import { internal, type Output } from '../expression/select.ts'
import { columnOf, operation, type Typed } from '../expression/typed.ts'
import { partOf, Refused } from '../expression/values.ts'
import { isGivenText, type PlanContext, parsedText } from './plan-context.ts'
import { isGiven, type PoolReference } from './question.ts'
import {
  type Filter,
  type OwnFilters,
  type PlannedWhere,
  planStored,
  planWhere,
  type RowSelection,
  selectionOf,
} from './where.ts'

/** Columns by which a question groups: a row of its answer has as many values. */
const DIMENSIONS_MAX = 32

/** Clients send explicit nulls beside the form of the metric that they mean. */
export interface MetricQueryInput extends RowSelection {
  readonly metricId?: string | null
  readonly metricName?: string | null
  readonly metric?: MetricInput | null
}

interface Measured {
  readonly dataPool: PoolReference
  readonly measure: { readonly columnName: string }
}

export interface MetricInput {
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

export type MetricFormula =
  | { readonly kind: 'count' }
  | { readonly kind: 'sum' | 'average' | 'min' | 'max' | 'countDistinct'; readonly column: string }
  | { readonly kind: 'custom'; readonly expression: string }

export interface MetricQuery extends RowSelection {
  readonly metric: MetricFormula
  /** The filters of a predefined metric; undefined for an inline one. */
  readonly own?: OwnFilters | undefined
}

interface ReadMetric {
  readonly pool: PoolReference
  readonly query: MetricQuery
  /** The catalog holds the metric, so another scope lets the caller ask for it. */
  readonly isPredefined: boolean
  /** The unique name of a predefined metric; `value` for an inline one. */
  readonly name: string
}

/** Finds a predefined metric; throws where there is none or the caller may not ask for it. */
export type FindMetric = (reference: { readonly id: string } | { readonly name: string }) => Metric

/** The metric of an input with its rows, and the pool that it is about. Throws Refused. */
export function readMetric(input: MetricQueryInput, find: FindMetric): ReadMetric {
  const { metricId, metricName, metric } = input
  const rows = selectionOf(input)
  if ([metricId, metricName, metric].filter(isGiven).length !== 1)
    throw new Refused('Give exactly one of "metric", "metricId" and "metricName".')
  const [id, name] = [metricId ?? metric?.id, metricName ?? metric?.name]
  if (isGiven(metric) && Object.values(metric).filter(isGiven).length !== 1)
    throw new Refused('"metric" must have exactly one form, such as "count" or "sum".')
  if (isGiven(id)) return predefined(find({ id }), rows)
  if (isGiven(name)) return predefined(find({ name }), rows)
  return readForm(metric ?? {}, rows)
}

function predefined(stored: Metric, rows: RowSelection): ReadMetric {
  const query = { metric: formulaOf(stored), own: ownFilters(stored), ...rows }
  return { pool: { id: stored.poolId }, query, isPredefined: true, name: stored.uniqueName }
}

function readForm(metric: MetricInput, rows: RowSelection): ReadMetric {
  const { count, countDistinct, custom } = metric
  const inline = (pool: PoolReference, formula: MetricFormula): ReadMetric => ({
    pool,
    query: { metric: formula, ...rows },
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
  throw new Refused('This form of "metric" is not known.')
}

export function ownFilters({ filters, filterSql }: Metric): OwnFilters {
  return { filters: filters as readonly Filter[], filterSql }
}

const KIND_OF = {
  SUM: 'sum',
  AVERAGE: 'average',
  MIN: 'min',
  MAX: 'max',
  COUNT_DISTINCT: 'countDistinct',
} as const satisfies Partial<Record<MetricType, string>>

function formulaOf({ type, column, expression }: Metric): MetricFormula {
  if (type === 'COUNT') return { kind: 'count' }
  if (type === 'CUSTOM') return { kind: 'custom', expression: expression ?? '' }
  return { kind: KIND_OF[type], column: column ?? '' }
}

/** The SQL texts, which must be parsed before the question is planned. */
export function metricTexts({ metric, own, filterSql }: MetricQuery): readonly string[] {
  const expression = metric.kind === 'custom' ? metric.expression : null
  return [expression, own?.filterSql, filterSql].filter(isGivenText)
}

interface PlannedMetric extends PlannedWhere {
  readonly metric: Typed
}

/** Throws Refused. */
export function planMetric(view: PoolView, query: MetricQuery, context: PlanContext): PlannedMetric {
  const rows = planWhere(view, query, context, query.own)
  const aggregate = () => planAggregate(view, query.metric, context)
  return { ...rows, metric: query.own === undefined ? aggregate() : planStored(view, aggregate) }
}

export function planAggregate(view: PoolView, metric: MetricFormula, context: PlanContext): Typed {
  if (metric.kind === 'count') return operation('count_rows', 'integer', [])
  if (metric.kind === 'custom') return planCustom(view, metric.expression, context)
  const column = findColumn(view, metric.column)
  const { name, type } = column
  const operand = columnOf(column)
  if (metric.kind === 'countDistinct') return operation('count_distinct', 'integer', [operand])
  if (metric.kind === 'min' || metric.kind === 'max') {
    if (ORDERED_TYPES.includes(type)) return operation(metric.kind, operand.kind, [operand])
    throw new Refused(`column ${quoted(name)} is ${type}, which has no order`)
  }
  if (!NUMBER_TYPES.includes(type)) {
    const what = metric.kind === 'sum' ? 'summed' : 'averaged'
    throw new Refused(`column ${quoted(name)} is ${type}: only numbers can be ${what}`)
  }
  return operation(metric.kind, metric.kind === 'sum' ? operand.kind : 'real', [operand])
}

function planCustom(view: PoolView, expression: string, context: PlanContext): Typed {
  return partOf('expression', () => {
    if (!isGivenText(expression)) throw new Refused('the text is empty')
    return checkMetric(parsedText(expression, context), { view, nowMs: context.nowMs })
  })
}

/** The columns by which a question groups, as outputs `d0`, `d1` and so on. */
export function planDimensions(
  view: PoolView,
  field: 'dimensions' | 'groupBy',
  names: readonly string[],
): readonly Output[] {
  return partOf(field, () => {
    if (names.length > DIMENSIONS_MAX) throw new Refused(`there are at most ${DIMENSIONS_MAX}`)
    return names.map((name, index) => ({
      name: internal(`d${index}`),
      value: columnOf(findColumn(view, name)),
    }))
  })
}
