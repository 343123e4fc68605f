import { describe, expect, test } from 'vitest'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import { type BadQuery, refusable } from '../../src/query/expression/values.ts'
import { type CounterQuery, counter } from '../../src/query/plan/counter.ts'
import type { Statement } from '../../src/query/plan/plan.ts'
import { newContext } from '../../src/query/plan/plan-context.ts'
import type { Pruning } from '../../src/query/plan/prune-segments.ts'
import type { PlannedQuestion } from '../../src/query/plan/question.ts'
import type { Filter, FilterOperator } from '../../src/query/plan/where.ts'
import { FILTER_DEPTH_MAX, FILTERS_MAX } from '../../src/util/limits.ts'
import { schemaOf } from './pool.ts'

const schema = schemaOf(
  [
    ['b', 'BOOLEAN'],
    ['s', 'STRING'],
    ['f', 'FLOAT'],
    ['d', 'DOUBLE'],
    ['i8', 'INT8'],
    ['i16', 'INT16'],
    ['i32', 'INT32'],
    ['i64', 'INT64'],
    ['day', 'DATE'],
    ['ts', 'TIMESTAMP'],
    ['j', 'JSON'],
    ['say "hi"; --', 'STRING'],
    ['__proto__', 'STRING'],
  ],
  { timestamp: 9, tenant: 1 },
)
const count = { kind: 'count' } as const

function plan(more: Partial<CounterQuery>): PlannedQuestion {
  return counter.plan(schema, { metric: count, ...more }, newContext(Date.UTC(2024, 4, 15)))
}

/** The statement of a counter, with fewer parentheses, and its pruning. */
function ask(more: Partial<CounterQuery>): (Pruning & { readonly statement: Statement }) | BadQuery {
  return refusable(() => {
    const { select, answer: _, ...pruning } = plan(more)
    const statement = duckdb.write({ select })
    const [head = '', condition] = statement.sql.split(' WHERE ')
    const sql = condition === undefined ? head : `${head} WHERE ${plain(condition)}`
    return { ...pruning, statement: { ...statement, sql } }
  })
}

