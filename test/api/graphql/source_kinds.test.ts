/**
 * Data sources of every kind: webhooks and Http sources are CONNECTED, the kinds that Weir does not
 * connect to are created and BROKEN, with an error and a failed check that say so.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

const FIELDS = `id uniqueName description type status error { code message } checks { name status error { message } checkedAt }
  dataPools { nodes { id } } modifiedAt modifiedBy connectionSettings { __typename
    ... on SnowflakeConnectionSettings { account database warehouse schema username role }
    ... on HttpConnectionSettings { basicAuth { username password } tables { id name columns { name type clickHouseType nullable } } }
    ... on S3ConnectionSettings { bucket awsAccessKeyId tables { id name path columns { name type nullable } } }
    ... on KafkaConnectionSettings { auth user kafkaPassword: password tls bootstrapServers }
    ... on ClickHouseConnectionSettings { url clickHouseDatabase: database user clickHousePassword: password readonly }
    ... on PostgreSqlConnectionSettings { host port postgresDatabase: database postgresSchema: schema user }
    ... on WebhookConnectionSettings { webhookUrl timestamp webhookAuth: basicAuth { username password } } }`

const columns = [{ name: 'id', type: 'STRING', nullable: false }]

/**
 * Each kind that Weir does not connect to: its name in mutations, its settings, and how they are
 * shown.
 */
const FOREIGN = [
  {
    name: 'Snowflake',
    type: 'Snowflake',
    input: 'createSnowflakeDataSourceInput',
    given: {
      account: 'a',
      database: 'd',
      warehouse: 'w',
      schema: 's',
      username: 'u',
      password: 'pass-1',
      role: 'r',
    },
    shown: { account: 'a', database: 'd', warehouse: 'w', schema: 's', username: 'u', role: 'r' },
    changed: { role: 'other' },
  },
  {
    name: 'S3',
    type: 'S3',
    input: 'CreateS3DataSourceInput',
    given: {
      awsAccessKeyId: 'k',
      awsSecretAccessKey: 'pass-1',
      bucket: 'b',
      tables: [{ name: 't', path: 'p', columns }],
    },
    shown: {
      awsAccessKeyId: 'k',
      bucket: 'b',
      tables: [{ id: expect.stringMatching(/^TBL/), name: 't', path: 'p', columns }],
    },
    changed: { bucket: 'other' },
  },
  {
    name: 'Kafka',
    type: 'KAFKA',
    input: 'CreateKafkaDataSourceInput',
    given: { auth: 'PLAIN', user: 'u', password: 'p', tls: true, bootstrapServers: ['a:1', 'b:2'] },
    shown: { auth: 'PLAIN', user: 'u', kafkaPassword: 'p', tls: true, bootstrapServers: ['a:1', 'b:2'] },
    changed: { bootstrapServers: ['c:3'] },
  },
  {
    name: 'ClickHouse',
    type: 'CLICKHOUSE',
    input: 'CreateClickHouseDataSourceInput',
    given: { url: 'http://h', database: 'd', user: 'u', password: 'p' },
    shown: { url: 'http://h', clickHouseDatabase: 'd', user: 'u', clickHousePassword: 'p', readonly: null },
    changed: { database: 'other' },
  },
  {
    name: 'PostgreSql',
    type: 'POSTGRESQL',
    input: 'CreatePostgreSqlDataSourceInput',
    given: { host: 'h', user: 'u', password: 'pass-1', port: 5432 },
    shown: { host: 'h', user: 'u', port: 5432, postgresDatabase: null, postgresSchema: null },
    changed: { host: 'other' },
  },
]

const SOURCE = `query ($id: ID!) { dataSource(id: $id) { ${FIELDS} } }`

