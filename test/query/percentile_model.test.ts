/** Random percentiles over random rows, against plain JavaScript; and what is refused. */
import { afterAll, expect, test } from 'vitest'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import { type BadQuery, refusable } from '../../src/query/expression/values.ts'
import {
  PERCENTILE_FRACTIONS_MAX,
  type PercentileQuery,
  percentile,
} from '../../src/query/plan/percentile.ts'
import { newContext } from '../../src/query/plan/plan-context.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import * as model from './metric-model.ts'
import { TestPool } from './pool.ts'

const pool = new TestPool()
afterAll(() => pool.close())

const FROM_US = 1_700_000_000_000_000n
const TO_US = FROM_US + 40n * model.DAY_US
const NUMBERS = ['n', 'big', 'f64']

/** The value at a fraction of the sorted numbers, on the line between its two neighbours. */
function quantile(sorted: readonly number[], fraction: number): number | null {
  if (sorted.length === 0) return null
  const place = fraction * (sorted.length - 1)
  const [low, high] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!]
  return low + (high - low) * (place - Math.floor(place))
}

test('random percentiles', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  let nulls = 0
  for (let part = 0; part < 3; part++) {
    const rows = Array.from({ length: part * 90 }, () => model.randomRow(random, FROM_US, TO_US))
    const { live, segments } = await model.store(pool, random, rows)
    for (let i = 0; i < 40; i++) {
      const column = model.pick(random, NUMBERS)
      const fraction = () => model.pick(random, [0, 0.5, 0.95, 1, 1e-7, random(), random()])
      const count = model.pick(random, [1, 3, PERCENTILE_FRACTIONS_MAX])
      const fractions = Array.from({ length: count }, fraction)
      const timeRange = model.randomRange(random, FROM_US, TO_US)
      const { selection, holds } = model.randomCondition(random)
      const { policy, sees } = model.randomPolicy(random)
      const query = { column, fractions, timeRange, ...selection }
      const cells = live
        .filter(row => sees(row) && holds(row) && model.inRange(timeRange, row))
        .flatMap(row => row[column] ?? [])
      const sorted = cells.map(Number).sort((a, b) => a - b)
      const about = `seed ${seed}: ${JSON.stringify(query)}`
      const got = await pool.answer(percentile, model.SCHEMA, query, segments, { policy })
      if ('badRequest' in got) throw new Error(`${about}: ${got.badRequest}`)
      expect(got.fractions).toEqual(fractions)
      expect(got.values, about).toHaveLength(count)
      if (sorted.length === 0) nulls++
      // Two ways to interpolate differ in the last digits of the larger neighbour.
      const tolerance = 1e-12 * Math.max(1, ...sorted.map(Math.abs))
      for (const [index, text] of got.values.entries()) {
        const want = quantile(sorted, fractions[index]!)
        if (want === null) expect(text, about).toBe(null)
        else expect(Math.abs(Number(text ?? Number.NaN) - want), about).toBeLessThanOrEqual(tolerance)
      }
    }
  }
  expect(nulls).toBeGreaterThan(0)
})

test('a value between two others is rounded in one way', async () => {
  const rows = [
    { at: FROM_US, big: 0n, f64: 0.1 },
    { at: FROM_US, big: 4_611_686_018_427_387_904n, f64: 123_456.75 },
  ]
  const segment = await pool.segment(model.SCHEMA, rows)
  // As a DECIMAL the first one would be rounded twice.
  for (const fraction of [0.9553270749747753, 0.47712100576609373, 0.3]) {
    const ask = async (column: string) => {
      const query = { column, fractions: [fraction] }
      return await pool.answer(percentile, model.SCHEMA, query, [segment])
    }
    expect(await ask('big')).toMatchObject({ values: [String(2 ** 62 * fraction)] })
    const between = 0.1 * (1 - fraction) + 123_456.75 * fraction
    expect(await ask('f64')).toMatchObject({ values: [String(between)] })
  }
})

test('all fractions are one aggregate, which keeps the values once', () => {
  const query = { column: 'n', fractions: [0.5, 1e-7, 0.5] }
  const plan = percentile.plan(model.SCHEMA, query, newContext(0))
  const all = 'quantile_cont(("n")::DOUBLE, [5e-1, 1e-7, 5e-1])'
  expect(duckdb.write(plan)).toMatchObject({
    sql: `SELECT (${all})[1] AS "_service_p0", (${all})[2] AS "_service_p1", (${all})[1] AS "_service_p2" FROM rows`,
  })
})

test('a column that is no number, unknown or hidden is refused', async () => {
  const refused = async (more: Partial<PercentileQuery>, columns: readonly string[] = ['*']) => {
    const policy = { columns, rows: [], filterSql: null, values: {} }
    const query = { column: 'n', fractions: [0.5], ...more }
    const answer = await pool.answer(percentile, model.SCHEMA, query, [], { policy })
    return (answer as BadQuery).badRequest
  }
  for (const [column, type] of [
    ['name', 'STRING'],
    ['flag', 'BOOLEAN'],
    ['day', 'DATE'],
    ['at', 'TIMESTAMP'],
    ['_service_payload', 'JSON'],
  ] as const)
    expect(await refused({ column })).toBe(`column "${column}" is ${type}: only numbers have percentiles`)
  expect(await refused({ column: 'no' })).toBe('there is no column "no"')
  expect(await refused({ column: 'big' }, ['n'])).toBe('there is no column "big"')
  expect(await refused({ filterSql: 'no = 1' })).toBe(
    `filterSql: there is no column "no"; a text is in single quotes: 'no'`,
  )
  expect(await refused({ timeZone: 'Mars/Olympus' })).toMatch(/not an IANA time zone/)
})

test('fractions are 1 to 20, each 0 to 1', () => {
  const noMetric = () => {
    throw new Error('a percentile is of no metric')
  }
  const read = (fractions: readonly number[]) =>
    refusable(() => percentile.read({ dataPool: { name: 'p' }, columnName: 'n', fractions }, noMetric))
  const many = (length: number) => Array.from({ length }, () => 0.5)
  for (const right of [[0], [1], [0.5, 0.5], many(20)])
    expect(read(right)).toMatchObject({ query: { fractions: right }, isPredefined: false })
  for (const wrong of [[], many(21)])
    expect(read(wrong)).toEqual({ badRequest: 'fractions: there are 1 to 20' })
  for (const wrong of [-0.001, 1.001, 50, Number.NaN, Number.POSITIVE_INFINITY])
    expect(read([0.5, wrong])).toEqual({ badRequest: `fractions: ${wrong} is not between 0 and 1` })
})
