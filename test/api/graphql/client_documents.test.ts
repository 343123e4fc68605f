import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GO_CLIENT, TERRAFORM, UI_KIT } from './documents.ts'
import { makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

const COLUMNS = [
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
  { name: 'customer_id', jsonProperty: 'customer.id', type: 'STRING', nullable: false },
  { name: 'timestamp_tz', jsonProperty: 'timestamp_tz', type: 'TIMESTAMP', nullable: false },
  { name: 'constructor', jsonProperty: '__proto__', type: 'DOUBLE', nullable: true },
]

const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/

describe('Terraform', () => {
  let id = ''
  let poolId = ''

  test('creates a source with the nulls it sends, and reads back what it gave', async () => {
    const connectionSettings = {
      basicAuth: { username: 'foo', password: 'bar' },
      columns: COLUMNS,
      tenant: 'customer_id',
      timestamp: 'timestamp_tz',
      uniqueId: 'id',
      accessControlEnabled: null,
    }
    const input = { uniqueName: 'tf', description: null, connectionSettings }
    const made = await server.ask(TERRAFORM.create, { input }, { operationName: 'CreateWebhookDataSource' })
    expect(made.errors).toBeUndefined()
    const source = made.data.createWebhookDataSource.dataSource
    id = source.id
    poolId = source.dataPools.nodes[0].id
    expect(source).toMatchObject({
      uniqueName: 'tf',
      description: '',
      type: 'WEBHOOK',
      status: 'CONNECTED',
      error: null,
      createdAt: expect.stringMatching(ISO),
      modifiedAt: expect.stringMatching(ISO),
      createdBy: 'app',
      modifiedBy: 'app',
      account: { id: expect.stringMatching(/^ACC/) },
      environment: { id: expect.stringMatching(/^ENV/) },
      dataPools: { nodes: [{ accessControlEnabled: false, timestamp: { columnName: 'timestamp_tz' } }] },
      tables: { nodes: [] },
      tableIntrospections: { nodes: [] },
      checks: [{ name: 'Webhook', status: 'SUCCEEDED', error: null }],
    })
    expect(source.connectionSettings).toEqual({
      __typename: 'WebhookConnectionSettings',
      basicAuth: { username: 'foo', password: 'bar' },
      columns: COLUMNS,
      tenant: 'customer_id',
      timestamp: 'timestamp_tz',
      uniqueId: 'id',
      tableSettings: null,
      webhookUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:8420\/v1\/WHK[0-9A-Z]{26}$/),
    })
    const read = await server.ask(TERRAFORM.source, { id })
    expect(read.data.dataSource).toEqual(source)
  })

  test('reads the pool', async () => {
    const { data, errors } = await server.ask(TERRAFORM.pool, { id: poolId })
    expect(errors).toBeUndefined()
    expect(data.dataPool).toMatchObject({
      uniqueName: 'tf',
      status: 'LIVE',
      dataSource: { id },
      table: 'tf',
      timestamp: { columnName: 'timestamp_tz', type: 'TIMESTAMP' },
      tenant: { columnName: 'customer_id', type: 'STRING' },
      uniqueId: { columnName: 'id' },
      setupTasks: [{ name: 'Webhook', status: 'SUCCEEDED', error: null }],
      syncing: { status: 'DISABLED', interval: null, lastSyncedAt: null },
      syncs: { nodes: [] },
      accessControlEnabled: false,
      dataPoolAccessPolicies: { nodes: [] },
      tableSettings: { engine: null, partitionBy: null, primaryKey: null, orderBy: null, ttl: null },
    })
    expect(data.dataPool.columns.nodes).toEqual([
      {
        columnName: '_service_received_at',
        type: 'TIMESTAMP',
        clickHouseType: 'DateTime64(6)',
        isNullable: false,
      },
      { columnName: '_service_payload', type: 'JSON', clickHouseType: 'String', isNullable: false },
      { columnName: 'id', type: 'STRING', clickHouseType: 'String', isNullable: false },
      { columnName: 'customer_id', type: 'STRING', clickHouseType: 'String', isNullable: false },
      { columnName: 'timestamp_tz', type: 'TIMESTAMP', clickHouseType: 'DateTime64(6)', isNullable: false },
      { columnName: 'constructor', type: 'DOUBLE', clickHouseType: 'Nullable(Float64)', isNullable: true },
    ])
    expect(data.dataPool.availableMeasures.nodes).toEqual([
      { columnName: 'constructor', type: 'DOUBLE', isNullable: true },
    ])
  })

  test('lists, and deletes in its order, each twice', async () => {
    const list = await server.ask(TERRAFORM.sources, { first: null, last: null, after: null, before: null })
    // Its own one, that of the pool `events`, and the internal one of the pool of rejected events.
    expect(list.data.dataSources.edges).toHaveLength(3)
    expect((await server.ask(TERRAFORM.deletePool, { id: poolId })).data).toEqual({ deleteDataPool: poolId })
    expect((await server.ask(TERRAFORM.pool, { id: poolId })).errors?.[0]?.message).toContain('not found')
    expect((await server.ask(TERRAFORM.source, { id })).errors?.[0]?.message).toContain('not found')
    expect((await server.ask(TERRAFORM.deletePool, { id: poolId })).data).toEqual({ deleteDataPool: null })
    expect(await server.ask(TERRAFORM.deleteSource, { id })).toEqual({
      status: 200,
      data: { deleteDataSource: null },
    })
  })
})

