/**
 * Batches of small segments, kept in memory after their seal, so that the pool's next seal can write their rows
 * again together with its own and replace them: polling does not breed files.
 *
 * Per pool a stack of the newest segments without a gap. Only its top may be taken: a newer segment left out could
 * hold the update or delete of a row that would come back (W-7). Segments are taken while each is at most twice
 * what was taken before it, so a row is written again O(log n) times, as in a binary counter.
 */
import { KEPT_BYTES_MAX, KEPT_ENTRIES_MAX, KEPT_ROWS_MAX } from '../limits.ts'
import { assert } from '../util/assert.ts'
import type { TailEntry } from './protocol.ts'

export interface KeptSegment {
  readonly segment: number
  readonly planVersion: number
  readonly rows: number
  readonly bytes: number
  readonly first: number
  readonly last: number
  entries: TailEntry[]
}

/** The kept segments of all pools. */
export class Kept {
  readonly #rowsMax: number
  readonly #bytesMax: number
  readonly #stacks = new Map<number, KeptSegment[]>()
  /** In the order in which they came, over all pools: the first is evicted first. */
  readonly #pools = new Map<KeptSegment, number>()
  readonly #onForgotten: (entries: readonly TailEntry[]) => void
  #bytes = 0

  /** @param onForgotten gets entries that nobody will write again: their memory may be used for others */
  constructor(
    rowsMax = KEPT_ROWS_MAX,
    bytesMax = KEPT_BYTES_MAX,
    onForgotten: (entries: readonly TailEntry[]) => void = () => {},
  ) {
    this.#onForgotten = onForgotten
    this.#rowsMax = rowsMax
    this.#bytesMax = bytesMax
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Puts a pool's newest segment on its stack; one that is not small ends the stack instead. */
  push(pool: number, segment: KeptSegment): void {
    const { rows, bytes, entries } = segment
    if (rows > this.#rowsMax || bytes > this.#bytesMax || entries.length > KEPT_ENTRIES_MAX) {
      this.drop(pool)
      this.#onForgotten(entries)
      return
    }
    const stack = this.#stacks.get(pool) ?? []
    this.#stacks.set(pool, stack)
    stack.push(segment)
    this.#pools.set(segment, pool)
    this.#bytes += segment.bytes
    this.#evict()
  }

  /** Takes what a seal of `rows` rows in `entries` batches writes again, oldest first; may be nothing. */
  take(pool: number, planVersion: number, rows: number, entries: number): KeptSegment[] {
    const stack = this.#stacks.get(pool) ?? []
    let from = stack.length
    let [sum, count] = [rows, entries]
    for (; from > 0; from--) {
      const next = stack[from - 1]!
      count += next.entries.length
      if (next.planVersion !== planVersion || next.rows > 2 * sum) break
      sum += next.rows
      if (sum > this.#rowsMax || count > KEPT_ENTRIES_MAX) break
    }
    return this.#remove(pool, from, stack.length)
  }

  /** Puts back what a failed seal had taken. */
  putBack(pool: number, segments: readonly KeptSegment[]): void {
    for (const segment of segments) this.push(pool, segment)
  }

  /** Forgets all kept batches of a pool: it was deleted, or others rewrite its segments. */
  drop(pool: number): void {
    this.#forget(pool, this.#stacks.get(pool)?.length ?? 0)
  }

  /** Numbers of the pool's kept segments. */
  segments(pool: number): number[] {
    return (this.#stacks.get(pool) ?? []).map(kept => kept.segment)
  }

  /** Removes the bottom of a stack for good. */
  #forget(pool: number, to: number): void {
    for (const segment of this.#remove(pool, 0, to)) this.#onForgotten(segment.entries)
  }

  #remove(pool: number, from: number, to: number): KeptSegment[] {
    const stack = this.#stacks.get(pool)
    if (stack === undefined || from >= to) return []
    const removed = stack.splice(from, to - from)
    for (const segment of removed) {
      this.#pools.delete(segment)
      this.#bytes -= segment.bytes
    }
    if (stack.length === 0) this.#stacks.delete(pool)
    assert(this.#bytes >= 0, 'kept bytes are counted')
    return removed
  }

  /** The oldest goes, with all below it in its stack, so that the rest still has no gap. */
  #evict(): void {
    for (const [segment, pool] of this.#pools) {
      if (this.#bytes <= this.#bytesMax) return
      const index = this.#stacks.get(pool)?.indexOf(segment) ?? -1
      if (index >= 0) this.#forget(pool, index + 1)
    }
  }
}
