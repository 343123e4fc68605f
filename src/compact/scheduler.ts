/**
 * Decides which pool is compacted when. Main thread.
 *
 *   W-9   One merge at a time over all pools; a tick looks at COMPACT_LOOKS_PER_TICK pools at most.
 *   W-11  No loop over rows; a look is a loop over one pool's segments.
 *
 *   sealed(pool) ─► dirty ─ tick: look ─► queue ─► merge ─► dirty again, until there is nothing to merge
 *                    ▲ start, full hour: pools with retention; days changed: that pool
 *
 * A pool is looked at when something happened to it, never because time went by: 2,000 pools cost what their seals
 * cost. The queue is first come, first served, one merge a turn, so that no pool starves.
 *
 * Segments whose rows the sealer keeps in memory are left alone until their pool has been quiet for COMPACT_QUIET_TICKS,
 * or retention wants them.
 *
 * For tests `tickMs` may be a few milliseconds (option `--compact-tick-ms`): everything that waits for ticks comes
 * sooner. `--retention-days-ahead` lets the clock of retention alone run ahead.
 */
import { basename } from 'node:path'
import { SegmentDamaged, Unavailable } from '../errors.ts'
import {
  COMPACT_INGEST_MS,
  COMPACT_LOOKS_PER_TICK,
  COMPACT_QUIET_TICKS,
  COMPACT_RETRY_MS_MAX,
  COMPACT_TAIL_BYTES_MAX,
  COMPACT_WAIT_MS_MAX,
  DISK_RETRY_MS,
} from '../limits.ts'
import { numberOfFile } from '../paths.ts'
import { AssertionFailed } from '../util/assert.ts'
import { choose, debtOf, type Look } from './choose.ts'
import { Debts } from './debt.ts'
import type { Pace } from './protocol.ts'
import { cutoffUs, RetentionHours } from './retention.ts'
import type { CompactPool, SchedulerCalls, SchedulerStats } from './scheduler-calls.ts'
import { Merges } from './scheduler-merge.ts'

/** When a failed merge is tried again; the delay doubles with each failure. */
interface Retry {
  readonly atMs: number
  readonly delayMs: number
}

export class Scheduler {
  readonly #calls: SchedulerCalls
  readonly #merges: Merges
  readonly #debts = new Debts()
  readonly #hours = new RetentionHours()
  /** Pools to look at. */
  readonly #dirty = new Set<number>()
  /** Pools with something to merge, and since when; first come, first served. */
  readonly #queue = new Map<number, number>()
  /** Pools with kept rows, perhaps, and when they were sealed last; the longest quiet first. */
  readonly #sealedMs = new Map<number, number>()
  /** Pools whose expired rows are to go. */
  readonly #expiring = new Set<number>()
  /** Segments that could not be read, by pool. They are tried again after a restart. */
  readonly #quarantined = new Map<number, Set<number>>()
  readonly #retries = new Map<number, Retry>()
  /** After the disk refused: of all pools. */
  #pause: Retry | undefined
  #pace: Pace | undefined
  #merging: { readonly pool: number; readonly done: Promise<void> } | undefined
  #isStarted = false
  #isStopping = false
  #cancelTick: (() => void) | undefined

  constructor(calls: SchedulerCalls) {
    this.#calls = calls
    this.#merges = new Merges(calls)
  }

