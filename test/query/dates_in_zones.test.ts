/** A DATE is a day of the calendar in every zone: relative ranges and ranges of instants. */
import { afterAll, expect, test } from 'vitest'
import { counter } from '../../src/query/plan/counter.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import type { TimeRange } from '../../src/query/plan/where.ts'
import { schemaOf, TestPool } from './pool.ts'

const pool = new TestPool()
afterAll(() => pool.close())

const DAY_MS = 86_400_000
const SCHEMA = schemaOf([['day', 'DATE']], { timestamp: 0 })
const COUNT = { kind: 'count' } as const

const dayOf = (iso: string) => Date.parse(iso) / DAY_MS

/** The number of days from one to before another that a range holds. */
async function daysIn(timeZone: string, timeRange: TimeRange, now: string, from: string, to: string) {
  const rows = Array.from({ length: dayOf(to) - dayOf(from) }, (_, index) => ({ day: dayOf(from) + index }))
  const segments = [await pool.segment(SCHEMA, rows)]
  const asker = { nowMs: Date.parse(now) }
  const held = await pool.answer(counter, SCHEMA, { metric: COUNT, timeZone, timeRange }, segments, asker)
  const query = { metric: COUNT, timeZone, timeRange, granularity: 'DAY', groupBy: [] } as const
  const series = await pool.answer(timeSeries, SCHEMA, query, segments, asker)
  if ('badRequest' in held || 'badRequest' in series) throw new Error(JSON.stringify([held, series]))
  return { held: held.value, labels: series.labels, values: series.values }
}

const TODAY = { relative: 'TODAY' }

test.each([
  // zone, now, the only row, the begin of its day
  ['America/New_York', '2024-03-10T03:00:00Z', '2024-03-09', '2024-03-09T05:00:00.000Z'],
  ['America/New_York', '2024-03-10T12:00:00Z', '2024-03-10', '2024-03-10T05:00:00.000Z'],
  ['Asia/Kathmandu', '2024-05-14T20:00:00Z', '2024-05-15', '2024-05-14T18:15:00.000Z'],
  ['Pacific/Kiritimati', '2024-05-14T11:00:00Z', '2024-05-15', '2024-05-14T10:00:00.000Z'],
  // Midnight did not exist.
  ['America/Sao_Paulo', '2018-11-04T12:00:00Z', '2018-11-04', '2018-11-04T03:00:00.000Z'],
  // The zone went over 30 December, whose rows count as those of the next day.
  ['Pacific/Apia', '2011-12-30T09:00:00Z', '2011-12-29', '2011-12-29T10:00:00.000Z'],
  ['UTC', '2024-03-10T03:00:00Z', '2024-03-10', '2024-03-10T00:00:00.000Z'],
])('TODAY in %s at %s is the row of %s', async (zone, now, day, label) => {
  const next = new Date(Date.parse(day) + DAY_MS).toISOString()
  const alone = await daysIn(zone, TODAY, now, day, next)
  expect(alone).toEqual({ held: '1', labels: [label], values: ['1'] })
  const [from, to] = [Date.parse(day) - 5 * DAY_MS, Date.parse(day) + 5 * DAY_MS]
  const among = await daysIn(zone, TODAY, now, new Date(from).toISOString(), new Date(to).toISOString())
  expect(among).toEqual({ held: '1', labels: [label], values: ['1'] })
})

test('the day that a zone skipped counts as the next one', async () => {
  const days = ['2011-12-27', '2012-01-03'] as const
  const range = { start: '2011-12-29T10:00:00Z', stop: '2012-01-01T10:00:00Z' }
  expect(await daysIn('Pacific/Apia', range, '2012-01-01T00:00:00Z', ...days)).toEqual({
    held: '4',
    labels: ['2011-12-29T10:00:00.000Z', '2011-12-30T10:00:00.000Z', '2011-12-31T10:00:00.000Z'],
    values: ['1', '2', '1'],
  })
})

test('a range that begins within a day does not hold it', async () => {
  const range = { start: '2024-03-10T05:00:00.000001Z', stop: '2024-03-12T04:00:00Z' }
  const { held } = await daysIn('America/New_York', range, '2024-03-10T00:00:00Z', '2024-03-01', '2024-03-20')
  expect(held).toBe('1')
})
