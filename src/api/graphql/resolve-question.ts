/**
 * One resolver for all questions: finds the pool, has the question answered, and tells what it
 * cost. Statements of SQL name several pools (resolve-sql.ts).
 */
import type { Metric, Pool } from '../../catalog/documents/model.ts'
import type { Answered } from '../../query/ask.ts'
import { refusable } from '../../query/expression/values.ts'
import { counter } from '../../query/plan/counter.ts'
import { dataGrid } from '../../query/plan/data-grid.ts'
import { leaderboard } from '../../query/plan/leaderboard.ts'
import { type FindMetric, ownFilters } from '../../query/plan/metric.ts'
import { metricReport } from '../../query/plan/metric-report.ts'
import { percentile } from '../../query/plan/percentile.ts'
import type { LimitedPool } from '../../query/plan/policy.ts'
import {
  type Askable,
  isGiven,
  type PoolReference,
  type Question,
  type Reader,
} from '../../query/plan/question.ts'
import { recordsByUniqueId } from '../../query/plan/records-by-unique-id.ts'
import { type ColumnQuery, columnRange, columnValues, uniqueValuesOf } from '../../query/plan/statistics.ts'
import { timeSeries } from '../../query/plan/time-series.ts'
import { topValues } from '../../query/plan/top-values.ts'
import { wallMs } from '../../util/clock.ts'
import { newId } from '../../util/ids.ts'
import { UNIQUE_VALUES_MAX } from '../../util/limits.ts'
import { accessTo, verifyView } from '../pool-reader.ts'
import { type Context, requireScope } from './context.ts'
import { badRequest, failure, notFound } from './graphql-errors.ts'
import type { DimensionOfPool, StatisticsOfColumn } from './parents.ts'
import type { Resolvers } from './schema-types.ts'
import { READ_STATISTICS } from './scopes.ts'

export type QueryInfo = Extract<Awaited<ReturnType<Resolvers['Query']['counter']>>, object>['query']

/** Resolvers of `Query`. A new kind of question is one file in query/ and one entry here. */
export const counterQueries = {
  counter: (_, { input }, context) => answerQuestion(counter, input, context),
  // Each counter fails alone: its place in the list is null then.
  counters: (_, { input }, context) => input.map(one => answerQuestion(counter, one, context)),
} satisfies Partial<Resolvers['Query']>

export const metricQuestions = {
  timeSeries: (_, { input }, context) => answerQuestion(timeSeries, input, context),
  leaderboard: (_, { input }, context) => answerQuestion(leaderboard, input, context),
  metricReport: (_, { input }, context) => answerQuestion(metricReport, input, context),
} satisfies Partial<Resolvers['Query']>

export const poolQuestions = {
  dataGrid: (_, { input }, context) => answerQuestion(dataGrid, input, context),
  percentile: (_, { input }, context) => answerQuestion(percentile, input, context),
  recordsByUniqueId: (_, { input }, context) => answerQuestion(recordsByUniqueId, input, context),
  topValues: (_, { input }, context) => answerQuestion(topValues, input, context),
} satisfies Partial<Resolvers['Query']>

export async function answerQuestion<Input, Query, Answer>(
  question: Question<Input, Query, Answer>,
  input: object,
  context: Context,
): Promise<Answer & { readonly query: QueryInfo }> {
  context.budget.query(input)
  await context.slices.step()
  const read = refusable(() => question.read(input as Input, reference => findMetric(reference, context)))
  if ('badRequest' in read) throw badRequest(read.badRequest)
  const pool = poolToQuery(read.pool, context, read.isPredefined)
  for (const other of read.alsoOf ?? [])
    if (poolToQuery(other, context, read.isPredefined) !== pool)
      throw badRequest('The metrics of a report must be about one Data Pool.')
  const answered = await ask(question, pool, read.query, context)
  context.onAnswered?.(answered)
  let info: QueryInfo | undefined
  return {
    ...answered.answer,
    // Few clients ask for it: its id and times take a tenth of an answer that was kept.
    get query() {
      info ??= queryInfo(question, answered, context)
      return info
    },
  }
}

export function readerOf({ deps, caller, slices, gone, span }: Context): Reader {
  return {
    applicationId: caller.applicationId,
    verifyAgain: pools => verifyView(pools, caller, deps.catalog.read),
    gone,
    span,
    inTurn: plan => slices.inOrder(plan),
  }
}

/** A pool with the policy that limits the caller. Throws FORBIDDEN by the pool's access control. */
export function limitedPool(pool: Pool, { deps, caller }: Context): LimitedPool {
  const { read } = deps.catalog
  const access = accessTo(pool, caller, read)
  if ('policy' in access) return { schema: read.currentSchema(pool), policy: access.policy }
  throw failure(
    'FORBIDDEN',
    `Application ${caller.applicationId} is not allowed to query Data Pool ${pool.id}, because ${access.forbidden}`,
  )
}

