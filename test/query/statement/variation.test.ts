/** Statements that differ over equal rows, and the lists of their functions beside DuckDB's. */
import { DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { LISTED, MAKE_MACROS } from '../../../src/query/statement/functions.ts'
import { CLOCK_FUNCTIONS, LOT_FUNCTIONS } from '../../../src/query/statement/variation.ts'
import { SqlPools } from '../sql/pools.ts'

const pools = new SqlPools('native')
beforeAll(() => pools.open())
afterAll(() => pools.close())

const STATEMENTS: readonly (readonly [string, 'clock' | 'lot' | undefined])[] = [
  ['SELECT count(*) FROM orders', undefined],
  ['SELECT plan AS now, "amount" AS random FROM orders', undefined],
  ["SELECT 'now()' FROM orders WHERE plan = 'random()'", undefined],
  ["SELECT count(*) FROM orders WHERE seen > now() - INTERVAL '7 days'", 'clock'],
  ['SELECT current_date', 'clock'],
  ['SELECT CURRENT_TIMESTAMP::VARCHAR FROM orders', 'clock'],
  ['SELECT localtimestamp', 'clock'],
  ['SELECT yesterday()', 'clock'],
  ['SELECT ToDay()', 'clock'],
  ['SELECT age(seen) FROM orders', 'clock'],
  ['SELECT max(id) OVER (PARTITION BY seen > get_current_timestamp()) FROM orders', 'clock'],
  ['WITH t AS (SELECT id FROM orders WHERE seen < transaction_timestamp()) SELECT * FROM t', 'clock'],
  ['SELECT id FROM orders WHERE id IN (SELECT id FROM customers ORDER BY random() LIMIT 2)', 'lot'],
  ['SELECT uuid(), now()', 'lot'],
  ['SELECT now(), gen_random_uuid()', 'lot'],
]

test.each(STATEMENTS)('%s', async (text, varies) => {
  const statement = await pools.engine.guard!(text, 'POSTGRESQL', 'APP')
  expect('sql' in statement ? statement.varies : statement.badRequest).toBe(varies)
})

test('all functions that DuckDB does not call consistent are listed, those of macros too', async () => {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  for (const statement of MAKE_MACROS) await connection.run(statement)
  const read = async (sql: string) =>
    (await connection.runAndReadAll(sql)).getRows().map(row => row.map(String))
  const inconsistent = await read(
    "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'",
  )
  const varying = new Set([...CLOCK_FUNCTIONS, ...LOT_FUNCTIONS])
  const known = new Set(Object.values(LISTED).flat())
  // A macro raises an error about a value that is too large: equal rows raise it again.
  const unlisted = inconsistent.flat().filter(name => known.has(name) && !varying.has(name))
  expect(unlisted).toEqual([])
  const macros = await read(
    'SELECT function_name, lower(macro_definition) FROM duckdb_functions() WHERE macro_definition IS NOT NULL',
  )
  const reads = macros.filter(
    ([name, body]) =>
      (known.has(name!) || name!.startsWith('_service_')) &&
      [...varying].some(each => new RegExp(`\\b${each}\\b`).test(body!)),
  )
  expect(reads.map(([name]) => name).filter(name => !varying.has(name!))).toEqual([])
  expect(reads.length).toBeGreaterThan(1)
})
