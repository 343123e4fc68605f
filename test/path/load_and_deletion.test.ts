/**
 * Many connections, queries beside ingest, deletions under load, the rate limit. Nothing here
 * measures speed.
 */
import { Agent } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, expectProblem, pathOf, portOf, post } from './client.ts'

const columns = [column('ts', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')]
const keyed = { columns, timestamp: 'ts', uniqueId: 'id' }
const batch = (prefix: string, count: number) =>
  JSON.stringify(Array.from({ length: count }, (_, i) => ({ ts: '2026-01-01', id: `${prefix}-${i}`, n: 1 })))

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

test('256 connections in a closed loop: every request is a 200, every event is there', async () => {
  const pool = await server.createPool(keyed)
  const connections = 256
  const each = 8
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const statuses: number[] = []
  const loop = async (connection: number) => {
    for (let i = 0; i < each; i++)
      statuses.push((await post(server, pool, batch(`${connection}-${i}`, 20), { agent })).status)
  }
  await Promise.all(Array.from({ length: connections }, (_, connection) => loop(connection)))
  agent.destroy()
  expect(statuses.filter(status => status !== 200)).toEqual([])
  expect(await server.count(pool.poolId)).toBe(String(connections * each * 20))
})

test('eight heavy queries at once during ingest: acks go on while all eight are under way', async () => {
  const [queried, fed] = [
    await server.createPool({ ...keyed, columns: [...columns, column('pad', 'STRING')] }),
    await server.createPool(keyed),
  ]
  const pad = 'The quick brown fox jumps over the lazy dog, and back again. '.repeat(8)
  const rows = 20_000
  for (let from = 0; from < rows; from += 500) {
    const events = Array.from({ length: 500 }, (_, i) => ({
      ts: '2026-01-01',
      id: `e${from + i}`,
      n: 1,
      pad: `${pad}${from + i}`, // equal texts would be searched once
    }))
    expect((await post(server, queried, events)).status).toBe(200)
  }
  // Flushes, so that the queries below run at once.
  expect(await server.count(queried.poolId)).toBe(String(rows))
  // Each query searches every text: that takes some tenths of a second for one query alone.
  const filters = Array.from({ length: 40 }, (_, i) => ({
    column: 'pad',
    operator: 'NOT_LIKE',
    value: `%no such words ${i}%`,
  }))
  let running = 0
  let acked = 0
  let during = 0
  // A round whose queries ended too early shows nothing. Then another round follows.
  for (let round = 0; round < 10 && during < 5; round++) {
    during = 0
    const queries = Array.from({ length: 8 }, async () => {
      running++
      expect(await server.count(queried.poolId, { filters }).finally(() => running--)).toBe(String(rows))
    })
    const answers = Promise.all(queries)
    answers.catch(() => undefined) // awaited below
    while (running > 0) {
      const all = running === 8
      expect((await post(server, fed, batch(`a${acked}`, 20))).status).toBe(200)
      acked++
      // Sent and acknowledged while none of the eight was answered.
      if (all && running === 8) during++
    }
    await answers
  }
  expect(during).toBeGreaterThanOrEqual(5)
  expect(await server.count(fed.poolId)).toBe(String(acked * 20))
})

/**
 * Posts from several connections while `remove` runs. No post that begins after its answer is a
 * 2xx.
 */
async function postsDuring(pool: TestPool, remove: () => Promise<void>): Promise<number[]> {
  let isGone = false
  const after: number[] = []
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const loop = async (connection: number) => {
    for (let i = 0; after.length < 64; i++) {
      const { status } = await post(server, pool, batch(`${connection}-${i}`, 50), { agent })
      if (isGone) after.push(status)
      else expect([200, 404]).toContain(status)
    }
  }
  const loops = Array.from({ length: 16 }, (_, connection) => loop(connection))
  for (let i = 0; i < 5; i++) expect((await post(server, pool, batch(`warm${i}`, 50))).status).toBe(200)
  await remove()
  isGone = true
  await Promise.all(loops)
  agent.destroy()
  return after
}

test.each(['deleteDataPool', 'deleteDataSource'])(
  'after the answer of %s no post is a 2xx',
  async mutation => {
    for (let round = 0; round < 3; round++) {
      const pool = await server.createPool(keyed)
      const id = mutation === 'deleteDataPool' ? pool.poolId : pool.sourceId
      const after = await postsDuring(pool, async () => {
        const { errors } = await server.graphql(`mutation { ${mutation}(id: "${id}") }`)
        expect(errors).toBeUndefined()
      })
      expect(new Set(after)).toEqual(new Set([404]))
      expectProblem(await post(server, pool, batch('x', 1), { method: 'DELETE' }), 404, 'unknown_webhook')
    }
    expect((await ask(portOf(server), '/readyz', { method: 'GET' })).status).toBe(200)
  },
)

test('a pool answers as soon as its creation was answered', async () => {
  for (let round = 0; round < 10; round++) {
    const pool = await server.createPool(keyed)
    expect((await post(server, pool, batch('first', 1))).status).toBe(200)
  }
})

test('--rate-limit: more events a second than that are 429 with Retry-After, and other pools go on', async () => {
  const limited = await startServer({ args: ['--rate-limit', '10'] })
  const pool = await limited.createPool(keyed)
  const other = await limited.createPool(keyed)
  let refused = 0
  let stored = 0
  for (let i = 0; i < 20; i++) {
    const answer = await post(limited, pool, batch(`r${i}`, 10))
    if (answer.status === 200) stored += 10
    else {
      expectProblem(answer, 429, 'rate_limited')
      expect(answer.json.retryable).toBe(true)
      expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
      refused++
    }
  }
  expect(refused).toBeGreaterThan(0)
  expect(stored).toBeGreaterThan(0)
  expect((await post(limited, other, batch('o', 10))).status).toBe(200)
  expect(await limited.count(pool.poolId)).toBe(String(stored))
  expect(pathOf(pool)).not.toBe(pathOf(other))
  await limited.stop()
})
