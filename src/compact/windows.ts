/**
 * Windows of small segments side by side: which are worth a merge, and which is the cheapest. Pure.
 *
 * A window is worth a merge where no row's segment grows by less than twice (so a row is written again about log n
 * times), or where the result is full and never merged for its size again. Sizes for which that never holds (each segment
 * larger than the next ones together) are at most log n in number when segments come as seals make them; whatever they
 * are, COMPACT_RUN_MAX bounds them.
 *
 *   W-11  A pool may have thousands of small segments, and its look is on the main thread: windows begin at each of them and
 *         hold at most COMPACT_INPUTS_MAX, so the walk is linear. It makes no object per window: numbers alone.
 */
import {
  COMPACT_BYTES_MAX,
  COMPACT_FAN_IN,
  COMPACT_INPUTS_MAX,
  COMPACT_ROWS_MAX,
  COMPACT_RUN_MAX,
} from '../limits.ts'

/** From this weight on a segment is not merged for its size: two of them may not fit in one merge. */
export const FULL = 0.5

/** What a merge reads of a segment, and what it would weigh afterwards. */
export interface Weighed {
  readonly of: { readonly bytes: number }
  /** Rows and deletes. */
  readonly rows: number
  readonly weight: number
}

/** Adds up what one merge reads. One segment always fits, whatever its size. */
export class Load {
  rows = 0
  bytes = 0
  count = 0

  fits({ rows, of }: Weighed): boolean {
    if (this.count === 0) return true
    return (
      this.count < COMPACT_INPUTS_MAX &&
      this.rows + rows <= COMPACT_ROWS_MAX &&
      this.bytes + of.bytes <= COMPACT_BYTES_MAX
    )
  }

  add({ rows, of }: Weighed): void {
    this.rows += rows
    this.bytes += of.bytes
    this.count += 1
  }
}

export interface Window {
  /** Places in its part: [from, to). */
  readonly from: number
  readonly to: number
  /** Weight that is written for each segment that it saves. */
  readonly cost: number
}

/** The cheapest of some windows, the first of equal ones, and the places that any of them covers. */
class Windows {
  from = 0
  to = 0
  cost = Number.POSITIVE_INFINITY
  /** By the place where windows begin: the end of the longest, 0 where there is none. */
  readonly #ends: Uint32Array

  constructor(places: number) {
    this.#ends = new Uint32Array(places)
  }

  get isEmpty(): boolean {
    return this.to === 0
  }

  /** Windows come by rising `from`, then rising `to`. */
  take(from: number, to: number, cost: number): void {
    this.#ends[from] = to
    if (cost >= this.cost) return
    this.from = from
    this.to = to
    this.cost = cost
  }

  /** Sets 1 where a window covers the place. */
  cover(places: Uint8Array): void {
    let covered = 0
    for (const [from, to] of this.#ends.entries()) {
      if (to <= covered) continue
      places.fill(1, Math.max(from, covered), to)
      covered = to
    }
  }
}

/**
 * The cheapest window of a stretch that is worth a merge; where there is none and the stretch is crowded, the cheapest of all.
 * @param covered gets 1 at each place that such a window covers
 */
export function findWindow(part: readonly Weighed[], covered: Uint8Array): Window | undefined {
  const rows = Float64Array.from(part, one => one.rows)
  const bytes = Float64Array.from(part, one => one.of.bytes)
  const weights = Float64Array.from(part, one => one.weight)
  const worthy = new Windows(part.length)
  const fitting = new Windows(part.length)
  const isCrowded = part.length > COMPACT_RUN_MAX
  for (let from = 0; from < part.length - 1; from++) {
    const end = Math.min(part.length, from + COMPACT_INPUTS_MAX)
    let rowsIn = rows[from] as number
    let bytesIn = bytes[from] as number
    let weight = weights[from] as number
    let heaviest = weight
    for (let at = from + 1; at < end; at++) {
      rowsIn += rows[at] as number
      bytesIn += bytes[at] as number
      if (rowsIn > COMPACT_ROWS_MAX || bytesIn > COMPACT_BYTES_MAX) break
      const one = weights[at] as number
      weight += one
      if (one > heaviest) heaviest = one
      const count = at + 1 - from
      const grows = count >= COMPACT_FAN_IN && heaviest <= weight / 2
      if (grows || weight >= FULL) worthy.take(from, at + 1, weight / (count - 1))
      else if (isCrowded) fitting.take(from, at + 1, weight / (count - 1))
    }
  }
  const windows = worthy.isEmpty ? fitting : worthy
  if (windows.isEmpty) return undefined
  windows.cover(covered)
  return windows
}
