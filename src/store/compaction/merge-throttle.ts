/**
 * Two feedback loops that keep merges out of the way of ingest. Both measure, and both act on the
 * next step.
 *
 *   MergeThrottle   merge thread   measures the processor time and bytes of each step of a merge;
 *                                  after the step the merge rests until both are within
 *                                  MERGE_CPU_SHARE and MERGE_BYTES_PER_S. A step of DuckDB takes up
 *                                  to some 500 ms, so the rest is proportional to the step. At full
 *                                  speed there is no rest.
 *   CommitCosts     main thread    measures what one key costs in the pool's last index
 *                                  transactions, its flushes included, because they write the same
 *                                  keys; a merge takes as many rows as one compaction commit moves
 *                                  within COMPACTION_COMMIT_MS_MAX. An expensive transaction counts
 *                                  at once, a cheap one by half. A measured cost decays, because
 *                                  only another merge can tell that keys became cheap.
 *
 *   W-9  A compaction commit is one transaction, and flushes wait for it. Adjacent keys cost less
 *        than a microsecond each; keys scattered over millions cost a disk page each, 50 µs: half a
 *        million of them take 25 s.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'
import { COMPACT_ROWS_MAX, COMPACTION_COMMIT_ROWS_FLOOR } from '../../util/limits.ts'
import type { MergeSpeed } from './compaction-types.ts'

/**
 * Time of a compaction commit beside ingest: flushes wait for it. A merge takes as many rows as the
 * index moves in this time, by the cost of the pool's last transactions.
 */
const COMPACTION_COMMIT_MS_MAX = 1_000
/** Time of a compaction commit while no rows come in. */
const COMPACTION_COMMIT_MS_ALONE_MAX = 10_000
/** Rows of a merge before the pool's first transaction shows the cost of its keys: at most 6 s. */
export const COMPACTION_COMMIT_ROWS_UNKNOWN = 4 * COMPACTION_COMMIT_ROWS_FLOOR
/** Half-life of a measured cost of keys: a pool whose keys were expensive once is merged again. */
export const COMPACTION_COMMIT_COST_MS = 600_000
/** Share of a core that a merge beside ingest takes. */
export const MERGE_CPU_SHARE = 0.3
/** Bytes that a merge beside ingest reads and writes in a second. */
export const MERGE_BYTES_PER_S = 50_000_000
/** Smallest rest of a throttled merge: a timer is no finer. */
const MERGE_REST_MS_MIN = 5
/** Credit that a merge gains from waits for syncs and commits: small merges mostly wait. */
export const MERGE_CREDIT_MS_MAX = 50

// ── the merge thread: processor time and bytes ───────────────────────────────────────────────────

interface ThrottleClock extends Clock {
  /**
   * Processor time of this thread. It is undefined where it cannot be measured; all time between
   * two rests counts as work there.
   */
  readonly cpuMs: (() => number) | undefined
}

export class MergeThrottle {
  readonly #clock: ThrottleClock
  #speed: MergeSpeed
  #isStopped = false
  /** Processor time at the last count. */
  #cpuMs: number
  /** Time at the last count. */
  #nowMs: number
  /** Time of the last turn of the event loop. */
  #turnMs: number
  /** Rest that is due. A value below 0 is credit for the next steps. */
  #owedMs = 0
  #wake: (() => void) | undefined

