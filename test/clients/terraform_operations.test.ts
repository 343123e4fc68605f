/**
 * The operations of the Terraform provider on a real server, with the variables that it sends: each
 * resource is created, read, changed, read again and deleted twice.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { startServer, type TestServer } from '../util/server.ts'
import { operationsOf } from './client-documents.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Json = any

const OPERATIONS = new Map(operationsOf('terraform.graphql').map(({ name, text }) => [name, text]))

let server: TestServer
let token = ''
let clientId = ''
beforeAll(async () => {
  server = await startServer()
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as Record<string, string>
  clientId = must(admin['clientId'], 'the client id')
  const form = {
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: admin['clientSecret'] ?? '',
  }
  const answer = await fetch(`${server.base}/oauth2/token`, {
    method: 'POST',
    body: new URLSearchParams(form),
  })
  expect(answer.status).toBe(200)
  token = ((await answer.json()) as Json).access_token
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/** One operation as the provider sends it; its data. */
async function ask(operationName: string, variables: object): Promise<Json> {
  const { status, json } = await send(operationName, variables)
  expect([operationName, status, json.errors]).toEqual([operationName, 200, undefined])
  return json.data
}

async function send(operationName: string, variables: object): Promise<{ status: number; json: Json }> {
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      query: must(OPERATIONS.get(operationName), operationName),
      variables,
      operationName,
    }),
  })
  return { status: answer.status, json: await answer.json() }
}

/** Deletes an object as the provider and its acceptance tests do. */
async function removed(kind: string, id: string, missing: string): Promise<void> {
  const field = `delete${kind}`
  expect(await ask(`Delete${kind}`, { id })).toEqual({ [field]: id })
  const { json } = await send(kind, { id })
  expect(json.errors).toMatchObject([{ message: `${missing} not found`, extensions: { code: 'NOT_FOUND' } }])
  expect(await ask(`Delete${kind}`, { id })).toEqual({ [field]: null })
}

const byId = (id: string) => ({ id, uniqueName: null })

