/**
 * The job that takes rejected events of a pool in again. Its document says how far it is, so that
 * it goes on after a kill and counts nothing twice.
 */
import { assert } from '../../util/assert.ts'
import type { Job, ReplayInput, ReplayJob, ReplayProgress } from '../documents/model.ts'
import { type Decide, unchanged } from './change.ts'
import { created, DELETED, failed, newJob, stored, theJob, unfinishedJobs } from './change-job.ts'

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
  return (memory, nowMs) => {
    const pool = memory.pools.find(dataPool)
    if (pool === undefined) return unchanged(null)
    if (pool.builtIn !== undefined)
      return { badRequest: 'The Data Pool of rejected events has no rejected events of its own.' }
    const unfinished = unfinishedJobs(memory)
    if ('badRequest' in unfinished) return unfinished
    const job: ReplayJob = {
      ...newJob(pool.id, by, nowMs),
      kind: 'REPLAY_REJECTED',
      input,
      lastId: '',
      done: NOTHING_DONE,
      isCancelled: false,
    }
    return created(memory, job)
  }
}

/** @param lastId the last rejected event that the job looks at; "" where there is none */
export function startReplay(jobId: string, lastId: string, total: number): Decide<ReplayJob> {
  return (memory, nowMs) => {
    const job = replayJob(theJob(memory, jobId))
    if (job.status !== 'CREATED') return unchanged(job)
    if (memory.pools.get(job.poolId) === undefined) return failed(job, DELETED, nowMs)
    const at = new Date(nowMs).toISOString()
    const done = { ...job.done, total }
    return stored({ ...job, status: 'IN_PROGRESS', modifiedAt: at, startedAt: at, lastId, done })
  }
}

/** Writes how far the job is. The result may be cancelled. */
export function progressReplay(jobId: string, done: ReplayProgress): Decide<ReplayJob> {
  return (memory, nowMs) => {
    const job = replayJob(theJob(memory, jobId))
    if (job.status !== 'IN_PROGRESS') return unchanged(job)
    const seen = done.accepted + done.refused + done.truncated
    const progress = Math.min(0.99, seen / Math.max(done.total, 1))
    return stored({ ...job, done, progress, modifiedAt: new Date(nowMs).toISOString() })
  }
}

function replayJob(job: Job): ReplayJob {
  assert(job.kind === 'REPLAY_REJECTED', 'the job takes rejected events in again')
  return job
}
