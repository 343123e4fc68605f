/**
 * The memtables of all pools, and the decision to flush them. Main thread.
 *
 *   W-8   `flushNow` resolves when everything appended before the call is flushed, synced and in
 *         the manifest.
 *   W-9   The memtable is bounded. At most FLUSHES_MAX full flushes are under way, or FLUSHES_SMALL
 *         small ones in place of each.
 *   W-11  No loop over rows, no file call.
 *   W-13  A memtable that nobody reads holds back a bounded part of the log.
 *
 * flush-policy.ts says when a pool is flushed, flush-pipeline.ts runs the flushes. A pool's next
 * flush starts while one is under way only when its memtable is full. So one running and one
 * waiting flush serve all readers, and a small flush finds the newest small segment committed and
 * can write it again with its own rows (recent-flushes.ts).
 */

import type { PoolSchema } from '../../format/schema.ts'
import { type Clock, realClock } from '../../util/clock.ts'
import { assert, must, Unavailable } from '../../util/errors.ts'
import {
  DISK_RETRY_MS,
  FLUSH_BYTES,
  FLUSH_ROWS,
  FLUSHES_MAX,
  FLUSHES_SMALL,
  MEMTABLE_BYTES_MAX,
  MEMTABLE_WAITING_BYTES_MAX,
  RECENT_FLUSH_ROWS_MAX,
} from '../../util/limits.ts'
import {
  Flush,
  type FlushDeps,
  type FlushedSegment,
  FlushingPool,
  FlushPipeline,
  type FlushPool,
} from './flush-pipeline.ts'
import { FlushQueue, FlushThrottle, isDue, type Lane, largestOverLimit } from './flush-policy.ts'
import { ENTRY_WORDS, type FlushLimits, MemtableBudget, type MemtableEntry, type Moment } from './memtable.ts'
import { RecentFlushes } from './recent-flushes.ts'

/**
 * Batches of a full memtable. Each costs the main thread about 5 µs to the flush thread and back.
 */
const FLUSH_ENTRIES = 1_024
/** Interval at which the memory of all memtables is inspected. */
export const FLUSH_TICK_MS = 250
/**
 * Interval at which each memtable is inspected for its age and for the log that it holds back. With
 * 20,000 pools one look costs 3 ms.
 */
export const FLUSH_AGE_TICK_MS = 1_000

/** The error of those that wait for a pool when it is deleted. */
export const poolDeleted = () => new Unavailable('pool_deleted', 'the Data Pool was deleted')

interface FlusherDeps extends FlushDeps {
  /** Synced flushes, in each pool's order. The manifest must know them when this returns. */
  readonly onCommitted: (flushes: readonly FlushedSegment[]) => void
  /** A flush failed. Its entries are back, and it is tried again after DISK_RETRY_MS. */
  readonly onFailed: (pool: number, error: Error) => void
  /**
   * Entries are flushed and no flush will write them again: the memory of their batches is free.
   */
  readonly onFreed?: (entries: readonly MemtableEntry[]) => void
  /** Bytes written to the log since the start: how much of it a memtable holds back. */
  readonly logBytes?: () => number
  readonly clock?: Clock
  /** Other limits, for tests. */
  readonly limits?: FlushLimits
}

/** What other work makes way for. */
interface FlusherLoad {
  /** Bytes of the memtables that flushes under way write: high under load. */
  readonly flushingBytes: number
  /** Flushes are made small, because the index takes long for their keys. */
  readonly flushesAreSlow: boolean
  /** Pools whose last flush failed. */
  readonly poolsFailing: number
}

/** Figures for `/metrics`. */
interface FlusherStats extends FlusherLoad {
  /** Rows and deletes that are not flushed, those of flushes under way included. */
  readonly memtableRows: number
  /** Monotonic: when the oldest of them came into memory; undefined without any. */
  readonly oldestMs: number | undefined
  /** Those of flushes under way too. */
  readonly memtableBytes: number
  readonly recentFlushBytes: number
  readonly poolsUnflushed: number
  readonly flushesUnderWay: number
}