  constructor(clock: ThrottleClock, speed: MergeSpeed) {
    this.#clock = clock
    this.#speed = speed
    this.#cpuMs = clock.cpuMs?.() ?? 0
    this.#nowMs = clock.nowMs()
    this.#turnMs = this.#nowMs
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Counts from now on, in a running rest too. */
  set(speed: MergeSpeed): void {
    this.#speed = speed
    if (speed === 'full') this.#wake?.()
  }

  /** Every rest, the running one too, rejects with Unavailable (`stopping`). */
  stop(): void {
    this.#isStopped = true
    this.#wake?.()
  }

  /**
   * A merge begins. Work and waiting since the last merge count too: the commit of a small merge
   * takes as long as the rests of that merge.
   */
  begin(): void {
    this.#count(0, false)
  }

  /**
   * Ends a step of work: rests until the step's processor time and the `bytes` that it read or
   * wrote are within the limits. The thread takes its messages meanwhile, at any speed, but not
   * after each of many tiny steps: a turn of the event loop costs more than such a step.
   */
  async rest(bytes = 0): Promise<void> {
    this.#count(bytes)
    if (this.#owedMs >= MERGE_REST_MS_MIN) {
      await this.#sleep(this.#owedMs)
      this.#count(0, false)
      this.#turnMs = this.#nowMs
    } else if (this.#nowMs - this.#turnMs >= MERGE_REST_MS_MIN) {
      await nextTurn()
      this.#turnMs = this.#nowMs
    }
    if (this.#isStopped) throw new Unavailable('stopping', 'Weir is stopping')
  }

  /**
   * Adds the rest that the work since the last count requires, and takes off the time that passed,
   * disk waits included.
   */
  #count(bytes: number, mayBeWork = true): void {
    const nowMs = this.#clock.nowMs()
    const cpuMs = this.#clock.cpuMs?.() ?? this.#cpuMs + (mayBeWork ? nowMs - this.#nowMs : 0)
    const dueMs = Math.max((cpuMs - this.#cpuMs) / MERGE_CPU_SHARE, (1000 * bytes) / MERGE_BYTES_PER_S)
    const owedMs = this.#owedMs + dueMs - (nowMs - this.#nowMs)
    this.#owedMs = this.#speed === 'full' ? 0 : Math.max(owedMs, -MERGE_CREDIT_MS_MAX)
    this.#cpuMs = cpuMs
    this.#nowMs = nowMs
  }

  async #sleep(ms: number): Promise<void> {
    await new Promise<void>(resolve => {
      const cancel = this.#clock.after(ms, resolve)
      this.#wake = () => {
        cancel()
        resolve()
      }
      if (this.#isStopped) this.#wake()
    })
    this.#wake = undefined
  }
}

// ── the main thread: rows of one compaction commit ───────────────────────────────────────────────

interface Cost {
  readonly usPerKey: number
  /** Monotonic time of the transaction. */
  readonly atMs: number
}

export class CommitCosts {
  readonly #nowMs: () => number
  readonly #costs = new Map<number, Cost>()

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** A transaction of the pool took this time for each key. It is 0 for a pool without keys. */
  learn(pool: number, usPerKey: number): void {
    const before = this.#usPerKey(pool) ?? usPerKey
    this.#costs.set(pool, { usPerKey: Math.max(usPerKey, (before + usPerKey) / 2), atMs: this.#nowMs() })
  }

  /** Rows that one merge may move now. */
  rowsMax(pool: number, speed: MergeSpeed): number {
    const usPerKey = this.#usPerKey(pool)
    if (usPerKey === undefined) return COMPACTION_COMMIT_ROWS_UNKNOWN
    const commitMs = speed === 'full' ? COMPACTION_COMMIT_MS_ALONE_MAX : COMPACTION_COMMIT_MS_MAX
    const rows = (1000 * commitMs) / usPerKey
    return Math.floor(Math.min(COMPACT_ROWS_MAX, Math.max(COMPACTION_COMMIT_ROWS_FLOOR, rows)))
  }

  /** Pools whose merges may move more rows at full speed than beside ingest. */
  get limitedPools(): number[] {
    return [...this.#costs.keys()].filter(
      pool => this.rowsMax(pool, 'throttled') < this.rowsMax(pool, 'full'),
    )
  }

  drop(pool: number): void {
    this.#costs.delete(pool)
  }

  #usPerKey(pool: number): number | undefined {
    const cost = this.#costs.get(pool)
    return cost && cost.usPerKey * 0.5 ** ((this.#nowMs() - cost.atMs) / COMPACTION_COMMIT_COST_MS)
  }
}
