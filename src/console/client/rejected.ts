/** Events that were refused: by reason, over time, one by one, and taken in again. */
import { sumOf } from '../model/format.ts'
import { ApiError } from './api-error.ts'
import { loadGrid, named, type Pool, quoted, sql } from './pools.ts'
import { type Chosen, mutate, query } from './query.ts'
import type { Schema } from './schema.ts'

export interface Reason {
  readonly poolId: string
  readonly code: string
  readonly column: string | null
  readonly events: number
  readonly lastAt: string
  readonly message: string
}

/** Reasons that a page shows; further ones are rare by then. */
const REASONS_MAX = 200

/** The names of pools by id; a pool without one was deleted. Throws ApiError. */
export async function loadNames(
  poolIds: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const found = await Promise.all(
    [...new Set(poolIds)].map(async id => {
      try {
        const { uniqueName } = await query('dataPool(id: ID!)', 'uniqueName', { id }, signal)
        return [[id, uniqueName] as const]
      } catch (error) {
        if (error instanceof ApiError && error.code === 'NOT_FOUND') return []
        throw error
      }
    }),
  )
  return new Map(found.flat())
}

export async function loadReasons(
  rejected: Pool,
  poolId: string | undefined,
  signal: AbortSignal,
): Promise<readonly Reason[]> {
  const where = poolId === undefined ? '' : `WHERE data_pool_id = ${quoted(poolId)}`
  const rows = await sql(
    `SELECT data_pool_id, code, column_name, COUNT(*) AS events, MAX(_service_received_at) AS last_at,
       MIN(message) AS message
     FROM ${named(rejected.uniqueName)} ${where}
     GROUP BY data_pool_id, code, column_name ORDER BY events DESC LIMIT ${REASONS_MAX}`,
    signal,
  )
  return rows.map(([pool, code, column, events, lastAt, message]) => ({
    poolId: pool ?? '',
    code: code ?? '',
    column: column ?? null,
    events: Number(events),
    lastAt: lastAt ?? '',
    message: message ?? '',
  }))
}

/** The columns of an event. A policy may hide some of them, such as the text. */
const COLUMNS = {
  receivedAt: '_service_received_at',
  id: 'id',
  message: 'message',
  contentType: 'content_type',
  elementIndex: 'element_index',
  text: 'text',
  isTruncated: 'is_truncated',
  context: 'context',
} as const
export type RejectedEvent = Readonly<Record<keyof typeof COLUMNS, string | null>>

/** The newest events of a reason. */
export async function loadRejected(
  rejected: Pool,
  filterSql: string,
  first: number,
  signal?: AbortSignal,
): Promise<readonly RejectedEvent[]> {
  const visible = new Set(rejected.columns.nodes.map(column => column.columnName))
  const columns = Object.values(COLUMNS).filter(name => visible.has(name))
  const page = await loadGrid(
    {
      dataPool: { id: rejected.id },
      columns,
      orderByColumn: 1,
      sort: 'DESC',
      ...(filterSql === '' ? {} : { filterSql }),
      first,
    },
    signal,
  )
  return page.rows.map(row => {
    const value = (column: (typeof columns)[number]) => row[columns.indexOf(column)] ?? null
    const fields = Object.entries(COLUMNS).map(([name, column]) => [name, value(column)])
    return Object.fromEntries(fields) as RejectedEvent
  })
}

/** The condition of a reason, in SQL over the columns of the pool of rejected events. */
export function reasonSql({ poolId, code, column }: Pick<Reason, 'poolId' | 'code' | 'column'>): string {
  const ofColumn = column === null ? 'column_name IS NULL' : `column_name = ${quoted(column)}`
  return `data_pool_id = ${quoted(poolId)} AND code = ${quoted(code)} AND ${ofColumn}`
}

export interface OverTime {
  /** Seconds since 1970. */
  readonly times: readonly number[]
  /** A line for each code, the most frequent first. */
  readonly codes: readonly { readonly code: string; readonly counts: readonly number[] }[]
}

/** Events refused in each hour of the last seven days, by code, or of one pool. */
export async function loadOverTime(
  rejected: Pool,
  poolId: string | undefined,
  signal: AbortSignal,
): Promise<OverTime> {
  const series = { _: 'labels', groups: 'group values' } as const
  const input = {
    metric: { count: { dataPool: { id: rejected.id } } },
    granularity: 'HOUR',
    timeRange: { relative: 'LAST_N_DAYS', n: 7, timestamp: '_service_received_at' },
    groupBy: ['code'],
    ...(poolId === undefined ? {} : { filterSql: `data_pool_id = ${quoted(poolId)}` }),
  }
  const { labels, groups } = await query('timeSeries(input: TimeSeriesInput!)', series, { input }, signal)
  // Each group has the labels of all.
  const codes = (groups ?? []).map(({ group, values }) => ({
    code: group[0] ?? '',
    counts: values.map(value => Number(value ?? 0)),
  }))
  codes.sort((a, b) => sumOf(b.counts) - sumOf(a.counts))
  return { times: labels.map(label => Date.parse(label) / 1000), codes }
}

const REPLAY = {
  _: 'id status progress total accepted refused truncated firstRefusal',
  error: 'message',
} as const
export type ReplayJob = Chosen<Schema['ReplayRejectedEventsJob'], typeof REPLAY>

/** Starts a replay. Returns the id of its job. */
export async function replay(input: Schema['CreateReplayRejectedEventsJobInput']): Promise<string> {
  const field = 'createReplayRejectedEventsJob(input: CreateReplayRejectedEventsJobInput!)'
  return (await mutate(field, { job: 'id' } as const, { input })).job.id
}

export function loadReplay(id: string, signal?: AbortSignal): Promise<ReplayJob> {
  return query('replayRejectedEventsJob(id: ID!)', REPLAY, { id }, signal)
}
