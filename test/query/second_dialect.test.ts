/**
 * The seam between planner and engine (plan.ts): the real planner's plans as SQL of another engine.
 * And no file but those of an engine writes SQL, or knows the dialect.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { counter } from '../../src/query/plan/counter.ts'
import { dataGrid } from '../../src/query/plan/data-grid.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { metricReport } from '../../src/query/plan/metric-report.ts'
import { readPage } from '../../src/query/plan/page.ts'
import { percentile } from '../../src/query/plan/percentile.ts'
import { planFor, type RowPolicy } from '../../src/query/plan/policy.ts'
import type { PrintedRows } from '../../src/query/plan/query-task.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { timeSeries } from '../../src/query/plan/time-series.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import { clickhouse } from './clickhouse-dialect.ts'
import { schemaOf } from './pool.ts'

const SCHEMA = schemaOf(
  [
    ['at', 'TIMESTAMP'],
    ['day', 'DATE'],
    ['shop', 'STRING'],
    ['n', 'INT64'],
    ['price', 'DOUBLE'],
    ['say `hi`\\', 'STRING'],
  ],
  { timestamp: 0, tenant: 2 },
)

async function planOf<Query, Answer>(
  question: Askable<Query, Answer>,
  query: Query,
  policy: RowPolicy | null = null,
) {
  await question.prepare?.(query, async work => work())
  const limited = [{ schema: SCHEMA, policy }] as const
  return await planFor(
    limited,
    [],
    async () => new Map(),
    Date.UTC(2024, 4, 15),
    (view, context) => question.plan(view, query, context),
  )
}

/** The statement, and its values as text. */
async function write<Query>(question: Askable<Query>, query: Query, policy: RowPolicy | null = null) {
  const statement = clickhouse.write(await planOf(question, query, policy))
  const { sql, bounds, restriction } = statement
  return { sql, values: bounds.map(({ type, value }) => `${type} ${value}`), restriction }
}

const SUM = { kind: 'sum', column: 'n' } as const
const NONE = { filters: [], filterSql: null }
const page = (input: object) => readPage(input)

