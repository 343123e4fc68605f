/**
 * Random time series around changes of clocks, over random rows, against plain JavaScript: the
 * intervals are those of the wall clock that Intl prints.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import type { Granularity } from '../../src/query/plan/time-intervals.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import { below, casesOf, newSeed, type Random, randomFrom, someOf } from '../util/random.ts'
import * as model from './metric-model.ts'
import { type Row, schemaOf, TestPool } from './pool.ts'
import { WallClock } from './wall-clock.ts'

const pool = new TestPool()
afterAll(() => pool.close())

const QUERIES = casesOf(1, 2)
/** Each instant meets so many granularities in `npm test`, by lot, and in the long run all. */
const UNITS_EACH = 4
const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE
/** 0001-01-01. */
const FIRST_MS = -62_135_596_800_000
const NEAR_US = 7_200_000_000n
const UNITS: readonly (readonly [Granularity, unitMs: number])[] = [
  ['MINUTE', MINUTE],
  ['FIVE_MINUTES', 5 * MINUTE],
  ['TEN_MINUTES', 10 * MINUTE],
  ['FIFTEEN_MINUTES', 15 * MINUTE],
  ['HOUR', 60 * MINUTE],
  ['DAY', DAY],
  ['WEEK', 7 * DAY],
  ['MONTH', 30 * DAY],
  ['YEAR', 365 * DAY],
]
/** Zones, and instants near which their clocks change. */
const CHANGES: readonly (readonly [string, readonly string[]])[] = [
  ['UTC', ['1970-01-01T00:00:00Z', '2024-02-29T00:00:00Z', '0004-01-01T00:00:00Z']],
  ['Europe/Berlin', ['2024-03-31T01:00:00Z', '2024-10-27T01:00:00Z', '1893-03-31T23:06:32Z']],
  ['America/New_York', ['2024-03-10T07:00:00Z', '2024-11-03T06:00:00Z']],
  ['Australia/Lord_Howe', ['2024-04-06T15:00:00Z', '2024-10-05T15:30:00Z']],
  ['Asia/Kathmandu', ['1985-12-31T18:30:00Z', '1919-12-31T18:18:44Z', '2024-05-15T00:00:00Z']],
  ['Pacific/Apia', ['2011-12-30T10:00:00Z', '1892-07-04T11:26:56Z']],
  ['Africa/Cairo', ['2024-04-25T22:00:00Z', '2024-10-31T21:00:00Z']],
  ['Africa/Casablanca', ['2024-03-10T02:00:00Z', '2024-04-14T02:00:00Z']],
  ['Africa/Monrovia', ['1972-01-07T00:44:30Z']],
  ['Pacific/Kwajalein', ['1993-08-21T12:00:00Z']],
  ['America/Sao_Paulo', ['2018-11-04T03:00:00Z', '2019-02-17T02:00:00Z']],
  ['America/St_Johns', ['2006-04-02T03:31:00Z', '2006-10-29T02:31:00Z']],
  ['America/Juneau', ['1867-10-18T15:33:32Z']],
  ['Asia/Tehran', ['2022-03-21T20:30:00Z', '2022-09-21T19:30:00Z']],
]

function iso(ms: number): string {
  return new Date(ms).toISOString()
}