/** True for a pool of which a statement of SQL does not even say to the caller that it is there. */
export function isHidden(pool: Pool, { deps, caller }: Context): boolean {
  const { read } = deps.catalog
  const isAssigned = read.policyOf(pool.id, caller.applicationId) !== undefined
  return !isAssigned && 'forbidden' in accessTo(pool, caller, read)
}

/** A pool deleted meanwhile is NOT_FOUND, whatever error the query met. */
async function ask<Query, Answer>(
  question: Askable<Query, Answer>,
  pool: Pool,
  query: Query,
  context: Context,
): Promise<Answered<Answer>> {
  const { deps } = context
  const answered = await context.held
    .during(deps.query.ask(question, [limitedPool(pool, context)], query, readerOf(context), deps.reading))
    .catch((error: unknown) => {
      throw deps.catalog.pool(pool.id) === undefined ? notFound('Data Pool') : error
    })
  if ('badRequest' in answered) throw badRequest(answered.badRequest)
  context.held.rows(answered.rows)
  return answered
}

/** Statistics over a metric's rows. All but `uniqueValues` share one query, which runs once. */
export function statisticsOf(
  { pool, metric, column: { columnName: column } }: DimensionOfPool,
  context: Context,
): StatisticsOfColumn {
  requireScope(context, ...READ_STATISTICS)
  const begin = async (question: Askable<ColumnQuery>) => {
    context.budget.query({ column })
    await context.slices.step()
    return await ask(question, pool, { column, own: ownFilters(metric) }, context)
  }
  let range: Promise<Answered> | undefined
  return {
    uniqueValues: async limit => {
      if (limit !== null && limit < 1) throw badRequest('limit: it is at least 1')
      return uniqueValuesOf((await begin(columnValues)).rows, limit ?? UNIQUE_VALUES_MAX)
    },
    range: async () => {
      range ??= begin(columnRange)
      return await range
    },
  }
}

export const statisticsFields: Resolvers['DimensionStatistics'] = {
  uniqueValues: (statistics, { limit }) => statistics.uniqueValues(limit ?? null),
  min: async statistics => (await statistics.range()).rows[0]?.[0] ?? null,
  max: async statistics => (await statistics.range()).rows[0]?.[1] ?? null,
  average: async statistics => (await statistics.range()).rows[0]?.[2] ?? null,
  query: async (statistics, _, context) => queryInfo(columnRange, await statistics.range(), context),
}

/** An id may be a name. The scope is checked before the answer tells which metrics exist. */
function findMetric(reference: Parameters<FindMetric>[0], context: Context): Metric {
  const name = 'id' in reference ? reference.id : reference.name
  requireScope(context, `query Metric ${name}`, 'metric:query')
  const metric = context.deps.catalog.read.metrics.find(name)
  if (metric === undefined) throw notFound('Metric')
  return metric
}

/** The scope, or that of a metric, is checked before the answer tells which pools exist. */
function poolToQuery({ id, name }: PoolReference, context: Context, isPredefined: boolean): Pool {
  if ([id, name].filter(isGiven).length !== 1)
    throw badRequest('"dataPool" must have exactly one of "id" and "name".')
  const { catalog } = context.deps
  const pool = catalog.read.pools.find((isGiven(id) ? id : name) ?? '')
  // The message repeats the caller's words, so it is the same for a pool that does not exist.
  if (!isPredefined) requireScope(context, `query Data Pool ${id ?? name}`, 'data_pool:query')
  if (pool === undefined) throw notFound('Data Pool')
  return pool
}

export function queryInfo(
  { type, subtype }: Pick<Askable, 'type' | 'subtype'>,
  answered: Answered,
  { caller, deps }: Context,
): QueryInfo {
  const { applicationId } = caller
  const nowMs = wallMs()
  const at = new Date(nowMs).toISOString()
  const { rows } = answered
  return {
    id: newId('QRY', nowMs),
    createdAt: at,
    createdBy: applicationId,
    modifiedAt: at,
    modifiedBy: applicationId,
    bytesProcessed: String(answered.bytesProcessed),
    durationInMilliseconds: Math.round(answered.durationMs),
    recordsProcessed: String(answered.recordsProcessed),
    fromCache: answered.fromCache,
    // A getter, because a large answer has 100,000 values, and few clients ask.
    get resultingBytes() {
      return rows.flat().reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0)
    },
    resultingRecords: rows.length,
    booster: null,
    propeller: deps.catalog.application(applicationId)?.propeller ?? null,
    status: 'COMPLETED',
    type,
    subtype,
    sql: answered.sql,
  }
}
