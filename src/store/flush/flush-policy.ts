/**
 * When a pool is flushed, in which order pools are flushed, and how large a flush is. Main thread.
 *
 *   when    A full memtable is flushed at once, and so is one that a reader waits for. Age bounds
 *           what a start replays and how much log is held back: FLUSH_AGE_MS or LOG_UNFLUSHED_BYTES
 *           of log. The largest memtables are flushed early while all together hold more than
 *           MEMTABLE_WAITING_BYTES_MAX (decision 0015).
 *   order   FlushQueue: a flood of aged memtables does not stop a reader, and a pool that is always
 *           full does not keep the log from being released (W-13).
 *   size    FlushThrottle: a row that updates a random key costs the index a page of the disk. Then
 *           flushes become smaller, because a reader waits for those before its own (W-8, decision
 *           0017).
 */

import { assert } from '../../util/errors.ts'
import { FLUSHES_SMALL, LOG_UNFLUSHED_BYTES, MEMTABLE_WAITING_BYTES_MAX } from '../../util/limits.ts'
import type { FlushLimits, Moment, PoolMemtable } from './memtable.ts'

/** Index time of a full flush above which flushes get smaller. */
export const FLUSH_INDEX_MS_MAX = 1_000
/** Index time that smaller flushes aim at: a reader waits for four or five flushes. */
export const FLUSH_SMALLER_MS_MAX = 300
/** Index time of a smaller flush below which flushes grow: below half of the aim. */
export const FLUSH_SMALLER_MS_MIN = 140
/** Estimated index time of a full flush below which flushes grow. */
export const FLUSH_INDEX_MS_MIN = 480
assert(FLUSH_INDEX_MS_MIN < FLUSH_INDEX_MS_MAX, 'a flush that is full again is not made smaller at once')
assert(FLUSH_SMALLER_MS_MIN < FLUSH_SMALLER_MS_MAX / 2, 'a flush of half the size is not made larger at once')

/**
 * Age of the oldest row at which a memtable is flushed. Each pool uses between half of it and all,
 * so thousands of pools that began together do not come due together. Goal P-7 gives a start 3 s,
 * and 2,000 pools take about 1 s of it. 2,000 events a second leave at most 90,000 to parse again:
 * 0.3 to 0.5 s (docs/decisions/0016).
 */
export const FLUSH_AGE_MS = 60_000
/** Time without a slow flush before flushes grow. */
export const FLUSH_GROW_MS = 5_000
/** The smallest flush is this part of a full one: 8,192 rows with a page update each take 0.4 s. */
export const FLUSH_SHRINK_MAX = 16
/** Share of the time that a flush of half the size may take. Above it, rows are not the cause. */
const FLUSH_SHRINK_GAIN = 0.8
/**
 * Time for which the size stays after a trial without gain, and between two trials of double size.
 */
export const FLUSH_SHRINK_REST_MS = 20_000
/** Time without a full flush of known cost after which flushes are full again. */
export const FLUSH_CALM_MS = 60_000

/** The fractional part of the golden ratio: its multiples spread evenly, however many there are. */
const GOLDEN = 0.6180339887498949

/** A pool's share of the bounds: in [0.5, 1), spread evenly over neighbouring pool numbers. */
export function shareOf(pool: number): number {
  return 0.5 + 0.5 * ((pool * GOLDEN) % 1)
}

/** True when the oldest row of the memtable has reached one of its pool's bounds. */
export function isDue(pool: number, memtable: PoolMemtable, now: Moment): boolean {
  const { since } = memtable
  if (since === undefined) return false
  const share = shareOf(pool)
  return (
    now.ms - since.ms >= share * FLUSH_AGE_MS || now.logBytes - since.logBytes >= share * LOG_UNFLUSHED_BYTES
  )
}

