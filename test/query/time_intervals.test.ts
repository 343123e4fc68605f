/** Intervals of time series: known days, and random instants of all zones, by the wall clock. */
import { beforeAll, describe, expect, test, vi } from 'vitest'
import { type Granularity, Intervals } from '../../src/query/plan/time-intervals.ts'
import { clockOf, isTimeZone, loadClock } from '../../src/query/plan/time-zone.ts'
import { must } from '../../src/util/errors.ts'
import { TIME_SERIES_INTERVALS_MAX } from '../../src/util/limits.ts'
import { below, newSeed, randomFrom } from '../util/random.ts'
import { WallClock } from './wall-clock.ts'

const GRANULARITIES: readonly Granularity[] = [
  'MINUTE',
  'FIVE_MINUTES',
  'TEN_MINUTES',
  'FIFTEEN_MINUTES',
  'HOUR',
  'DAY',
  'WEEK',
  'MONTH',
  'YEAR',
]

async function intervalsOf(zone: string, granularity: Granularity): Promise<Intervals> {
  await loadClock(zone, atOnce)
  return new Intervals(granularity, must(clockOf(zone), zone))
}

/** The begins of the intervals from the one of an instant to the one of another. */
function begins(intervals: Intervals, from: number, to: number): number[] | undefined {
  return intervals.between(intervals.keyOf(from), intervals.keyOf(to))?.map(({ fromMs }) => fromMs)
}

/** The tests wait for nobody. */
const atOnce = async <T>(work: () => T): Promise<T> => work()

/** Without the seconds that are zero. */
const short = (ms: number) => new Date(ms).toISOString().replace(/(:00)?\.000Z$/, '')

describe('known intervals', () => {
  const labels = async (zone: string, granularity: Granularity, from: string, to: string) =>
    begins(await intervalsOf(zone, granularity), Date.parse(from), Date.parse(to))?.map(short)

  test('the hour that comes twice is two intervals, and the one that is skipped is none', async () => {
    expect(await labels('Europe/Berlin', 'HOUR', '2024-10-26T23:30Z', '2024-10-27T02:00Z')).toEqual([
      '2024-10-26T23:00',
      '2024-10-27T00:00',
      '2024-10-27T01:00',
      '2024-10-27T02:00',
    ])
    expect(await labels('Europe/Berlin', 'HOUR', '2024-03-31T00:30Z', '2024-03-31T01:30Z')).toEqual([
      '2024-03-31T00:00',
      '2024-03-31T01:00',
    ])
  })

  test('days of 23 and 25 hours, weeks from Monday', async () => {
    expect(await labels('Europe/Berlin', 'DAY', '2024-03-30T23:00Z', '2024-03-31T22:00Z')).toEqual([
      '2024-03-30T23:00',
      '2024-03-31T22:00',
    ])
    expect(await labels('Europe/Berlin', 'DAY', '2024-10-26T22:00Z', '2024-10-27T23:00Z')).toEqual([
      '2024-10-26T22:00',
      '2024-10-27T23:00',
    ])
    expect(await labels('Europe/Berlin', 'WEEK', '2024-03-31T21:59:59Z', '2024-03-31T22:00Z')).toEqual([
      '2024-03-24T23:00',
      '2024-03-31T22:00',
    ])
  })

  test('a change by half an hour begins an interval', async () => {
    expect(await labels('Australia/Lord_Howe', 'HOUR', '2024-04-06T14:59Z', '2024-04-06T15:45Z')).toEqual([
      '2024-04-06T14:00',
      '2024-04-06T15:00',
      '2024-04-06T15:30',
    ])
    expect(await labels('Asia/Kathmandu', 'HOUR', '1985-12-31T18:00Z', '1985-12-31T19:15Z')).toEqual([
      '1985-12-31T17:30',
      '1985-12-31T18:30',
      '1985-12-31T19:15',
    ])
  })

  test('a date that was skipped has no interval', async () => {
    expect(await labels('Pacific/Apia', 'DAY', '2011-12-29T12:00Z', '2011-12-31T12:00Z')).toEqual([
      '2011-12-29T10:00',
      '2011-12-30T10:00',
      '2011-12-31T10:00',
    ])
  })

  test('a date that came twice is one interval, with all that came between', async () => {
    expect(await labels('America/Juneau', 'DAY', '1867-10-18T00:00Z', '1867-10-20T12:00Z')).toEqual([
      '1867-10-17T08:57:41',
      '1867-10-18T08:57:41',
      '1867-10-20T08:57:41',
    ])
    // The clock showed 00:00 for a minute, then 23:01.
    expect(await labels('America/St_Johns', 'DAY', '2006-10-29T02:00Z', '2006-10-29T03:29Z')).toEqual([
      '2006-10-28T02:30',
      '2006-10-29T02:30',
    ])
  })

  test('a clock with seconds', async () => {
    expect(await labels('Africa/Monrovia', 'HOUR', '1972-01-07T00:00Z', '1972-01-07T01:00Z')).toEqual([
      '1972-01-06T23:44:30',
      '1972-01-07T00:44:30',
      '1972-01-07T01:00',
    ])
  })
})

