/**
 * Received-at is the key's timestamp in a pool with a unique id and no timestamp of its own: two
 * events with the same one would become one row. Here the wall clock stands still, or goes back at
 * each start, and no event is lost: neither of many requests, nor of one.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  fetchToken,
  removeLeftovers,
  send,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { clockEnv } from '../util/set-clock.ts'
import { column, where } from './client.ts'

const NOON_MS = Date.UTC(2026, 4, 6, 12)
const HOUR_MS = 3_600_000
const CONNECTIONS = 64

afterAll(removeLeftovers)

const POOL = { columns: [column('id', 'STRING')], uniqueId: 'id' }

/**
 * Posts single events with few ids from many connections. Returns how many were acknowledged.
 */
async function postMany(server: TestServer, pool: TestPool, each: number): Promise<number> {
  let acknowledged = 0
  const producer = async () => {
    for (let n = 0; n < each; n++) {
      const { status } = await send(urlOf(server, pool), { id: `k${n % 3}` })
      if (status === 200) acknowledged += 1
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, producer))
  return acknowledged
}

/**
 * Posts batches whose events share few ids, in the forms that a body may have. Returns the number
 * of acknowledged events.
 */
async function postBatches(server: TestServer, pool: TestPool, each: number): Promise<number> {
  let acknowledged = 0
  const producer = async (connection: number) => {
    for (let n = 0; n < each; n++) {
      const events = Array.from({ length: 1 + ((connection + n) % 40) }, (_, i) => ({ id: `k${i % 2}` }))
      const text = `${n % 2 === 0 ? '' : ' '}${JSON.stringify(events)}`
      const isGzip = connection % 4 === 0
      const { status } = await fetch(urlOf(server, pool), {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(isGzip ? { 'content-encoding': 'gzip' } : {}) },
        body: isGzip ? gzipSync(text) : text,
      })
      if (status === 200) acknowledged += events.length
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, connection) => producer(connection)))
  return acknowledged
}

/** The port changes with each start. */
function urlOf(server: TestServer, pool: TestPool): string {
  return server.base + new URL(pool.url).pathname
}

/** The received-at of all rows in µs, sorted. */
async function receivedUs(server: TestServer, pool: TestPool): Promise<bigint[]> {
  const token = await fetchToken(server.base, server.dataDir)
  const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/arrow?columns=_service_received_at`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
  const values = table.batches.flatMap(({ data }) => [...(data.children[0]!.values as BigInt64Array)])
  return values.sort((a, b) => (a < b ? -1 : 1))
}

/** One folder over the lives of its server. The clock stands still, and each start sets it back. */
const dataDir = join(temporaryFolder(), 'data')
let server: TestServer
const start = async (atMs: number) => {
  server = await startServer({ dataDir, env: clockEnv({ atMs }) })
}
beforeAll(() => start(NOON_MS))

test('an export of such a pool, imported again, stores each row', async () => {
  const pool = await server.createPool(POOL)
  const rows = 600
  for (let n = 0; n < rows; n += 100)
    await send(
      pool.url,
      Array.from({ length: 100 }, () => ({ id: 'same' })),
    )
  const token = await fetchToken(server.base, server.dataDir)
  const headers = { authorization: `Bearer ${token}` }
  for (const [round, format] of ['ndjson', 'csv', 'parquet'].entries()) {
    const path = `${server.base}/v1/pools/${pool.poolId}`
    const file = await fetch(`${path}/export?format=${format}`, { headers })
    const body = Buffer.from(await file.arrayBuffer())
    const answer = await fetch(`${path}/import?format=${format}`, { method: 'POST', headers, body })
    expect([answer.status, await answer.json()]).toMatchObject([
      200,
      { accepted: rows * 2 ** round, rejected: 0 },
    ])
    expect(await server.count(pool.poolId), format).toBe(String(rows * 2 ** (round + 1)))
  }
  const received = await receivedUs(server, pool)
  expect(new Set(received).size).toBe(received.length)
})

test('a DELETE with a received-at of six digits hits the one record that a filter with it finds', async () => {
  const pool = await server.createPool(POOL)
  for (let n = 0; n < 4; n++) expect((await send(pool.url, { id: 'same' })).status).toBe(200)
  const third = '2026-05-06T12:00:00.000002Z'
  const look = async () => [
    await server.count(pool.poolId),
    await server.count(pool.poolId, where('_service_received_at', 'EQUALS', third)),
    await server.count(pool.poolId, where('_service_received_at', 'GREATER_THAN', third)),
  ]
  expect(await look()).toEqual(['4', '1', '1'])
  const gone = await send(pool.url, { _service_received_at: third, id: 'same' }, 'DELETE')
  expect(gone.status).toBe(200)
  expect(await look()).toEqual(['3', '0', '1'])
  const received = await receivedUs(server, pool)
  expect(received.map(us => Number(us - 1000n * BigInt(NOON_MS)))).toEqual([0, 1, 3])
})

test('every event is stored: single ones of many connections, batches with one id, over kills, starts and a clock set back', async () => {
  const single = await server.createPool(POOL)
  const rising = await server.createPool(POOL)
  const ordered = await server.createPool({
    columns: [column('id', 'STRING')],
    tableSettings: { orderBy: ['id', '_service_received_at'] },
  })
  const two = await send(rising.url, [{ id: 'a' }, { id: 'a' }])
  expect([two.status, await server.count(rising.poolId)]).toEqual([200, '2'])
  const pools = [
    { pool: single, acknowledged: 0, post: postMany },
    { pool: rising, acknowledged: 2, post: postBatches },
    { pool: ordered, acknowledged: 0, post: postBatches },
  ]
  const postAndCount = async () => {
    for (const one of pools) {
      one.acknowledged += await one.post(server, one.pool, 3)
      expect(await server.count(one.pool.poolId)).toBe(String(one.acknowledged))
      one.acknowledged += await one.post(server, one.pool, 1) // these are in the log alone
    }
  }
  await postAndCount()
  await server.kill()
  // The clock goes back an hour: replayed and flushed rows are both later.
  await start(NOON_MS - HOUR_MS)
  await postAndCount()
  expect((await server.stop()).code).toBe(0)
  // Nothing is replayed, and the index is rebuilt.
  rmSync(join(dataDir, 'index'), { recursive: true })
  await start(NOON_MS - 2 * HOUR_MS)
  await postAndCount()
  const first = 1000n * BigInt(NOON_MS)
  for (const { pool, acknowledged } of pools) {
    expect(await server.count(pool.poolId)).toBe(String(acknowledged))
    // One microsecond for each event, and none more. The key of the last pool says no timestamp.
    if (pool === ordered) continue
    const received = await receivedUs(server, pool)
    expect(received).toEqual(Array.from({ length: acknowledged }, (_, n) => first + BigInt(n)))
  }
  expect((await server.stop()).code).toBe(0)
})
