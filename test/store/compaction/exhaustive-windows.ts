/**
 * The search for small windows in its plain form: every window is an object, and the cheapest of
 * all is picked. `findWindow`, which creates no objects, must find the same.
 */
import { type Candidate, MergeBudget } from '../../../src/store/compaction/pick-compaction.ts'
import { COMPACT_FAN_IN, COMPACT_ROWS_MAX, COMPACT_RUN_MAX } from '../../../src/util/limits.ts'

interface Window {
  readonly from: number
  readonly to: number
  readonly cost: number
}

const FULL_WEIGHT = 0.5

/** Finds the cheapest window (the first of equal ones), and all places that a window covers. */
export function exhaustive(part: readonly Candidate[]) {
  const windows = windowsOf(part)
  let best: Window | undefined
  const covered = new Set<number>()
  for (const window of windows) {
    if (best === undefined || window.cost < best.cost) best = window
    for (let at = window.from; at < window.to; at++) covered.add(at)
  }
  return { best, covered }
}

/**
 * All windows that are worth a merge; where there are none and the part is too long, all that fit
 * in a merge.
 */
function windowsOf(part: readonly Candidate[]): Window[] {
  const worth: Window[] = []
  const others: Window[] = []
  for (let from = 0; from < part.length - 1; from++) {
    const budget = new MergeBudget(COMPACT_ROWS_MAX)
    let [weight, heaviest] = [0, 0]
    for (let to = from + 1; to <= part.length; to++) {
      const one = part[to - 1] as Candidate
      if (!budget.fits(one)) break
      budget.add(one)
      weight += one.weight
      heaviest = Math.max(heaviest, one.weight)
      if (budget.count < 2) continue
      const window = { from, to, cost: weight / (budget.count - 1) }
      const grows = budget.count >= COMPACT_FAN_IN && heaviest <= weight / 2
      if (grows || weight >= FULL_WEIGHT) worth.push(window)
      else if (part.length > COMPACT_RUN_MAX) others.push(window)
    }
  }
  return worth.length > 0 ? worth : others
}
