/**
 * The job that takes rejected events of a pool in again. Its document says how far it is, so that
 * it goes on after a kill and counts nothing twice.
 */
import type { Pool, ReplayInput, ReplayJob, ReplayPosting, ReplayProgress } from '../documents/model.ts'
import { type Decide, unchanged } from './change.ts'
import { creatingJob, DELETED, failed, stored, theJob } from './change-job.ts'

const NOTHING_DONE: ReplayProgress = {
  total: 0,
  accepted: 0,
  refused: 0,
  truncated: 0,
  firstRefusal: null,
  position: '',
  removing: [],
}

/** The filters were checked against the pool of rejected events. Null: there is no such pool. */
export function createReplayJob(
  { dataPool, ...input }: ReplayInput & { readonly dataPool: string },
  by: string,
): Decide<ReplayJob | null> {
  return creatingJob<ReplayJob>(dataPool, by, (pool, common, { pools }) => {
    if (pool.builtIn !== undefined)
      return { badRequest: 'The Data Pool of rejected events has no rejected events of its own.' }
    const from = pools.find(input.rejectedBy) ?? pool
    if (envelopeOf(from) !== envelopeOf(pool)) return { badRequest: OTHER_ENVELOPE }
    return { ...common, kind: 'REPLAY_REJECTED', input, lastId: '', done: NOTHING_DONE, isCancelled: false }
  })
}

/** Its rejected events have the body around them at this path; undefined where they have none. */
function envelopeOf({ keepEnvelope, eventsPath }: Pool): string | undefined {
  return keepEnvelope === true ? eventsPath : undefined
}

const OTHER_ENVELOPE =
  'The rejected events have a body around them that this Data Pool does not read, or lack the one that it reads: its columns would be null. Replay them into a Data Pool with the same eventsPath and keepEnvelope.'

/** @param lastId the last rejected event that the job looks at; "" where there is none */
export function startReplay(jobId: string, lastId: string, total: number): Decide<ReplayJob> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId, 'REPLAY_REJECTED')
    if (job.status !== 'CREATED') return unchanged(job)
    if (memory.pools.get(job.poolId) === undefined) return failed(job, DELETED, nowMs)
    const at = new Date(nowMs).toISOString()
    const done = { ...job.done, total }
    return stored({ ...job, status: 'IN_PROGRESS', modifiedAt: at, startedAt: at, lastId, done })
  }
}

/** Writes how far the job is, and what it posts now. The result may be cancelled. */
export function progressReplay(
  jobId: string,
  done: ReplayProgress,
  posting?: ReplayPosting,
): Decide<ReplayJob> {
  return (memory, nowMs) => {
    const { posting: _, ...job } = theJob(memory, jobId, 'REPLAY_REJECTED')
    if (job.status !== 'IN_PROGRESS') return unchanged(job)
    const seen = done.accepted + done.refused + done.truncated
    const progress = Math.min(0.99, seen / Math.max(done.total, 1))
    const modifiedAt = new Date(nowMs).toISOString()
    return stored({ ...job, done, ...(posting && { posting }), progress, modifiedAt })
  }
}
