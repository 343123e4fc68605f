/**
 * The runner of jobs that delete rows or set columns of them, segment by segment, beside ingest.
 *
 *   CREATED      every row that the job may change is flushed; the pool's segments are reserved,
 *                and the job is IN_PROGRESS
 *   IN_PROGRESS  of each reserved segment: the query process finds the rows and their new values,
 *                and a rewrite by the merge thread commits them as a compaction does
 *   SUCCEEDED    no reserved segment is left to look at
 *
 * A rewrite gives a segment a higher number in the transaction that replaces it. So after a crash
 * the reserved segments with lower numbers are exactly those that were not rewritten, and no row is
 * changed twice. A segment without a matching row is looked at again, which changes nothing.
 *
 *   W-7  Rows keep their sequences, and a rewrite moves only keys that still point into its
 *        segment: a row that was posted or deleted meanwhile stays as it is.
 *   W-9  One segment of a job is under way, and its changes are one file in data/tmp.
 */
import { rm } from 'node:fs/promises'
import { failJob, progressJob, succeedJob } from '../catalog/change/change-job.ts'
import { isRewrite, startRewrite } from '../catalog/change/change-rewrite.ts'
import type { Job, Pool, RewriteJob } from '../catalog/documents/model.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import { isBadQuery } from '../query/expression/values.ts'
import { prune } from '../query/plan/prune-segments.ts'
import { rowsOfPool, type SegmentEngine } from '../query/plan/segment-task.ts'
import type { PlannedChanges } from '../query/plan-row-changes.ts'
import type { Rewrite, RewriteOutcome } from '../store/compaction/compaction-types.ts'
import { monotonicMs } from '../util/clock.ts'
import { assert, must } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { EXPORT_COPY_MS_MAX } from '../util/limits.ts'
import { rowChangesFile } from '../util/paths.ts'
import { warn } from '../util/say.ts'
import type { JobRunner } from './run-jobs.ts'
import {
  endsHere,
  JOB_PROGRESS_MS,
  type JobCatalog,
  planJob,
  rejectTyped,
  triedRunner,
} from './tried-rewrites.ts'

/** Rows of a group in a file of row changes. DuckDB holds one in memory, whatever its values. */
const CHANGES_GROUP_ROWS = 8_192

/** A pool is named by its number. */
interface RewrittenPools {
  schemaOf(pool: Pool): PoolSchema
  /** Reserves the segments that hold everything acknowledged by now; resolves with their limit. */
  reserveSegments(pool: number): Promise<number>
  /** Ends a reservation. Without one it does nothing. */
  releaseSegments(pool: number): void
  snapshot(pool: number): Promise<{ readonly segments: readonly QuerySegment[]; release(): void }>
  /** Rejects with SegmentDamaged, SegmentsDisagree or Unavailable: nothing has changed. */
  rewrite(pool: number, rewrite: Rewrite): Promise<RewriteOutcome>
}

interface RewriteDeps {
  readonly catalog: JobCatalog
  readonly pools: RewrittenPools
  readonly engine: Pick<SegmentEngine, 'run' | 'parse' | 'dialect'>
  /** data/tmp, absolute. */
  readonly temporaryFolder: string
  readonly onRows: (kind: Job['kind'], rows: number) => void
}

export function rewriteRunner(deps: RewriteDeps): JobRunner {
  const rewrite = triedRunner(deps.catalog, 'a segment', async (job, stopping, onSegment) => {
    const pool = deps.catalog.pool(job.poolId)
    const started = job.status === 'CREATED' ? await start(job, pool, deps) : job
    if (started.status === 'IN_PROGRESS') await rewriteAll(started, pool, stopping, deps, onSegment)
  })
  return async (job, stopping) => {
    const pool = deps.catalog.pool(job.poolId)
    await rewrite(job, stopping)
    if (pool !== undefined) deps.pools.releaseSegments(pool.number)
  }
}

async function start(job: RewriteJob, pool: Pool | undefined, deps: RewriteDeps): Promise<RewriteJob> {
  if (pool === undefined)
    return (await deps.catalog.change(startRewrite(job.id, { segmentsBelow: 0, rows: 0 }))) as RewriteJob
  const segmentsBelow = await deps.pools.reserveSegments(pool.number)
  const reserved = await reservedSegments(job, segmentsBelow, pool, deps)
  const rows = rowsOf(reserved)
  const started = await deps.catalog.change(startRewrite(job.id, { segmentsBelow, rows }))
  assert(!isBadQuery(started), 'a start is never refused')
  crashPoint('job.started')
  return started
}

