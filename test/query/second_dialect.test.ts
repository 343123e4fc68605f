/**
 * The seam between planner and engine (plan.ts): the real planner's plans as SQL of another engine.
 * And no file but those of an engine writes SQL, or knows the dialect.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { clickhouse } from '../../src/query/clickhouse/write-statement.ts'
import type { SqlStatement } from '../../src/query/expression/ast.ts'
import { counter } from '../../src/query/plan/counter.ts'
import { dataGrid } from '../../src/query/plan/data-grid.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { metricReport } from '../../src/query/plan/metric-report.ts'
import { readPage } from '../../src/query/plan/page.ts'
import { percentile } from '../../src/query/plan/percentile.ts'
import { planFor, type RowPolicy } from '../../src/query/plan/policy.ts'
import type { PrintedRows } from '../../src/query/plan/query-task.ts'
import type { Askable } from '../../src/query/plan/question.ts'
import { topValues } from '../../src/query/plan/top-values.ts'
import { sql as sqlV1 } from '../../src/query/sql/sql-question.ts'
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
        'SELECT sumOrNull(toInt128(_service_r.`n`)) AS `_service_c1` FROM rows AS _service_r ' +
        "WHERE ((_service_r.`at` >= fromUnixTimestamp64Micro({p1:Int64}, 'UTC')) AND " +
        "(_service_r.`at` < fromUnixTimestamp64Micro({p2:Int64}, 'UTC')) AND " +
        '((_service_r.`shop` = {p3:String}) OR (_service_r.`n` IS NULL)) AND (NOT match(_service_r.`shop`, {p4:String})))',
      values: ['TIMESTAMP 0', 'TIMESTAMP 86400000000', "STRING it's", 'STRING (?s)\\A(?:a..*\\%)\\z'],
    })
  })

  test('a policy limits the rows below the question', async () => {
    const rows = [{ column: 'day', operator: 'GREATER_THAN', value: '${' + '{ since }}' }] as const
    const policy = { columns: ['n'], rows, filterSql: null, values: { since: '1970-01-31' } }
    expect(await write(counter, { metric: { kind: 'count' } }, policy)).toEqual({
      sql: 'SELECT toInt64(count()) AS `_service_c1` FROM rows AS _service_r',
      values: ['DATE 30'],
      restriction: { columns: ['n'], where: '(_service_r.`day` > toDate32({p1:Int32}))' },
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
      'SELECT _service_s.`_service_d0` AS `_service_c1`, _service_s.`_service_d1` AS `_service_c2`, _service_s.`_service_value` AS `_service_c3` FROM (' +
        'SELECT _service_r.`shop` AS `_service_d0`, _service_r.`say \\`hi\\`\\\\` AS `_service_d1`, sumOrNull(toInt128(_service_r.`n`)) AS `_service_value` ' +
        'FROM rows AS _service_r GROUP BY _service_r.`shop`, _service_r.`say \\`hi\\`\\\\`) AS _service_s WHERE (_service_s.`_service_value` IS NOT NULL) ' +
        'ORDER BY 3 DESC NULLS LAST, 1 ASC NULLS LAST, 2 ASC NULLS LAST LIMIT 3',
    )
    expect((await write(topValues, { column: 'shop', maxValues: 5 })).sql).toBe(
      'SELECT _service_r.`shop` AS `_service_c1`, toInt64(count(_service_r.`shop`)) AS `_service_c2` FROM rows AS _service_r ' +
        'GROUP BY _service_r.`shop` ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 5',
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
    const finite =
      'multiIf(isFinite(_service_s.`_service_m1`), toFloat64(_service_s.`_service_m1`), CAST(NULL AS Nullable(Float64)))'
    expect(await write(metricReport, query)).toEqual({
      sql:
        'SELECT _service_s.`_service_d0` AS `_service_c1`, _service_s.`_service_m0` AS `_service_c2`, _service_s.`_service_m1` AS `_service_c3`, ' +
        `${finite} AS \`_service_c4\` FROM (` +
        'SELECT _service_r.`shop` AS `_service_d0`, sumOrNull(toInt128(_service_r.`n`)) FILTER ' +
        '(WHERE (_service_r.`price` > reinterpretAsFloat64({p1:UInt64}))) AS `_service_m0`, ' +
        '(sumKahanOrNull(toFloat64(_service_r.`price`)) / count(_service_r.`price`)) AS `_service_m1` FROM rows AS _service_r GROUP BY _service_r.`shop`) AS _service_s ' +
        `ORDER BY isNaN(${finite}) DESC NULLS LAST, 4 DESC NULLS LAST, 1 ASC NULLS LAST LIMIT 3`,
      values: ['DOUBLE 1.5'],
    })
  })

  test('a grid, and the page after its first row', async () => {
    const query = { columns: ['shop'], orderByColumn: 1, sort: 'ASC', page: page({ first: 1 }) } as const
    const select =
      'SELECT _service_r.`shop` AS `_service_c1`, _service_r.`at` AS `_service_c2`, _service_r.`_service_received_at` AS `_service_c3` FROM rows AS _service_r'
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
        `${select} WHERE (((_service_r.\`shop\` >= {p1:String}) OR (_service_r.\`shop\` IS NULL)) AND ` +
        '(((_service_r.`shop` > {p2:String}) OR (_service_r.`shop` IS NULL)) OR ((_service_r.`shop` = {p3:String}) AND ' +
        `(((_service_r.\`at\` < ${instant(4)}) OR (_service_r.\`at\` IS NULL)) OR ((_service_r.\`at\` = ${instant(5)}) AND ` +
        `((_service_r.\`_service_received_at\` > ${instant(6)}) OR ` +
        `((_service_r.\`_service_received_at\` = ${instant(7)}) AND {p8:Bool}))))))) ${order} OFFSET 1`,
      values: [
        ...Array(3).fill('STRING north'),
        ...Array(4).fill('TIMESTAMP 1000'),
        'BOOLEAN true', // The rows at the place are among them.
      ],
    })
    // Back from the second of two equal rows: the other one, and the rows before both.
    const back = { ...query, page: page({ last: 1, before: await endOf(2) }) }
    const { sql } = await write(dataGrid, back)
    expect(sql).toMatch(
      /^SELECT _service_s\.`_service_c1` AS `_service_c1`, fromUnixTimestamp64Micro\(_service_s\.`_service_k2`, 'UTC'\) AS `_service_c2`, .* FROM \(\(SELECT /,
    )
    expect(sql).toMatch(/ LIMIT 1\) UNION ALL \(SELECT /)
    expect(sql).toMatch(
      / LIMIT 2\)\) AS _service_s ORDER BY 1 DESC NULLS FIRST, 2 ASC NULLS FIRST, 3 DESC NULLS FIRST LIMIT 2$/,
    )
  })

  test('percentiles', async () => {
    const { sql } = await write(percentile, { column: 'n', fractions: [0.5, 1] })
    // All fractions are of one array, which ClickHouse makes once.
    expect(sql.match(/\[arraySort\(groupArray\(toFloat64\(_service_r\.`n`\)\)\)\]/g)).toHaveLength(2)
  })

  test('a name of a user stands in no statement but as a column of a pool', async () => {
    const alias = 'rows`; DROP TABLE x --'
    const statement = { commons: [], pools: ['p'], query: selectOf(alias) } as unknown as SqlStatement
    const { sql } = await write(sqlV1 as Askable<unknown>, { statement, poolOf: [0], dialect: 'POSTGRESQL' })
    expect(sql).toBe(
      'SELECT _service_s1.`n` AS `_service_c1`, _service_s1.`n` AS `_service_c2` FROM rows AS _service_s1',
    )
  })
})

function selectOf(alias: string): object {
  const items = [1, 2].map(() => ({ kind: 'value', alias, value: { kind: 'column', name: 'n' } }))
  const from = { kind: 'pool', pool: 0, alias: 'p', columns: [] }
  const body = { kind: 'select', from, items, where: null, groupBy: [], having: null, isDistinct: false }
  return { body, orderBy: [], limit: null, offset: 0 }
}

const QUERY = new URL('../../../src/query/', import.meta.url)
/** The files of the engines, which alone write SQL. */
const WRITERS = [
  'clickhouse/rows.ts',
  'clickhouse/write-expression.ts',
  'clickhouse/write-sources.ts',
  'clickhouse/write-statement.ts',
  'duckdb/chunk-work.ts',
  'duckdb/engine.ts',
  'duckdb/kept-partials.ts',
  'duckdb/live-rows.ts',
  'duckdb/parquet-columns.ts',
  'duckdb/parse-sql.ts',
  'duckdb/write-expression.ts',
  'duckdb/write-statement.ts',
  // What the guard asks of DuckDB, and `SELECT * FROM` before the pool of a DESCRIBE.
  'statement/guard-statement.ts',
  'statement/read-form.ts',
]
/** The file that asks a dialect whether a text has too many patterns. */
const CHOOSERS = ['check-texts.ts']

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
  const imports = /from '[^']*\/(duckdb|clickhouse)\/write-[^']*'/
  const found = files
    .filter(({ name, code }) => !/^(duckdb|clickhouse)\//.test(name) && imports.test(code))
    .map(({ name }) => name)
  expect(found.sort()).toEqual(CHOOSERS)
})
