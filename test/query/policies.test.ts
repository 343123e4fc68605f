/** Access policies: what is not visible has no effect on any answer, whatever the question says. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, parseTexts } from '../../src/query/ask.ts'
import { checkFilterSql, checkFilters } from '../../src/query/check-texts.ts'
import { replacePlaceholders } from '../../src/query/expression/placeholders.ts'
import { columnOf, operation } from '../../src/query/expression/typed.ts'
import { Refused } from '../../src/query/expression/values.ts'
import { segmentPins } from '../../src/query/pin-segments.ts'
import { counter } from '../../src/query/plan/counter.ts'
import type { MetricFormula } from '../../src/query/plan/metric.ts'
import { accessOf, type ParseTexts, planFor, type RowPolicy } from '../../src/query/plan/policy.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import type { SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { columnRange, columnValues, uniqueValuesOf } from '../../src/query/plan/statistics.ts'
import { planSelection } from '../../src/query/selection.ts'
import { ExpressionPool, NOW_MS, SCHEMA } from './expression/pool.ts'

/** The questions of a test wait for nobody. */
const atOnce = async <T>(work: () => T): Promise<T> => work()

const COUNT = { kind: 'count' } as const
const pool = new ExpressionPool()
let engine: SegmentEngine
let parse: ParseTexts
beforeAll(async () => {
  engine = await pool.open()
  parse = texts => parseTexts(texts, engine, 'APP')
})
afterAll(() => pool.close())

function policyOf(more: Partial<RowPolicy>): RowPolicy {
  return { columns: ['*'], rows: [], filterSql: null, values: {}, ...more }
}

const TENANT_A = policyOf({ filterSql: "tenant = 'a'" })

describe('rows', () => {
  test('are those of filters and filterSql together', async () => {
    const count = (more: Partial<RowPolicy>) => pool.ask(COUNT, {}, policyOf(more))
    expect(await count({})).toBe('5')
    expect(await count({ rows: [{ column: 'tenant', operator: 'EQUALS', value: 'a' }] })).toBe('2')
    expect(await count({ filterSql: "tenant = 'a'" })).toBe('2')
    expect(
      await count({
        rows: [{ column: 'tenant', operator: 'EQUALS', value: 'a' }],
        filterSql: "name = 'Ada' OR name = ''",
      }),
    ).toBe('1')
    expect(await count({ filterSql: 'false' })).toBe('0')
  })

  test('stay invisible to every kind of metric', async () => {
    const ask = (metric: MetricFormula) => pool.ask(metric, {}, TENANT_A)
    expect(await ask({ kind: 'sum', column: 'i8' })).toBe('-127')
    expect(await ask({ kind: 'max', column: 'i8' })).toBe('1')
    expect(await ask({ kind: 'countDistinct', column: 'tenant' })).toBe('1')
    expect(await ask({ kind: 'custom', expression: "COUNT() + COUNT() FILTER (WHERE tenant = 'b')" })).toBe(
      '2',
    )
  })

  test('are not weakened by a question', async () => {
    const attacks = [
      '1 = 1',
      "tenant = 'b' OR 1 = 1",
      "tenant = 'b' OR true",
      'true) OR (true',
      "1=1) OR (tenant = 'b'",
      '1 = 1 -- ',
      '1 = 1 /*',
      '1 = 1 /* */ OR true',
      "' OR 1=1 --",
      "tenant = 'a' OR tenant = 'b'",
      "NOT (tenant = 'a')",
      'tenant IS NULL OR tenant IS NOT NULL',
      'true UNION SELECT 1',
      'coalesce(NULL, true)',
      'CASE WHEN true THEN true END',
      'true OR NULL',
      "tenant <> ''",
    ]
    const seen = new Set<string | null>()
    for (const filterSql of attacks) {
      const answer = await pool.count(filterSql, TENANT_A)
      if (answer?.startsWith('BAD: ')) continue
      seen.add(answer)
      expect(Number(answer), filterSql).toBeLessThanOrEqual(2)
      const names = await pool.ask(
        { kind: 'custom', expression: 'COUNT() FILTER (WHERE i8 = 127)' },
        { filterSql },
        TENANT_A,
      )
      expect(names, filterSql).toBe('0')
    }
    expect(seen).toEqual(new Set(['2', '0']))
    const filters = [
      { column: 'tenant', operator: 'EQUALS', value: 'b', or: [{ column: 'i8', operator: 'IS_NOT_NULL' }] },
    ] as const
    expect(await pool.ask(COUNT, { filters }, TENANT_A)).toBe('2')
  })

  test('of a policy with OR stay closed in themselves', async () => {
    const policy = policyOf({ filterSql: "name = 'Ada' OR name = 'Bob'" })
    expect(await pool.count("tenant = 'b'", policy)).toBe('0')
    expect(await pool.count('i8 = 1', policy)).toBe('1')
  })
})

