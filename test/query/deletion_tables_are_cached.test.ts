/** W-9: queries share tables of deleted rows, whose bytes and number have limits. */
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { DeletionTables, tableBytes } from '../../src/query/deletion-tables.ts'

const deletionVectors = (...parts: number[][]) =>
  parts.map(rows => ({ segment: 1, rows: Uint32Array.from(rows) }))
const upTo = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)

let instance: DuckDBInstance
let connection: DuckDBConnection

beforeEach(async () => {
  instance = await DuckDBInstance.create(':memory:')
  connection = await instance.connect()
})
afterEach(() => {
  connection.closeSync()
  instance.closeSync()
})

const limited = (tablesMax: number, bytesMax = 2 ** 30) =>
  new DeletionTables(connection, { bytesMax, tablesMax })

async function names(): Promise<unknown[]> {
  const found = await connection.run('SELECT table_name FROM duckdb_tables() ORDER BY table_name')
  return (await found.getRows()).map(row => row[0])
}

async function rowsOf(table: string): Promise<unknown[]> {
  const found = await connection.run(`SELECT r FROM ${table} ORDER BY r`)
  return (await found.getRows()).map(([row]) => row)
}

/** Uses a table and releases it at once. */
async function use(tables: DeletionTables, file: string, rows: number[]): Promise<string> {
  const { table, release } = await tables.acquire(file, deletionVectors(rows))
  await release()
  return table
}

test('two queries share a table; a newer state of the vector replaces it when no query uses it', async () => {
  const tables = limited(5)
  const both = await Promise.all([
    tables.acquire('a', deletionVectors([1, 2], [0])),
    tables.acquire('a', deletionVectors([1, 2], [0])),
  ])
  const [one] = both
  expect(both[1]?.table).toBe(one.table)
  expect(await rowsOf(one.table)).toEqual([0, 1, 2])
  const grown = await tables.acquire('a', deletionVectors([1, 2], [0], [7]))
  expect(await rowsOf(grown.table)).toEqual([0, 1, 2, 7])
  expect(await rowsOf(one.table)).toEqual([0, 1, 2])
  for (const used of both) await used.release()
  expect(await names()).toEqual([grown.table])
  await grown.release()
  expect(await use(tables, 'a', [1, 2, 0, 7])).toBe(grown.table)
})

test('the table of an older state serves only its own query, and the newer one stays', async () => {
  const tables = limited(5)
  const newer = await use(tables, 'a', [1, 2, 3])
  const older = await tables.acquire('a', deletionVectors([1, 2]))
  expect(await rowsOf(older.table)).toEqual([1, 2])
  await older.release()
  expect(await names()).toEqual([newer])
  expect(await use(tables, 'a', [1, 2, 3])).toBe(newer)
})

test('the least recently used tables are dropped beyond the limit of number', async () => {
  const tables = limited(3)
  const made: string[] = []
  for (const file of ['a', 'b', 'c']) made.push(await use(tables, file, [1]))
  await use(tables, 'a', [1])
  const last = await use(tables, 'd', [1])
  expect(await names()).toEqual([made[0], made[2], last])
  expect(tables.stats()).toEqual({ tables: 3, bytes: 3 * tableBytes(1) })
})

test('the least recently used tables are dropped beyond the limit of bytes', async () => {
  const tables = limited(100, tableBytes(50_000) + tableBytes(1))
  await use(tables, 'small', [1])
  await use(tables, 'large', upTo(0, 50_000))
  const newest = await use(tables, 'larger', upTo(0, 50_000))
  expect(await names()).toEqual([newest])
})

test('queries that end together drop each table once, and never one in use', async () => {
  const tables = limited(1)
  const used = await tables.acquire('used', deletionVectors(upTo(0, 6)))
  const others = await Promise.all(
    Array.from({ length: 12 }, (_, i) => tables.acquire(`f${i}`, deletionVectors([1]))),
  )
  await Promise.all(others.map(({ release }) => release()))
  expect(await names()).toEqual([used.table])
  expect(tables.stats().tables).toBe(1)
})

test('the table of a removed file is dropped at once, or with its last use', async () => {
  const tables = limited(100)
  await use(tables, 'a', [1])
  const used = await tables.acquire('b', deletionVectors([1]))
  const kept = await use(tables, 'c', [1])
  await tables.forget(['a', 'b', 'never seen'])
  expect(await names()).toEqual([used.table, kept])
  expect(await rowsOf(used.table)).toEqual([1])
  await used.release()
  expect(await names()).toEqual([kept])
  expect(tables.stats()).toEqual({ tables: 1, bytes: tableBytes(1) })
})

test('without memory idle tables are dropped; without idle tables the query fails', async () => {
  await connection.run("SET memory_limit = '16MiB'")
  await connection.run("SET temp_directory = ''")
  const tables = limited(100_000)
  const rows = upTo(0, 5_000) // some 256 KiB each
  for (let file = 0; file < 200; file++) await use(tables, `f${file}`, rows)
  expect(tables.stats().tables).toBeLessThan(200)
  const held: { release(): Promise<void> }[] = []
  const fill = async () => {
    for (let file = 0; file < 200; file++) held.push(await tables.acquire(`g${file}`, deletionVectors(rows)))
  }
  await expect(fill()).rejects.toThrow(/allocate/)
  // DuckDB may have had too little memory even to drop one: that is made up for when there is some
  // again.
  for (const { release } of held) await release()
  await connection.run("SET memory_limit = '32MiB'")
  await use(tables, 'again', [1])
  expect((await names()).length).toBe(tables.stats().tables)
  await tables.dropIdle()
  expect(await names()).toEqual([])
  expect(tables.stats()).toEqual({ tables: 0, bytes: 0 })
})

test('a table that could not be dropped is accounted for once, whichever query drops it later', async () => {
  let isFull = true
  const run = (sql: string) =>
    isFull && sql.startsWith('DROP')
      ? Promise.reject(new Error('Out of Memory Error: no memory'))
      : connection.run(sql)
  const scarce = { run, createAppender: (table: string) => connection.createAppender(table) }
  const tables = new DeletionTables(scarce as DuckDBConnection, { bytesMax: 2 ** 30, tablesMax: 100 })
  for (const file of ['a', 'b', 'c', 'd']) await use(tables, file, [1])
  await tables.dropIdle()
  expect(tables.stats().tables).toBe(4)
  const used = await Promise.all(['e', 'f', 'g'].map(file => tables.acquire(file, deletionVectors([1]))))
  isFull = false
  await Promise.all(used.map(({ release }) => release()))
  expect((await names()).length).toBe(3)
  expect(tables.stats()).toEqual({ tables: 3, bytes: 3 * tableBytes(1) })
})

test('DuckDB takes no more memory for a table than tableBytes says', async () => {
  const taken = async () => {
    const sum = await connection.run('SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()')
    return Number((await sum.getRows())[0]?.[0])
  }
  for (const rows of [1, 2048, 2049, 32_768, 65_536, 122_880, 122_881, 500_000]) {
    const tables = limited(100)
    const before = await taken()
    await use(tables, `${rows}`, upTo(0, rows))
    expect((await taken()) - before, `${rows} rows`).toBeLessThanOrEqual(tableBytes(rows))
    await tables.dropIdle()
  }
})

test('a deletion vector of many chunks is stored completely', async () => {
  const parts = deletionVectors(upTo(0, 2048), upTo(2048, 5001), [], upTo(7049, 1), [4_294_967_295])
  const { table } = await limited(5).acquire('a', parts)
  expect(await rowsOf(table)).toEqual([...upTo(0, 7050), 4_294_967_295])
})