test('a webhook data source', async () => {
  const columns = [
    { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
    { name: 'customer_id', jsonProperty: 'customer_id', type: 'STRING', nullable: false },
    { name: 'timestamp_tz', jsonProperty: 'timestamp_tz', type: 'TIMESTAMP', nullable: false },
  ]
  const connectionSettings = {
    basicAuth: { username: 'foo', password: 'bar' },
    columns,
    tenant: 'customer_id',
    timestamp: 'timestamp_tz',
    uniqueId: 'id',
    accessControlEnabled: false,
  }
  const made = await ask('CreateWebhookDataSource', {
    input: { uniqueName: 'tf hook', description: null, connectionSettings },
  })
  const { id } = made.createWebhookDataSource.dataSource
  const { dataSource } = await ask('DataSource', { id })
  expect(dataSource).toEqual(made.createWebhookDataSource.dataSource)
  expect(dataSource).toMatchObject({
    type: 'WEBHOOK',
    status: 'CONNECTED',
    connectionSettings: {
      basicAuth: { username: 'foo', password: 'bar' },
      columns,
      timestamp: 'timestamp_tz',
    },
  })
  const pool = dataSource.dataPools.nodes[0]
  expect(pool).toMatchObject({ accessControlEnabled: false, timestamp: { columnName: 'timestamp_tz' } })

  await ask('ModifyDataPool', { input: { idOrUniqueName: byId(pool.id), accessControlEnabled: true } })
  await ask('ModifyDataPool', { input: { idOrUniqueName: byId(pool.id), timestamp: { columnName: '' } } })
  await ask('ModifyWebhookDataSource', {
    input: {
      idOrUniqueName: byId(id),
      uniqueName: 'tf hook 2',
      description: 'changed',
      connectionSettings: { basicAuth: null, basicAuthEnabled: false },
    },
  })
  const changed = (await ask('DataSourceByName', { uniqueName: 'tf hook 2' })).dataSource
  expect(changed).toMatchObject({
    id,
    description: 'changed',
    connectionSettings: { basicAuth: null },
    dataPools: { nodes: [{ accessControlEnabled: true }] },
  })
  const added = { dataPool: pool.id, columnName: 'new', columnType: 'STRING', jsonProperty: 'new_column' }
  const { job } = (await ask('CreateAddColumnToDataPoolJob', { input: added })).createAddColumnToDataPoolJob
  expect(job).toMatchObject({
    dataPool: { id: pool.id },
    columnName: 'new',
    columnType: 'STRING',
    error: null,
  })
  const statusOf = async () =>
    (await ask('AddColumnToDataPoolJob', { id: job.id })).addColumnToDataPoolJob.status
  await expect.poll(statusOf, { timeout: 20_000 }).toBe('SUCCEEDED')
  const wider = (await ask('DataSource', { id })).dataSource.connectionSettings.columns
  expect(wider).toEqual([
    ...columns,
    { name: 'new', jsonProperty: 'new_column', type: 'STRING', nullable: true },
  ])
  // The source goes with its pool. The provider deletes it all the same, and waits for its end.
  await removed('DataPool', pool.id, 'Data Pool')
  expect(await ask('DeleteDataSource', { id })).toEqual({ deleteDataSource: null })
  const { json } = await send('DataSource', { id })
  expect(json.errors).toMatchObject([{ message: 'Data Source not found', extensions: { code: 'NOT_FOUND' } }])
})

test('a data pool without a data source, which takes events at its webhook', async () => {
  const columns = [
    { columnName: 'timestamp_tz', type: 'TIMESTAMP', clickHouseType: null, isNullable: false },
    { columnName: 'account_id', type: 'STRING', clickHouseType: null, isNullable: false },
  ]
  const input = {
    uniqueName: 'tf pool',
    description: 'before',
    dataSource: null,
    table: null,
    timestamp: { columnName: 'timestamp_tz' },
    tenant: { columnName: 'account_id' },
    columns,
    accessControlEnabled: false,
  }
  const { dataPool } = (await ask('CreateDataPool', { input })).createDataPoolV2
  expect((await ask('DataPool', { id: dataPool.id })).dataPool).toEqual(dataPool)
  expect(dataPool).toMatchObject({
    status: 'LIVE',
    dataSource: { type: 'INTERNAL' },
    table: expect.any(String),
  })
  expect(
    dataPool.columns.nodes.map((column: Json) => [column.columnName, column.type, column.isNullable]),
  ).toEqual([
    ['timestamp_tz', 'TIMESTAMP', false],
    ['account_id', 'STRING', false],
  ])
  const url = (
    await server.graphql<Json>('query ($id: ID!) { dataPool(id: $id) { webhookUrl } }', { id: dataPool.id })
  ).data.dataPool.webhookUrl
  const events = [
    { timestamp_tz: '2024-01-01T00:00:00Z', account_id: 'a' },
    { timestamp_tz: '2024-01-02T00:00:00Z', account_id: 'b' },
  ]
  const headers = { 'content-type': 'application/json' }
  const posted = await fetch(url, { method: 'POST', headers, body: JSON.stringify(events) })
  expect([posted.status, await posted.json()]).toMatchObject([
    200,
    [{ statusCode: 200 }, { statusCode: 200 }],
  ])
  expect(await server.count(dataPool.id)).toBe('2')
  const sized = await server.graphql<Json>(
    'query ($id: ID!) { dataPool(id: $id) { recordCount sizeInTerabytes } }',
    { id: dataPool.id },
  )
  expect(sized.data.dataPool.recordCount).toBe('2')
  expect(sized.data.dataPool.sizeInTerabytes).toBeGreaterThan(0)
  await ask('ModifyDataPool', {
    input: { idOrUniqueName: byId(dataPool.id), uniqueName: 'tf pool', description: 'after' },
  })
  expect((await ask('DataPoolByName', { uniqueName: 'tf pool' })).dataPool.description).toBe('after')
  await removed('DataPool', dataPool.id, 'Data Pool')
})

test('a metric, an access policy and an application', async () => {
  const columns = [{ name: 'account_id', jsonProperty: 'account_id', type: 'STRING', nullable: true }]
  const source = await ask('CreateWebhookDataSource', {
    input: { uniqueName: 'tf measured', connectionSettings: { columns, accessControlEnabled: true } },
  })
  const { dataSource } = source.createWebhookDataSource
  const dataPool = dataSource.dataPools.nodes[0].id

  const filters = [{ column: 'account_id', operator: 'IS_NOT_NULL', value: '' }]
  const { metric } = (
    await ask('CreateCountMetric', {
      input: {
        dataPool,
        uniqueName: '',
        description: '',
        filters,
        dimensions: [{ columnName: 'account_id' }],
      },
    })
  ).createCountMetric
  expect((await ask('Metric', { id: metric.id })).metric).toEqual(metric)
  await ask('ModifyMetric', {
    input: { metric: metric.id, uniqueName: 'tf metric', description: null, filters: null },
  })
  expect((await ask('MetricByName', { uniqueName: 'tf metric' })).metric).toMatchObject({
    ...metric,
    uniqueName: 'tf metric',
    modifiedAt: expect.any(String),
  })

  const rows = [{ column: 'account_id', operator: 'EQUALS', value: 'a' }]
  const { dataPoolAccessPolicy: policy } = (
    await ask('CreateDataPoolAccessPolicy', {
      input: { uniqueName: 'tf policy', description: '', dataPool, columns: ['*'], rows },
    })
  ).createDataPoolAccessPolicy
  const assignment = { dataPoolAccessPolicy: policy.id, application: clientId }
  await ask('AssignDataPoolAccessPolicy', assignment)
  const read = (await ask('DataPoolAccessPolicy', { id: policy.id })).dataPoolAccessPolicy
  expect(read).toMatchObject({
    id: policy.id,
    columns: ['*'],
    rows,
    applications: { nodes: [{ id: clientId }] },
  })
  await ask('UnAssignDataPoolAccessPolicy', assignment)
  await removed('DataPoolAccessPolicy', policy.id, 'Data Pool Access Policy')

  const scopes = ['METRIC_QUERY']
  const created = await ask('CreateApplication', {
    input: { uniqueName: 'tf app', description: 'd', propeller: 'P1_SMALL', scopes },
  })
  const { application } = created.createApplication
  expect(application).toMatchObject({
    clientId: application.id,
    secret: expect.any(String),
    scopes,
    propeller: 'P1_SMALL',
  })
  expect((await ask('Application', { id: application.id })).application).toEqual(application)
  await ask('ModifyApplication', {
    input: { idOrUniqueName: byId(application.id), description: 'e', scopes: [] },
  })
  expect((await ask('Application', { id: application.id })).application.description).toBe('e')
  await removed('Application', application.id, 'Application')

  await removed('Metric', metric.id, 'Metric')
  await ask('DeleteDataSource', { id: dataSource.id })
})

test('a custom metric over posted events, asked as dashboards ask', async () => {
  const columns = [{ name: 'account_id', jsonProperty: 'account_id', type: 'STRING', nullable: true }]
  const made = await ask('CreateWebhookDataSource', {
    input: { uniqueName: 'tf custom', connectionSettings: { columns } },
  })
  const { dataSource } = made.createWebhookDataSource
  const events = ['a', 'a', 'b', 'c'].map(account_id => ({ account_id }))
  const headers = { 'content-type': 'application/json' }
  const posted = await fetch(dataSource.connectionSettings.webhookUrl, {
    method: 'POST',
    headers,
    body: JSON.stringify(events),
  })
  expect(posted.status).toBe(200)

  const dataPool = dataSource.dataPools.nodes[0].id
  const expression = 'COUNT_DISTINCT(account_id) / COUNT()'
  const create = (text: string) => ({
    input: {
      dataPool,
      uniqueName: 'tf ratio',
      description: '',
      expression: text,
      dimensions: [{ columnName: 'account_id' }],
    },
  })
  const { metric } = (await ask('CreateCustomMetric', create(expression))).createCustomMetric
  expect(metric).toMatchObject({
    type: 'CUSTOM',
    settings: { __typename: 'CustomMetricSettings', expression },
  })
  for (const text of ['account_id', 'COUNT(*); DROP TABLE x', 'read_text(account_id)', '']) {
    const { json } = await send('CreateCustomMetric', create(text))
    expect(json.errors, text).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  }

  const dashboard = `query ($id: ID!, $name: String!) {
    byName: counter(input: { metricName: $name }) { value query { type subtype propeller } }
    byId: counter(input: { metric: { id: $id } }) { value }
    inline: counters(input: [{ metric: { custom: { dataPool: { id: "${dataPool}" }, expression: "${expression}" } } }]) { value }
    nested: metric(id: $id) {
      counter(input: { filterSql: "account_id = 'a'" }) { value }
      dimensions { stats { uniqueValues min } }
    }
  }`
  const { data, errors } = await server.graphql<Json>(dashboard, { id: metric.id, name: 'tf ratio' })
  expect(errors).toBeUndefined()
  expect(data).toEqual({
    byName: { value: '0.75', query: { type: 'METRIC', subtype: 'COUNTER', propeller: 'P1_X_LARGE' } },
    byId: { value: '0.75' },
    inline: [{ value: '0.75' }],
    nested: {
      counter: { value: '0.5' },
      dimensions: [{ stats: { uniqueValues: ['a', 'b', 'c'], min: 'a' } }],
    },
  })
  await ask('DeleteDataSource', { id: dataSource.id })
})

test('data sources that Weir does not connect to', async () => {
  const input = {
    uniqueName: 'tf kafka',
    connectionSettings: {
      auth: 'PLAIN',
      user: 'u',
      password: 'p',
      bootstrapServers: ['localhost:1'],
      tls: false,
    },
  }
  const { id } = (await ask('CreateKafkaDataSource', { input })).createKafkaDataSource.dataSource
  expect((await ask('DataSource', { id })).dataSource).toMatchObject({
    status: 'BROKEN',
    error: { message: expect.stringContaining('Weir does not connect to Kafka') },
    checks: [{ status: 'FAILED', error: { message: expect.stringContaining('Kafka') } }],
  })
  await removed('DataSource', id, 'Data Source')
})

test('every list is read, and the server’s output has the audit trail', async () => {
  const none = { first: null, last: null, after: null, before: null }
  for (const list of ['DataSources', 'DataPools', 'Metrics']) await ask(list, none)
  const lines = server
    .output()
    .split('\n')
    .flatMap(line => (line.startsWith('{"time":') ? [JSON.parse(line)] : []))
  expect(lines.length).toBeGreaterThan(20)
  for (const { time, audit } of lines) {
    expect(Date.parse(time)).toBeGreaterThan(0)
    const target = /^(un)?assign/i.test(audit.mutation) ? /^APP/ : /^(DPO|DSO)/
    const isPair = /^deleteData(Pool|Source)$/.test(audit.mutation) && audit.target !== undefined
    expect(audit).toEqual({
      mutation: expect.any(String),
      applicationId: clientId,
      object: expect.any(String),
      ...(target.source === '^APP' || isPair ? { target: expect.stringMatching(target) } : {}),
      outcome: expect.stringMatching(/^(done|absent|BAD_REQUEST)$/),
    })
  }
})
