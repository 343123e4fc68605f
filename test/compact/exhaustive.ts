/**
 * The search for small windows as it was first written: every window an object, the cheapest looked for among all of them.
 * What windows.ts finds without making them must be the same.
 */
import { Load, type Weighed } from '../../src/compact/windows.ts'
import { COMPACT_FAN_IN, COMPACT_ROWS_MAX, COMPACT_RUN_MAX } from '../../src/limits.ts'

interface Window {
  readonly from: number
  readonly to: number
  readonly cost: number
}

const FULL = 0.5

/** The cheapest window of a stretch, the first of equal ones, and the places that any window covers. */
export function exhaustive(part: readonly Weighed[]) {
  const windows = windowsOf(part)
  let best: Window | undefined
  const covered = new Set<number>()
  for (const window of windows) {
    if (best === undefined || window.cost < best.cost) best = window
    for (let at = window.from; at < window.to; at++) covered.add(at)
  }
  return { best, covered }
}

/** All windows that are worth a merge; where there are none and the part is crowded, all that fit. */
function windowsOf(part: readonly Weighed[]): Window[] {
  const worthy: Window[] = []
  const fitting: Window[] = []
  for (let from = 0; from < part.length - 1; from++) {
    const load = new Load(COMPACT_ROWS_MAX)
    let [weight, heaviest] = [0, 0]
    for (let to = from + 1; to <= part.length; to++) {
      const one = part[to - 1] as Weighed
      if (!load.fits(one)) break
      load.add(one)
      weight += one.weight
      heaviest = Math.max(heaviest, one.weight)
      if (load.count < 2) continue
      const window = { from, to, cost: weight / (load.count - 1) }
      const grows = load.count >= COMPACT_FAN_IN && heaviest <= weight / 2
      if (grows || weight >= FULL) worthy.push(window)
      else if (part.length > COMPACT_RUN_MAX) fitting.push(window)
    }
  }
  return worthy.length > 0 ? worthy : fitting
}
