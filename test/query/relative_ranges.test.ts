/**
 * Relative time ranges around changes of clocks, against a computation of another kind: the wall
 * clock that Intl prints for an instant, and a search for the first instant of a date.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { Refused } from '../../src/query/expression/values.ts'
import { relativeRange } from '../../src/query/plan/relative-time.ts'
import { loadTemporal } from '../../src/query/plan/time-zone.ts'
import { randomFrom } from '../util/random.ts'

beforeAll(async () => void (await loadTemporal()))

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

type Unit = 'DAY' | 'WEEK' | 'MONTH' | 'QUARTER' | 'YEAR'

const printers = new Map<string, Intl.DateTimeFormat>()

/** The wall clock of an instant, as the milliseconds that a clock in UTC would show. */
function wall(zone: string, ms: number): number {
  let printer = printers.get(zone)
  if (printer === undefined) {
    printer = new Intl.DateTimeFormat('en-US', {
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
    printers.set(zone, printer)
  }
  const parts = Object.fromEntries(printer.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = parts
  return Date.UTC(year, month - 1, day, hour, minute, second)
}

const found = new Map<string, number>()

/** The first instant whose wall clock is at or after the midnight of a date. Found by steps. */
function firstInstant(zone: string, midnight: number): number {
  const key = `${zone} ${midnight}`
  let ms = found.get(key)
  if (ms !== undefined) return ms
  ms = midnight - 26 * HOUR
  // A clock may show the midnight twice, the first time for a minute.
  while (wall(zone, ms + 3 * HOUR) < midnight) ms += HOUR
  while (wall(zone, ms) < midnight) ms += MINUTE
  found.set(key, ms)
  return ms
}

function midnightOf(unit: Unit, wallMs: number, units: number): number {
  const date = new Date(wallMs)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  const monday = day - ((date.getUTCDay() + 6) % 7)
  switch (unit) {
    case 'DAY':
      return Date.UTC(year, month, day + units)
    case 'WEEK':
      return Date.UTC(year, month, monday + 7 * units)
    case 'MONTH':
      return Date.UTC(year, month + units, 1)
    case 'QUARTER':
      return Date.UTC(year, month - (month % 3) + 3 * units, 1)
    case 'YEAR':
      return Date.UTC(year + units, 0, 1)
  }
}

const DAY_NAMES: Readonly<Record<string, string>> = {
  THIS_DAY: 'TODAY',
  PREVIOUS_DAY: 'YESTERDAY',
  NEXT_DAY: 'TOMORROW',
}

function rangeOf(name: string, n: number | null, zone: string, nowMs: number): [number, number] {
  const range = relativeRange(DAY_NAMES[name] ?? name, n, zone, nowMs)
  return [Number(range.from / 1000n), Number(range.to / 1000n)]
}

/** Zones, and instants at which their clocks change. */
const CHANGES: readonly (readonly [string, readonly string[]])[] = [
  ['UTC', ['2024-01-01T00:00:00Z', '2024-02-29T00:00:00Z']],
  ['Europe/Berlin', ['2024-03-31T01:00:00Z', '2024-10-27T01:00:00Z']],
  ['America/New_York', ['2024-03-10T07:00:00Z', '2024-11-03T06:00:00Z']],
  ['Australia/Lord_Howe', ['2024-04-06T15:00:00Z', '2024-10-05T15:30:00Z']],
  ['Asia/Kathmandu', ['1985-12-31T18:30:00Z', '2024-05-15T00:00:00Z']],
  ['Pacific/Apia', ['2011-12-30T10:00:00Z', '2024-05-15T00:00:00Z']],
  ['America/Sao_Paulo', ['2018-11-04T03:00:00Z', '2018-02-18T02:00:00Z']],
  ['Africa/Cairo', ['2024-04-25T22:00:00Z', '2024-10-31T21:00:00Z']],
  ['Pacific/Kwajalein', ['1993-08-21T12:00:00Z']],
  ['America/St_Johns', ['2006-04-02T03:31:00Z', '2006-10-29T02:31:00Z']],
]

describe('calendar ranges agree with the wall clock', () => {
  for (const [zone, changes] of CHANGES)
    test(zone, () => {
      for (const change of changes)
        for (const offset of [-DAY, -HOUR, -1_000, 0, MINUTE, HOUR, DAY]) {
          const nowMs = Date.parse(change) + offset
          const now = wall(zone, nowMs)
          for (const unit of ['DAY', 'WEEK', 'MONTH', 'QUARTER', 'YEAR'] as const) {
            const at = (units: number) => firstInstant(zone, midnightOf(unit, now, units))
            const where = `${zone} ${new Date(nowMs).toISOString()} ${unit}`
            expect(rangeOf(`THIS_${unit}`, null, zone, nowMs), where).toEqual([at(0), at(1)])
            expect(rangeOf(`PREVIOUS_${unit}`, null, zone, nowMs), where).toEqual([at(-1), at(0)])
            expect(rangeOf(`NEXT_${unit}`, null, zone, nowMs), where).toEqual([at(1), at(2)])
            expect(rangeOf(`LAST_N_${unit}S`, 1, zone, nowMs), where).toEqual([at(0), at(1)])
            expect(rangeOf(`LAST_N_${unit}S`, 3, zone, nowMs), where).toEqual([at(-2), at(1)])
          }
        }
    })
})

test('hours and minutes are equally long and hold now, whatever the clock does', () => {
  for (const [zone, changes] of CHANGES)
    for (const change of changes)
      for (let offset = -3 * HOUR; offset <= 3 * HOUR; offset += 7 * MINUTE) {
        const nowMs = Date.parse(change) + offset
        for (const [unit, length] of [
          ['HOUR', HOUR],
          ['MINUTE', MINUTE],
        ] as const) {
          const [from, to] = rangeOf(`LAST_N_${unit}S`, 1, zone, nowMs)
          expect([to - from, from <= nowMs && nowMs < to]).toEqual([length, true])
          // It begins where the clock of now shows a whole unit.
          expect((from + (wall(zone, nowMs) - Math.floor(nowMs / 1_000) * 1_000)) % length).toBe(0)
          expect(rangeOf(`LAST_N_${unit}S`, 5, zone, nowMs)).toEqual([from - 4 * length, to])
        }
        const [from, to] = rangeOf('THIS_HOUR', null, zone, nowMs)
        expect(rangeOf('PREVIOUS_HOUR', null, zone, nowMs)).toEqual([from - HOUR, from])
        expect(rangeOf('NEXT_HOUR', null, zone, nowMs)).toEqual([to, to + HOUR])
      }
})

test('known days: short, long, skipped', () => {
  const hours = (name: string, zone: string, now: string) => {
    const [from, to] = rangeOf(name, null, zone, Date.parse(now))
    return (to - from) / HOUR
  }
  expect(hours('TODAY', 'Europe/Berlin', '2024-03-31T12:00:00Z')).toBe(23)
  expect(hours('TODAY', 'Europe/Berlin', '2024-10-27T12:00:00Z')).toBe(25)
  expect(hours('TODAY', 'Australia/Lord_Howe', '2024-04-06T20:00:00Z')).toBe(24.5)
  // Apia had no 30 December 2011.
  expect(hours('YESTERDAY', 'Pacific/Apia', '2011-12-31T00:00:00Z')).toBe(0)
  expect(hours('TODAY', 'Asia/Kathmandu', '2024-05-15T00:00:00Z')).toBe(24)
  expect(rangeOf('TODAY', null, 'Asia/Kathmandu', Date.parse('2024-05-15T00:00:00Z'))[0]).toBe(
    Date.parse('2024-05-14T18:15:00Z'),
  )
})

test('a range is that of its own minute, zone and number', () => {
  const change = Date.parse('2024-03-31T01:00:00Z')
  const nowMs = change - 1
  const ask = (n: number, zone: string, ms: number) => rangeOf('LAST_N_HOURS', n, zone, ms)
  const before = ask(1, 'Europe/Berlin', nowMs)
  expect(ask(1, 'Europe/Berlin', nowMs - 59_999)).toEqual(before)
  expect(ask(2, 'Europe/Berlin', nowMs)).toEqual([before[0] - HOUR, before[1]])
  // Its clock is 5 h 45 min ahead, so its hours begin a quarter past those of UTC.
  expect(ask(1, 'Asia/Kathmandu', nowMs)[0]).toBe(before[0] + 15 * MINUTE)
  expect(ask(1, 'Europe/Berlin', change)).toEqual([change, change + HOUR])
  expect(ask(1, 'Europe/Berlin', nowMs)).toEqual(before)
})

test('deprecated ranges are LAST_N_ of their number', () => {
  const nowMs = Date.parse('2024-05-15T12:34:56Z')
  for (const [old, name, n] of [
    ['LAST_15_MINUTES', 'LAST_N_MINUTES', 15],
    ['LAST_30_MINUTES', 'LAST_N_MINUTES', 30],
    ['LAST_HOUR', 'LAST_N_HOURS', 1],
    ['LAST_4_HOURS', 'LAST_N_HOURS', 4],
    ['LAST_12_HOURS', 'LAST_N_HOURS', 12],
    ['LAST_24_HOURS', 'LAST_N_HOURS', 24],
    ['LAST_7_DAYS', 'LAST_N_DAYS', 7],
    ['LAST_30_DAYS', 'LAST_N_DAYS', 30],
    ['LAST_90_DAYS', 'LAST_N_DAYS', 90],
    ['LAST_3_MONTHS', 'LAST_N_MONTHS', 3],
    ['LAST_6_MONTHS', 'LAST_N_MONTHS', 6],
    ['LAST_YEAR', 'LAST_N_YEARS', 1],
    ['LAST_2_YEARS', 'LAST_N_YEARS', 2],
    ['LAST_5_YEARS', 'LAST_N_YEARS', 5],
  ] as const)
    expect(rangeOf(old, null, 'Europe/Berlin', nowMs)).toEqual(rangeOf(name, n, 'Europe/Berlin', nowMs))
})

test('n is needed by LAST_N_ alone, and may be as large as an Int', () => {
  const nowMs = Date.parse('2024-05-15T12:34:56Z')
  for (const n of [null, 0, -1, 1.5, Number.NaN])
    expect(() => relativeRange('LAST_N_DAYS', n, 'UTC', nowMs)).toThrow(
      new Refused('timeRange.n: LAST_N_DAYS needs an n of 1 or more'),
    )
  for (const n of [null, 0, -5, 9]) expect(relativeRange('TODAY', n, 'UTC', nowMs)).toHaveProperty('from')
  for (const unit of ['MINUTES', 'HOURS', 'DAYS', 'WEEKS', 'MONTHS', 'QUARTERS', 'YEARS'])
    for (const n of [2 ** 31 - 1, 1e6, 25_000]) {
      const [from, to] = rangeOf(`LAST_N_${unit}`, n, 'Pacific/Apia', nowMs)
      expect(from).toBeGreaterThanOrEqual(-62_135_596_800_000)
      expect(to).toBeGreaterThan(nowMs)
    }
  for (const name of ['constructor', '__proto__', 'LAST_N_', 'LAST_N_CENTURIES', '', 'this_day'])
    expect(() => relativeRange(name, 1, 'UTC', nowMs)).toThrow(Refused)
})

test('random instants of random zones', () => {
  const seed = Date.now() % 1e9
  const random = randomFrom(seed)
  const zones = Intl.supportedValuesOf('timeZone')
  for (let i = 0; i < 60; i++) {
    const zone = zones[Math.floor(random() * zones.length)]!
    const nowMs = Math.floor(Date.UTC(1975, 0) + random() * 60 * 365 * DAY)
    const now = wall(zone, nowMs)
    const where = `seed ${seed}: ${zone} ${new Date(nowMs).toISOString()}`
    for (const unit of ['DAY', 'WEEK', 'MONTH', 'QUARTER', 'YEAR'] as const) {
      const at = (units: number) => firstInstant(zone, midnightOf(unit, now, units))
      expect(rangeOf(`THIS_${unit}`, null, zone, nowMs), `${where} ${unit}`).toEqual([at(0), at(1)])
    }
  }
})
