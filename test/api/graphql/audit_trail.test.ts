/** Every mutation leaves one entry: who, what, which object, how it ended. */

import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { GRAPHQL_MUTATIONS_MAX } from '../../../src/api/graphql/context.ts'
import { makeSchema } from '../../../src/api/graphql/graphql-schema.ts'
import { AUDIT_ID_CHARACTERS_MAX } from '../../../src/util/limits.ts'
import { anyDocument, rootFields } from './any-document.ts'
import { makeServer, type TestServer } from './server.ts'

const CREATE = `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) {
  dataSource { id dataPools { nodes { id } } } } }`

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())
beforeEach(() => {
  server.audited.length = 0
})

test('a creation names the new object, and holds no secret', async () => {
  const connectionSettings = { basicAuth: { username: 'u', password: 'a-password' } }
  const { data } = await server.ask(CREATE, { input: { uniqueName: 'audited', connectionSettings } })
  const { id } = data.createWebhookDataSource.dataSource
  expect(server.audited).toEqual([
    { mutation: 'createWebhookDataSource', applicationId: 'app', object: id, outcome: 'done' },
  ])
  expect(JSON.stringify(server.audited)).not.toContain('a-password')
})

test('a refused one names its code, and the object that was asked for', async () => {
  await server.ask(CREATE, { input: { uniqueName: 'audited', connectionSettings: {} } })
  await server.ask('mutation { deleteDataSourceByName(uniqueName: "nowhere") }')
  await server.ask('mutation { retryDataPoolSetup(id: "DPO1") { id } }')
  await server.ask(
    'mutation { modifyDataPool(input: {idOrUniqueName: {id: null, uniqueName: "events"}, dataRetentionInDays: -1}) { __typename } }',
  )
  await server.ask('mutation { deleteDataPool(id: "DPO1") }', null, { scope: ['metric:query'] })
  expect(server.audited.map(({ mutation, object, outcome }) => [mutation, object, outcome])).toEqual([
    ['createWebhookDataSource', 'audited', 'BAD_REQUEST'],
    ['deleteDataSourceByName', 'nowhere', 'absent'],
    ['retryDataPoolSetup', 'DPO1', 'NOT_FOUND'],
    ['modifyDataPool', 'events', 'BAD_REQUEST'],
    ['deleteDataPool', 'DPO1', 'FORBIDDEN'],
  ])
})

test('a refused change names the object, not the name that it was to get', async () => {
  await server.ask(
    'mutation { modifyDataPool(input: {idOrUniqueName: {uniqueName: "events"}, uniqueName: "new", dataRetentionInDays: -1}) { __typename } }',
  )
  await server.ask('mutation { modifyMetric(input: {metric: "MET1", uniqueName: "new"}) { __typename } }')
  await server.ask(
    'mutation { modifyDataPoolAccessPolicy(input: {id: "PLC1", uniqueName: "new"}) { __typename } }',
  )
  expect(server.audited.map(({ object }) => object)).toEqual(['events', 'MET1', 'PLC1'])
})

test('an assignment names the application, and a moved metric its new pool', async () => {
  const { data } = await server.ask(`mutation {
    createDataPoolV2(input: {uniqueName: "limited"}) { dataPool { id } }
    createApplication(input: {uniqueName: "reads"}) { ... on ApplicationResponse { application { id } } }
  }`)
  const pool = data.createDataPoolV2.dataPool.id
  const application = data.createApplication.application.id
  const made = await server.ask(`mutation {
    createDataPoolAccessPolicy(input: {dataPool: "${pool}", columns: ["*"]}) { dataPoolAccessPolicy { id } }
    createCountMetric(input: {dataPool: "${pool}"}) { metric { id } }
  }`)
  const policy = made.data.createDataPoolAccessPolicy.dataPoolAccessPolicy.id
  const metric = made.data.createCountMetric.metric.id
  server.audited.length = 0
  const arguments_ = `(dataPoolAccessPolicy: "${policy}", application: "${application}")`
  await server.ask(`mutation {
    assignDataPoolAccessPolicyToApplication${arguments_}
    unAssignDataPoolAccessPolicyFromApplication${arguments_}
    again: unAssignDataPoolAccessPolicyFromApplication${arguments_}
    nobody: assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "APP0")
    migrateMetric(input: {metricId: "${metric}", newDataPoolId: "${pool}"}) { id }
    createApplication(input: {uniqueName: "none"}) { __typename }
  }`)
  expect(server.audited.map(({ object, target, outcome }) => [object, target, outcome])).toEqual([
    [policy, application, 'done'],
    [policy, application, 'done'],
    [policy, application, 'absent'],
    [policy, 'APP0', 'NOT_FOUND'],
    [metric, pool, 'done'],
    [expect.stringMatching(/^APP/), undefined, 'done'],
  ])
})