/** `onSegment`: a segment was done, and the job is so far, from 0 to 1. */
async function rewriteAll(
  job: RewriteJob,
  pool: Pool | undefined,
  stopping: AbortSignal,
  deps: RewriteDeps,
  onSegment: (progress: number) => void,
): Promise<void> {
  const { catalog } = deps
  const work = must(job.work, 'the work of a job that started')
  const left = pool === undefined ? [] : await reservedSegments(job, work.segmentsBelow, pool, deps)
  let rowsLeft = pool === undefined ? work.rows : rowsOf(left)
  const progress = () => Math.max(0, 1 - rowsLeft / Math.max(work.rows, 1))
  if (await endsHere(job, progress(), catalog)) return
  const planned = pool === undefined ? undefined : await planJob(job, deps.pools.schemaOf(pool), deps.engine)
  if (pool === undefined || planned === undefined) return
  if (isBadQuery(planned)) {
    await catalog.change(failJob(job.id, planned.badRequest, progress()))
    return
  }
  let toldMs = monotonicMs()
  for (const { meta } of left) {
    if (await endsHere(job, progress(), catalog)) return
    const refused = await rewriteOne(job, pool, meta.segment, planned, stopping, deps)
    if (refused !== undefined) {
      await catalog.change(failJob(job.id, refused, progress()))
      return
    }
    rowsLeft -= meta.rows
    onSegment(progress())
    if (monotonicMs() - toldMs < JOB_PROGRESS_MS) continue
    toldMs = monotonicMs()
    await catalog.change(progressJob(job.id, progress()))
  }
  await catalog.change(succeedJob(job.id))
  crashPoint('job.succeeded')
}

function rowsOf(segments: readonly QuerySegment[]): number {
  return segments.reduce((sum, { meta }) => sum + meta.rows, 0)
}

/**
 * The reserved segments that may hold a row to change, the newest first. In a pool whose versions
 * decide which row wins, a newer segment may hold a lost row of a key: it goes before the row that
 * won, or a rebuild would bring it back.
 */
async function reservedSegments(
  job: RewriteJob,
  segmentsBelow: number,
  pool: Pool,
  { pools }: RewriteDeps,
): Promise<readonly QuerySegment[]> {
  const { segments, release } = await pools.snapshot(pool.number)
  release()
  return segments
    .filter(({ meta }) => meta.segment < segmentsBelow && meta.sequenceFrom < job.beforeSequence)
    .sort((a, b) => b.meta.sequenceFrom - a.meta.sequenceFrom)
}

/** Rewrites one segment if a row of it matches. A sentence: the job cannot go on. */
async function rewriteOne(
  job: RewriteJob,
  pool: Pool,
  segment: number,
  planned: PlannedChanges,
  stopping: AbortSignal,
  deps: RewriteDeps,
): Promise<string | undefined> {
  const schema = deps.pools.schemaOf(pool)
  const file = rowChangesFile(deps.temporaryFolder, schema.pool, segment)
  try {
    const rows = await findChanges(job, schema, segment, planned, file, stopping, deps)
    if (rows === undefined) return undefined
    crashPoint('rewrite.found')
    const set = job.input.set.map(({ column }) => schema.columns.findIndex(({ name }) => name === column))
    const outcome = await deps.pools.rewrite(schema.pool, {
      segment,
      schemaVersion: schema.version,
      changes: { file, set },
    })
    crashPoint('rewrite.done')
    if (outcome === 'done') deps.onRows(job.kind, rows)
    if (typeof outcome === 'object') return outcome.refused
    const isThere = deps.catalog.pool(pool.id) !== undefined
    return outcome === 'gone' && isThere && (await isLeft(pool, segment, deps))
      ? 'The files of the Data Pool are damaged, and compaction leaves it alone: stop Weir and run "weir repair".'
      : undefined
  } finally {
    await rm(file, { force: true }).catch((error: Error) =>
      warn(`the next start removes ${file}: ${error.message}`),
    )
  }
}

async function isLeft(pool: Pool, segment: number, { pools }: RewriteDeps): Promise<boolean> {
  const { segments, release } = await pools.snapshot(pool.number)
  release()
  return segments.some(({ meta }) => meta.segment === segment)
}

/** undefined where there are none. */
async function findChanges(
  job: RewriteJob,
  schema: PoolSchema,
  segment: number,
  { plan, statement }: PlannedChanges,
  file: string,
  stopping: AbortSignal,
  { pools, engine }: RewriteDeps,
): Promise<number | undefined> {
  const { segments, release } = await pools.snapshot(schema.pool)
  try {
    const found = segments.find(({ meta }) => meta.segment === segment)
    if (found === undefined) return undefined
    const dropsLostRows =
      job.kind === 'DELETE_RECORDS' && (schema.key?.version ?? -1) >= 0 && found.deletionVectors.length > 0
    if (!dropsLostRows && prune(schema, plan, [found]).length === 0) return undefined
    const copyTo = {
      format: 'parquet',
      file,
      compression: 'zstd',
      hasDictionaries: true,
      rowGroupRows: CHANGES_GROUP_ROWS,
      msMax: EXPORT_COPY_MS_MAX,
    } as const
    const source = rowsOfPool(schema, { segments: [found] })
    const task = { source, statement, rowsMax: 1, copyTo, isOfJob: true } as const
    const done = await engine.run(task, job.createdBy, undefined, stopping).catch(rejectTyped)
    const rows = Number(done.rows[0]?.[0])
    assert(rows <= found.meta.rows, 'changes are about rows of the segment')
    return rows > 0 || dropsLostRows ? rows : undefined
  } finally {
    release()
  }
}

/** The reservations of jobs that an earlier process began: they come before any merge. */
export function reservationsOf(
  jobs: readonly Job[],
): readonly { readonly poolId: string; readonly below: number }[] {
  return jobs.flatMap(job =>
    isRewrite(job) && job.status === 'IN_PROGRESS' && job.work !== null
      ? [{ poolId: job.poolId, below: job.work.segmentsBelow }]
      : [],
  )
}