describe('a value of the token', () => {
  const FORMS = [
    'tenant = ${' + '{ t }}',
    "tenant = '${" + "{ t }}'",
    'tenant = "${' + '{t}}"',
    "tenant='  ${" + "{  t}} '",
  ]

  test('is one bound value, whatever it holds', async () => {
    const values: readonly (readonly [unknown, string])[] = [
      ['a', '2'],
      ["it's ' OR 1=1 --", '1'],
      ["a' OR '1'='1", '0'],
      ["' OR 1=1 --", '0'],
      ['" OR 1=1 --', '0'],
      ['a OR true', '0'],
      ['${' + '{ t }}', '0'],
      ['policy_value(0)', '0'],
      ['%', '0'],
      ['', '0'],
      ['\\', '0'],
      ['a\0', '0'],
      ["a'; DROP TABLE rows; --", '0'],
      [1, '0'],
      [true, '0'],
    ]
    for (const [t, count] of values) {
      for (const filterSql of FORMS)
        expect([t, await pool.ask(COUNT, {}, policyOf({ filterSql, values: { t } }))]).toEqual([t, count])
      for (const value of ['${' + '{ t }}', "'${" + "{t}}'"]) {
        const rows = [{ column: 'tenant', operator: 'EQUALS', value }] as const
        expect([t, await pool.ask(COUNT, {}, policyOf({ rows, values: { t } }))]).toEqual([t, count])
      }
    }
  })

  test('is read as the type that it meets', async () => {
    const count = (filterSql: string, n: unknown) =>
      pool.ask(COUNT, {}, policyOf({ filterSql, values: { n } }))
    const name = '${' + '{ n }}'
    expect(await count(`i8 = ${name}`, 1)).toBe('1')
    expect(await count(`i8 = ${name}`, '1')).toBe('1')
    expect(await count(`flag = ${name}`, true)).toBe('1')
    expect(await count(`ts >= ${name}`, '2022-01-08')).toBe('2')
    expect(await count(`i8 IN (${name}, 127)`, 1)).toBe('2')
    expect(await count(`i8 = ${name}`, 'not a number')).toMatch(
      /^BAD: the Data Pool Access Policy cannot be applied/,
    )
  })

  test('is read as a time where a time is needed', async () => {
    const name = '${' + '{ t }}'
    const forms = [
      [`ts >= ${name} - INTERVAL 1 DAY`, '2'],
      [`ts <= INTERVAL 1 DAY + ${name}`, '2'],
      [`ts >= date_trunc('day', ${name})`, '2'],
      [`date_diff('day', ts, ${name}) BETWEEN 0 AND 2`, '1'],
      [`toYear(ts) = toYear('${name}')`, '1'],
    ] as const
    for (const [filterSql, count] of forms) {
      expect([filterSql, await checkFilterSql(SCHEMA, filterSql, 'placeholders', parse)]).toEqual([
        filterSql,
        undefined,
      ])
      const ask = (t: unknown) => pool.ask(COUNT, {}, policyOf({ filterSql, values: { t } }))
      expect([filterSql, await ask('2022-01-08')]).toEqual([filterSql, count])
      expect([filterSql, await ask('2022-01-08T00:00:00.000001Z')]).toEqual([filterSql, count])
      for (const t of ['', 'never', '2022-02-30', "2022-01-08' OR true --", 'infinity', true, false])
        expect([filterSql, t, await ask(t)]).toEqual([
          filterSql,
          t,
          'BAD: the Data Pool Access Policy cannot be applied with the policy values of this token',
        ])
    }
  })

  test('that is missing leaves nothing to see', async () => {
    const policy = { columns: ['*'], rows: [], filterSql: 'tenant = ${' + '{ t }}' }
    for (const values of [
      undefined,
      {},
      { t: null },
      { t: {} },
      { t: ['a'] },
      { t: Number.NaN },
      { T: 'a' },
    ]) {
      const access = accessOf({ accessControlEnabled: true }, policy, values, true)
      expect(access).toEqual({ forbidden: expect.stringContaining('no policy value "t"') })
      expect(await pool.ask(COUNT, {}, policyOf({ ...policy, values: values ?? {} }))).toMatch(/^BAD: .*"t"/)
    }
    const inherited = Object.create({ t: 'a' }) as Record<string, unknown>
    expect(accessOf({ accessControlEnabled: true }, policy, inherited, true)).toHaveProperty('forbidden')
    for (const name of ['constructor', '__proto__', 'toString'])
      expect(
        accessOf(
          { accessControlEnabled: true },
          { ...policy, filterSql: `tenant = $\{{ ${name} }}` },
          {},
          true,
        ),
      ).toHaveProperty('forbidden')
  })

  test('stands alone where a policy is made, and not as a pattern', async () => {
    const check = (filterSql: string) => checkFilterSql(SCHEMA, filterSql, 'placeholders', parse)
    const name = '${' + '{ t }}'
    for (const right of [
      `tenant = ${name}`,
      `tenant = '${name}'`,
      `i8 IN (${name}, ${name})`,
      `ts > ${name} AND tenant=${name}`,
      `lower(tenant) = lower(${name})`,
      `tenant = /* why */ ${name} -- so`,
      `CASE ${name} WHEN 'admin' THEN true WHEN 'all' THEN true ELSE false END`,
    ])
      expect([right, await check(right)]).toEqual([right, undefined])
    for (const wrong of [
      `tenant = 'x${name}'`,
      `tenant = '${name}x'`,
      `tenant = '${name}''${name}'`,
      `tenant = 'a' -- ${name}`,
      `tenant = 'a' /* ${name} */`,
      `tenant = $$${name}$$`,
      `tenant = $a$ ${name} $a$`,
      `tenant = E'${name}x'`,
      `"x${name}" = 1`,
      `tenant LIKE ${name}`,
      `tenant LIKE '${name}'`,
      `tenant LIKE '%${name}%'`,
      `contains(tenant, ${name})`,
      `payload->>${name} = 'a'`,
      `date_trunc(${name}, ts) = ts`,
      `tenant = $\{{ }}`,
      'tenant = ${' + '{ t }',
      'tenant = ${' + '{ t; DROP }}',
      `tenant = ${name}${name}`,
      `x${name} = 1`,
      `${name}.x = 1`,
      `tenant = policy_value(0)`,
      `tenant = ${name} AND policy_value(7) = 'x'`,
      `tenant = 'a' AS ${name}`,
      `tenant = ${name}()`,
      `tenant = (SELECT ${name})`,
    ])
      expect([wrong, (await check(wrong)) !== undefined]).toEqual([wrong, true])
    for (const [operator, value] of [
      ['LIKE', name],
      ['NOT_LIKE', `'${name}'`],
      ['EQUALS', `x${name}`],
      ['EQUALS', `${name} ${name}`],
    ] as const)
      expect(checkFilters(SCHEMA, [{ column: 'tenant', operator, value }], 'placeholders')).toEqual({
        badRequest: expect.stringMatching(/^rows: /),
      })
    expect(
      checkFilters(SCHEMA, [{ column: 'nope', operator: 'EQUALS', value: name }], 'placeholders'),
    ).toEqual({ badRequest: 'rows: there is no column "nope"' })
    expect(
      checkFilters(SCHEMA, [{ column: 'tenant', operator: 'EQUALS', value: name }], 'placeholders'),
    ).toBeUndefined()
  })

  test('is not compared with JSON, which no plain value equals; a part of it is', async () => {
    const name = '${' + '{ t }}'
    const why =
      'a JSON value cannot be compared with a policy value: compare a part of it in filterSql with ->>'
    for (const operator of ['EQUALS', 'NOT_EQUALS', 'GREATER_THAN', 'LESS_THAN_OR_EQUAL_TO'] as const)
      for (const column of ['payload', '_service_payload']) {
        const filter = { column, operator, value: name }
        const inner = { column: 'tenant', operator: 'IS_NOT_NULL', and: [{ ...filter, or: [] }] } as const
        for (const rows of [[filter], [inner]])
          expect(checkFilters(SCHEMA, rows, 'placeholders')).toEqual({
            badRequest: `rows: column "${column}": ${why}`,
          })
      }
    const check = (filterSql: string) => checkFilterSql(SCHEMA, filterSql, 'placeholders', parse)
    for (const wrong of [`payload = ${name}`, `${name} <> payload`, `(payload->'n') IN (${name})`])
      expect([wrong, await check(wrong)]).toEqual([wrong, { badRequest: `filterSql: ${why}` }])
    const part = `payload->>'s' = ${name}`
    expect(await check(part)).toBeUndefined()
    expect(await pool.ask(COUNT, {}, policyOf({ filterSql: part, values: { t: 'x' } }))).toBe('1')
  })

  test('is a plain text in the filters of a metric', () => {
    const filters = [{ column: 'tenant', operator: 'EQUALS', value: '${' + '{ t }}' }] as const
    expect(checkFilters(SCHEMA, filters, 'plain')).toBeUndefined()
  })

  test('is found by the tokeniser where the parser finds it', () => {
    const name = '${' + '{ t }}'
    expect(replacePlaceholders(`a = ${name} AND b = '${name}'`)).toEqual({
      sql: 'a =  policy_value(0)  AND b =  policy_value(1) ',
      names: ['t', 't'],
    })
    expect(replacePlaceholders(`a = 'it''s' -- '\nAND b = ${name} /* /* ' */ */ AND c = 'd'`)).toHaveProperty(
      'names',
      ['t'],
    )
  })
})

