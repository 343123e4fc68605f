/**
 * What happens to a job on its way: it is cancelled, its pool is deleted, its server is killed, and
 * records come and go. Where a job must stand still, the query process is stopped.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AT, at, column, events, filesOf, KEYED, NEVER, OFTEN, post, until } from '../path/compaction.ts'
import { queryProcess, startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { type CreatedJob, createJob, ended, rowsOf, runJob, stateOf } from './rewrite-jobs.ts'

const CANCEL = 'mutation ($id: ID!) { cancelJob(id: $id) { id status error { code message } } }'
const ADD_COLUMN = `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { id } } }`
const COLUMN_JOB = 'query ($id: ID!) { addColumnToDataPoolJob(id: $id) { status error { message } } }'

let server: TestServer
beforeAll(async () => {
  server = await startServer({ env: NEVER })
  await rowsOf(server, await server.createPool(KEYED), 'SELECT id FROM pool') // starts the query process
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/** A pool with segments of `rows` rows each: `e0` is in the first, and so on. */
async function poolOf(segments: number, rows = 1, one = server): Promise<TestPool> {
  const pool = await one.createPool(KEYED)
  for (let i = 0; i < segments; i++) {
    await post(pool, events(i * rows, (i + 1) * rows))
    // A job lets the flusher forget its last flush, which the next one would take with it.
    expect(await runJob(one, 'deletion', { dataPool: pool.poolId, filterSql: 'false' })).toBeNull()
  }
  expect(filesOf(one.dataDir, pool.poolId).length).toBe(segments)
  return pool
}

const ids = async (pool: TestPool) =>
  (await rowsOf(server, pool, 'SELECT id FROM pool ORDER BY id')).map(([id]) => id)
const cancel = async (id: string) => {
  const { data, errors } = await server.graphql<{ cancelJob: object }>(CANCEL, { id })
  return errors === undefined ? data.cancelJob : `${errors[0]?.extensions?.code}: ${errors[0]?.message}`
}
/**
 * A deletion of the events with the number. It needs no parser, so that a stopped one does not
 * matter.
 */
const deletion = ({ poolId }: TestPool, n = 1) =>
  createJob(server, 'deletion', {
    dataPool: poolId,
    filters: [{ column: 'n', operator: 'EQUALS', value: String(n) }],
  })

