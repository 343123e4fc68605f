/**
 * Decides which pool is compacted when. Main thread.
 *
 *   W-9   One merge at a time over all pools; a tick inspects COMPACT_INSPECTIONS_PER_TICK pools at
 *         most.
 *   W-11  No loop over rows. An inspection walks over the segments of one pool, and a tick stops
 *         inspecting after COMPACT_INSPECT_MS_MAX.
 *
 *   flushed(pool) ─► dirty ─ tick: inspect ─► queue ─► merge ─► dirty again, until nothing is left
 *                    ▲ at start and each full hour: pools with retention
 *                    ▲ when its retention days change: the pool
 *
 * The scheduler inspects a pool when something happened to it, never because time passed: 2,000
 * pools cost as much as their flushes. The queue is first in, first out, with one merge a turn, so
 * no pool starves.
 *
 * A job that changes rows reserves the segments that hold them: merges leave those out, and the job
 * rewrites one after the other. Its rewrites and the merges of other pools take turns.
 *
 * The flusher keeps the rows of recent flushes in memory. Merges leave those segments out until
 * their pool had no flush for COMPACT_QUIET_TICKS, or retention needs them.
 *
 * Tests set `tickMs` to a few milliseconds (option `--compact-tick-ms`), so that everything that
 * waits for ticks comes sooner. `--retention-days-ahead` moves the clock of retention alone.
 */
import type { PoolSegment } from '../../index/index-types.ts'
import { AssertionFailed, assert, must, Unavailable } from '../../util/errors.ts'
import { MEMTABLE_BYTES_MAX } from '../../util/limits.ts'
import type {
  CompactPool,
  Debt,
  MergeSpeed,
  Rewrite,
  RewriteOutcome,
  SchedulerDeps,
  SchedulerStats,
} from './compaction-types.ts'
import { DebtTotals } from './debt-totals.ts'
import { MergeFailures } from './merge-failures.ts'
import { CommitCosts } from './merge-throttle.ts'
import { cutoffUs, inspectPool, type PickInput, pickCompaction } from './pick-compaction.ts'
import { CompactionRunner } from './run-compaction.ts'

/** Pools inspected in one tick, about 10 µs each. The next ticks inspect the others. */
export const COMPACT_INSPECTIONS_PER_TICK = 256
/** Time after which a tick inspects no further pool: 10,000 small segments take about 4 ms. */
export const COMPACT_INSPECT_MS_MAX = 4
/** Ticks without a flush after which a pool's recent flushes leave memory and can be merged. */
export const COMPACT_QUIET_TICKS = 60
/**
 * Time after the last ingested rows in which merges are throttled. Later they run at full speed.
 */
const COMPACT_INGEST_MS = 5_000
/** Memory of the running flushes above which no merge starts, until COMPACT_WAIT_MS_MAX passed. */
export const COMPACT_MEMTABLE_BYTES_MAX = MEMTABLE_BYTES_MAX / 4
/**
 * Small segments up to which merges wait while flushes come as fast as the index takes their keys.
 */
export const COMPACT_SLOW_SEGMENTS_MAX = 256
/**
 * Time after which a waiting merge starts beside any load: steady full load must not stop
 * compaction for good.
 */
export const COMPACT_WAIT_MS_MAX = 60_000
/** The same for the rewrite of a segment by a job: somebody waits for the job. */
const REWRITE_WAIT_MS_MAX = 5_000
/** A rewrite that has not begun after this is given back to its job, which tries again. */
const REWRITE_BEGIN_MS_MAX = 120_000

const HOUR_MS = 3_600_000

interface WaitingRewrite {
  readonly rewrite: Rewrite
  readonly sinceMs: number
  readonly resolve: (outcome: RewriteOutcome) => void
  readonly reject: (error: Error) => void
}