describe('a source of a kind that Weir does not connect to', () => {
  for (const { name, type, input, given, shown, changed } of FOREIGN) {
    const isUnion = name === 'Snowflake'
    const selection = isUnion
      ? `__typename ... on DataSourceResponse { dataSource { ${FIELDS} } }`
      : `dataSource { ${FIELDS} }`
    const create = `mutation ($input: ${input}!) { create${name}DataSource(input: $input) { ${selection} } }`
    const modify = `mutation ($input: ${input.replace(/^create/, 'modify').replace(/^Create/, 'Modify')}!) {
      modify${name}DataSource(input: $input) { ${selection} } }`

    test(`${name} is created as CONNECTING and read as BROKEN`, async () => {
      const uniqueName = `the ${name}`
      const { data, errors } = await server.ask(create, { input: { uniqueName, connectionSettings: given } })
      expect(errors).toBeUndefined()
      const response = data[`create${name}DataSource`]
      if (isUnion) expect(response.__typename).toBe('DataSourceResponse')
      expect(response.dataSource).toMatchObject({ type, uniqueName, status: 'CONNECTING', error: null })
      const { id } = response.dataSource
      const read = await server.ask(SOURCE, { id })
      const message = `Weir does not connect to ${name.replace('PostgreSql', 'PostgreSQL')}: send the records to a webhook instead, with createWebhookDataSource.`
      expect(read.data.dataSource).toMatchObject({
        status: 'BROKEN',
        error: { code: null, message },
        checks: [{ name: 'Connection', status: 'FAILED', error: { message } }],
        dataPools: { nodes: [] },
        connectionSettings: { __typename: `${name}ConnectionSettings`, ...shown },
      })
      expect(JSON.stringify(read.data)).not.toContain('pass-1')
      expect(JSON.stringify(server.catalog.read.documents())).not.toContain('pass-1')
      const tested = await server.ask(
        `mutation { testDataSource(input: {id: "${id}"}) { __typename ... on FailureResponse { error { message } } } }`,
      )
      expect(tested.data.testDataSource).toEqual({ __typename: 'FailureResponse', error: { message } })
    })

    test(`${name} is changed and BROKEN again`, async () => {
      const idOrUniqueName = { id: null, uniqueName: `the ${name}` }
      const connectionSettings = name === 'Kafka' ? changed : { ...changed, password: undefined }
      const { data, errors } = await server.ask(modify, {
        input: { idOrUniqueName, description: 'new', connectionSettings },
      })
      expect(errors).toBeUndefined()
      const { id } = data[`modify${name}DataSource`].dataSource
      const read = await server.ask(SOURCE, { id })
      expect(read.data.dataSource).toMatchObject({ status: 'BROKEN', description: 'new' })
      const settings = JSON.stringify(read.data.dataSource.connectionSettings)
      expect(settings).toContain(JSON.stringify(Object.values(changed)[0]))
    })

    test(`${name} is deleted, twice`, async () => {
      const remove = `mutation { deleteDataSourceByName(uniqueName: "the ${name}") }`
      expect((await server.ask(remove)).data.deleteDataSourceByName).toMatch(/^DSO/)
      expect(await server.ask(remove)).toEqual({ status: 200, data: { deleteDataSourceByName: null } })
    })
  }
})

