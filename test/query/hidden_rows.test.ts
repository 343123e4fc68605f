/**
 * Hidden rows have no effect that a reader can see: what it wrote never runs on one of their
 * values, DuckDB's errors tell no figures of them, and no segment is left out because of them.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { BIGINT, BOOLEAN, type DuckDBConnection, DuckDBScalarFunction, VARCHAR } from '@duckdb/node-api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { DuckdbInstances } from '../../src/query/duckdb/duckdb-instances.ts'
import { withRows } from '../../src/query/duckdb/live-rows.ts'
import type { Restriction } from '../../src/query/plan/plan.ts'
import { rowsOfPool } from '../../src/query/plan/segment-task.ts'
import { newSeed } from '../util/random.ts'
import { schemaOf, TestPool } from './pool.ts'

const pool = new TestPool()
const schema = schemaOf(
  [
    ['tenant', 'STRING'],
    ['name', 'STRING'],
    ['doc', 'JSON'],
    ['n', 'INT64'],
    ['few', 'INT64'],
  ],
  { tenant: 0 },
)
const COLUMNS = new Set(['_service_received_at', '_service_payload', 'tenant', 'name', 'doc', 'n', 'few'])
const settings = pool.nativeSettings
const VISIBLE = "tenant = 'a'"
const ROWS = 20_000
const HIDDEN = 'hidden '
const HIDDEN_NUMBER = -777n

const instances = new DuckdbInstances(settings)
let connection: DuckDBConnection
let segment: QuerySegment
/** The values on which the function of a reader ran. */
const seen = new Set<unknown>()

beforeAll(async () => {
  const { duckdb } = await instances.of('P1_X_LARGE')
  connection = await duckdb.connect()
  for (const [name, type] of [
    ['spy', VARCHAR],
    ['spy_number', BIGINT],
  ] as const)
    connection.registerScalarFunction(
      DuckDBScalarFunction.create({
        name,
        parameterTypes: [type],
        returnType: BOOLEAN,
        mainFunction: (_info, input, output) => {
          const values = input.getColumnVector(0)
          for (let row = 0; row < input.rowCount; row++) {
            seen.add(values.getItem(row))
            output.setItem(row, true)
          }
          output.flush()
        },
      }),
    )
  // A few values, which the file keeps as dictionaries. One of each column is a hidden row's alone.
  const text = (prefix: string) =>
    `CASE WHEN i = 777 THEN '${HIDDEN}${prefix}' ELSE '${prefix}' || (i % 20) END`
  segment = await pool.write(
    `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, ${text('p')} AS _service_payload,
     CASE WHEN i = 777 THEN 'b' ELSE 'a' END AS tenant, ${text('n')} AS name, ${text('d')} AS doc,
     i::BIGINT AS n, CASE WHEN i = 777 THEN ${HIDDEN_NUMBER} ELSE i % 20 END::BIGINT AS few,
     0::BIGINT AS _service_sequence FROM range(${ROWS}) t(i)`,
  )
})
afterAll(async () => {
  connection.closeSync()
  await instances.close()
  await pool.close()
})

function sqlOf(sql: string, restriction: Restriction | undefined, commons?: string): string {
  const whole = [{ file: segment.file, columns: COLUMNS }]
  const statement = commons === undefined ? { sql } : { sql, commons }
  return withRows([{ schema, whole, reduced: undefined, restriction }], statement)
}

async function valuesSeen(
  sql: string,
  restriction: Restriction,
  commons?: string,
): Promise<readonly unknown[]> {
  seen.clear()
  await (await connection.run(sqlOf(sql, restriction, commons))).getRows()
  return [...seen]
}

