/**
 * The tables of kept partial groups beside what DuckDB says of them: the estimate of their memory,
 * and that none is left over or missing where runs overlap, fail and stop half-way.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { addGroups, KeptPartials } from '../../src/query/duckdb/kept-partials.ts'
import { DuckDBInstance } from '../../src/util/duckdb.ts'
import { MiB } from '../../src/util/limits.ts'

const BYTES_MAX = 64 * MiB
let duckdb: DuckDBInstance
let connection: DuckDBConnection
let kept: KeptPartials
beforeEach(async () => {
  duckdb = await DuckDBInstance.create(':memory:')
  connection = await duckdb.connect()
  kept = new KeptPartials(BYTES_MAX, 1)
})
afterEach(() => {
  connection.closeSync()
  duckdb.closeSync()
})

/** Segments that differ in their names and numbers of deleted rows. */
function segmentsOf(count: number, deleted = 0): readonly QuerySegment[] {
  const deletionVectors = deleted === 0 ? [] : [{ count: deleted, rows: new Uint32Array(deleted) }]
  return Array.from(
    { length: count },
    (_, at) => ({ file: `/${at}`, meta: { rows: 10 }, deletionVectors }) as unknown as QuerySegment,
  )
}

const GROUP = "i::VARCHAR AS k, count(*) AS n, repeat('x', 40)::BLOB AS state"

interface Run {
  readonly key: string
  readonly groups?: number
  /** The first columns of a group, without an aggregate. */
  readonly columns?: string
  readonly segments: readonly QuerySegment[]
  /** Called before a part is added. */
  readonly onAdd?: () => Promise<'failed' | undefined>
}

async function begin({ key, groups = 1, columns = GROUP, segments, onAdd }: Run) {
  return await kept.begin({ key, fairKey: 'A', duckdb, columns: 3 }, segments, {
    run: async sql => {
      await connection.run(sql)
      return true
    },
    add: async (_, to) => {
      if ((await onAdd?.()) === 'failed') return undefined
      const rows = `SELECT ${columns} FROM range(${groups}) t(i) GROUP BY i`
      return await addGroups(connection, rows, to, () => {})
    },
  })
}

/** The tables' number and memory, without those that the next run drops. */
async function stored(): Promise<{ readonly tables: number; readonly bytes: number }> {
  await begin({ key: 'none', segments: [] })
  const [tables, memory] = ['count(*) FROM duckdb_tables()', 'sum(memory_usage_bytes) FROM duckdb_memory()']
  const numberOf = async (sql = '') =>
    Number((await (await connection.run(`SELECT ${sql}`)).getRows())[0]?.[0])
  return { tables: await numberOf(tables), bytes: await numberOf(memory) }
}

for (const [questions, groups, columns] of [
  [100, 1, GROUP],
  [20, 1_000, GROUP],
  [3, 5_000, GROUP],
  [3, 10, "repeat('k', 100000) || i AS k, count(*) AS n, ''::BLOB AS state"],
] as const)
  test(`${questions} tables take about the memory that is counted, with ${groups} groups of ${columns}`, async () => {
    for (let at = 0; at < questions; at++)
      (await begin({ key: `${at}`, groups, columns, segments: segmentsOf(23) }))?.end()
    const { tables, bytes } = await stored()
    expect(tables).toBe(questions)
    expect(bytes).toBeLessThan(kept.bytes * 1.5)
    expect(kept.bytes).toBeLessThan(bytes * 2)
  })

test('a question with too many groups, or too long texts, is not kept, and leaves nothing', async () => {
  const many = { key: 'many', groups: 1_000_000, segments: segmentsOf(2) }
  const long = "repeat('k', 1000000) || i AS k, count(*) AS n, ''::BLOB AS state"
  for (let ask = 0; ask < 2; ask++) {
    expect(await begin(many)).toBeUndefined()
    expect(await begin({ ...many, key: 'long', columns: long, groups: 30 })).toBeUndefined()
  }
  expect(await stored()).toMatchObject({ tables: 0 })
  expect(kept.bytes).toBeLessThan(10_000)
})

test('groups that cannot be added are not tried again', async () => {
  let adds = 0
  const onAdd = async () => (++adds === 2 ? ('failed' as const) : undefined)
  for (let ask = 0; ask < 3; ask++)
    expect(await begin({ key: 'a', segments: segmentsOf(12), onAdd })).toBeUndefined()
  expect(adds).toBe(2)
  expect(await stored()).toMatchObject({ tables: 0 })
})

test('a run that is stopped half-way leaves what it has added, and the next one adds the rest', async () => {
  let adds = 0
  const onAdd = async () => {
    if (++adds === 2) throw new Error('stopped')
    return undefined
  }
  await expect(begin({ key: 'a', segments: segmentsOf(12), onAdd })).rejects.toThrow('stopped')
  const groups = await begin({ key: 'a', segments: segmentsOf(12), onAdd })
  expect(groups?.others).toEqual([])
  // One of them, then parts of 1, 1, 2, 4 and 3: the second was stopped.
  expect(adds).toBe(7)
  groups?.end()
  expect(await stored()).toMatchObject({ tables: 1 })
})

test('a table that runs read is there until the last of them ends, and dead groups go meanwhile', async () => {
  const runs: { readonly sql: string; end(): void }[] = []
  // At no moment is the question without a run.
  for (let deleted = 0; deleted < 40; deleted++) {
    for (let ask = 0; ask < 2; ask++) {
      const run = await begin({ key: 'a', groups: 5_000, segments: segmentsOf(4, deleted) })
      if (run !== undefined) runs.push(run)
    }
    for (const { sql } of runs) await connection.run(`WITH ${sql} FROM _service_kept`)
    if (runs.length > 2) runs.shift()?.end()
  }
  expect(runs.length).toBe(2)
  expect(kept.bytes).toBeLessThan(4 * MiB)
  for (const { end } of runs) end()
  expect(await stored()).toMatchObject({ tables: 1 })
})

test('a question that is dropped while a run adds to it, or reads it, goes on', async () => {
  const reads = await begin({ key: 'a', segments: segmentsOf(4) })
  kept.forget(segmentsOf(4).map(({ file }) => file))
  await stored()
  await connection.run(`WITH ${reads?.sql} FROM _service_kept`)
  reads?.end()
  const adds = begin({
    key: 'b',
    segments: segmentsOf(12),
    onAdd: async () => {
      kept.forget(['/1'])
      return undefined
    },
  })
  const groups = await adds
  await connection.run(`WITH ${groups?.sql} FROM _service_kept`)
  groups?.end()
  kept.forget(segmentsOf(12).map(({ file }) => file))
  expect(await stored()).toMatchObject({ tables: 0 })
  expect(kept.bytes).toBeLessThan(5_000)
})
