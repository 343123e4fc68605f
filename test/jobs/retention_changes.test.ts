/** Retention in a cluster whose days change before, while and after it asks for a deletion. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import { modifyPool, type PoolChange } from '../../src/catalog/change/change-pool.ts'
import { createRewriteJob, reachRewrite } from '../../src/catalog/change/change-rewrite.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { Pool } from '../../src/catalog/documents/model.ts'
import { type ExpiryDeps, expireRows } from '../../src/jobs/expire-rows.ts'
import { clickhouse } from '../../src/query/clickhouse/write-statement.ts'
import type { QueryEngine } from '../../src/query/plan/query-task.ts'
import { created, type Folder, makeFolder } from '../catalog/folder.ts'

let folder: Folder
let catalog: Catalog
let pool: Pool
beforeEach(async () => {
  folder = makeFolder()
  catalog = (await folder.open()).catalog
  pool = created(await catalog.change(createWebhookSource({ uniqueName: 'a' }, 'APP1'))).pool
  await modify({ dataRetentionInDays: 30 })
})
afterEach(() => folder.remove())

async function modify(change: PoolChange): Promise<void> {
  expect(await catalog.change(modifyPool({ id: pool.id }, change, 'APP1'))).toMatchObject({ id: pool.id })
}

const jobs = () => catalog.read.jobs.of(pool.id)

/** One look, with three records of the pool that are too old. */
async function look({ counting = async () => {}, boundary = async () => {} } = {}): Promise<void> {
  const ended = new AbortController()
  const run: QueryEngine['run'] = async ({ source }) => {
    const isOurs = source === pool.number
    if (isOurs) await counting()
    const rows = [[isOurs ? '3' : '0']]
    return { columns: ['value'], rows, recordsProcessed: 3, bytesProcessed: 3, durationMs: 1 }
  }
  const reading: ExpiryDeps['reading'] = {
    pin: async pools => ({ source: pools[0]?.schema.pool, release: () => {} }),
    onQuery: () => {},
    engine: {
      run,
      dialect: clickhouse,
      parse: async () => ({ badRequest: 'no text' }),
    } as unknown as QueryEngine,
  }
  const takeBoundary = async () => {
    await boundary()
    ended.abort() // after this pool
    return 5
  }
  await expireRows({ catalog, reading, boundary: takeBoundary }, ended.signal)
}

test('a look asks for a deletion of the days of now', async () => {
  await look()
  expect(jobs()).toMatchObject([{ kind: 'DELETE_RECORDS', createdBy: 'system', status: 'CREATED' }])
})

test('days that change while records are counted, or a boundary is taken, delete nothing', async () => {
  await look({ counting: () => modify({ dataRetentionInDays: 0 }) })
  expect(jobs()).toEqual([])
  await modify({ dataRetentionInDays: 30 })
  await look({ boundary: () => modify({ dataRetentionInDays: 3_000 }) })
  expect(jobs()).toEqual([])
})

test('days that change end a deletion of retention that waits or runs, and no other one', async () => {
  const asked = {
    kind: 'DELETE_RECORDS',
    dataPool: pool.id,
    filters: [],
    filterSql: 'true',
    set: [],
  } as const
  await look()
  await catalog.change(createRewriteJob({ ...asked, beforeSequence: 6 }, 'APP1'))
  await modify({ uniqueName: 'b', dataRetentionInDays: 30 })
  expect(jobs().map(({ status }) => status)).toEqual(['CREATED', 'CREATED'])
  await modify({ dataRetentionInDays: 0 })
  expect(jobs()).toMatchObject([
    { status: 'FAILED', error: 'The job was cancelled.', modifiedBy: 'APP1' },
    { status: 'CREATED', isCancelled: false },
  ])
  const running = await catalog.change(createRewriteJob({ ...asked, beforeSequence: 7 }, 'system'))
  if (running === null || 'badRequest' in running) throw new Error('the job was refused')
  await catalog.change(reachRewrite(running.id, []))
  await modify({ dataRetentionInDays: 31 })
  expect(jobs()).toMatchObject([
    { status: 'FAILED' },
    { status: 'CREATED', isCancelled: false },
    { status: 'IN_PROGRESS', isCancelled: true },
  ])
})