describe('as SQL of ClickHouse', () => {
  test('a counter with filters and a range of time', async () => {
    const filters = [
      { column: 'shop', operator: 'EQUALS', value: "it's", or: [{ column: 'n', operator: 'IS_NULL' }] },
      { column: 'shop', operator: 'NOT_LIKE', value: 'a_%\\%' },
    ] as const
    const timeRange = { start: '1970-01-01', stop: '1970-01-02' }
    expect(await write(counter, { metric: SUM, filters, timeRange })).toEqual({
      sql:
        'SELECT sumOrNull(toInt128(r.`n`)) AS `value` FROM rows AS r ' +
        "WHERE ((r.`at` >= fromUnixTimestamp64Micro({p1:Int64}, 'UTC')) AND " +
        "(r.`at` < fromUnixTimestamp64Micro({p2:Int64}, 'UTC')) AND " +
        '((r.`shop` = {p3:String}) OR (r.`n` IS NULL)) AND (NOT (r.`shop` LIKE {p4:String})))',
      values: ['TIMESTAMP 0', 'TIMESTAMP 86400000000', "STRING it's", 'STRING a_%\\%'],
    })
  })

  test('a policy limits the rows below the question', async () => {
    const rows = [{ column: 'day', operator: 'GREATER_THAN', value: '${' + '{ since }}' }] as const
    const policy = { columns: ['n'], rows, filterSql: null, values: { since: '1970-01-31' } }
    expect(await write(counter, { metric: { kind: 'count' } }, policy)).toEqual({
      sql: 'SELECT count() AS `value` FROM rows AS r',
      values: ['DATE 30'],
      restriction: { columns: ['n'], where: '(r.`day` > toDate32({p1:Int32}))' },
    })
  })

  test('a leaderboard and top values', async () => {
    const board = {
      metric: SUM,
      name: 'value',
      dimensions: ['shop', 'say `hi`\\'],
      sort: 'DESC',
      rowLimit: 3,
    }
    expect((await write(leaderboard, board as Parameters<typeof leaderboard.plan>[1])).sql).toBe(
      'SELECT s.`d0` AS `d0`, s.`d1` AS `d1`, s.`value` AS `value` FROM (' +
        'SELECT r.`shop` AS `d0`, r.`say \\`hi\\`\\\\` AS `d1`, sumOrNull(toInt128(r.`n`)) AS `value` ' +
        'FROM rows AS r GROUP BY 1, 2) AS s WHERE (s.`value` IS NOT NULL) ' +
        'ORDER BY 3 DESC NULLS LAST, 1 ASC NULLS LAST, 2 ASC NULLS LAST LIMIT 3',
    )
    expect((await write(topValues, { column: 'shop', maxValues: 5 })).sql).toBe(
      'SELECT r.`shop` AS `value`, count() AS `count` FROM rows AS r WHERE (r.`shop` IS NOT NULL) ' +
        'GROUP BY 1 ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 5',
    )
  })

  test('a report, whose metrics have filters of their own', async () => {
    const filters = [{ column: 'price', operator: 'GREATER_THAN', value: '1.5' }] as const
    const query = {
      dimensions: ['shop'],
      metrics: [
        { metric: SUM, own: NONE, filters, filterSql: null },
        { metric: { kind: 'average', column: 'price' }, own: NONE, filters: null, filterSql: null },
      ],
      headers: ['shop', 'a', 'b'],
      sorts: ['ASC', 'DESC', 'DESC'],
      orderByColumn: 3,
      page: page({ first: 2 }),
    } as const
    expect(await write(metricReport, query)).toEqual({
      sql:
        'SELECT s.`d0` AS `d0`, s.`m0` AS `m0`, s.`m1` AS `m1`, if(isFinite(s.`m1`), ' +
        "accurateCastOrNull(s.`m1`, 'Float64'), CAST(NULL AS Nullable(Float64))) AS `k1` FROM (" +
        'SELECT r.`shop` AS `d0`, sumOrNull(toInt128(r.`n`)) FILTER (WHERE (r.`price` > {p1:Float64})) AS `m0`, ' +
        'avgOrNull(toFloat64(r.`price`)) AS `m1` FROM rows AS r GROUP BY 1) AS s ' +
        'ORDER BY 4 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 3',
      values: ['DOUBLE 1.5'],
    })
  })

  test('a grid, and the page after its first row', async () => {
    const query = { columns: ['shop'], orderByColumn: 1, sort: 'ASC', page: page({ first: 1 }) } as const
    const select = 'SELECT r.`shop` AS `c1`, r.`at` AS `k2`, r.`_service_received_at` AS `k3` FROM rows AS r'
    const order = 'ORDER BY 1 ASC NULLS LAST, 2 DESC NULLS LAST, 3 ASC NULLS LAST LIMIT 2'
    expect((await write(dataGrid, query)).sql).toBe(`${select} ${order}`)
    const time = '1970-01-01T00:00:00.001Z'
    const row = ['north', time, time]
    const endOf = async (count: number) => {
      const rows: PrintedRows = Array.from({ length: count }, () => row)
      const first = { ...query, page: page({ first: count }) }
      const answer = (await planOf(dataGrid, first)).answer(rows) as { pageInfo: { endCursor: string } }
      return answer.pageInfo.endCursor
    }
    const next = { ...query, page: page({ first: 1, after: await endOf(1) }) }
    const instant = (n: number) => `fromUnixTimestamp64Micro({p${n}:Int64}, 'UTC')`
    expect(await write(dataGrid, next)).toEqual({
      sql:
        `${select} WHERE (((r.\`shop\` >= {p1:String}) OR (r.\`shop\` IS NULL)) AND ` +
        '(((r.`shop` > {p2:String}) OR (r.`shop` IS NULL)) OR ((r.`shop` = {p3:String}) AND ' +
        `(((r.\`at\` < ${instant(4)}) OR (r.\`at\` IS NULL)) OR ((r.\`at\` = ${instant(5)}) AND ` +
        `((r.\`_service_received_at\` > ${instant(6)}) OR ` +
        `((r.\`_service_received_at\` = ${instant(7)}) AND {p8:Bool}))))))) ${order} OFFSET 1`,
      values: [
        ...Array(3).fill('STRING north'),
        ...Array(4).fill('TIMESTAMP 1000'),
        'BOOLEAN true', // The rows at the place are among them.
      ],
    })
    // Back from the second of two equal rows: the other one, and the rows before both.
    const back = { ...query, page: page({ last: 1, before: await endOf(2) }) }
    const { sql } = await write(dataGrid, back)
    expect(sql).toMatch(/^SELECT s\.`c1` AS `c1`, s\.`k2` AS `k2`, s\.`k3` AS `k3` FROM \(\(SELECT /)
    expect(sql).toMatch(/ LIMIT 1\) UNION ALL \(SELECT /)
    expect(sql).toMatch(
      / LIMIT 2\)\) AS s ORDER BY 1 DESC NULLS FIRST, 2 ASC NULLS FIRST, 3 DESC NULLS FIRST LIMIT 2$/,
    )
  })

  test('percentiles', async () => {
    expect((await write(percentile, { column: 'n', fractions: [0.5, 1] })).sql).toBe(
      'SELECT quantileExactInclusiveOrNull(0.5)(toFloat64(r.`n`)) AS `p0`, ' +
        'quantileExactInclusiveOrNull(1)(toFloat64(r.`n`)) AS `p1` FROM rows AS r',
    )
  })

  test('an operation that it does not know is named', async () => {
    const query = { metric: { kind: 'count' }, granularity: 'DAY', groupBy: [] } as const
    await expect(write(timeSeries as Askable<unknown>, query)).rejects.toThrow(
      /dialect of the tests does not know the operation time_key/,
    )
  })
})

const QUERY = new URL('../../../src/query/', import.meta.url)
/** The files of the engine, which alone write SQL. */
const WRITERS = [
  'duckdb/chunk-work.ts',
  'duckdb/engine.ts',
  'duckdb/live-rows.ts',
  'duckdb/parse-sql.ts',
  'duckdb/write-expression.ts',
  'duckdb/write-statement.ts',
]
/** The files that choose the dialect, or ask it whether a text has too many patterns. */
const CHOOSERS = ['ask.ts', 'check-texts.ts', 'plan-row-changes.ts', 'selection.ts', 'tail.ts']

const files = (readdirSync(QUERY, { recursive: true }) as string[])
  .filter(name => name.endsWith('.ts'))
  .map(name => {
    const text = readFileSync(new URL(name, QUERY), 'utf8')
    return { name, code: text.replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '') }
  })

test('no planner writes SQL', () => {
  // A literal that begins like a clause, or has a table after FROM.
  const clause = /['"`(}] ?(SELECT|FROM|WHERE) ['"`$(\w*]| FROM [$(]/
  const found = files.filter(({ code }) => clause.test(code)).map(({ name }) => name)
  expect(found.sort()).toEqual(WRITERS)
})

test('no planner knows the dialect', () => {
  const imports = /from '[^']*\/duckdb\/write-[^']*'/
  const found = files
    .filter(({ name, code }) => !name.startsWith('duckdb/') && imports.test(code))
    .map(({ name }) => name)
  expect(found.sort()).toEqual(CHOOSERS)
})
