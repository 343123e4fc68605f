/**
 * `weir rejected <pool>`: what a pool refused, by reason; with --replay takes it in again. It asks
 * a running server.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import { CannotRun } from '../util/errors.ts'
import { note, printable, say } from '../util/say.ts'
import { askServer, DEFAULT_URL } from './running-server.ts'
import { countText, tableLines } from './text-tables.ts'

/** Reasons that are printed: one for each code and column. */
const REASONS_MAX = 100
/** Interval at which a replay is asked how far it is. */
const FOLLOW_MS = 500

const POOLS = `query ($id: ID!, $name: String!) {
  byId: dataPool(id: $id) { id } byName: dataPoolByName(uniqueName: $name) { id }
  rejectedEventsDataPool { uniqueName } }`
const SQL = 'query ($query: String!) { sqlV1(input: { query: $query }) { rows } }'
const CREATE = `mutation ($input: CreateReplayRejectedEventsJobInput!) {
  createReplayRejectedEventsJob(input: $input) { job { id } } }`
const JOB = `query ($id: ID!) { replayRejectedEventsJob(id: $id) {
  status progress total accepted refused truncated firstRefusal error { message } } }`

interface Reason {
  readonly code: string
  readonly column: string | null
  readonly events: number
  readonly truncated: number
  readonly first: string
  readonly last: string
  readonly message: string
}

interface ReplayState {
  readonly status: string
  readonly progress: number
  readonly total: number
  readonly accepted: number
  readonly refused: number
  readonly truncated: number
  readonly firstRefusal: string | null
  readonly error: { readonly message: string } | null
}

interface Answer<T> {
  readonly data: T
  readonly errors?: readonly {
    readonly message: string
    readonly extensions?: { readonly code?: string }
  }[]
}

type Ask = <T>(query: string, variables: object) => Promise<T>

/** The exit code is 1 where a replay FAILED, or events were refused again. */
export async function rejected({ config, positionals, flags }: CommandInput): Promise<number> {
  const isReplay = flags.has('replay')
  for (const flag of ['where', 'into'])
    if (flags.has(flag) && !isReplay) throw new CannotRun(`--${flag} goes with --replay`)
  const url = flags.get('url') ?? DEFAULT_URL
  const ask: Ask = async <T>(query: string, variables: object) => {
    const body = { query, variables }
    const { data, errors = [] } = await askServer<Answer<T>>(config, url, '/graphql', body)
    // A pool that is not found by its id may be found by its name.
    const error = errors.find(({ extensions }) => query !== POOLS || extensions?.code !== 'NOT_FOUND')
    if (error !== undefined) throw new CannotRun(error.message)
    return data
  }
  const name = positionals[0] ?? ''
  const { id = name, table, isThere } = await find(ask, name)
  if (isReplay) return await replay(ask, id, flags)
  const reasons = await list(ask, id, table)
  // A deleted pool is known by its id, as long as its rejected events are there.
  if (reasons.length === 0 && !isThere) throw new CannotRun(`there is no pool "${name}"`)
  if (flags.has('json')) say(JSON.stringify(reasons, null, 2))
  else if (reasons.length === 0) say('no rejected events')
  else for (const line of tableLines(reasons, COLUMNS)) say(line)
  return CLEAN
}

/** The id of a pool, and the name of the pool of rejected events. */
async function find(ask: Ask, name: string) {
  const found = await ask<{
    readonly byId: { readonly id: string } | null
    readonly byName: { readonly id: string } | null
    readonly rejectedEventsDataPool: { readonly uniqueName: string }
  }>(POOLS, { id: name, name })
  const pool = found.byId ?? found.byName
  return { id: pool?.id, isThere: pool !== null, table: found.rejectedEventsDataPool.uniqueName }
}

async function list(ask: Ask, poolId: string, table: string): Promise<readonly Reason[]> {
  const statement = `SELECT code, column_name, COUNT(*) AS events,
      COUNT(*) FILTER (WHERE is_truncated) AS truncated,
      MIN(_service_received_at) AS first, MAX(_service_received_at) AS last, MAX(message) AS message
    FROM ${quoted(table, '"')} WHERE data_pool_id = ${quoted(poolId, "'")}
    GROUP BY code, column_name ORDER BY events DESC LIMIT ${REASONS_MAX}`
  const { sqlV1 } = await ask<{ readonly sqlV1: { readonly rows: readonly (readonly string[])[] } }>(SQL, {
    query: statement,
  })
  return sqlV1.rows.map(
    ([code = '', column = null, events, truncated, first = '', last = '', message = '']): Reason => ({
      ...{ code, column, events: Number(events), truncated: Number(truncated), first, last, message },
    }),
  )
}

const COLUMNS: Parameters<typeof tableLines<Reason>>[1] = [
  ['code', reason => reason.code],
  ['column', reason => reason.column ?? '-'],
  ['events', reason => reason.events],
  ['truncated', reason => reason.truncated],
  ['first', reason => reason.first],
  ['last', reason => reason.last],
  ['a message', reason => reason.message],
]

async function replay(ask: Ask, rejectedBy: string, flags: CommandInput['flags']): Promise<number> {
  const input = { dataPool: flags.get('into') ?? rejectedBy, rejectedBy, filterSql: flags.get('where') }
  const { createReplayRejectedEventsJob: made } = await ask<{
    readonly createReplayRejectedEventsJob: { readonly job: { readonly id: string } }
  }>(CREATE, { input })
  const { id } = made.job
  note(`job ${id}; weir jobs --cancel ${id} ends it`)
  for (;;) {
    const { replayRejectedEventsJob: job } = await ask<{ readonly replayRejectedEventsJob: ReplayState }>(
      JOB,
      { id },
    )
    if (job.status === 'SUCCEEDED' || job.status === 'FAILED') {
      if (flags.has('json')) say(JSON.stringify({ id, ...job }, null, 2))
      else for (const line of linesOf(job)) say(line)
      return job.status === 'SUCCEEDED' && job.refused === 0 ? CLEAN : DAMAGED
    }
    await sleep(FOLLOW_MS)
  }
}

function linesOf({
  status,
  total,
  accepted,
  refused,
  truncated,
  firstRefusal,
  error,
}: ReplayState): string[] {
  const counts = `${countText(accepted)} of ${countText(total)} accepted, ${countText(refused)} refused again, ${countText(truncated)} left out because their text is truncated`
  return [
    `${status}: ${counts}`,
    ...(firstRefusal === null ? [] : [`the first refusal: ${printable(firstRefusal)}`]),
    ...(error === null ? [] : [printable(error.message)]),
  ]
}

/** A name or a text of SQL. */
function quoted(text: string, quote: '"' | "'"): string {
  return quote + text.replaceAll(quote, quote + quote) + quote
}
