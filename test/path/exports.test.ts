/** Exports over HTTP, and their way back: an import of an export gives the same rows. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { fetchToken, send, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, expectProblem, portOf } from './client.ts'

const COLUMNS = [
  column('at', 'TIMESTAMP'),
  column('key', 'STRING', false, 'id'),
  column('n', 'INT64', true),
  column('f', 'FLOAT', true),
  column('b', 'BOOLEAN', true),
  column('d', 'DATE', true),
  column('city', 'STRING', true, 'address.city'),
  column('j', 'JSON', true),
]
const EVENTS = Array.from({ length: 1_234 }, (_, n) => ({
  at: `2026-01-0${1 + (n % 9)}T00:00:00.123456Z`,
  id: n % 5 === 0 ? `a "quoted", id\r\nof two lines ${n}` : `é€😀${n}`,
  ...(n % 3 === 0 ? {} : { n: n % 2 === 0 ? n : -n, f: n / 7, b: n % 2 === 0, d: '1969-12-31' }),
  address: { city: n % 4 === 0 ? '' : `city ${n}`, zip: n },
  j: [null, { a: [n, 'x'] }, 'text', n][n % 4],
}))

let server: TestServer
let token: string
let pool: TestPool
let rounds = 0

const createPool = (uniqueName: string) =>
  server.createPool({ uniqueName, columns: COLUMNS, timestamp: 'at', uniqueId: 'key' })

beforeAll(async () => {
  server = await startServer()
  token = await fetchToken(server.base, server.dataDir)
  pool = await createPool('given')
  for (let from = 0; from < EVENTS.length; from += 500)
    expect((await send(pool.url, EVENTS.slice(from, from + 500))).status).toBe(200)
  await server.count(pool.poolId) // flushes
  expect((await send(pool.url, EVENTS.slice(0, 10), 'DELETE')).status).toBe(200)
})
afterAll(async () => {
  const folder = join(server.dataDir, 'tmp') // no node of a cluster has it
  const left = existsSync(folder) ? readdirSync(folder).filter(name => /^(import|export)-/.test(name)) : []
  expect(left).toEqual([])
  expect((await server.stop()).code).toBe(0)
})

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${server.base}/v1/pools/${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } })

/** The rows of a pool, sorted, without the received time; JSON as its value. */
async function rowsOf(name: string): Promise<unknown[]> {
  const table = tableFromIPC(new Uint8Array(await (await get(`${name}/arrow`)).arrayBuffer()))
  return table
    .toArray()
    .map(row => {
      const { _service_received_at: _, _service_payload: payload, j, ...others } = row.toJSON()
      return JSON.stringify(
        { ...others, payload: JSON.parse(payload), j: j === null ? null : JSON.parse(j) },
        (_key, value) => (typeof value === 'bigint' ? String(value) : value),
      )
    })
    .sort()
}

test.each(['ndjson', 'csv', 'parquet'])('%s goes out and comes back with the same rows', async format => {
  const answer = await get(`given/export?format=${format}`)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-disposition')).toBe(`attachment; filename="given.${format}"`)
  const body = new Uint8Array(await answer.arrayBuffer())
  rounds += 1
  const copy = await createPool(`copy-${rounds}`)
  const back = await ask(portOf(server), `/v1/pools/${copy.poolId}/import`, {
    body: gzipSync(body),
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': answer.headers.get('content-type') ?? '',
      'content-encoding': 'gzip',
    },
  })
  expect(back.json).toMatchObject({ rows: 1_224, accepted: 1_224, rejected: 0, refused: [] })
  expect(await rowsOf(`copy-${rounds}`)).toEqual(await rowsOf('given'))
})

test.each(['csv', 'parquet'])('%s of chosen columns comes back by the names of the columns', async format => {
  const answer = await get(`given/export?format=${format}&columns=at,key,n,f,b,d,city,j`)
  const body = new Uint8Array(await answer.arrayBuffer())
  rounds += 1
  const copy = await createPool(`copy-${rounds}`)
  const headers = { authorization: `Bearer ${token}` }
  const back = await ask(portOf(server), `/v1/pools/${copy.poolId}/import?format=${format}`, {
    body,
    headers,
  })
  expect(back.json).toMatchObject({ rows: 1_224, accepted: 1_224, refused: [] })
  const plain = (rows: unknown[]) => rows.map(row => ({ ...JSON.parse(row as string), payload: 0 }))
  expect(plain(await rowsOf(`copy-${rounds}`))).toEqual(plain(await rowsOf('given')))
})

