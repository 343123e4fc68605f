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
import type { CompactionCommit, PoolSegment, QuerySegment } from '../../index/index-types.ts'
import { assert, must } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import type {
  CompactPool,
  MergeDone,
  MergeFigures,
  MergeTask,
  PinnedPool,
  Rewrite,
  RewriteOutcome,
  RunnerDeps,
} from './compaction-types.ts'
import { cutoffUs, isPartlyExpired, olderThan, type PickInput, pickCompaction } from './pick-compaction.ts'

/** Runs compactions, and remembers files that could not be removed. */
export class CompactionRunner {
  readonly #deps: RunnerDeps
  /** Outputs of failed merges that are still on disk, by pool. */
  readonly #orphans = new Map<number, number[]>()

  constructor(deps: RunnerDeps) {
    this.#deps = deps
  }

  /**
   * Runs the next compaction of a pool. Resolves with false where there is none, or where the pool
   * is gone. A pool that is deleted meanwhile, or now keeps its rows for longer, is no error: the
   * output is removed. Rejects with SegmentDamaged, SegmentsDisagree or Unavailable; then nothing
   * has changed.
   * @param inputOf what to pick from, read when the pool is pinned: more segments may be
   * replaceable since the scheduler inspected the pool
   */
  async runNext(number: number, inputOf: (segments: readonly PoolSegment[]) => PickInput): Promise<boolean> {
    await this.#removeOrphans(number)
    const pinned = await this.#deps.pin(number)
    try {
      const pool = this.#deps.pool(number)
      if (pool === undefined) return false
      const picked = pickCompaction(inputOf(pinned.all.map(segmentOf)))
      if (picked === undefined) return false
      const task = this.#taskOf(number, pool, pinned, picked.inputs, {
        schemaVersion: Math.max(...picked.inputs.map(({ schemaVersion }) => schemaVersion)),
        expireBeforeUs: this.#cutoffUs(pool),
      })
      return await this.#run(number, task)
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
      const input = pinned.all.find(({ meta }) => meta.segment === segment)
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

  /** The task of a merge of these inputs. There is at least one. */
  #taskOf(
    number: number,
    pool: CompactPool,
    pinned: PinnedPool,
    inputs: readonly PoolSegment[],
    how: Pick<MergeTask, 'expireBeforeUs' | 'changes'> & { readonly schemaVersion: number },
  ): MergeTask {
    const deletionVectorsOf = new Map(
      pinned.all.map(({ meta, deletionVectors }) => [meta.segment, deletionVectors]),
    )
    const { schemaVersion, expireBeforeUs, changes } = how
    const { sequenceFrom } = must(inputs[0], 'an input')
    const { sequenceTo } = must(inputs.at(-1), 'an input')
    const schema = pool.schema(schemaVersion)
    const isNewest = pinned.all.every(({ meta }) => meta.sequenceTo <= sequenceTo)
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
      older: olderThan(sequenceFrom, pinned.all.map(segmentOf), this.#deps.obsolete(number)),
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
        crashPoint('compact.committed')
        this.#deps.apply(commit, committed)
      })
      onMerged(figuresOf(task, done, clock.nowMs() - beginMs))
      return true
    } finally {
      if (!isCommitted) await this.#discardOutput(number, task)
    }
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

function segmentOf({ meta, deletionVectors }: QuerySegment): PoolSegment {
  return { ...meta, deletedRows: deletionVectors.reduce((sum, { rows }) => sum + rows.length, 0) }
}

function figuresOf({ inputs }: MergeTask, { meta }: MergeDone, ms: number): MergeFigures {
  return {
    ms,
    rowsRead: inputs.reduce((sum, input) => sum + input.meta.rows, 0),
    bytesRead: inputs.reduce((sum, input) => sum + input.meta.bytes, 0),
    rowsWritten: meta?.rows ?? 0,
    bytesWritten: meta?.bytes ?? 0,
  }
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
