/**
 * Counters over HTTP against a model in memory: some thousand random events, posted, posted again
 * and deleted between the queries, and some hundred random counters: metrics, filters and time
 * ranges over every type of column.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ColumnType } from '../../src/format/schema.ts'
import {
  FILTER_OPERATORS,
  type Filter,
  type FilterOperator,
  type TimeRange,
} from '../../src/query/plan/where.ts'
import { below, casesOf, type Random, randomFrom } from '../util/random.ts'
import { send, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { type Cell, randomInstant, randomText, randomValue, spellInstant } from './values.ts'

const PHASES = 4
const REQUESTS_A_PHASE = 5
const EVENTS_MAX = 400
const KEYS = 1_500
const COUNTERS_A_PHASE = casesOf(50, 100)

const TYPES: ReadonlyMap<string, ColumnType> = new Map([
  ['id', 'INT32'],
  ['at', 'TIMESTAMP'],
  ['tenant', 'STRING'],
  ['flag', 'BOOLEAN'],
  ['na"me; --', 'STRING'],
  ['f32', 'FLOAT'],
  ['f64', 'DOUBLE'],
  ['i8', 'INT8'],
  ['i16', 'INT16'],
  ['i32', 'INT32'],
  ['i64', 'INT64'],
  ['day', 'DATE'],
  ['seen', 'TIMESTAMP'],
  ['constructor', 'JSON'],
])
const NAMES = [...TYPES.keys()]
const NUMBERS = NAMES.filter(name => /^(FLOAT|DOUBLE|INT)/.test(TYPES.get(name)!))

type Row = ReadonlyMap<string, Cell>
type Metric = { readonly kind: 'count' } | { readonly kind: 'sum'; readonly column: string }
interface Query {
  readonly metric: Metric
  readonly filters: readonly Filter[] | null
  readonly timeRange: TimeRange | null
  /** True if the range holds a row. */
  readonly inRange: (row: Row) => boolean
}

