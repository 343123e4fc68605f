/** Time, in the two kinds that Weir keeps apart. */

/** Wall clock, UTC, whole milliseconds: only for what people read (received-at, creation dates). */
export function wallMs(): number {
  return Date.now()
}

/** Monotonic milliseconds: for time-outs, ages, rates and durations. */
export function monotonicMs(): number {
  return performance.now()
}