describe('an Http source', () => {
  const CREATE = `mutation ($input: CreateHttpDataSourceInput!) { createHttpDataSource(input: $input) { dataSource { ${FIELDS} } } }`
  const MODIFY = `mutation ($input: ModifyHttpDataSourceInput!) { modifyHttpDataSource(input: $input) { dataSource { ${FIELDS} } } }`
  const TABLES = `query ($id: ID!) { dataSource(id: $id) { tables(first: 100) { cachedAt nodes { id name kind isExternal dataSource { id }
    columns(first: 1) { pageInfo { hasNextPage } nodes { name type isNullable suggestedDataPoolColumnType supportedDataPoolColumnTypes } }
    availableTimestamps { nodes { name isUniqueKey isPrimaryKey } } availableMeasures { nodes { name } } } } } }`
  const tableColumns = [
    { name: 'id', type: 'STRING', clickHouseType: null, nullable: false },
    { name: 'at', type: 'TIMESTAMP', clickHouseType: null, nullable: false },
    { name: 'amount', type: 'DOUBLE', clickHouseType: null, nullable: true },
  ]
  let id = ''
  let tableId = ''

  test('is CONNECTED at once, and shows its tables', async () => {
    const connectionSettings = {
      basicAuth: { username: 'u', password: 'p' },
      tables: [{ name: 'orders', columns: tableColumns }],
    }
    const { data, errors } = await server.ask(CREATE, { input: { uniqueName: 'http', connectionSettings } })
    expect(errors).toBeUndefined()
    const { dataSource } = data.createHttpDataSource
    id = dataSource.id
    tableId = dataSource.connectionSettings.tables[0].id
    expect(dataSource).toMatchObject({
      type: 'Http',
      status: 'CONNECTED',
      description: '',
      checks: [{ name: 'Webhook', status: 'SUCCEEDED', error: null }],
      connectionSettings: { ...connectionSettings, tables: [{ name: 'orders', columns: tableColumns }] },
    })
    const { data: read } = await server.ask(TABLES, { id })
    expect(read.dataSource.tables.nodes).toMatchObject([
      {
        id: tableId,
        name: 'orders',
        dataSource: { id },
        columns: {
          pageInfo: { hasNextPage: true },
          nodes: [{ name: 'id', type: 'STRING', isNullable: false, suggestedDataPoolColumnType: 'STRING' }],
        },
        availableTimestamps: { nodes: [{ name: 'at', isUniqueKey: false, isPrimaryKey: false }] },
        availableMeasures: { nodes: [{ name: 'amount' }] },
      },
    ])
    const byId = await server.ask('query ($id: ID!) { table(id: $id) { name } }', { id: tableId })
    expect(byId.data).toEqual({ table: { name: 'orders' } })
  })

  test('changes its tables and its credentials; a table keeps its id with its name', async () => {
    const more = [...tableColumns, { name: 'new', type: 'JSON', clickHouseType: null, nullable: true }]
    const tables = [{ name: 'orders', columns: more }]
    const change = { idOrUniqueName: { id, uniqueName: null }, uniqueName: null, description: null }
    const { data } = await server.ask(MODIFY, { input: { ...change, connectionSettings: { tables } } })
    expect(data.modifyHttpDataSource.dataSource.connectionSettings).toMatchObject({
      basicAuth: { username: 'u', password: 'p' },
      tables: [{ id: tableId, columns: more }],
    })
    const open = await server.ask(MODIFY, {
      input: { ...change, connectionSettings: { basicAuthEnabled: false } },
    })
    expect(open.data.modifyHttpDataSource.dataSource.connectionSettings).toMatchObject({
      basicAuth: null,
      tables: [{ id: tableId, columns: more }],
    })
  })

  test('is tested and reconnected, and has nothing to introspect', async () => {
    const ask = (field: string, selection: string) =>
      server.ask(`mutation { ${field}(input: {uniqueName: "http"}) { ${selection} } }`)
    expect((await ask('testDataSource', '__typename')).data.testDataSource.__typename).toBe(
      'DataSourceResponse',
    )
    expect((await ask('reconnectDataSource', 'status')).data.reconnectDataSource.status).toBe('CONNECTED')
    expect((await ask('introspectTables', '__typename')).errors).toMatchObject([
      { extensions: { code: 'BAD_REQUEST' } },
    ])
  })

  test('is refused with two tables of one name, or a name that is taken', async () => {
    const twice = {
      tables: [
        { name: 't', columns: [] },
        { name: 't', columns: [] },
      ],
    }
    const two = await server.ask(CREATE, { input: { connectionSettings: twice } })
    expect(two.errors?.[0]?.message).toMatch(/Two tables/)
    const taken = await server.ask(CREATE, {
      input: { uniqueName: 'events', connectionSettings: { tables: [] } },
    })
    expect(taken.errors?.[0]?.message).toMatch(/already exists/)
  })
})