const STATEMENTS: readonly (readonly [sql: string, commons?: string])[] = [
  ['SELECT count(*) FROM rows WHERE spy(name)'],
  ['SELECT bool_and(spy(name)), bool_or(spy(_service_payload)), any_value(spy(doc)) FROM rows'],
  ["SELECT count(*) FROM rows WHERE spy(concat(name, 'x'))"],
  ['SELECT count(*) FROM rows WHERE spy(upper(name)) AND n > 3'],
  ['SELECT count(*) FROM rows WHERE spy_number(few)'],
  ['SELECT bool_and(spy_number(few)), sum(few) FROM rows'],
  ['SELECT sum(CASE WHEN n % 3 > 0 THEN spy(name)::INTEGER ELSE 0 END) FROM rows'],
  ['SELECT count(*) FILTER (WHERE spy(name)) FROM rows'],
  ['SELECT name, count(*) FROM rows GROUP BY name HAVING spy(name)'],
  ['SELECT spy(name) AS s, count(*) FROM rows GROUP BY s'],
  ['SELECT count(*) FROM (SELECT DISTINCT name FROM rows) WHERE spy(name)'],
  ['SELECT count(*) FROM (SELECT name FROM rows ORDER BY n DESC LIMIT 19000) WHERE spy(name)'],
  ['SELECT n FROM rows ORDER BY spy(name), n LIMIT 5'],
  ['SELECT count(*) FROM rows a JOIN rows b ON a.n = b.n WHERE spy(a.name) AND spy(b.doc)'],
  ['SELECT count(*) FROM rows a LEFT JOIN rows b ON a.n = b.n + 1 WHERE spy(b.name)'],
  ['SELECT count(*) FROM rows WHERE n IN (SELECT n FROM rows WHERE spy(name))'],
  ['SELECT count(*) FROM rows a WHERE EXISTS (SELECT 1 FROM rows b WHERE b.n = a.n AND spy(b.name))'],
  ['SELECT count(*) FROM (SELECT name FROM rows UNION ALL SELECT doc FROM rows) WHERE spy(name)'],
  ['SELECT count(*) FROM q1 WHERE spy(name)', 'q1 AS MATERIALIZED (SELECT * FROM rows WHERE n > 5)'],
  ['SELECT count(*) FROM q1 WHERE spy(name)', 'q1 AS NOT MATERIALIZED (SELECT * FROM rows WHERE n > 5)'],
  [
    'SELECT count(*) FROM q1 a JOIN q1 b ON a.n = b.n WHERE spy(a.name)',
    'q1 AS MATERIALIZED (SELECT * FROM rows)',
  ],
]

describe('what a reader wrote runs on visible values alone', () => {
  const restrictions: readonly Restriction[] = [
    { columns: null, where: VISIBLE },
    { columns: ['_service_payload', 'name', 'doc', 'n', 'few'], where: VISIBLE },
  ]
  test.each(STATEMENTS.map(([sql, commons]) => ({ sql, commons })))('$sql', async ({ sql, commons }) => {
    for (const restriction of restrictions) {
      const values = await valuesSeen(sql, restriction, commons)
      expect(values.length).toBeGreaterThanOrEqual(20)
      expect(values.filter(value => String(value).toLowerCase().includes(HIDDEN))).toEqual([])
      expect(values.filter(value => typeof value === 'bigint' && value < 0n)).toEqual([])
    }
  })

  test('where all rows are visible, the function runs on that value', async () => {
    expect(
      await valuesSeen('SELECT count(*) FROM rows WHERE spy(name)', { columns: ['name'], where: '' }),
    ).toContain(`${HIDDEN}n`)
  })
})

