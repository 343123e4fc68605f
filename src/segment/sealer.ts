/**
 * Decides when a pool is sealed: by rows, bytes, batches, age (due.ts), on demand, at the end. Main thread.
 *
 * W-8: `sealNow` resolves when everything appended before the call is sealed, flushed and in the manifest.
 * W-9: at most SEALS_MAX full seals, or SEALS_SMALL small ones in place of each, are under way; the tail is bounded.
 * W-11: no loop over rows, no file call. W-13: a tail that nobody reads holds back a bounded part of the log.
 *
 * A pool's next seal starts while one is under way only when its tail is full: so one seal running and one waiting
 * serve all readers, and a small seal finds the newest small segment committed and can take it along (kept.ts).
 * Pools that want a seal stand in line (ready.ts) and come one after the other.
 */

import type { Plan } from '../batch/plan.ts'
import { Unavailable } from '../errors.ts'
import {
  DISK_RETRY_MS,
  KEPT_ROWS_MAX,
  SEAL_BYTES,
  SEAL_ENTRIES,
  SEAL_ROWS,
  SEAL_TICK_MS,
  SEALS_MAX,
  SEALS_SMALL,
  TAIL_BYTES_MAX,
} from '../limits.ts'
import { assert, must } from '../util/assert.ts'
import { isDue, type Moment, tooLarge } from './due.ts'
import { Kept } from './kept.ts'
import { Pipeline, type SealedSegment } from './pipeline.ts'
import type { TailEntry } from './protocol.ts'
import { ReadyPools } from './ready.ts'
import { type Lane, PoolState, Seal, type SealPool } from './seal.ts'
import { SealPace } from './seal-pace.ts'
import { realClock, type SealClock, type SealerCalls, type SealerStats } from './sealer-calls.ts'
import { TailBudget } from './tail.ts'

/** The tails of all pools and their seals. */
export class Sealer {
  readonly #calls: SealerCalls
  readonly #clock: SealClock
  readonly #pace: SealPace
  readonly #pipeline: Pipeline
  readonly #budget = new TailBudget(TAIL_BYTES_MAX)
  readonly #kept: Kept
  readonly #pools = new Map<number, PoolState>()
  /** Pools with something unsealed. */
  readonly #unsealed = new Set<PoolState>()
  readonly #ready = new ReadyPools()
  readonly #dropped = new Set<number>()
  readonly #dropWaiters = new Map<PoolState, () => void>()
  #lastSequence = 0
  #isPumpDue = false
  /** `roomFor` said no because seals are behind. */
  #isRoomAwaited = false
  /** Set at the end. */
  #onIdle: (() => void) | undefined
  #cancelTick: (() => void) | undefined