export class Flusher {
  readonly #deps: FlusherDeps
  readonly #clock: Clock
  readonly #throttle: FlushThrottle
  readonly #pipeline: FlushPipeline
  readonly #budget = new MemtableBudget(MEMTABLE_BYTES_MAX)
  readonly #recent: RecentFlushes
  readonly #pools = new Map<number, FlushingPool>()
  readonly #unflushed = new Set<FlushingPool>()
  /** Pools whose last flush failed. */
  readonly #failing = new Set<FlushingPool>()
  readonly #queue = new FlushQueue<FlushingPool>()
  readonly #dropped = new Set<number>()
  #lastSequence = 0
  #isStartDue = false
  /** When the ages are inspected next. */
  #ageTickMs = 0
  /** `roomFor` returned false because flushes are behind. */
  #isRoomAwaited = false
  /** Resolves the promise of `stop`, which sets it. */
  #onIdle: (() => void) | undefined
  #cancelTick: (() => void) | undefined

  constructor(deps: FlusherDeps) {
    this.#deps = deps
    this.#recent = new RecentFlushes(entries => deps.onFreed?.(entries))
    this.#clock = deps.clock ?? realClock
    this.#throttle = new FlushThrottle(
      deps.limits ?? { rows: FLUSH_ROWS, bytes: FLUSH_BYTES, entries: FLUSH_ENTRIES },
    )
    this.#pipeline = new FlushPipeline(deps, {
      committed: flushes => this.#committed(flushes),
      failed: (state, error) => this.#failed(state, error),
      returned: (state, flushes) => this.#returned(state, flushes),
    })
  }

  /** Makes a pool known, at start or when it is created. */
  addPool(pool: FlushPool): void {
    assert(!this.#pools.has(pool.pool), 'a pool is added once')
    this.#pools.set(pool.pool, new FlushingPool(pool))
  }

  /** Takes the next segment number, for a segment that compaction writes. */
  takeSegmentNumber(pool: number): number {
    return this.#pool(pool).nextSegment++
  }

  /** Later segments of the pool get no number below `number`. */
  raiseSegmentNumber(pool: number, number: number): void {
    const state = this.#pool(pool)
    state.nextSegment = Math.max(state.nextSegment, number)
  }

  /**
   * Appends batches whose log records are synced, in sequence order (W-13). Entries whose sequences
   * interleave must come in one call, or in calls with no `await` between. Nobody writes to an
   * entry's batch before `onFreed`: the segment thread may read it. Entries of a dropped pool are
   * discarded.
   */
  append(pool: number, schema: PoolSchema, entries: readonly MemtableEntry[]): void {
    if (this.#dropped.has(pool)) return
    const state = this.#pool(pool)
    const now = this.#now()
    for (const entry of entries) {
      this.#budget.add(state.memtable.append(schema, entry, now))
      const last = entry.requests[entry.requests.length - ENTRY_WORDS]!
      state.lastSequence = Math.max(state.lastSequence, last)
      this.#lastSequence = Math.max(this.#lastSequence, last)
    }
    if (state.memtable.isEmpty) return
    this.#unflushed.add(state)
    this.#enqueue(state, now)
    this.#scheduleTick()
  }

  /**
   * True when batches of `bytes` may be appended (W-9). After it returned false, `onRoom` is called
   * when there is room again. While flushes are slow, batches are let in only as fast as they are
   * flushed: a memtable full of slow rows would make readers wait for all of it.
   */
  roomFor(bytes: number): boolean {
    if (!this.#isBehind) return this.#budget.roomFor(bytes)
    this.#isRoomAwaited = true
    return false
  }

  /** True where everything that was appended to the pool is in the manifest. */
  isFlushed(pool: number): boolean {
    return this.#pools.get(pool)?.isClean !== false
  }

  /** Called when there is room again after `roomFor` returned false. */
  set onRoom(call: () => void) {
    this.#budget.onRoom = call
  }

  get #isBehind(): boolean {
    return this.#throttle.isSlow && !this.#hasSlot && this.#queue.hasUrgent
  }

  get #hasSlot(): boolean {
    return this.#pipeline.weight < FLUSHES_MAX * FLUSHES_SMALL
  }

  #announceRoom(): void {
    if (!this.#isRoomAwaited || this.#isStartDue || this.#isBehind) return
    this.#isRoomAwaited = false
    this.#budget.onRoom()
  }

  /**
   * Resolves when everything appended before the call is flushed, synced and in the manifest (W-8).
   * Rejects with Unavailable: `flush_failed` at once when a flush of the pool fails or one failed
   * within DISK_RETRY_MS; `pool_deleted`.
   */
  flushNow(pool: number): Promise<void> {
    const state = this.#pools.get(pool)
    if (state === undefined) return Promise.reject(poolDeleted())
    if (state.isClean) return Promise.resolve()
    if (state.retryAtMs > this.#clock.nowMs())
      return Promise.reject(
        new Unavailable('flush_failed', 'the last flush failed; the server tries again each second'),
      )
    return new Promise((resolve, reject) => {
      state.waiters.push({ sequence: state.lastSequence, resolve, reject })
      this.#enqueue(state)
    })
  }

  /** Flushes every pool; for shutdown. Rejects as `flushNow` does. */
  async flushAll(): Promise<void> {
    await Promise.all([...this.#unflushed].map(state => this.flushNow(state.info.pool)))
  }

  /**
   * Drops a deleted pool: its memtable and recent flushes at once, the files of running flushes as
   * they end. Resolves when no flush of it is under way: only then may the index drop it.
   */
  dropPool(pool: number): Promise<void> {
    const state = this.#pools.get(pool)
    this.#dropped.add(pool)
    if (state === undefined) return Promise.resolve()
    this.#pools.delete(pool)
    this.#failing.delete(state)
    state.isDropped = true
    this.#recent.drop(pool)
    if (!state.memtable.isEmpty) this.#budget.remove(state.memtable.bytes)
    while (!state.memtable.isEmpty) state.memtable.take(this.#throttle.limits)
    for (const waiter of state.waiters.splice(0)) waiter.reject(poolDeleted())
    const clean = new Promise<void>(resolve => {
      state.onClean = resolve
      this.#pipeline.cancel(state)
      this.#settle(state)
    })
    return clean.then(async () => {
      await Promise.all(state.discards)
    })
  }

  /** Segments that a flush may replace. Compaction and retention skip them until `forgetRecent`. */
  replaceableSegments(pool: number): ReadonlySet<number> {
    const rewritten =
      this.#pools.get(pool)?.underWay.flatMap(flush => flush.rewritten.map(recent => recent.segment)) ?? []
    return new Set([...this.#recent.segments(pool), ...rewritten])
  }

  /**
   * Drops a pool's recent flushes, so that compaction may rewrite its segments. Segments that a
   * running flush replaces stay replaceable.
   */
  forgetRecent(pool: number): void {
    this.#recent.drop(pool)
  }

  /**
   * Everything below it is flushed and synced, so log files that end below it may go. 0 before the
   * first append.
   */
  lowestUnflushedSequence(): number {
    let lowest = this.#lastSequence === 0 ? 0 : this.#lastSequence + 1
    for (const state of this.#unflushed) lowest = Math.min(lowest, state.firstUnflushed ?? lowest)
    return lowest
  }

  /** Looks at all unflushed pools. */
  stats(): FlusherStats {
    let memtableRows = 0
    let oldestMs = Number.POSITIVE_INFINITY
    for (const state of this.#unflushed) {
      memtableRows += state.unflushedRows
      oldestMs = Math.min(oldestMs, state.oldestMs ?? oldestMs)
    }
    return {
      ...this.load(),
      memtableRows,
      oldestMs: oldestMs === Number.POSITIVE_INFINITY ? undefined : oldestMs,
      memtableBytes: this.#budget.bytes,
      recentFlushBytes: this.#recent.bytes,
      poolsUnflushed: this.#unflushed.size,
      flushesUnderWay: this.#pipeline.count,
    }
  }

  /** Compaction asks for it at each inspection of a pool, so it looks at no pool. */
  load(): FlusherLoad {
    return {
      flushingBytes: this.#pipeline.bytes,
      flushesAreSlow: this.#throttle.isSlow,
      poolsFailing: this.failing,
    }
  }

  /** The number of pools whose last flush failed. Every request reads it, so it is cheap. */
  get failing(): number {
    return this.#failing.size
  }

  /**
   * Starts no further flush, and resolves when none is under way. Unflushed rows are in the log.
   */
  stop(): Promise<void> {
    this.#cancelTick?.()
    this.#cancelTick = undefined
    return new Promise(resolve => {
      this.#onIdle = resolve
      this.#announceIdle()
    })
  }

  #announceIdle(): void {
    if (this.#pipeline.count === 0) this.#onIdle?.()
  }

  #pool(pool: number): FlushingPool {
    return must(this.#pools.get(pool), `pool ${pool} of the flusher`)
  }

  #now(): Moment {
    return { ms: this.#clock.nowMs(), logBytes: this.#deps.logBytes?.() ?? 0 }
  }

  #tick(): void {
    this.#cancelTick = undefined
    this.#throttle.tick(this.#clock.nowMs())
    const now = this.#now()
    if (this.#budget.bytes - this.#pipeline.bytes > MEMTABLE_WAITING_BYTES_MAX)
      for (const state of largestOverLimit(this.#unflushed)) {
        state.isTooLarge = true
        this.#enqueue(state, now)
      }
    if (now.ms >= this.#ageTickMs) {
      this.#ageTickMs = now.ms + FLUSH_AGE_TICK_MS
      for (const state of this.#unflushed) this.#enqueue(state, now)
    }
    if (this.#unflushed.size > 0) this.#scheduleTick()
  }

  #scheduleTick(): void {
    if (this.#onIdle === undefined) this.#cancelTick ??= this.#clock.after(FLUSH_TICK_MS, () => this.#tick())
  }

  /** The lane in which a pool should wait for a flush; undefined when it needs none now. */
  #laneOf(state: FlushingPool, now: Moment): Lane | undefined {
    const { memtable } = state
    if (state.isDropped || memtable.isEmpty || state.retryAtMs > now.ms) return undefined
    if (memtable.fullness(this.#throttle.limits) >= 1) return 'urgent'
    if (state.underWay.length > 0) return undefined
    if (state.waiters.length > 0) return 'urgent'
    // Thousands of small memtables may be too large together: readers do not wait behind them.
    if (state.isTooLarge || state.retryAtMs > 0) return 'aged'
    return isDue(state.info.pool, state.memtable, now) ? 'aged' : undefined
  }

  /**
   * Queues a pool that needs a flush. Flushes start after the caller's turn, when its appends are
   * complete.
   */
  #enqueue(state: FlushingPool, now = this.#now()): void {
    const lane = this.#laneOf(state, now)
    if (lane !== undefined) this.#queue.put(state, lane)
    if (this.#queue.isEmpty || this.#isStartDue) return
    this.#isStartDue = true
    queueMicrotask(() => this.#startFlushes())
  }

  #startFlushes(): void {
    this.#isStartDue = false
    if (this.#onIdle !== undefined) return
    const now = this.#now()
    while (this.#hasSlot) {
      const next = this.#queue.take()
      if (next === undefined) break
      const { pool: state, lane } = next
      if (this.#laneOf(state, now) === undefined) continue
      this.#queue.charge(lane, this.#start(state))
      this.#enqueue(state, now)
    }
    this.#announceRoom()
  }

  /** Starts a flush and returns its weight. */
  #start(state: FlushingPool): number {
    const weight = Math.ceil(FLUSHES_SMALL * Math.min(1, state.memtable.fullness(this.#throttle.limits)))
    state.isTooLarge = false
    const groups = state.memtable.take(this.#throttle.limits)
    const rows = groups.reduce((sum, group) => sum + group.rows, 0)
    const isAlone = state.underWay.length === 0 && rows < RECENT_FLUSH_ROWS_MAX && !this.#throttle.isSlow
    const version = groups[0]!.schema.version
    const entries = groups.reduce((sum, group) => sum + group.entries.length, 0)
    const rewritten = isAlone ? this.#recent.take(state.info.pool, version, rows, entries) : []
    this.#pipeline.start(new Flush(state, groups, rewritten, this.#clock.nowMs(), weight))
    return weight
  }

  #committed(flushes: readonly { readonly flush: Flush; readonly flushed: FlushedSegment }[]): void {
    // Flushes of dropped pools too: the index used their commit numbers. The manifest drops their
    // files.
    this.#deps.onCommitted(flushes.map(({ flushed }) => flushed))
    const nowMs = this.#clock.nowMs()
    for (const { flush, flushed } of flushes) {
      const { state, beginMs } = flush
      const { keysMs } = flushed.committed
      // A flush that is not full costs what any transaction costs: it says nothing about rows.
      if (keysMs !== undefined && flush.weight === FLUSHES_SMALL)
        this.#throttle.report({ pool: state.info.pool, beginMs, keysMs }, nowMs)
      this.#budget.remove(flush.bytes)
      state.retryAtMs = 0
      this.#failing.delete(state)
      if (!state.isDropped) this.#remember(flush)
      const served = state.waiters.filter(waiter => waiter.sequence <= flush.last)
      state.waiters = state.waiters.filter(waiter => waiter.sequence > flush.last)
      for (const waiter of served) waiter.resolve()
      this.#settle(state)
    }
  }

  /** A flush without rows or deletes makes no segment and leaves the recent flushes as they are. */
  #remember(flush: Flush): void {
    const recent = flush.asRecent()
    if (flush.done?.meta !== undefined) this.#recent.push(flush.state.info.pool, recent)
    else this.#deps.onFreed?.(recent.entries)
  }

  #failed(state: FlushingPool, error: Error): void {
    state.retryAtMs = this.#clock.nowMs() + DISK_RETRY_MS
    if (!state.isDropped) this.#failing.add(state)
    for (const waiter of state.waiters.splice(0))
      waiter.reject(new Unavailable('flush_failed', `the flush failed: ${error.message}`))
    this.#clock.after(DISK_RETRY_MS, () => this.#enqueue(state))
    this.#deps.onFailed(state.info.pool, error)
  }

  #returned(state: FlushingPool, flushes: readonly Flush[]): void {
    if (state.isDropped) {
      this.#discard(state, flushes)
      return
    }
    for (const flush of flushes) this.#recent.putBack(state.info.pool, flush.rewritten)
    state.memtable.giveBack(flushes.flatMap(flush => flush.groups))
    this.#settle(state)
  }

  /** Removes a dropped pool's files. Where the disk refuses, they go with the pool's folder. */
  #discard(state: FlushingPool, flushes: readonly Flush[]): void {
    for (const flush of flushes) this.#budget.remove(flush.bytes)
    const unlinked = this.#deps.writer.unlink(state.info.folder, state.orphans.splice(0))
    state.discards.push(unlinked.catch(error => this.#deps.onFailed(state.info.pool, error as Error)))
    this.#settle(state)
  }

  #settle(state: FlushingPool): void {
    this.#announceIdle()
    if (state.isClean) this.#unflushed.delete(state)
    if (state.isDropped && state.isClean) state.onClean()
    this.#enqueue(state)
    this.#announceRoom()
  }
}
