/** Jobs that add columns, as Terraform and other clients ask for them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startAddColumn } from '../../../src/catalog/change/change-add-column.ts'
import { succeedJob } from '../../../src/catalog/change/change-job.ts'
import { deletePool } from '../../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import type { Pool } from '../../../src/catalog/documents/model.ts'
import { makeServer, type TestServer } from './server.ts'

const FIELDS = `id createdAt createdBy modifiedAt modifiedBy account { id } environment { id } dataPool { id }
  status columnName columnType columnClickHouseType jsonProperty error { code message } progress startedAt
  succeededAt failedAt`
const CREATE = `mutation CreateAddColumnToDataPoolJob($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { ${FIELDS} } } }`
const JOB = `query AddColumnToDataPoolJob($id: ID!) { addColumnToDataPoolJob(id: $id) { ${FIELDS} } }`
const BY_STATUS = `query ($status: JobStatus!, $first: Int, $after: String) {
  addColumnToDataPoolJobByStatus(status: $status, first: $first, after: $after) {
    nodes { id } edges { cursor } pageInfo { hasNextPage endCursor } } }`
const OF_POOL = `query ($id: ID!) { dataPool(id: $id) {
  addColumnToDataPoolJobs { nodes { columnName status } } } }`

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

async function makePool(): Promise<Pool> {
  const made = await server.catalog.change(createWebhookSource({}, 'maker'))
  if ('badRequest' in made) throw new Error(made.badRequest)
  return made.pool
}

const inputOf = (pool: Pool, columnName: string) => ({
  dataPool: pool.id,
  columnName,
  columnType: 'STRING',
  columnClickHouseType: null,
  jsonProperty: columnName,
})

async function create(pool: Pool, columnName: string): Promise<string> {
  const { data, errors } = await server.ask(CREATE, { input: inputOf(pool, columnName) })
  expect(errors).toBeUndefined()
  return data.createAddColumnToDataPoolJob.job.id
}

test('a created job is run, and shows every field as it goes on', async () => {
  const pool = await makePool()
  const { data } = await server.ask(CREATE, { input: inputOf(pool, 'first') })
  const { job } = data.createAddColumnToDataPoolJob
  expect(job).toMatchObject({
    id: expect.stringMatching(/^DPJ[0-9A-Z]{26}$/),
    createdBy: 'app',
    modifiedBy: 'app',
    dataPool: { id: pool.id },
    status: 'CREATED',
    columnName: 'first',
    columnType: 'STRING',
    columnClickHouseType: null,
    jsonProperty: 'first',
    error: null,
    progress: 0,
    startedAt: null,
    succeededAt: null,
    failedAt: null,
  })
  expect(server.jobs.at(-1)?.id).toBe(job.id)
  await server.catalog.change(startAddColumn(job.id, 5))
  const started = (await server.ask(JOB, { id: job.id })).data.addColumnToDataPoolJob
  expect(started).toMatchObject({ status: 'IN_PROGRESS', startedAt: expect.stringMatching(/Z$/) })
  expect(started.progress).toBeGreaterThan(0)
  await server.catalog.change(succeedJob(job.id))
  const ended = (await server.ask(JOB, { id: job.id })).data.addColumnToDataPoolJob
  expect(ended).toMatchObject({ status: 'SUCCEEDED', progress: 1, failedAt: null })
  expect(ended.succeededAt).toMatch(/Z$/)
})

test('the jobs of a pool, and those of a status by page', async () => {
  const pool = await makePool()
  const ids = []
  for (const name of ['a', 'b', 'c']) ids.push(await create(pool, name))
  const ofPool = await server.ask(OF_POOL, { id: pool.id })
  expect(ofPool.data.dataPool.addColumnToDataPoolJobs.nodes).toEqual(
    ['a', 'b', 'c'].map(columnName => ({ columnName, status: 'CREATED' })),
  )
  const found: string[] = []
  let after: string | null = null
  for (let page = 0; page < 5; page++) {
    const { data } = await server.ask(BY_STATUS, { status: 'CREATED', first: 2, after })
    const { nodes, pageInfo } = data.addColumnToDataPoolJobByStatus
    found.push(...nodes.map(({ id }: { id: string }) => id))
    after = pageInfo.endCursor
    if (!pageInfo.hasNextPage) break
  }
  expect(found).toEqual(ids)
  const failed = await server.ask(BY_STATUS, { status: 'FAILED' })
  expect(failed.data.addColumnToDataPoolJobByStatus.nodes).toEqual([])
})

test('a job of a deleted pool FAILED with its reason, and a client that polls for its pool sees that', async () => {
  const pool = await makePool()
  const id = await create(pool, 'late')
  await server.catalog.change(deletePool({ id: pool.id }))
  await server.catalog.change(startAddColumn(id, 5))
  const { data } = await server.ask(
    'query ($id: ID!) { addColumnToDataPoolJob(id: $id) { status error { message } } }',
    {
      id,
    },
  )
  expect(data.addColumnToDataPoolJob).toEqual({
    status: 'FAILED',
    error: { message: expect.stringMatching(/Data Pool was deleted/) },
  })
  const polled = await server.ask(JOB, { id })
  expect(polled.errors).toBeUndefined()
  expect(polled.data.addColumnToDataPoolJob).toMatchObject({ status: 'FAILED', dataPool: { id: pool.id } })
  // One such job must not make the whole page null.
  const page = await server.ask(
    '{ addColumnToDataPoolJobByStatus(status: FAILED) { nodes { id dataPool { id } } } }',
  )
  expect(page).toMatchObject({ data: { addColumnToDataPoolJobByStatus: { nodes: [] } } })
})

test('what is wrong is said, and nothing is created', async () => {
  const pool = await makePool()
  const before = server.jobs.length
  const answered = async (input: object) => (await server.ask(CREATE, { input })).errors?.[0]
  expect(await answered({ ...inputOf(pool, 'x'), dataPool: 'DPO0' })).toMatchObject({
    message: 'Data Pool not found',
    extensions: { code: 'NOT_FOUND' },
  })
  expect(await answered({ ...inputOf(pool, 'x'), jsonProperty: null })).toMatchObject({
    message: expect.stringMatching(/needs a jsonProperty/),
    extensions: { code: 'BAD_REQUEST' },
  })
  expect(server.jobs.length).toBe(before)
  const unknown = (await server.ask(JOB, { id: 'DPJ0' })).errors?.[0]
  expect(unknown).toMatchObject({
    message: 'Add Column To Data Pool Job not found',
    extensions: { code: 'NOT_FOUND' },
  })
})

test('jobs need the scope admin', async () => {
  const pool = await makePool()
  const scope = ['data_pool:query', 'data_pool:read', 'metric:query'] as const
  const asks: readonly (readonly [string, object])[] = [
    [CREATE, { input: inputOf(pool, 'x') }],
    [JOB, { id: 'DPJ0' }],
    [BY_STATUS, { status: 'CREATED' }],
    [OF_POOL, { id: pool.id }],
  ]
  for (const [document, variables] of asks) {
    const { errors } = await server.ask(document, variables, { scope })
    expect(errors?.[0]?.extensions.code).toBe('FORBIDDEN')
  }
})
