/**
 * Statements of readers with access policies: what is hidden stays hidden by every way to name it.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RowPolicy } from '../../../src/query/plan/policy.ts'
import { SqlPools } from './pools.ts'

/** The store that takes statements in DuckDB's own SQL has both. */
const FORMS =
  process.env['WEIR_TEST_STORE'] === 'clickhouse' ? (['typed'] as const) : (['typed', 'native'] as const)

/** The beginning of a placeholder. */
const OPEN = '$' + '{{'

/** Customers of one country, without their secrets. */
const GERMAN: RowPolicy = {
  columns: ['id', 'name', 'country'],
  rows: [],
  filterSql: `country = ${OPEN} country }}`,
  values: { country: 'DE' },
}
const policies = { customers: GERMAN }

/** Ways to a hidden column. Each answers what it answers for a column that no pool has. */
const HIDDEN = [
  'SELECT $ FROM customers',
  'SELECT customers.$ FROM customers',
  'SELECT c.$ FROM customers c',
  'SELECT c."$" FROM customers AS c',
  'SELECT id AS $1, $ FROM customers',
  'SELECT id FROM customers WHERE $ IS NULL',
  "SELECT id FROM customers WHERE $ LIKE 's%'",
  'SELECT id FROM customers ORDER BY $',
  'SELECT id FROM customers ORDER BY upper($)',
  'SELECT COUNT(*) FROM customers GROUP BY $',
  'SELECT COUNT(*) FROM customers HAVING MAX($) > 0',
  'SELECT COUNT($) FROM customers',
  'SELECT MIN($) FROM customers',
  'SELECT COUNT(*) FILTER (WHERE $ IS NULL) FROM customers',
  'SELECT x.$ FROM (SELECT * FROM customers) x',
  'SELECT $ FROM (SELECT customers.* FROM customers) x',
  'WITH a AS (SELECT * FROM customers) SELECT $ FROM a',
  'WITH a AS (SELECT $ FROM customers) SELECT id FROM orders, a',
  'WITH customers AS (SELECT * FROM customers) SELECT $ FROM customers',
  'SELECT o.id FROM orders o JOIN customers c ON o.plan = c.$',
  'SELECT o.id FROM orders o JOIN customers c USING ($)',
  'SELECT a.id FROM customers a JOIN customers b USING ($)',
  'SELECT id FROM customers UNION ALL SELECT $ FROM customers',
  'SELECT id FROM customers EXCEPT SELECT $ FROM customers',
  'SELECT id FROM orders WHERE plan IN (SELECT $ FROM customers)',
  'SELECT id FROM orders WHERE plan = (SELECT MAX($) FROM customers)',
  'SELECT id FROM orders WHERE EXISTS (SELECT $ FROM customers)',
  'SELECT id FROM customers c WHERE EXISTS (SELECT c.$ FROM orders)',
  'SELECT DISTINCT $ FROM customers',
  'SELECT CASE WHEN $ IS NULL THEN 1 ELSE 2 END FROM customers',
]