/** Stops the query process while `work` runs: no rows are found meanwhile. */
async function whileStopped<T>(work: () => Promise<T>): Promise<T> {
  const pid = queryProcess(server)!
  process.kill(pid, 'SIGSTOP')
  try {
    return await work()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}

const isIn = (job: CreatedJob, status: string) =>
  until(`job ${job.id} is ${status}`, async () => (await stateOf(server, job)).status === status)
const changeFiles = (dataDir: string) =>
  readdirSync(join(dataDir, 'tmp')).filter(name => name.startsWith('changes-'))

test('a running job is cancelled after its step, a waiting one at once, and the next one runs', async () => {
  const pool = await poolOf(3)
  const [first, waiting, next] = await whileStopped(async () => {
    const jobs = [await deletion(pool), await deletion(pool, 2), await deletion(pool, 3)] as const
    await isIn(jobs[0], 'IN_PROGRESS')
    expect((await stateOf(server, jobs[1])).status).toBe('CREATED')
    expect(await cancel(jobs[1].id)).toEqual({
      id: jobs[1].id,
      status: 'FAILED',
      error: { code: null, message: 'The job was cancelled.' },
    })
    expect(await cancel(jobs[0].id)).toEqual({ id: jobs[0].id, status: 'IN_PROGRESS', error: null })
    expect(await cancel(jobs[0].id), 'a second time').toMatchObject({ status: 'IN_PROGRESS' })
    return jobs
  })
  // The step that was under way is the newest of three segments.
  expect(await ended(server, first)).toEqual({
    status: 'FAILED',
    progress: expect.closeTo(1 / 3),
    error: { message: 'The job was cancelled. What it has changed stays changed.' },
  })
  expect(await stateOf(server, waiting)).toMatchObject({ status: 'FAILED', progress: 0 })
  expect((await ended(server, next)).status).toBe('SUCCEEDED')
  expect(await ids(pool)).toEqual(['e0', 'e1'])
  expect(await cancel(first.id)).toBe('BAD_REQUEST: The job has ended: its status is FAILED.')
  expect(await cancel(waiting.id)).toBe('BAD_REQUEST: The job has ended: its status is FAILED.')
  expect(await cancel(next.id)).toBe('BAD_REQUEST: The job has ended: its status is SUCCEEDED.')
  expect(await cancel('DPJ0')).toBe('NOT_FOUND: Job not found')
  expect(changeFiles(server.dataDir)).toEqual([])
})

test('a job that fails in the middle tells how far it came', async () => {
  const spec = { ...KEYED, columns: [...(KEYED.columns ?? []), column('word', 'STRING')] }
  const pool = await server.createPool(spec)
  for (let i = 0; i < 4; i++) {
    await post(pool, { at: AT, id: `e${i}`, n: i, word: 'w' })
    expect(await runJob(server, 'deletion', { dataPool: pool.poolId, filterSql: 'false' })).toBeNull()
  }
  expect(filesOf(server.dataDir, pool.poolId).length).toBe(4)
  const set = [{ column: 'word', expression: "CASE WHEN id = 'e1' THEN NULL ELSE 'new' END" }]
  const job = await createJob(server, 'update', { dataPool: pool.poolId, set })
  expect(await ended(server, job)).toMatchObject({ status: 'FAILED', progress: 0.5 })
  expect(await rowsOf(server, pool, 'SELECT word FROM pool ORDER BY id')).toEqual([
    ['w'],
    ['w'],
    ['new'],
    ['new'],
  ])
})

test('the jobs of a pool run in their order, jobs of every kind; those of others beside them', async () => {
  const [pool, other] = [await poolOf(1), await server.createPool(KEYED)]
  const addColumn = async ({ poolId }: TestPool, columnName: string) => {
    const input = { dataPool: poolId, columnName, columnType: 'STRING', jsonProperty: columnName }
    const { data } = await server.graphql<{ createAddColumnToDataPoolJob: { job: { id: string } } }>(
      ADD_COLUMN,
      { input },
    )
    return data.createAddColumnToDataPoolJob.job.id
  }
  const columnJob = async (id: string) =>
    (await server.graphql<{ addColumnToDataPoolJob: { status: string } }>(COLUMN_JOB, { id })).data
      .addColumnToDataPoolJob
  const [added, cancelled] = await whileStopped(async () => {
    const first = await deletion(pool)
    await isIn(first, 'IN_PROGRESS')
    const made = [await addColumn(pool, 'word'), await addColumn(pool, 'never')] as const
    const beside = await addColumn(other, 'word')
    await until('the column of the other pool is there', async () => {
      return (await columnJob(beside)).status === 'SUCCEEDED'
    })
    expect(await columnJob(made[0])).toEqual({ status: 'CREATED', error: null })
    expect(await cancel(made[1])).toMatchObject({ status: 'FAILED' })
    return made
  })
  await until('the column is there', async () => (await columnJob(added)).status === 'SUCCEEDED')
  expect(await columnJob(cancelled)).toEqual({
    status: 'FAILED',
    error: { message: 'The job was cancelled.' },
  })
  const { data } = await server.graphql<{ dataPool: { columns: { nodes: { columnName: string }[] } } }>(
    `{ dataPool(id: "${pool.poolId}") { columns { nodes { columnName } } } }`,
  )
  expect(
    data.dataPool.columns.nodes.map(({ columnName }) => columnName).filter(name => !name.startsWith('_')),
  ).toEqual(['at', 'id', 'n', 'word'])
})

test('the jobs of a deleted pool FAILED, and the deletion waits for none of them', async () => {
  const pool = await poolOf(2)
  const jobs = await whileStopped(async () => {
    const made = [await deletion(pool), await deletion(pool)] as const
    await isIn(made[0], 'IN_PROGRESS')
    const { errors } = await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', {
      id: pool.poolId,
    })
    expect(errors).toBeUndefined()
    expect((await stateOf(server, made[0])).status).toBe('IN_PROGRESS')
    return made
  })
  for (const job of jobs)
    expect(await ended(server, job)).toMatchObject({
      status: 'FAILED',
      error: { message: 'The Data Pool was deleted before the job ended.' },
    })
  // As clients poll: the pool's id is no reason not to see the end.
  const ask = (fields: string) =>
    server.graphql(`query ($id: ID!) { deletionJob(id: $id) { status dataPool { ${fields} } } }`, {
      id: jobs[0].id,
    })
  expect(await ask('__typename id status error { message }')).toEqual({
    data: {
      deletionJob: {
        status: 'FAILED',
        dataPool: { __typename: 'DataPool', id: pool.poolId, status: 'DELETING', error: null },
      },
    },
  })
  for (const field of [
    'uniqueName',
    'createdAt',
    'dataSource { id }',
    'recordCount',
    'columns { nodes { columnName } }',
  ])
    expect((await ask(field)).errors?.[0], field).toMatchObject({
      message: 'Data Pool not found',
      extensions: { code: 'NOT_FOUND' },
    })
  expect(changeFiles(server.dataDir)).toEqual([])
  // The folder itself stays until the next start, where a query had files in it open.
  const folder = join(server.dataDir, 'segment', pool.poolId)
  await until('the files are gone', () => !existsSync(folder) || readdirSync(folder).length === 0)
})

