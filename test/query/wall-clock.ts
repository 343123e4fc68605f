/**
 * Intervals of time by the wall clock that Intl prints, to compare with those that Temporal's
 * changes of clocks make. All instants are milliseconds since 1970.
 */
import type { Granularity } from '../../src/query/plan/time-intervals.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const EXACT: Partial<Record<Granularity, number>> = {
  MINUTE,
  FIVE_MINUTES: 5 * MINUTE,
  TEN_MINUTES: 10 * MINUTE,
  FIFTEEN_MINUTES: 15 * MINUTE,
  HOUR,
}

export class WallClock {
  readonly #printer: Intl.DateTimeFormat
  readonly #offsets = new Map<number, number>()
  readonly #midnights = new Map<number, number>()

  constructor(zone: string) {
    this.#printer = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
  }

  /** The first instant of the interval that holds an instant. */
  begin(granularity: Granularity, ms: number): number {
    const unit = EXACT[granularity]
    if (unit === undefined) {
      // A later date may have begun before the clock was set back.
      let date = midnightOf(granularity, this.#shown(ms), 1)
      while (this.firstInstant(date) > ms) date = midnightOf(granularity, date, -1)
      return this.firstInstant(date)
    }
    const whole = ms - mod(this.#shown(ms), unit)
    return this.#offset(whole) === this.#offset(ms) ? whole : this.#change(whole, ms)
  }

  /** The begin of the next interval, given that of one. */
  next(granularity: Granularity, ms: number): number {
    const unit = EXACT[granularity]
    if (unit === undefined) {
      for (let date = midnightOf(granularity, this.#shown(ms), 0); ; date = midnightOf(granularity, date, 1))
        if (this.firstInstant(date) > ms) return this.firstInstant(date)
    }
    const whole = ms - mod(this.#shown(ms), unit) + unit
    return this.#offset(whole - SECOND) === this.#offset(ms) ? whole : this.#change(ms, whole)
  }

  #offset(ms: number): number {
    const second = Math.floor(ms / SECOND) * SECOND
    let offset = this.#offsets.get(second)
    if (offset === undefined) {
      const parts = this.#printer.formatToParts(second).map(({ type, value }) => [type, value] as const)
      const { year, month, day, hour, minute, second: seconds, era } = Object.fromEntries(parts)
      const date = new Date(0)
      date.setUTCFullYear(era === 'BC' ? 1 - Number(year) : Number(year), Number(month) - 1, Number(day))
      date.setUTCHours(Number(hour), Number(minute), Number(seconds))
      offset = date.getTime() - second
      this.#offsets.set(second, offset)
    }
    return offset
  }

  #shown(ms: number): number {
    return ms + this.#offset(ms)
  }

  /** The first instant after `from` with the offset of `to`. */
  #change(from: number, to: number): number {
    const wanted = this.#offset(to)
    let ms = Math.floor(from / SECOND) * SECOND
    while (this.#offset(ms + MINUTE) !== wanted) ms += MINUTE
    while (this.#offset(ms) !== wanted) ms += SECOND
    return ms
  }

  /** The first instant whose wall clock is at or after a midnight. */
  firstInstant(midnight: number): number {
    let ms = this.#midnights.get(midnight)
    if (ms !== undefined) return ms
    ms = midnight - 26 * HOUR
    // A clock may show the midnight twice, the first time for a minute.
    while (this.#shown(ms + 3 * HOUR) < midnight) ms += HOUR
    while (this.#shown(ms + MINUTE) < midnight) ms += MINUTE
    while (this.#shown(ms) < midnight) ms += SECOND
    this.#midnights.set(midnight, ms)
    return ms
  }
}

/** The midnight that begins the unit of what a clock shows, or that of `units` later. */
function midnightOf(granularity: Granularity, shown: number, units: number): number {
  const date = new Date(shown)
  date.setUTCHours(0, 0, 0, 0)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  if (granularity === 'YEAR') return date.setUTCFullYear(year + units, 0, 1)
  if (granularity === 'MONTH') return date.setUTCFullYear(year, month + units, 1)
  if (granularity === 'DAY') return date.setUTCFullYear(year, month, day + units)
  return date.setUTCFullYear(year, month, day - ((date.getUTCDay() + 6) % 7) + 7 * units)
}

function mod(value: number, unit: number): number {
  return ((value % unit) + unit) % unit
}
