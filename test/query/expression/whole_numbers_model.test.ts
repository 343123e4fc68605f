/**
 * Literals of every size and form beside whole numbers, against BigInt: no comparison rounds. A
 * literal is a fraction of two BigInts in the model.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { QuerySegment } from '../../../src/index/index-types.ts'
import { below, newSeed, type Random, randomFrom } from '../../util/random.ts'
import { schemaOf, TestPool } from '../pool.ts'

const ROUNDS = 400
const COLUMNS = [
  ['i8', 8n],
  ['i16', 16n],
  ['i32', 32n],
  ['i64', 64n],
] as const
const schema = schemaOf([
  ['i8', 'INT8'],
  ['i16', 'INT16'],
  ['i32', 'INT32'],
  ['i64', 'INT64'],
  ['f64', 'DOUBLE'],
])
const pool = new TestPool()
let segments: readonly QuerySegment[]
let rows: readonly Readonly<Record<string, bigint | null>>[]

/** The ends of a type, the ends of what a double holds exactly, and their neighbours. */
function valuesOf(bits: bigint): readonly (bigint | null)[] {
  const end = 1n << (bits - 1n)
  const near = [-end, -(2n ** 53n), 0n, 2n ** 53n, end - 1n]
  const all = near.flatMap(value => [-2n, -1n, 0n, 1n, 2n].map(step => value + step))
  return [...new Set(all.filter(value => value >= -end && value < end)), null]
}

beforeAll(async () => {
  const values = COLUMNS.map(([name, bits]) => [name, valuesOf(bits)] as const)
  const count = Math.max(...values.map(([, list]) => list.length))
  rows = Array.from({ length: count }, (_, index) =>
    Object.fromEntries(values.map(([name, list]) => [name, list[index % list.length] ?? null])),
  )
  segments = [await pool.segment(schema, rows)]
})
afterAll(() => pool.close())

/** A literal, and its value: `units` of 1 / `scale`. */
interface Number_ {
  readonly text: string
  readonly units: bigint
  readonly scale: bigint
}

/** A number near the interesting ones, in one of the forms of SQL. */
function randomNumber(random: Random): Number_ {
  const pick = <T>(list: readonly T[]): T => list[below(random, list.length)]!
  const power = pick([7, 15, 31, 53, 62, 63, 64, 65, 124, 125, 126, 127, 128, 200])
  const near = pick([1n, -1n]) * 2n ** BigInt(power) + BigInt(below(random, 7) - 3)
  const form = pick(['whole', 'whole', 'fraction', 'exponent'] as const)
  if (form === 'whole') return { text: String(near), units: near, scale: 1n }
  if (form === 'exponent') {
    const digits = pick([1n, -1n, 92n, -92n, 9223372036854775808n])
    const exponent = pick([0, 1, 17, 18, 19, 30, 37, 38, 39, 280])
    const units = digits * 10n ** BigInt(exponent)
    return { text: `${digits}e${exponent}`, units, scale: 1n }
  }
  const decimals = pick(['0', '5', '000', '25', '000000000000000000000001'])
  const scale = 10n ** BigInt(decimals.length)
  const sign = near < 0n ? -1n : 1n
  return { text: `${near}.${decimals}`, units: near * scale + sign * BigInt(decimals), scale }
}

const OPERATORS = {
  '=': (order: number) => order === 0,
  '<>': (order: number) => order !== 0,
  '<': (order: number) => order < 0,
  '<=': (order: number) => order <= 0,
  '>': (order: number) => order > 0,
  '>=': (order: number) => order >= 0,
} as const

/** The order of a value and a number, undefined for null. */
function orderOf(value: bigint | null | undefined, { units, scale }: Number_): number | undefined {
  if (value === null || value === undefined) return undefined
  const scaled = value * scale
  return scaled < units ? -1 : scaled > units ? 1 : 0
}

async function count(filterSql: string): Promise<number> {
  return Number(await pool.counter(schema, { metric: { kind: 'count' }, filterSql }, segments))
}

type Matches = (row: Readonly<Record<string, bigint | null>>) => boolean