test('a job whose pool is deleted at once FAILED, and no line says that it waits', async () => {
  for (let i = 0; i < 5; i++) {
    const pool = await server.createPool(KEYED)
    await post(pool, events(0, 3))
    const job = await deletion(pool)
    await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool.poolId })
    expect((await ended(server, job)).error).toEqual({
      message: 'The Data Pool was deleted before the job ended.',
    })
    expect(server.output()).not.toContain(`${job.id} of pool`)
  }
})

test('records that come while a job runs are not its own, and stay as they were posted', async () => {
  const pool = await poolOf(2)
  await whileStopped(async () => {
    const job = await deletion(pool)
    await isIn(job, 'IN_PROGRESS')
    // A new state of one, a new record, and the end of one.
    await post(pool, [
      { at: AT, id: 'e0', n: 1 },
      { at: AT, id: 'new', n: 1 },
    ])
  })
  await until('the job ends', async () => (await ids(pool)).length === 2)
  expect(await ids(pool)).toEqual(['e0', 'new'])
  const updated = await poolOf(3)
  const set = [{ column: 'n', expression: 'n + 10' }]
  // The parser knows the text when the query process stands still.
  expect(await runJob(server, 'update', { dataPool: updated.poolId, filterSql: 'false', set })).toBeNull()
  const job = await whileStopped(async () => {
    const waits = await deletion(updated, 99)
    await isIn(waits, 'IN_PROGRESS')
    await post(updated, { at: AT, id: 'e0', n: 5 })
    await post(updated, { at: AT, id: 'e1' }, 'DELETE')
    return waits
  })
  expect((await ended(server, job)).status).toBe('SUCCEEDED')
  expect(await runJob(server, 'update', { dataPool: updated.poolId, set })).toBeNull()
  expect(await rowsOf(server, updated, 'SELECT id, n FROM pool ORDER BY id')).toEqual([
    ['e0', '15'],
    ['e2', '11'],
  ])
})

test('records that come between the creation of a job and its start are not its own', async () => {
  const pool = await poolOf(1)
  const [first, second] = await whileStopped(async () => {
    const blocking = await deletion(pool, 99)
    await isIn(blocking, 'IN_PROGRESS')
    // This row and the next ones come into one segment.
    await post(pool, { at: AT, id: 'before', n: 1 })
    const jobs = [blocking, await deletion(pool)] as const
    // One request has the sequence that is the job's boundary.
    await post(pool, { at: AT, id: 'next', n: 1 })
    await post(pool, { at: AT, id: 'later', n: 1 })
    expect((await stateOf(server, jobs[1])).status).toBe('CREATED')
    return jobs
  })
  for (const job of [first, second]) expect((await ended(server, job)).status).toBe('SUCCEEDED')
  expect(await ids(pool)).toEqual(['later', 'next'])
})

