/** Adds a column over HTTP, as clients do. */
import { expect } from 'vitest'
import { until } from '../path/compaction.ts'
import type { TestServer } from '../util/server.ts'

const CREATE = `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { id } } }`
const STATUS = 'query ($id: ID!) { addColumnToDataPoolJob(id: $id) { status error { message } } }'

interface Created {
  readonly createAddColumnToDataPoolJob: { readonly job: { readonly id: string } }
}
interface Polled {
  readonly addColumnToDataPoolJob: { readonly status: string; readonly error: unknown }
}

/** Creates the job, whose property has the name of the column, and waits until it has SUCCEEDED. */
export async function addColumn(
  { graphql }: TestServer,
  dataPool: string,
  columnName: string,
  columnType: string,
): Promise<void> {
  const input = { dataPool, columnName, columnType, jsonProperty: columnName }
  const { data, errors } = await graphql<Created>(CREATE, { input })
  expect(errors).toBeUndefined()
  const { id } = data.createAddColumnToDataPoolJob.job
  let job: Polled['addColumnToDataPoolJob'] = { status: '', error: null }
  await until(`the job of ${columnName} ends`, async () => {
    job = (await graphql<Polled>(STATUS, { id })).data.addColumnToDataPoolJob
    return job.status === 'SUCCEEDED' || job.status === 'FAILED'
  })
  expect(job).toEqual({ status: 'SUCCEEDED', error: null })
}