/** A random condition on a column, and its meaning. SQL's unknown and false are the same here. */
function randomCondition(random: Random): readonly [sql: string, matches: Matches] {
  const [column] = COLUMNS[below(random, COLUMNS.length)]!
  const [a, b] = [randomNumber(random), randomNumber(random)]
  const order = (row: Parameters<Matches>[0], number: Number_) => orderOf(row[column], number)
  const is = (row: Parameters<Matches>[0], number: Number_, operator: keyof typeof OPERATORS) => {
    const found = order(row, number)
    return found !== undefined && OPERATORS[operator](found)
  }
  const operators = Object.keys(OPERATORS) as (keyof typeof OPERATORS)[]
  const operator = operators[below(random, operators.length)]!
  const isNull = (row: Parameters<Matches>[0]) => row[column] === null
  switch (below(random, 10)) {
    case 0:
      return [`${column} IN (${a.text}, ${b.text})`, row => is(row, a, '=') || is(row, b, '=')]
    case 1:
      return [
        `${column} NOT IN (${a.text}, 7, ${b.text})`,
        row => !isNull(row) && !is(row, a, '=') && !is(row, b, '=') && row[column] !== 7n,
      ]
    case 2:
      return [`${column} BETWEEN ${a.text} AND ${b.text}`, row => is(row, a, '>=') && is(row, b, '<=')]
    case 3:
      return [`${a.text} BETWEEN ${column} AND ${column}`, row => is(row, a, '=')]
    case 4:
      return [`${column} IS DISTINCT FROM ${a.text}`, row => !is(row, a, '=')]
    case 5:
      return [`${column} IS NOT DISTINCT FROM ${a.text}`, row => is(row, a, '=')]
    case 6: {
      const turned = { '=': '=', '<>': '<>', '<': '>', '<=': '>=', '>': '<', '>=': '<=' }[operator]
      return [`${a.text} ${turned} ${column}`, row => is(row, a, operator)]
    }
    case 7:
      return [`CASE ${column} WHEN ${a.text} THEN true ELSE false END`, row => is(row, a, '=')]
    case 8:
      return [`NULLIF(${column}, ${a.text}) IS NOT NULL`, row => !isNull(row) && !is(row, a, '=')]
    default:
      return [`${column} ${operator} ${a.text}`, row => is(row, a, operator)]
  }
}

test('random literals select the rows that BigInt selects', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  for (let round = 0; round < ROUNDS; round++) {
    const [sql, matches] = randomCondition(random)
    expect(await count(sql), `seed ${seed}: ${sql}`).toBe(rows.filter(matches).length)
  }
}, 120_000)

describe('a number beyond 64 bits', () => {
  test.each([
    ['i64 = 9223372036854775808', 0],
    ['i64 = -9223372036854775809', 0],
    ['i64 >= 9223372036854775808', 0],
    ['i64 = 9223372036854775807.0', 1],
    ['i64 > 9223372036854775806.5', 1],
    ['i64 = 9007199254740993.0', 1],
    ["i64 + 0 = '9223372036854775808'", 0],
    ['i64 + 1 = 9223372036854775808', 1],
    ['i64 = COALESCE(NULL, 9223372036854775808)', 0],
    ['9223372036854775807 = 9223372036854775808', 0],
    ['i64 < 1e300 AND i64 > -1e300 AND i64 = 0', 1],
    ['i64 = 1e-300', 0],
  ])('%s', async (sql, expected) => {
    expect(await count(sql)).toBe(expected)
  })

  test('a placeholder of a policy that is a number', async () => {
    const policy = (value: number) => ({
      columns: ['*'],
      rows: [],
      filterSql: `i64 >= \${{ least }}`,
      values: { least: value },
    })
    const ask = (value: number) =>
      pool.ask(schema, { metric: { kind: 'count' } }, segments, { policy: policy(value) })
    expect(await ask(2 ** 63)).toBe('0')
    expect(await ask(-(2 ** 63) - 2 ** 12)).toBe(String(rows.filter(row => row['i64'] !== null).length))
  })

  test('is refused by a structured filter, which takes values of the column', async () => {
    const filters = [{ column: 'i64', operator: 'EQUALS' as const, value: '9223372036854775808' }]
    expect(await pool.ask(schema, { metric: { kind: 'count' }, filters }, segments)).toEqual({
      badRequest: 'column "i64": "9223372036854775808" is not an INT64 value',
    })
  })

  test('is a DOUBLE beside a DOUBLE, as in SQL', async () => {
    const segment = await pool.segment(schema, [{ f64: 2 ** 63 }, { f64: 0 }])
    const ask = (filterSql: string) =>
      pool.counter(schema, { metric: { kind: 'count' }, filterSql }, [segment])
    expect(await ask('f64 = 9223372036854775807')).toBe('1')
    expect(await ask('f64 IN (9223372036854775809, 1)')).toBe('1')
  })
})
