/** Random filters over random rows: DuckDB must select the rows that a plain evaluator selects. */
import { afterAll, expect, test } from 'vitest'
import { COLUMN_TYPES, type ColumnType } from '../../src/format/schema.ts'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { FILTER_OPERATORS, type Filter } from '../../src/query/plan/where.ts'
import { below, randomFrom } from '../util/random.ts'
import { type Cell, type Row, schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const schema = schemaOf(COLUMN_TYPES.map(type => [`"${type}"; --`, type] as const))
const pool = new TestPool()
afterAll(() => pool.close())

/** Few values of each type, so that comparisons hit: the stored value, and texts that mean it. */
const VALUES: Readonly<Record<ColumnType, readonly (readonly [Cell, ...string[]])[]>> = {
  BOOLEAN: [
    [true, 'true'],
    [false, 'false'],
  ],
  STRING: ['', 'a', 'A', 'ab', 'a_b', 'a%b', 'a\\b', "it's", 'é', '𝄞', '\uffff', 'a\nb', 'x\0y'].map(
    text => [text, text] as const,
  ),
  FLOAT: [
    [Math.fround(0.1), '0.1', '1e-1'],
    [0, '0', '-0'],
    [-2.5, '-2.5'],
    [Math.fround(1e38), '1e38'],
  ],
  DOUBLE: [
    [0.1, '0.1'],
    [0, '0', '-0.0'],
    [-2.5, '-25e-1'],
    [1e300, '1e300'],
  ],
  INT8: [
    [-128n, '-128'],
    [0n, '0', '0.0'],
    [100n, '1e2', '100'],
  ],
  INT16: [
    [-32768n, '-32768'],
    [7n, '7.0'],
    [32767n, '32767'],
  ],
  INT32: [
    [-2147483648n, '-2147483648'],
    [7n, '7'],
    [2147483647n, '2147483647'],
  ],
  INT64: [
    [-9223372036854775808n, '-9223372036854775808'],
    [9007199254740992n, '9007199254740992'],
    [9007199254740993n, '9007199254740993'],
    [9223372036854775807n, '9223372036854775807'],
  ],
  DATE: [
    [-1n, '1969-12-31'],
    [0n, '1970-01-01'],
    [19675n, '2023-11-14'],
  ],
  TIMESTAMP: [
    [0n, '1970-01-01', '0'],
    [1n, '1970-01-01T00:00:00.000001Z'],
    [1_700_000_000_000_000n, '1700000000', '2023-11-14T23:13:20+01:00'],
    [-62_135_596_800_000_000n, '0001-01-01'],
  ],
  JSON: [
    ['{"a":1}', '{"a":1}'],
    ['{"a": 1}', '{"a": 1}'],
    ['"x"', '"x"'],
    ['1', '1'],
  ],
}
const PATTERNS = [
  '%',
  '',
  'a%',
  '_',
  '__',
  'a\\_b',
  'a\\%b',
  'a\\\\b',
  '%\\b',
  'A',
  '%b',
  '_%b',
  '%\0%',
  '\\a',
]

type Pick = <T>(list: readonly T[]) => T

function randomFilter(pick: Pick, random: (below: number) => number, depth: number): Filter {
  const column = pick(schema.columns)
  const rest = ['EQUALS', 'NOT_EQUALS', 'IS_NULL', 'IS_NOT_NULL'] as const
  const allowed = FILTER_OPERATORS.filter(operator =>
    column.type === 'JSON'
      ? (rest as readonly string[]).includes(operator)
      : column.type === 'STRING' || !operator.includes('LIKE'),
  )
  const operator = pick(allowed)
  const [, ...texts] = pick(VALUES[column.type])
  const value = operator.includes('NULL') ? '' : operator.includes('LIKE') ? pick(PATTERNS) : pick(texts)
  const inner = () =>
    depth > 0 && random(3) === 0
      ? Array.from({ length: 1 + random(2) }, () => randomFilter(pick, random, depth - 1))
      : null
  return { column: column.name, operator, value, and: inner(), or: inner() }
}

function matches(filter: Filter, row: Row): boolean {
  const own = matchesOwn(filter, row) && (filter.and ?? []).every(each => matches(each, row))
  return own || (filter.or ?? []).some(each => matches(each, row))
}

function matchesOwn({ column, operator, value }: Filter, row: Row): boolean {
  const cell = row[column] ?? null
  if (operator === 'IS_NULL') return cell === null
  if (cell === null) return false
  if (operator === 'IS_NOT_NULL') return true
  if (operator === 'LIKE' || operator === 'NOT_LIKE')
    return like(String(cell), value!) === (operator === 'LIKE')
  const type = schema.columns.find(({ name }) => name === column)!.type
  const wanted = VALUES[type].find(([, ...texts]) => texts.includes(value!))![0]
  const order = compare(cell, wanted)
  switch (operator) {
    case 'EQUALS':
      return order === 0
    case 'NOT_EQUALS':
      return order !== 0
    case 'GREATER_THAN':
      return order > 0
    case 'GREATER_THAN_OR_EQUAL_TO':
      return order >= 0
    case 'LESS_THAN':
      return order < 0
    default:
      return order <= 0
  }
}

function compare(a: Cell, b: Cell): number {
  if (typeof a === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(String(b)))
  return a! < b! ? -1 : a! > b! ? 1 : 0
}

function like(text: string, pattern: string): boolean {
  const parts = pattern.match(/\\[\s\S]|[\s\S]/gu) ?? []
  const source = parts.map(part => {
    if (part === '%') return '[\\s\\S]*'
    if (part === '_') return '[\\s\\S]'
    return (part.length > 1 && part[0] === '\\' ? part.slice(1) : part).replace(
      /[\\^$.*+?()[\]{}|/]/g,
      '\\$&',
    )
  })
  return new RegExp(`^${source.join('')}$`, 'u').test(text)
}

test('random filters select what the model selects', async () => {
  const seed = Date.now() % 1e9
  const numbers = randomFrom(seed)
  const random = (limit: number) => below(numbers, limit)
  const pick: Pick = list => list[random(list.length)]!
  const live: Row[] = []
  const segments: QuerySegment[] = []
  for (let part = 0; part < 3; part++) {
    const rows = Array.from({ length: 150 }, (): Row => {
      const cells = schema.columns.map(({ name, type }) => [
        name,
        random(6) === 0 ? null : pick(VALUES[type])[0],
      ])
      return Object.fromEntries(cells)
    })
    const deletedRows = part === 1 ? [] : [...new Set(Array.from({ length: 20 }, () => random(150)))]
    live.push(...rows.filter((_, index) => !deletedRows.includes(index)))
    segments.push(withDeletionVectors(await pool.segment(schema, rows), deletedRows))
  }
  for (let round = 0; round < 300; round++) {
    const filters = Array.from({ length: 1 + random(2) }, () => randomFilter(pick, random, 2))
    const want = live.filter(row => filters.every(filter => matches(filter, row))).length
    const got = await pool.counter(schema, { metric: { kind: 'count' }, filters }, segments)
    expect(got, `seed ${seed}, round ${round}: ${JSON.stringify(filters)}`).toBe(String(want))
  }
})