describe('visible values are those of the files', () => {
  const wide = schemaOf([
    ['s', 'STRING'],
    ['j', 'JSON'],
    ['i', 'INT64'],
    ['d', 'DOUBLE'],
    ['b', 'BOOLEAN'],
    ['day', 'DATE'],
    ['ts', 'TIMESTAMP'],
    ['none', 'STRING'],
  ])
  const names = ['_service_received_at', '_service_payload', ...wide.columns.map(({ name }) => name)]
  const file = async (rows: number, seed: number) =>
    await pool.write(
      `SELECT to_timestamp(i)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload,
       CASE hash(i, ${seed}) % 7 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'a' || chr(0) || i
         WHEN 3 THEN repeat('long ', (i % 90)::INTEGER) ELSE 'text ' || (i % 30) END AS s,
       CASE WHEN i % 3 = 0 THEN '{"k":' || i || '}' END AS j, i::BIGINT AS i, CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN 'NaN'::DOUBLE WHEN 2 THEN '-inf'::DOUBLE ELSE i / 7 END AS d,
       i % 5 > 1 AS b, CASE WHEN i < ${rows} / 2 THEN DATE '2026-01-01' + (i % 99)::INTEGER END AS day,
       to_timestamp(i * 77)::TIMESTAMPTZ AS ts, NULL::VARCHAR AS none, 0::BIGINT AS _service_sequence
       FROM range(${rows}) t(i)`,
    )
  const policies = [
    'i < 2000000',
    'i % 2 = 0',
    'i = 5',
    'i < 0',
    's IS NULL',
    "s LIKE 'text 1%' OR b",
    'day IS NULL',
  ]
  const selects = [
    '* FROM v',
    'count(*), count(s), count(none), sum(length(s)), max(j), min(ts), max(day), bool_or(b), sum(i), max(d) FROM v',
    's, count(*), min(none), max(j) FROM v GROUP BY s',
    'CASE WHEN i % 3 = 0 THEN s WHEN b THEN j ELSE none END AS c, coalesce(s, j, none) AS o FROM v',
    'upper(s) AS u, s || j AS t, i FROM v WHERE s > j OR d < 400 OR none IS NULL',
    'v.s, w.j FROM v JOIN v AS w ON v.i = w.i + 1 WHERE v.s = w.s OR w.b',
  ]

  test('whatever the policy, the number of rows and the statement are', async () => {
    const seed = newSeed()
    for (const rows of [1, 3, 2_049, 70_000]) {
      const whole = [{ file: (await file(rows, seed)).file, columns: new Set(names) }]
      for (const where of policies) {
        const [view, plain] = [{ columns: null, where }, undefined].map(restriction =>
          withRows([{ schema: wide, whole, reduced: undefined, restriction }], { sql: '' }),
        )
        for (const select of selects) {
          const got = `${view}, v AS NOT MATERIALIZED (SELECT * FROM rows) SELECT ${select}`
          const want = `${plain}, v AS NOT MATERIALIZED (SELECT * FROM rows WHERE ${where}) SELECT ${select}`
          const more = await connection.run(
            `SELECT (SELECT count(*) FROM ((${got}) EXCEPT ALL (${want}))), (SELECT count(*) FROM ((${want}) EXCEPT ALL (${got})))`,
          )
          expect((await more.getRows())[0], `seed ${seed}, ${rows} rows, ${where}: ${select}`).toEqual([
            0n,
            0n,
          ])
        }
      }
    }
  })
})

test('the operators above the barrier get the visible rows', async () => {
  const restriction = { columns: null, where: `${VISIBLE} AND n < 5000` }
  const explained = await connection.run(
    `EXPLAIN (ANALYZE, FORMAT json) ${sqlOf('SELECT sum(n) FROM rows WHERE n >= 0', restriction)}`,
  )
  const [, json] = (await explained.getRows())[0]!
  const limit = /"operator_cardinality": (\d+),\s*"operator_name": "STREAMING_LIMIT"/.exec(String(json))
  expect(limit?.[1]).toBe('4999')
})