/** The pools with the largest memtables: as few as bring all below MEMTABLE_WAITING_BYTES_MAX. */
export function largestOverLimit<Pool extends { readonly memtable: PoolMemtable }>(
  pools: Iterable<Pool>,
): Pool[] {
  let bytes = 0
  for (const { memtable } of pools) bytes += memtable.bytes
  if (bytes <= MEMTABLE_WAITING_BYTES_MAX) return []
  const bySize = [...pools].sort((a, b) => b.memtable.bytes - a.memtable.bytes)
  let count = 0
  for (; bytes > MEMTABLE_WAITING_BYTES_MAX; count++) bytes -= bySize[count]!.memtable.bytes
  return bySize.slice(0, count)
}

export type Lane = 'urgent' | 'aged'

/**
 * Pools that wait for a flush, in two lanes: `urgent` where a reader waits or the memtable is full,
 * `aged` where time passed or all memtables together are too large. While both have pools, they
 * take turns by weight.
 */
export class FlushQueue<Pool extends { lane: Lane | undefined }> {
  readonly #lanes: Readonly<Record<Lane, Pool[]>> = { urgent: [], aged: [] }
  /** Weight that urgent flushes took and aged ones did not. At 0 it is the urgent lane's turn. */
  #owed = 0

  /** Puts a pool into a lane. A pool in the aged lane may move to the urgent one. */
  put(pool: Pool, lane: Lane): void {
    if (pool.lane === lane || pool.lane === 'urgent') return
    // The entry that stays in the aged lane is skipped by `#shift`.
    pool.lane = lane
    this.#lanes[lane].push(pool)
  }

  get isEmpty(): boolean {
    return this.#lanes.urgent.length + this.#lanes.aged.length === 0
  }

  /** True when a reader or a full memtable is waiting for a flush. */
  get hasUrgent(): boolean {
    return this.#lanes.urgent.length > 0
  }

  /**
   * Takes the next pool out of its lane. The caller reports a flush that it starts with `charge`.
   */
  take(): { readonly pool: Pool; readonly lane: Lane } | undefined {
    const order: readonly Lane[] = this.#owed > 0 ? ['aged', 'urgent'] : ['urgent', 'aged']
    for (const lane of order) {
      const pool = this.#shift(lane)
      if (pool === undefined) continue
      pool.lane = undefined
      return { pool, lane }
    }
    this.#owed = 0
    return undefined
  }

  /** Counts a flush of `weight` that started from `lane`. */
  charge(lane: Lane, weight: number): void {
    const owed = this.#owed + (lane === 'urgent' ? weight : -weight)
    this.#owed = Math.max(0, Math.min(FLUSHES_SMALL, owed))
  }

  #shift(lane: Lane): Pool | undefined {
    for (;;) {
      const pool = this.#lanes[lane].shift()
      if (pool === undefined || pool.lane === lane) return pool
    }
  }
}

/** The cost of a full flush that was committed, of the size that was set at `beginMs`. */
export interface FlushCost {
  readonly pool: number
  /** Monotonic ms. */
  readonly beginMs: number
  /** Time that the index took for its keys. */
  readonly keysMs: number
}

/** A change of size that is kept only if the next flush of the pool confirms it. */
interface Trial {
  readonly size: 'half' | 'double'
  readonly pool: number
  readonly msBefore: number
  /** Flushes of the new size that took about as long as before. */
  readonly doubts: number
}

/**
 * Sets the size of flushes by the time that the index takes for their keys. Where half the rows
 * take about as long, the disk is slow whatever is flushed: the size goes back and stays for
 * FLUSH_SHRINK_REST_MS. While flushes are small, the size is doubled from time to time to see
 * whether the rows are still the cause.
 */
export class FlushThrottle {
  readonly #full: FlushLimits
  #limits: FlushLimits
  #shrink = 1
  #changedMs = 0
  #reportedMs = 0
  /** Time of the last report of a flush that took too long. */
  #slowMs = Number.NEGATIVE_INFINITY
  #trial: Trial | undefined
  /** Until this time no flush is made smaller. */
  #restUntilMs = 0

