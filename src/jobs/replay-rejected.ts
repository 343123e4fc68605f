/**
 * The runner of jobs that take rejected events in again, request by request in the order in which
 * they were refused. Each event is stored once, whatever ends the server on the way:
 *
 *   1. Read a page of the rejected events that match (replay-pages.ts).
 *   2. Reserve a received-at for a request, and write it with the progress that holds once a record
 *      with it is stored.
 *   3. Post the request, all of its events or none. Where some are refused again, they stay as they
 *      are, and the others are a request of their own, by step 2.
 *   4. After the page write the progress, and delete what was accepted from the pool of rejected
 *      events.
 *
 * After a kill, or a post whose end is not known, the job asks its pool for the received-at: the
 * events of a request are stored together or not at all (W-12), and no other request has it. Then
 * it repeats the deletion, which changes nothing where it was done.
 *
 * The answer may be wrong in two cases. In a cluster an INSERT whose node is gone may end after the
 * question: its pool may have the request twice, where no key makes it one. And if each record of
 * the request was replaced or deleted meanwhile, it is posted again.
 *
 *   W-9  One page is in memory. At most JOBS_RUNNING_MAX jobs run at once.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { DELETED, endCancelled, failJob, succeedJob } from '../catalog/change/change-job.ts'
import { progressReplay, startReplay } from '../catalog/change/change-replay.ts'
import type { Pool, ReplayJob, ReplayProgress } from '../catalog/documents/model.ts'
import { RECEIVED_AT } from '../format/schema.ts'
import type { QuestionDeps } from '../query/ask.ts'
import { printInstant } from '../query/expression/print-values.ts'
import { type BadQuery, isBadQuery } from '../query/expression/values.ts'
import { assert, must, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { countRows } from './ask-pool.ts'
import { condition, countSelected, lastSelected, type ReplayedRequest, ReplayPages } from './replay-pages.ts'
import type { JobRunner } from './run-jobs.ts'

/** Why an event was refused again. */
interface RefusedAgain {
  readonly code: string
  readonly message: string
}

/** The refusal of a request, and the errors of its events by index where these are known. */
export interface RefusedRequest {
  readonly refusal: RefusedAgain
  readonly events: ReadonlyMap<number, RefusedAgain>
}

/** The way into pools. Rejects with Unavailable where the machine refuses for now. */
export interface ReplayPort {
  /** A received-at for a request of so many events. No other request of the pool gets it. */
  reserve(pool: Pool, events: number): number
  /** Posts a request, all of its events or none. Resolves when they are durable, or refused. */
  post(pool: Pool, request: ReplayedRequest, receivedAtUs: number): Promise<RefusedRequest | undefined>
  /** Deletes rows of the pool of rejected events. */
  remove(ids: readonly string[]): Promise<void>
}

interface ReplayDeps {
  readonly catalog: Pick<Catalog, 'change' | 'pool' | 'read'>
  readonly reading: QuestionDeps
  /** Throws Unavailable before the server listens. */
  port(): ReplayPort
}

export function replayRunner(deps: ReplayDeps): JobRunner {
  return async (created, stopping) => {
    assert(created.kind === 'REPLAY_REJECTED', 'the job takes rejected events in again')
    const { catalog } = deps
    const pool = catalog.pool(created.poolId)
    if (pool !== undefined) await run(created, pool, stopping, deps)
    if (catalog.pool(created.poolId) === undefined) await catalog.change(failJob(created.id, DELETED))
  }
}

async function run(created: ReplayJob, pool: Pool, stopping: AbortSignal, deps: ReplayDeps): Promise<void> {
  const { catalog } = deps
  const begun = created.status === 'CREATED' ? await start(created, deps) : created
  if (begun?.status !== 'IN_PROGRESS') return
  let job = await resume(begun, pool, deps)
  const pages = new ReplayPages(job, deps)
  while (job.status === 'IN_PROGRESS' && !stopping.aborted) {
    if (job.isCancelled) {
      await catalog.change(endCancelled(job.id, job.progress))
      return
    }
    const requests = await pages.behind(job.done.position)
    if (isBadQuery(requests)) return await fail(job, requests, deps)
    if (requests.length === 0) {
      // It SUCCEEDED although some events may be refused again: `done` counts them.
      await catalog.change(succeedJob(job.id))
      return
    }
    job = await replayPage(job, pool, requests, stopping, deps)
  }
}

