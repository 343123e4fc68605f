/**
 * Who moves to this server keeps ids of the other one in dashboards and scripts. The objects get
 * those ids as unique names, and every look-up by id finds them.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { fetchToken, removeLeftovers, send, startServer, type TestServer } from '../util/server.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Json = any

const REST = '06A68AAFD9SQZ8NC43JGKBGQMC'
const [POOL, METRIC, POLICY, APPLICATION] = ['DPO', 'MET', 'POL', 'APP'].map(prefix => prefix + REST)

let server: TestServer
let token = ''
beforeAll(async () => {
  server = await startServer()
  token = await fetchToken(server.base, server.dataDir)
  const { url } = await server.createPool({
    uniqueName: POOL!,
    columns: [{ name: 'id', type: 'INT64', jsonProperty: 'id', nullable: false }],
    uniqueId: 'id',
  })
  expect((await send(url, [{ id: 1 }, { id: 2 }])).status).toBe(200)
  await ask(`mutation {
    createCountMetric(input: { dataPool: "${POOL}", uniqueName: "${METRIC}" }) { metric { id } }
    createDataPoolAccessPolicy(input: { dataPool: "${POOL}", uniqueName: "${POLICY}", columns: ["*"] }) {
      dataPoolAccessPolicy { id } }
    createApplication(input: { uniqueName: "${APPLICATION}" }) { __typename }
  }`)
})
afterAll(removeLeftovers)

async function ask(query: string): Promise<Json> {
  const { data, errors } = await server.graphql<Json>(query)
  expect(errors).toBeUndefined()
  return data
}

const get = (path: string) =>
  fetch(`${server.base}${path}`, { headers: { authorization: `Bearer ${token}` } })

test('objects are found by the id of another server', async () => {
  const found = await ask(`{
    dataPool(id: "${POOL}") { id uniqueName }
    dataSource(id: "${POOL}") { uniqueName }
    metric(id: "${METRIC}") { id uniqueName counter(input: {}) { value } }
    dataPoolAccessPolicy(id: "${POLICY}") { uniqueName }
    application(id: "${APPLICATION}") { uniqueName }
  }`)
  expect(found).toMatchObject({
    dataPool: { uniqueName: POOL },
    dataSource: { uniqueName: POOL },
    metric: { uniqueName: METRIC, counter: { value: '2' } },
    dataPoolAccessPolicy: { uniqueName: POLICY },
    application: { uniqueName: APPLICATION },
  })
  expect(found.dataPool.id).not.toBe(POOL)
  expect(await ask(`{ dataPool(id: "${found.dataPool.id}") { uniqueName } }`)).toEqual({
    dataPool: { uniqueName: POOL },
  })
})

test('so are the pools and metrics of questions', async () => {
  const count = `count: { dataPool: { id: "${POOL}" } }`
  const answers = await ask(`{
    a: counter(input: { metricId: "${METRIC}" }) { value }
    b: counter(input: { metricName: "${METRIC}" }) { value }
    c: counter(input: { metric: { id: "${METRIC}" } }) { value }
    d: counter(input: { metric: { ${count} } }) { value }
    dataGrid(input: { dataPool: { id: "${POOL}" }, columns: ["id"] }) { rows }
    recordsByUniqueId(input: { dataPool: { name: "${POOL}" }, columns: ["id"], uniqueIds: ["2"] }) { values }
    sqlV1(input: { query: "SELECT COUNT(*) FROM \\"${POOL}\\"" }) { rows }
  }`)
  for (const name of ['a', 'b', 'c', 'd']) expect(answers[name]).toEqual({ value: '2' })
  expect(answers.dataGrid.rows).toHaveLength(2)
  expect(answers.recordsByUniqueId.values).toEqual([['2']])
  expect(answers.sqlV1.rows).toEqual([['2']])
})

test('so are the pools of routes and commands', async () => {
  for (const kind of ['arrow', 'export?format=csv', 'import'])
    expect((await get(`/v1/pools/${POOL}/${kind}`)).status, kind).toBe(200)
  const own = ['--url', server.base, '--data-dir', server.dataDir]
  expect(await weir(['jobs', POOL!, ...own])).toMatchObject({ code: 0 })
  expect(await weir(['applications', 'rotate', APPLICATION!, ...own])).toMatchObject({ code: 0 })
})

test('so are the objects of changes, and their answers have the new ids', async () => {
  const ids = await ask(`{ dataPool(id: "${POOL}") { id } metric(id: "${METRIC}") { id }
    dataPoolAccessPolicy(id: "${POLICY}") { id } application(id: "${APPLICATION}") { id } }`)
  const pair = `(dataPoolAccessPolicy: "${POLICY}", application: "${APPLICATION}")`
  const changed = await ask(`mutation {
    modifyDataPool(input: { idOrUniqueName: { id: "${POOL}" }, description: "moved" }) {
      ... on DataPoolResponse { dataPool { id } } }
    modifyMetric(input: { metric: "${METRIC}", description: "moved" }) { metric { id } }
    migrateMetric(input: { metricId: "${METRIC}", newDataPoolId: "${POOL}" }) { id dataPool { id } }
    modifyDataPoolAccessPolicy(input: { id: "${POLICY}", description: "moved" }) { dataPoolAccessPolicy { id } }
    assignDataPoolAccessPolicyToApplication${pair}
    createDeletionJob(input: { dataPool: "${POOL}", filterSql: "id > 5" }) { job { dataPool { id } } }
    createAddColumnToDataPoolJob(input: { dataPool: "${POOL}", columnName: "more", columnType: STRING, jsonProperty: "more" }) {
      job { dataPool { id } } }
  }`)
  const pool = { id: ids.dataPool.id }
  expect(changed).toEqual({
    modifyDataPool: { dataPool: pool },
    modifyMetric: { metric: ids.metric },
    migrateMetric: { ...ids.metric, dataPool: pool },
    modifyDataPoolAccessPolicy: { dataPoolAccessPolicy: ids.dataPoolAccessPolicy },
    assignDataPoolAccessPolicyToApplication: ids.dataPoolAccessPolicy.id,
    createDeletionJob: { job: { dataPool: pool } },
    createAddColumnToDataPoolJob: { job: { dataPool: pool } },
  })
  const assigned = `{ dataPoolAccessPolicy(id: "${POLICY}") { applications { nodes { id } } } }`
  expect((await ask(assigned)).dataPoolAccessPolicy.applications.nodes).toEqual([ids.application])
  expect(await ask(`mutation { unAssignDataPoolAccessPolicyFromApplication${pair} }`)).toEqual({
    unAssignDataPoolAccessPolicyFromApplication: ids.dataPoolAccessPolicy.id,
  })
  expect((await ask(assigned)).dataPoolAccessPolicy.applications.nodes).toEqual([])
})

test('the environment is found by the id that it has as its name', async () => {
  const { data } = await server.graphql<Json>('{ dataPool(id: "events") { environment { id } } }')
  const { id } = data.dataPool.environment
  const name = `ENV${REST}`
  await ask(
    `mutation { modifyEnvironment(input: { id: "${id}", uniqueName: "${name}" }) { environment { id } } }`,
  )
  expect(await ask(`{ environment(id: "${name}") { id } }`)).toEqual({ environment: { id } })
})

test('an application named by the id of a deleted one gets none of its rights', async () => {
  const made = await ask(
    'mutation { createApplication(input: {}) { ... on ApplicationResponse { application { id secret } } } }',
  )
  const { id, secret } = made.createApplication.application
  const basic = { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }
  const form = () =>
    fetch(`${server.base}/oauth2/token`, {
      method: 'POST',
      headers: { ...basic, 'content-type': 'application/x-www-form-urlencoded' },
      body: 'grant_type=client_credentials',
    })
  const { access_token: bearer } = (await (await form()).json()) as Json
  await ask(`mutation { deleteApplication(id: "${id}") }`)
  await ask(`mutation { createApplication(input: { uniqueName: "${id}" }) { __typename } }`)
  expect((await form()).status).toBe(401)
  const asked = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}` },
    body: '{"query":"{ metrics { nodes { id } } }"}',
  })
  expect(asked.status).toBe(401)
})

test('objects are deleted by the id of another server', async () => {
  const deleted = await ask(`mutation {
    deleteMetric(id: "${METRIC}")
    deleteDataPoolAccessPolicy(id: "${POLICY}")
    deleteApplication(id: "${APPLICATION}")
    deleteDataPool(id: "${POOL}")
    deleteDataSource(id: "${POOL}")
  }`)
  expect(deleted).toEqual({
    deleteMetric: expect.stringMatching(/^MET/),
    deleteDataPoolAccessPolicy: expect.stringMatching(/^POL/),
    deleteApplication: expect.stringMatching(/^APP/),
    deleteDataPool: expect.stringMatching(/^DPO/),
    deleteDataSource: null,
  })
  const { errors } = await server.graphql(`{ dataPool(id: "${POOL}") { id } }`)
  expect(errors).toMatchObject([{ message: 'Data Pool not found' }])
})

test('a command finds a pool by it in a stopped folder', async () => {
  const { url } = await server.createPool({ uniqueName: POOL! })
  expect((await send(url, [{ id: 1 }, { id: 2 }])).status).toBe(200)
  await server.stop()
  const to = ['--format', 'ndjson', '--out', '-', '--data-dir', server.dataDir]
  const { code, out } = await weir(['export', POOL!, ...to])
  expect([code, out.trim().split('\n').length]).toEqual([0, 2])
})
