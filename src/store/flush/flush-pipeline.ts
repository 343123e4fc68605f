/**
 * Flushes under way: synced log → segment thread → index, in each pool's order.
 *
 *   W-13  The log is synced before a flush's rows are written.
 *   W-5   The index hears of a flush only when its files are durable.
 *   W-4   A flush counts, and its entries leave the memtable, only after the index's sync.
 *
 * While the index commits, the segment thread writes the next flush. All flushes that are written
 * when the index becomes free go into its next transaction. When a flush fails, it and all later
 * ones of its pool go back to the memtable, so the index's flushed sequence never passes rows that
 * are not flushed.
 *
 * The entries of a flush stay on this thread, because a failed commit returns them to the memtable.
 * The segment thread reads their batches in shared memory.
 */

import type { FlushCommit, FlushCommitted } from '../../index/index-types.ts'
import { AssertionFailed, assert, Unavailable } from '../../util/errors.ts'
import type { Lane } from './flush-policy.ts'
import { type MemtableGroup, PoolMemtable } from './memtable.ts'
import type { RecentFlush } from './recent-flushes.ts'
import { type FlushDone, FlushFailed, type FlushTask, type SegmentWriter } from './segment-writer.ts'

/** The facts of a pool that the flusher needs. */
export interface FlushPool {
  /** Its number in the log and the index. */
  readonly pool: number
  readonly poolId: string
  /** Absolute folder of its segments. */
  readonly folder: string
  /** Above every number that a file of the pool has. */
  readonly nextSegment: number
}

interface FlushWaiter {
  /** The promise resolves when everything up to this sequence is flushed. */
  readonly sequence: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

export class FlushingPool {
  readonly info: FlushPool
  readonly memtable = new PoolMemtable()
  /** Flushes under way, in order. */
  underWay: Flush[] = []
  waiters: FlushWaiter[] = []
  nextSegment: number
  /** The last sequence appended. */
  lastSequence = 0
  /** After a failure no flush starts before this monotonic time, in ms. 0 where none failed. */
  retryAtMs = 0
  /**
   * Segments of failed flushes whose files may exist. They are removed before the next flush is
   * written.
   */
  orphans: number[] = []
  /** Resolves when the last removal of orphans has ended. */
  unlinking = Promise.resolve()
  /** The lane of the queue where the pool waits. It is undefined while the pool does not wait. */
  lane: Lane | undefined
  /** True when its memtable is one of the largest while all together are too large. */
  isTooLarge = false
  isDropped = false
  /** Called when a dropped pool has no flush under way any more. */
  onClean: () => void = () => {}
  /** Removals of a dropped pool's files. */
  discards: Promise<void>[] = []

  constructor(info: FlushPool) {
    this.info = info
    this.nextSegment = info.nextSegment
  }

  get isClean(): boolean {
    return this.memtable.isEmpty && this.underWay.length === 0
  }

  /** Rows and deletes that are not flushed. */
  get unflushedRows(): number {
    return this.underWay.reduce((sum, flush) => sum + flush.rows, this.memtable.rows)
  }

  /** Monotonic: when its oldest unflushed row came; undefined when the pool is clean. */
  get oldestMs(): number | undefined {
    return this.underWay[0]?.oldestMs ?? this.memtable.since?.ms
  }

  /** The lowest unflushed sequence; undefined when the pool is clean. */
  get firstUnflushed(): number | undefined {
    return this.underWay[0]?.first ?? this.memtable.first
  }
}

/**
 *   waiting   the segment thread does not know of it
 *   writing   the segment thread may read its batches
 *   written   its files are durable
 *   indexing  the index commits it
 */
type FlushPhase = 'waiting' | 'writing' | 'written' | 'indexing'

/** One flush: groups of the memtable, and recent flushes whose rows it writes again. */
export class Flush {
  readonly state: FlushingPool
  readonly segment: number
  readonly groups: readonly MemtableGroup[]
  readonly rewritten: readonly RecentFlush[]
  readonly first: number
  readonly last: number
  /** Bytes of the groups alone, as the memtable counts them. */
  readonly bytes: number
  /** Rows of the groups alone. */
  readonly rows: number
  /** Its part of the flushes that may be under way; a full flush weighs FLUSHES_SMALL. */
  readonly weight: number
  /** Monotonic: when it began. */
  readonly beginMs: number
  /** Monotonic: when the oldest row of its groups came into the memtable, right after its sync. */
  readonly oldestMs: number
  phase: FlushPhase = 'waiting'
  /**
   * It, or one before it in its pool, failed. It goes back to the memtable once the segment thread
   * has answered.
   */
  hasFailed = false
  /** It may have left files. */
  isPosted = false
  done: FlushDone | undefined

