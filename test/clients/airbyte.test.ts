/**
 * The Airbyte destination on a real server, request by request as it sends them: a stream that is
 * deduplicated, its own end-to-end test of the rows, and a full reset.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GO_CLIENT } from '../api/graphql/documents.ts'
import { startServer, type TestServer } from '../util/server.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Json = any

let server: TestServer
let token = ''
beforeAll(async () => {
  server = await startServer()
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as Record<string, string>
  const pair = Buffer.from(`${admin['clientId']}:${admin['clientSecret']}`).toString('base64')
  const answer = await fetch(`${server.base}/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${pair}`, 'content-type': 'application/x-www-form-urlencoded' },
    body: 'grant_type=client_credentials',
  })
  token = ((await answer.json()) as Json).access_token
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function graphql(query: string, variables: object): Promise<Json> {
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  expect(answer.status).toBe(200)
  return await answer.json()
}

const column = (name: string, type: string, nullable = true) => ({ name, type, nullable, jsonProperty: name })
const AIRBYTE_COLUMNS = [
  column('_airbyte_raw_id', 'STRING', false),
  column('_airbyte_extracted_at', 'TIMESTAMP', false),
]
const NOT_FOUND = (kind: string) => [{ message: `${kind} not found`, extensions: { code: 'NOT_FOUND' } }]

/** Creates the source of a stream whose records replace each other by `id`. */
async function createDedup(uniqueName: string, more: object = {}): Promise<Json> {
  const connectionSettings = {
    basicAuth: { username: '', password: 'pA-ssword_18-chars' },
    columns: [
      column('id', 'INT64', false),
      column('name', 'STRING'),
      column('updated_at', 'INT64', false),
      ...AIRBYTE_COLUMNS,
    ],
    uniqueId: 'id',
    tableSettings: {
      engine: { replacingMergeTree: { type: 'REPLACING_MERGE_TREE', ver: 'updated_at' } },
      primaryKey: [],
      partitionBy: [],
      orderBy: ['id'],
    },
    ...more,
  }
  const input = { uniqueName, description: 'Fivetran Propel destination', connectionSettings }
  const made = await graphql(GO_CLIENT.create, { input })
  expect(made.errors).toBeUndefined()
  return made.data.createWebhookDataSource.dataSource
}

async function post({ connectionSettings: settings }: Json, records: readonly object[]): Promise<number> {
  const { username, password } = settings.basicAuth
  const events = records.map((record, index) => ({
    ...record,
    _airbyte_raw_id: `raw ${index}`,
    _airbyte_extracted_at: 1_700_000_000_000,
  }))
  const answer = await fetch(settings.webhookUrl, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(events),
  })
  return answer.status
}

const GRID =
  'query ($input:DataGridInput!){dataGrid(input: $input){headers,rows,pageInfo{startCursor,endCursor,hasNextPage,hasPreviousPage}}}'
/** The zero time of Go, which its client sends for a range that is not set. */
const ZERO = '0001-01-01T00:00:00Z'

async function rows(name: string, more: object = {}): Promise<Json> {
  const input = {
    dataPool: { name },
    columns: ['id', 'name'],
    timeRange: { start: ZERO, stop: ZERO },
    ...more,
  }
  const { data, errors } = await graphql(GRID, { input })
  expect(errors).toBeUndefined()
  return data.dataGrid
}

