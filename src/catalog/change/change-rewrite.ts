/** The jobs that delete rows of a pool, or set columns of them. */
import {
  type Job,
  type Pool,
  type RewriteInput,
  type RewriteJob,
  type RewriteWork,
  type ShardWork,
  schemaOf,
  versionOf,
} from '../documents/model.ts'
import { type Decide, unchanged } from './change.ts'
import { creatingJob, DELETED, failed, isUnfinished, stored, theJob } from './change-job.ts'

/** Columns that one update sets, each with an expression of its own. */
export const UPDATED_COLUMNS_MAX = 64

/** A new job over the rows with sequences below `beforeSequence`. */
export interface NewRewriteJob extends RewriteInput {
  readonly kind: RewriteJob['kind']
  readonly dataPool: string
  readonly beforeSequence: number
}

/** Filters and expressions were checked against the pool. */
export function createRewriteJob(
  { kind, dataPool, beforeSequence, filters, filterSql, set }: NewRewriteJob,
  by: string,
): Decide<RewriteJob | null> {
  return creatingJob<RewriteJob>(dataPool, by, (pool, common) => {
    const badRequest = kind === 'UPDATE_RECORDS' ? setProblem(pool, set) : undefined
    if (badRequest !== undefined) return { badRequest }
    return {
      ...common,
      kind,
      input: { filters, filterSql, set },
      beforeSequence,
      work: null,
      isCancelled: false,
    }
  })
}

const REWRITES = ['DELETE_RECORDS', 'UPDATE_RECORDS'] as const

export function isRewrite(job: Job): job is RewriteJob {
  return REWRITES.some(kind => kind === job.kind)
}

/** The result FAILED where the pool is gone. */
export function startRewrite(jobId: string, work: RewriteWork): Decide<RewriteJob> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId, ...REWRITES)
    if (job.status !== 'CREATED') return unchanged(job)
    if (memory.pools.get(job.poolId) === undefined) return failed(job, DELETED, nowMs)
    const at = new Date(nowMs).toISOString()
    return stored({ ...job, status: 'IN_PROGRESS', modifiedAt: at, startedAt: at, work })
  }
}

/**
 * How far a job in a cluster is. It is a change each time, so that it is answered when every node
 * knows the job. The result FAILED where the pool is gone.
 */
export function reachRewrite(jobId: string, shards: readonly ShardWork[]): Decide<RewriteJob> {
  return (memory, nowMs) => {
    const job = theJob(memory, jobId, ...REWRITES)
    if (!isUnfinished(job)) return unchanged(job)
    if (memory.pools.get(job.poolId) === undefined) return failed(job, DELETED, nowMs)
    const at = new Date(nowMs).toISOString()
    const progress = Math.max(job.progress, progressOf(shards))
    const startedAt = job.startedAt ?? at
    return stored({ ...job, status: 'IN_PROGRESS', progress, modifiedAt: at, startedAt, shards })
  }
}

/** How far a job is, from 0 to 1. */
export function progressOf(shards: readonly ShardWork[]): number {
  const sum = (of: (shard: ShardWork) => number) => shards.reduce((all, shard) => all + of(shard), 0)
  return (
    sum(({ done }) => done) /
    Math.max(
      sum(({ rows }) => rows),
      1,
    )
  )
}

/** The problem with the columns that an update sets: each once, and none of the key. */
export function setProblem(pool: Pool, set: RewriteInput['set']): string | undefined {
  if (set.length === 0) return 'An update sets at least one column.'
  if (set.length > UPDATED_COLUMNS_MAX) return `An update sets at most ${UPDATED_COLUMNS_MAX} columns.`
  const { columns, key, timestamp, uniqueId = -1 } = schemaOf(versionOf(pool))
  const fixed = new Set([timestamp, uniqueId, ...(key === null ? [] : [...key.columns, key.version])])
  const seen = new Set<string>()
  for (const { column } of set) {
    const index = columns.findIndex(({ name }) => name === column)
    if (index < 0) return `The Data Pool has no column ${JSON.stringify(column)} that can be set.`
    if (fixed.has(index))
      return `The column ${JSON.stringify(column)} belongs to the key of the records, which never changes: post new records and delete the old ones.`
    if (seen.has(column)) return `The column ${JSON.stringify(column)} is set twice.`
    seen.add(column)
  }
  return undefined
}
