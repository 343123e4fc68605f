/** Resolvers of metrics. An application that may query metrics may read them. */
import { createMetric, deleteMetric, migrateMetric, modifyMetric } from '../../catalog/change-metric.ts'
import type { Metric, MetricType, Pool } from '../../catalog/model.ts'
import { RECEIVED_AT } from '../../format/schema.ts'
import { counter } from '../../query/counter.ts'
import { leaderboard } from '../../query/leaderboard.ts'
import { timeSeries } from '../../query/time-series.ts'
import { must } from '../../util/assert.ts'
import { change, found, remove } from './changes.ts'
import { type Context, requireScope } from './context.ts'
import { badRequest, notFound } from './errors.ts'
import { checkTexts, shownFilters, storedFilters } from './filters.ts'
import { emptyPage, pageOfDocuments } from './page.ts'
import type { DimensionOfPool } from './parents.ts'
import { columnNamed, isWholeKey } from './pool-columns.ts'
import { answerQuestion, statisticsOf } from './resolve-question.ts'
import type { Inputs, Resolvers } from './schema-types.ts'
import { READ_POOLS } from './scopes.ts'

export const metricQueries = {
  metric: (_, { id }, { deps }) => found(deps.catalog.read.metrics.find(id), 'Metric'),
  metricByName: (_, { uniqueName }, { deps }) =>
    found(deps.catalog.read.metrics.byName(uniqueName), 'Metric'),
  metrics: (_, args, context) => {
    const { metrics } = context.deps.catalog.read
    return pageOfDocuments(metrics, metrics.all(), args, context)
  },
} satisfies Partial<Resolvers['Query']>

export const metricMutations = {
  createCountMetric: (_, { input }, context) => create('COUNT', input, {}, context),
  createSumMetric: (_, { input }, context) =>
    create('SUM', input, { column: input?.measure.columnName }, context),
  createAverageMetric: (_, { input }, context) =>
    create('AVERAGE', input, { column: input?.measure.columnName }, context),
  createMinMetric: (_, { input }, context) =>
    create('MIN', input, { column: input?.measure.columnName }, context),
  createMaxMetric: (_, { input }, context) =>
    create('MAX', input, { column: input?.measure.columnName }, context),
  createCountDistinctMetric: (_, { input }, context) =>
    create('COUNT_DISTINCT', input, { column: input?.dimension.columnName }, context),
  createCustomMetric: (_, { input }, context) =>
    create('CUSTOM', input, { expression: input?.expression }, context),
  modifyMetric: async (_, { input }, context) => {
    const { metric: id, filters, dimensions, ...asked } = given(input)
    const { metrics, pools } = context.deps.catalog.read
    const metric = found(metrics.find(id), 'Metric')
    await checkTexts(
      found(pools.get(metric.poolId), 'Metric'),
      { filters, filterSql: asked.filterSql },
      context,
    )
    const fields = { ...asked, filters: storedFilters(filters), dimensions: namesOf(dimensions) }
    const decide = modifyMetric({ id }, fields, context.caller.applicationId)
    return { metric: await change(context, decide, 'Metric') }
  },
  migrateMetric: async (_, { input: { metricId, newDataPoolId } }, context) => {
    const { metrics, pools } = context.deps.catalog.read
    const metric = found(metrics.find(metricId), 'Metric')
    const { filters, filterSql, expression } = metric
    const texts = { filters: shownFilters(filters), filterSql, expression }
    await checkTexts(found(pools.find(newDataPoolId), 'Data Pool'), texts, context)
    return change(context, migrateMetric(metricId, newDataPoolId, context.caller.applicationId), 'Metric')
  },
  deleteMetric: (_, { id }, context) => remove(context, { id }, deleteMetric),
  deleteMetricByName: (_, { uniqueName }, context) => remove(context, { uniqueName }, deleteMetric),
} satisfies Partial<Resolvers['Mutation']>

