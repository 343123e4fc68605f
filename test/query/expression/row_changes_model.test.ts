/**
 * Random expressions of a known type as the new values of a column: what a job finds for each row
 * is what plain JavaScript computes.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ColumnType } from '../../../src/format/schema.ts'
import { printInstant } from '../../../src/query/expression/print-values.ts'
import { below, casesWithin, newSeed, type Random, randomFrom } from '../../util/random.ts'
import { type Cell, type Row, schemaOf, TestPool } from '../pool.ts'
import { pick } from './random-expressions.ts'
import { RowChangesFinder } from './row-changes.ts'

const SCHEMA = schemaOf([
  ['flag', 'BOOLEAN'],
  ['word', 'STRING'],
  ['small', 'INT8'],
  ['big', 'INT64'],
  ['real', 'DOUBLE'],
  ['time', 'TIMESTAMP'],
])

/** An expression as SQL and as a function. Integers are bigint: they never overflow on the way. */
interface Of<T> {
  readonly sql: string
  readonly of: (row: Row) => T | null
}

const BIGS = [0n, 1n, -7n, 127n, -128n, 128n, 9_007_199_254_740_993n, 2n ** 63n - 1n, -(2n ** 63n)]
const WORDS = ['', 'a', 'Ab', "it's", '12', 'nan', 'é𝄞']
const REALS = [0, 0.5, -2.25, 1e300, 7]
const HOUR_US = 3_600_000_000n