/** Undefined where the job has FAILED. */
async function start(job: ReplayJob, deps: ReplayDeps): Promise<ReplayJob | undefined> {
  const lastId = await lastSelected(job, deps)
  const total = isBadQuery(lastId) ? lastId : await countSelected(job, deps)
  if (isBadQuery(lastId) || isBadQuery(total)) {
    await fail(job, isBadQuery(lastId) ? lastId : (total as BadQuery), deps)
    return undefined
  }
  return (await deps.catalog.change(startReplay(job.id, lastId, total))) as ReplayJob
}

async function fail(job: ReplayJob, { badRequest }: BadQuery, { catalog }: ReplayDeps): Promise<void> {
  await catalog.change(failJob(job.id, badRequest))
}

/** Finds out how the last post ended, and does what is due since. */
async function resume(job: ReplayJob, pool: Pool, deps: ReplayDeps): Promise<ReplayJob> {
  const { posting } = job
  const isStored = posting !== undefined && (await hasRecord(pool, posting.receivedAtUs, job, deps))
  const done = isStored ? posting.done : job.done
  await deps.port().remove(done.removing)
  return (await deps.catalog.change(progressReplay(job.id, { ...done, removing: [] }))) as ReplayJob
}

async function hasRecord(pool: Pool, receivedAtUs: number, job: ReplayJob, deps: ReplayDeps) {
  const at = condition(RECEIVED_AT, 'EQUALS', printInstant(BigInt(receivedAtUs)))
  const count = await countRows(pool, { filters: [at], filterSql: null }, job.createdBy, deps)
  if (isBadQuery(count)) throw new Unavailable('replay_unknown', count.badRequest)
  return count > 0
}

/** Returns the job after it. */
async function replayPage(
  job: ReplayJob,
  pool: Pool,
  requests: readonly ReplayedRequest[],
  stopping: AbortSignal,
  deps: ReplayDeps,
): Promise<ReplayJob> {
  let done: ReplayProgress = { ...job.done, removing: [] }
  for (const request of requests) {
    if (stopping.aborted) break
    done = await replayRequest(job, pool, request, done, deps)
  }
  const told = await deps.catalog.change(progressReplay(job.id, done))
  crashPoint('replay.counted')
  await deps.port().remove(done.removing)
  crashPoint('replay.removed')
  return told as ReplayJob
}

/** Returns the progress after it. The catalog has it with the next request, or after the page. */
async function replayRequest(
  job: ReplayJob,
  pool: Pool,
  request: ReplayedRequest,
  done: ReplayProgress,
  { catalog, port }: ReplayDeps,
): Promise<ReplayProgress> {
  const { events, whole } = request
  let after = { ...done, position: must(events.at(-1), 'an event of a request').id }
  if (request.leftOut === 'truncated') return { ...after, truncated: after.truncated + events.length }
  if (request.leftOut === 'incomplete') return withRefused(after, events.length, INCOMPLETE)
  let left = events
  while (left.length > 0) {
    const stored = {
      ...after,
      accepted: after.accepted + left.length,
      removing: [...after.removing, ...left.map(({ id }) => id)],
    }
    const receivedAtUs = port().reserve(pool, left.length)
    await catalog.change(progressReplay(job.id, done, { receivedAtUs, done: stored }))
    crashPoint('replay.planned')
    const refused = await port().post(pool, { ...request, events: left }, receivedAtUs)
    crashPoint('replay.posted')
    if (refused === undefined) return stored
    const { refusal, events: errors } = refused
    const isAll = whole !== undefined || errors.size === 0
    const [first = refusal] = errors.values()
    after = withRefused(after, isAll ? left.length : errors.size, first)
    left = isAll ? [] : left.filter((_, index) => !errors.has(index))
  }
  return after
}

/** A request that asked for all or none, of which the job does not have all. */
const INCOMPLETE: RefusedAgain = {
  code: 'refused_with_others',
  message:
    'the request asked for all or none of its events, and the job has not all of them: the condition leaves some out, or not all of their texts were kept',
}

function withRefused(done: ReplayProgress, count: number, { code, message }: RefusedAgain): ReplayProgress {
  const firstRefusal = done.firstRefusal ?? { code, message }
  return { ...done, refused: done.refused + count, firstRefusal }
}