describe('columns outside of a policy', () => {
  const policy = policyOf({ columns: ['name', 'i8', 'gone'], filterSql: "tenant = 'a' AND secret <> ''" })

  test('are unknown wherever a question names them', async () => {
    const unknown = (answer: string | null, column: string) =>
      expect(answer).toBe(
        `BAD: ${answer?.includes('filterSql') ? 'filterSql: ' : ''}${answer?.includes('expression') ? 'expression: ' : ''}${answer?.includes('timeRange') ? 'timeRange.timestamp: ' : ''}there is no column "${column}"${answer?.includes('quotes') ? `; a text is in single quotes: '${column}'` : ''}`,
      )
    for (const column of [
      'secret',
      'tenant',
      '_service_payload',
      '_service_received_at',
      'nope',
      'gone',
      'all_rows',
    ]) {
      unknown(await pool.ask({ kind: 'sum', column }, {}, policy), column)
      unknown(await pool.ask({ kind: 'countDistinct', column }, {}, policy), column)
      unknown(await pool.ask({ kind: 'custom', expression: `COUNT("${column}")` }, {}, policy), column)
      unknown(await pool.count(`"${column}" IS NOT NULL`, policy), column)
      unknown(await pool.count(`"${column.toUpperCase()}" IS NOT NULL`, policy), column.toUpperCase())
      const filters = [{ column, operator: 'IS_NOT_NULL' }] as const
      unknown(await pool.ask(COUNT, { filters }, policy), column)
      unknown(
        await pool.ask(COUNT, { timeRange: { timestamp: column, start: '2020-01-01' } }, policy),
        column,
      )
    }
    expect(await pool.ask(COUNT, { timeRange: { timestamp: 'ts' } }, policy)).toMatch(/no column "ts"/)
  })

  test('are not named by a predefined metric that needs them', async () => {
    const unseen = 'BAD: the metric needs a column that the Data Pool Access Policy of the application hides'
    const none = { filters: [], filterSql: null }
    const bySql = { filters: [], filterSql: "secret = 'x'" }
    const byFilter = { filters: [{ column: 'secret', operator: 'IS_NULL' }], filterSql: null } as const
    expect(await pool.ask({ kind: 'sum', column: 'secret' }, { own: none }, policy)).toBe(unseen)
    const expression = 'COUNT(DISTINCT secret)'
    expect(await pool.ask({ kind: 'custom', expression }, { own: none }, policy)).toBe(unseen)
    expect(await pool.ask(COUNT, { own: bySql }, policy)).toBe(unseen)
    expect(await pool.ask(COUNT, { own: byFilter }, policy)).toBe(unseen)
    // The reader's own words are answered as ever.
    const filters = [{ column: 'secret', operator: 'IS_NULL' }] as const
    expect(await pool.ask(COUNT, { own: none, filters }, policy)).toBe('BAD: there is no column "secret"')
    expect(await pool.ask({ kind: 'countDistinct', column: 'secret' }, { own: none }, null)).toMatch(/^\d+$/)
  })

  test('do not limit the rows by time', async () => {
    expect(await pool.ask(COUNT, { timeRange: { start: '2000-01-01' } }, policy)).toMatch(
      /^BAD: timeRange.timestamp: it must be given/,
    )
    expect(await pool.ask(COUNT, { timeRange: { start: null } }, policy)).toBe('2')
    const withTime = policyOf({ columns: ['ts'] })
    expect(await pool.ask(COUNT, { timeRange: { start: '2022-01-01' } }, withTime)).toBe('2')
  })

  test('are not read from `rows` by any statement', async () => {
    const secret = columnOf({ name: 'secret', type: 'STRING' })
    const broken: Askable<null> = {
      type: 'SQL',
      subtype: null,
      rowsMax: 10,
      texts: () => [],
      plan: () => ({
        select: { outputs: [{ name: 'value', value: operation('max', 'text', [secret]) }] },
        timeFromUs: null,
        timeToUs: null,
        tenantEquals: null,
        answer: rows => rows,
      }),
    }
    const reader = { applicationId: 'APP', verifyAgain: () => undefined, inTurn: atOnce }
    const asked = (limits: RowPolicy | null) =>
      ask(broken, [{ schema: SCHEMA, policy: limits }], null, reader, deps())
    await expect(asked(policy)).rejects.toThrow(/secret/)
    const free = await asked(null)
    expect(free).toMatchObject({ rows: [['x3']] })
    const rowsOnly = await asked(TENANT_A)
    expect(rowsOnly).toMatchObject({ rows: [['x2']], recordsProcessed: 0, bytesProcessed: 0 })
  })

  test('leave counts and the Arrow columns', async () => {
    expect(await pool.ask(COUNT, {}, policyOf({ columns: [] }))).toBe('5')
    expect(await pool.ask(COUNT, {}, policyOf({ columns: [], filterSql: "tenant = 'a'" }))).toBe('2')
    const planned = await planFor([{ schema: SCHEMA, policy }], [], parse, NOW_MS, (view, context) =>
      planSelection(view, {}, context),
    )
    expect(planned.columns.map(({ name }) => name)).toEqual(['name', 'i8'])
    const named = planFor([{ schema: SCHEMA, policy }], [], parse, NOW_MS, (view, context) =>
      planSelection(view, { columns: ['name', 'secret'] }, context),
    )
    await expect(named).rejects.toThrow(new Refused('columns: there is no column "secret"'))
  })
})