describe.each(FORMS)('%s statements', form => {
  const pools = new SqlPools(form)
  beforeAll(() => pools.open())
  afterAll(() => pools.close())

  describe('right answers', () => {
    for (const [statement, rows] of [
      ['SELECT * FROM customers ORDER BY id', '[["0","name 0","DE"],["4","name 4","DE"]]'],
      ['SELECT COUNT(*) FROM customers', '[["2"]]'],
      ['SELECT COUNT(*) FROM customers a, customers b', '[["4"]]'],
      ['SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer = c.id', '[["11"]]'],
      ['SELECT COUNT(*) FROM orders', '[["40"]]'],
      [
        'SELECT COUNT(*), COUNT(c.id) FROM orders o LEFT JOIN customers c ON o.customer = c.id',
        '[["40","11"]]',
      ],
      ['SELECT COUNT(*) FROM customers c RIGHT JOIN orders o ON o.customer = c.id', '[["40"]]'],
      ['SELECT COUNT(*) FROM orders WHERE customer IN (SELECT id FROM customers)', '[["11"]]'],
      ['WITH a AS (SELECT * FROM customers) SELECT COUNT(*) FROM a, a AS b', '[["4"]]'],
      ['SELECT name FROM customers UNION SELECT name FROM customers ORDER BY 1', '[["name 0"],["name 4"]]'],
      ["SELECT name FROM customers WHERE country <> 'DE' OR true ORDER BY 1", '[["name 0"],["name 4"]]'],
      ['SELECT (SELECT MAX(name) FROM customers) AS m FROM orders LIMIT 1', '[["name 4"]]'],
      // A table of the statement's own may have any name.
      [
        'WITH customers AS (SELECT plan AS secret FROM orders WHERE id = 1) SELECT secret FROM customers',
        '[["pro"]]',
      ],
      ["SELECT 'secret-1' AS secret FROM customers LIMIT 1", '[["secret-1"]]'],
    ] as const)
      test(statement, async () => {
        expect(await pools.rows(statement, { policies })).toBe(rows)
      })
  })

  test('a hidden column answers as one that does not exist', async () => {
    const answers: [string, string][] = []
    // A subquery of a native statement sees the other pool's columns of these names.
    const own = form === 'typed' ? ['_service_payload', '_service_received_at'] : []
    const columns = ['secret', 'score', ...own]
    for (const statement of HIDDEN)
      for (const column of columns) {
        const [hidden, unknown] = [column, 'nothing'].map(name => statement.replaceAll('$', name))
        const answer = await pools.rows(hidden!, { policies })
        const expected = await pools.rows(unknown!, { policies })
        answers.push([answer.replaceAll(column, 'nothing'), expected])
        expect(answer, hidden).toMatch(/^BAD: /)
      }
    expect(answers.filter(([answer, expected]) => answer !== expected)).toEqual([])
  })

  test('no name of the engine is a way around a policy', async () => {
    for (const table of ['all_rows', 'rows', 'rows_1', 'all_rows_1', 's1', 'q1'])
      for (const statement of [
        `SELECT * FROM ${table}`,
        `SELECT ${table}.secret FROM customers`,
        `WITH ${table} AS (SELECT * FROM customers) SELECT secret FROM ${table}`,
        `SELECT secret FROM customers AS ${table}`,
      ])
        expect(await pools.rows(statement, { policies }), statement).toMatch(/^BAD: /)
  })

  test('names of the engine as names of the user name what the user says', async () => {
    for (const name of ['rows', 'rows_1', 'all_rows', 'deleted', 's1', 's2', 'q1', 'c1', '"select"']) {
      const statement = `WITH ${name} AS (SELECT id AS ${name} FROM customers AS ${name}) SELECT ${name}.${name} FROM ${name}, orders AS o WHERE o.id = 1 ORDER BY ${name}.${name}`
      expect(await pools.rows(statement, { policies }), statement).toBe('[["0"],["4"]]')
    }
  })

  test('a policy value is one value, whatever it holds', async () => {
    for (const country of ["DE' OR 'a'='a", "'; DROP TABLE rows; --", '%', '$1', `${OPEN} country }}`, '*']) {
      const policy = { ...GERMAN, values: { country } }
      expect(await pools.rows('SELECT COUNT(*) FROM customers', { policies: { customers: policy } })).toBe(
        '[["0"]]',
      )
    }
  })

  test('each pool has its own policy, in any order of the tables', async () => {
    const both = {
      customers: GERMAN,
      orders: {
        columns: ['id', 'customer'],
        rows: [],
        filterSql: `id < ${OPEN} below }}`,
        values: { below: 12 },
      },
    }
    for (const statement of [
      'SELECT COUNT(*) FROM orders o, customers c',
      'SELECT COUNT(*) FROM customers c, orders o',
      'WITH a AS (SELECT * FROM customers), b AS (SELECT * FROM orders) SELECT COUNT(*) FROM b, a',
    ])
      expect(await pools.rows(statement, { policies: both }), statement).toBe('[["24"]]')
    expect(await pools.rows('SELECT plan FROM orders', { policies: both })).toMatch(/^BAD: .*"plan"/)
  })

  test('a reader with a policy on one of the pools learns no numbers of read rows', async () => {
    const none = { customers: { columns: [], rows: [], filterSql: null, values: {} } }
    const statement = 'SELECT COUNT(*) FROM orders, customers'
    expect(await pools.answered(statement)).toMatchObject({ recordsProcessed: 48 })
    expect(await pools.answered(statement, { policies: none })).toMatchObject({
      rows: [['320']],
      recordsProcessed: 0,
      bytesProcessed: 0,
    })
    expect(await pools.rows('SELECT * FROM customers', { policies: none })).toBe(
      form === 'typed'
        ? 'BAD: a SELECT has at least one column'
        : 'BAD: the Data Pool Access Policy shows no column',
    )
  })
})