let server: TestServer
let pool: TestPool
beforeAll(async () => {
  server = await startServer()
  const columns = NAMES.map(name => ({
    name,
    jsonProperty: name,
    type: TYPES.get(name)!,
    nullable: !['id', 'at'].includes(name),
  }))
  pool = await server.createPool({ columns, timestamp: 'at', uniqueId: 'id', tenant: 'tenant' })
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!

test('random counters over random records answer what the model answers', async () => {
  const seed = Date.now() % 1e9
  const random = randomFrom(seed)
  const live = new Map<number, Row>()
  for (let phase = 0; phase < PHASES; phase++) {
    for (let i = 0; i < REQUESTS_A_PHASE; i++) await change(random, live)
    const queries = Array.from({ length: COUNTERS_A_PHASE }, () => randomQuery(random))
    const answers = await ask(queries)
    queries.forEach((query, index) => {
      const where = `seed ${seed}, phase ${phase}, counter ${index}: ${JSON.stringify(query)}`
      expectAnswer(answers[index]!, query, [...live.values()], where)
    })
  }
})

/**
 * One POST of random records, or one DELETE of known keys, to server and model. A key's time never
 * changes, so a POST replaces.
 */
async function change(random: Random, live: Map<number, Row>): Promise<void> {
  const isDelete = random() < 0.2
  const texts: string[] = []
  for (let count = 1 + below(random, EVENTS_MAX); count > 0; count--) {
    const id = below(random, KEYS)
    const at = spellInstant(random, randomInstant(randomFrom(id)))
    const parts = [`"id":${id}`, `"at":${at.json}`]
    const row = new Map<string, Cell>([
      ['id', BigInt(id)],
      ['at', at.cell],
    ])
    for (const name of isDelete ? [] : NAMES.slice(2)) {
      const value = random() < 0.15 ? null : randomValue(random, TYPES.get(name)!)
      if (value !== null || random() < 0.5) parts.push(`${JSON.stringify(name)}:${value?.json ?? 'null'}`)
      row.set(name, value?.cell ?? null)
    }
    const text = `{${parts.join(pick(random, [',', ', ']))}}`
    texts.push(text)
    row.set('_service_payload', text)
    if (isDelete) live.delete(id)
    else live.set(id, row)
  }
  const answer = await send(pool.url, `[${texts.join()}]`, isDelete ? 'DELETE' : 'POST')
  expect([answer.status, answer.headers.get('x-events-rejected')]).toEqual([200, '0'])
}

/** All counters in one request, each with a variable of its own. */
async function ask(queries: readonly Query[]): Promise<(string | null)[]> {
  const dataPool = { id: pool.poolId }
  const inputs = queries.map(({ metric, filters, timeRange }) => ({
    metric:
      metric.kind === 'count'
        ? { count: { dataPool } }
        : { sum: { dataPool, measure: { columnName: metric.column } } },
    filters,
    timeRange,
  }))
  const variables = Object.fromEntries(inputs.map((input, index) => [`i${index}`, input]))
  const declared = inputs.map((_, index) => `$i${index}: CounterInput!`).join()
  const fields = inputs.map((_, index) => `c${index}: counter(input: $i${index}) { value }`).join(' ')
  const { data, errors } = await server.graphql<Record<string, { readonly value: string | null }>>(
    `query (${declared}) { ${fields} }`,
    variables,
  )
  expect(errors).toBeUndefined()
  return inputs.map((_, index) => data[`c${index}`]!.value)
}

// ── random queries
// ───────────────────────────────────────────────────────────────────────────────────

function randomQuery(random: Random): Query {
  const metric: Metric = random() < 0.5 ? { kind: 'count' } : { kind: 'sum', column: pick(random, NUMBERS) }
  const filters =
    random() < 0.2 ? null : Array.from({ length: below(random, 3) }, () => randomFilter(random, 2))
  return { metric, filters, ...randomRange(random) }
}

function randomFilter(random: Random, depth: number): Filter {
  const column = pick(random, NAMES)
  const type = TYPES.get(column)!
  const operators = FILTER_OPERATORS.filter(operator => {
    if (operator.includes('LIKE')) return type === 'STRING'
    return type !== 'JSON' || ['EQUALS', 'NOT_EQUALS', 'IS_NULL', 'IS_NOT_NULL'].includes(operator)
  })
  const operator = pick(random, operators)
  const inner = () =>
    depth > 0 && random() < 0.35
      ? Array.from({ length: 1 + below(random, 2) }, () => randomFilter(random, depth - 1))
      : pick(random, [null, []])
  return { column, operator, value: textFor(random, type, operator), and: inner(), or: inner() }
}

function textFor(random: Random, type: ColumnType, operator: FilterOperator): string | null {
  if (operator.includes('NULL')) return pick(random, [null, ''])
  if (!operator.includes('LIKE')) return randomValue(random, type).text
  const parts = Array.from({ length: below(random, 5) }, () =>
    pick(random, ['%', '_', 'a', '\\_', '\\%', '\\\\', 'é', '\\a', '"']),
  )
  return pick(random, [parts.join(''), `%${randomText(random).replaceAll(/[\\%_]/g, '\\$&')}%`])
}

function randomRange(random: Random): Pick<Query, 'timeRange' | 'inRange'> {
  if (random() < 0.4) return { timeRange: null, inRange: () => true }
  const timestamp = pick(random, [null, '', 'at', 'seen', 'day', '_service_received_at'])
  const bounds = [0, 1].map(() => (random() < 0.3 ? null : randomInstant(random)))
  const [start, stop] = bounds
  const spell = (us: bigint | null | undefined) =>
    us === null || us === undefined
      ? null
      : new Date(Number(us / 1_000n)).toISOString().replace('Z', `${String(us % 1_000n).padStart(3, '0')}Z`)
  const timeRange = { timestamp, start: spell(start), stop: spell(stop), relative: null, n: null }
  const inRange = (row: Row): boolean => {
    // Events are posted now, after every instant of the model.
    if (timestamp === '_service_received_at') return stop === null
    const cell = row.get(timestamp || 'at') ?? null
    if (cell === null) return start === null && stop === null
    const us = timestamp === 'day' ? (cell as bigint) * 86_400_000_000n : (cell as bigint)
    return (start === null || us >= start!) && (stop === null || us < stop!)
  }
  return { timeRange, inRange }
}

// ── the model
// ────────────────────────────────────────────────────────────────────────────────────────

function expectAnswer(got: string | null, query: Query, rows: readonly Row[], where: string): void {
  const selected = rows.filter(
    row => query.inRange(row) && (query.filters ?? []).every(filter => matches(filter, row)),
  )
  if (query.metric.kind === 'count') {
    expect(got, where).toBe(String(selected.length))
    return
  }
  const { column } = query.metric
  const cells = selected.map(row => row.get(column)!).filter(cell => cell !== null)
  if (cells.length === 0) expect(got, where).toBeNull()
  else if (typeof cells[0] === 'bigint')
    expect(got, where).toBe(String((cells as bigint[]).reduce((sum, cell) => sum + cell)))
  else {
    const numbers = cells as number[]
    const sum = numbers.reduce((total, cell) => total + cell, 0)
    const size = numbers.reduce((total, cell) => total + Math.abs(cell), 0)
    expect(Math.abs(Number(got) - sum), where).toBeLessThanOrEqual(size * 1e-12)
  }
}

function matches(filter: Filter, row: Row): boolean {
  if (matchesOwn(filter, row) && (filter.and ?? []).every(inner => matches(inner, row))) return true
  return (filter.or ?? []).some(inner => matches(inner, row))
}

function matchesOwn({ column, operator, value }: Filter, row: Row): boolean {
  const cell = row.get(column) ?? null
  if (operator === 'IS_NULL' || cell === null) return operator === 'IS_NULL' && cell === null
  if (operator === 'IS_NOT_NULL') return true
  if (operator === 'LIKE') return isLike([...String(cell)], readPattern(value!))
  if (operator === 'NOT_LIKE') return !isLike([...String(cell)], readPattern(value!))
  const order = compare(cell, meaningOf(TYPES.get(column)!, value!))
  const byOperator: Partial<Record<FilterOperator, boolean>> = {
    EQUALS: order === 0,
    NOT_EQUALS: order !== 0,
    GREATER_THAN: order > 0,
    GREATER_THAN_OR_EQUAL_TO: order >= 0,
    LESS_THAN: order < 0,
    LESS_THAN_OR_EQUAL_TO: order <= 0,
  }
  return byOperator[operator]!
}

/**
 * The meaning of a filter's text, worked out with Date and Number for the spellings that values.ts
 * makes.
 */
function meaningOf(type: ColumnType, text: string): Exclude<Cell, null> {
  switch (type) {
    case 'BOOLEAN':
      return text === 'true'
    case 'STRING':
      return text
    case 'JSON':
      return text.trim()
    case 'FLOAT':
      return Math.fround(Number(text))
    case 'DOUBLE':
      return Number(text)
    case 'DATE':
      return BigInt(Date.parse(text) / 86_400_000)
    case 'TIMESTAMP':
      return instantOf(text)
    default:
      return BigInt(text.replace(/\.0$|e0$/, ''))
  }
}

function instantOf(text: string): bigint {
  if (/^\d+$/.test(text))
    return BigInt(text) * (text.length < 11 ? 1_000_000n : text.length < 14 ? 1_000n : 1n)
  const [, date, time, micros, sign, hours = '0', minutes = '0'] =
    /^(\S{10}).(\S{8})[.,](\d{6})\d?(?:Z|([+-])(\d\d):?(\d\d)?)?$/.exec(text)!
  const offset = (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -1 : 1)
  return BigInt(Date.parse(`${date}T${time}Z`) - offset * 60_000) * 1_000n + BigInt(micros!)
}

function compare(a: Cell, b: Cell): number {
  if (typeof a === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(String(b)))
  return a! < b! ? -1 : a! > b! ? 1 : 0
}

type Part = '%' | '_' | { readonly char: string }

function readPattern(pattern: string): Part[] {
  const chars = [...pattern]
  const parts: Part[] = []
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i]!
    if (char === '%' || char === '_') parts.push(char)
    else parts.push({ char: char === '\\' ? chars[++i]! : char })
  }
  return parts
}

/** The prefixes of the text that the pattern's parts so far can match. */
function isLike(chars: readonly string[], parts: readonly Part[]): boolean {
  let taken = new Set([0])
  for (const part of parts) {
    const next = new Set<number>()
    for (const at of taken) {
      if (part === '%') for (let end = at; end <= chars.length; end++) next.add(end)
      else if (at < chars.length && (part === '_' || part.char === chars[at])) next.add(at + 1)
    }
    taken = next
  }
  return taken.has(chars.length)
}
