import { DuckDBInstance } from '@duckdb/node-api'
import { expect, test } from 'vitest'
import { MarkTables } from '../../src/query/marks.ts'

const marks = (...parts: number[][]) => parts.map(rows => ({ segment: 1, rows: Uint32Array.from(rows) }))

test('tables are shared, kept, and dropped when unused and too many', async () => {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const tables = new MarkTables(connection, 5)
  const names = async () => {
    const found = await connection.run('SELECT table_name FROM duckdb_tables() ORDER BY table_name')
    return (await found.getRows()).map(row => row[0])
  }
  const [one, same] = await Promise.all([
    tables.acquire('a', marks([1, 2], [0])),
    tables.acquire('a', marks([1, 2], [0])),
  ])
  expect(same).toBe(one)
  const rows = await (await connection.run(`SELECT r FROM ${one} ORDER BY r`)).getRows()
  expect(rows).toEqual([[0], [1], [2]])
  const grown = await tables.acquire('a', marks([1, 2], [0], [7]))
  expect(grown).not.toBe(one)
  expect(tables.rows).toBe(7)
  await tables.release('a', marks([1, 2], [0], [7]))
  // Too many, but `one` is still used twice: the unused one goes.
  expect(await names()).toEqual([one])
  await tables.release('a', marks([1, 2], [0]))
  await tables.release('a', marks([1, 2], [0]))
  expect(await names()).toEqual([one])
  const other = await tables.acquire('b', marks([5, 6, 7]))
  await tables.release('b', marks([5, 6, 7]))
  expect(await names()).toEqual([other])
  expect(tables.rows).toBe(3)
  connection.closeSync()
  instance.closeSync()
})

test('queries that end together drop each table once', async () => {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const tables = new MarkTables(connection, 5)
  const files = Array.from({ length: 12 }, (_, i) => `f${i}`)
  for (const file of files) await tables.acquire(file, marks([1, 2]))
  // In use, and more than may be kept: every other table has to go.
  const used = await tables.acquire('used', marks([1, 2, 3, 4, 5, 6]))
  await Promise.all(files.map(file => tables.release(file, marks([1, 2]))))
  expect(tables.rows).toBe(6)
  const found = await connection.run('SELECT table_name FROM duckdb_tables()')
  expect(await found.getRows()).toEqual([[used]])
  connection.closeSync()
  instance.closeSync()
})

test('many marks come in pieces, all of them', async () => {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  const tables = new MarkTables(connection, 5)
  const upTo = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)
  const parts = marks(upTo(0, 2048), upTo(2048, 5001), [], upTo(7049, 1), [4_294_967_295])
  const table = await tables.acquire('a', parts)
  const found = await connection.run(`SELECT r FROM ${table} ORDER BY r`)
  expect((await found.getRows()).map(([row]) => row)).toEqual([...upTo(0, 7050), 4_294_967_295])
  connection.closeSync()
  instance.closeSync()
})
