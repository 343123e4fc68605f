/**
 * What the runners of jobs that change rows share: its plan, its tries where expressions fail, and
 * its end where it was cancelled or its pool is gone.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { endCancelled, failJob, succeedJob } from '../catalog/change/change-job.ts'
import { isRewrite } from '../catalog/change/change-rewrite.ts'
import type { RewriteJob } from '../catalog/documents/model.ts'
import type { PoolSchema } from '../format/schema.ts'
import { parseTexts } from '../query/ask.ts'
import type { BadQuery } from '../query/expression/values.ts'
import type { QueryEngine } from '../query/plan/query-task.ts'
import type { Filter } from '../query/plan/where.ts'
import { type PlannedChanges, planRowChanges } from '../query/plan-row-changes.ts'
import { assert, SegmentDamaged, SegmentsDisagree, Unavailable } from '../util/errors.ts'
import { fail } from '../util/say.ts'
import type { JobRunner } from './run-jobs.ts'

/** Times in a row that an engine may fail a job, which then FAILED. */
export const JOB_ENGINE_TRIES_MAX = 5
/** A job tells how far it is at most this often: each time is a synced change. */
export const JOB_PROGRESS_MS = 1_000

export type JobCatalog = Pick<Catalog, 'change' | 'pool' | 'read'>

/** `onStep`: a step was done, and the job is so far, from 0 to 1. */
type Rewriting = (job: RewriteJob, stopping: AbortSignal, onStep: (progress: number) => void) => Promise<void>

/**
 * Fails a job that an engine has failed too often. A step that is done gives it all tries again.
 * @param step what is read in one
 */
export function triedRunner(catalog: JobCatalog, step: string, rewrite: Rewriting): JobRunner {
  const failures = new Map<string, number>()
  return async (job, stopping) => {
    assert(isRewrite(job), 'the job rewrites rows')
    let progress = 0
    const onStep = (reached: number) => {
      failures.delete(job.id)
      progress = reached
    }
    try {
      await rewrite(job, stopping, onStep)
    } catch (error) {
      const reason = reasonToFail(error, failures.get(job.id) ?? 0, step)
      if (reason === undefined) {
        if (isOfEngine(error)) failures.set(job.id, (failures.get(job.id) ?? 0) + 1)
        throw error
      }
      await catalog.change(failJob(job.id, reason, progress))
    }
    failures.delete(job.id)
  }
}

/** Ends a job that was cancelled or whose pool is gone. False where it goes on. */
export async function endsHere(
  { id, poolId }: RewriteJob,
  progress: number,
  catalog: JobCatalog,
): Promise<boolean> {
  const now = catalog.read.jobs.get(id)
  if (now !== undefined && isRewrite(now) && now.isCancelled) await catalog.change(endCancelled(id, progress))
  else if (catalog.pool(poolId) === undefined)
    await catalog.change(succeedJob(id)) // which fails it
  else return now?.status !== 'IN_PROGRESS'
  return true
}

export async function planJob(
  { input, beforeSequence, createdAt, createdBy }: RewriteJob,
  schema: PoolSchema,
  engine: Pick<QueryEngine, 'parse' | 'dialect'>,
): Promise<PlannedChanges | BadQuery> {
  const { filters, filterSql, set } = input
  return await planRowChanges(
    schema,
    { filters: filters as readonly Filter[], filterSql, set },
    beforeSequence,
    Date.parse(createdAt),
    texts => parseTexts(texts, engine, createdBy),
    engine.dialect,
  )
}

/**
 * An unexplained error is our fault. It fails the job, not the server, which would start it again.
 */
export function rejectTyped(error: Error): never {
  if (error.name !== 'Error') throw error
  fail(`a job cannot read its rows: ${error.stack}`)
  throw new Unavailable('query_failed', error.message)
}

const OF_EXPRESSIONS: readonly string[] = [
  'query_failed',
  'query_process',
  'query_memory',
  'timeout',
  'too_much_work',
  'merge_memory',
]

/** True where the engine failed: an expression may be the cause, and would fail it again. */
function isOfEngine(error: unknown): error is Unavailable {
  return error instanceof Unavailable && OF_EXPRESSIONS.includes(error.code)
}

/** undefined where the job will be tried again. */
function reasonToFail(error: unknown, failures: number, step: string): string | undefined {
  if (error instanceof SegmentDamaged || error instanceof SegmentsDisagree)
    return `${error.message}: stop Weir and run "weir verify".`
  if (isOfEngine(error) && failures + 1 >= JOB_ENGINE_TRIES_MAX)
    return `The records of ${step} could not be read: ${JOB_ENGINE_TRIES_MAX} tries failed, the last one with: ${error.message}.`
  return undefined
}
