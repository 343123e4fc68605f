/**
 * Jobs that delete rows or set columns, as clients see them: fields, pages, scopes, limits, audit
 * lines.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startAddColumn } from '../../../src/catalog/change/change-add-column.ts'
import { failJob, progressJob, succeedJob } from '../../../src/catalog/change/change-job.ts'
import { startRewrite } from '../../../src/catalog/change/change-rewrite.ts'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import type { Pool } from '../../../src/catalog/documents/model.ts'
import { JOBS_UNFINISHED_MAX } from '../../../src/util/limits.ts'
import { makeServer, type TestServer } from './server.ts'

const FIELDS = `id createdAt createdBy modifiedAt modifiedBy account { id } environment { id } dataPool { id }
  status error { code message } progress startedAt succeededAt failedAt filters { column operator value }
  filterSql`
const UPDATE = `mutation ($input: CreateUpdateDataPoolRecordsJobInput!) {
  createUpdateDataPoolRecordsJob(input: $input) { job { ${FIELDS} set { column expression } } } }`
const DELETION = `mutation ($input: CreateDeletionJobInput!) {
  createDeletionJob(input: $input) { job { ${FIELDS} } } }`
const REQUEST = `mutation ($input: DeletionRequestInput!) { requestDelete(input: $input) { job { id } } }`
const UPDATE_JOB = `query ($id: ID!) { updateDataPoolRecordsJob(id: $id) { ${FIELDS} set { column expression } } }`
const DELETION_JOB = `query ($id: ID!) { deletionJob(id: $id) { ${FIELDS} } }`
const BY_STATUS = `query ($status: JobStatus!, $first: Int, $after: String) {
  updateDataPoolRecordsJobByStatus(status: $status, first: $first, after: $after) {
    nodes { id } pageInfo { hasNextPage endCursor } } }`
const OF_POOL = `query ($id: ID!, $first: Int, $after: String) { dataPool(id: $id) {
  deletionJobs(first: $first, after: $after) { nodes { id } pageInfo { hasNextPage endCursor } }
  updateDataPoolRecordsJobs { nodes { id } } addColumnToDataPoolJobs { nodes { id } } } }`
const CANCEL = 'mutation ($id: ID!) { cancelJob(id: $id) { id status error { message } } }'
const ADD_COLUMN = `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { id } } }`

let server: TestServer
let pool: Pool
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())
beforeEach(async () => {
  const column = { name: 'n', type: 'INT64', jsonProperty: 'n', nullable: true } as const
  const made = await server.catalog.change(createWebhookSource({ columns: [column] }, 'maker'))
  if ('badRequest' in made) throw new Error(made.badRequest)
  pool = made.pool
  server.audited.length = 0
})

const SET = [{ column: 'n', expression: 'n + 1' }]
const FILTER = { column: 'n', operator: 'EQUALS', value: '1' }

/** Jobs are listed by age. Those of one millisecond have no order, so the next one comes later. */
async function create(document: string, more: object): Promise<string> {
  const { data, errors } = await server.ask(document, { input: { dataPool: pool.id, ...more } })
  expect(errors).toBeUndefined()
  for (const nowMs = Date.now(); Date.now() === nowMs; ) await new Promise(setImmediate)
  return (Object.values(data)[0] as { job: { id: string } }).job.id
}

test('a job shows what was asked for, and every field as it goes on', async () => {
  const more = { filters: [FILTER], filterSql: 'n > 0' }
  const { data } = await server.ask(UPDATE, { input: { dataPool: pool.id, ...more, set: SET } })
  const { job } = data.createUpdateDataPoolRecordsJob
  expect(job).toMatchObject({
    id: expect.stringMatching(/^DPJ[0-9A-Z]{26}$/),
    createdBy: 'app',
    dataPool: { id: pool.id },
    status: 'CREATED',
    error: null,
    progress: 0,
    startedAt: null,
    ...more,
    set: SET,
  })
  expect(server.jobs.at(-1)?.id).toBe(job.id)
  const shown = async () => (await server.ask(UPDATE_JOB, { id: job.id })).data.updateDataPoolRecordsJob
  await server.catalog.change(startRewrite(job.id, { segmentsBelow: 5, rows: 10 }))
  expect(await shown()).toMatchObject({ status: 'IN_PROGRESS', startedAt: expect.stringMatching(/Z$/) })
  await server.catalog.change(progressJob(job.id, 0.5))
  await server.catalog.change(progressJob(job.id, 0.25)) // it never goes back
  expect(await shown()).toMatchObject({ progress: 0.5 })
  await server.catalog.change(succeedJob(job.id))
  expect(await shown()).toMatchObject({ status: 'SUCCEEDED', progress: 1, failedAt: null, ...more, set: SET })
  const id = await create(DELETION, { filters: [FILTER] })
  await server.catalog.change(failJob(id, 'it is so'))
  expect((await server.ask(DELETION_JOB, { id })).data.deletionJob).toMatchObject({
    status: 'FAILED',
    error: { code: null, message: 'it is so' },
    filters: [FILTER],
    filterSql: null,
  })
})