test('a deletion as Airbyte asks for it: a time of nanoseconds, and a poll for the status', async () => {
  const pool = await server.createPool({
    columns: [column('_airbyte_raw_id', 'STRING'), column('_airbyte_extracted_at', 'TIMESTAMP')],
    timestamp: '_airbyte_extracted_at',
    uniqueId: '_airbyte_raw_id',
  })
  const record = (id: string, time: string) => ({ _airbyte_raw_id: id, _airbyte_extracted_at: time })
  const now = '2026-03-01T10:00:00.123456789Z'
  await post(pool, [
    record('older', '2026-02-01T00:00:00Z'),
    record('same', '2026-03-01T10:00:00.123456Z'),
    record('later', '2026-03-01T10:00:00.123457Z'),
  ])
  const { data, errors } = await server.graphql<{ createDeletionJob: { job: { id: string } } }>(
    `mutation ($input: CreateDeletionJobInput!) { createDeletionJob(input: $input) {
       job { id status dataPool { id } filters { column operator value } } } }`,
    {
      input: {
        dataPool: pool.poolId,
        filters: [{ column: '_airbyte_extracted_at', operator: 'LESS_THAN_OR_EQUAL_TO', value: now }],
      },
    },
  )
  expect(errors).toBeUndefined()
  const { job } = data.createDeletionJob
  expect(job).toMatchObject({
    status: 'CREATED',
    dataPool: { id: pool.poolId },
    filters: [{ column: '_airbyte_extracted_at', operator: 'LESS_THAN_OR_EQUAL_TO', value: now }],
  })
  expect(await ended(server, { kind: 'deletion', id: job.id })).toMatchObject({
    status: 'SUCCEEDED',
    progress: 1,
  })
  expect(await rowsOf(server, pool, 'SELECT _airbyte_raw_id FROM pool')).toEqual([['later']])
})

test('a job whose query process dies is tried again, and ends', async () => {
  const pool = await poolOf(2)
  const pid = queryProcess(server)!
  process.kill(pid, 'SIGSTOP')
  const job = await deletion(pool)
  await isIn(job, 'IN_PROGRESS')
  process.kill(pid, 'SIGKILL')
  expect((await ended(server, job)).status).toBe('SUCCEEDED')
  expect(await ids(pool)).toEqual([])
  expect(changeFiles(server.dataDir)).toEqual([])
})

test('after a kill between finding and rewriting, the found rows leave data/tmp, and merges go on', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  let one = await startServer({ dataDir, env: NEVER })
  const pool = await poolOf(3, 4, one)
  expect((await one.stop()).code).toBe(0)
  one = await startServer({ dataDir, env: { ...NEVER, WEIR_CRASH_AT: 'rewrite.found:2' } })
  const set = [{ column: 'n', expression: 'n + 1' }]
  const job = await createJob(one, 'update', { dataPool: pool.poolId, filterSql: "id <> 'e5'", set })
  expect((await one.ended).signal).toBe('SIGKILL')
  expect(changeFiles(dataDir).length).toBe(1)
  one = await startServer({ dataDir, env: OFTEN })
  await post(at(one, pool), { at: AT, id: 'e6', n: 7 })
  expect(await ended(one, job)).toEqual({ status: 'SUCCEEDED', progress: 1, error: null })
  const rows = await rowsOf(one, pool, 'SELECT n, COUNT(*) FROM pool GROUP BY n ORDER BY n')
  expect(rows).toEqual([
    ['1', '1'],
    ['2', '10'],
    ['7', '1'],
  ])
  await until('the files of the killed process are gone', () => changeFiles(dataDir).length === 0)
  await until('merges take the segments again', () => filesOf(dataDir, pool.poolId).length === 1)
  expect((await one.stop()).code).toBe(0)
})
