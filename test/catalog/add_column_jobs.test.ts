/** The rules of jobs that add a column, and the change that adds it. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Catalog } from '../../src/catalog/catalog.ts'
import type { Decide } from '../../src/catalog/change/change.ts'
import {
  createAddColumnJob,
  type NewAddColumnJob,
  startAddColumn,
} from '../../src/catalog/change/change-add-column.ts'
import { cancelJob, failJob, progressJob, succeedJob } from '../../src/catalog/change/change-job.ts'
import { createPool, deletePool } from '../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../src/catalog/change/change-source.ts'
import type { Job, Pool } from '../../src/catalog/documents/model.ts'
import { must } from '../../src/util/errors.ts'
import { COLUMNS_MAX, JOBS_ENDED_MAX, JOBS_UNFINISHED_MAX } from '../../src/util/limits.ts'
import { type Folder, makeFolder } from './folder.ts'

let folder: Folder
let catalog: Catalog
beforeEach(async () => {
  folder = makeFolder()
  catalog = (await folder.open()).catalog
})
afterEach(() => folder.remove())

const column = (name: string, nullable = false) => ({ name, jsonProperty: name, type: 'STRING', nullable })

async function webhookPool(columns = [column('id')]): Promise<Pool> {
  const made = await catalog.change(createWebhookSource({ columns, uniqueId: 'id' }, 'APP1'))
  if ('badRequest' in made) throw new Error(made.badRequest)
  return made.pool
}

async function genericPool(): Promise<Pool> {
  const columns = [{ name: 'id', type: 'STRING', nullable: false }]
  const made = await catalog.change(createPool({ columns }, 'APP1'))
  if (made === null || 'badRequest' in made) throw new Error('no pool')
  return made
}

const input = (pool: Pool, more: Partial<NewAddColumnJob> = {}): NewAddColumnJob => ({
  dataPool: pool.id,
  columnName: 'added',
  columnType: 'INT64',
  jsonProperty: 'a.b',
  ...more,
})

async function created(pool: Pool, more: Partial<NewAddColumnJob> = {}): Promise<Job> {
  const job = await catalog.change(createAddColumnJob(input(pool, more), 'APP2'))
  if (job === null || 'badRequest' in job) throw new Error(JSON.stringify(job))
  return job
}

async function refusal(pool: Pool, more: Partial<NewAddColumnJob>): Promise<string> {
  const job = await catalog.change(createAddColumnJob(input(pool, more), 'APP2'))
  return job !== null && 'badRequest' in job ? job.badRequest : 'accepted'
}

async function settled(change: Promise<Job | { badRequest: string }>): Promise<Job> {
  const job = await change
  if ('badRequest' in job) throw new Error(job.badRequest)
  return job
}

const start = (job: Job, sequence = 7) => settled(catalog.change(startAddColumn(job.id, sequence)))
const succeed = (job: Job) => settled(catalog.change(succeedJob(job.id)))
const poolNow = (pool: Pool) => must(catalog.pool(pool.id), 'the pool')

test('a job goes from CREATED over IN_PROGRESS to SUCCEEDED, and survives a restart at each step', async () => {
  const pool = await webhookPool()
  const reopened = async (job: Job) => {
    await catalog.stop()
    catalog = (await folder.open()).catalog
    expect(catalog.read.jobs.get(job.id)).toEqual(job)
    expect(catalog.read.jobs.of(pool.id)).toEqual([job])
  }
  const job = await created(pool)
  expect(job).toMatchObject({ status: 'CREATED', progress: 0, poolId: pool.id, createdBy: 'APP2' })
  expect([job.startedAt, job.succeededAt, job.failedAt, job.error]).toEqual([null, null, null, null])
  expect(poolNow(pool)).toEqual(pool)
  await reopened(job)
  const started = await start(job, 42)
  expect(started).toMatchObject({ status: 'IN_PROGRESS', cutOverSequence: 42 })
  expect(started.startedAt).not.toBeNull()
  await reopened(started)
  const ended = await succeed(started)
  expect(ended).toMatchObject({ status: 'SUCCEEDED', progress: 1, cutOverSequence: 42, failedAt: null })
  await reopened(ended)
})

test('the column comes with a schema version of its own, and the old version stays', async () => {
  const pool = await webhookPool()
  await start(await created(pool))
  const now = poolNow(pool)
  expect(now.planVersion).toBe(2)
  expect(now.columns).toEqual([
    ...pool.columns,
    { name: 'added', jsonProperty: 'a.b', type: 'INT64', nullable: true },
  ])
  expect(now.modifiedBy).toBe('APP2')
  const [before, after] = [1, 2].map(version => must(catalog.schema(pool.number, version), 'a schema'))
  expect(before!.columns.map(({ name }) => name)).toEqual(['id'])
  expect(after!.columns.map(({ name, required }) => [name, required])).toEqual([
    ['id', true],
    ['added', false],
  ])
  expect([after!.key, after!.timestamp, after!.tenant]).toEqual([
    before!.key,
    before!.timestamp,
    before!.tenant,
  ])
})

test('a step that is done already changes nothing', async () => {
  const pool = await webhookPool()
  const job = await created(pool)
  expect(await succeed(job)).toEqual(job)
  const started = await start(job, 42)
  expect(await start(job, 99)).toEqual(started)
  expect(poolNow(pool).planVersion).toBe(2)
  const ended = await succeed(job)
  expect(await succeed(job)).toEqual(ended)
  expect(await start(job, 99)).toEqual(ended)
})

test('columns that a pool cannot get are refused when the job is created', async () => {
  const pool = await webhookPool()
  const cases: readonly (readonly [Partial<NewAddColumnJob>, RegExp])[] = [
    [{ columnName: 'ID' }, /"id" and "ID" have the same name/],
    [{ columnName: '' }, /empty name/],
    [{ columnName: '_service_x' }, /reserved/],
    [{ columnName: '_Service_Payload' }, /reserved/],
    [{ columnName: 'rowid' }, /reserved/],
    [{ columnName: 'x'.repeat(129) }, /longer than 128 bytes/],
    [{ jsonProperty: null }, /"added" needs a jsonProperty/],
    [{ jsonProperty: '' }, /empty jsonProperty/],
    [{ columnType: 'CLICKHOUSE', columnClickHouseType: 'String' }, /a webhook's column cannot have/],
  ]
  for (const [more, sentence] of cases) expect(await refusal(pool, more)).toMatch(sentence)
  await created(pool)
  expect(await refusal(pool, { columnName: 'Added' })).toMatch(/"added" and "Added" have the same name/)
  expect(catalog.read.jobs.all().length).toBe(1)
})

test('a pool that is unknown has no job', async () => {
  const pool = await webhookPool()
  const made = await catalog.change(createAddColumnJob({ ...input(pool), dataPool: 'DPO1' }, 'APP2'))
  expect(made).toBeNull()
})

test('columns of unfinished jobs count against the limit of columns', async () => {
  const columns = Array.from({ length: COLUMNS_MAX - 2 }, (_, i) => column(`c${i}`, true))
  const pool = await webhookPool([column('id'), ...columns])
  await created(pool)
  expect(await refusal(pool, { columnName: 'more' })).toMatch(/at most 500 columns/)
})

test('a generic pool names the property by default, and takes ClickHouse types', async () => {
  const pool = await genericPool()
  await start(await created(pool, { columnName: 'plain', jsonProperty: null }))
  await start(await created(pool, { columnName: 'given', jsonProperty: 'x.y' }))
  const type = 'LowCardinality(Nullable(String))'
  await start(
    await created(pool, {
      columnName: 'text',
      jsonProperty: null,
      columnType: 'CLICKHOUSE',
      columnClickHouseType: type,
    }),
  )
  expect(poolNow(pool).columns.slice(1)).toEqual([
    { name: 'plain', jsonProperty: 'plain', type: 'INT64', nullable: true },
    { name: 'given', jsonProperty: 'x.y', type: 'INT64', nullable: true },
    { name: 'text', jsonProperty: 'text', type: 'STRING', nullable: true, clickHouseType: type },
  ])
  // Terraform's provider adds a nullable column of the type String, and wants both back.
  await start(
    await created(pool, { columnName: 'bare', columnType: 'CLICKHOUSE', columnClickHouseType: 'String' }),
  )
  expect(poolNow(pool).columns.at(-1)).toMatchObject({
    name: 'bare',
    nullable: true,
    clickHouseType: 'String',
  })
  for (const columnClickHouseType of ['Array(String)', 'Nullable(Map(String, String))', 'nonsense'])
    expect(await refusal(pool, { columnType: 'CLICKHOUSE', columnClickHouseType })).toContain(
      columnClickHouseType,
    )
  expect(await refusal(pool, { columnType: 'CLICKHOUSE', columnClickHouseType: null })).toMatch(/no click/i)
  expect(await refusal(pool, { columnType: 'INT64', columnClickHouseType: 'Int64' })).toMatch(
    /has the type INT64 and the clickHouseType Int64: give the type CLICKHOUSE/,
  )
})

test('a job of a deleted pool FAILED, whatever it had done', async () => {
  const pool = await webhookPool()
  const [waiting, running] = [await created(pool), await created(pool, { columnName: 'second' })]
  await start(running)
  await catalog.change(deletePool({ id: pool.id }))
  for (const ended of [await start(waiting), await succeed(running)]) {
    expect(ended).toMatchObject({ status: 'FAILED', succeededAt: null })
    expect(ended.error).toMatch(/Data Pool was deleted/)
    expect(ended.failedAt).not.toBeNull()
  }
  expect(catalog.schema(pool.number, 2)).toBeUndefined()
})

test('a job whose column came by another way FAILED and adds nothing', async () => {
  const pool = await webhookPool()
  const job = await created(pool)
  // No request can do this while the job is not finished.
  await catalog.put([[`pool/${pool.id}`, { ...pool, columns: [...pool.columns, column('ADDED', true)] }]])
  const ended = await start(job)
  expect(ended.status).toBe('FAILED')
  expect(ended.error).toMatch(/have the same name/)
  expect(poolNow(pool).planVersion).toBe(1)
})

test('unfinished jobs have a limit, in shares of applications', async () => {
  const pool = await webhookPool()
  const job = await created(pool)
  const half = JOBS_UNFINISHED_MAX / 2
  const puts = Array.from({ length: half - 1 }, (_, i) => {
    const id = `DPJ${i}`
    return [`job/${id}`, { ...job, id, poolId: `DPO${i}` }] as const
  })
  await catalog.put(puts)
  const more = { columnName: 'more' }
  expect(await refusal(pool, more)).toMatch(/1000 jobs of the application are not finished, and 1000 of all/)
  // Others have a share of their own.
  expect(await catalog.change(createAddColumnJob(input(pool, more), 'APP3'))).toHaveProperty('id')
})

test('the catalog keeps a bounded number of ended jobs, and no other is removed', async () => {
  const pool = await webhookPool()
  const job = await created(pool)
  const puts = Array.from({ length: JOBS_ENDED_MAX }, (_, i) => {
    const id = `DPJ${String(i).padStart(6, '0')}`
    return [`job/${id}`, { ...job, id, poolId: 'DPO1', status: 'SUCCEEDED' }] as const
  })
  await catalog.put(puts)
  const next = await created(pool, { columnName: 'second' })
  expect(catalog.read.jobs.size).toBe(JOBS_ENDED_MAX + 1)
  expect(catalog.read.jobs.get('DPJ000000')).toBeUndefined()
  expect(catalog.read.jobs.of(pool.id)).toEqual([job, next])
})

test('the jobs that ended first are removed, and the runner of a cancelled one finds its job', async () => {
  const pool = await webhookPool()
  const made = await created(pool)
  const dated = (year: number) => ({ createdAt: `${year}-01-01T00:00:00.000Z` })
  const job = { ...made, ...dated(2020) }
  const puts = Array.from({ length: JOBS_ENDED_MAX }, (_, i) => {
    const id = `DPJ${String(i).padStart(6, '0')}`
    // They were created in the order of their ids, and ended in the other order.
    const modifiedAt = new Date(Date.UTC(2023, 0, 1) - i * 1000).toISOString()
    return [
      `job/${id}`,
      { ...job, ...dated(2021), id, poolId: 'DPO1', status: 'FAILED', modifiedAt },
    ] as const
  })
  await catalog.put([[`job/${job.id}`, job], ...puts])
  await settled(catalog.change(cancelJob(job.id, 'APP2') as Decide<Job>))
  await created(pool, { columnName: 'second' })
  await created(pool, { columnName: 'third' })
  for (const change of [
    startAddColumn(job.id, 7),
    succeedJob(job.id),
    failJob(job.id, 'no'),
    progressJob(job.id, 1),
  ])
    expect(await settled(catalog.change(change))).toMatchObject({
      status: 'FAILED',
      error: 'The job was cancelled.',
    })
  expect(poolNow(pool).planVersion).toBe(1)
  const left = new Set(catalog.read.jobs.all().map(({ id }) => id))
  expect(puts.flatMap(([, { id }]) => (left.has(id) ? [] : [id]))).toEqual(['DPJ009998', 'DPJ009999'])
})