describe('a webhook source', () => {
  const CREATE = `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { ${FIELDS} } } }`
  const MODIFY = `mutation ($input: ModifyWebhookDataSourceInput!) { modifyWebhookDataSource(input: $input) { dataSource { ${FIELDS} } } }`

  test('changes its name with its pool’s, its description and its credentials', async () => {
    const basicAuth = { username: 'foo', password: 'bar' }
    const made = await server.ask(CREATE, {
      input: { uniqueName: 'hook', connectionSettings: { basicAuth } },
    })
    const { id, connectionSettings } = made.data.createWebhookDataSource.dataSource
    const modify = async (change: object) => {
      const { data, errors } = await server.ask(MODIFY, {
        input: { idOrUniqueName: { id, uniqueName: null }, ...change },
      })
      expect(errors).toBeUndefined()
      return data.modifyWebhookDataSource.dataSource
    }
    expect(await modify({ uniqueName: null, description: null, connectionSettings: null })).toEqual(
      made.data.createWebhookDataSource.dataSource,
    )
    expect(await modify({ uniqueName: 'renamed', description: 'd' })).toMatchObject({
      uniqueName: 'renamed',
      description: 'd',
    })
    expect(server.catalog.read.pools.byName('renamed')?.dataSourceId).toBe(id)
    expect(server.catalog.read.pools.byName('hook')).toBeUndefined()
    const other = { username: '', password: 'p' }
    const changed = await modify({ connectionSettings: { basicAuth: other } })
    expect(changed.connectionSettings).toEqual({ ...connectionSettings, webhookAuth: other })
    const bare = await modify({ connectionSettings: { basicAuthEnabled: false } })
    expect(bare.connectionSettings.webhookAuth).toBeNull()
  })

  test('takes the name of another pool where its own pool has another name', async () => {
    const make = async (uniqueName: string) => {
      const { data } = await server.ask(CREATE, { input: { uniqueName, connectionSettings: {} } })
      return data.createWebhookDataSource.dataSource
    }
    const rename = (id: string, uniqueName: string) =>
      server.ask(MODIFY, { input: { idOrUniqueName: { id }, uniqueName } })
    const [one, two] = [await make('one'), await make('two')]
    const movePool =
      'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename } }'
    for (const { dataPools, uniqueName } of [one, two])
      await server.ask(movePool, {
        input: { idOrUniqueName: { id: dataPools.nodes[0].id }, uniqueName: `${uniqueName} apart` },
      })
    expect((await rename(one.id, 'two apart')).data.modifyWebhookDataSource.dataSource.uniqueName).toBe(
      'two apart',
    )
    expect(server.catalog.read.pools.byName('two apart')?.id).toBe(two.dataPools.nodes[0].id)
    const paired = await make('three')
    expect((await rename(paired.id, 'one apart')).errors?.[0]?.message).toMatch(/already exists/)
  })

  test('is changed by the mutation of its own kind alone', async () => {
    const modify =
      'mutation ($input: ModifyS3DataSourceInput!) { modifyS3DataSource(input: $input) { dataSource { id } } }'
    const { errors } = await server.ask(modify, { input: { idOrUniqueName: { uniqueName: 'renamed' } } })
    expect(errors).toMatchObject([
      { message: expect.stringContaining('is of type WEBHOOK, not S3'), extensions: { code: 'BAD_REQUEST' } },
    ])
    const missing = await server.ask(modify, { input: { idOrUniqueName: { id: 'DSO1', uniqueName: null } } })
    expect(missing.errors).toMatchObject([
      { message: 'Data Source not found', extensions: { code: 'NOT_FOUND' } },
    ])
    const nothing = await server.ask(modify, { input: { idOrUniqueName: {} } })
    expect(nothing.errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  })
})
