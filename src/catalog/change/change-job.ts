/**
 * Changes of jobs of every kind.
 *
 *   CREATED → IN_PROGRESS → SUCCEEDED, or FAILED from either of the first two
 *
 * change-add-column.ts, change-import.ts, change-replay.ts and change-rewrite.ts make and start
 * jobs. Each function may be run again after a crash: a step that was taken changes nothing.
 */

import { assert, must } from '../../util/errors.ts'
import { newId } from '../../util/ids.ts'
import { JOBS_ENDED_MAX, JOBS_UNFINISHED_MAX } from '../../util/limits.ts'
import { mayTake } from '../../util/shares.ts'
import type { BadRequest } from '../documents/catalog-types.ts'
import { keys, type Memory } from '../documents/memory.ts'
import { type Job, type JobCommon, type JobStatus, newAuthorship, type Pool } from '../documents/model.ts'
import { type Decide, type Decision, forPool, unchanged } from './change.ts'

/** The creator of jobs that no caller asked for: those of retention in a cluster. */
export const SYSTEM = 'system'

export const DELETED = 'The Data Pool was deleted before the job ended.'
export const CANCELLED = 'The job was cancelled.'
const CANCELLED_LATE = `${CANCELLED} What it has changed stays changed.`

export function isUnfinished({ status }: { readonly status: JobStatus }): boolean {
  return status === 'CREATED' || status === 'IN_PROGRESS'
}

/**
 * Makes a job on a pool. BadRequest where `by` may create no further one: its share is used up.
 * @param jobOf with what all jobs have, and those that have not ended, oldest first
 */
export function creatingJob<J extends Job>(
  dataPool: string,
  by: string,
  jobOf: (pool: Pool, common: JobCommon, memory: Memory, unfinished: readonly Job[]) => J | BadRequest,
): Decide<J | null> {
  return forPool(dataPool, pool => (memory, nowMs) => {
    const unfinished = memory.jobs.all().filter(isUnfinished)
    const own = unfinished.filter(({ createdBy }) => createdBy === by).length
    if (!mayTake(own, JOBS_UNFINISHED_MAX - unfinished.length))
      return {
        badRequest: `${own} jobs of the application are not finished, and ${unfinished.length} of all: try again when some have ended.`,
      }
    const job = jobOf(pool, newJob(pool.id, by, nowMs), memory, unfinished)
    return 'badRequest' in job ? job : created(memory, job)
  })
}

function newJob(poolId: string, by: string, nowMs: number): JobCommon {
  return {
    id: newId('DPJ', nowMs),
    poolId,
    status: 'CREATED',
    progress: 0,
    error: null,
    ...newAuthorship(by, nowMs),
    startedAt: null,
    succeededAt: null,
    failedAt: null,
  }
}

/** Beyond JOBS_ENDED_MAX those that ended first are removed, maybe with their runners at work. */
function created<J extends Job>(memory: Memory, job: J): Decision<J> {
  const ended = memory.jobs.all().filter(one => !isUnfinished(one))
  const surplus = Math.max(0, ended.length + 1 - JOBS_ENDED_MAX)
  const removed = surplus === 0 ? [] : ended.sort(byEnd).slice(0, surplus)
  return {
    puts: [[keys.job(job.id), job]],
    removes: removed.map(({ id }) => keys.job(id)),
    result: job,
  }
}

/** An ended job never changes, so its last change is its end. */
function byEnd(a: Job, b: Job): number {
  return Date.parse(a.modifiedAt) - Date.parse(b.modifiedAt)
}

/** The result FAILED where the pool is gone. */
export function succeedJob(jobId: string): Decide<Job> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId)
    if (job.status !== 'IN_PROGRESS') return unchanged(job)
    if (memory.pools.get(job.poolId) === undefined) return failed(job, DELETED, nowMs)
    return succeeded(job, nowMs)
  }
}

export function failJob(jobId: string, error: string, progress = 0): Decide<Job> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId)
    if (!isUnfinished(job)) return unchanged(job)
    return failed({ ...job, progress: Math.max(job.progress, progress) }, error, nowMs)
  }
}

export function progressJob(jobId: string, progress: number): Decide<Job> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId)
    if (job.status !== 'IN_PROGRESS' || job.progress >= progress) return unchanged(job)
    return stored({ ...job, progress, modifiedAt: new Date(nowMs).toISOString() })
  }
}

/** A CREATED job FAILED at once, and a running one ends after the step that it is at. */
export function cancelJob(jobId: string, by: string): Decide<Job | null> {
  return (memory, nowMs) => {
    const job = memory.jobs.get(jobId)
    if (job === undefined) return unchanged(null)
    const at = new Date(nowMs).toISOString()
    if (job.status === 'CREATED') return failed({ ...job, modifiedBy: by }, CANCELLED, nowMs)
    if (job.status !== 'IN_PROGRESS') return { badRequest: `The job has ended: its status is ${job.status}.` }
    if (job.kind === 'ADD_COLUMN')
      return { badRequest: 'The Data Pool has the column already, and columns are never removed.' }
    return stored({ ...job, isCancelled: true, modifiedAt: at, modifiedBy: by })
  }
}

export function endCancelled(jobId: string, progress: number): Decide<Job> {
  return failJob(jobId, progress > 0 ? CANCELLED_LATE : CANCELLED, progress)
}

export function succeeded<J extends Job>(job: J, nowMs: number): Decision<J> {
  const at = new Date(nowMs).toISOString()
  return stored({ ...job, status: 'SUCCEEDED', progress: 1, modifiedAt: at, succeededAt: at })
}

export function failed<J extends Job>(job: J, error: string, nowMs: number): Decision<J> {
  const at = new Date(nowMs).toISOString()
  return stored({ ...job, status: 'FAILED', error, modifiedAt: at, failedAt: at })
}

export function stored<J extends Job>(job: J): Decision<J> {
  return { puts: [[keys.job(job.id), job]], removes: [], result: job }
}

/** Also a job that was cancelled stays until JOBS_ENDED_MAX later ones have ended. */
export function theJob<K extends Job['kind']>(memory: Memory, jobId: string, ...kinds: readonly K[]) {
  const job = must(memory.jobs.get(jobId), `job ${jobId}`)
  assert(kinds.length === 0 || kinds.some(kind => kind === job.kind), `job ${jobId} is of its kind`)
  return job as Job & { readonly kind: K }
}