test('a webhook source and its pool go together, and each names the other', async () => {
  const make = async (uniqueName: string) => {
    const { data } = await server.ask(CREATE, { input: { uniqueName, connectionSettings: {} } })
    const { id, dataPools } = data.createWebhookDataSource.dataSource
    return [id, dataPools.nodes[0].id] as const
  }
  const [[sourceA, poolA], [sourceB, poolB]] = [await make('pair a'), await make('pair b')]
  const { data } = await server.ask('mutation { createDataPoolV2(input: {}) { dataPool { id } } }')
  const generic = data.createDataPoolV2.dataPool.id
  server.audited.length = 0
  for (const field of [
    `deleteDataPool(id: "${poolA}")`,
    `deleteDataSource(id: "${sourceA}")`,
    'deleteDataSourceByName(uniqueName: "pair b")',
    `deleteDataPool(id: "${generic}")`,
  ])
    await server.ask(`mutation { ${field} }`)
  expect(server.audited.map(({ object, target, outcome }) => [object, target, outcome])).toEqual([
    [poolA, sourceA, 'done'],
    [sourceA, undefined, 'absent'],
    [sourceB, poolB, 'done'],
    [generic, undefined, 'done'],
  ])
})

test('a failure of a union is one too', async () => {
  const create = 'mutation { createApplication(input: {uniqueName: "twice"}) { __typename } }'
  for (const type of ['ApplicationResponse', 'FailureResponse'])
    expect((await server.ask(create)).data).toEqual({ createApplication: { __typename: type } })
  expect(server.audited.map(({ outcome }) => outcome)).toEqual(['done', 'BAD_REQUEST'])
})

test('every mutation leaves exactly one entry, a query none', async () => {
  const schema = makeSchema()
  const names = rootFields(schema, 'Mutation')
  for (const name of names) await server.ask(...anyDocument(schema, 'Mutation', name))
  expect(server.audited.map(({ mutation }) => mutation)).toEqual(names)
  expect(server.audited.filter(({ outcome }) => outcome === 'INTERNAL')).toEqual([])
  server.audited.length = 0
  for (const name of rootFields(schema, 'Query')) await server.ask(...anyDocument(schema, 'Query', name))
  expect(server.audited).toEqual([])
})

test('an entry is short, however long the name is', async () => {
  await server.ask('mutation ($id: ID!) { deleteMetric(id: $id) }', { id: 'x'.repeat(100_000) })
  expect(server.audited[0]?.object).toBe('x'.repeat(AUDIT_ID_CHARACTERS_MAX))
})

test(`a request makes at most ${GRAPHQL_MUTATIONS_MAX} changes`, async () => {
  const many = (count: number) =>
    `mutation { ${Array.from({ length: count }, (_, i) => `a${i}: deleteMetric(id: "x")`).join(' ')} }`
  expect((await server.ask(many(GRAPHQL_MUTATIONS_MAX))).errors).toBeUndefined()
  const { data, errors } = await server.ask(many(GRAPHQL_MUTATIONS_MAX + 1))
  expect(errors).toMatchObject([{ path: [`a${GRAPHQL_MUTATIONS_MAX}`], extensions: { code: 'BAD_REQUEST' } }])
  expect(data[`a${GRAPHQL_MUTATIONS_MAX - 1}`]).toBeNull()
})
