/**
 * W-9: the memory of a query does not grow by megabytes with each segment that has deleted rows.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rowsOfPool, type SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const SEGMENTS = 120
const ROWS = 3_000

/** So many rows that DuckDB builds the join's hash table from the few deleted rows. */
const selectOf = (n: number) =>
  `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload, ${n}::BIGINT AS n, 0::BIGINT AS _service_sequence FROM range(${ROWS}) t(i)`
const pool = new TestPool()
const engines: SegmentEngine[] = []

beforeAll(async () => {
  for (const kernel of ['native', 'js'] as const)
    engines.push(await pool.open({ kernel, memoryBytes: 64 * 1024 * 1024 }))
})
afterAll(async () => {
  for (const engine of engines) await engine.stop()
  await pool.close()
})

test(`${SEGMENTS} segments with deleted rows are filtered and summed in 64 MiB, by two queries at once`, async () => {
  const schema = schemaOf([['n', 'INT64']])
  const segments = await Promise.all(
    Array.from({ length: SEGMENTS }, async (_, i) => withDeletionVectors(await pool.write(selectOf(i)), [1])),
  )
  const statement = { sql: 'SELECT sum(n), count(*) FROM rows WHERE n >= 0', bounds: [] }
  const rows = SEGMENTS * (ROWS - 1)
  const answer = [[String(((SEGMENTS - 1) / 2) * rows), String(rows)]]
  for (const engine of engines) {
    const ask = (by: string) =>
      engine.run({ source: rowsOfPool(schema, { segments }), statement, rowsMax: 1 }, by)
    const answers = await Promise.all([ask('a'), ask('b')])
    expect(answers.map(({ rows }) => rows)).toEqual([answer, answer])
  }
})
