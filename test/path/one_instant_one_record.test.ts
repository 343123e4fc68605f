/**
 * One instant is one record, in whichever form and on whichever way an event brings it: numbers of
 * any unit and texts with nanoseconds, posts, imports, deletes, after a kill and with another
 * schema version. Filters find it in each form.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { addColumn } from '../jobs/add-column.ts'
import { fetchToken, send, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, portOf } from './client.ts'

/** 2024-03-10 12:00:00.1234567, which rounds up, and 1 ns before 1970. Both are cut. */
const FORMS = [
  ['1710072000.1234567', '"2024-03-10T12:00:00.1234567Z"', '1710072000123.4567', '1710072000123456.7'],
  ['-0.000000001', '"1969-12-31T23:59:59.999999999Z"', '-1e-9', '"1970-01-01 01:59:59.999999999 +0200"'],
]
FORMS[0]!.push('1710072000123456700', '"2024-03-10 12:00:00.1234567 UTC"')

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const body = (at: string, index: number) => `{"at":${at},"id":"${index}","n":1}`

async function postAll({ url }: Pick<TestPool, 'url'>, forms: readonly string[], index: number) {
  for (const at of forms) expect((await send(url, body(at, index))).status).toBe(200)
}

/** The webhook of the pool on the server that runs now. */
function urlOf({ url }: TestPool): { readonly url: string } {
  return { url: `${server.base}${new URL(url).pathname}` }
}

test('posts, imports, deletes and filters', async () => {
  const pool = await server.createPool({
    uniqueName: 'instants',
    columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64', true)],
    timestamp: 'at',
    uniqueId: 'id',
  })
  for (const [index, forms] of FORMS.entries()) await postAll(pool, forms, index)
  expect(await server.count(pool.poolId)).toBe('2')
  // The log is replayed with the schema of its records.
  await server.kill()
  server = await startServer({ dataDir: server.dataDir })
  for (const [index, forms] of FORMS.entries()) await postAll(urlOf(pool), forms, index)
  expect(await server.count(pool.poolId)).toBe('2')
  await addColumn(server, pool.poolId, 'more', 'STRING')
  for (const [index, forms] of FORMS.entries()) await postAll(urlOf(pool), forms, index)
  const token = await fetchToken(server.base, server.dataDir)
  const load = async (format: string, text: string, rows: number) => {
    const path = `/v1/pools/${pool.poolId}/import?format=${format}`
    const answer = await ask(portOf(server), path, {
      body: text,
      headers: { authorization: `Bearer ${token}` },
    })
    expect(answer.json).toMatchObject({ accepted: rows, rejected: 0 })
  }
  await load('ndjson', FORMS[0]!.map(at => `${body(at, 0)}\n`).join(''), FORMS[0]!.length)
  await load('csv', `at,id\n${FORMS[0]!.map(at => `${at},0\n`).join('')}`, FORMS[0]!.length)
  expect(await server.count(pool.poolId)).toBe('2')
  for (const [index, forms] of FORMS.entries())
    for (const at of forms) {
      const filters = [{ column: 'at', operator: 'EQUALS', value: at.replaceAll('"', '') }]
      expect([at, await server.count(pool.poolId, { filters })]).toEqual([at, '1'])
      expect((await send(urlOf(pool).url, body(at, index), 'DELETE')).status).toBe(200)
      expect([at, await server.count(pool.poolId)]).toEqual([at, '1'])
      await postAll(urlOf(pool), [forms[0]!], index)
    }
})

test('records are found by an id that is a time', async () => {
  const columns = [column('at', 'TIMESTAMP')]
  const pool = await server.createPool({ uniqueName: 'times', columns, timestamp: 'at', uniqueId: 'at' })
  await postAll(pool, FORMS[0]!, 0)
  const { data } = await server.graphql(
    `query ($ids: [String!]!) { recordsByUniqueId(input: {
       dataPool: {name: "times"}, columns: ["at"], uniqueIds: $ids }) { values } }`,
    { ids: FORMS[0]!.map(at => at.replaceAll('"', '')) },
  )
  expect(data).toEqual({ recordsByUniqueId: { values: [['2024-03-10T12:00:00.123456Z']] } })
})
