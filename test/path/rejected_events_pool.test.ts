/**
 * The pool of rejected events as a pool: its marks, what can be changed, its name, and its rows
 * over stops and kills.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { REJECTED_EVENTS } from '../../src/catalog/rejected-pool.ts'
import { rejectedNow, rejectedOf } from '../util/rejected.ts'
import { fetchToken, removeLeftovers, send, startServer, type TestServer } from '../util/server.ts'
import { column } from './client.ts'

afterAll(removeLeftovers)

const N = column('n', 'INT64')
const POOL = `uniqueName isBuiltIn accessControlEnabled dataRetentionInDays webhookUrl
  timestamp { columnName } orderByColumns { columnName } columns(first: 100) { nodes { columnName type isNullable } }`

interface Shown {
  readonly id: string
  readonly uniqueName: string
  readonly isBuiltIn: boolean
  readonly [field: string]: unknown
}

async function pools(server: TestServer): Promise<Shown[]> {
  const { data, errors } = await server.graphql<{ dataPools: { nodes: Shown[] } }>(
    `{ dataPools { nodes { id ${POOL} } } }`,
  )
  expect(errors).toBeUndefined()
  return data.dataPools.nodes
}

const builtIn = async (server: TestServer) => (await pools(server)).find(({ isBuiltIn }) => isBuiltIn)!

/** The message of the error that a document ends with; null where it succeeds. */
async function problem(server: TestServer, document: string, variables = {}): Promise<string | null> {
  const { data, errors } = await server.graphql<Record<string, { error?: { message: string } }>>(
    document,
    variables,
  )
  return errors?.[0]?.message ?? Object.values(data)[0]?.error?.message ?? null
}

/** One folder over the lives of its server: each test goes on where the one before ended. */
let server: TestServer
const start = async (...args: string[]) => {
  server = await startServer({ dataDir: server.dataDir, args })
}
beforeAll(async () => {
  server = await startServer()
})

