/**
 * Relative time ranges: from when to when is LAST_N_DAYS of 30 in Asia/Kathmandu?
 *
 *   THIS_ PREVIOUS_ NEXT_   one whole unit, the part that is still to come included
 *   LAST_N_                 n units, the current one included
 *
 * Days, weeks, months, quarters and years are those of the calendar in the zone, so a day may have
 * 23 hours, or none where a zone skipped it. Minutes and hours are exact time: they begin where the
 * zone's clock shows a whole one now, and all are equally long.
 */
import type { Temporal } from 'temporal-polyfill'
import { must } from '../../util/errors.ts'
import { quoted } from '../expression/operand.ts'
import { Refused } from '../expression/values.ts'
import { loadedTemporal } from './time-zone.ts'

const UNITS = ['minutes', 'hours', 'days', 'weeks', 'months', 'quarters', 'years'] as const
type Unit = (typeof UNITS)[number]
/** From the unit `from` units after the current one, `count` units. */
type Form = readonly [unit: Unit, from: number, count: number]

const LAST_N: ReadonlyMap<string, Unit> = new Map(UNITS.map(unit => [`LAST_N_${unit.toUpperCase()}`, unit]))
/** Ranges without `n`. The deprecated LAST_… are LAST_N_… of their number. */
const FORMS: ReadonlyMap<string, Form> = new Map<string, Form>([
  ...UNITS.filter(unit => unit !== 'minutes' && unit !== 'days').flatMap((unit): [string, Form][] => {
    const name = unit.toUpperCase().slice(0, -1)
    return [
      [`THIS_${name}`, [unit, 0, 1]],
      [`PREVIOUS_${name}`, [unit, -1, 1]],
      [`NEXT_${name}`, [unit, 1, 1]],
    ]
  }),
  ['TODAY', ['days', 0, 1]],
  ['YESTERDAY', ['days', -1, 1]],
  ['TOMORROW', ['days', 1, 1]],
  ['LAST_15_MINUTES', last('minutes', 15)],
  ['LAST_30_MINUTES', last('minutes', 30)],
  ['LAST_HOUR', last('hours', 1)],
  ['LAST_4_HOURS', last('hours', 4)],
  ['LAST_12_HOURS', last('hours', 12)],
  ['LAST_24_HOURS', last('hours', 24)],
  ['LAST_7_DAYS', last('days', 7)],
  ['LAST_30_DAYS', last('days', 30)],
  ['LAST_90_DAYS', last('days', 90)],
  ['LAST_3_MONTHS', last('months', 3)],
  ['LAST_6_MONTHS', last('months', 6)],
  ['LAST_YEAR', last('years', 1)],
  ['LAST_2_YEARS', last('years', 2)],
  ['LAST_5_YEARS', last('years', 5)],
])

const MINUTE_MS = 60_000
const EXACT_MS: Partial<Record<Unit, number>> = { minutes: MINUTE_MS, hours: 60 * MINUTE_MS }
/** Units of ten thousand years: a larger n means the same as this one. */
const COUNT_MAX: Readonly<Record<Unit, number>> = {
  minutes: 5_260_000_000,
  hours: 87_700_000,
  days: 3_652_500,
  weeks: 521_800,
  months: 120_000,
  quarters: 40_000,
  years: 10_000,
}
/** 0001-01-01, the first instant of a TIMESTAMP. */
const FIRST_MS = -62_135_596_800_000

/** From `from` (inclusive) to `to` (exclusive), in microseconds since 1970. */
export interface InstantRange {
  readonly from: bigint
  readonly to: bigint
}

/** Ranges of one minute that are remembered. */
const REMEMBERED_MAX = 1_000
/** The ranges of `rememberedMinute`, which viewers of dashboards ask for again and again. */
const remembered = new Map<string, InstantRange>()
let rememberedMinute = Number.NaN

/**
 * The instants of a relative range. Throws Refused. It is the same for a whole minute of UTC: since
 * 1972 all clocks change, and all units begin, where such a minute does.
 * @param zone an IANA time zone
 */
export function relativeRange(name: string, n: number | null, zone: string, nowMs: number): InstantRange {
  const minute = Math.floor(nowMs / MINUTE_MS)
  if (minute !== rememberedMinute) remembered.clear()
  rememberedMinute = minute
  const key = `${name} ${n} ${zone}`
  const known = remembered.get(key)
  if (known !== undefined) return known
  const range = computeRange(name, n, zone, nowMs)
  if (remembered.size < REMEMBERED_MAX) remembered.set(key, range)
  return range
}

function computeRange(name: string, n: number | null, zone: string, nowMs: number): InstantRange {
  const unit = LAST_N.get(name)
  if (unit !== undefined && (n === null || !Number.isInteger(n) || n < 1))
    throw new Refused(`timeRange.n: ${name} needs an n of 1 or more`)
  const form = unit === undefined ? FORMS.get(name) : last(unit, Math.min(must(n, 'n'), COUNT_MAX[unit]))
  if (form === undefined) throw new Refused(`timeRange.relative: there is no ${quoted(name)}`)
  const [of, from, count] = form
  const exact = EXACT_MS[of]
  const bounds =
    exact === undefined
      ? calendarBounds(of, from, count, zone, nowMs)
      : exactBounds(exact, from, count, zone, nowMs)
  const [fromUs, toUs] = bounds.map(ms => BigInt(Math.max(ms, FIRST_MS)) * 1000n)
  return { from: must(fromUs, 'a bound'), to: must(toUs, 'a bound') }
}

/** The last `count` units, the current one included. */
function last(unit: Unit, count: number): Form {
  return [unit, 1 - count, count]
}

function exactBounds(unitMs: number, from: number, count: number, zone: string, nowMs: number): number[] {
  const { offsetNanoseconds } = zoned(zone, nowMs)
  // Where the zone's clock shows a whole minute or hour: the offset may have half hours.
  const offsetMs = Math.floor(offsetNanoseconds / 1_000_000)
  const startMs = Math.floor((nowMs + offsetMs) / unitMs) * unitMs - offsetMs
  return [startMs + from * unitMs, startMs + (from + count) * unitMs]
}

function calendarBounds(unit: Unit, from: number, count: number, zone: string, nowMs: number): number[] {
  const today = zoned(zone, nowMs).toPlainDate()
  const start = startOf(unit, today)
  return [from, from + count].map(units => {
    const date = start.add(unit === 'quarters' ? { months: 3 * units } : { [unit]: units })
    // The first instant of the date, also where midnight does not exist.
    return date.toZonedDateTime(zone).epochMilliseconds
  })
}

function zoned(zone: string, nowMs: number): Temporal.ZonedDateTime {
  return loadedTemporal().Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(zone)
}

function startOf(unit: Unit, date: Temporal.PlainDate): Temporal.PlainDate {
  switch (unit) {
    case 'weeks':
      return date.subtract({ days: date.dayOfWeek - 1 })
    case 'months':
      return date.with({ day: 1 })
    case 'quarters':
      return date.with({ day: 1, month: date.month - ((date.month - 1) % 3) })
    case 'years':
      return date.with({ day: 1, month: 1 })
    default:
      return date
  }
}
