/**
 * Texts that DuckDB keeps outside of its memory limit, and that become JavaScript strings: the
 * process fails the query and lives on.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import type { EngineCalls, EngineSettings } from '../../src/query/duckdb/engine-calls.ts'
import type { SegmentTask } from '../../src/query/plan/segment-task.ts'
import type { Callee } from '../../src/util/callee.ts'
import { startProcess } from '../../src/util/process-kit.ts'
import { schemaOf, TestPool } from './pool.ts'

const MiB = 1024 ** 2
const schema = schemaOf([['s', 'STRING']])
const COLUMNS =
  "make_timestamp(0) AS _service_received_at, '{}' AS _service_payload, 0::BIGINT AS _service_sequence"

let pool: TestPool
let long: QuerySegment
let many: QuerySegment
let task: (sql: string) => SegmentTask

beforeEach(async () => {
  pool = new TestPool()
  long = await pool.write(`SELECT repeat('x', 1000000) AS s, ${COLUMNS}`)
  many = await pool.write(`SELECT i::VARCHAR AS s, ${COLUMNS} FROM range(5000) t(i)`)
  task = sql => ({
    source: { pools: [long, many].map(segment => ({ schema, segments: [segment] })) },
    statement: { sql, bounds: [] },
    rowsMax: 10_000,
  })
})
afterEach(() => pool.close())

const REFUSED = {
  name: 'Unavailable',
  code: expect.stringMatching(/^(answer_too_large|query_memory)$/) as string,
}
const CROSS = 'SELECT a.s FROM rows_1 b CROSS JOIN rows a LIMIT 2048'

// Statements of the planner are refused before. These have no count of their work.
test('a chunk of one long text in each row ends its query, and not the process', async () => {
  let crashes = 0
  const engine = await pool.open({ onCrash: () => (crashes += 1) })
  await expect(engine.run(task(CROSS), 'A')).rejects.toMatchObject(REFUSED)
  const file = join(pool.temporaryFolder, 'export-1')
  const copyTo = { format: 'arrow', file, types: ['STRING'], msMax: 20_000 } as const
  await expect(engine.run({ ...task(CROSS), copyTo }, 'A')).rejects.toMatchObject(REFUSED)
  expect((await engine.run(task('SELECT COUNT(*) FROM rows_1'), 'A')).rows).toEqual([['5000']])
  expect(crashes).toBe(0)
})

test('an answer counts its values too: nulls are no reason for a gigabyte', async () => {
  const engine = await pool.open()
  const nulls = `SELECT ${Array.from({ length: 1000 }, () => 'NULL').join(', ')} FROM rows_1 LIMIT 4000`
  await expect(engine.run(task(nulls), 'A')).rejects.toMatchObject({ code: 'answer_too_large' })
})

// The process keeps what it took for a while, or ends because of it. Weir's lanes run the next
// query again then, so this does too, once.
test('a query beyond the limit of the system answers an error, and the next one an answer', async () => {
  const crashes: Error[] = []
  const first = startLimited(crashes)
  try {
    await first.call('open', undefined)
    const bomb = 'SELECT MAX(length(upper(a.s || b.s))) FROM rows_1 b CROSS JOIN rows a'
    await expect(run(first, bomb)).rejects.toMatchObject({ name: 'Unavailable', code: 'process_memory' })
    const counted = run(first, COUNT).catch(async error => {
      const { code, message } = error as { code?: string; message: string }
      expect(`${code}: ${message}`).toMatch(/^process_memory: |was ended by SIGKILL/)
      return await countInNextProcess(crashes)
    })
    expect(await counted).toMatchObject({ rows: [['5000']] })
  } finally {
    await first.terminate()
  }
  // At most the first process ends, and by its own hand.
  expect(crashes.length).toBeLessThanOrEqual(1)
  expect(readFileSync(long.file).byteLength).toBeGreaterThan(0)
})

const COUNT = 'SELECT COUNT(*) FROM rows_1'

function startLimited(crashes: Error[]): Callee<EngineCalls> {
  const settings: EngineSettings = {
    segmentFolder: pool.segmentFolder,
    temporaryFolder: pool.temporaryFolder,
    threads: 1,
    memoryBytes: 32 * MiB,
    deletionVectorBytesMax: MiB,
    queryMsMax: 20_000,
  }
  return startProcess<EngineCalls>({
    name: 'query',
    data: settings,
    nice: 0,
    crashAt: '',
    heapMiB: 128,
    dataBytesMax: 400 * MiB,
    onCrash: error => crashes.push(error),
  })
}

async function run(process: Callee<EngineCalls>, sql: string) {
  const sent = (segment: QuerySegment) => ({ ...segment, deletionVectors: [], deleted: 0 })
  const pools = [long, many].map(segment => ({ schema, segments: [sent(segment)] }))
  return await process.call('run', { ...task(sql), source: { pools } })
}

async function countInNextProcess(crashes: Error[]) {
  const next = startLimited(crashes)
  try {
    await next.call('open', undefined)
    return await run(next, COUNT)
  } finally {
    await next.terminate()
  }
}
