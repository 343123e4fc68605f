/**
 * The way of rejected events into their pool again (jobs/replay-rejected.ts): the ordinary way of
 * requests, without their head. Signatures and credentials were checked when they came.
 *
 * Neighbours that have the same context share a request. The next request is given when this one
 * has its sequence, so events of one key keep their order.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Catalog } from '../../catalog/catalog.ts'
import type { Pool } from '../../catalog/documents/model.ts'
import type { RefusedAgain, Replayed, ReplayPort } from '../../jobs/replay-rejected.ts'
import type { BodyFormat } from '../../parse/sender/body-format.ts'
import { type Refusal, Unavailable } from '../../util/errors.ts'
import { BODY_BYTES_MAX, EVENTS_MAX } from '../../util/limits.ts'
import type { ApiDeps, IngestTarget } from '../api-types.ts'
import type { Admission, RateLimit } from './admission.ts'
import type { Ingest } from './ingest.ts'
import { type Answer, answerRefusal } from './ingest-answer.ts'
import { formatOf } from './sender.ts'

/** Wait before a request that found no room is given again. It waited WAIT_MS_MAX already. */
const RETRY_MS = 100
/** Then the job tries again, or ends because the server stops. */
const TRIES_MAX = 100
/** A body is the array of its events. */
const BRACKETS_BYTES = 2

interface PortDeps {
  readonly catalog: Pick<Catalog, 'read'>
  readonly api: Pick<ApiDeps, 'target' | 'rejectedTarget' | 'health'>
  readonly ingest: Pick<Ingest, 'post'>
  readonly rate: RateLimit
}

type Outcome = RefusedAgain | undefined

export function replayPort(deps: PortDeps): ReplayPort {
  return {
    post: (pool, events) => postAll(pool, events, deps),
    async remove(ids) {
      if (ids.length === 0) return
      const body = Buffer.from(JSON.stringify(ids.map(id => ({ id }))))
      const { answered } = await give(body, () => ofRejected(deps), deps)
      const { refusal } = await answered
      if (refusal !== undefined) throw new Unavailable(refusal.code, refusal.message)
    },
  }
}

async function postAll(pool: Pool, events: readonly Replayed[], deps: PortDeps): Promise<readonly Outcome[]> {
  const all: Given[] = []
  for (let from = 0; from < events.length; ) {
    const run = runOf(events, from)
    from += run.length
    all.push(await postRun(pool, run, deps))
  }
  const outcomes = await Promise.all(
    all.map(async ({ events: count, answered }) => outcomesOf(await answered, count)),
  )
  return outcomes.flat()
}

/** The events from `from` on that share a request: at least one. */
function runOf(events: readonly Replayed[], from: number): readonly Replayed[] {
  const first = events[from]!
  let to = from + 1
  let bytes = BRACKETS_BYTES + Buffer.byteLength(first.text)
  for (; to < events.length && to - from < EVENTS_MAX; to += 1) {
    const { text, isRequest, context } = events[to]!
    bytes += 1 + Buffer.byteLength(text)
    if (first.isRequest || isRequest || context !== first.context || bytes > BODY_BYTES_MAX) break
  }
  return events.slice(from, to)
}

/** A request that has its sequence, or its answer. */
interface Given {
  readonly events: number
  readonly answered: Promise<Answer>
}

async function postRun(pool: Pool, run: readonly Replayed[], deps: PortDeps): Promise<Given> {
  const { text, isRequest, contentType } = run[0]!
  // A request is read as it came, by what the source accepts now.
  const format = isRequest ? formatOf(contentType ?? '', 'post', ofPool(pool, deps).sender) : 'JSON'
  if (typeof format !== 'string')
    return { events: 1, answered: Promise.resolve(answerRefusal(unaccepted(format))) }
  const body = Buffer.from(isRequest ? text : `[${run.map(event => event.text).join()}]`)
  const given = await give(body, () => admissionOf(run[0]!, format, ofPool(pool, deps)), deps)
  return { events: run.length, ...given }
}

/** The source does not accept it, now as then: it is an outcome, and nothing is tried again. */
function unaccepted(refusal: Refusal): Refusal {
  return { ...refusal, status: 400 }
}

function admissionOf({ isRequest, context }: Replayed, format: BodyFormat, target: IngestTarget) {
  const { sender } = target
  const reads = sender !== undefined && sender.columns.length > 0
  const isPlain = format === 'JSON' && !(isRequest && sender?.wrapsEvents === true)
  return {
    ...({ target, kind: 'post', allOrNothing: isRequest, minimal: false, cors: false } as const),
    ...(reads ? { context: new TextEncoder().encode(context ?? '{}') } : {}),
    ...(isPlain ? {} : { received: { format, encoding: 'identity' } as const }),
  }
}

/** Gives a request to ingest until there is room for it. Rejects with Unavailable. */
async function give(
  body: Uint8Array,
  admit: () => Omit<Admission, 'declaredBytes'>,
  { api, ingest, rate }: PortDeps,
): Promise<{ readonly answered: Promise<Answer> }> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const { refuse } = api.health()
    if (refuse !== undefined) throw new Unavailable(refuse.code, refuse.message)
    const admission = admit()
    if (rate.retryAfterSeconds(admission.target.poolNumber) === 0) {
      let onSequenced = () => {}
      const sequenced = new Promise<undefined>(resolve => {
        onSequenced = () => resolve(undefined)
      })
      const answered = new Promise<Answer>(resolve => {
        ingest.post(admission, body, { sequenced: onSequenced, answered: resolve })
      })
      const first = await Promise.race([sequenced, answered])
      if (first?.refusal?.status !== 429) return { answered }
    }
    await sleep(RETRY_MS)
  }
  throw new Unavailable('busy', 'the server has no room for the rejected events now')
}

function ofPool(pool: Pool, { catalog, api }: PortDeps): IngestTarget {
  const webhookId = catalog.read.webhookIdOf(pool)
  const target = webhookId === undefined ? undefined : api.target(webhookId)
  if (target === undefined) throw new Unavailable('pool_deleted', 'the Data Pool was deleted')
  return target
}

function ofRejected({ api }: PortDeps) {
  const target = api.rejectedTarget()
  if (target === undefined) throw new Unavailable('no_pool', 'the Data Pool of rejected events is not there')
  return { target, kind: 'delete', allOrNothing: false, minimal: false, cors: false } as const
}

/** @throws Unavailable where nothing was decided about the events */
function outcomesOf({ refusal, errors = [] }: Answer, events: number): readonly Outcome[] {
  if (refusal !== undefined && refusal.status !== 400 && refusal.status !== 413)
    throw new Unavailable(refusal.code, refusal.message)
  const found = refusal?.events ?? errors
  const byIndex = new Map(found.map(({ index, code, message }) => [index, { code, message }]))
  return Array.from({ length: events }, (_, index) => byIndex.get(index) ?? refusal)
}
