/**
 * Recent flushes: batches of small segments that stay in memory after their flush. The pool's next
 * flush writes their rows again together with its own and replaces these segments, so frequent
 * readers do not make many small files.
 *
 * Each pool has a stack of its newest segments without a gap. A flush takes them from the top only:
 * a newer segment left out could hold the update or delete of a row that would come back (W-7). A
 * flush takes the next segment while that has at most twice the rows taken so far, so a row is
 * written again O(log n) times, as in a binary counter.
 */

import { assert } from '../../util/errors.ts'
import { RECENT_FLUSH_BYTES_MAX, RECENT_FLUSH_ROWS_MAX } from '../../util/limits.ts'
import type { MemtableEntry } from './memtable.ts'

/** Batches of a small segment that the pool's next flush may write again, and of both together. */
export const RECENT_FLUSH_ENTRIES_MAX = 2_048

/** One small segment whose batches are still in memory. */
export interface RecentFlush {
  readonly segment: number
  readonly schemaVersion: number
  readonly rows: number
  readonly bytes: number
  readonly first: number
  readonly last: number
  readonly entries: readonly MemtableEntry[]
}

export class RecentFlushes {
  readonly #rowsMax: number
  readonly #bytesMax: number
  readonly #stacks = new Map<number, RecentFlush[]>()
  /** The pool of each flush, in the order in which they came. The first one is evicted first. */
  readonly #pools = new Map<RecentFlush, number>()
  readonly #onFreed: (entries: readonly MemtableEntry[]) => void
  #bytes = 0

  /** @param onFreed gets entries that no flush will write again: their memory may be reused */
  constructor(
    onFreed: (entries: readonly MemtableEntry[]) => void = () => {},
    rowsMax = RECENT_FLUSH_ROWS_MAX,
    bytesMax = RECENT_FLUSH_BYTES_MAX,
  ) {
    this.#onFreed = onFreed
    this.#rowsMax = rowsMax
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Puts a pool's newest segment on its stack. A segment that is not small empties the stack
   * instead.
   */
  push(pool: number, flush: RecentFlush): void {
    const { rows, bytes, entries } = flush
    if (rows > this.#rowsMax || bytes > this.#bytesMax || entries.length > RECENT_FLUSH_ENTRIES_MAX) {
      this.drop(pool)
      this.#onFreed(entries)
      return
    }
    const stack = this.#stacks.get(pool) ?? []
    this.#stacks.set(pool, stack)
    stack.push(flush)
    this.#pools.set(flush, pool)
    this.#bytes += flush.bytes
    this.#evict()
  }

  /**
   * Takes the segments that a flush of `rows` rows in `entries` batches writes again, oldest first.
   * There may be none.
   */
  take(pool: number, schemaVersion: number, rows: number, entries: number): RecentFlush[] {
    const stack = this.#stacks.get(pool) ?? []
    let from = stack.length
    let [sum, count] = [rows, entries]
    for (; from > 0; from--) {
      const next = stack[from - 1]!
      count += next.entries.length
      if (next.schemaVersion !== schemaVersion || next.rows > 2 * sum) break
      sum += next.rows
      if (sum > this.#rowsMax || count > RECENT_FLUSH_ENTRIES_MAX) break
    }
    return this.#remove(pool, from, stack.length)
  }

  /** Puts back what a failed flush had taken. */
  putBack(pool: number, flushes: readonly RecentFlush[]): void {
    for (const flush of flushes) this.push(pool, flush)
  }

  /** Frees all batches of a pool: it was deleted, or compaction rewrites its segments. */
  drop(pool: number): void {
    this.#free(pool, this.#stacks.get(pool)?.length ?? 0)
  }

  /** Numbers of the pool's segments on the stack. */
  segments(pool: number): number[] {
    return (this.#stacks.get(pool) ?? []).map(flush => flush.segment)
  }

  /** Removes the bottom of a stack for good. */
  #free(pool: number, to: number): void {
    for (const flush of this.#remove(pool, 0, to)) this.#onFreed(flush.entries)
  }

  #remove(pool: number, from: number, to: number): RecentFlush[] {
    const stack = this.#stacks.get(pool)
    if (stack === undefined || from >= to) return []
    const removed = stack.splice(from, to - from)
    for (const flush of removed) {
      this.#pools.delete(flush)
      this.#bytes -= flush.bytes
    }
    if (stack.length === 0) this.#stacks.delete(pool)
    assert(this.#bytes >= 0, 'bytes of recent flushes are counted')
    return removed
  }

  /** Evicts the oldest flush with all below it in its stack, so that the rest still has no gap. */
  #evict(): void {
    for (const [flush, pool] of this.#pools) {
      if (this.#bytes <= this.#bytesMax) return
      const index = this.#stacks.get(pool)?.indexOf(flush) ?? -1
      if (index >= 0) this.#free(pool, index + 1)
    }
  }
}