  constructor(calls: SealerCalls) {
    this.#calls = calls
    this.#kept = new Kept(undefined, undefined, entries => calls.onFreed?.(entries))
    this.#clock = calls.clock ?? realClock
    this.#pace = new SealPace(calls.limits ?? { rows: SEAL_ROWS, bytes: SEAL_BYTES, entries: SEAL_ENTRIES })
    this.#pipeline = new Pipeline({
      writer: calls.writer,
      commit: calls.commit,
      syncLog: calls.syncLog,
      onFatal: calls.onFatal,
      onCommitted: seals => this.#committed(seals),
      onFailed: (state, error) => this.#failed(state, error),
      onBack: (state, seals) => this.#back(state, seals),
    })
  }

  /** Makes a pool known, at start or when it is created. */
  addPool(pool: SealPool): void {
    assert(!this.#pools.has(pool.pool), 'a pool is added once')
    this.#pools.set(pool.pool, new PoolState(pool))
  }

  /** A number for a segment that another stage writes (compaction). */
  takeSegmentNumber(pool: number): number {
    return this.#pool(pool).nextSegment++
  }

  /**
   * Appends batches whose records are synced, in sequence order (W-13). Entries whose sequences interleave must come
   * in one call, or in calls with no `await` between. Each entry's buffers are its own: they are moved later.
   * Entries of a dropped pool are discarded.
   */
  append(pool: number, plan: Plan, entries: readonly TailEntry[]): void {
    if (this.#dropped.has(pool)) return
    const state = this.#pool(pool)
    const now = this.#now()
    for (const entry of entries) {
      this.#budget.add(state.tail.append(plan, entry, now))
      const last = entry.requests[entry.requests.length - 3]!
      state.lastSequence = Math.max(state.lastSequence, last)
      this.#lastSequence = Math.max(this.#lastSequence, last)
    }
    if (state.tail.isEmpty) return
    this.#unsealed.add(state)
    this.#consider(state, now)
    this.#watch()
  }

  /**
   * May `bytes` more of batches come (W-9)? After a no, `onRoom` is called when there is room again. While seals are slow
   * they come only as fast as they are sealed: a tail full of slow rows would make readers wait for all of it.
   */
  roomFor(bytes: number): boolean {
    if (!this.#isBehind) return this.#budget.roomFor(bytes)
    this.#isRoomAwaited = true
    return false
  }

  /** Called when there is room again after `roomFor` said no. */
  set onRoom(call: () => void) {
    this.#budget.onRoom = call
  }

  get #isBehind(): boolean {
    return this.#pace.isSlow && !this.#hasPlace && this.#ready.isAnyUrgent
  }

  /** May another seal start? */
  get #hasPlace(): boolean {
    return this.#pipeline.weight < SEALS_MAX * SEALS_SMALL
  }

  #tellRoom(): void {
    if (!this.#isRoomAwaited || this.#isPumpDue || this.#isBehind) return
    this.#isRoomAwaited = false
    this.#budget.onRoom()
  }

  /**
   * Resolves when everything appended before the call is sealed, flushed and in the manifest (W-8). Rejects with
   * Unavailable: `seal_failed` at once when a seal of the pool fails or one failed within DISK_RETRY_MS;
   * `pool_deleted`.
   */
  sealNow(pool: number): Promise<void> {
    const state = this.#pools.get(pool)
    if (state === undefined) return Promise.reject(new Unavailable('pool_deleted', `pool ${pool} is gone`))
    if (state.isClean) return Promise.resolve()
    if (state.retryAtMs > this.#clock.nowMs())
      return Promise.reject(new Unavailable('seal_failed', 'the last seal failed; it is tried again'))
    return new Promise((resolve, reject) => {
      state.waiters.push({ sequence: state.lastSequence, resolve, reject })
      this.#consider(state)
    })
  }

  /** Seals every pool; for shutdown. Rejects as `sealNow` does. */
  async sealAll(): Promise<void> {
    await Promise.all([...this.#unsealed].map(state => this.sealNow(state.of.pool)))
  }

  /**
   * Forgets a deleted pool: its tail and kept batches at once, the files of running seals as they end. Resolves when
   * no seal of it is under way: only then may the index drop it.
   */
  dropPool(pool: number): Promise<void> {
    const state = this.#pools.get(pool)
    this.#dropped.add(pool)
    if (state === undefined) return Promise.resolve()
    this.#pools.delete(pool)
    state.isDropped = true
    this.#kept.drop(pool)
    if (!state.tail.isEmpty) this.#budget.remove(state.tail.bytes)
    while (!state.tail.isEmpty) state.tail.take(this.#pace.limits)
    for (const waiter of state.waiters.splice(0))
      waiter.reject(new Unavailable('pool_deleted', `pool ${pool} is gone`))
    const clean = new Promise<void>(resolve => {
      this.#dropWaiters.set(state, resolve)
      this.#pipeline.giveUp(state)
      this.#settle(state)
    })
    return clean.then(async () => {
      await Promise.all(state.discards)
    })
  }

  /** Segments whose rows may be replaced by a seal: compaction and retention leave them alone until `forgetKept`. */
  heldSegments(pool: number): ReadonlySet<number> {
    const taken = this.#pools.get(pool)?.underWay.flatMap(seal => seal.taken.map(kept => kept.segment)) ?? []
    return new Set([...this.#kept.segments(pool), ...taken])
  }

  /** Gives up a pool's kept batches, so that other stages may rewrite its segments. Those of a running seal stay held. */
  forgetKept(pool: number): void {
    this.#kept.drop(pool)
  }

  /** Everything below is sealed and flushed, so log files that end below may go. 0 before the first append. */
  lowestUnsealedSequence(): number {
    let lowest = this.#lastSequence === 0 ? 0 : this.#lastSequence + 1
    for (const state of this.#unsealed) lowest = Math.min(lowest, state.firstUnsealed ?? lowest)
    return lowest
  }

  stats(): SealerStats {
    let [tailRows, poolsFailing] = [0, 0]
    for (const state of this.#unsealed) {
      tailRows += state.unsealedRows
      if (state.retryAtMs > 0) poolsFailing += 1
    }
    return {
      tailRows,
      tailBytes: this.#budget.bytes,
      sealingBytes: this.#pipeline.bytes,
      keptBytes: this.#kept.bytes,
      poolsUnsealed: this.#unsealed.size,
      sealsUnderWay: this.#pipeline.count,
      sealsAreSlow: this.#pace.isSlow,
      poolsFailing,
    }
  }

  /** No further seal starts; resolves when none is under way. What is unsealed then is in the log. */
  stop(): Promise<void> {
    this.#cancelTick?.()
    this.#cancelTick = undefined
    return new Promise(resolve => {
      this.#onIdle = resolve
      this.#tellIdle()
    })
  }

  #tellIdle(): void {
    if (this.#pipeline.count === 0) this.#onIdle?.()
  }

  #pool(pool: number): PoolState {
    return must(this.#pools.get(pool), `pool ${pool} of the sealer`)
  }

  #now(): Moment {
    return { ms: this.#clock.nowMs(), logBytes: this.#calls.logBytes?.() ?? 0 }
  }

  #tick(): void {
    this.#cancelTick = undefined
    this.#pace.tick(this.#clock.nowMs())
    for (const state of tooLarge(this.#unsealed)) state.isTooLarge = true
    const now = this.#now()
    for (const state of this.#unsealed) this.#consider(state, now)
    if (this.#unsealed.size > 0) this.#watch()
  }

  #watch(): void {
    if (this.#onIdle === undefined) this.#cancelTick ??= this.#clock.after(SEAL_TICK_MS, () => this.#tick())
  }

  /** Where a pool should stand in line; undefined: nowhere. */
  #laneOf(state: PoolState, now: Moment): Lane | undefined {
    const { tail } = state
    if (state.isDropped || tail.isEmpty || state.retryAtMs > now.ms) return undefined
    if (tail.fullness(this.#pace.limits) >= 1) return 'urgent'
    if (state.underWay.length > 0) return undefined
    if (state.waiters.length > 0 || state.isTooLarge) return 'urgent'
    return state.retryAtMs > 0 || isDue(state, now) ? 'aged' : undefined
  }

  /** Puts a pool that wants a seal in line. Seals start after the caller's turn: its appends are whole then. */
  #consider(state: PoolState, now = this.#now()): void {
    const lane = this.#laneOf(state, now)
    if (lane !== undefined) this.#ready.put(state, lane)
    if (this.#ready.isEmpty || this.#isPumpDue) return
    this.#isPumpDue = true
    queueMicrotask(() => this.#pump())
  }

  #pump(): void {
    this.#isPumpDue = false
    if (this.#onIdle !== undefined) return
    const now = this.#now()
    while (this.#hasPlace) {
      const next = this.#ready.take()
      if (next === undefined) break
      const { state, lane } = next
      if (this.#laneOf(state, now) === undefined) continue
      this.#ready.took(lane, this.#start(state))
      this.#consider(state, now)
    }
    this.#tellRoom()
  }

  /** Starts a seal and returns its weight. */
  #start(state: PoolState): number {
    const weight = Math.ceil(SEALS_SMALL * Math.min(1, state.tail.fullness(this.#pace.limits)))
    state.isTooLarge = false
    const groups = state.tail.take(this.#pace.limits)
    const rows = groups.reduce((sum, group) => sum + group.rows, 0)
    const isAlone = state.underWay.length === 0 && rows < KEPT_ROWS_MAX && !this.#pace.isSlow
    const version = groups[0]!.plan.version
    const entries = groups.reduce((sum, group) => sum + group.entries.length, 0)
    const taken = isAlone ? this.#kept.take(state.of.pool, version, rows, entries) : []
    this.#pipeline.start(new Seal(state, groups, taken, this.#clock.nowMs(), weight))
    return weight
  }

  #committed(seals: readonly { readonly seal: Seal; readonly sealed: SealedSegment }[]): void {
    // Those of dropped pools too: the index used up their numbers, and the manifest gives their files up at its drop.
    this.#calls.onCommitted(seals.map(({ sealed }) => sealed))
    const nowMs = this.#clock.nowMs()
    for (const { seal, sealed } of seals) {
      const { state, beginMs } = seal
      const { keysMs } = sealed.committed
      // Those that are not full cost what a transaction costs, which tells nothing of their rows.
      if (keysMs !== undefined && seal.weight === SEALS_SMALL)
        this.#pace.committed({ pool: state.of.pool, beginMs, keysMs }, nowMs)
      this.#budget.remove(seal.bytes)
      state.retryAtMs = 0
      if (!state.isDropped) this.#keep(seal)
      const served = state.waiters.filter(waiter => waiter.sequence <= seal.last)
      state.waiters = state.waiters.filter(waiter => waiter.sequence > seal.last)
      for (const waiter of served) waiter.resolve()
      this.#settle(state)
    }
  }

  /** A seal without rows or deletes leaves no segment, and the stack as it is. */
  #keep(seal: Seal): void {
    const kept = seal.kept()
    if (seal.done?.meta !== undefined) this.#kept.push(seal.state.of.pool, kept)
    else this.#calls.onFreed?.(kept.entries)
  }

  #failed(state: PoolState, error: Error): void {
    state.retryAtMs = this.#clock.nowMs() + DISK_RETRY_MS
    for (const waiter of state.waiters.splice(0))
      waiter.reject(new Unavailable('seal_failed', `the seal failed: ${error.message}`))
    this.#clock.after(DISK_RETRY_MS, () => this.#consider(state))
    this.#calls.onFailed(state.of.pool, error)
  }

  #back(state: PoolState, seals: readonly Seal[]): void {
    if (state.isDropped) {
      this.#discard(state, seals)
      return
    }
    for (const seal of seals) this.#kept.putBack(state.of.pool, seal.taken)
    state.tail.giveBack(seals.flatMap(seal => seal.groups))
    this.#settle(state)
  }

  /** A dropped pool's files go; where the disk refuses, they go with the pool's folder. */
  #discard(state: PoolState, seals: readonly Seal[]): void {
    for (const seal of seals) this.#budget.remove(seal.bytes)
    const unlinked = this.#calls.writer.unlink(state.of.folder, state.orphans.splice(0))
    state.discards.push(unlinked.catch(error => this.#calls.onFailed(state.of.pool, error as Error)))
    this.#settle(state)
  }

  #settle(state: PoolState): void {
    this.#tellIdle()
    if (state.isClean) this.#unsealed.delete(state)
    if (state.isDropped && state.isClean) {
      this.#dropWaiters.get(state)?.()
      this.#dropWaiters.delete(state)
    }
    this.#consider(state)
    this.#tellRoom()
  }
}