test('a job is found under its own kind alone, by id, by pool in pages, and by status', async () => {
  const update = await create(UPDATE, { set: SET })
  const deletions = []
  for (let i = 0; i < 5; i++)
    deletions.push(await create(i === 4 ? REQUEST : DELETION, { filterSql: 'true' }))
  for (const [document, id] of [
    [UPDATE_JOB, deletions[0]],
    [DELETION_JOB, update],
    ['query ($id: ID!) { addColumnToDataPoolJob(id: $id) { id } }', update],
  ]) {
    const { errors } = await server.ask(document!, { id })
    expect(errors?.[0]?.extensions.code, document).toBe('NOT_FOUND')
  }
  const found: string[] = []
  for (let after: string | null = null, more = true; more; ) {
    const page = await server.ask(OF_POOL, { id: pool.id, first: 2, after })
    const dataPool: typeof page.data = page.data.dataPool
    found.push(...dataPool.deletionJobs.nodes.map(({ id }: { id: string }) => id))
    expect(dataPool.updateDataPoolRecordsJobs.nodes).toEqual([{ id: update }])
    expect(dataPool.addColumnToDataPoolJobs.nodes).toEqual([])
    more = dataPool.deletionJobs.pageInfo.hasNextPage
    after = dataPool.deletionJobs.pageInfo.endCursor
  }
  expect(found).toEqual(deletions)
  const more = [await create(UPDATE, { set: SET }), await create(UPDATE, { set: SET })]
  const created: string[] = []
  for (let after: string | null = null, next = true; next; ) {
    const { data } = await server.ask(BY_STATUS, { status: 'CREATED', first: 1, after })
    const { nodes, pageInfo } = data.updateDataPoolRecordsJobByStatus
    created.push(...nodes.map(({ id }: { id: string }) => id))
    next = pageInfo.hasNextPage
    after = pageInfo.endCursor
  }
  expect(created.slice(-3)).toEqual([update, ...more])
})

test('jobs need the scope admin, and a refused cancellation changes nothing', async () => {
  const id = await create(DELETION, { filterSql: 'true' })
  const scope = ['data_pool:query', 'data_pool:read', 'metric:query'] as const
  const asks: readonly (readonly [string, object])[] = [
    [UPDATE, { input: { dataPool: pool.id, set: SET } }],
    [DELETION, { input: { dataPool: pool.id, filterSql: 'true' } }],
    [REQUEST, { input: { dataPool: pool.id, filterSql: 'true' } }],
    [CANCEL, { id }],
    [UPDATE_JOB, { id }],
    [DELETION_JOB, { id }],
    [BY_STATUS, { status: 'CREATED' }],
    [OF_POOL, { id: pool.id }],
  ]
  const before = server.jobs.length
  for (const [document, variables] of asks) {
    const { errors } = await server.ask(document, variables, { scope })
    expect(errors?.[0]?.extensions.code, document).toBe('FORBIDDEN')
  }
  expect([server.jobs.length, server.catalog.read.jobs.get(id)?.status]).toEqual([before, 'CREATED'])
})

test('each change leaves a line of audit with the job, without its texts', async () => {
  const id = await create(DELETION, { filterSql: "n = 1 OR 'a secret' = 'b'" })
  await server.ask(CANCEL, { id })
  await server.ask(CANCEL, { id })
  await server.ask(CANCEL, { id: 'DPJ0' })
  await server.ask(DELETION, { input: { dataPool: pool.id } })
  await server.ask(UPDATE, { input: { dataPool: 'DPO0', set: SET } })
  expect(server.audited.map(({ mutation, object, outcome }) => [mutation, object, outcome])).toEqual([
    ['createDeletionJob', id, 'done'],
    ['cancelJob', id, 'done'],
    ['cancelJob', id, 'BAD_REQUEST'],
    ['cancelJob', 'DPJ0', 'NOT_FOUND'],
    ['createDeletionJob', pool.id, 'BAD_REQUEST'],
    ['createUpdateDataPoolRecordsJob', 'DPO0', 'NOT_FOUND'],
  ])
  expect(JSON.stringify(server.audited)).not.toContain('a secret')
})

test('a column that is being added stays: its job is cancelled only while it waits', async () => {
  const input = { columnType: 'STRING', jsonProperty: 'x' }
  const waiting = await create(ADD_COLUMN, { ...input, columnName: 'waiting' })
  expect((await server.ask(CANCEL, { id: waiting })).data.cancelJob).toMatchObject({ status: 'FAILED' })
  const running = await create(ADD_COLUMN, { ...input, columnName: 'running' })
  await server.catalog.change(startAddColumn(running, 5))
  const { errors } = await server.ask(CANCEL, { id: running })
  expect(errors?.[0]).toMatchObject({
    message: 'The Data Pool has the column already, and columns are never removed.',
    extensions: { code: 'BAD_REQUEST' },
  })
  expect(server.catalog.read.jobs.get(running)?.status).toBe('IN_PROGRESS')
})

test('a bounded number of jobs is unfinished, and one that ends makes room', async () => {
  const unfinished = () =>
    server.catalog.read.jobs.all().filter(({ status }) => status === 'CREATED' || status === 'IN_PROGRESS')
  while (unfinished().length < JOBS_UNFINISHED_MAX / 2) await create(DELETION, { filterSql: 'true' })
  const refused = async () => {
    const { errors } = await server.ask(DELETION, { input: { dataPool: pool.id, filterSql: 'true' } })
    return errors?.[0]?.message
  }
  expect(await refused()).toMatch(new RegExp(`^${JOBS_UNFINISHED_MAX / 2} jobs of the application are not`))
  await server.ask(CANCEL, { id: unfinished().at(-1)!.id })
  expect(await refused()).toBeUndefined()
  expect(await refused()).toMatch(/jobs of the application are not finished/)
}, 60_000)
