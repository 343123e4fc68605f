/**
 * The intervals of a time series: where each begins, and how an engine finds the one of a row.
 *
 * An interval reaches from its begin to the begin of the next one. Each has a key in milliseconds,
 * which the engine computes with integers:
 *
 *   MINUTE … HOUR   exact time: the key is the first instant of the interval. They begin where the
 *                   zone's clock shows a whole unit, and where the clock changes in between. The
 *                   hour that comes twice in autumn is two intervals.
 *   DAY … YEAR      the calendar: the key is the midnight that the clock shows at the begin, as
 *                   a clock in UTC would show it. The first instant of a date is where its midnight
 *                   does not exist, or comes twice. A date that a zone skipped has no interval.
 */
import { must } from '../../util/errors.ts'
import { TIME_SERIES_INTERVALS_MAX, TIME_SERIES_LISTED_MAX } from '../../util/limits.ts'
import { type CalendarUnit, type KeyRule, ORIGIN_MS, type Step } from '../expression/time-key.ts'
import { stepAt, stepsBetween, valueAt, withoutRepeats, type ZoneClock } from './time-zone.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const EXACT_MS = {
  MINUTE: MINUTE_MS,
  FIVE_MINUTES: 5 * MINUTE_MS,
  TEN_MINUTES: 10 * MINUTE_MS,
  FIFTEEN_MINUTES: 15 * MINUTE_MS,
  HOUR: 60 * MINUTE_MS,
} as const
const CALENDAR = { DAY: DAY_MS, WEEK: 7 * DAY_MS, MONTH: 'month', YEAR: 'year' } as const
export type Granularity = keyof typeof EXACT_MS | keyof typeof CALENDAR

export interface Interval {
  readonly key: number
  /** Its first instant, in milliseconds since 1970. */
  readonly fromMs: number
}

export class Intervals {
  readonly #clock: ZoneClock
  readonly #unit: { readonly exactMs: number } | { readonly calendar: CalendarUnit }
  /** What is added to an instant before it is cut to the unit. */
  readonly #offsets: readonly Step[]
  /** The least key, or of the calendar the least reading, from an instant on. */
  readonly #floors: readonly Step[]

