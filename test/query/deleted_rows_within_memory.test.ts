/**
 * W-9: deleted rows never exhaust the engine's memory, however many segments and states there are.
 */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import { rowsOfPool, type SegmentEngine } from '../../src/query/plan/segment-task.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const ROWS = 4_000
/** The tables of all queries, 10 KiB each, do not fit. */
const MEMORY = 6 * 1024 * 1024
const QUERIES = 600

const schema = schemaOf([['n', 'INT64']])
let pool: TestPool
let engine: SegmentEngine
let segment: QuerySegment

async function sum(segments: readonly QuerySegment[]): Promise<string | null | undefined> {
  const statement = { sql: 'SELECT sum(n) FROM rows WHERE n > 0', bounds: [] }
  return (await engine.run({ source: rowsOfPool(schema, { segments }), statement, rowsMax: 1 }, 'a'))
    .rows[0]?.[0]
}

describe.each(['native', 'js'] as const)('kernel %s', kernel => {
  beforeEach(async () => {
    pool = new TestPool()
    engine = await pool.open({ kernel, memoryBytes: MEMORY, threads: 1 })
    segment = await pool.write(
      `SELECT to_timestamp(0)::TIMESTAMPTZ AS _service_received_at, '{}' AS _service_payload, 1::BIGINT AS n, 0::BIGINT AS _service_sequence FROM range(${ROWS}) t(i)`,
    )
  })
  afterEach(() => pool.close())

  test(`${QUERIES} queries of a pool whose rows are deleted one by one`, { timeout: 300_000 }, async () => {
    const deleted: number[] = []
    for (let query = 1; query <= QUERIES; query++) {
      deleted.push(query)
      const rows = Uint32Array.from(deleted)
      expect(await sum([{ ...segment, deletionVectors: [{ segment: 1, rows }] }])).toBe(String(ROWS - query))
    }
  })

  test(`a query of each of ${QUERIES} segments with a deleted row`, { timeout: 300_000 }, async () => {
    for (let query = 0; query < QUERIES; query++) {
      const file = join(pool.segmentFolder, `copy-${query}.parquet`)
      copyFileSync(segment.file, file)
      expect(await sum([withDeletionVectors({ ...segment, file }, [7])])).toBe(String(ROWS - 1))
    }
  })
})
