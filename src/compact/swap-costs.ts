/**
 * How many rows one merge may move, by what moving keys costs in that pool.
 *
 *   W-9  A swap is one transaction, and seals wait for it. Keys that stand side by side cost it less than a microsecond each; each of
 *        those strewn over millions costs a page of the disk, 50 µs: half a million of them are 25 s.
 *
 * So a merge moves as many rows as take SWAP_MS_MAX by the last transactions of the pool: its seals wrote the same keys.
 */
import { COMPACT_ROWS_MAX, SWAP_MS_ALONE_MAX, SWAP_MS_MAX, SWAP_ROWS_FLOOR } from '../limits.ts'
import type { Pace } from './protocol.ts'

export class SwapCosts {
  readonly #usPerKey = new Map<number, number>()

  /** A transaction of the pool took so much for each of its keys. It counts at once when it was dear, by half when it was cheap. */
  learn(pool: number, usPerKey: number): void {
    const before = this.#usPerKey.get(pool) ?? 0
    this.#usPerKey.set(pool, Math.max(usPerKey, (before + usPerKey) / 2))
  }

  /** Rows that one merge may move now. */
  rowsMax(pool: number, pace: Pace): number {
    const usPerKey = this.#usPerKey.get(pool)
    if (usPerKey === undefined) return COMPACT_ROWS_MAX
    const rows = (1000 * (pace === 'alone' ? SWAP_MS_ALONE_MAX : SWAP_MS_MAX)) / usPerKey
    return Math.floor(Math.min(COMPACT_ROWS_MAX, Math.max(SWAP_ROWS_FLOOR, rows)))
  }

  /** Pools whose merges may move more rows alone than beside ingest. */
  get dear(): number[] {
    return [...this.#usPerKey.keys()].filter(
      pool => this.rowsMax(pool, 'beside') < this.rowsMax(pool, 'alone'),
    )
  }

  drop(pool: number): void {
    this.#usPerKey.delete(pool)
  }
}
