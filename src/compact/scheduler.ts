/**
 * Decides which pool is compacted when. Main thread.
 *
 *   W-9   One merge at a time over all pools; a tick looks at COMPACT_LOOKS_PER_TICK pools at most.
 *   W-11  No loop over rows; a look is a walk over one pool's segments, and the looks of a tick end after COMPACT_LOOK_MS_MAX.
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
import {
  COMPACT_INGEST_MS,
  COMPACT_LOOK_MS_MAX,
  COMPACT_LOOKS_PER_TICK,
  COMPACT_QUIET_TICKS,
  COMPACT_SLOW_SEGMENTS_MAX,
  COMPACT_TAIL_BYTES_MAX,
  COMPACT_WAIT_MS_MAX,
} from '../limits.ts'
import { AssertionFailed } from '../util/assert.ts'
import { choose, type Look, lookAt } from './choose.ts'
import { Debts } from './debt.ts'
import type { Debt, Pace } from './protocol.ts'
import { cutoffUs, RetentionHours } from './retention.ts'
import type { CompactPool, SchedulerCalls, SchedulerStats } from './scheduler-calls.ts'
import { Failures } from './scheduler-failures.ts'
import { Merges } from './scheduler-merge.ts'
import { SwapCosts } from './swap-costs.ts'

export class Scheduler {
  readonly #calls: SchedulerCalls
  readonly #merges: Merges
  readonly #costs: SwapCosts
  readonly #failures: Failures
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
  #pace: Pace | undefined
  #merging: { readonly pool: number; readonly done: Promise<void> } | undefined
  #isStarted = false
  #isStopping = false
  #cancelTick: (() => void) | undefined

  constructor(calls: SchedulerCalls) {
    this.#calls = calls
    this.#costs = new SwapCosts(calls.clock.nowMs)
    this.#merges = new Merges(calls, this.#costs)
    this.#failures = new Failures(calls)
  }

  /** Begins with the next tick. After the sweep: an orphan must not be there when its inputs are merged with others (scheduler-merge.ts). */
  start(): void {
    if (this.#isStopping || this.#isStarted) return
    this.#isStarted = true
    for (const pool of this.#calls.livePools()) this.#dirty.add(pool)
    this.#armTick()
  }

  /** Something of the pool was sealed; `usPerKey`: what a key took, where that is known; 0: it has no keys. */
  sealed(pool: number, usPerKey?: number): void {
    if (usPerKey !== undefined) this.#costs.learn(pool, usPerKey)
    this.#dirty.add(pool)
    this.#sealedMs.delete(pool)
    this.#sealedMs.set(pool, this.#calls.clock.nowMs())
  }

  /** There may be more to merge in the pool than at the last look, without a seal. */
  changed(pool: number): void {
    this.#dirty.add(pool)
  }

  /** The pool keeps its rows for another number of days. */
  retentionChanged(pool: number): void {
    this.#expiring.add(pool)
    this.#dirty.add(pool)
  }

  /** Forgets a deleted pool, which the catalog does not name any more. Resolves when no merge of it is under way. */
  async dropPool(pool: number): Promise<void> {
    for (const pools of [this.#dirty, this.#queue, this.#sealedMs, this.#expiring]) pools.delete(pool)
    this.#failures.dropPool(pool)
    this.#costs.drop(pool)
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

  /** See Debts.worst. */
  worstDebts(count: number): readonly (readonly [pool: number, debt: Debt])[] {
    return this.#debts.worst(count)
  }

  /** Gives up a running merge and ends the merge thread. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#cancelTick?.()
    await this.#calls.merger.stop()
    await this.#merging?.done
  }

  isStopping(): boolean {
    return this.#isStopping
  }

  #armTick(): void {
    this.#cancelTick = this.#calls.clock.after(this.#calls.tickMs, () => this.#tick())
  }

  #tick(): void {
    this.#armTick()
    if (this.#hours.isDue(this.#calls.clock.wallMs())) this.#beginPass()
    const untilMs = this.#calls.clock.nowMs() + COMPACT_LOOK_MS_MAX
    this.#lookAtQuiet(untilMs)
    let looks = 0
    for (const pool of this.#dirty) {
      if (looks > 0 && (looks >= COMPACT_LOOKS_PER_TICK || this.#calls.clock.nowMs() >= untilMs)) break
      looks += 1
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
  #lookAtQuiet(untilMs: number): void {
    const before = this.#calls.clock.nowMs() - COMPACT_QUIET_TICKS * this.#calls.tickMs
    let looks = 0
    for (const [pool, sealedMs] of this.#sealedMs) {
      if (sealedMs > before || looks >= COMPACT_LOOKS_PER_TICK) return
      if (looks > 0 && this.#calls.clock.nowMs() >= untilMs) return
      looks += 1
      this.#sealedMs.delete(pool)
      if (this.#calls.pool(pool) === undefined || this.#calls.held(pool).size === 0) continue
      if (choose(this.#lookBeyondHeld(pool, undefined)) === undefined) continue
      this.#calls.forgetKept(pool)
      this.#dirty.add(pool)
    }
  }

  /** Puts a pool into the queue, or takes it out. */
  #look(pool: number): void {
    this.#dirty.delete(pool)
    const of = this.#calls.pool(pool)
    if (of === undefined) {
      this.#expiring.delete(pool)
      return
    }
    if (this.#expiring.has(pool)) this.#makeWay(pool, of)
    const held = this.#calls.held(pool)
    const expireBeforeUs = this.#expiring.has(pool) ? this.#cutoffUs(of) : undefined
    const beyond = this.#lookBeyondHeld(pool, expireBeforeUs)
    const look = { ...beyond, isBarred: (segment: number) => held.has(segment) || beyond.isBarred(segment) }
    const { choice, debt } = lookAt(look, this.#failures.quarantined(pool).size)
    this.#debts.set(pool, debt)
    if (choice === undefined) this.#queue.delete(pool)
    else if (!this.#queue.has(pool)) this.#queue.set(pool, this.#calls.clock.nowMs())
  }

  /** As if the sealer held nothing. */
  #lookBeyondHeld(pool: number, expireBeforeUs: number | undefined): Look {
    const quarantined = this.#failures.quarantined(pool)
    return {
      segments: this.#calls.segments(pool),
      givenUp: this.#calls.emptied(pool),
      isBarred: segment => quarantined.has(segment),
      rowsMax: this.#costs.rowsMax(pool, this.#paceNow()),
      expireBeforeUs,
    }
  }

  /** Of a pool whose rows expire: frees segments that the sealer keeps, and ends the pass when nothing is left. */
  #makeWay(pool: number, of: CompactPool): void {
    const choice = choose(this.#lookBeyondHeld(pool, this.#cutoffUs(of)))
    // Those of a running seal stay held: the pool is looked at again when it is sealed.
    if (choice?.reason !== 'expired') this.#expiring.delete(pool)
    else if (choice.inputs.some(one => this.#calls.held(pool).has(one.segment))) this.#calls.forgetKept(pool)
  }

  #cutoffUs(of: CompactPool): number | undefined {
    return cutoffUs(of.retentionDays, this.#calls.clock.wallMs())
  }

  #paceNow(): Pace {
    return this.#calls.load().ingestAgoMs < COMPACT_INGEST_MS ? 'beside' : 'alone'
  }

  #setPace(): void {
    const merging = this.#merging?.pool
    const isUseless = merging !== undefined && this.#calls.pool(merging) === undefined
    const pace = isUseless ? 'alone' : this.#paceNow()
    if (pace === this.#pace) return
    this.#pace = pace
    this.#calls.merger.setPace(pace)
    if (pace === 'alone') this.#lookAtDear()
  }

  /** Their merges may move more now; those whose rows the sealer keeps are looked at as quiet ones. */
  #lookAtDear(): void {
    for (const pool of this.#costs.dear) {
      this.#dirty.add(pool)
      if (!this.#sealedMs.has(pool)) this.#sealedMs.set(pool, Number.NEGATIVE_INFINITY)
    }
  }

  #startNext(): void {
    if (this.#merging !== undefined || this.#isStopping || !this.#mayStart()) return
    const nowMs = this.#calls.clock.nowMs()
    for (const pool of this.#queue.keys()) {
      if (this.#failures.isWaiting(pool, nowMs)) continue
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
    const { isRefusing, tailBytes, sealsAreSlow } = this.#calls.load()
    if (isRefusing || this.#failures.isPaused(nowMs)) return false
    // A swap takes the index as long for a key as a seal does.
    const isIndexFull =
      sealsAreSlow &&
      this.#paceNow() === 'beside' &&
      this.#debts.sum.smallSegments <= COMPACT_SLOW_SEGMENTS_MAX
    if (tailBytes <= COMPACT_TAIL_BYTES_MAX && !isIndexFull) return true
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
        held: () => this.#calls.held(pool),
        quarantined: this.#failures.quarantined(pool),
        isRetentionDue: this.#expiring.has(pool),
        pace: this.#paceNow(),
      })
      this.#failures.succeeded(pool)
      return hasMerged
    } catch (error) {
      if (error instanceof AssertionFailed) this.#fatal(error)
      else if (!this.#isStopping && this.#calls.pool(pool) !== undefined)
        this.#failures.failed(pool, of.poolId, error as Error)
      return false
    }
  }

  #fatal(error: Error): void {
    this.#isStopping = true
    this.#cancelTick?.()
    this.#calls.onFatal(error)
  }
}