export const metricFields: Omit<Resolvers['Metric'], 'account' | 'environment'> = {
  dataPool: (metric, _, context) => {
    requireScope(context, ...READ_POOLS)
    return poolOf(metric, context)
  },
  dimensions: (metric, _, context) => {
    const pool = poolOf(metric, context)
    return metric.dimensions.map(name => dimension(metric, pool, name))
  },
  timestamp: (metric, _, context) => {
    const pool = poolOf(metric, context)
    const name = pool.timestamp ?? (pool.webhookId === null ? RECEIVED_AT : null)
    return name === null ? null : dimension(metric, pool, name)
  },
  measure: (metric, _, context) =>
    metric.column === null ? null : dimension(metric, poolOf(metric, context), metric.column),
  boosters: (_, args) => emptyPage(args),
  policies: (_, args) => emptyPage(args),
  settings: (metric, _, context) => settingsOf(metric, poolOf(metric, context)),
  counter: (metric, { input }, context) => answerQuestion(counter, about(metric, input), context),
  timeSeries: (metric, { input }, context) => answerQuestion(timeSeries, about(metric, input), context),
  leaderboard: async (metric, { input }, context) => {
    const answer = await answerQuestion(leaderboard, about(metric, input), context)
    // Clients of this field look for the header `value`.
    return { ...answer, headers: [...answer.headers.slice(0, -1), 'value'] }
  },
}

export const dimensionFields: Resolvers['Dimension'] = {
  columnName: ({ column }) => column.columnName,
  type: ({ column }) => column.storedType,
  isNullable: ({ column }) => column.isNullable,
  isUniqueKey: ({ pool, column }) => isWholeKey(pool, column.columnName),
  stats: (dimension, _, context) => statisticsOf(dimension, context),
}

/** The input of a question about this metric, whatever metric the input names. */
function about<Input extends object>(metric: Metric, input: Input) {
  return { ...input, metric: null, metricName: null, metricId: metric.id }
}

/** The fields that the inputs of all types have in common. */
type NewInput = Inputs['CreateCountMetricInput'] | null | undefined
interface Measured {
  readonly column?: string | undefined
  readonly expression?: string | undefined
}

async function create(type: MetricType, input: NewInput, measured: Measured, context: Context) {
  const { dataPool, uniqueName, description, filters, filterSql, dimensions } = given(input)
  const pool = found(context.deps.catalog.read.pools.find(dataPool), 'Data Pool')
  await checkTexts(pool, { filters, filterSql, expression: measured.expression }, context)
  const asked = {
    uniqueName,
    description,
    poolId: pool.id,
    type,
    ...measured,
    filters: storedFilters(filters),
    filterSql,
    dimensions: namesOf(dimensions),
  }
  const decide = createMetric(asked, context.caller.applicationId)
  return { metric: await change(context, decide, 'Data Pool') }
}

/** The schema allows a mutation of metrics without input. */
function given<T>(input: T | null | undefined): T {
  if (input === null || input === undefined) throw badRequest('"input" is missing.')
  return input
}

function namesOf(dimensions: readonly Inputs['DimensionInput'][] | null | undefined) {
  return dimensions?.map(({ columnName }) => columnName)
}

/** A metric goes with its pool. It can be gone only while a request is under way. */
function poolOf(metric: Metric, { deps }: Context): Pool {
  const pool = deps.catalog.read.pools.get(metric.poolId)
  if (pool === undefined) throw notFound('Data Pool')
  return pool
}

function dimension(metric: Metric, pool: Pool, name: string): DimensionOfPool {
  return { pool, metric, column: columnNamed(pool, name) }
}

function settingsOf(metric: Metric, pool: Pool) {
  const { type, column, expression, filterSql } = metric
  const common = { filters: shownFilters(metric.filters), filterSql }
  const measured = () => dimension(metric, pool, must(column, 'the column of a metric'))
  switch (type) {
    case 'COUNT':
      return { __typename: 'CountMetricSettings' as const, ...common }
    case 'SUM':
      return { __typename: 'SumMetricSettings' as const, ...common, measure: measured() }
    case 'AVERAGE':
      return { __typename: 'AverageMetricSettings' as const, ...common, measure: measured() }
    case 'MIN':
      return { __typename: 'MinMetricSettings' as const, ...common, measure: measured() }
    case 'MAX':
      return { __typename: 'MaxMetricSettings' as const, ...common, measure: measured() }
    case 'COUNT_DISTINCT':
      return { __typename: 'CountDistinctMetricSettings' as const, ...common, dimension: measured() }
    case 'CUSTOM':
      return { __typename: 'CustomMetricSettings' as const, ...common, expression: expression ?? '' }
  }
}
