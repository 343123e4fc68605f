/**
 * One compaction: pin the pool, pick the inputs, merge them, commit the result, remove the files of
 * a failed merge.
 *
 *   W-4  The replaced files become obsolete only after the compaction commit is synced.
 *   W-6  The output of a merge that no transaction names is removed at once: a rebuild would take
 *        it for the newest segment of its range. No other merge of the pool begins until the
 *        removal is durable. (After a crash the sweep removes it, and merges begin only after the
 *        sweep.)
 *        An empty segment stays in place of the inputs (`leavesSegment`) in three cases. The inputs
 *        are the pool's newest: without one a rebuild takes their requests from the log. A job
 *        emptied the input: no newer segment deletes the rows that it removed, and a rebuild finds
 *        them until the file is gone. The pool has versions: a row may be dead by an older row,
 *        which a job may remove. In all other cases a rebuild leaves the rows out by itself.
 *   W-7  The retention cutoff is read again before the commit: rows that the pool keeps by then are
 *        not removed.
 */
import type { CompactionCommit, FlushCommitted, PoolSegment } from '../../index/index-types.ts'
import { assert, must } from '../../util/assert.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import type {
  CompactPool,
  MergeDone,
  MergeFigures,
  MergeSpeed,
  MergeTask,
  PinnedPool,
  Rewrite,
  RewriteOutcome,
  SchedulerDeps,
} from './compaction-types.ts'
import type { CommitCosts } from './merge-throttle.ts'
import { cutoffUs, isPartlyExpired, olderThan, pickCompaction } from './pick-compaction.ts'

interface CompactionRequest {
  readonly pool: number
  /**
   * Read again when the inputs are picked: more segments may be replaceable since the scheduler
   * inspected the pool.
   */
  readonly replaceableSegments: () => ReadonlySet<number>
  readonly quarantined: ReadonlySet<number>
  /** Segments with lower numbers are left to a job. */
  readonly reservedBelow: number
  /**
   * A retention pass is due: expired rows are a reason for a merge. Other merges leave them out
   * too.
   */
  readonly isRetentionDue: boolean
  /** Limits the rows of the commit. */
  readonly speed: MergeSpeed
}

type RunnerDeps = Pick<
  SchedulerDeps,
  | 'merger'
  | 'clock'
  | 'pool'
  | 'obsolete'
  | 'takeSegmentNumber'
  | 'pin'
  | 'commit'
  | 'apply'
  | 'unlink'
  | 'onMerged'
>

/** Runs compactions, and remembers files that could not be removed. */
export class CompactionRunner {
  readonly #deps: RunnerDeps
  readonly #costs: CommitCosts
  /** Outputs of failed merges that are still on disk, by pool. */
  readonly #orphans = new Map<number, number[]>()

  constructor(deps: RunnerDeps, costs: CommitCosts) {
    this.#deps = deps
    this.#costs = costs
  }