  /** @param full the limits while flushes are fast */
  constructor(full: FlushLimits) {
    this.#full = full
    this.#limits = full
  }

  get limits(): FlushLimits {
    return this.#limits
  }

  /** True while flushes are so slow that they are made smaller. */
  get isSlow(): boolean {
    return this.#shrink > 1
  }

  report({ pool, beginMs, keysMs }: FlushCost, nowMs: number): void {
    this.#reportedMs = nowMs
    if (beginMs < this.#changedMs) return // A flush of another size says nothing about this one.
    const trial = this.#trial
    if (trial?.pool === pool) {
      this.#trial = undefined
      if (trial.size === 'double') {
        this.#endDoubleTrial(trial, keysMs, nowMs)
        return
      }
      if (keysMs > trial.msBefore * FLUSH_SHRINK_GAIN) {
        this.#doubtHalfTrial(trial, nowMs)
        return
      }
    }
    this.#adjust(pool, keysMs, nowMs)
  }

  /** Goes back to full flushes after a time without reports. */
  tick(nowMs: number): void {
    if (this.isSlow && nowMs - this.#reportedMs >= FLUSH_CALM_MS) this.#shrinkTo(1, nowMs)
  }

  #adjust(pool: number, ms: number, nowMs: number): void {
    const isTooSlow = ms > (this.isSlow ? FLUSH_SMALLER_MS_MAX : FLUSH_INDEX_MS_MAX)
    if (isTooSlow) this.#slowMs = nowMs
    if (isTooSlow && nowMs >= this.#restUntilMs && this.#shrink < FLUSH_SHRINK_MAX) {
      this.#shrinkTo(2 * this.#shrink, nowMs)
      this.#trial = { size: 'half', pool, msBefore: ms, doubts: 0 }
    } else if (ms < Math.max(FLUSH_SMALLER_MS_MIN, FLUSH_INDEX_MS_MIN / this.#shrink)) {
      // All pools share one size, so it does not grow while flushes of another pool are slow.
      if (nowMs - this.#slowMs >= FLUSH_GROW_MS) this.#shrinkTo(this.#shrink / 2, nowMs)
    } else if (this.isSlow && nowMs - this.#changedMs >= FLUSH_SHRINK_REST_MS)
      this.#startDoubleTrial(pool, ms, nowMs)
  }

  /**
   * Half the rows took about as long. Once may be chance; after the second time the size goes back.
   */
  #doubtHalfTrial(trial: Trial, nowMs: number): void {
    if (trial.doubts === 0) this.#trial = { ...trial, doubts: 1 }
    else {
      this.#restUntilMs = nowMs + FLUSH_SHRINK_REST_MS
      this.#shrinkTo(this.#shrink / 2, nowMs)
    }
  }

  /** Doubles the size again while twice the rows take hardly longer, else puts the size back. */
  #endDoubleTrial({ msBefore, pool }: Trial, ms: number, nowMs: number): void {
    if (ms * FLUSH_SHRINK_GAIN > msBefore) this.#shrinkTo(2 * this.#shrink, nowMs)
    else {
      this.#restUntilMs = nowMs + FLUSH_SHRINK_REST_MS
      if (this.isSlow) this.#startDoubleTrial(pool, ms, nowMs)
    }
  }

  #startDoubleTrial(pool: number, msBefore: number, nowMs: number): void {
    this.#shrinkTo(this.#shrink / 2, nowMs)
    this.#trial = { size: 'double', pool, msBefore, doubts: 0 }
  }

  #shrinkTo(shrink: number, nowMs: number): void {
    if (shrink < 1) return
    this.#trial = undefined
    this.#shrink = shrink
    this.#changedMs = nowMs
    const part = (whole: number) => Math.ceil(whole / shrink)
    const { rows, bytes, entries } = this.#full
    this.#limits = { rows: part(rows), bytes: part(bytes), entries: part(entries) }
  }
}
