/** What queries keep aside on the disk: files of their own, and room for the log. */
import { statfsSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Propeller } from '../../src/catalog/documents/model.ts'
import { rowsOfPool, type SegmentTask } from '../../src/query/plan/segment-task.ts'
import { SPOOL_FREE_BYTES_MIN } from '../../src/util/limits.ts'
import { mountSmall, NO_SMALL_DISK } from '../util/small-disk.ts'
import { schemaOf, TestPool } from './pool.ts'

const ROWS = 3_000_000
const schema = schemaOf([
  ['n', 'INT64'],
  ['s', 'STRING'],
])
const MiB = 1024 ** 2
/** Sorts more than the memory of any propeller. */
const SORT = `SELECT n, s FROM rows ORDER BY s LIMIT 3 OFFSET ${ROWS - 100_000}`

let pool: TestPool
let task: (sql: string) => SegmentTask

async function write(texts: string): Promise<void> {
  const segment =
    await pool.write(`SELECT make_timestamp(0) AS _service_received_at, '{}' AS _service_payload,
    i AS n, ${texts} AS s, 0::BIGINT AS _service_sequence FROM range(${ROWS}) t(i)`)
  task = sql => ({
    source: rowsOfPool(schema, { segments: [segment] }),
    statement: { sql, bounds: [] },
    rowsMax: 10,
  })
}

beforeEach(() => {
  pool = new TestPool()
})
afterEach(() => pool.close())

test('two propellers that spill at once do not read what the other wrote', async () => {
  await write("md5(i::VARCHAR) || md5((i + 1)::VARCHAR) || repeat('x', 100)")
  const whole = await pool.open({ memoryBytes: 4096 * MiB })
  const { rows } = await whole.run(task(SORT), 'A')
  await whole.stop()
  const engine = await pool.open({ propellerOf: key => key as Propeller })
  const keys: readonly Propeller[] = ['P1_X_LARGE', 'P1_LARGE']
  const both = await Promise.allSettled(keys.map(key => engine.run(task(SORT), key)))
  // DuckDB may find no block to spill. It then says so.
  for (const each of both)
    if (each.status === 'fulfilled') expect(each.value.rows).toEqual(rows)
    else expect(each.reason).toMatchObject({ code: 'query_memory' })
})

test('a query that spills leaves the room that imports leave, and the next query runs', async context => {
  await write('md5(i::VARCHAR) || md5((i + 1)::VARCHAR)')
  const temporaryFolder = join(pool.root, 'small')
  const small = mountSmall(temporaryFolder, `${SPOOL_FREE_BYTES_MIN / MiB + 48}m`)
  if (small === undefined) return context.skip(NO_SMALL_DISK)
  try {
    const engine = await pool.open({ temporaryFolder, memoryBytes: 192 * MiB, threads: 1 })
    const failed = await engine.run(task(SORT), 'A').catch((error: unknown) => error)
    expect(failed).toMatchObject({ name: 'Unavailable', code: 'query_disk' })
    expect((failed as Error).message).not.toContain('/')
    expect((await engine.run(task('SELECT COUNT(*) FROM rows'), 'A')).rows).toEqual([[String(ROWS)]])
    const { bavail, bsize } = statfsSync(temporaryFolder)
    expect(bavail * bsize).toBeGreaterThan(SPOOL_FREE_BYTES_MIN)
    small.resize('3g')
    expect((await engine.run(task(SORT), 'A')).rows).toHaveLength(3)
  } finally {
    small.end()
  }
})
