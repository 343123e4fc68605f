/**
 * How many rows one merge may move, by what moving keys costs in that pool.
 *
 *   W-9  A swap is one transaction, and seals wait for it. Keys that stand side by side cost it less than a microsecond each; each of
 *        those strewn over millions costs a page of the disk, 50 µs: half a million of them are 25 s.
 *
 * So a merge moves as many rows as take SWAP_MS_MAX by the last transactions of the pool: its seals wrote the same keys.
 * A cost fades: what was dear once may be cheap by now, and only a merge tells.
 */
import {
  COMPACT_ROWS_MAX,
  SWAP_COST_MS,
  SWAP_MS_ALONE_MAX,
  SWAP_MS_MAX,
  SWAP_ROWS_FLOOR,
  SWAP_ROWS_UNKNOWN,
} from '../limits.ts'
import type { Pace } from './protocol.ts'

interface Cost {
  readonly usPerKey: number
  /** Monotonic. */
  readonly atMs: number
}

export class SwapCosts {
  readonly #nowMs: () => number
  readonly #costs = new Map<number, Cost>()

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /**
   * A transaction of the pool took so much for each of its keys; 0: the pool has no keys. It counts at once when it was dear,
   * by half when it was cheap.
   */
  learn(pool: number, usPerKey: number): void {
    const before = this.#usPerKey(pool) ?? usPerKey
    this.#costs.set(pool, { usPerKey: Math.max(usPerKey, (before + usPerKey) / 2), atMs: this.#nowMs() })
  }

  /** Rows that one merge may move now. */
  rowsMax(pool: number, pace: Pace): number {
    const usPerKey = this.#usPerKey(pool)
    if (usPerKey === undefined) return SWAP_ROWS_UNKNOWN
    const rows = (1000 * (pace === 'alone' ? SWAP_MS_ALONE_MAX : SWAP_MS_MAX)) / usPerKey
    return Math.floor(Math.min(COMPACT_ROWS_MAX, Math.max(SWAP_ROWS_FLOOR, rows)))
  }

  /** Pools whose merges may move more rows alone than beside ingest. */
  get dear(): number[] {
    return [...this.#costs.keys()].filter(pool => this.rowsMax(pool, 'beside') < this.rowsMax(pool, 'alone'))
  }

  drop(pool: number): void {
    this.#costs.delete(pool)
  }

  #usPerKey(pool: number): number | undefined {
    const cost = this.#costs.get(pool)
    return cost && cost.usPerKey * 0.5 ** ((this.#nowMs() - cost.atMs) / SWAP_COST_MS)
  }
}