test('Intl is asked once for the name of a zone, in any case, and each time for no name', () => {
  const asked = vi.spyOn(Intl, 'DateTimeFormat')
  const names = ['Europe/Oslo', 'Europe/Oslo', 'EUROPE/oslo', 'Mars/Base', 'Mars/Base']
  expect(names.map(isTimeZone)).toEqual([true, true, true, false, false])
  expect(asked).toHaveBeenCalledTimes(3)
  asked.mockRestore()
})

test('random instants of all zones agree with the wall clock', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  const zones = Intl.supportedValuesOf('timeZone')
  for (let i = 0; i < 40; i++) {
    const zone = zones[below(random, zones.length)]!
    const wall = new WallClock(zone)
    await loadClock(zone, atOnce)
    const { offsets } = must(clockOf(zone), zone)
    for (const granularity of GRANULARITIES) {
      const intervals = await intervalsOf(zone, granularity)
      // Near a change of the clock, or anywhere from 1850 to 2090.
      const change = offsets[below(random, offsets.length)]!.fromMs
      const isNear = below(random, 3) > 0 && Number.isFinite(change)
      const from = isNear ? change + (random() - 0.5) * 7_200_000 : (random() * 240 - 120) * 31_557_600_000
      const first = wall.begin(granularity, Math.floor(from))
      const want = [first]
      while (want.length < 3) want.push(wall.next(granularity, want.at(-1)!))
      const where = `seed ${seed}: ${zone} ${granularity} ${new Date(from).toISOString()}`
      expect(begins(intervals, Math.floor(from), want.at(-1)!)?.map(short), where).toEqual(want.map(short))
    }
  }
})

describe('limits', () => {
  let minutes: Intervals
  beforeAll(async () => {
    minutes = await intervalsOf('UTC', 'MINUTE')
  })

  test('as many intervals as are allowed, and one more', () => {
    const last = (TIME_SERIES_INTERVALS_MAX - 1) * 60_000
    expect(begins(minutes, 0, last)).toHaveLength(TIME_SERIES_INTERVALS_MAX)
    expect(begins(minutes, 0, last + 60_000)).toBeUndefined()
  })

  test('the first and the last instant of a TIMESTAMP have intervals in every zone', async () => {
    const [first, last] = [-62_135_596_800_000, 253_402_300_799_999]
    for (const zone of ['UTC', 'Asia/Manila', 'Pacific/Kiritimati', 'America/Juneau'])
      for (const granularity of GRANULARITIES) {
        const intervals = await intervalsOf(zone, granularity)
        for (const ms of [first, last]) {
          const [begin, ...none] = begins(intervals, ms, ms)!
          expect([begin! <= ms, none]).toEqual([true, []])
        }
      }
  })
})

test('whoever waits for a zone reads on, in any case, and no zone is none', async () => {
  const pieces: number[] = []
  const inTurn = async <T>(work: () => T): Promise<T> => {
    pieces.push(1)
    await new Promise(resolve => setImmediate(resolve))
    return work()
  }
  const names = ['America/Toronto', 'america/toronto', 'AMERICA/TORONTO']
  await Promise.all(names.map(name => loadClock(name, inTurn)))
  const [clock, ...others] = names.map(name => clockOf(name))
  expect(others).toEqual([clock, clock])
  const { offsets } = must(clock, 'Toronto')
  expect(offsets.map(({ fromMs }) => fromMs)).toEqual(
    [...new Set(offsets.map(({ fromMs }) => fromMs))].sort((a, b) => a - b),
  )
  // None of the changes is read twice.
  expect(pieces.length).toBeLessThan(offsets.length + names.length)
  for (const name of [
    '',
    'Europe/Atlantis',
    'constructor',
    '+05:00',
    'IST',
    '2024-01-01T00:00Z[Europe/Berlin]',
  ]) {
    await loadClock(name, inTurn)
    expect(clockOf(name)).toBeUndefined()
  }
})