describe('the tenant by which segments are left out', () => {
  const planned = async (filterSql: string, policy: RowPolicy | null) => {
    const query = { metric: COUNT, filterSql }
    const plan = await planFor(
      [{ schema: SCHEMA, policy }],
      counter.texts(query),
      parse,
      NOW_MS,
      (view, context) => counter.plan(view, query, context),
    )
    return plan.tenantEquals
  }

  test('is known only if every row must have it', async () => {
    for (const [sql, tenant] of [
      ["tenant = 'a'", 'a'],
      ["'a' = TENANT", 'a'],
      ["i8 = 1 AND (tenant = 'a' AND flag)", 'a'],
      ["tenant = 'a' OR i8 = 1", null],
      ["NOT (tenant = 'a')", null],
      ["tenant <> 'a'", null],
      ["tenant IN ('a')", null],
      ['tenant = name', null],
      ["lower(tenant) = 'a'", null],
      ["(tenant = 'a') IS NULL", null],
      ["CASE WHEN tenant = 'a' THEN true END", null],
    ] as const)
      expect([sql, await planned(sql, null)]).toEqual([sql, tenant])
    expect(await planned('i8 = 1', TENANT_A)).toBe('a')
    const placeholder = { filterSql: 'tenant = ${' + '{ t }}', values: { t: "b'" } }
    expect(await planned('i8 = 1', policyOf(placeholder))).toBe("b'")
    expect(await planned("tenant = 'b'", policyOf({ columns: ['tenant'] }))).toBe('b')
  })

  test('is never the one of a reader from whom a policy hides rows', async () => {
    for (const filterSql of ['i8 = 1', 'name IS NULL OR flag', "tenant <> 'c'"])
      expect([filterSql, await planned("tenant = 'b'", policyOf({ filterSql }))]).toEqual([filterSql, null])
    expect(await planned("tenant = 'b'", TENANT_A)).toBe('a')
    expect(await pool.count("tenant = 'b'", TENANT_A)).toBe('0')
  })
})