  constructor(
    state: FlushingPool,
    groups: readonly MemtableGroup[],
    rewritten: readonly RecentFlush[],
    beginMs: number,
    weight: number,
  ) {
    this.state = state
    this.segment = state.nextSegment++
    this.groups = groups
    this.rewritten = rewritten
    this.first = groups[0]!.first
    this.last = groups.at(-1)!.last
    this.bytes = groups.reduce((sum, group) => sum + group.bytes, 0)
    this.rows = groups.reduce((sum, group) => sum + group.rows, 0)
    this.weight = weight
    this.beginMs = beginMs
    this.oldestMs = groups.reduce((oldest, group) => Math.min(oldest, group.since.ms), beginMs)
  }

  /** The new segment's lowest sequence: it covers the segments that it replaces. */
  get sequenceFrom(): number {
    return this.rewritten.reduce((least, recent) => Math.min(least, recent.first), this.first)
  }

  /** The task for the segment thread. Entries that are written again come first: they are older. */
  task(): FlushTask {
    return {
      poolId: this.state.info.poolId,
      schema: this.groups[0]!.schema,
      segment: this.segment,
      folder: this.state.info.folder,
      entries: [...this.rewritten, ...this.groups].flatMap(part => part.entries),
      replaces: this.rewritten.map(recent => recent.segment),
      sequenceFrom: this.sequenceFrom,
      sequenceTo: this.last,
    }
  }

  commit(): FlushCommit {
    return {
      pool: this.state.info.pool,
      add: this.done?.meta,
      remove: this.rewritten.map(recent => recent.segment),
      keys: this.done?.keys,
      flushedSequence: this.last,
    }
  }

  /** The new segment, for the next flush to write again. */
  asRecent(): RecentFlush {
    const parts = [...this.rewritten, ...this.groups]
    return {
      segment: this.segment,
      schemaVersion: this.groups[0]!.schema.version,
      rows: parts.reduce((sum, part) => sum + part.rows, 0),
      bytes: parts.reduce((sum, part) => sum + part.bytes, 0),
      first: this.sequenceFrom,
      last: this.last,
      entries: parts.flatMap(part => part.entries),
    }
  }
}

/** A committed flush, as the manifest takes it. */
export interface FlushedSegment {
  /** As it was given to the index; its keys are moved and empty. */
  readonly commit: FlushCommit
  readonly committed: FlushCommitted
  /** Monotonic ms: when the flush began, and when its oldest row came into the memtable. */
  readonly beginMs: number
  readonly oldestMs: number
  /** Rows that the flush took from the memtable. */
  readonly rows: number
}

/** The functions of other layers that a flush calls. */
export interface FlushDeps {
  readonly writer: SegmentWriter
  /** See IndexCalls. */
  readonly commit: (flushes: readonly FlushCommit[]) => Promise<readonly FlushCommitted[]>
  /** Commit.syncAll: syncs the log up to everything appended before the call (W-13). */
  readonly syncLog: () => Promise<void>
  /** The state of a flush is unknown. The process must end; the log has its entries. */
  readonly onFatal: (error: Error) => void
}

/** The flusher's side of the flushes under way. */
interface FlushListener {
  /** Flushes are synced; called in each pool's order. */
  committed(flushes: readonly { readonly flush: Flush; readonly flushed: FlushedSegment }[]): void
  /**
   * No failed flush of a pool is in the segment thread any more, or one more flush of a dropped
   * pool has ended.
   */
  returned(state: FlushingPool, flushes: readonly Flush[]): void
  /** A flush failed; called once for each failure, before its entries are in the memtable. */
  failed(state: FlushingPool, error: Error): void
}

export class FlushPipeline {
  readonly #deps: FlushDeps
  readonly #listener: FlushListener
  /** Pools with written flushes that no transaction has yet. */
  readonly #written = new Set<FlushingPool>()
  #isIndexing = false
  #count = 0
  #weight = 0
  #bytes = 0

  constructor(deps: FlushDeps, listener: FlushListener) {
    this.#deps = deps
    this.#listener = listener
  }

  /** Flushes under way, of all pools. */
  get count(): number {
    return this.#count
  }

  get weight(): number {
    return this.#weight
  }

  get bytes(): number {
    return this.#bytes
  }

  start(flush: Flush): void {
    this.#add([flush], 1)
    flush.state.underWay.push(flush)
    this.#write(flush).catch(this.#deps.onFatal)
  }

  /** Cancels a pool's flushes: those that are not yet with the index come back. */
  cancel(state: FlushingPool): void {
    for (const flush of state.underWay) if (flush.phase !== 'indexing') flush.hasFailed = true
    this.#returnFailed(state)
  }