/** A condition without the parentheses around it and around each comparison. */
function plain(condition: string): string {
  const outer = condition.startsWith('(') && condition.endsWith(')') ? condition.slice(1, -1) : condition
  return outer.replaceAll(/\(("[^"]*" (?:=|<>|<=|>=|<|>) \$\d+)\)/g, '$1')
}

/** The condition and the bound values as text, or the refusal. */
function where(filters: readonly Filter[]): string {
  const planned = ask({ filters })
  if ('badRequest' in planned) return `BAD: ${planned.badRequest}`
  const { sql, bounds } = planned.statement
  const values = bounds.map(({ type, value }) => `${type} ${JSON.stringify(value)}`)
  return [sql.replace(/^.*? WHERE /s, ''), ...values].join(' | ')
}

const one = (column: string, operator: string, value?: string | null): string =>
  where([{ column, operator: operator as FilterOperator, ...(value === undefined ? {} : { value }) }])

describe('operators', () => {
  test.each([
    ['i64', 'EQUALS', '"i64" = $1'],
    ['i64', 'NOT_EQUALS', '"i64" <> $1'],
    ['i64', 'GREATER_THAN', '"i64" > $1'],
    ['i64', 'GREATER_THAN_OR_EQUAL_TO', '"i64" >= $1'],
    ['i64', 'LESS_THAN', '"i64" < $1'],
    ['i64', 'LESS_THAN_OR_EQUAL_TO', '"i64" <= $1'],
  ])('%s %s', (column, operator, sql) => {
    expect(one(column, operator, '7')).toBe(`${sql} | INT64 "7"`)
    expect(one(column, operator)).toMatch(/^BAD: column "i64": \w+ needs a value$/)
    expect(one(column, operator, null)).toMatch(/needs a value$/)
    expect(one(column, operator, '')).toBe('BAD: column "i64": "" is not an INT64 value')
  })

  test('null checks and patterns are planned, wrong operators and columns are refused', () => {
    expect(one('j', 'IS_NULL')).toBe('"j" IS NULL')
    expect(one('s', 'IS_NOT_NULL', '')).toBe('"s" IS NOT NULL')
    expect(one('s', 'IS_NULL', 'x')).toBe('BAD: column "s": IS_NULL takes no value')
    expect(one('s', 'LIKE', 'a\\')).toMatch(/lone backslash/)
    expect(one('s', 'LIKE', '\\\\\\')).toMatch(/lone backslash/)
    expect(one('i64', 'LIKE', '7')).toBe('BAD: column "i64": LIKE is for STRING columns')
    expect(one('j', 'LIKE', '7')).toMatch(/^BAD: .*STRING/)
    expect(one('j', 'GREATER_THAN', '7')).toBe('BAD: column "j": GREATER_THAN is not for JSON columns')
    expect(one('j', 'NOT_EQUALS', 'null')).toMatch(/^BAD: column "j": JSON null is null, use IS_NULL/)
    expect(one('s', 'EQUALS', '')).toBe('"s" = $1 | STRING ""')
    expect(one('s', 'equals', 'x')).toBe('BAD: there is no operator "equals"')
    for (const operator of ['constructor', '__proto__', 'toString', '= 1 OR 1'])
      expect(one('s', operator, 'x')).toBe(`BAD: there is no operator ${JSON.stringify(operator)}`)
    for (const column of ['S', 'constructor', 'toString', '', '_service_sequence', '"s"', 's" OR 1=1 --'])
      expect(one(column, 'EQUALS', 'x')).toBe(`BAD: there is no column ${JSON.stringify(column)}`)
  })

  test("a caller's names and values never become SQL", () => {
    expect(one('say "hi"; --', 'EQUALS', "'; DROP TABLE x; --")).toBe(
      `"say ""hi""; --" = $1 | STRING "'; DROP TABLE x; --"`,
    )
    expect(one('__proto__', 'EQUALS', '$2')).toBe('"__proto__" = $1 | STRING "$2"')
    expect(one('_service_payload', 'EQUALS', '{"a":1}')).toBe('"_service_payload" = $1 | JSON "{\\"a\\":1}"')
    expect(one('_service_received_at', 'LESS_THAN', '1970-01-01')).toBe(
      '"_service_received_at" < $1 | TIMESTAMP "0"',
    )
  })
})

describe('LIKE', () => {
  test.each([
    ['', '"s" = $1', ''],
    ['abc', '"s" = $1', 'abc'],
    ['a\\%\\_\\\\\\b', '"s" = $1', 'a%_\\b'],
    ['ab%', 'starts_with("s", $1)', 'ab'],
    ['ab%%%', 'starts_with("s", $1)', 'ab'],
    ['%ab', 'ends_with("s", $1)', 'ab'],
    ['%a\\%b%', 'contains("s", $1)', 'a%b'],
    ['%', 'contains("s", $1)', ''],
    ['%%', 'contains("s", $1)', ''],
    ['_', 'regexp_full_match("s", $1)', '(?s).'],
    ['a%b', 'regexp_full_match("s", $1)', '(?s)a.*b'],
    ['%a%b%', 'regexp_full_match("s", $1)', '(?s).*a.*b.*'],
    ['a.b*(_)\\_%\0', 'regexp_full_match("s", $1)', '(?s)a\\.b\\*\\(.\\)\\_.*\\x00'],
    ['_\ud83d\ude00\\\ud83d\ude00', 'regexp_full_match("s", $1)', '(?s).😀😀'],
  ])('%j is a search that takes linear time', (pattern, sql, value) => {
    expect(one('s', 'LIKE', pattern)).toBe(`${sql} | STRING ${JSON.stringify(value)}`)
    expect(one('s', 'NOT_LIKE', pattern)).toBe(
      `NOT ${sql.includes('=') ? sql : `(${sql})`} | STRING ${JSON.stringify(value)}`,
    )
  })

  test('has limits, and refuses in linear time', () => {
    expect(one('s', 'LIKE', `${'\\\\'.repeat(250_000)}x`)).toMatch(/^"s" = /)
    expect(one('s', 'LIKE', '\\'.repeat(499_999))).toMatch(/lone backslash/)
    expect(one('s', 'LIKE', 'a%'.repeat(500_000))).toMatch(/longer than 1000 characters/)
    expect(one('s', 'LIKE', `%${'a'.repeat(998)}%`)).toMatch(/^contains/)
    expect(one('s', 'LIKE', `%${'a'.repeat(999)}%`)).toMatch(/longer than 1000 characters/)
    expect(one('s', 'LIKE', `${'a'.repeat(9_999)}%`)).toMatch(/^starts_with/)
    expect(one('s', 'LIKE', '_'.repeat(1_000))).not.toMatch(/^BAD/)
    const patterns = (length: number) =>
      where(Array.from({ length }, () => ({ column: 's', operator: 'LIKE' as const, value: 'a%b' })))
    expect(patterns(16)).not.toMatch(/^BAD/)
    expect(patterns(17)).toMatch(/^BAD: a query takes at most 16 patterns/)
  })
})

describe('values are read as ingest reads the column', () => {
  test.each([
    ['b', 'true', true],
    ['b', 'false', false],
    ['i8', '-128', '-128'],
    ['i8', '1.0', '1'],
    ['i8', '1e2', '100'],
    ['i16', '-0', '0'],
    ['i64', '9223372036854775807', '9223372036854775807'],
    ['i64', '-9223372036854775808', '-9223372036854775808'],
    ['i64', '9007199254740992.0', '9007199254740992'],
    ['f', '0.1', Math.fround(0.1)],
    ['f', '-0', 0],
    ['d', '1e308', 1e308],
    ['day', '1970-01-02', '1'],
    ['day', '0001-01-01', '-719162'],
    ['ts', '1970-01-01T00:00:00.0000019', '1'],
    ['ts', '1970-01-01 00:00,x', undefined],
    ['ts', '1969-12-31t23:59:60Z', '0'],
    ['ts', '1970-01-01T01:00:00+01', '0'],
    ['ts', '1700000000', '1700000000000000'],
    ['ts', '1700000000123', '1700000000123000'],
    ['ts', '-1.5', '-1500000'],
    ['ts', '1700000000123456789', '1700000000123457'],
    ['b', 'TRUE', undefined],
    ['b', '1', undefined],
    ['i8', '128', undefined],
    ['i8', '1.5', undefined],
    ['i8', '01', undefined],
    ['i8', '+1', undefined],
    ['i8', ' 1', undefined],
    ['i8', '0x1', undefined],
    ['i8', '1_0', undefined],
    ['i64', '9223372036854775808', undefined],
    ['i64', '9007199254740994.0', undefined],
    ['i64', '9007199254740993.0', undefined],
    ['i64', '9007199254740991.5', undefined],
    ['i64', '-90071992547409920e-1', '-9007199254740992'],
    ['i64', '1e-400', undefined],
    ['i64', '1e999999999', undefined],
    ['i64', '-0.0e5', '0'],
    ['i64', '1e400', undefined],
    ['f', '1e39', undefined],
    ['d', '1e309', undefined],
    ['d', 'NaN', undefined],
    ['d', 'Infinity', undefined],
    ['d', '.5', undefined],
    ['day', '1970-02-29', undefined],
    ['day', '1970-01-01T00:00:00Z', undefined],
    ['ts', '1970-01-01T24:00:00Z', undefined],
    ['ts', '10000-01-01', undefined],
    ['ts', 'today', undefined],
    ['s', '\ud800', undefined],
    ['j', ' {"a": 1}\n', '{"a": 1}'],
    ['j', '"null"', '"null"'],
    ['j', '{"a":1', undefined],
    ['j', 'x', undefined],
    ['j', '', undefined],
    ['j', '\u00a01', undefined],
  ])('%s %j', (column, text, want) => {
    const type = schema.columns.find(({ name }) => name === column)!.type
    const expected =
      want === undefined
        ? `BAD: column "${column}": ${JSON.stringify(text)} is not ${type.startsWith('INT') ? 'an' : 'a'} ${type} value`
        : `"${column}" = $1 | ${type} ${JSON.stringify(want)}`
    expect(one(column, 'EQUALS', text)).toBe(expected)
  })
})

describe('and, or, limits', () => {
  const f = (value: string, more: Partial<Filter> = {}): Filter => ({
    column: 'i8',
    operator: 'EQUALS',
    value,
    ...more,
  })

  test('((own AND all of and) OR any of or); list elements ANDed', () => {
    expect(where([f('1'), f('2')])).toMatch(/^"i8" = \$1 AND "i8" = \$2 \|/)
    expect(where([f('1', { and: [f('2'), f('3')], or: [f('4'), f('5')] }), f('6')])).toMatch(
      /^\(\("i8" = \$1 AND "i8" = \$2 AND "i8" = \$3\) OR "i8" = \$4 OR "i8" = \$5\) AND "i8" = \$6 \|/,
    )
    expect(where([f('1', { and: [f('2', { or: [f('3')] })] })])).toMatch(
      /^"i8" = \$1 AND \("i8" = \$2 OR "i8" = \$3\) \|/,
    )
    expect(where([f('1', { and: null, or: [] })])).toBe('"i8" = $1 | INT8 "1"')
    expect(where([f('1', { and: [f('x')] })])).toMatch(/^BAD/)
    expect(where([f('1', { or: [f('1', { and: [f('x')] })] })])).toMatch(/^BAD/)
  })

  test('number and depth have limits', () => {
    const many = (length: number) => Array.from({ length }, () => f('1'))
    expect(where(many(FILTERS_MAX))).not.toMatch(/^BAD/)
    expect(where(many(FILTERS_MAX + 1))).toMatch(/^BAD: a query takes at most/)
    expect(where([f('1', { or: many(FILTERS_MAX) })])).toMatch(/^BAD: a query takes at most/)
    const deep = (depth: number): Filter => (depth === 1 ? f('1') : f('1', { and: [deep(depth - 1)] }))
    expect(where([deep(FILTER_DEPTH_MAX)])).not.toMatch(/^BAD/)
    expect(where([deep(FILTER_DEPTH_MAX + 1)])).toMatch(/^BAD: filters nest deeper/)
  })
})

describe('metrics, time ranges and pruning', () => {
  test('a counter becomes one statement with its pruning', () => {
    const timeRange = { start: '1970-01-01', stop: '1970-01-02', relative: null, n: null }
    const filters: Filter[] = [{ column: 's', operator: 'EQUALS', value: 'acme' }]
    expect(
      ask({ metric: { kind: 'sum', column: 'i64' }, timeRange, filters, timeZone: 'Europe/Berlin' }),
    ).toEqual({
      statement: {
        sql: 'SELECT SUM("i64") AS "_service_value" FROM rows WHERE "ts" >= $1 AND "ts" < $2 AND "s" = $3',
        bounds: [
          { type: 'TIMESTAMP', value: '0' },
          { type: 'TIMESTAMP', value: '86400000000' },
          { type: 'STRING', value: 'acme' },
        ],
      },
      timeFromUs: 0,
      timeToUs: 86_400_000_000,
      tenantEquals: 'acme',
    })
    expect(ask({})).toMatchObject({
      statement: { sql: 'SELECT COUNT(*) AS "_service_value" FROM rows', bounds: [] },
    })
  })

  test('sums need numbers', () => {
    for (const column of ['b', 's', 'day', 'ts', 'j', '_service_payload', 'nope', 'constructor'])
      expect(ask({ metric: { kind: 'sum', column } })).toHaveProperty('badRequest')
    for (const column of ['f', 'd', 'i8', 'i16', 'i32', 'i64'])
      expect(ask({ metric: { kind: 'sum', column } })).toHaveProperty('statement')
  })

  test('a wrong range or zone is refused', () => {
    const bad = (more: Partial<CounterQuery>, message: RegExp) => {
      expect(ask(more)).toEqual({ badRequest: expect.stringMatching(message) })
    }
    bad({ timeRange: { relative: 'today' } }, /timeRange.relative: there is no "today"/)
    bad({ timeRange: { relative: 'LAST_N_DAYS', n: 0, start: '1970-01-01' } }, /LAST_N_DAYS needs an n/)
    bad({ timeRange: { start: 'yesterday' } }, /timeRange.start: "yesterday" is not a time/)
    bad({ timeRange: { stop: '1700000000' } }, /timeRange.stop/)
    bad({ timeRange: { start: '' } }, /timeRange.start/)
    bad({ timeRange: { timestamp: 'i8' } }, /neither TIMESTAMP nor DATE/)
    bad({ timeRange: { timestamp: 'nope' } }, /there is no column "nope"/)
    bad({ timeZone: 'Mars/Olympus' }, /not an IANA time zone/)
    bad({ timeZone: '+05:00' }, /not an IANA time zone/)
    for (const timeZone of ['UTC', 'Asia/Kathmandu', '', null])
      expect(ask({ timeZone })).toHaveProperty('statement')
  })

  test('the zero time of Go means no bound', () => {
    const zero = '0001-01-01T00:00:00Z'
    expect(ask({ timeRange: { start: zero, stop: zero } })).toEqual(ask({ timeRange: {} }))
    expect(ask({ timeRange: { start: '1970-01-02', stop: zero } })).toMatchObject({
      statement: { sql: expect.stringMatching(/WHERE "ts" >= \$1$/) },
      timeToUs: null,
    })
  })

  test('a range on another column filters and does not prune', () => {
    const timeRange = { timestamp: 'day', start: '1970-01-01T00:00:00.000001Z', stop: null }
    expect(ask({ timeRange })).toMatchObject({
      statement: {
        sql: expect.stringMatching(/WHERE "day" >= \$1$/),
        bounds: [{ type: 'DATE', value: '1' }],
      },
      timeFromUs: null,
    })
    expect(ask({ timeRange: { timestamp: '_service_received_at', start: '1970-01-01' } })).toMatchObject({
      timeFromUs: null,
    })
  })

  test('a tenant is known only if every selected row must have it', () => {
    const own: Filter = { column: 's', operator: 'EQUALS', value: 'acme' }
    const other: Filter = { column: 'i8', operator: 'EQUALS', value: '1' }
    const check = (filters: Filter[], tenantEquals: string | null) => {
      expect(ask({ filters })).toMatchObject({ tenantEquals })
    }
    check([other, own], 'acme')
    check([{ ...other, and: [own] }], 'acme')
    check([{ ...own, or: [other] }], null)
    check([{ ...other, or: [own] }], null)
    check([{ ...own, operator: 'NOT_EQUALS' }], null)
    check([{ ...own, operator: 'LIKE' }], null)
    check([{ ...other, and: [{ ...own, or: [other] }] }], null)
  })
})