test('records that replace each other are listed in ascending order of the key, page by page', async () => {
  const source = await createDedup('_airbyte_dedup')
  // A STATE message stands between them: two requests, the higher id in the earlier one.
  expect(await post(source, [{ id: 1, name: 'first', updated_at: 1 }])).toBe(200)
  expect(await post(source, [{ id: 1, name: 'aeromexico', updated_at: 2 }])).toBe(200)
  expect(await post(source, [{ id: 0, name: 'delta', updated_at: 3 }])).toBe(200)
  const all = await rows('_airbyte_dedup')
  expect(all.rows).toEqual([
    ['0', 'delta'],
    ['1', 'aeromexico'],
  ])
  const first = await rows('_airbyte_dedup', { first: 1 })
  expect([first.rows, first.pageInfo.hasNextPage]).toEqual([[['0', 'delta']], true])
  const next = await rows('_airbyte_dedup', { first: 1, after: first.pageInfo.endCursor })
  expect([next.rows, next.pageInfo.hasNextPage]).toEqual([[['1', 'aeromexico']], false])
  const back = await rows('_airbyte_dedup', { last: 1, before: next.pageInfo.startCursor })
  expect(back.rows).toEqual([['0', 'delta']])
  // The React kit always sends it.
  expect((await rows('_airbyte_dedup', { sort: 'DESC' })).rows).toEqual([
    ['1', 'aeromexico'],
    ['0', 'delta'],
  ])
})

test('a full reset deletes the pools alone, and its sources are gone', async () => {
  const names = ['_reset', 'ns_reset']
  const timed = { timestamp: '_airbyte_extracted_at', uniqueId: '_airbyte_raw_id', tableSettings: null }
  const sources = [await createDedup('_reset'), await createDedup('ns_reset', timed)]
  for (const source of sources) expect(await post(source, [{ id: 1, updated_at: 1 }])).toBe(200)
  const metric = await graphql(
    'mutation ($input: CreateCountMetricInput!) { createCountMetric(input: $input) { metric { id dataPool { id webhookUrl } } } }',
    { input: { dataPool: '_reset', uniqueName: 'resets' } },
  )
  const { id: metricId, dataPool } = metric.data.createCountMetric.metric
  expect(dataPool.webhookUrl).toBe(sources[0].connectionSettings.webhookUrl)

  for (const n of names)
    expect((await graphql(GO_CLIENT.deletePool, { n })).data.deleteDataPoolByName).toMatch(/^DPO/)
  // The destination asks for another source, whatever its own ones are called.
  expect(await graphql(GO_CLIENT.deleteSource, { n: '_comments' })).toEqual({
    data: { deleteDataSourceByName: null },
  })
  for (const [index, name] of names.entries()) {
    const pool = await graphql(GO_CLIENT.pool, { dataPoolUniqueName: name })
    expect(pool.errors).toMatchObject(NOT_FOUND('Data Pool'))
    const source = await graphql(GO_CLIENT.source, { dataSourceUniqueName: name })
    expect(source.errors).toMatchObject(NOT_FOUND('Data Source'))
    expect(await post(sources[index], [{ id: 1, updated_at: 1 }])).toBe(404)
  }
  const gone = await graphql('query ($id: ID!) { metric(id: $id) { id } }', { id: metricId })
  expect(gone.errors).toMatchObject(NOT_FOUND('Metric'))

  // The next sync makes the streams again.
  const again = await createDedup('_reset')
  expect(again.connectionSettings.webhookUrl).not.toBe(sources[0].connectionSettings.webhookUrl)
  expect(await post(again, [{ id: 2, updated_at: 1 }])).toBe(200)
  expect((await rows('_reset')).rows).toEqual([['2', null]])
})

test('the source of another kind stays without its pools', async () => {
  const made = await graphql(
    `mutation { createHttpDataSource(input: { uniqueName: "http", connectionSettings: { tables: [] } }) {
      dataSource { id } } }`,
    {},
  )
  const { id } = made.data.createHttpDataSource.dataSource
  const input = { dataSource: id, uniqueName: 'over http', columns: [] }
  await graphql(
    'mutation ($input: CreateDataPoolInputV2!) { createDataPoolV2(input: $input) { dataPool { id } } }',
    { input },
  )
  await graphql(GO_CLIENT.deletePool, { n: 'over http' })
  const { data } = await graphql(
    'query ($id: ID!) { dataSource(id: $id) { status dataPools { nodes { id } } } }',
    {
      id,
    },
  )
  expect(data.dataSource).toEqual({ status: 'CONNECTED', dataPools: { nodes: [] } })
})
