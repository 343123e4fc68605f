/**
 * Jobs that delete rows or set columns, over HTTP: a pool of every type, refusals, and its rows.
 */
import { expect } from 'vitest'
import { AT, column, post, until } from '../path/compaction.ts'
import type { PoolSpec, TestClient, TestPool } from '../util/server.ts'

/** A pool with a column of every type, each under the name of its type in lower case. */
export const EVERY_TYPE: PoolSpec = {
  columns: [
    column('at', 'TIMESTAMP'),
    column('id', 'STRING'),
    column('needed', 'INT32'),
    ...['STRING', 'BOOLEAN', 'INT8', 'INT16', 'INT32', 'INT64', 'FLOAT', 'DOUBLE', 'DATE'].map(type =>
      column(type.toLowerCase(), type, true),
    ),
    column('time', 'TIMESTAMP', true),
    column('json', 'JSON', true),
  ],
  timestamp: 'at',
  uniqueId: 'id',
}

/** An event of the pool. */
export function eventOf(id: string, more: object = {}) {
  return { at: AT, id, needed: 1, ...more }
}

const CREATE_UPDATE = `mutation ($input: CreateUpdateDataPoolRecordsJobInput!) {
  createUpdateDataPoolRecordsJob(input: $input) { job { id } } }`
const CREATE_DELETION = `mutation ($input: CreateDeletionJobInput!) {
  createDeletionJob(input: $input) { job { id } } }`
const STATUS = {
  update: 'query ($id: ID!) { job: updateDataPoolRecordsJob(id: $id) { status progress error { message } } }',
  deletion: 'query ($id: ID!) { job: deletionJob(id: $id) { status progress error { message } } }',
}

interface JobState {
  readonly status: string
  readonly progress: number
  readonly error: { readonly message: string } | null
}

export interface CreatedJob {
  readonly kind: keyof typeof STATUS
  readonly id: string
}

/** Creates a job and returns its id. */
export async function createJob(
  server: TestClient,
  kind: CreatedJob['kind'],
  input: Readonly<Record<string, unknown>>,
): Promise<CreatedJob> {
  const { data, errors } = await server.graphql<Record<string, { job: { id: string } }>>(
    kind === 'update' ? CREATE_UPDATE : CREATE_DELETION,
    { input },
  )
  expect(errors).toBeUndefined()
  return { kind, id: Object.values(data)[0]!.job.id }
}

export async function stateOf(server: TestClient, { kind, id }: CreatedJob): Promise<JobState> {
  return (await server.graphql<{ job: JobState }>(STATUS[kind], { id })).data.job
}

/** Waits until the job has ended. */
export async function ended(server: TestClient, job: CreatedJob): Promise<JobState> {
  let state: JobState = { status: '', progress: 0, error: null }
  await until(`the job ${job.id} ends`, async () => {
    state = await stateOf(server, job)
    return state.status === 'SUCCEEDED' || state.status === 'FAILED'
  })
  return state
}

type Kind = CreatedJob['kind']
type Input = Readonly<Record<string, unknown>>

/** The refusal of a job as `CODE: message`, or undefined where it was created. */
export async function refusal(server: TestClient, kind: Kind, input: Input): Promise<string | undefined> {
  const [name, type] =
    kind === 'update'
      ? ['createUpdateDataPoolRecordsJob', 'CreateUpdateDataPoolRecordsJobInput']
      : ['createDeletionJob', 'CreateDeletionJobInput']
  const { errors } = await server.graphql(
    `mutation ($input: ${type}!) { ${name}(input: $input) { job { id } } }`,
    { input },
  )
  const [error] = errors ?? []
  return error === undefined ? undefined : `${error.extensions?.code}: ${error.message}`
}

/** Creates a job and waits for its end. Resolves with its error's message; null if it SUCCEEDED. */
export async function runJob(server: TestClient, kind: Kind, input: Input): Promise<string | null> {
  const { status, progress, error } = await ended(server, await createJob(server, kind, input))
  expect([status, error === null]).toEqual(error === null ? ['SUCCEEDED', true] : ['FAILED', false])
  if (error === null) expect(progress).toBe(1)
  return error?.message ?? null
}

/** The rows of a statement over the pool, which it names as `pool`. */
export async function rowsOf(
  server: TestClient,
  pool: TestPool,
  statement: string,
): Promise<readonly (readonly (string | null)[])[]> {
  const query = statement.replace(/\bpool\b/, `"${pool.poolId}"`)
  const { data, errors } = await server.graphql<{ sqlV1: { rows: (string | null)[][] } }>(
    'query ($input: SqlV1Input!) { sqlV1(input: $input) { rows } }',
    { input: { query } },
  )
  expect(errors, statement).toBeUndefined()
  return data.sqlV1.rows
}

/** Sets one column of the row with this id in a pool of EVERY_TYPE; the column's value then. */
export async function valueAfter(
  server: TestClient,
  pool: TestPool,
  name: string,
  expression: string,
  id = 'e1',
): Promise<string | null | undefined> {
  const filters = [{ column: 'id', operator: 'EQUALS', value: id }]
  const input = { dataPool: pool.poolId, filters, set: [{ column: name, expression }] }
  expect(await runJob(server, 'update', input), expression).toBeNull()
  return (await rowsOf(server, pool, `SELECT "${name}" FROM pool WHERE id = '${id}'`))[0]?.[0]
}

/** Posts one event of its own. */
export function postOne(pool: TestPool, id: string, more: object = {}): Promise<void> {
  return post(pool, eventOf(id, more))
}