  /**
   * Runs the next compaction of a pool. Resolves with false where there is none, or where the pool
   * is gone. A pool that is
   * deleted meanwhile, or now keeps its rows for longer, is no error: the output is removed.
   * Rejects with SegmentDamaged, SegmentsDisagree or Unavailable; then nothing has changed.
   */
  async runNext(request: CompactionRequest): Promise<boolean> {
    await this.#removeOrphans(request.pool)
    const pinned = await this.#deps.pin(request.pool)
    try {
      const task = this.#pickTask(request, pinned)
      return task !== undefined && (await this.#run(request.pool, task))
    } finally {
      pinned.release()
    }
  }

  /**
   * Rewrites one segment with a job's changes. Its expired rows stay for the next retention pass.
   * Rejects as `runNext` does.
   * @param reservedBelow the new segment's number is not lower: the job knows by it what it has
   * done
   */
  async rewrite(
    number: number,
    { segment, schemaVersion, changes }: Rewrite,
    reservedBelow: number,
  ): Promise<RewriteOutcome> {
    await this.#removeOrphans(number)
    const pinned = await this.#deps.pin(number)
    try {
      const input = pinned.segments.find(({ meta }) => meta.segment === segment)
      if (input === undefined) return 'gone'
      const version = Math.max(schemaVersion, input.meta.schemaVersion)
      const schema = this.#deps.pool(number)?.schema(version)
      if (schema === undefined) return 'gone'
      const refused =
        changes.set.length === 0 ? undefined : await this.#deps.merger.problemOf(changes, schema)
      if (refused !== undefined) return { refused }
      const pool = this.#deps.pool(number)
      if (pool === undefined) return 'gone' // it was deleted meanwhile
      const how = { schemaVersion: version, expireBeforeUs: undefined, changes }
      const task = this.#taskOf(number, pool, pinned, [segmentOf(input)], how)
      assert(task.segment >= reservedBelow, 'a segment that a job writes is not reserved')
      return (await this.#run(number, task)) ? 'done' : 'gone'
    } finally {
      pinned.release()
    }
  }

  /** Forgets a deleted pool: its files go with its folder. */
  drop(pool: number): void {
    this.#orphans.delete(pool)
  }

  #pickTask(request: CompactionRequest, pinned: PinnedPool): MergeTask | undefined {
    const pool = this.#deps.pool(request.pool)
    if (pool === undefined) return undefined
    const replaceable = request.replaceableSegments()
    const expireBeforeUs = this.#cutoffUs(pool)
    const picked = pickCompaction({
      segments: pinned.segments.map(segmentOf),
      obsolete: this.#deps.obsolete(request.pool),
      isExcluded: segment =>
        segment < request.reservedBelow || replaceable.has(segment) || request.quarantined.has(segment),
      rowsMax: this.#costs.rowsMax(request.pool, request.speed),
      expireBeforeUs: request.isRetentionDue ? expireBeforeUs : undefined,
    })
    if (picked === undefined) return undefined
    return this.#taskOf(request.pool, pool, pinned, picked.inputs, {
      schemaVersion: Math.max(...picked.inputs.map(({ schemaVersion }) => schemaVersion)),
      expireBeforeUs,
    })
  }

  /** The task of a merge of these inputs. There is at least one. */
  #taskOf(
    number: number,
    pool: CompactPool,
    pinned: PinnedPool,
    inputs: readonly PoolSegment[],
    how: Pick<MergeTask, 'expireBeforeUs' | 'changes'> & { readonly schemaVersion: number },
  ): MergeTask {
    const deletionVectorsOf = new Map(
      pinned.segments.map(({ meta, deletionVectors }) => [meta.segment, deletionVectors]),
    )
    const { schemaVersion, expireBeforeUs, changes } = how
    const { sequenceFrom } = must(inputs[0], 'an input')
    const { sequenceTo } = must(inputs.at(-1), 'an input')
    const schema = pool.schema(schemaVersion)
    const isNewest = pinned.segments.every(({ meta }) => meta.sequenceTo <= sequenceTo)
    return {
      poolId: pool.poolId,
      schema,
      folder: pool.folder,
      segment: this.#deps.takeSegmentNumber(number),
      inputs: inputs.map(({ deletedRows: _, ...meta }) => ({
        meta,
        columns: pool.schema(meta.schemaVersion).columns.length,
        deletionVectors: deletionVectorsOf.get(meta.segment) ?? [],
      })),
      expireBeforeUs,
      older: olderThan(sequenceFrom, pinned.segments.map(segmentOf), this.#deps.obsolete(number)),
      leavesSegment: isNewest || changes !== undefined || (schema.key?.version ?? -1) >= 0,
      ...(changes === undefined ? {} : { changes }),
    }
  }

  #cutoffUs(pool: CompactPool): number | undefined {
    return cutoffUs(pool.retentionDays, this.#deps.clock.wallMs())
  }

  /**
   * True when the merge left out rows that the pool keeps by now: its days were raised, or the wall
   * clock went back.
   */
  #leftOutTooMuch(pool: CompactPool, { inputs, expireBeforeUs }: MergeTask): boolean {
    if (expireBeforeUs === undefined) return false
    const keepsFromUs = this.#cutoffUs(pool) ?? Number.NEGATIVE_INFINITY
    return keepsFromUs < expireBeforeUs && inputs.some(({ meta }) => isPartlyExpired(meta, expireBeforeUs))
  }

  async #run(number: number, task: MergeTask): Promise<boolean> {
    const { merger, clock, onMerged } = this.#deps
    const beginMs = clock.nowMs()
    let isCommitted = false
    try {
      const done = await merger.merge(task)
      crashPoint('compact.merged')
      if (task.expireBeforeUs !== undefined) crashPoint('retention.merged')
      const pool = this.#deps.pool(number)
      if (pool === undefined || this.#leftOutTooMuch(pool, task)) return false
      assertOutput(task, done)
      const remove = task.inputs.map(({ meta }) => meta.segment)
      const commit: CompactionCommit = { pool: number, add: done.meta, remove, keys: done.keys }
      // IMPORTANT: apply in the same turn as the answer; the manifest takes commits in their order.
      await this.#deps.commit(commit).then(committed => {
        isCommitted = true
        if (task.expireBeforeUs !== undefined) crashPoint('retention.committed')
        this.#apply(commit, committed)
      })
      onMerged(figuresOf(done, clock.nowMs() - beginMs))
      return true
    } finally {
      if (!isCommitted) await this.#discardOutput(number, task)
    }
  }

  #apply(commit: CompactionCommit, committed: FlushCommitted): void {
    crashPoint('compact.committed')
    const usPerKey = commit.keys === undefined ? 0 : committed.usPerKey
    if (usPerKey !== undefined) this.#costs.learn(commit.pool, usPerKey)
    this.#deps.apply(commit, committed)
  }

  async #discardOutput(pool: number, { folder, segment }: MergeTask): Promise<void> {
    try {
      await this.#deps.unlink(folder, [segment])
    } catch {
      // The disk refuses. The pool's next merge removes the file before it begins. Without one, the
      // sweep of the next start removes it.
      this.#orphans.set(pool, [...(this.#orphans.get(pool) ?? []), segment])
    }
  }

  async #removeOrphans(number: number): Promise<void> {
    const orphans = this.#orphans.get(number)
    const pool = this.#deps.pool(number)
    if (orphans === undefined || pool === undefined) return
    await this.#deps.unlink(pool.folder, orphans)
    this.#orphans.delete(number)
  }
}

