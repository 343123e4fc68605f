/**
 * Retention: what is too old, and when to look.
 *
 * A pool that keeps N days keeps today (UTC) and the N days before it. What is older goes at the next pass: at start, at
 * each full hour (midnight is one: a day's rows go when it ends; the other hours are for late events), and right after
 * the days were changed, with what was acknowledged by then.
 */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Rows whose primary timestamp is below go, µs; undefined where `days` is 0, which keeps for ever. */
export function cutoffUs(days: number, wallMs: number): number | undefined {
  if (days === 0) return undefined
  return (Math.floor(wallMs / DAY_MS) - days) * DAY_MS * 1000
}

/** Says once in each hour of the wall clock that a pass is due; at the first question too. */
export class RetentionHours {
  #hour: number | undefined

  /** Is a pass due? The clock may stand still, jump, or go back. */
  isDue(wallMs: number): boolean {
    const hour = Math.floor(wallMs / HOUR_MS)
    if (hour === this.#hour) return false
    this.#hour = hour
    return true
  }
}
