/**
 * W-9: without the native module deleted rows are in a table of the query's connection. It holds
 * every row, and nothing of it is left when the query has ended.
 */
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { makeDeletedTable } from '../../src/query/duckdb/deleted-rows.ts'

const upTo = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)

/** Segments with these deleted rows, in parts. */
const segmentsOf = (...segments: number[][][]): QuerySegment[] =>
  segments.map((parts, index) => ({
    file: `segment-${index}`,
    meta: {} as QuerySegment['meta'],
    deletionVectors: parts.map(rows => ({ segment: 1, rows: Uint32Array.from(rows) })),
  }))

let instance: DuckDBInstance
let connection: DuckDBConnection

beforeEach(async () => {
  instance = await DuckDBInstance.create(':memory:')
  connection = await instance.connect()
})
afterEach(() => instance.closeSync())

async function rowsOf(sql: string, on = connection): Promise<unknown[][]> {
  return (await (await on.run(sql)).getRows()) as unknown[][]
}

test('deletion vectors of many chunks and files are stored completely', async () => {
  const large = [upTo(0, 2048), upTo(2048, 5001), [], upTo(7049, 1), [4_294_967_295]]
  await makeDeletedTable(connection, 'deleted', segmentsOf(large, [[1, 2], [0]], [[7]]))
  const rows = await rowsOf('SELECT f, r FROM deleted ORDER BY f, r')
  const expected = [...[...upTo(0, 7050), 4_294_967_295].map(r => [0, r]), [1, 0], [1, 1], [1, 2], [2, 7]]
  expect(rows).toEqual(expected)
})

test('queries at once have tables of their own, whose memory is free when their connections close', async () => {
  const other = await instance.connect()
  const taken = async (on: DuckDBConnection) =>
    Number((await rowsOf('SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()', on))[0]?.[0])
  const third = await instance.connect()
  const before = await taken(third)
  await makeDeletedTable(connection, 'deleted', segmentsOf([upTo(0, 500_000)]))
  await makeDeletedTable(other, 'deleted', segmentsOf([[5]]))
  expect(await rowsOf('SELECT count(*)::INTEGER FROM deleted')).toEqual([[500_000]])
  expect(await rowsOf('SELECT r FROM deleted', other)).toEqual([[5]])
  expect(await taken(third)).toBeGreaterThan(before)
  connection.closeSync()
  other.closeSync()
  expect(await taken(third)).toBe(before)
  await expect(third.run('FROM deleted')).rejects.toThrow(/deleted/)
})

test('without memory the table fails, and the next one has it', async () => {
  await connection.run("SET memory_limit = '4MiB'")
  await connection.run("SET temp_directory = ''")
  const many = segmentsOf([upTo(0, 2_000_000)])
  await expect(makeDeletedTable(connection, 'deleted', many)).rejects.toThrow(/allocate|memory/i)
  connection.closeSync()
  connection = await instance.connect()
  await makeDeletedTable(connection, 'deleted', segmentsOf([upTo(0, 1_000)]))
  expect(await rowsOf('SELECT count(*)::INTEGER FROM deleted')).toEqual([[1_000]])
})