/** The answer to a question over the rows that it selects. */
function expected(query: ReturnType<typeof randomQuery>, rows: readonly Row[], clock: WallClock): object {
  const { granularity, metric, groupBy, timeRange } = query
  const column = timeRange.timestamp ?? 'at'
  const msOf = (us: bigint) => Number(us / 1_000n) - (us % 1_000n < 0n ? 1 : 0)
  const beginOf = (row: Row) => clock.begin(granularity, msOf(model.instantOf(row, column, clock)!))
  const begins = rows.map(beginOf)
  const [start, stop] = [timeRange.start, timeRange.stop].map(text => (text ? model.usOf(text) : null))
  const first = start === null ? Math.min(...begins) : clock.begin(granularity, msOf(start!))
  const last = stop === null ? Math.max(...begins) : clock.begin(granularity, msOf(stop! - 1n))
  const isEmpty = start === null || stop === null ? rows.length === 0 : start! >= stop!
  const labels: number[] = []
  if (!isEmpty) for (let ms = first; ms <= last; ms = clock.next(granularity, ms)) labels.push(ms)
  const zero = ['count', 'countDistinct', 'sum'].includes(metric.kind) ? '0' : null
  const seriesOf = (some: readonly Row[]) => ({
    labels: labels.map(iso),
    values: labels.map(label => {
      const inside = some.filter(row => beginOf(row) === label)
      return inside.length === 0 ? zero : (model.evaluate(metric, inside).text ?? zero)
    }),
  })
  const groups = groupBy.length === 0 ? [] : model.groupsOf(groupBy, rows)
  const compareCells = (a: (typeof groups)[number], b: (typeof groups)[number]) =>
    a.cells.reduce((order: number, cell, i) => order || model.compare(cell, b.cells[i]!), 0)
  return {
    ...seriesOf(rows),
    groups: groups.sort(compareCells).map(group => ({
      group: group.cells.map((cell, i) => model.print(groupBy[i]!, cell)),
      ...seriesOf(group.rows),
    })),
  }
}

function randomQuery(random: Random, zone: string, granularity: Granularity, fromUs: bigint, toUs: bigint) {
  return {
    metric: model.randomMetric(random),
    timeZone: zone,
    granularity,
    groupBy: Array.from({ length: Math.max(0, below(random, 4) - 1) }, () =>
      model.pick(random, ['name', 'flag', 'n', 'day', 'value']),
    ),
    timeRange: model.randomRange(random, fromUs, toUs),
  }
}

describe('random time series', () => {
  for (const [zone, changes] of CHANGES)
    test(zone, async () => {
      const seed = newSeed()
      const random = randomFrom(seed)
      const clock = new WallClock(zone)
      for (const change of changes)
        for (const [granularity, unitMs] of someOf(UNITS, UNITS_EACH, below(random, 2 ** 31))) {
          // The change lies somewhere between the rows.
          const span = Math.max(2, 1 + below(random, 20)) * unitMs
          const first = Math.max(Date.parse(change) - below(random, span), FIRST_MS)
          const [fromUs, toUs] = [BigInt(first) * 1_000n, BigInt(first + span) * 1_000n]
          // Half of the rows are near the change itself.
          const changeUs = BigInt(Date.parse(change)) * 1_000n
          const rows = Array.from({ length: below(random, 50) }, () =>
            below(random, 2) === 0
              ? model.randomRow(random, fromUs, toUs)
              : model.randomRow(random, changeUs - NEAR_US, changeUs + NEAR_US),
          )
          const { live, segments } = await model.store(pool, random, rows)
          for (let i = 0; i < QUERIES; i++) {
            const { selection, holds } = model.randomCondition(random)
            const { policy, sees } = model.randomPolicy(random)
            const query = { ...randomQuery(random, zone, granularity, fromUs, toUs), ...selection }
            const { timeRange } = query
            const selected = live.filter(
              row =>
                sees(row) &&
                holds(row) &&
                model.inRange(timeRange, row, clock) &&
                model.instantOf(row, timeRange.timestamp ?? 'at') !== null,
            )
            const got = await pool.answer(timeSeries, model.SCHEMA, query, segments, { policy })
            const where = `seed ${seed}, ${change}: ${JSON.stringify(query)}`
            expect(got, where).toEqual({ ...expected(query, selected, clock), groupBy: query.groupBy })
          }
        }
    })
})

const COUNT = { kind: 'count' } as const

/** Microseconds of these years are beyond 2^53, and a double holds each 32nd of the last one's. */
const FAR = ['0003-12-20T12:00:00Z', '1650-02-27T00:00:00Z', '2300-12-31T23:00:00Z', '9990-06-30T00:00:00Z']