describe('the statement', () => {
  test('is as before for readers from whom no policy hides rows', () => {
    const rows = `SELECT s."_service_received_at", s."_service_payload", s."tenant", s."name", s."doc", s."n", s."few" FROM read_parquet(['${segment.file.replaceAll("'", "''")}']) s`
    const sql = 'SELECT count(*) FROM rows'
    expect(sqlOf(sql, undefined)).toBe(`WITH rows AS NOT MATERIALIZED (${rows}) ${sql}`)
    const some = `WITH all_rows AS NOT MATERIALIZED (${rows}), rows AS NOT MATERIALIZED`
    expect(sqlOf(sql, { columns: null, where: '' })).toBe(`${some} (SELECT * FROM all_rows) ${sql}`)
    expect(sqlOf(sql, { columns: ['n', 'name'], where: '' })).toBe(
      `${some} (SELECT "n", "name" FROM all_rows) ${sql}`,
    )
    expect(sqlOf(sql, { columns: [], where: '' })).toBe(
      `${some} (SELECT NULL AS _service_none FROM all_rows) ${sql}`,
    )
  })

  test('counts the visible rows of a reader that sees no column', async () => {
    const counted = await connection.run(sqlOf('SELECT count(*) FROM rows', { columns: [], where: VISIBLE }))
    expect(await counted.getRows()).toEqual([[BigInt(ROWS - 1)]])
  })
})

test('a query beyond the memory has no figures where a policy hides rows', async () => {
  const engine = await pool.open({ memoryBytes: 24 * 1024 * 1024 })
  const run = (restriction: Restriction | undefined) => {
    const lists = 'SELECT list(a.name || b.name || a.n || b.n) AS l FROM rows a, rows b'
    const sql = `SELECT length(l::VARCHAR) AS l FROM (${lists})`
    const statement = { sql, bounds: [], ...(restriction === undefined ? {} : { restriction }) }
    return engine.run({ source: rowsOfPool(schema, { segments: [segment] }), statement, rowsMax: 1 }, 'a')
  }
  const message = (figures: string) =>
    `the query needs more memory than its propeller has${figures}: ask for fewer rows, groups or columns, or give the application a larger propeller`
  await expect(run({ columns: null, where: VISIBLE })).rejects.toMatchObject({
    code: 'query_memory',
    message: message(''),
  })
  await expect(run(undefined)).rejects.toMatchObject({
    code: 'query_memory',
    message: expect.stringMatching(/has \([^()]* used\): ask/),
  })
})

test('the error about a damaged text does not tell the text of a hidden row or column', async () => {
  const text = "CASE WHEN i = 7 THEN 'b' || 'secret' ELSE 'a' || i % 2 END"
  const damaged = await pool.write(
    `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload, ${text} AS tenant, ${text} AS name,
     ${text} AS doc, i::BIGINT AS n, i::BIGINT AS few, 0::BIGINT AS _service_sequence FROM range(100) t(i)`,
  )
  const bytes = readFileSync(damaged.file)
  for (let at = bytes.indexOf('secret'); at >= 0; at = bytes.indexOf('secret', at + 1)) bytes[at] = 0xff
  writeFileSync(damaged.file, bytes)
  const engine = await pool.open()
  const refusalOf = async (restriction?: Restriction) => {
    const sql = `SELECT max(${restriction?.columns?.[0] ?? 'name'}) AS m FROM rows`
    const statement = { sql, bounds: [], ...(restriction === undefined ? {} : { restriction }) }
    const meta = { ...damaged.meta, checksum: null }
    const segments = [{ ...damaged, meta }]
    const answer = engine.run({ source: rowsOfPool(schema, { segments }), statement, rowsMax: 1 }, 'a')
    return await answer.then(String, (error: unknown) => error)
  }
  expect(await refusalOf()).toMatchObject({ message: expect.stringContaining('ecret') })
  for (const restriction of [
    { columns: null, where: "tenant LIKE 'a%'" },
    { columns: ['name'], where: 'n <> 7' },
  ])
    expect(await refusalOf(restriction)).toMatchObject({
      name: 'SegmentDamaged',
      file: damaged.file,
      message: `segment ${damaged.file} cannot be read: it is damaged`,
    })
})