const column = <T>(name: string): Of<T> => ({ sql: name, of: row => (row[name] ?? null) as T | null })
const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`

/** A function of values none of which is null. */
function strict<A, B, T>(a: Of<A>, b: Of<B>, of: (a: A, b: B) => T | null): Of<T>['of'] {
  return row => {
    const [x, y] = [a.of(row), b.of(row)]
    return x === null || y === null ? null : of(x, y)
  }
}

/** `if`, coalesce or CASE over two expressions of one type. */
function either<T>(random: Random, depth: number, a: Of<T>, b: Of<T>): Of<T> {
  if (below(random, 2) === 0)
    return { sql: `coalesce(${a.sql}, ${b.sql})`, of: row => a.of(row) ?? b.of(row) }
  const when = condition(random, depth)
  return {
    sql: `CASE WHEN ${when.sql} THEN ${a.sql} ELSE ${b.sql} END`,
    of: row => (when.of(row) === true ? a.of(row) : b.of(row)),
  }
}

function integer(random: Random, depth: number): Of<bigint> {
  if (depth === 0) {
    if (below(random, 2) === 0) return column(pick(random, ['small', 'big']))
    const value = pick(random, BIGS)
    // A literal alone is no expression of two integers with a column's type.
    return { sql: `(${value} + 0)`, of: () => value }
  }
  const [a, b] = [integer(random, depth - 1), integer(random, 0)]
  switch (below(random, 6)) {
    case 0:
      return { sql: `(${a.sql} + ${b.sql})`, of: strict(a, b, (x, y) => x + y) }
    case 1:
      return { sql: `(${a.sql} - ${b.sql})`, of: strict(a, b, (x, y) => x - y) }
    case 2:
      return { sql: `(${a.sql} % ${b.sql})`, of: strict(a, b, (x, y) => (y === 0n ? null : x % y)) }
    case 3:
      return { sql: `(-${a.sql})`, of: strict(a, a, x => -x) }
    case 4: {
      const word = text(random, depth - 1)
      return { sql: `length(${word.sql})`, of: strict(word, word, x => BigInt([...x].length)) }
    }
    default:
      return either(random, depth - 1, a, b)
  }
}

function text(random: Random, depth: number): Of<string> {
  if (depth === 0) {
    if (below(random, 2) === 0) return column('word')
    const value = pick(random, WORDS)
    return { sql: `coalesce(NULL, ${quoted(value)})`, of: () => value }
  }
  const [a, b] = [text(random, depth - 1), text(random, 0)]
  switch (below(random, 5)) {
    case 0:
      return { sql: `(${a.sql} || ${b.sql})`, of: strict(a, b, (x, y) => x + y) }
    case 1:
      return { sql: `concat(${a.sql}, ${b.sql})`, of: row => `${a.of(row) ?? ''}${b.of(row) ?? ''}` }
    case 2:
      return { sql: `upper(${a.sql})`, of: strict(a, a, x => x.toUpperCase()) }
    case 3: {
      const number = integer(random, depth - 1)
      return { sql: `CAST(${number.sql} AS VARCHAR)`, of: strict(number, number, x => String(x)) }
    }
    default:
      return either(random, depth - 1, a, b)
  }
}

function condition(random: Random, depth: number): Of<boolean> {
  if (depth === 0) return column('flag')
  switch (below(random, 5)) {
    case 0: {
      const [a, b] = [integer(random, depth - 1), integer(random, 0)]
      return { sql: `(${a.sql} < ${b.sql})`, of: strict(a, b, (x, y) => x < y) }
    }
    case 1: {
      const [a, b] = [text(random, depth - 1), text(random, 0)]
      return { sql: `(${a.sql} = ${b.sql})`, of: strict(a, b, (x, y) => x === y) }
    }
    case 2: {
      const a = condition(random, depth - 1)
      return { sql: `(NOT ${a.sql})`, of: strict(a, a, x => !x) }
    }
    case 3: {
      const a = pick(random, [integer, text, instant])(random, depth - 1)
      return { sql: `(${a.sql} IS NULL)`, of: row => a.of(row) === null }
    }
    default: {
      const [a, b] = [condition(random, depth - 1), condition(random, 0)]
      const both = (row: Row) => [a.of(row), b.of(row)]
      return {
        sql: `(${a.sql} AND ${b.sql})`,
        of: row => (both(row).includes(false) ? false : both(row).includes(null) ? null : true),
      }
    }
  }
}

function real(random: Random, depth: number): Of<number> {
  if (depth === 0) return column('real')
  const a = real(random, depth - 1)
  switch (below(random, 5)) {
    case 0:
      return { sql: `(${a.sql} * 0.5)`, of: strict(a, a, x => x * 0.5) }
    case 1: {
      const b = integer(random, 0)
      const of = strict(a, b, (x, y) => (y === 0n ? null : x / Number(y)))
      return { sql: `(${a.sql} / ${b.sql})`, of }
    }
    case 2:
      return { sql: `floor(${a.sql})`, of: strict(a, a, x => Math.floor(x)) }
    case 3: {
      const word = text(random, depth - 1)
      const of = strict(word, word, x => (/^-?\d+$/.test(x) ? Number(x) : null))
      return { sql: `CAST(${word.sql} AS DOUBLE)`, of }
    }
    default:
      return either(random, depth - 1, a, real(random, 0))
  }
}

function instant(random: Random, depth: number): Of<bigint> {
  if (depth === 0) return column('time')
  const a = instant(random, depth - 1)
  switch (below(random, 4)) {
    case 0: {
      const hours = below(random, 50) - 25
      const sql = `(${a.sql} + INTERVAL '${hours}' HOUR)`
      return { sql, of: strict(a, a, x => x + BigInt(hours) * HOUR_US) }
    }
    case 1: {
      const start = (x: bigint) => x - (((x % HOUR_US) + HOUR_US) % HOUR_US)
      return { sql: `date_trunc('hour', ${a.sql})`, of: strict(a, a, start) }
    }
    case 2: {
      const hours = 1 + below(random, 14)
      const sign = pick(random, ['+', '-'])
      const zone = `${sign}${String(hours).padStart(2, '0')}:30`
      const ahead = (sign === '+' ? 1n : -1n) * (BigInt(hours) * HOUR_US + HOUR_US / 2n)
      // A column alone may have an offset in its text already.
      const plain = `(${a.sql} + INTERVAL '0' HOUR)`
      const sql = `CAST(CAST(${plain} AS VARCHAR) || '${zone}' AS TIMESTAMP)`
      return { sql, of: strict(a, a, x => x - ahead) }
    }
    default:
      return either(random, depth - 1, a, column<bigint>('time'))
  }
}

const within = (bits: bigint) => (value: bigint) =>
  value >= -(1n << (bits - 1n)) && value < 1n << (bits - 1n) ? String(value) : null

/** Each column with expressions of its type, and how it prints a value that it holds. */
const COLUMNS: readonly (readonly [
  string,
  (random: Random, depth: number) => Of<never>,
  (value: never) => string | null,
])[] = [
  ['flag', condition as never, ((value: boolean) => String(value)) as never],
  ['word', text as never, ((value: string) => value) as never],
  ['small', integer as never, within(8n) as never],
  ['big', integer as never, within(64n) as never],
  ['real', real as never, ((value: number) => String(value + 0)) as never],
  ['time', instant as never, printInstant as never],
]

function randomRow(random: Random): Row {
  const values: Readonly<Record<string, (type: ColumnType) => Cell>> = {
    flag: () => below(random, 2) === 0,
    word: () => pick(random, WORDS),
    small: () => BigInt(below(random, 256) - 128),
    big: () => pick(random, BIGS),
    real: () => pick(random, REALS),
    time: () => 1_700_000_000_123_456n + BigInt(below(random, 1_000_000)) * 1_000_000n,
  }
  return Object.fromEntries(
    SCHEMA.columns.map(({ name, type }) => [name, below(random, 5) === 0 ? null : values[name]!(type)]),
  )
}

const seed = newSeed()
const CASES = { what: 'new values', seed, seconds: 2.5, least: 100, most: 500 }
const random = randomFrom(seed)
const rows = Array.from({ length: 40 }, () => randomRow(random))
const pool = new TestPool()
let finder: RowChangesFinder
beforeAll(async () => {
  finder = new RowChangesFinder(pool, SCHEMA, await pool.segment(SCHEMA, rows), await pool.engine())
})
afterAll(async () => {
  finder.close()
  await pool.close()
})

test(`new values are those of plain JavaScript, seed ${seed}`, async () => {
  let values = 0
  const cases = await casesWithin(CASES, async i => {
    const depth = 1 + (i % 3)
    const when = condition(random, depth)
    const chosen = COLUMNS.filter(() => below(random, 2) === 0)
    const made = chosen.map(([name, make, print]) => ({ name, print, value: make(random, depth) }))
    const set = made.map(({ name, value }) => ({ column: name, expression: value.sql }))
    const found = await finder.find({ filterSql: when.sql, set })
    const what = `seed ${seed}: ${JSON.stringify(set)} WHERE ${when.sql}`
    if (typeof found === 'string') throw new Error(`${what}: ${found}`)
    const wanted = rows.flatMap((row, index) => {
      if (when.of(row) !== true) return []
      const printed = made.map(({ value, print }) => {
        const of = value.of(row)
        return of === null ? null : print(of)
      })
      return [[index, printed] as const]
    })
    expect([...found], what).toEqual(wanted)
    values += wanted.length * made.length
  })
  expect(values).toBeGreaterThan(10 * cases)
}, 120_000)