test('its rows are counted on a page of their own, and not as events', async () => {
  const one = await server.createPool({ uniqueName: 'one', columns: [N] })
  expect((await send(one.url, [{ n: 1 }, { n: 'x' }, {}])).status).toBe(200)
  await rejectedOf(server, one.poolId, 2)
  const page = await (await fetch(`${server.base}/metrics`)).text()
  expect(page).toMatch(/^weir_rejected_rows_total\{result="kept"\} 2$/m)
  expect(page).toMatch(/^weir_rejected_rows_total\{result="left_out"\} 0$/m)
  expect(page).not.toMatch(/weir_events_total\{pool="weir_rejected_events"/)
  expect(page).toMatch(/^weir_received_bytes_total 22$/m)
})

test('answers wait for no row; a stop loses none, and a kill none that was visible', async () => {
  const one = await server.createPool({ columns: [N] })
  for (let n = 0; n < 20; n += 1) expect((await send(one.url, [{ n }, { n: `x${n}` }])).status).toBe(200)
  const seen = await rejectedOf(server, one.poolId, 20)
  await server.kill()
  await start()
  expect(await rejectedNow(server, one.poolId)).toEqual(seen)
  const url = server.base + new URL(one.url).pathname
  const all = Array.from({ length: 300 }, (_, n) => `[{"n":${n}},{"n":"y${n}"}]`)
  expect((await Promise.all(all.map(body => send(url, body)))).every(({ status }) => status === 200)).toBe(
    true,
  )
  const { code, output } = await server.stop()
  expect([code, output.includes('not kept')]).toEqual([0, false])
  expect(output).toMatch(/refused in a minute, Data Pool DSO\w+: wrong_type 300; the first: column "n"/)
  await start()
  const rows = await rejectedNow(server, one.poolId)
  expect(rows.length).toBe(320)
  expect(new Set(rows.map(({ text }) => text)).size).toBe(320)
})

test('with a rate limit rejected rows cost their sender nothing more', async () => {
  await server.stop()
  await start('--rate-limit', '10')
  const one = await server.createPool({ columns: [N] })
  expect((await send(one.url, Array(10).fill({ n: 'x' }))).status).toBe(400)
  await delay(1_200)
  expect((await send(one.url, Array(10).fill({ n: 'x' }))).status).toBe(400)
  expect((await rejectedOf(server, one.poolId, 20)).length).toBe(20)
  expect(await fetchToken(server.base, server.dataDir)).toBeTruthy()
})

test('it is listed, marked, closed and kept for 7 days; it cannot be deleted, nor get columns', async () => {
  const pool = await builtIn(server)
  expect(pool).toMatchObject({
    uniqueName: REJECTED_EVENTS,
    accessControlEnabled: true,
    dataRetentionInDays: 7,
    webhookUrl: null,
    orderByColumns: [{ columnName: 'id' }],
  })
  expect((await pools(server)).filter(({ isBuiltIn }) => isBuiltIn)).toHaveLength(1)
  for (const document of [
    `mutation { deleteDataPool(id: "${pool.id}") }`,
    `mutation { deleteDataPoolByName(uniqueName: "${REJECTED_EVENTS}") }`,
  ])
    expect(await problem(server, document)).toMatch(/belongs to the server and cannot be deleted/)
  const { data } = await server.graphql<{ dataPool: { dataSource: { id: string } } }>(
    `{ dataPool(id: "${pool.id}") { dataSource { id } } }`,
  )
  const source = data.dataPool.dataSource.id
  expect(await problem(server, `mutation { deleteDataSource(id: "${source}") }`)).toMatch(/cannot be deleted/)
  const add = `mutation ($input: CreateAddColumnToDataPoolJobInput!) { createAddColumnToDataPoolJob(input: $input) { job { id } } }`
  const input = { dataPool: pool.id, columnName: 'c', columnType: 'INT64', jsonProperty: 'text' }
  expect(await problem(server, add, { input })).toMatch(/columns of its server alone/)
  const modify = `mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) {
    ... on FailureResponse { error { message } } ... on DataPoolResponse { dataPool { id } } } }`
  const change = { idOrUniqueName: { id: pool.id }, uniqueName: 'refused', dataRetentionInDays: 3 }
  expect(await problem(server, modify, { input: change })).toBeNull()
  const one = await server.createPool({ columns: [N] })
  expect((await send(one.url, [{ n: 'x' }])).status).toBe(400)
  const before = (await pools(server)).length
  await server.stop()
  await start()
  const after = await builtIn(server)
  expect(after).toMatchObject({ id: pool.id, uniqueName: 'refused', dataRetentionInDays: 3 })
  expect((await pools(server)).length).toBe(before)
})

test('a pool that has its name keeps it, and each start says so', async () => {
  const rename = async (idOrUniqueName: object, uniqueName: string) => {
    const input = { idOrUniqueName, uniqueName }
    const document = `mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { ... on FailureResponse { error { message } } } }`
    expect(await problem(server, document, { input })).toBeNull()
  }
  const { id } = await builtIn(server)
  await rename({ id }, REJECTED_EVENTS)
  // Nobody can take the name beside the server.
  await expect(server.createPool({ uniqueName: REJECTED_EVENTS })).rejects.toThrow(/name/)
  expect(server.output()).not.toContain('rejected events is named')
  await rename({ id }, 'kept elsewhere')
  const taken = await server.createPool({ uniqueName: REJECTED_EVENTS, columns: [N] })
  expect((await send(taken.url, [{ n: 1 }, {}])).status).toBe(200)
  await server.stop()
  for (let starts = 0; starts < 2; starts += 1) {
    await start()
    expect(server.output()).toContain(
      `the Data Pool of rejected events is named kept elsewhere: another Data Pool or Data Source has the name ${REJECTED_EVENTS}`,
    )
    expect(await server.count(taken.poolId)).toBe('1')
    await server.stop()
  }
})