describe('a range far from 1970 has its intervals to the microsecond', () => {
  const schema = schemaOf([['at', 'TIMESTAMP']], { timestamp: 0 })

  // Clocks of zones with summer time are known until 2100.
  test.each([
    ['UTC', FAR],
    ['Asia/Kathmandu', FAR],
    ['Europe/Berlin', FAR.slice(0, 2)],
  ])('%s', async (zone, instants) => {
    const wall = new WallClock(zone)
    const seed = newSeed()
    for (const instant of instants)
      for (const [granularity] of someOf(UNITS, UNITS_EACH, seed + instants.indexOf(instant))) {
        const [a = 0, b = 0, c = 0] = beginsFrom(wall, granularity, Date.parse(instant))
        const us = [a, b, c].map(ms => BigInt(ms) * 1_000n)
        // The last microsecond of an interval, and the first.
        const rows = us.flatMap(begin => [{ at: begin - 1n }, { at: begin }])
        // With this number all rows are in one segment, and none is deleted.
        const { segments } = await model.store(pool, () => 0.999, rows)
        const ask = async (start: bigint, stop: bigint) => {
          const timeRange = { start: model.isoOf(start), stop: model.isoOf(stop) }
          const query = { metric: COUNT, granularity, timeZone: zone, groupBy: [], timeRange }
          const got = await pool.answer(timeSeries, schema, query, segments)
          return 'labels' in got ? got.labels.map((label, i) => [Date.parse(label), got.values[i]]) : got
        }
        const where = `${granularity} in ${zone} near ${instant}`
        const [first = 0n, , third = 0n] = us
        expect(await ask(first, third), where).toEqual([
          [a, '2'],
          [b, '2'],
        ])
        expect(await ask(first + 1n, third + 1n), where).toEqual([
          [a, '1'],
          [b, '2'],
          [c, '1'],
        ])
        expect(await ask(first - 1n, first + 1n), where).toEqual([
          [expect.any(Number), '1'],
          [a, '1'],
        ])
      }
  })

  function beginsFrom(wall: WallClock, granularity: Granularity, ms: number): number[] {
    const a = wall.next(granularity, wall.begin(granularity, ms))
    const b = wall.next(granularity, a)
    return [a, b, wall.next(granularity, b)]
  }
})

test('a series is whole or refused: its groups and its values have limits', async () => {
  const schema = schemaOf(
    [
      ['at', 'TIMESTAMP'],
      ['n', 'INT32'],
    ],
    { timestamp: 0 },
  )
  const series = async (select: string, granularity: Granularity, groupBy: readonly string[]) => {
    const segment = await pool.write(
      `SELECT now() AS _service_received_at, '{}' AS _service_payload, t.*, 0::BIGINT AS _service_sequence
       FROM (SELECT ${select}) t`,
    )
    return await pool.answer(timeSeries, schema, { metric: COUNT, granularity, groupBy }, [segment])
  }
  const groups = (count: number) =>
    series(`to_timestamp(0) AS at, unnest(range(${count}))::INTEGER AS n`, 'DAY', ['n'])
  const many = await groups(1_000)
  expect('groups' in many ? many.groups.map(({ group }) => group[0]).slice(0, 3) : many).toEqual([
    '0',
    '1',
    '2',
  ])
  expect('groups' in many && many.groups).toHaveLength(1_000)
  expect(await groups(1_001)).toMatchObject({ badRequest: expect.stringMatching(/at most 1000 groups/) })
  // 4 groups with 8,000 minutes make 40,000 values with those of all rows.
  const values = (minutes: number) =>
    series(
      `to_timestamp(60 * (i // 4)) AS at, (i % 4)::INTEGER AS n FROM range(${4 * minutes}) t(i)`,
      'MINUTE',
      ['n'],
    )
  expect(await values(8_000)).toMatchObject({ values: { length: 8_000 }, groups: { length: 4 } })
  expect(await values(8_001)).toMatchObject({ badRequest: expect.stringMatching(/at most 40000 values/) })
  // The values that would only be filled in count too.
  const few = `to_timestamp(60 * 9000 * (i % 2)) AS at, (i // 2)::INTEGER AS n FROM range(8) t(i)`
  expect(await series(few, 'MINUTE', ['n'])).toMatchObject({
    badRequest: expect.stringMatching(/at most 40000 values/),
  })
})

