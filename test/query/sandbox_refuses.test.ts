import { copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSandbox } from '../../src/query/duckdb/duckdb-instances.ts'
import { rowsOfPool } from '../../src/query/plan/segment-task.ts'
import { must } from '../../src/util/errors.ts'
import { nativeFile } from '../../src/util/native.ts'
import { schemaOf, TestPool } from './pool.ts'

// The machine's zone, which DuckDB takes where a connection has no other.
process.env['TZ'] = 'America/New_York'

const pool = new TestPool()
const schema = schemaOf([['n', 'INT64']])
const outside = join(pool.root, 'outside.csv')
let inside = ''

beforeAll(async () => {
  writeFileSync(outside, 'a\n1\n')
  inside = (await pool.segment(schema, [{ n: 1n }])).file
  await pool.open()
})
afterAll(() => pool.close())

const text = (path: string) => `'${path.replaceAll("'", "''")}'`

test('the settings close everything outside the folders', async () => {
  const { duckdb: instance } = await openSandbox({
    segmentFolder: pool.segmentFolder,
    temporaryFolder: pool.temporaryFolder,
    threads: 1,
    memoryBytes: 100 * 1024 * 1024,
    deletionVectorBytesMax: 0,
    queryMsMax: 1000,
  })
  const connection = await instance.connect()
  const extension = join(pool.segmentFolder, 'other.duckdb_extension')
  copyFileSync(must(nativeFile(), 'the native module'), extension)
  const refused = [
    `SELECT * FROM read_text(${text(outside)})`,
    `SELECT * FROM read_csv(${text(outside)})`,
    `SELECT * FROM glob('/etc/*')`,
    `SELECT * FROM read_parquet(${text(join(pool.segmentFolder, '..', 'outside.csv'))})`,
    `COPY (SELECT 1) TO ${text(join(pool.root, 'made.csv'))}`,
    `ATTACH ${text(join(pool.root, 'made.db'))}`,
    `SELECT * FROM read_parquet('https://127.0.0.1:1/x.parquet')`,
    'INSTALL httpfs',
    `LOAD ${text(outside)}`,
    `LOAD ${text(extension)}`,
    'SET allow_unsigned_extensions = true',
    'SET threads = 8',
    'SET enable_external_access = true',
    `SET allowed_directories = ['/']`,
    'RESET lock_configuration',
    `PRAGMA memory_limit = '1GB'`,
  ]
  for (const sql of refused) await expect(connection.run(sql), sql).rejects.toThrow()
  expect(existsSync(join(pool.root, 'made.csv'))).toBe(false)
  expect(existsSync(join(pool.root, 'made.db'))).toBe(false)
  const settings = await connection.run(
    `SELECT current_setting('TimeZone'), current_setting('threads'),
      current_setting('enable_external_access'), current_setting('allow_unsigned_extensions'),
      current_setting('parquet_metadata_cache'), '2026-01-01 03:30:00+00'::TIMESTAMPTZ::DATE::VARCHAR`,
  )
  expect(await settings.getRows()).toEqual([['UTC', 1n, false, false, true, '2026-01-01']])
  connection.closeSync()
  instance.closeSync()
})

test('what queries spill to disk has a limit', async () => {
  const engine = await pool.engine()
  const sql = "SELECT current_setting('max_temp_directory_size') FROM (SELECT COUNT(*) FROM rows)"
  const { rows } = await engine.run(
    { source: rowsOfPool(schema, { segments: [] }), statement: { sql, bounds: [] }, rowsMax: 1 },
    'a',
  )
  expect(rows).toEqual([['8.0 GiB']])
})

test('the engine runs one SELECT over rows and nothing else, in the allowed folders too', async () => {
  const engine = await pool.engine()
  const made = join(pool.segmentFolder, 'made.csv')
  const run = (sql: string) =>
    engine.run(
      { source: rowsOfPool(schema, { segments: [] }), statement: { sql, bounds: [] }, rowsMax: 10 },
      'a',
    )
  const refused = [
    `COPY (SELECT 1) TO ${text(made)}`,
    `ATTACH ${text(`${made}.db`)}`,
    'CREATE TABLE t (a INTEGER)',
    'SELECT 1; SELECT 2',
    `SELECT 1; COPY (SELECT 1) TO ${text(made)}`,
    'INSERT INTO rows VALUES (1)',
    `SELECT * FROM read_text(${text(outside)})`,
  ]
  for (const sql of refused) await expect(run(sql), sql).rejects.toThrow()
  expect(existsSync(made)).toBe(false)
  expect(existsSync(inside)).toBe(true)
  expect((await run('SELECT COUNT(*) FROM rows')).rows).toEqual([['0']])
})