  /** Begins with the next tick. After the sweep: an orphan must not be there when its inputs are merged with others (scheduler-merge.ts). */
  start(): void {
    if (this.#isStopping || this.#isStarted) return
    this.#isStarted = true
    for (const pool of this.#calls.livePools()) this.#dirty.add(pool)
    this.#armTick()
  }

  /** Something of the pool was sealed. */
  sealed(pool: number): void {
    this.#dirty.add(pool)
    this.#sealedMs.delete(pool)
    this.#sealedMs.set(pool, this.#calls.clock.nowMs())
  }

  /** The pool keeps its rows for another number of days. */
  retentionChanged(pool: number): void {
    this.#expiring.add(pool)
    this.#dirty.add(pool)
  }

  /** Forgets a deleted pool, which the catalog does not name any more. Resolves when no merge of it is under way. */
  async dropPool(pool: number): Promise<void> {
    for (const pools of [this.#dirty, this.#queue, this.#sealedMs, this.#expiring, this.#quarantined])
      pools.delete(pool)
    this.#retries.delete(pool)
    this.#debts.drop(pool)
    if (this.#merging?.pool === pool) {
      this.#setPace() // its rows are of no use: it should end soon
      await this.#merging.done
    }
    this.#merges.drop(pool)
  }

  stats(): SchedulerStats {
    return {
      debt: this.#debts.sum,
      poolsWaiting: this.#queue.size,
      isMerging: this.#merging !== undefined,
    }
  }

  /** Gives up a running merge and ends the merge thread. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#cancelTick?.()
    await this.#calls.merger.stop()
    await this.#merging?.done
  }

  #armTick(): void {
    this.#cancelTick = this.#calls.clock.after(this.#calls.tickMs, () => this.#tick())
  }

  #tick(): void {
    this.#armTick()
    if (this.#hours.isDue(this.#calls.clock.wallMs())) this.#beginPass()
    this.#lookAtQuiet()
    let looks = 0
    for (const pool of this.#dirty) {
      if (looks++ >= COMPACT_LOOKS_PER_TICK) break
      this.#look(pool)
    }
    this.#setPace()
    this.#startNext()
  }

  /** Retention's pass over all pools. */
  #beginPass(): void {
    for (const pool of this.#calls.livePools())
      if ((this.#calls.pool(pool)?.retentionDays ?? 0) > 0) this.retentionChanged(pool)
  }

  /** Pools that had no seal for long give up their kept rows, where a merge is waiting for them. */
  #lookAtQuiet(): void {
    const before = this.#calls.clock.nowMs() - COMPACT_QUIET_TICKS * this.#calls.tickMs
    let looks = 0
    for (const [pool, sealedMs] of this.#sealedMs) {
      if (sealedMs > before || looks++ >= COMPACT_LOOKS_PER_TICK) return
      this.#sealedMs.delete(pool)
      if (this.#calls.held(pool).size === 0) continue
      const segments = this.#calls.segments(pool)
      const isBarred = (segment: number) => this.#isQuarantined(pool, segment)
      if (choose({ segments, isBarred, expireBeforeUs: undefined }) === undefined) continue
      this.#calls.forgetKept(pool)
      this.#dirty.add(pool)
    }
  }

  /** Puts a pool into the queue, or takes it out. */
  #look(pool: number): void {
    this.#dirty.delete(pool)
    const of = this.#calls.pool(pool)
    if (of === undefined) return
    if (this.#expiring.has(pool)) this.#makeWay(pool, of)
    const look = this.#lookOf(pool, of)
    this.#debts.set(pool, debtOf(look, this.#quarantined.get(pool)?.size ?? 0))
    if (choose(look) === undefined) this.#queue.delete(pool)
    else if (!this.#queue.has(pool)) this.#queue.set(pool, this.#calls.clock.nowMs())
  }

  #lookOf(pool: number, of: CompactPool): Look {
    const held = this.#calls.held(pool)
    return {
      segments: this.#calls.segments(pool),
      isBarred: segment => held.has(segment) || this.#isQuarantined(pool, segment),
      expireBeforeUs: this.#expiring.has(pool) ? this.#cutoffUs(of) : undefined,
    }
  }

  /** Of a pool whose rows expire: frees segments that the sealer keeps, and ends the pass when nothing is left. */
  #makeWay(pool: number, of: CompactPool): void {
    const segments = this.#calls.segments(pool)
    const isBarred = (segment: number) => this.#isQuarantined(pool, segment)
    const choice = choose({ segments, isBarred, expireBeforeUs: this.#cutoffUs(of) })
    // Those of a running seal stay held: the pool is looked at again when it is sealed.
    if (choice?.reason !== 'expired') this.#expiring.delete(pool)
    else if (choice.inputs.some(one => this.#calls.held(pool).has(one.segment))) this.#calls.forgetKept(pool)
  }

  #cutoffUs(of: CompactPool): number | undefined {
    return cutoffUs(of.retentionDays, this.#calls.clock.wallMs())
  }

  #isQuarantined(pool: number, segment: number): boolean {
    return this.#quarantined.get(pool)?.has(segment) === true
  }

  #setPace(): void {
    const merging = this.#merging?.pool
    const isUseless = merging !== undefined && this.#calls.pool(merging) === undefined
    const pace = !isUseless && this.#calls.load().ingestAgoMs < COMPACT_INGEST_MS ? 'beside' : 'alone'
    if (pace === this.#pace) return
    this.#pace = pace
    this.#calls.merger.setPace(pace)
  }

  #startNext(): void {
    if (this.#merging !== undefined || this.#isStopping || !this.#mayStart()) return
    const nowMs = this.#calls.clock.nowMs()
    for (const pool of this.#queue.keys()) {
      if ((this.#retries.get(pool)?.atMs ?? 0) > nowMs) continue
      this.#queue.delete(pool)
      this.#setPace()
      const done = this.#merge(pool).then(hasMerged => {
        this.#merging = undefined
        if (this.#isStopping) return
        if (hasMerged) this.#look(pool)
        else this.#dirty.add(pool)
        this.#startNext()
      })
      this.#merging = { pool, done }
      return
    }
  }

  #mayStart(): boolean {
    const nowMs = this.#calls.clock.nowMs()
    const { isRefusing, tailBytes } = this.#calls.load()
    if (isRefusing || (this.#pause?.atMs ?? 0) > nowMs) return false
    if (tailBytes <= COMPACT_TAIL_BYTES_MAX) return true
    const [longest = nowMs] = this.#queue.values()
    return nowMs - longest >= COMPACT_WAIT_MS_MAX
  }

  /** False: there was nothing to merge any more, or it failed. Never rejects. */
  async #merge(pool: number): Promise<boolean> {
    const of = this.#calls.pool(pool)
    if (of === undefined) return false
    try {
      const hasMerged = await this.#merges.one({
        pool,
        // Asked when the inputs are chosen: the sealer may have taken some since the look.
        isBarred: segment => this.#calls.held(pool).has(segment) || this.#isQuarantined(pool, segment),
        isRetentionDue: this.#expiring.has(pool),
        expireBeforeUs: this.#cutoffUs(of),
      })
      this.#pause = undefined
      this.#retries.delete(pool)
      return hasMerged
    } catch (error) {
      if (error instanceof AssertionFailed) this.#fatal(error)
      else if (!this.#isStopping && this.#calls.pool(pool) !== undefined)
        this.#failed(pool, of, error as Error)
      return false
    }
  }

  #fatal(error: Error): void {
    this.#isStopping = true
    this.#cancelTick?.()
    this.#calls.onFatal(error)
  }

  #failed(pool: number, of: CompactPool, error: Error): void {
    const { onFailed, warn, clock } = this.#calls
    onFailed()
    if (error instanceof SegmentDamaged && this.#quarantine(pool, error)) {
      warn(`${error.message}; compaction leaves it alone, queries that need it answer SEGMENT_DAMAGED`)
      return
    }
    const isEverywhere = error instanceof Unavailable
    const before = isEverywhere ? this.#pause : this.#retries.get(pool)
    const delayMs = Math.min(before === undefined ? DISK_RETRY_MS : 2 * before.delayMs, COMPACT_RETRY_MS_MAX)
    const retry = { atMs: clock.nowMs() + delayMs, delayMs }
    if (isEverywhere) this.#pause = retry
    else this.#retries.set(pool, retry)
    warn(`a merge of pool ${of.poolId} failed and is tried again in ${delayMs / 1000} s: ${error.message}`)
  }

  /** False: the file is none of the pool's segments, or is in quarantine already. */
  #quarantine(pool: number, { file }: SegmentDamaged): boolean {
    const segment = numberOfFile(basename(file))
    const isOurs = this.#calls.segments(pool).some(one => one.segment === segment)
    if (segment === undefined || !isOurs || this.#isQuarantined(pool, segment)) return false
    const quarantined = this.#quarantined.get(pool) ?? new Set()
    this.#quarantined.set(pool, quarantined.add(segment))
    return true
  }
}
