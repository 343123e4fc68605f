/** Resolvers of metrics. An application that may query metrics may read them. */
import {
  createMetric,
  deleteMetric,
  migrateMetric,
  modifyMetric,
} from '../../catalog/change/change-metric.ts'
import type { Metric, MetricType, Pool } from '../../catalog/documents/model.ts'
import { RECEIVED_AT } from '../../format/schema.ts'
import { counter } from '../../query/plan/counter.ts'
import { leaderboard } from '../../query/plan/leaderboard.ts'
import { timeSeries } from '../../query/plan/time-series.ts'
import { must } from '../../util/errors.ts'
import { change, found, lookups, poolNamed, removing } from './changes.ts'
import { type Context, requireScope } from './context.ts'
import { checkTexts, shownFilters, storedFilters } from './filters.ts'
import { badRequest } from './graphql-errors.ts'
import { emptyPage } from './list-page.ts'
import type { DimensionOfPool } from './parents.ts'
import { columnNamed, isWholeKey } from './pool-columns.ts'
import { answerQuestion, statisticsOf } from './resolve-question.ts'
import type { Inputs, Resolvers } from './schema-types.ts'
import { READ_POOLS } from './scopes.ts'

const metrics = lookups('Metric', read => read.metrics)

export const metricQueries = {
  metric: metrics.byId,
  metricByName: metrics.byName,
  metrics: metrics.page,
} satisfies Partial<Resolvers['Query']>

export const metricMutations = {
  createCountMetric: (_, { input }, context) => create('COUNT', input, {}, context),
  createSumMetric: (_, { input }, context) => createMeasured('SUM', input, context),
  createAverageMetric: (_, { input }, context) => createMeasured('AVERAGE', input, context),
  createMinMetric: (_, { input }, context) => createMeasured('MIN', input, context),
  createMaxMetric: (_, { input }, context) => createMeasured('MAX', input, context),
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
    return { metric: await change(context, by => modifyMetric({ id }, fields, by), 'Metric') }
  },
  migrateMetric: async (_, { input: { metricId, newDataPoolId } }, context) => {
    const metric = found(context.deps.catalog.read.metrics.find(metricId), 'Metric')
    const { filters, filterSql, expression } = metric
    const texts = { filters: shownFilters(filters), filterSql, expression }
    await checkTexts(poolNamed(newDataPoolId, context), texts, context)
    return change(context, by => migrateMetric(metricId, newDataPoolId, by), 'Metric')
  },
  deleteMetric: removing(deleteMetric),
  deleteMetricByName: removing(deleteMetric),
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

type NewInput = Inputs['CreateCountMetricInput'] | null | undefined
interface Measured {
  readonly column?: string | undefined
  readonly expression?: string | undefined
}

async function create(type: MetricType, input: NewInput, measured: Measured, context: Context) {
  const { dataPool, uniqueName, description, filters, filterSql, dimensions } = given(input)
  const pool = poolNamed(dataPool, context)
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
  return { metric: await change(context, by => createMetric(asked, by), 'Data Pool') }
}

function createMeasured(
  type: MetricType,
  input: Inputs['CreateSumMetricInput'] | null | undefined,
  context: Context,
) {
  return create(type, input, { column: input?.measure.columnName }, context)
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
  return found(deps.catalog.read.pools.get(metric.poolId), 'Data Pool')
}

function dimension(metric: Metric, pool: Pool, name: string): DimensionOfPool {
  return { pool, metric, column: columnNamed(pool, name) }
}

const MEASURED = {
  SUM: 'SumMetricSettings',
  AVERAGE: 'AverageMetricSettings',
  MIN: 'MinMetricSettings',
  MAX: 'MaxMetricSettings',
} as const

function settingsOf(metric: Metric, pool: Pool) {
  const { type, column, expression, filterSql } = metric
  const common = { filters: shownFilters(metric.filters), filterSql }
  const measured = () => dimension(metric, pool, must(column, 'the column of a metric'))
  switch (type) {
    case 'COUNT':
      return { __typename: 'CountMetricSettings' as const, ...common }
    case 'SUM':
    case 'AVERAGE':
    case 'MIN':
    case 'MAX':
      return { __typename: MEASURED[type], ...common, measure: measured() }
    case 'COUNT_DISTINCT':
      return { __typename: 'CountDistinctMetricSettings' as const, ...common, dimension: measured() }
    case 'CUSTOM':
      return { __typename: 'CustomMetricSettings' as const, ...common, expression: expression ?? '' }
  }
}