  #add(flushes: readonly Flush[], sign: 1 | -1): void {
    this.#count += sign * flushes.length
    for (const flush of flushes) {
      this.#weight += sign * flush.weight
      this.#bytes += sign * flush.bytes
    }
  }

  async #write(flush: Flush): Promise<void> {
    const { state } = flush
    try {
      await this.#deps.syncLog()
      // Checked before and after the removal: a failed flush leaves its orphans to the next one.
      if (!flush.hasFailed) await this.#unlinkOrphans(state)
      if (flush.hasFailed) {
        this.#returnFailed(state)
        return
      }
      flush.phase = 'writing'
      flush.isPosted = true
      flush.done = await this.#deps.writer.flush(flush.task())
    } catch (error) {
      this.#writeFailed(flush, error as Error)
      return
    }
    flush.phase = 'written'
    if (flush.hasFailed) {
      this.#returnFailed(state)
      return
    }
    this.#written.add(state)
    this.#index().catch(this.#deps.onFatal)
  }

  #writeFailed(flush: Flush, error: Error): void {
    if (error instanceof AssertionFailed) {
      this.#deps.onFatal(error)
      return
    }
    if (flush.phase === 'writing') {
      if (!(error instanceof FlushFailed)) {
        this.#deps.onFatal(error)
        return
      }
      flush.phase = 'waiting'
    }
    this.#fail(flush, error)
  }

  /**
   * Removes the files of failed flushes for good before new ones are written: a rebuild must not
   * find both. The newest file goes first, because a rebuild takes the last segment for the end of
   * all that is flushed. All flushes of a pool wait for the same removal, so they stay in order.
   */
  #unlinkOrphans(state: FlushingPool): Promise<void> {
    if (state.orphans.length > 0) state.unlinking = this.#unlink(state, state.orphans.splice(0))
    return state.unlinking
  }

  async #unlink(state: FlushingPool, orphans: readonly number[]): Promise<void> {
    try {
      for (const segment of orphans.toSorted((a, b) => b - a))
        await this.#deps.writer.unlink(state.info.folder, [segment])
    } catch (error) {
      state.orphans.push(...orphans)
      throw error
    }
  }

  /** Commits all that is written in one transaction, and repeats until nothing is left. */
  async #index(): Promise<void> {
    if (this.#isIndexing) return
    this.#isIndexing = true
    for (let flushes = this.#takeWritten(); flushes.length > 0; flushes = this.#takeWritten()) {
      try {
        const answers = await this.#deps.commit(flushes.map(flush => flush.commit()))
        this.#committed(flushes, answers)
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error
        for (const flush of flushes) flush.phase = 'written'
        for (const flush of flushes) if (!flush.hasFailed) this.#fail(flush, error)
      }
    }
    this.#isIndexing = false
  }

  /** The written flushes of each pool that have no unwritten flush before them. */
  #takeWritten(): Flush[] {
    const flushes: Flush[] = []
    for (const state of this.#written)
      for (const flush of state.underWay) {
        if (flush.phase !== 'written' || flush.hasFailed) break
        flush.phase = 'indexing'
        flushes.push(flush)
      }
    this.#written.clear()
    return flushes
  }

  #committed(flushes: readonly Flush[], answers: readonly FlushCommitted[]): void {
    for (const flush of flushes) {
      assert(flush.state.underWay.shift() === flush, 'flushes are committed in order')
    }
    this.#add(flushes, -1)
    const flushed = flushes.map((flush, i) => ({
      flush,
      flushed: {
        commit: flush.commit(),
        committed: answers[i]!,
        beginMs: flush.beginMs,
        oldestMs: flush.oldestMs,
        rows: flush.rows,
      },
    }))
    this.#listener.committed(flushed)
  }

  #fail(flush: Flush, error: Error): void {
    const { underWay } = flush.state
    // An earlier flush failed, and this one was returned with it.
    if (!underWay.includes(flush)) return
    for (const later of underWay.slice(underWay.indexOf(flush))) later.hasFailed = true
    this.#listener.failed(flush.state, error)
    this.#returnFailed(flush.state)
  }

  /**
   * Returns all failed flushes of the pool at once, as soon as none of them is in the segment
   * thread.
   */
  #returnFailed(state: FlushingPool): void {
    const from = state.underWay.findIndex(flush => flush.hasFailed)
    if (from < 0) return
    const failed = state.underWay.slice(from)
    if (failed.some(flush => flush.phase === 'writing')) return
    state.underWay = state.underWay.slice(0, from)
    this.#add(failed, -1)
    for (const flush of failed) if (flush.isPosted) state.orphans.push(flush.segment)
    this.#listener.returned(state, failed)
  }
}
