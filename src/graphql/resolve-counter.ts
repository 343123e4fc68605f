/** The counter: picks metric and pool, hands the query over, prints the result. */

import type { Pool } from '../catalog/model.ts'
import type { BadQuery, CounterQuery, Filter, TimeRange } from '../query/protocol.ts'
import { wallMs } from '../util/clock.ts'
import { newId } from '../util/ids.ts'
import { type Context, type CounterResult, requireScope } from './context.ts'
import { badRequest, failure, notFound } from './errors.ts'

interface PoolInput {
  readonly id?: string | null
  readonly name?: string | null
}

/** Forms of `metric` that are built have their shape here; the others are only counted. */
interface MetricInput {
  readonly count?: { readonly dataPool: PoolInput } | null
  readonly sum?: { readonly dataPool: PoolInput; readonly measure: { readonly columnName: string } } | null
}

/** CounterInput as the schema coerces it. */
interface CounterInput {
  readonly metricId?: string | null
  readonly metricName?: string | null
  readonly metric?: MetricInput | null
  readonly timeRange?: TimeRange | null
  readonly timeZone?: string | null
  readonly filters?: readonly Filter[] | null
  readonly filterSql?: string | null
}

const BUILT = 'This version answers metrics given inline as "count" or "sum".'

export const counterQueries = {
  counter: async (_: unknown, { input }: { input: CounterInput }, context: Context) => {
    context.budget.query(input)
    const { metric, pool: asked } = selectMetric(input)
    const pool = poolToQuery(asked, context)
    if (given(input.filterSql) && input.filterSql.trim() !== '')
      throw badRequest('filterSql is not supported by this version; use filters.')
    const { timeRange = null, timeZone = null, filters = null } = input
    const query: CounterQuery = { metric, timeRange, timeZone, filters }
    const { applicationId } = context.caller
    const result = await count(pool, query, context)
    if ('badRequest' in result) throw badRequest(result.badRequest)
    return { value: result.value, query: queryInfo(result, applicationId) }
  },
}

/** NOT_FOUND where the pool was deleted meanwhile, whatever the query met then. */
async function count(
  pool: Pool,
  query: CounterQuery,
  { services, caller }: Context,
): Promise<CounterResult | BadQuery> {
  try {
    return await services.counter(pool, query, caller.applicationId)
  } catch (error) {
    throw services.catalog.pool(pool.id) === undefined ? notFound('Data Pool') : error
  }
}

function selectMetric({ metricId, metricName, metric }: CounterInput): {
  readonly metric: CounterQuery['metric']
  readonly pool: PoolInput
} {
  if ([metricId, metricName, metric].filter(given).length !== 1)
    throw badRequest('Give exactly one of "metric", "metricId" and "metricName".')
  if (!given(metric)) throw badRequest(`Metrics by id or name are not supported. ${BUILT}`)
  if (Object.values(metric).filter(given).length !== 1)
    throw badRequest('"metric" must have exactly one form, such as "count" or "sum".')
  if (given(metric.count)) return { metric: { kind: 'count' }, pool: metric.count.dataPool }
  if (given(metric.sum))
    return { metric: { kind: 'sum', column: metric.sum.measure.columnName }, pool: metric.sum.dataPool }
  throw badRequest(BUILT)
}

/**
 * The pool asked for, by id or by name. A name may hold an id, which wins, as in the other routes. Checks the scope before it
 * says what exists.
 */
function poolToQuery({ id, name }: PoolInput, context: Context): Pool {
  if ([id, name].filter(given).length !== 1)
    throw badRequest('"dataPool" must have exactly one of "id" and "name".')
  const { catalog } = context.services
  const pool = given(id) ? catalog.pool(id) : (catalog.pool(name ?? '') ?? catalog.poolByName(name ?? ''))
  requireScope(context, `query Data Pool ${pool?.id ?? id ?? name}`, 'data_pool:query')
  if (pool === undefined) throw notFound('Data Pool')
  if (pool.accessControlEnabled)
    throw failure(
      'FORBIDDEN',
      `Application ${context.caller.applicationId} is not allowed to query Data Pool ${pool.id}, because the pool has access control and no Data Pool Access Policy is assigned`,
    )
  return pool
}

function queryInfo({ value, info }: CounterResult, applicationId: string): Readonly<Record<string, unknown>> {
  const nowMs = wallMs()
  const at = new Date(nowMs).toISOString()
  return {
    id: newId('QRY', nowMs),
    createdAt: at,
    createdBy: applicationId,
    modifiedAt: at,
    modifiedBy: applicationId,
    bytesProcessed: String(info.bytesProcessed),
    durationInMilliseconds: Math.round(info.durationMs),
    recordsProcessed: String(info.recordsProcessed),
    resultingBytes: Buffer.byteLength(value ?? ''),
    resultingRecords: 1,
    booster: null,
    propeller: null,
    status: 'COMPLETED',
    type: 'METRIC',
    subtype: 'COUNTER',
    sql: info.sql,
  }
}

/** Clients send explicit nulls beside the form they mean. */
function given<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined
}
