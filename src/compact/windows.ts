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
import { COMPACT_BYTES_MAX, COMPACT_FAN_IN, COMPACT_INPUTS_MAX, COMPACT_RUN_MAX } from '../limits.ts'

/** From this weight on a segment is not merged for its size: two of them may not fit in one merge. */
export const FULL = 0.5

/** What a merge reads of a segment, and what it would weigh afterwards. */
export interface Weighed {
  readonly of: { readonly bytes: number }
  /** Rows and deletes. */
  readonly rows: number
  readonly weight: number
}

/** Adds up what one merge reads, `rowsMax` rows at most. One segment always fits, whatever its size. */
export class Load {
  readonly #rowsMax: number
  rows = 0
  bytes = 0
  count = 0

  constructor(rowsMax: number) {
    this.#rowsMax = rowsMax
  }

  fits({ rows, of }: Weighed): boolean {
    if (this.count === 0) return true
    return (
      this.count < COMPACT_INPUTS_MAX &&
      this.rows + rows <= this.#rowsMax &&
      this.bytes + of.bytes <= COMPACT_BYTES_MAX
    )
  }

  add({ rows, of }: Weighed): void {
    this.rows += rows
    this.bytes += of.bytes
    this.count += 1
  }
}

interface Window {
  /** Places in its part: [from, to). */
  readonly from: number
  readonly to: number
  /** Weight that is written for each segment that it saves. */
  readonly cost: number
}

/** Of windows of one kind: the cheapest, the first of equal ones, and where the longest from each place ends (0: there is none). */
class Best implements Window {
  from = 0
  to = 0
  cost = Number.POSITIVE_INFINITY
  readonly ends: Uint32Array

  constructor(places: number) {
    this.ends = new Uint32Array(places)
  }

  /** Sets 1 at each place that a window covers. */
  cover(places: Uint8Array): void {
    let covered = 0
    for (let from = 0; from < this.ends.length; from++) {
      const to = this.ends[from] as number
      if (to <= covered) continue
      places.fill(1, Math.max(from, covered), to)
      covered = to
    }
  }
}

/**
 * The cheapest window of a stretch that is worth a merge; where there is none and the stretch is crowded, the cheapest of all.
 * @param rowsMax rows that one merge may read
 * @param covered gets 1 at each place that such a window covers
 */
export function findWindow(
  part: readonly Weighed[],
  rowsMax: number,
  covered: Uint8Array,
): Window | undefined {
  const weights = new Float64Array(part.length)
  // NOTE: a loop; Float64Array.from with a function takes ten times as long.
  for (let at = 0; at < part.length; at++) weights[at] = (part[at] as Weighed).weight
  const worthy = new Best(part.length)
  const fitting = new Best(part.length)
  let [end, rows, bytes] = [0, 0, 0]
  for (let from = 0; from < part.length - 1; from++) {
    // The longest window that fits in a merge: where it begins later, it does not end sooner.
    for (; end < part.length && end - from < COMPACT_INPUTS_MAX; end++) {
      const { rows: more, of } = part[end] as Weighed
      if (end > from && (rows + more > rowsMax || bytes + of.bytes > COMPACT_BYTES_MAX)) break
      rows += more
      bytes += of.bytes
    }
    windowsFrom(from, end, weights, worthy, fitting)
    rows -= (part[from] as Weighed).rows
    bytes -= (part[from] as Weighed).of.bytes
  }
  const best = worthy.to > 0 || part.length <= COMPACT_RUN_MAX ? worthy : fitting
  if (best.to === 0) return undefined
  best.cover(covered)
  return best
}

/** All windows that begin at `from` and end at `end` or before. Numbers in locals: this is what a look costs. */
function windowsFrom(from: number, end: number, weights: Float64Array, worthy: Best, fitting: Best): void {
  let weight = weights[from] as number
  let heaviest = weight
  // NOTE: one by one; destructuring an array here makes a look take three times as long.
  let worthyTo = 0
  let worthyEnd = 0
  let worthyCost = worthy.cost
  let fittingTo = 0
  let fittingEnd = 0
  let fittingCost = fitting.cost
  for (let at = from + 1; at < end; at++) {
    const one = weights[at] as number
    weight += one
    if (one > heaviest) heaviest = one
    const cost = weight / (at - from)
    if ((at - from >= COMPACT_FAN_IN - 1 && heaviest <= weight / 2) || weight >= FULL) {
      worthyEnd = at + 1
      if (cost < worthyCost) {
        worthyCost = cost
        worthyTo = at + 1
      }
    } else {
      fittingEnd = at + 1
      if (cost < fittingCost) {
        fittingCost = cost
        fittingTo = at + 1
      }
    }
  }
  take(worthy, from, worthyTo, worthyEnd, worthyCost)
  take(fitting, from, fittingTo, fittingEnd, fittingCost)
}

function take(best: Best, from: number, to: number, end: number, cost: number): void {
  best.ends[from] = end
  if (to === 0) return
  best.from = from
  best.to = to
  best.cost = cost
}