describe('the Go client', () => {
  test('creates with empty table settings and an empty user, reads by name, deletes by name', async () => {
    const connectionSettings = {
      basicAuth: { username: '', password: 'p' },
      columns: COLUMNS,
      timestamp: '',
      uniqueId: 'id',
      tableSettings: { primaryKey: [], partitionBy: [], orderBy: [] },
    }
    const made = await server.ask(GO_CLIENT.create, { input: { uniqueName: 'go', connectionSettings } })
    expect(made.data.createWebhookDataSource.dataSource).toMatchObject({
      status: 'CONNECTED',
      uniqueName: 'go',
    })
    const source = await server.ask(GO_CLIENT.source, { dataSourceUniqueName: 'go' })
    expect(source.data.dataSourceByName.connectionSettings).toMatchObject({
      basicAuth: { username: '', password: 'p' },
      columns: COLUMNS,
      timestamp: null,
      uniqueId: 'id',
    })
    const pool = await server.ask(GO_CLIENT.pool, { dataPoolUniqueName: 'go' })
    expect(
      (await server.ask(GO_CLIENT.sourceWithEngine, { dataSourceUniqueName: 'go' })).errors,
    ).toBeUndefined()
    expect(pool.data.dataPoolByName).toMatchObject({
      timestamp: { columnName: '_service_received_at' },
      uniqueId: { columnName: 'id' },
      orderByColumns: [
        { columnName: '_service_received_at', type: 'TIMESTAMP', isNullable: false },
        { columnName: 'id', type: 'STRING', isNullable: false },
      ],
    })
    expect((await server.ask(GO_CLIENT.deletePool, { n: 'go' })).data.deleteDataPoolByName).toMatch(/^DPO/)
    const gone = await server.ask(GO_CLIENT.pool, { dataPoolUniqueName: 'go' })
    expect(gone).toMatchObject({
      status: 200,
      data: { dataPoolByName: null },
      errors: [
        { message: 'Data Pool not found', path: ['dataPoolByName'], extensions: { code: 'NOT_FOUND' } },
      ],
    })
    expect((await server.ask(GO_CLIENT.deleteSource, { n: 'go' })).data).toEqual({
      deleteDataSourceByName: null,
    })
    expect((await server.ask(GO_CLIENT.source, { dataSourceUniqueName: 'go' })).errors).toMatchObject([
      { message: 'Data Source not found', extensions: { code: 'NOT_FOUND' } },
    ])
    expect((await server.ask(GO_CLIENT.deleteSource, { n: '_comments' })).errors).toBeUndefined()
  })
})

describe('the React kit', () => {
  test('reads columns by id and by name with the query scope alone', async () => {
    const want = {
      columns: {
        nodes: [
          { columnName: '_service_received_at', type: 'TIMESTAMP' },
          { columnName: '_service_payload', type: 'JSON' },
        ],
      },
    }
    const scope = ['data_pool:query'] as const
    const id = server.catalog.read.pools.byName('events')?.id
    expect((await server.ask(UI_KIT.columns, { dataPoolId: id }, { scope })).data).toEqual({ dataPool: want })
    const byName = await server.ask(UI_KIT.columnsByName, { dataPoolName: 'events' }, { scope })
    expect(byName.data).toEqual({ dataPoolByName: want })
  })
})

describe('introspection', () => {
  test('passes the limits', async () => {
    const { getIntrospectionQuery } = await import('graphql')
    const { data, errors } = await server.ask(getIntrospectionQuery({ inputValueDeprecation: true }))
    expect(errors).toBeUndefined()
    expect(data.__schema.mutationType.name).toBe('Mutation')
  })

  test('of the schema many times is refused, once', async () => {
    const schemas = Array.from(
      { length: 100 },
      (_, i) => `a${i}: __schema { types { name fields { name } } }`,
    )
    const { errors } = await server.ask(`{ ${schemas.join(' ')} }`)
    expect(errors).toHaveLength(1)
    expect(errors?.[0]?.message).toMatch(/more than 30000 values of the schema/)
  })
})
