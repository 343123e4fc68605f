/** The key of the interval of time that holds an instant: how an engine computes it. */

/** A function of time that changes at instants: its value from one of them on. */
export interface Step {
  /** Milliseconds since 1970; -Infinity for the first step. */
  readonly fromMs: number
  readonly value: number
}

const DAY_MS = 86_400_000
export type CalendarUnit = number | 'month' | 'year'

/**
 * A Monday more than a day before 0001-01-01, the first instant of a TIMESTAMP. All units but
 * months and years are counted from it, so that no division has a negative operand.
 */
export const ORIGIN_MS = -62_135_596_800_000 - 52 * 7 * DAY_MS

/** How an engine computes the key of an instant. All steps are over instants. */
export type KeyRule =
  | {
      /** max(ms - ((ms + offset - ORIGIN_MS) mod unitMs), floor) */
      readonly form: 'exact'
      readonly unitMs: number
      readonly offsets: readonly Step[]
      readonly floors: readonly Step[]
    }
  | {
      /** The begin of the unit in which max(ms + offset, floor) is. */
      readonly form: 'calendar'
      readonly unit: CalendarUnit
      readonly offsets: readonly Step[]
      readonly floors: readonly Step[]
    }
  /** The keys themselves. */
  | { readonly form: 'listed'; readonly keys: readonly Step[] }