test('an event far from all others, beyond an open end, is named with the way out', async () => {
  const at = (iso: string) => ({ at: BigInt(Date.parse(iso)) * 1_000n })
  const now = ['2024-05-01T10:00:00Z', '2024-05-03T10:00:00Z'].map(at)
  const ask = async (far: readonly string[], timeRange: object, timeZone = 'UTC') => {
    const { segments } = await model.store(pool, () => 0.999, [...now, ...far.map(at)])
    const query = { metric: COUNT, granularity: 'DAY' as const, groupBy: [], timeZone, timeRange }
    const got = await pool.answer(
      timeSeries,
      schemaOf([['at', 'TIMESTAMP']], { timestamp: 0 }),
      query,
      segments,
    )
    return 'labels' in got ? got.labels.length : got.badRequest
  }
  const tooMany =
    'granularity: a time series has at most 12000 intervals. Choose a coarser granularity, or a shorter timeRange.'
  const last = ' The last event is in the interval of 9999-12-31T00:00:00.000Z: a stop leaves it out.'
  const first = ' The first event is in the interval of 0001-01-01T00:00:00.000Z: a start leaves it out.'
  const [start, stop] = ['2024-05-01T00:00:00Z', '2024-05-04T00:00:00Z']
  const [never, zero] = ['9999-12-31T23:59:59Z', '0001-01-01T00:00:00Z']
  expect(await ask([never], { start })).toBe(`${tooMany}${last}`)
  expect(await ask([never], { start, stop })).toBe(3)
  expect(await ask([zero], { stop })).toBe(`${tooMany}${first}`)
  expect(await ask([zero], { start })).toBe(3)
  const firstOfMay = ' The first event is in the interval of 2024-05-01T00:00:00.000Z: a start leaves it out.'
  expect(await ask([never], {})).toBe(`${tooMany}${firstOfMay}${last}`)
  // Here the zone's clocks are not known so far ahead, whatever the granularity.
  expect(await ask(['2110-06-01T12:00:00Z'], { start: '2100-01-01T00:00:00Z' }, 'Europe/Berlin')).toMatch(
    /until 2100.*Give a stop\. The last event is in the interval of 2110-05-31T\d\d:00:00.000Z: a stop leaves it out\.$/,
  )
})

test('a hidden column groups and orders nothing', async () => {
  const { segments } = await model.store(pool, randomFrom(1), [model.randomRow(randomFrom(1), 0n, 1_000n)])
  const policy = { columns: ['at', 'n'], rows: [], filterSql: null, values: {} }
  const hidden = { badRequest: expect.stringMatching(/there is no column "name"/) }
  const rows = { metric: COUNT, name: 'value', sort: 'ASC', rowLimit: 1 } as const
  const series = { metric: COUNT, granularity: 'DAY', groupBy: ['name'] } as const
  const ofSeen = { ...series, groupBy: [], timeRange: { timestamp: 'seen' } }
  const asker = { policy }
  expect(
    await pool.answer(leaderboard, model.SCHEMA, { ...rows, dimensions: ['name'] }, segments, asker),
  ).toMatchObject(hidden)
  expect(await pool.answer(timeSeries, model.SCHEMA, series, segments, asker)).toMatchObject(hidden)
  expect(await pool.answer(timeSeries, model.SCHEMA, ofSeen, segments, asker)).toMatchObject({
    badRequest: expect.stringMatching(/there is no column "seen"/),
  })
  const top = { column: 'name', maxValues: 1 }
  expect(await pool.answer(topValues, model.SCHEMA, top, segments, asker)).toMatchObject(hidden)
})
