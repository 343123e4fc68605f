/**
 * Descending orders of windows begin with nulls in the dialect POSTGRESQL. For a time that every
 * event has they are written without that, which DuckDB computes many times as fast.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { SqlPools } from '../sql/pools.ts'

const pools = new SqlPools('native')
beforeAll(() => pools.open())
afterAll(() => pools.close())

async function sqlOf(text: string, dialect: 'POSTGRESQL' | 'CLICKHOUSE' = 'POSTGRESQL'): Promise<string> {
  const planned = await pools.plan(text, { dialect })
  if ('badRequest' in planned) throw new Error(planned.badRequest)
  return planned.statement.sql
}

/** `seen` is the primary timestamp of orders, and `quantity` may be null. */
const NEVER_NULL = [
  'SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY plan ORDER BY seen DESC) = 1',
  'SELECT id FROM orders o QUALIFY row_number() OVER (ORDER BY SEEN DESC, _service_received_at DESC) = 1',
  'WITH a AS (SELECT id, rank() OVER (ORDER BY seen DESC) AS r FROM orders) SELECT * FROM a WHERE r = 1',
]
const PERHAPS_NULL = [
  'SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY plan ORDER BY quantity DESC) = 1',
  'SELECT id FROM orders QUALIFY row_number() OVER (ORDER BY seen DESC, quantity DESC) = 1',
  'SELECT nullif(id, 1) AS seen FROM orders QUALIFY row_number() OVER (ORDER BY seen DESC) = 1',
  'SELECT o.id FROM customers c LEFT JOIN orders o ON o.id = c.id QUALIFY row_number() OVER (ORDER BY seen DESC) = 1',
  'SELECT id FROM orders AS o(seen, id) QUALIFY row_number() OVER (ORDER BY seen DESC) = 1',
  'SELECT plan, rank() OVER (ORDER BY seen DESC) FROM orders GROUP BY ROLLUP (plan, seen)',
  'WITH orders AS (SELECT quantity AS seen FROM orders) SELECT rank() OVER (ORDER BY seen DESC) FROM orders',
  'SELECT id FROM (SELECT * FROM orders) QUALIFY row_number() OVER (ORDER BY seen DESC) = 1',
  'SELECT seen FROM orders ORDER BY seen DESC',
]

test('a time that every event has has no nulls to begin with', async () => {
  for (const text of NEVER_NULL) expect(await sqlOf(text), text).not.toContain('NULLS FIRST')
  for (const text of PERHAPS_NULL) expect(await sqlOf(text), text).toContain('NULLS FIRST')
  for (const text of PERHAPS_NULL) expect(await sqlOf(text, 'CLICKHOUSE'), text).not.toContain('NULLS FIRST')
})

test('what is null comes first in a descending order', async () => {
  const first = (column: string) =>
    `SELECT customer, ${column} FROM orders QUALIFY row_number() OVER (ORDER BY ${column} DESC, id) = 1`
  expect(await pools.rows(first('amount'))).toBe('[["2",null]]')
  expect(await pools.rows(first('seen'))).toBe('[["3","2024-03-22T01:30:00.000Z"]]')
  expect(await pools.rows(first('amount'), { dialect: 'CLICKHOUSE' })).toBe('[["3","9.75"]]')
})