describe('statistics', () => {
  test('are those of the visible part', async () => {
    const rowsOf = async (
      question: Askable<{ readonly column: string }>,
      column: string,
      policy: RowPolicy | null,
    ) => {
      const answer = await ask(
        question,
        [{ schema: SCHEMA, policy }],
        { column },
        { applicationId: 'APP', verifyAgain: () => undefined, inTurn: atOnce },
        deps(),
      )
      return 'badRequest' in answer ? answer : answer.rows
    }
    expect(await rowsOf(columnRange, 'i8', null)).toEqual([['-128', '127', '0']])
    expect(await rowsOf(columnRange, 'i8', TENANT_A)).toEqual([['-128', '1', '-63.5']])
    expect(await rowsOf(columnRange, 'name', TENANT_A)).toEqual([['Ada', 'Bob', null]])
    expect(await rowsOf(columnRange, 'payload', TENANT_A)).toEqual([[null, null, null]])
    expect(await rowsOf(columnRange, 'secret', policyOf({ columns: ['name'] }))).toEqual({
      badRequest: 'there is no column "secret"',
    })
    const values = await rowsOf(columnValues, 'tenant', null)
    expect(uniqueValuesOf(values as string[][], 2)).toEqual(['a', 'b'])
    expect(uniqueValuesOf(Array(1_001).fill(['x']), 1_000)).toEqual([])
    expect(await rowsOf(columnValues, 'tenant', TENANT_A)).toEqual([['a']])
  })
})

function deps() {
  return {
    engine,
    onQuery: () => undefined,
    pin: segmentPins({
      makeVisible: async () => undefined,
      snapshot: async () => ({ segments: pool.segments(), release: () => undefined }),
    }),
  }
}
