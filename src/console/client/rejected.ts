/** Events that were refused: by reason, over time, one by one, and taken in again. */
import { loadGrid, named, type Pool, quoted, sql } from './pools.ts'
import { ask } from './request.ts'
import type { Job } from './sources.ts'

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

export interface RejectedEvent {
  readonly id: string
  readonly poolId: string
  readonly code: string
  readonly column: string | null
  readonly message: string
  readonly contentType: string | null
  readonly elementIndex: string | null
  readonly text: string | null
  readonly isTruncated: boolean
  readonly context: string | null
  readonly receivedAt: string
}

const COLUMNS = [
  '_service_received_at',
  'id',
  'data_pool_id',
  'code',
  'column_name',
  'message',
  'content_type',
  'element_index',
  'text',
  'is_truncated',
  'context',
]

/** The newest events of a reason. */
export async function loadRejected(
  rejected: Pool,
  filterSql: string,
  first: number,
  signal?: AbortSignal,
): Promise<readonly RejectedEvent[]> {
  const page = await loadGrid(
    {
      dataPool: { id: rejected.id },
      columns: COLUMNS,
      orderByColumn: 1,
      sort: 'DESC',
      ...(filterSql === '' ? {} : { filterSql }),
      first,
    },
    signal,
  )
  return page.rows.map(row => ({
    receivedAt: row[0] ?? '',
    id: row[1] ?? '',
    poolId: row[2] ?? '',
    code: row[3] ?? '',
    column: row[4] ?? null,
    message: row[5] ?? '',
    contentType: row[6] ?? null,
    elementIndex: row[7] ?? null,
    text: row[8] ?? null,
    isTruncated: row[9] === 'true',
    context: row[10] ?? null,
  }))
}

/** The condition of a reason, in SQL over the columns of the pool of rejected events. */
export function reasonSql({ poolId, code, column }: Pick<Reason, 'poolId' | 'code' | 'column'>): string {
  const ofColumn = column === null ? 'column_name IS NULL' : `column_name = ${quoted(column)}`
  return `data_pool_id = ${quoted(poolId)} AND code = ${quoted(code)} AND ${ofColumn}`
}

export interface OverTime {
  readonly times: readonly number[]
  readonly counts: readonly number[]
}

/** Events refused in each hour of the last seven days, or of one pool. */
export async function loadOverTime(
  rejected: Pool,
  poolId: string | undefined,
  signal: AbortSignal,
): Promise<OverTime> {
  const { timeSeries } = await ask<{
    readonly timeSeries: { readonly labels: readonly string[]; readonly values: readonly (string | null)[] }
  }>(
    `query ($input: TimeSeriesInput!) { timeSeries(input: $input) { labels values } }`,
    {
      input: {
        metric: { count: { dataPool: { id: rejected.id } } },
        granularity: 'HOUR',
        timeRange: { relative: 'LAST_N_DAYS', n: 7, timestamp: '_service_received_at' },
        ...(poolId === undefined ? {} : { filterSql: `data_pool_id = ${quoted(poolId)}` }),
      },
    },
    signal,
  )
  return {
    times: timeSeries.labels.map(label => Date.parse(label) / 1000),
    counts: timeSeries.values.map(value => Number(value ?? 0)),
  }
}

export interface ReplayJob extends Job {
  readonly total: number
  readonly accepted: number
  readonly refused: number
  readonly truncated: number
  readonly firstRefusal: string | null
}

/** Starts a replay. Returns the id of its job. */
export async function replay(input: {
  readonly dataPool: string
  readonly rejectedBy: string
  readonly filterSql?: string
}): Promise<string> {
  const { createReplayRejectedEventsJob } = await ask<{
    readonly createReplayRejectedEventsJob: { readonly job: { readonly id: string } }
  }>(
    `mutation ($input: CreateReplayRejectedEventsJobInput!) {
      createReplayRejectedEventsJob(input: $input) { job { id } } }`,
    { input },
  )
  return createReplayRejectedEventsJob.job.id
}

export async function loadReplay(id: string, signal?: AbortSignal): Promise<ReplayJob> {
  const { replayRejectedEventsJob } = await ask<{ readonly replayRejectedEventsJob: ReplayJob }>(
    `query ($id: ID!) { replayRejectedEventsJob(id: $id) {
      id status progress total accepted refused truncated firstRefusal error { message } } }`,
    { id },
    signal,
  )
  return replayRejectedEventsJob
}
