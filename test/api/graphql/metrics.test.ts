/**
 * Predefined metrics: seven types, their settings, changes, and the older fields that clients read.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeServer, type TestServer } from './server.ts'

let server: TestServer
let pool = ''
beforeAll(async () => {
  server = await makeServer()
  const columns = [
    { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
    { name: 'account_id', jsonProperty: 'account_id', type: 'STRING', nullable: true },
    { name: 'amount', jsonProperty: 'amount', type: 'DOUBLE', nullable: true },
  ]
  pool = await make('measured', columns)
})
afterAll(() => server.stop())

async function make(uniqueName: string, columns: object[]): Promise<string> {
  const { data, errors } = await server.ask(
    `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) { dataSource { dataPools { nodes { id } } } } }`,
    { input: { uniqueName, connectionSettings: { columns, timestamp: columns.length > 0 ? 'at' : null } } },
  )
  expect(errors).toBeUndefined()
  return data.createWebhookDataSource.dataSource.dataPools.nodes[0].id
}

const PART = 'columnName type isNullable isUniqueKey'
const FIELDS = `id uniqueName description type accessControlEnabled createdBy account { id } environment { id }
  dataPool { id } dimensions { ${PART} } timestamp { ${PART} } measure { ${PART} } boosters { nodes { id } } policies { nodes { id } }
  settings { __typename
    ... on CountMetricSettings { filters { column operator value and { column } or { column } } filterSql }
    ... on SumMetricSettings { filters { column } filterSql measure { ${PART} } }
    ... on AverageMetricSettings { measure { ${PART} } }
    ... on MinMetricSettings { measure { ${PART} } }
    ... on MaxMetricSettings { measure { ${PART} } }
    ... on CountDistinctMetricSettings { dimension { ${PART} } }
    ... on CustomMetricSettings { expression } }`

// biome-ignore lint/suspicious/noExplicitAny: the metric has the shape that FIELDS asks for
async function create(name: string, input: object): Promise<any> {
  const { data, errors } = await server.ask(
    `mutation ($input: Create${name}MetricInput) { create${name}Metric(input: $input) { __typename metric { ${FIELDS} } } }`,
    { input: { dataPool: pool, ...input } },
  )
  expect(errors).toBeUndefined()
  return data[`create${name}Metric`].metric
}

const AMOUNT = { columnName: 'amount', type: 'DOUBLE', isNullable: true, isUniqueKey: false }
const ACCOUNT = { columnName: 'account_id', type: 'STRING', isNullable: true, isUniqueKey: false }

describe('a metric', () => {
  const dimensions = [{ columnName: 'account_id' }]
  const measure = { columnName: 'amount' }
  const cases: readonly (readonly [string, string, object, object])[] = [
    ['Sum', 'SUM', { measure }, { measure: AMOUNT }],
    ['Average', 'AVERAGE', { measure }, { measure: AMOUNT }],
    ['Min', 'MIN', { measure }, { measure: AMOUNT }],
    ['Max', 'MAX', { measure }, { measure: AMOUNT }],
    ['CountDistinct', 'COUNT_DISTINCT', { dimension: dimensions[0] }, { dimension: ACCOUNT }],
    [
      'Custom',
      'CUSTOM',
      { expression: 'COUNT_DISTINCT(account_id) / COUNT()' },
      { expression: 'COUNT_DISTINCT(account_id) / COUNT()' },
    ],
  ]
  for (const [name, type, input, settings] of cases)
    test(`of type ${type} shows its settings`, async () => {
      const metric = await create(name, { ...input, uniqueName: `m-${name}`, dimensions })
      expect(metric).toMatchObject({
        id: expect.stringMatching(/^MET/),
        uniqueName: `m-${name}`,
        description: '',
        type,
        createdBy: 'app',
        accessControlEnabled: false,
        dataPool: { id: pool },
        dimensions: [ACCOUNT],
        timestamp: { columnName: 'at', type: 'TIMESTAMP' },
        measure: 'measure' in settings ? settings.measure : name === 'CountDistinct' ? ACCOUNT : null,
        boosters: { nodes: [] },
        policies: { nodes: [] },
        settings: { __typename: `${name}MetricSettings`, ...settings },
      })
      const byName = await server.ask(`query ($n: String!) { metricByName(uniqueName: $n) { ${FIELDS} } }`, {
        n: `m-${name}`,
      })
      expect(byName.data.metricByName).toEqual(metric)
    })

  test('of type COUNT keeps its filters and its condition', async () => {
    const filters = [
      { column: 'amount', operator: 'IS_NOT_NULL', value: '' },
      {
        column: 'account_id',
        operator: 'EQUALS',
        value: 'x',
        or: [{ column: 'amount', operator: 'GREATER_THAN', value: '1' }],
      },
    ]
    const metric = await create('Count', {
      filters,
      filterSql: 'amount > 1',
      uniqueName: '',
      description: '',
    })
    expect(metric.uniqueName).toBe(metric.id)
    expect(metric.settings).toEqual({
      __typename: 'CountMetricSettings',
      filterSql: 'amount > 1',
      filters: [
        { column: 'amount', operator: 'IS_NOT_NULL', value: '', and: [], or: [] },
        { column: 'account_id', operator: 'EQUALS', value: 'x', and: [], or: [{ column: 'amount' }] },
      ],
    })
    expect((await create('Count', { uniqueName: '' })).uniqueName).not.toBe(metric.uniqueName)
  })

  test('without a timestamp given has the received time', async () => {
    const bare = await make('bare', [])
    const metric = await create('Count', { dataPool: bare })
    expect(metric.timestamp).toMatchObject({ columnName: '_service_received_at', type: 'TIMESTAMP' })
  })
})

describe('a refused metric', () => {
  const refused = async (name: string, input: object | null) => {
    const { errors } = await server.ask(
      `mutation ($input: Create${name}MetricInput) { create${name}Metric(input: $input) { metric { id } } }`,
      { input },
    )
    return [errors?.[0]?.extensions.code, errors?.[0]?.message]
  }

  test('has no input, no pool, or a column that does not fit', async () => {
    expect(await refused('Count', null)).toEqual(['BAD_REQUEST', '"input" is missing.'])
    expect(await refused('Count', { dataPool: 'DPO1' })).toEqual(['NOT_FOUND', 'Data Pool not found'])
    const [sum] = await refused('Sum', { dataPool: pool, measure: { columnName: 'account_id' } })
    const [none] = await refused('Max', { dataPool: pool, measure: { columnName: 'nope' } })
    const [part] = await refused('Count', { dataPool: pool, dimensions: [{ columnName: 'nope' }] })
    expect([sum, none, part]).toEqual(['BAD_REQUEST', 'BAD_REQUEST', 'BAD_REQUEST'])
  })

  test('has a filter, a condition or an expression that the query stage refuses; nothing is stored', async () => {
    const before = server.catalog.read.metrics.size
    const accepted = { ...server.checks }
    server.checks.checkFilters = () => ({ badRequest: 'bad filter' })
    server.checks.checkFilterSql = async () => ({ badRequest: 'bad condition' })
    server.checks.checkMetricExpression = async () => ({ badRequest: 'bad expression' })
    const filters = [{ column: 'a', operator: 'EQUALS', value: '1' }]
    expect(await refused('Count', { dataPool: pool, filters })).toEqual(['BAD_REQUEST', 'bad filter'])
    expect(await refused('Count', { dataPool: pool, filterSql: 'x' })).toEqual([
      'BAD_REQUEST',
      'bad condition',
    ])
    expect(await refused('Custom', { dataPool: pool, expression: 'x' })).toEqual([
      'BAD_REQUEST',
      'bad expression',
    ])
    const modify = 'mutation ($input: ModifyMetricInput) { modifyMetric(input: $input) { metric { id } } }'
    const id = server.catalog.read.metrics.all()[0]?.id
    const { errors } = await server.ask(modify, { input: { metric: id, filterSql: 'x' } })
    expect(errors?.[0]?.message).toBe('bad condition')
    Object.assign(server.checks, accepted)
    expect(server.catalog.read.metrics.size).toBe(before)
  })
})

describe('a changed metric', () => {
  const MODIFY = `mutation ($input: ModifyMetricInput) { modifyMetric(input: $input) { metric { ${FIELDS} modifiedBy modifiedAt } } }`

  test('keeps what is null, and cannot change its type', async () => {
    const metric = await create('Sum', {
      measure: { columnName: 'amount' },
      dimensions: [{ columnName: 'account_id' }],
    })
    const nothing = {
      uniqueName: null,
      description: null,
      dimensions: null,
      filters: null,
      filterSql: null,
      accessControlEnabled: null,
    }
    const same = await server.ask(MODIFY, { input: { metric: metric.id, ...nothing } })
    expect(same.data.modifyMetric.metric).toMatchObject(metric)
    const change = { uniqueName: 'changed', description: 'd', dimensions: [], accessControlEnabled: true }
    const { data } = await server.ask(MODIFY, { input: { metric: metric.id, ...change } })
    expect(data.modifyMetric.metric).toMatchObject({ ...metric, ...change, dimensions: [] })
    const filters = [{ column: 'amount', operator: 'EQUALS', value: '1' }]
    const filtered = await server.ask(MODIFY, {
      input: { metric: metric.id, filters, filterSql: 'amount > 1' },
    })
    expect(filtered.data.modifyMetric.metric.settings).toMatchObject({
      filters: [{ column: 'amount' }],
      filterSql: 'amount > 1',
    })
    const cleared = await server.ask(MODIFY, { input: { metric: metric.id, filters: [], filterSql: '' } })
    expect(cleared.data.modifyMetric.metric.settings).toMatchObject({ filters: [], filterSql: null })
    const gone = await server.ask(MODIFY, { input: { metric: 'MET1' } })
    expect(gone.errors).toMatchObject([{ message: 'Metric not found', extensions: { code: 'NOT_FOUND' } }])
  })

  test('moves to another pool that has its columns', async () => {
    const columns = [
      { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
      { name: 'amount', jsonProperty: 'amount', type: 'INT32', nullable: true },
    ]
    const other = await make('moved to', columns)
    const metric = await create('Sum', { measure: { columnName: 'amount' } })
    const migrate =
      'mutation ($input: MigrateMetricInput!) { migrateMetric(input: $input) { dataPool { id } measure { type } } }'
    const { data } = await server.ask(migrate, { input: { metricId: metric.id, newDataPoolId: other } })
    expect(data.migrateMetric).toEqual({ dataPool: { id: other }, measure: { type: 'INT32' } })
    const bare = await server.ask(migrate, { input: { metricId: metric.id, newDataPoolId: 'DPO1' } })
    expect(bare.errors).toMatchObject([{ message: 'Data Pool not found' }])
    const events = server.catalog.read.pools.byName('events')?.id
    const lacking = await server.ask(migrate, { input: { metricId: metric.id, newDataPoolId: events } })
    expect(lacking.errors).toMatchObject([{ extensions: { code: 'BAD_REQUEST' } }])
  })

  test('goes with its pool', async () => {
    const gone = await make('gone soon', [])
    const metric = await create('Count', { dataPool: gone })
    await server.ask('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: gone })
    const { errors } = await server.ask('query ($id: ID!) { metric(id: $id) { id } }', { id: metric.id })
    expect(errors).toMatchObject([{ message: 'Metric not found' }])
  })
})

describe('metrics for a caller who may only query them', () => {
  const scope = ['metric:query'] as const

  test('are listed and read by page, without their pools', async () => {
    const page = await server.ask(
      '{ metrics(first: 2) { nodes { id uniqueName type dimensions { columnName } } pageInfo { hasNextPage endCursor } } }',
      null,
      { scope },
    )
    expect(page.errors).toBeUndefined()
    expect(page.data.metrics.nodes).toHaveLength(2)
    expect(page.data.metrics.pageInfo.hasNextPage).toBe(true)
    const rest = await server.ask(
      'query ($after: String) { metrics(after: $after) { nodes { id } pageInfo { hasNextPage hasPreviousPage } } }',
      { after: page.data.metrics.pageInfo.endCursor },
      { scope },
    )
    expect(rest.data.metrics.nodes).toHaveLength(server.catalog.read.metrics.size - 2)
    expect(rest.data.metrics.pageInfo).toEqual({ hasNextPage: false, hasPreviousPage: true })
    const withPool = await server.ask('{ metrics { nodes { dataPool { id } } } }', null, { scope })
    expect(withPool.errors?.[0]).toMatchObject({ extensions: { code: 'FORBIDDEN' } })
  })

  test('cannot be changed', async () => {
    const { errors } = await server.ask('mutation { deleteMetricByName(uniqueName: "changed") }', null, {
      scope,
    })
    expect(errors).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    expect(server.catalog.read.metrics.byName('changed')).toBeDefined()
  })
})
