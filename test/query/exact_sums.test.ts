/**
 * Sums and averages of doubles with the native module: the sum by whole numbers without end,
 * rounded once, for values of every size, in any order, over any groups and threads.
 */
import {
  DOUBLE,
  type DuckDBConnection,
  DuckDBDataChunk,
  type DuckDBInstance,
  INTEGER,
} from '@duckdb/node-api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSandbox } from '../../src/query/duckdb/duckdb-instances.ts'
import { EXACT_AVERAGE, EXACT_SUM, withoutModule } from '../../src/query/duckdb/exact-sums.ts'
import { typedError } from '../../src/util/duckdb-errors.ts'
import { casesOf, newSeed, type Random, randomFrom } from '../util/random.ts'
import { pick } from './metric-model.ts'
import { TestPool } from './pool.ts'

const pool = new TestPool()
let duckdb: DuckDBInstance
let connection: DuckDBConnection

beforeAll(async () => {
  const sandbox = await openSandbox(pool.nativeSettings)
  expect(sandbox.hasIsLive).toBe(true)
  duckdb = sandbox.duckdb
  connection = await duckdb.connect()
})
afterAll(async () => {
  connection.closeSync()
  duckdb.closeSync()
  await pool.close()
})

async function rowsOf(sql: string, from = connection): Promise<readonly (readonly unknown[])[]> {
  return await (await from.run(sql)).getRows()
}

const bits = new DataView(new ArrayBuffer(8))

/** A finite double in units of the least one, 2^-1074. */
function unitsOf(value: number): bigint {
  bits.setFloat64(0, value)
  const all = bits.getBigUint64(0)
  const exponent = (all >> 52n) & 0x7ffn
  const fraction = all & ((1n << 52n) - 1n)
  const size = exponent === 0n ? fraction : (fraction | (1n << 52n)) << (exponent - 1n)
  return all >> 63n === 1n ? -size : size
}

/** The nearest double to a number of units. JavaScript rounds the first 64 bits, which suffice. */
function doubleOf(units: bigint): number {
  const size = units < 0n ? -units : units
  const dropped = Math.max(0, size.toString(2).length - 64)
  const rest = size & ((1n << BigInt(dropped)) - 1n)
  const first = (size >> BigInt(dropped)) | (rest === 0n ? 0n : 1n)
  const value = Number(first) * 2 ** (dropped - 1074)
  return units < 0n ? -value : value
}

/** Values as events have them, and others. */
const KINDS: readonly ((random: Random) => number)[] = [
  random => Math.floor(random() * 1e7) / 100,
  random => (random() - 0.5) * 10 ** Math.floor(random() * 8),
  random => Math.floor(random() * 3) - 1,
  random => random() * 2 ** -60,
  random => (random() - 0.5) * 2 ** Math.floor(random() * 130 - 70),
  random => (random() - 0.5) * 2 ** Math.floor(random() * 2090 - 1070),
  random => (random() - 0.5) * 1.7e308,
  random => Math.floor(random() * 9) * 5e-324,
  random => pick(random, [Number.MAX_VALUE, -Number.MAX_VALUE, 2 ** 53, 2 ** 53 - 1, -(2 ** -80), 2 ** -81]),
  random => pick(random, [1e16, 1, -1e16, 1e-16]),
  () => 0,
]

interface Value {
  readonly group: number
  readonly value: number | null
}

function randomValues(random: Random): readonly Value[] {
  const count = pick(random, [1, 3, 255, 256, 257, 2_048, 5_000])
  const groups = pick(random, [1, 1, 3, 400])
  const kinds = [pick(random, KINDS), pick(random, KINDS)]
  const others = pick(random, [0, 0.001, 0.3])
  const nulls = pick(random, [0, 0, 0.2, 1])
  return Array.from({ length: count }, () => ({
    group: Math.floor(random() * groups),
    value: random() < nulls ? null : kinds[random() < others ? 1 : 0]!(random),
  }))
}

/** The values one after the other, and their negatives with one more: sums that cancel. */
function cancelled(values: readonly Value[]): readonly Value[] {
  const negatives = values.map(({ group, value }) => ({ group, value: value === null ? null : -value }))
  return [...values, ...negatives, { group: 0, value: 1e-300 }]
}

async function keep(values: readonly Value[]): Promise<void> {
  await connection.run('CREATE OR REPLACE TEMP TABLE v (g INTEGER, x DOUBLE)')
  const appender = await connection.createAppender('v')
  for (let from = 0; from < values.length; from += 2_048) {
    const part = values.slice(from, from + 2_048)
    const chunk = DuckDBDataChunk.create([INTEGER, DOUBLE])
    chunk.setColumns([part.map(({ group }) => group), part.map(({ value }) => value)])
    appender.appendDataChunk(chunk)
  }
  appender.closeSync()
}