test.each(['csv', 'parquet'])(
  '%s whose columns share a property, or swap names, goes by its payloads',
  async format => {
    const headers = { authorization: `Bearer ${token}` }
    const columns = [
      column('id', 'STRING'),
      column('a', 'STRING', true, 'b'),
      column('b', 'STRING', true, 'a'),
      column('c', 'STRING', true, 'a'),
      column('j', 'JSON', true),
    ]
    const [from, to] = await Promise.all(
      ['from', 'to'].map(name =>
        server.createPool({ uniqueName: `swap-${name}-${format}`, columns, uniqueId: 'id' }),
      ),
    )
    expect((await send(from!.url, [{ id: '1', a: 'of a', b: 'of b', j: 1 }])).status).toBe(200)
    const copy = async (wanted: string) => {
      const answer = await get(`${from!.poolId}/export?format=${format}${wanted}`)
      const body = new Uint8Array(await answer.arrayBuffer())
      return ask(portOf(server), `/v1/pools/${to!.poolId}/import?format=${format}`, { body, headers })
    }
    expectProblem(await copy('&columns=id,a,b'), 400, 'bad_header')
    expect(await server.count(to!.poolId)).toBe('0')
    expect((await copy('')).json).toMatchObject({ rows: 1, accepted: 1 })
    expect(await rowsOf(to!.poolId)).toEqual(await rowsOf(from!.poolId))
  },
)

test('CSV of one column keeps its nulls, and tells them from empty texts', async () => {
  const columns = [column('s', 'STRING', true)]
  const [from, to] = await Promise.all(
    ['nulls', 'nulls-copy'].map(uniqueName => server.createPool({ uniqueName, columns })),
  )
  const events = [{ s: 'x' }, {}, { s: '' }, { s: 'y' }, {}]
  expect((await send(from!.url, events)).status).toBe(200)
  const exported = async (of: TestPool) => (await get(`${of.poolId}/export?format=csv&columns=s`)).text()
  const body = await exported(from!)
  expect(body).toBe('s\r\nx\r\n\r\n""\r\ny\r\n\r\n')
  const path = `/v1/pools/${to!.poolId}/import?format=csv`
  const back = await ask(portOf(server), path, { body, headers: { authorization: `Bearer ${token}` } })
  expect(back.json).toMatchObject({ rows: 5, accepted: 5 })
  expect(await exported(to!)).toBe(body)
})

test('filters, a range and an empty result', async () => {
  const filters = encodeURIComponent('[{"column":"n","operator":"GREATER_THAN","value":"1200"}]')
  const some = await (await get(`given/export?format=ndjson&columns=n&filters=${filters}`)).text()
  const wanted = EVENTS.filter(({ n = 0 }) => n > 1200).map(({ n }) => `{"n":${n}}`)
  expect(some.trimEnd().split('\n').sort()).toEqual(wanted.sort())
  const none = `given/export?columns=n,key&start=2027-01-01&stop=2028-01-01&format=`
  expect(await (await get(`${none}ndjson`)).text()).toBe('')
  expect(await (await get(`${none}csv`)).text()).toBe('n,key\r\n')
  expect((await (await get(`${none}parquet`)).arrayBuffer()).byteLength).toBeGreaterThan(8)
})

test.each([
  ['given/export', 400, 'bad_parameter'],
  ['given/export?format=xml', 400, 'bad_parameter'],
  ['given/export?format=csv&format=csv', 400, 'bad_parameter'],
  ['given/export?format=csv&other=1', 400, 'bad_parameter'],
  ['given/export?format=csv&columns=nothing', 400, 'bad_parameter'],
  ['nobody/export?format=csv', 404, 'unknown_pool'],
])('%s is refused', async (path, status, code) => {
  const authorization = `Bearer ${token}`
  expectProblem(
    await ask(portOf(server), `/v1/pools/${path}`, { method: 'GET', headers: { authorization } }),
    status,
    code,
  )
})