function segmentOf({ meta, deletionVectors }: PinnedPool['segments'][number]): PoolSegment {
  return { ...meta, deletedRows: deletionVectors.reduce((sum, { rows }) => sum + rows.length, 0) }
}

function figuresOf({ rowsRead, bytesRead, meta }: MergeDone, ms: number): MergeFigures {
  return { ms, rowsRead, bytesRead, rowsWritten: meta?.rows ?? 0, bytesWritten: meta?.bytes ?? 0 }
}

/**
 * The output covers its inputs, and the reason for the merge is gone; else the scheduler would
 * repeat the merge for ever.
 */
function assertOutput({ inputs, segment, expireBeforeUs }: MergeTask, { meta }: MergeDone): void {
  if (meta === undefined) return
  assert(meta.segment === segment, 'a merge writes the segment that its task names')
  assert(
    meta.sequenceFrom <= (inputs[0]?.meta.sequenceFrom ?? 0) &&
      meta.sequenceTo >= (inputs.at(-1)?.meta.sequenceTo ?? Number.POSITIVE_INFINITY),
    'a merged segment covers its inputs',
  )
  const from = meta.timestampFromUs
  assert(
    expireBeforeUs === undefined || from === null || from >= expireBeforeUs,
    'a merged segment holds no expired row',
  )
}