  constructor(granularity: Granularity, clock: ZoneClock) {
    this.#clock = clock
    if (granularity in EXACT_MS) {
      const exactMs = EXACT_MS[granularity as keyof typeof EXACT_MS]
      this.#unit = { exactMs }
      this.#offsets = withoutRepeats(
        clock.offsets.map(step => ({ ...step, value: mod(step.value, exactMs) })),
      )
      this.#floors = changesInside(clock.offsets, exactMs)
    } else {
      this.#unit = { calendar: CALENDAR[granularity as keyof typeof CALENDAR] }
      this.#offsets = withoutRepeats(clock.offsets)
      this.#floors = datesThatReturn(this.#offsets)
    }
  }

  /** The key of the interval that holds an instant. */
  keyOf(ms: number): number {
    const [offset, floor] = [valueAt(this.#offsets, ms), valueAt(this.#floors, ms)]
    if ('exactMs' in this.#unit) return Math.max(ms - mod(ms + offset - ORIGIN_MS, this.#unit.exactMs), floor)
    return begin(this.#unit.calendar, Math.max(ms + offset, floor))
  }

  /** The intervals of two keys and between them. Undefined: beyond TIME_SERIES_INTERVALS_MAX. */
  between(firstKey: number, lastKey: number): readonly Interval[] | undefined {
    const found: Interval[] = []
    for (let key = firstKey; key <= lastKey; key = this.#next(key)) {
      const fromMs = this.#firstInstant(key)
      // No instant lies between two midnights that are one instant.
      if (found.at(-1)?.fromMs === fromMs) found.pop()
      if (found.length >= TIME_SERIES_INTERVALS_MAX) return undefined
      found.push({ key, fromMs })
    }
    return found
  }

  /**
   * The rule for instants in [fromMs, toMs).
   * @param intervals those of the range, where both of its ends are known
   */
  rule(fromMs: number, toMs: number, intervals: readonly Interval[] | undefined): KeyRule {
    const offsets = stepsBetween(this.#offsets, fromMs, toMs)
    const floors = floorsBetween(this.#floors, fromMs, toMs)
    if ('exactMs' in this.#unit) return { form: 'exact', unitMs: this.#unit.exactMs, offsets, floors }
    const unit = this.#unit.calendar
    if (typeof unit === 'string' && isListed(intervals)) {
      const keys = intervals.map(({ key, fromMs: begins }) => ({ fromMs: begins, value: key }))
      return { form: 'listed', keys: stepsBetween(keys, fromMs, toMs) }
    }
    return { form: 'calendar', unit, offsets, floors }
  }

  /**
   * The rule for days of which the first instants are in [fromMs, toMs). A day is the instant that
   * its midnight would be in UTC, and all steps are over such instants.
   */
  ruleOfDates(fromMs: number, toMs: number, intervals: readonly Interval[] | undefined): KeyRule {
    const [from, to] = [fromMs - 2 * DAY_MS, toMs + 2 * DAY_MS]
    const { offsets } = this.#clock
    if ('exactMs' in this.#unit) {
      const begins = firstInstants(offsets)
      const floors = floorsBetween(begins.floors, from, to)
      // The first instant of a day is a key.
      return { form: 'calendar', unit: 1, offsets: stepsBetween(begins.offsets, from, to), floors }
    }
    const unit = this.#unit.calendar
    const floors = floorsBetween(skippedDates(offsets), from, to)
    if (typeof unit === 'string' && isListed(intervals)) {
      const first = (key: number) => floors.find(({ value }) => value === key)?.fromMs ?? key
      const keys = intervals.map(({ key }) => ({ fromMs: first(key), value: key }))
      return { form: 'listed', keys: stepsBetween(keys, from, to) }
    }
    return { form: 'calendar', unit, offsets: [{ fromMs: -Infinity, value: 0 }], floors }
  }

  #next(key: number): number {
    if ('calendar' in this.#unit) return nextBegin(this.#unit.calendar, key)
    const { exactMs } = this.#unit
    const whole = key - mod(key + valueAt(this.#offsets, key) - ORIGIN_MS, exactMs) + exactMs
    return Math.min(whole, nextChange(this.#offsets, key), nextChange(this.#floors, key))
  }

  /** The first instant at which the clock shows the midnight `key` or a later time. */
  #firstInstant(key: number): number {
    if ('exactMs' in this.#unit) return key
    // No offset is longer than a day.
    for (let i = stepAt(this.#offsets, key - DAY_MS); ; i++) {
      const { fromMs, value } = must(this.#offsets[i], 'an offset')
      const ms = Math.max(fromMs, key - value)
      if (ms < (this.#offsets[i + 1]?.fromMs ?? Infinity)) return ms
    }
  }
}

/** Cutting a date to its month takes an engine ten times as long as some comparisons. */
function isListed(intervals: readonly Interval[] | undefined): intervals is readonly Interval[] {
  return intervals !== undefined && intervals.length > 0 && intervals.length <= TIME_SERIES_LISTED_MAX
}

function floorsBetween(floors: readonly Step[], fromMs: number, toMs: number): readonly Step[] {
  // A floor long before the range has no effect in it.
  const old = fromMs - 2 * DAY_MS
  return withoutRepeats(
    stepsBetween(floors, fromMs, toMs).map(step => (step.value < old ? { ...step, value: ORIGIN_MS } : step)),
  )
}

/** How a midnight as in UTC becomes the first instant of the date on the clock. */
function firstInstants([first, ...changes]: readonly Step[]) {
  const offsets = [{ fromMs: -Infinity, value: -must(first, 'an offset').value }]
  const floors = [{ fromMs: -Infinity, value: ORIGIN_MS }]
  for (const { fromMs, value } of changes) {
    const shown = fromMs - must(offsets.at(-1), 'an offset').value
    offsets.push({ fromMs: shown, value: -value })
    floors.push({ fromMs: shown, value: fromMs })
  }
  return { offsets, floors }
}

/** A date that a zone skipped counts as the next one. */
function skippedDates(offsets: readonly Step[]): readonly Step[] {
  const floors: Step[] = [{ fromMs: -Infinity, value: ORIGIN_MS }]
  offsets.forEach(({ fromMs, value }, index) => {
    const before = offsets[index - 1]?.value ?? value
    if (value - before >= DAY_MS)
      floors.push({ fromMs: fromMs + before, value: begin(DAY_MS, fromMs + value) })
  })
  return floors
}

/** Never negative. */
function mod(value: number, unit: number): number {
  return ((value % unit) + unit) % unit
}

function nextChange(steps: readonly Step[], ms: number): number {
  return steps[stepAt(steps, ms) + 1]?.fromMs ?? Infinity
}

/** Changes of the clock that are not the begin of a unit: an interval begins there all the same. */
function changesInside(offsets: readonly Step[], unitMs: number): readonly Step[] {
  const inside = offsets.slice(1).filter(({ fromMs, value }) => mod(fromMs + value, unitMs) !== 0)
  return [{ fromMs: -Infinity, value: ORIGIN_MS }, ...inside.map(({ fromMs }) => ({ fromMs, value: fromMs }))]
}

/** Clocks set back over midnight show a date again: its instants stay with the later date. */
function datesThatReturn(offsets: readonly Step[]): readonly Step[] {
  const floors: Step[] = [{ fromMs: -Infinity, value: ORIGIN_MS }]
  let latest = ORIGIN_MS
  offsets.forEach(({ fromMs, value }, index) => {
    if (fromMs + value < latest) floors.push({ fromMs, value: latest })
    const end = offsets[index + 1]?.fromMs
    if (end !== undefined) latest = Math.max(latest, begin(DAY_MS, end - 1 + value))
  })
  return floors
}

/** The begin of the unit that holds what a clock shows. */
function begin(unit: CalendarUnit, ms: number): number {
  if (typeof unit === 'number') return ms - mod(ms - ORIGIN_MS, unit)
  const date = new Date(ms)
  return midnight(date.getUTCFullYear(), unit === 'year' ? 0 : date.getUTCMonth())
}

function nextBegin(unit: CalendarUnit, ms: number): number {
  if (typeof unit === 'number') return ms + unit
  const date = new Date(ms)
  return unit === 'year'
    ? midnight(date.getUTCFullYear() + 1, 0)
    : midnight(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

/** Date.UTC takes the years 0 to 99 for 1900 to 1999. */
function midnight(year: number, month: number): number {
  return new Date(0).setUTCFullYear(year, month, 1)
}
