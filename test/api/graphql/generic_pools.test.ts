/** Data pools of Http and internal sources, as Terraform makes and reads them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

const FIELDS = `id uniqueName description status table accessControlEnabled dataRetentionInDays recordCount sizeInTerabytes webhookUrl
  error { message } dataSource { id type connectionSettings { __typename ... on InternalConnectionSettings { _ } } }
  timestamp { columnName type } tenant { columnName type } uniqueId { columnName }
  columns { nodes { columnName type clickHouseType isNullable } } availableMeasures { nodes { columnName } }
  setupTasks { name status error { message } completedAt } syncing { status interval lastSyncedAt }
  tableSettings { engine { __typename ... on ReplacingMergeTreeTableEngine { type ver } ... on MergeTreeTableEngine { type } }
    partitionBy primaryKey orderBy ttl }
  orderByColumns { columnName } primaryKeyColumns { columnName } partitionByColumns { columnName }
  metrics { nodes { id } } deletionJobs { nodes { id } } addColumnToDataPoolJobs { nodes { id } } updateDataPoolRecordsJobs { nodes { id } }
  dataPoolAccessPolicies { nodes { id } } syncs { nodes { id } }`
const CREATE = `mutation ($input: CreateDataPoolInputV2!) { createDataPoolV2(input: $input) { __typename dataPool { ${FIELDS} } } }`
const POOL = `query ($id: ID!) { dataPool(id: $id) { ${FIELDS} } }`

// biome-ignore lint/suspicious/noExplicitAny: the pool has the shape that FIELDS asks for
async function create(input: object): Promise<any> {
  const { data, errors } = await server.ask(CREATE, { input })
  expect(errors).toBeUndefined()
  return data.createDataPoolV2.dataPool
}

const COLUMNS = [
  { columnName: 'timestamp_tz', type: 'TIMESTAMP', isNullable: false },
  { columnName: 'account_id', type: 'STRING', isNullable: false },
  { columnName: 'amount', type: 'CLICKHOUSE', clickHouseType: 'Nullable(Float64)', isNullable: true },
]

describe('a pool without a source', () => {
  test('belongs to the internal source, shows exactly the columns given, and has a webhook', async () => {
    const pool = await create({
      uniqueName: 'generic',
      dataSource: null,
      columns: COLUMNS,
      timestamp: { columnName: 'timestamp_tz' },
      tenant: { columnName: 'account_id' },
      uniqueId: null,
    })
    expect(pool).toMatchObject({
      uniqueName: 'generic',
      description: '',
      status: 'LIVE',
      table: 'generic',
      error: null,
      recordCount: '7',
      sizeInTerabytes: 0.5,
      webhookUrl: expect.stringMatching(/^http:\/\/127\.0\.0\.1:8420\/v1\/WHK[0-9A-Z]{26}$/),
      dataSource: {
        type: 'INTERNAL',
        connectionSettings: { __typename: 'InternalConnectionSettings', _: null },
      },
      timestamp: { columnName: 'timestamp_tz', type: 'TIMESTAMP' },
      tenant: { columnName: 'account_id', type: 'STRING' },
      uniqueId: null,
      setupTasks: [{ status: 'SUCCEEDED', error: null }],
      syncing: { status: 'DISABLED', interval: null, lastSyncedAt: null },
      availableMeasures: { nodes: [{ columnName: 'amount' }] },
      metrics: { nodes: [] },
      syncs: { nodes: [] },
    })
    expect(pool.columns.nodes).toEqual([
      { columnName: 'timestamp_tz', type: 'TIMESTAMP', clickHouseType: 'DateTime64(6)', isNullable: false },
      { columnName: 'account_id', type: 'STRING', clickHouseType: 'String', isNullable: false },
      { columnName: 'amount', type: 'CLICKHOUSE', clickHouseType: 'Nullable(Float64)', isNullable: true },
    ])
    expect((await server.ask(POOL, { id: pool.id })).data.dataPool).toEqual(pool)
    const second = await create({})
    expect(second.dataSource.id).toBe(pool.dataSource.id)
    expect(second).toMatchObject({
      uniqueName: second.id,
      timestamp: null,
      tenant: null,
      columns: { nodes: [] },
    })
  })

  test('echoes its table settings as given; without any, all of them are null', async () => {
    const none = await create({ columns: COLUMNS })
    expect(none.tableSettings).toEqual({
      engine: null,
      partitionBy: null,
      primaryKey: null,
      orderBy: null,
      ttl: null,
    })
    const given = { engine: null, partitionBy: [], primaryKey: [], orderBy: null, ttl: null }
    const empty = await create({
      columns: COLUMNS,
      timestamp: { columnName: 'timestamp_tz' },
      tableSettings: given,
    })
    expect(empty.tableSettings).toEqual(given)
    expect(empty).toMatchObject({ primaryKeyColumns: [], partitionByColumns: [] })
    expect(none.webhookUrl).not.toBe(empty.webhookUrl)
  })

  test('keeps the interval of its syncing, which stays DISABLED', async () => {
    const pool = await create({ syncing: { interval: 'EVERY_1_HOUR' } })
    expect(pool.syncing).toEqual({ status: 'DISABLED', interval: 'EVERY_1_HOUR', lastSyncedAt: null })
    const { errors } = await server.ask(`mutation { enableSyncing(id: "${pool.id}") { id } }`)
    expect(errors).toMatchObject([
      { message: expect.stringContaining('does not sync'), extensions: { code: 'BAD_REQUEST' } },
    ])
  })

  test('shows the received-at column as its timestamp where that was given', async () => {
    const timestamp = { columnName: '_service_received_at' }
    const pool = await create({ columns: COLUMNS, timestamp, uniqueId: { columnName: 'account_id' } })
    expect(pool).toMatchObject({
      timestamp: { ...timestamp, type: 'TIMESTAMP' },
      orderByColumns: [timestamp, { columnName: 'account_id' }],
    })
    const schema = server.catalog.schema(server.catalog.pool(pool.id)?.number ?? 0, 1)
    expect(schema).toMatchObject({ timestamp: -1, key: { columns: [-1, 1] } })
  })

  test('says that its webhook is open, and that the internal source takes no credentials', async () => {
    const pool = await create({})
    const { data } = await server.ask(
      'query ($id: ID!) { dataPool(id: $id) { setupTasks { description } } }',
      {
        id: pool.id,
      },
    )
    expect(data.dataPool.setupTasks[0].description).toMatch(/without credentials.*createHttpDataSource/)
    const modify =
      'mutation ($input: ModifyHttpDataSourceInput!) { modifyHttpDataSource(input: $input) { dataSource { id } } }'
    const input = {
      idOrUniqueName: { id: pool.dataSource.id },
      connectionSettings: { basicAuth: { username: 'u', password: 'p' } },
    }
    const { errors } = await server.ask(modify, { input })
    expect(errors?.[0]?.message).toMatch(/INTERNAL.*createHttpDataSource/)
  })

  test('shows the orderBy of MergeTree, which names no key', async () => {
    const tableSettings = { engine: { mergeTree: {} }, orderBy: ['account_id', 'timestamp_tz'] }
    const pool = await create({ columns: COLUMNS, tableSettings })
    expect(pool).toMatchObject({
      tableSettings: { orderBy: tableSettings.orderBy },
      orderByColumns: [{ columnName: 'account_id' }, { columnName: 'timestamp_tz' }],
      primaryKeyColumns: [],
    })
  })

  test('takes a ClickHouse type with the type CLICKHOUSE alone, or as it is shown', async () => {
    const ask = (column: object) =>
      server.ask(CREATE, { input: { columns: [{ columnName: 'c', ...column }] } })
    const text = { type: 'STRING', isNullable: true }
    for (const clickHouseType of [null, '', 'Nullable(String)'])
      expect((await ask({ ...text, clickHouseType })).errors).toBeUndefined()
    for (const clickHouseType of ['String', 'LowCardinality(Nullable(String))', 'Int64'])
      expect((await ask({ ...text, clickHouseType })).errors?.[0]?.message).toContain(
        `The column "c" has the type STRING and the clickHouseType ${clickHouseType}: give the type CLICKHOUSE`,
      )
  })

  test('is refused with a column that Weir does not store', async () => {
    const column = { columnName: 'a', type: 'CLICKHOUSE', clickHouseType: 'Array(String)', isNullable: true }
    for (const columns of [[column], [{ ...column, clickHouseType: null }], [COLUMNS[0], COLUMNS[0]]]) {
      const { errors } = await server.ask(CREATE, { input: { columns } })
      expect(errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
    }
  })
})

describe('a pool of an Http source', () => {
  test('takes the columns of its table, and goes with its source', async () => {
    const tables = [{ name: 'orders', columns: [{ name: 'id', type: 'STRING', nullable: false }] }]
    const { data } = await server.ask(
      'mutation ($input: CreateHttpDataSourceInput!) { createHttpDataSource(input: $input) { dataSource { id } } }',
      { input: { connectionSettings: { tables } } },
    )
    const { id } = data.createHttpDataSource.dataSource
    const pool = await create({ dataSource: id, table: 'orders' })
    expect(pool).toMatchObject({
      table: 'orders',
      dataSource: { id, type: 'Http' },
      columns: { nodes: [{ columnName: 'id', type: 'STRING', isNullable: false }] },
    })
    const unknown = await server.ask(CREATE, { input: { dataSource: id, table: 'other' } })
    expect(unknown.errors?.[0]?.message).toMatch(/no table "other"/)
    const missing = await server.ask(CREATE, { input: { dataSource: 'DSO1' } })
    expect(missing.errors).toMatchObject([
      { message: 'Data Source not found', extensions: { code: 'NOT_FOUND' } },
    ])
    expect((await server.ask(`mutation { deleteDataSource(id: "${id}") }`)).data).toEqual({
      deleteDataSource: id,
    })
    expect((await server.ask(POOL, { id: pool.id })).errors).toMatchObject([
      { message: 'Data Pool not found' },
    ])
  })

  test('is not made over a webhook', async () => {
    const events = server.catalog.read.pools.byName('events')
    const { errors } = await server.ask(CREATE, { input: { dataSource: events?.dataSourceId } })
    expect(errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  })
})

describe('the pool of a webhook', () => {
  test('always has a timestamp, and the URL of its source', async () => {
    const { id, dataSourceId = '' } = server.catalog.read.pools.byName('events') ?? {}
    const webhookId = server.catalog.read.sources.get(dataSourceId)?.webhook?.webhookId
    expect(webhookId).toMatch(/^WHK/)
    const { data } = await server.ask(POOL, { id })
    expect(data.dataPool).toMatchObject({
      webhookUrl: `http://127.0.0.1:8420/v1/${webhookId}`,
      timestamp: { columnName: '_service_received_at', type: 'TIMESTAMP' },
      columns: { nodes: [{ columnName: '_service_received_at' }, { columnName: '_service_payload' }] },
    })
  })
})

describe('table settings of a webhook', () => {
  const SOURCE = `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource {
    connectionSettings { ... on WebhookConnectionSettings { timestamp uniqueId tableSettings { ...Settings } } }
    dataPools { nodes { id timestamp { columnName } tableSettings { ...Settings }
      orderByColumns { columnName type } primaryKeyColumns { columnName } partitionByColumns { columnName } } } } } }
    fragment Settings on TableSettings { partitionBy primaryKey orderBy ttl
      engine { __typename ... on ReplacingMergeTreeTableEngine { type ver } ... on MergeTreeTableEngine { type } } }`
  const columns = [
    { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
    { name: 'v', jsonProperty: 'v', type: 'INT64', nullable: false },
  ]

  async function createSource(tableSettings: object | null) {
    const connectionSettings = { columns, timestamp: null, uniqueId: 'id', tableSettings }
    const { data, errors } = await server.ask(SOURCE, { input: { uniqueName: null, connectionSettings } })
    expect(errors).toBeUndefined()
    const { connectionSettings: shown, dataPools } = data.createWebhookDataSource.dataSource
    return { shown, pool: dataPools.nodes[0] }
  }

  test('are echoed with their engine, and name the key; the pool has a timestamp all the same', async () => {
    const lists = { partitionBy: [], primaryKey: [], orderBy: ['id'], ttl: null }
    const engine = { mergeTree: null, replacingMergeTree: { type: null, ver: 'v' }, summingMergeTree: null }
    const { shown, pool } = await createSource({ engine, ...lists })
    const echoed = {
      ...lists,
      engine: { __typename: 'ReplacingMergeTreeTableEngine', type: 'REPLACING_MERGE_TREE', ver: 'v' },
    }
    expect(shown).toEqual({ timestamp: null, uniqueId: 'id', tableSettings: echoed })
    expect(pool).toMatchObject({
      timestamp: { columnName: '_service_received_at' },
      tableSettings: echoed,
      orderByColumns: [{ columnName: 'id', type: 'STRING' }],
      primaryKeyColumns: [],
      partitionByColumns: [],
    })
  })

  test('have no engine where none was given', async () => {
    const lists = { partitionBy: null, primaryKey: null, orderBy: ['id'], ttl: null }
    const { shown, pool } = await createSource({ engine: null, ...lists })
    expect(shown.tableSettings).toEqual({ engine: null, ...lists })
    expect(pool.tableSettings).toEqual({ engine: null, ...lists })
    const none = await createSource(null)
    expect(none.shown.tableSettings).toBeNull()
    expect(none.pool.tableSettings).toEqual({ engine: null, ...lists, orderBy: null })
    expect(none.pool.orderByColumns.map((column: { columnName: string }) => column.columnName)).toEqual([
      '_service_received_at',
      'id',
    ])
  })

  test('are refused for engines that Weir does not have', async () => {
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ engine: { summingMergeTree: { columns: ['v'] } } }, /SUMMING_MERGE_TREE.*SUM Metric/],
      [{ engine: { aggregatingMergeTree: {} } }, /AGGREGATING_MERGE_TREE.*Metrics/],
      [{ engine: { postgreSql: {} } }, /POSTGRESQL.*leave "engine" out/],
      [{ ttl: 'at + INTERVAL 1 DAY' }, /ttl.*dataRetentionInDays.*modifyDataPool/],
    ]
    for (const [settings, message] of cases) {
      const connectionSettings = { columns, tableSettings: { orderBy: ['id'], ...settings } }
      const { errors } = await server.ask(SOURCE, { input: { connectionSettings } })
      expect(errors).toMatchObject([
        { message: expect.stringMatching(message), extensions: { code: 'BAD_REQUEST' } },
      ])
    }
  })
})

describe('operations on a live pool', () => {
  for (const [field, argument, selection] of [
    ['reconnectDataPool', 'input: {uniqueName: "events"}', 'status'],
    ['retryDataPoolSetupByName', 'uniqueName: "events"', 'status'],
    [
      'inspectDataPoolSchema',
      'input: {uniqueName: "events"}',
      '... on DataPoolResponse { dataPool { status } }',
    ],
    ['testDataPool', 'input: {uniqueName: "events"}', '... on DataPoolResponse { dataPool { status } }'],
  ] as const)
    test(`${field} answers the pool`, async () => {
      const { data, errors } = await server.ask(`mutation { ${field}(${argument}) { ${selection} } }`)
      expect(errors).toBeUndefined()
      expect(JSON.stringify(data)).toContain('"status":"LIVE"')
    })

  test('validateExpression says why an expression is not valid', async () => {
    const ask = () =>
      server.ask(
        '{ dataPoolByName(uniqueName: "events") { validateExpression(expression: "e") { valid reason } } }',
      )
    expect((await ask()).data.dataPoolByName.validateExpression).toEqual({ valid: true, reason: null })
    server.checks.checkMetricExpression = async () => ({ badRequest: 'there is no function "e"' })
    expect((await ask()).data.dataPoolByName.validateExpression).toEqual({
      valid: false,
      reason: 'there is no function "e"',
    })
    server.checks.checkMetricExpression = async () => undefined
  })

  test('the source, the URL and the policies of a pool need admin, its columns do not', async () => {
    const scope = ['data_pool:query'] as const
    const ask = (selection: string) =>
      server.ask(`{ dataPoolByName(uniqueName: "events") { ${selection} } }`, null, { scope })
    expect(
      (await ask('columns { nodes { columnName } } recordCount timestamp { columnName }')).errors,
    ).toBeUndefined()
    for (const field of [
      'dataSource { id }',
      'webhookUrl',
      'dataPoolAccessPolicies { nodes { id } }',
      'deletionJobs { nodes { id } }',
    ])
      expect((await ask(field)).errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
  })
})