export class Scheduler {
  readonly #deps: SchedulerDeps
  readonly #runner: CompactionRunner
  readonly #costs: CommitCosts
  readonly #failures: MergeFailures
  readonly #debts = new DebtTotals()
  readonly #dirty = new Set<number>()
  /** Pools with something to merge, and since when; first in, first out. */
  readonly #queue = new Map<number, number>()
  /**
   * Pools that may have recent flushes in memory, and the time of the last one; the oldest first.
   */
  readonly #flushedMs = new Map<number, number>()
  /** The segments of a pool with lower numbers are left to a job. */
  readonly #reserved = new Map<number, number>()
  /** One rewrite of a pool at most, which waits for its turn; first in, first out. */
  readonly #rewrites = new Map<number, WaitingRewrite>()
  #isMergeNext = false
  #neverStarts = false
  readonly #expiring = new Set<number>()
  /** Full hour of the wall clock of the last retention pass. */
  #retentionHour: number | undefined
  #speed: MergeSpeed | undefined
  #merging: { readonly pool: number; readonly done: Promise<void> } | undefined
  #isStarted = false
  #isStopping = false
  #cancelTick: (() => void) | undefined

  constructor(deps: SchedulerDeps) {
    this.#deps = deps
    this.#costs = new CommitCosts(deps.clock.nowMs)
    this.#runner = new CompactionRunner({
      ...deps,
      apply: (commit, committed) => {
        const usPerKey = commit.keys === undefined ? 0 : committed.usPerKey
        if (usPerKey !== undefined) this.#costs.learn(commit.pool, usPerKey)
        deps.apply(commit, committed)
      },
    })
    this.#failures = new MergeFailures(deps)
  }

  /**
   * Begins with the next tick. Call it after the sweep: no orphan may exist while its inputs are
   * merged with others.
   */
  start(): void {
    if (this.#isStopping || this.#isStarted) return
    this.#isStarted = true
    for (const pool of this.#deps.livePools()) this.#dirty.add(pool)
    this.#armTick()
  }

  /**
   * The pool was flushed. `usPerKey` is the cost of a key where it is known; a pool without keys
   * passes 0.
   */
  flushed(pool: number, usPerKey?: number): void {
    if (usPerKey !== undefined) this.#costs.learn(pool, usPerKey)
    this.#dirty.add(pool)
    this.#flushedMs.delete(pool)
    this.#flushedMs.set(pool, this.#deps.clock.nowMs())
  }

  /** The pool may have more to merge since the last inspection, without a flush. */
  changed(pool: number): void {
    this.#dirty.add(pool)
  }

  retentionChanged(pool: number): void {
    this.#expiring.add(pool)
    this.#dirty.add(pool)
  }

  /**
   * Leaves the pool's segments with numbers below `below` to a job, until `release`. Resolves when
   * no merge of the pool runs that began before.
   */
  async reserve(pool: number, below: number): Promise<void> {
    this.#reserved.set(pool, below)
    this.#dirty.add(pool)
    if (this.#merging?.pool === pool) await this.#merging.done
  }

  release(pool: number): void {
    if (this.#reserved.delete(pool)) this.retentionChanged(pool) // passes left its segments out
  }

  /** The sweep failed: nothing is merged or rewritten until the next start. */
  neverStarts(): void {
    this.#neverStarts = true
    for (const pool of [...this.#rewrites.keys()]) this.#takeRewrite(pool)?.reject(NEVER_STARTS())
  }

  /**
   * Rewrites one reserved segment when its turn comes. Rejects with SegmentDamaged,
   * SegmentsDisagree or Unavailable; then nothing has changed.
   */
  rewrite(pool: number, rewrite: Rewrite): Promise<RewriteOutcome> {
    assert(!this.#rewrites.has(pool), 'one rewrite of a pool at a time')
    if (this.#isStopping) return Promise.reject(STOPPING())
    if (this.#neverStarts) return Promise.reject(NEVER_STARTS())
    return new Promise((resolve, reject) => {
      this.#rewrites.set(pool, { rewrite, sinceMs: this.#deps.clock.nowMs(), resolve, reject })
      if (this.#isStarted) this.#startNext()
    })
  }

  /** See MergeFailures.leaveOut. */
  leaveOut(pool: number, segment: number): boolean {
    const isNew = this.#failures.leaveOut(pool, [segment])
    if (isNew) this.#dirty.add(pool)
    return isNew
  }

  /**
   * Forgets a deleted pool, which the catalog no longer names. Resolves when no merge of it is
   * running.
   */
  async dropPool(pool: number): Promise<void> {
    for (const pools of [this.#dirty, this.#queue, this.#flushedMs, this.#expiring]) pools.delete(pool)
    this.#failures.dropPool(pool)
    this.#costs.drop(pool)
    this.#debts.drop(pool)
    this.#reserved.delete(pool)
    this.#takeRewrite(pool)?.resolve('gone')
    if (this.#merging?.pool === pool) {
      this.#setSpeed() // its output will be removed: it should end soon
      await this.#merging.done
    }
    this.#runner.drop(pool)
  }

  stats(): SchedulerStats {
    return {
      debt: this.#debts.sum,
      poolsWaiting: this.#queue.size,
      isMerging: this.#merging !== undefined,
    }
  }

  /** See DebtTotals.worst. */
  worstDebts(count: number): readonly (readonly [pool: number, debt: Debt])[] {
    return this.#debts.worst(count)
  }

  /** Cancels a running merge and ends the merge thread. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#cancelTick?.()
    for (const pool of [...this.#rewrites.keys()]) this.#takeRewrite(pool)?.reject(STOPPING())
    await this.#deps.merger.stop()
    await this.#merging?.done
  }

  isStopping(): boolean {
    return this.#isStopping
  }

  #armTick(): void {
    this.#cancelTick = this.#deps.clock.after(this.#deps.tickMs, () => this.#tick())
  }

  #tick(): void {
    this.#armTick()
    this.#beginHour()
    const untilMs = this.#deps.clock.nowMs() + COMPACT_INSPECT_MS_MAX
    this.#inspectQuiet(untilMs)
    let inspected = 0
    for (const pool of this.#dirty) {
      const isTimeOver = inspected >= COMPACT_INSPECTIONS_PER_TICK || this.#deps.clock.nowMs() >= untilMs
      if (inspected > 0 && isTimeOver) break
      inspected += 1
      this.#inspect(pool)
    }
    this.#setSpeed()
    this.#startNext()
    this.#endLongWaits()
  }

  /** A job whose rewrite cannot begin looks now and then whether it was cancelled. */
  #endLongWaits(): void {
    const before = this.#deps.clock.nowMs() - REWRITE_BEGIN_MS_MAX
    for (const [pool, { sinceMs, reject }] of this.#rewrites) {
      if (sinceMs > before) return
      this.#rewrites.delete(pool)
      reject(new Unavailable('merges_wait', 'merges and flushes of other pools take long'))
    }
  }

  /**
   * Starts a retention pass over all pools at start and in each full hour. The days of a pool end
   * at midnight (UTC); the passes of the other hours are for late events. The wall clock may stand
   * still, jump, or go back.
   */
  #beginHour(): void {
    const hour = Math.floor(this.#deps.clock.wallMs() / HOUR_MS)
    if (hour === this.#retentionHour) return
    this.#retentionHour = hour
    for (const pool of this.#deps.livePools())
      if ((this.#deps.pool(pool)?.retentionDays ?? 0) > 0) this.retentionChanged(pool)
  }

  /**
   * Frees the recent flushes of pools that had no flush for long, where a merge would take them.
   */
  #inspectQuiet(untilMs: number): void {
    const before = this.#deps.clock.nowMs() - COMPACT_QUIET_TICKS * this.#deps.tickMs
    let inspected = 0
    for (const [pool, flushedMs] of this.#flushedMs) {
      if (flushedMs > before || inspected >= COMPACT_INSPECTIONS_PER_TICK) return
      if (inspected > 0 && this.#deps.clock.nowMs() >= untilMs) return
      inspected += 1
      this.#flushedMs.delete(pool)
      if (this.#deps.pool(pool) === undefined || this.#deps.replaceableSegments(pool).size === 0) continue
      if (pickCompaction(this.#inputIgnoringFlushes(pool, undefined)) === undefined) continue
      this.#deps.forgetRecentFlushes(pool)
      this.#dirty.add(pool)
    }
  }

  /** Puts a pool into the queue, or takes it out. */
  #inspect(number: number): void {
    this.#dirty.delete(number)
    const pool = this.#deps.pool(number)
    if (pool === undefined) {
      this.#expiring.delete(number)
      return
    }
    if (this.#expiring.has(number)) this.#freeExpired(number, pool)
    const input = this.#inputOf(number, this.#deps.segments(number))
    const { picked, debt } = inspectPool(input, this.#failures.quarantined(number).size)
    this.#debts.set(number, debt)
    if (picked === undefined) this.#queue.delete(number)
    else if (!this.#queue.has(number)) this.#queue.set(number, this.#deps.clock.nowMs())
  }

  /** What the next merge of a living pool is picked from. */
  #inputOf(number: number, segments: readonly PoolSegment[]): PickInput {
    const pool = must(this.#deps.pool(number), 'a living pool')
    const replaceable = this.#deps.replaceableSegments(number)
    const expireBeforeUs = this.#expiring.has(number) ? this.#cutoffUs(pool) : undefined
    const all = this.#inputIgnoringFlushes(number, expireBeforeUs, segments)
    return { ...all, isExcluded: segment => replaceable.has(segment) || all.isExcluded(segment) }
  }

  /** The pool as if no flush might replace a segment. */
  #inputIgnoringFlushes(
    pool: number,
    expireBeforeUs: number | undefined,
    segments = this.#deps.segments(pool),
  ): PickInput {
    const quarantined = this.#failures.quarantined(pool)
    return {
      segments,
      obsolete: this.#deps.obsolete(pool),
      isExcluded: segment => segment < this.#reservedBelow(pool) || quarantined.has(segment),
      rowsMax: this.#costs.rowsMax(pool, this.#speedNow()),
      expireBeforeUs,
    }
  }

  /**
   * Frees recent flushes that hold expired rows, and ends the retention pass of the pool when
   * nothing is left.
   */
  #freeExpired(number: number, pool: CompactPool): void {
    const picked = pickCompaction(this.#inputIgnoringFlushes(number, this.#cutoffUs(pool)))
    if (picked?.reason !== 'expired') {
      this.#expiring.delete(number)
      return
    }
    // Those of a running flush stay replaceable: the end of the flush makes the pool dirty again.
    const replaceable = this.#deps.replaceableSegments(number)
    if (picked.inputs.some(one => replaceable.has(one.segment))) this.#deps.forgetRecentFlushes(number)
  }

  #cutoffUs(pool: CompactPool): number | undefined {
    return cutoffUs(pool.retentionDays, this.#deps.clock.wallMs())
  }

  #speedNow(): MergeSpeed {
    return this.#deps.load().ingestAgoMs < COMPACT_INGEST_MS ? 'throttled' : 'full'
  }

  #setSpeed(): void {
    const merging = this.#merging?.pool
    const isOfDeletedPool = merging !== undefined && this.#deps.pool(merging) === undefined
    const speed = isOfDeletedPool ? 'full' : this.#speedNow()
    if (speed === this.#speed) return
    this.#speed = speed
    this.#deps.merger.setSpeed(speed)
    if (speed === 'full') this.#inspectLimited()
  }

  /**
   * Merges of these pools may move more rows now. Their recent flushes are inspected with those of
   * quiet pools.
   */
  #inspectLimited(): void {
    for (const pool of this.#costs.limitedPools) {
      this.#dirty.add(pool)
      if (!this.#flushedMs.has(pool)) this.#flushedMs.set(pool, Number.NEGATIVE_INFINITY)
    }
  }

  #startNext(): void {
    if (this.#merging !== undefined || this.#isStopping || !this.#mayStart()) return
    const next = this.#nextMerge()
    const [rewrite] = this.#rewrites.keys()
    if (rewrite !== undefined && (next === undefined || !this.#isMergeNext)) {
      this.#isMergeNext = true
      this.#begin(rewrite, () => this.#rewrite(rewrite))
    } else if (next !== undefined) {
      this.#isMergeNext = false
      this.#queue.delete(next)
      this.#begin(next, () => this.#compact(next))
    }
  }

  #nextMerge(): number | undefined {
    const nowMs = this.#deps.clock.nowMs()
    for (const pool of this.#queue.keys()) if (!this.#failures.isWaiting(pool, nowMs)) return pool
    return undefined
  }

  /** @param work resolves with true where the pool may have more to merge now; never rejects */
  #begin(pool: number, work: () => Promise<boolean>): void {
    this.#setSpeed()
    const done = work().then(hasMerged => {
      this.#merging = undefined
      if (this.#isStopping) return
      if (hasMerged) this.#inspect(pool)
      else this.#dirty.add(pool)
      this.#startNext()
    })
    this.#merging = { pool, done }
  }

  #takeRewrite(pool: number): WaitingRewrite | undefined {
    const waiting = this.#rewrites.get(pool)
    this.#rewrites.delete(pool)
    return waiting
  }

  #mayStart(): boolean {
    const nowMs = this.#deps.clock.nowMs()
    const { isRefusing, flushingBytes, flushesAreSlow } = this.#deps.load()
    if (isRefusing || this.#failures.isPaused(nowMs)) return false
    // A compaction commit takes the index as long for a key as a flush does.
    const isIndexBusy =
      flushesAreSlow &&
      this.#speedNow() === 'throttled' &&
      this.#debts.sum.smallSegments <= COMPACT_SLOW_SEGMENTS_MAX
    if (flushingBytes <= COMPACT_MEMTABLE_BYTES_MAX && !isIndexBusy) return true
    const [longest = nowMs] = this.#queue.values()
    const [{ sinceMs } = { sinceMs: nowMs }] = this.#rewrites.values()
    return nowMs - longest >= COMPACT_WAIT_MS_MAX || nowMs - sinceMs >= REWRITE_WAIT_MS_MAX
  }

  /**
   * Resolves with false where there was nothing to merge any more, or the merge failed. Never
   * rejects.
   */
  async #compact(number: number): Promise<boolean> {
    const pool = this.#deps.pool(number)
    if (pool === undefined) return false
    try {
      const hasMerged = await this.#runner.runNext(number, segments => this.#inputOf(number, segments))
      this.#failures.succeeded(number)
      return hasMerged
    } catch (error) {
      if (error instanceof AssertionFailed) this.#fatal(error)
      else if (!this.#isStopping && this.#deps.pool(number) !== undefined)
        this.#failures.failed(number, pool.poolId, error as Error)
      return false
    }
  }

  /**
   * Runs the rewrite of a pool that waits. Resolves with true if the pool changed; never rejects.
   */
  async #rewrite(number: number): Promise<boolean> {
    const waiting = must(this.#takeRewrite(number), 'a rewrite that waits')
    const pool = this.#deps.pool(number)
    try {
      const below = this.#reservedBelow(number)
      const outcome = pool === undefined ? 'gone' : await this.#runner.rewrite(number, waiting.rewrite, below)
      if (outcome === 'done') this.#failures.succeeded(number)
      waiting.resolve(outcome)
      return outcome === 'done'
    } catch (error) {
      if (error instanceof AssertionFailed) this.#fatal(error)
      else if (!this.#isStopping && pool !== undefined)
        this.#failures.failed(number, pool.poolId, error as Error)
      waiting.reject(error as Error)
      return false
    }
  }

  #reservedBelow(pool: number): number {
    return this.#reserved.get(pool) ?? 0
  }

  #fatal(error: Error): void {
    this.#isStopping = true
    this.#cancelTick?.()
    this.#deps.onFatal(error)
  }
}

const NEVER_STARTS = () =>
  new Unavailable(
    'sweep_failed',
    'the sweep of old files failed: segments are rewritten after the next start',
  )
const STOPPING = () => new Unavailable('stopping', 'Weir is stopping')