/** By group: the sum and the average. */
function expected(values: readonly Value[]): ReadonlyMap<number, readonly [number, number]> {
  const sums = new Map<number, { units: bigint; count: number }>()
  for (const { group, value } of values) {
    if (value === null) continue
    const { units, count } = sums.get(group) ?? { units: 0n, count: 0 }
    sums.set(group, { units: units + unitsOf(value), count: count + 1 })
  }
  const pairs = [...sums].map(([group, { units, count }]) => {
    const sum = doubleOf(units)
    return [group, [sum, sum / count]] as const
  })
  return new Map(pairs)
}

const SUMS = `${EXACT_SUM}(x), ${EXACT_AVERAGE}(x)`
const SUMS_OF_STATES = `${EXACT_SUM}_of_states(s), ${EXACT_AVERAGE}_of_states(s)`

test('random values have the sum of whole numbers', { timeout: 120_000 }, async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  for (let round = 0; round < casesOf(40, 1_000); round++) {
    const first = randomValues(random)
    const values = random() < 0.3 ? cancelled(first) : first
    await keep(values)
    const known = expected(values)
    const parts = `SELECT g, ${EXACT_SUM}_state(x) AS s FROM v GROUP BY g, hash(x) % 5`
    for (const grouped of [
      ...['g', 'x', 'hash(x, g)'].map(
        order => `SELECT g, ${SUMS} FROM (SELECT * FROM v ORDER BY ${order}) GROUP BY g`,
      ),
      `SELECT g, ${SUMS_OF_STATES} FROM (${parts}) GROUP BY g`,
    ])
      for (const [group, ...both] of await rowsOf(grouped))
        expect(both, `seed ${seed}, round ${round}, ${grouped}, group ${group}`).toEqual(
          known.get(Number(group)) ?? [null, null],
        )
    const [all] = [...expected(values.map(({ value }) => ({ group: 0, value }))).values()]
    const [sums] = await rowsOf(`SELECT ${SUMS} FROM v`)
    expect(sums, `seed ${seed}, round ${round}`).toEqual(all ?? [null, null])
  }
})

test('two threads and many groups give the sum of whole numbers', async () => {
  // Eighths, beside large values that cancel: some in the same vector, and some in other ones.
  const values = `SELECT i % 7000 AS g, i % 1013 AS n, unnest([(i % 1013) / 8, 1e300 * (i % 5), -1e300 * (i % 5)]) AS x
    FROM range(300000) t(i)`
  for (const order of ['', 'ORDER BY hash(x, g)']) {
    const sums = `SELECT g, ${EXACT_SUM}(x) AS s, sum(n) / 24 AS n FROM (${values} ${order}) GROUP BY g`
    expect(await rowsOf(`SELECT count(*), count(*) FILTER (s <> n) FROM (${sums})`)).toEqual([[7_000n, 0n]])
  }
})

test('what is no number, and what is beyond a double', async () => {
  const sumOf = async (...values: string[]) =>
    (
      await rowsOf(
        `SELECT ${SUMS} FROM (SELECT unnest([${values.map(value => `${value}::DOUBLE`).join(', ')}]) AS x)`,
      )
    )[0]
  const [nan, plus, minus] = ["'nan'", "'infinity'", "'-infinity'"] as const
  expect(await sumOf('1', nan, plus)).toEqual([Number.NaN, Number.NaN])
  expect(await sumOf(plus, minus, '1')).toEqual([Number.NaN, Number.NaN])
  expect(await sumOf('1', plus, 'NULL', plus)).toEqual([Infinity, Infinity])
  expect(await sumOf(minus, '1e308')).toEqual([-Infinity, -Infinity])
  expect(await sumOf('1e308', '1e308')).toEqual([Infinity, Infinity])
  expect(await sumOf('1e308', '1e308', '-1e308', '-1e308', '0.5', 'NULL')).toEqual([0.5, 0.1])
  expect(await sumOf('NULL')).toEqual([null, null])
  expect(await sumOf('-0.0')).toEqual([0, 0])
})

test('W-9: sums that need much memory are refused before they take it', { timeout: 60_000 }, async () => {
  const sums = (groups: number) => `SELECT count(s) FROM
    (SELECT i AS g, ${EXACT_SUM}(1e300 + i) AS s FROM range(${groups}) t(i) GROUP BY g)`
  const error = await connection.run(sums(1_500_000)).catch((thrown: unknown) => thrown)
  const typed = await typedError(error, 'query', [], rowsOf)
  expect(typed).toMatchObject({ code: 'query_memory' })
  // All of it was given back.
  expect(await rowsOf(sums(500_000))).toEqual([[500_000n]])
})

test('without the native module sums compensate', async () => {
  const js = await openSandbox({ ...pool.nativeSettings, kernel: 'js' })
  const other = await js.duckdb.connect()
  const sql = `SELECT ${SUMS} FROM (SELECT unnest([0.1, 0.2, NULL, 0.3]) AS x)`
  expect(await rowsOf(withoutModule(sql), other)).toEqual([[0.6, 0.6 / 3]])
  expect(await rowsOf(sql)).toEqual([[0.6, 0.6 / 3]])
  other.closeSync()
  js.duckdb.closeSync()
})
