/**
 * The query process is killed in every way, and nothing else of the server notices: acks go on, the
 * queries that ran in it run again, those that waited are answered by the next process.
 */
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  fetchToken,
  queryProcess,
  removeLeftovers,
  send,
  startServer,
  type TestPool,
  type TestServer,
} from '../util/server.ts'

let server: TestServer
/** A pool of texts on it. */
let texts: TestPool

beforeAll(async () => {
  server = await startServer({
    env: { ...NO_CACHE, WEIR_CLIENT_ID: 'dashboards', WEIR_CLIENT_SECRET: SECRET },
  })
  texts = await textPool(server)
})
afterAll(removeLeftovers)

const TEXT_EVENTS = 1_000
const SUM = String((TEXT_EVENTS * (TEXT_EVENTS - 1)) / 2)
const SPEC = {
  columns: [
    { name: 'id', type: 'INT64', jsonProperty: 'id', nullable: false },
    { name: 'text', type: 'STRING', jsonProperty: 'text', nullable: false },
  ],
}
const SECRET = 'a-secret-that-only-the-server-has'
/** Each question asks the query process. */
const NO_CACHE = { WEIR_ANSWER_CACHE_MIB: '0' }
const WAIT = { timeout: 60_000, interval: 5 }

async function metric(server: TestServer, name: string): Promise<number> {
  const page = await (await fetch(`${server.base}/metrics`)).text()
  return Number(
    page
      .split('\n')
      .find(line => line.startsWith(`${name} `))
      ?.slice(name.length),
  )
}

const restarts = (server: TestServer) => metric(server, 'weir_query_process_restarts_total')
const running = (server: TestServer) => metric(server, 'weir_queue_depth{queue="queries_running"}')

/** A pool of `TEXT_EVENTS` long texts. */
async function textPool(server: TestServer): Promise<TestPool> {
  const pool = await server.createPool(SPEC)
  for (let from = 0; from < TEXT_EVENTS; from += 500) {
    const events = Array.from({ length: 500 }, (_, i) => ({
      id: from + i,
      text: `${from} ${i} `.repeat(150),
    }))
    expect((await send(pool.url, events)).status).toBe(200)
  }
  expect(await sum(server, pool)).toBe(SUM)
  return pool
}

/** The sum of a pool's ids. A count of all rows would not ask the query process. */
const sum = (server: TestServer, { poolId }: TestPool) => server.sum(poolId, 'id')

const PATTERNS = Array.from({ length: 16 }, (_, i) => ({
  column: 'text',
  operator: 'NOT_LIKE',
  value: `%${i}%${i + 1}%9 9%8 8%x${i}%`,
}))

/** Queries that take a good part of a second each: their values, or their errors. */
function slowQueries(server: TestServer, { poolId }: TestPool, count: number): Promise<unknown[]> {
  // Equal ones would share a run.
  const ask = (n: number) => {
    const own = { column: 'id', operator: 'GREATER_THAN', value: String(-1 - n) }
    const filters = [{ ...PATTERNS[0], and: [...PATTERNS.slice(1), own] }]
    return server.count(poolId, { filters }).catch((error: unknown) => error)
  }
  return Promise.all(Array.from({ length: count }, (_, n) => ask(n)))
}

/** Posts events until `stop`, which resolves with the number of those that were acknowledged. */
function producer({ url }: TestPool): { stop(): Promise<number> } {
  let stopped = false
  let acked = 0
  const post = async (lane: number) => {
    for (let round = 0; !stopped; round++) {
      const events = Array.from({ length: 100 }, (_, i) => ({ id: (round * 4 + lane) * 100 + i, text: 'a' }))
      expect((await send(url, events)).status).toBe(200)
      acked += events.length
    }
  }
  const lanes = Promise.all([0, 1, 2, 3].map(post))
  return {
    stop: async () => {
      stopped = true
      await lanes
      return acked
    },
  }
}

test('a document of many questions leaves no warning, and its client cancels all of them', async () => {
  const { poolId } = texts
  const four = ['a', 'b', 'c', 'd'].map(name => `\\"${poolId}\\" ${name}`).join(' CROSS JOIN ')
  const slow = (n: number) =>
    `q${n}: sqlV1(input: { query: "SELECT SUM(a.id * b.id * c.id * d.id + ${n}) FROM ${four}" }) { rows }`
  const quick = (n: number) =>
    `q${n}: counter(input: { metric: { sum: { dataPool: { id: "${poolId}" }, measure: { columnName: "id" } } } }) { value }`
  const ask = async (field: (n: number) => string, signal?: AbortSignal) =>
    fetch(`${server.base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` },
      body: JSON.stringify({ query: `{ ${Array.from({ length: 40 }, (_, n) => field(n)).join('\n')} }` }),
      ...(signal === undefined ? {} : { signal }),
    })
  const { data } = (await (await ask(quick)).json()) as { data: Record<string, { value: string }> }
  expect(Object.values(data).map(({ value }) => value)).toEqual(Array.from({ length: 40 }, () => SUM))
  const client = new AbortController()
  const answer = ask(slow, client.signal).catch((error: unknown) => error)
  const waiting = () => metric(server, 'weir_queue_depth{queue="queries_waiting"}')
  await expect.poll(waiting, WAIT).toBeGreaterThan(30)
  client.abort()
  expect(await answer).toMatchObject({ name: 'AbortError' })
  await expect
    .poll(async () => [await running(server), await waiting()], { timeout: 30_000, interval: 5 })
    .toEqual([0, 0])
  expect(server.output()).not.toContain('MaxListenersExceededWarning')
})

test('a query ends when its client disconnects', async () => {
  const { poolId } = texts
  const four = ['a', 'b', 'c', 'd'].map(name => `"${poolId}" ${name}`)
  const query = `SELECT SUM(a.id * b.id * c.id * d.id) FROM ${four.join(' CROSS JOIN ')}`
  const headers = { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` }
  const client = new AbortController()
  const url = `${server.base}/v1/query?${new URLSearchParams({ sql: query })}`
  const answer = fetch(url, { headers, signal: client.signal }).catch((error: unknown) => error)
  await expect.poll(() => running(server), WAIT).toBe(1)
  client.abort()
  expect(await answer).toMatchObject({ name: 'AbortError' })
  // Such a product takes hours, and the time limit of the propeller a minute.
  await expect.poll(() => running(server), { timeout: 30_000, interval: 5 }).toBe(0)
})

test('killed during 16 queries under ingest, again and again: no ack is lost, all are answered', async () => {
  const pool = await server.createPool(SPEC)
  const producing = producer(pool)
  const killed = new Set<number>()
  const before = await restarts(server)
  for (const times of [1, 2]) {
    const asked = slowQueries(server, texts, 16)
    await expect.poll(() => running(server), WAIT).toBe(2)
    const pid = queryProcess(server)!
    process.kill(pid, 'SIGKILL')
    killed.add(pid)
    expect(await asked).toEqual(Array.from({ length: 16 }, () => String(TEXT_EVENTS)))
    expect(await restarts(server)).toBe(before + times)
  }
  const acked = await producing.stop()
  expect(acked).toBeGreaterThan(0)
  expect(await server.count(pool.poolId)).toBe(String(acked))
  expect(killed.size).toBe(2)
  for (const pid of killed)
    expect(server.output()).toMatch(
      new RegExp(`queries fail: the query process ${pid} was ended by SIGKILL; .*starts`),
    )
})

test('killed while idle: another one starts, empties the folder for spilling, and answers', async () => {
  const pid = queryProcess(server)!
  const told = ['environ', 'cmdline'].map(file => readFileSync(`/proc/${pid}/${file}`, 'latin1')).join()
  expect(told).toContain(server.dataDir)
  expect(told).not.toContain(SECRET)
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    const file = (() => {
      try {
        return readlinkSync(`/proc/${pid}/fd/${name}`)
      } catch {
        return ''
      }
    })()
    expect(file).not.toContain(server.dataDir)
  }
  const spilled = join(server.dataDir, 'tmp/query/duckdb_temp_storage_S32K-0.tmp')
  writeFileSync(spilled, 'left behind')
  const extension = join(server.dataDir, 'tmp/query/extension-8UvQ2c')
  mkdirSync(extension)
  symlinkSync('/nowhere', join(extension, 'weir.duckdb_extension'))
  process.kill(pid, 'SIGKILL')
  await expect.poll(() => queryProcess(server) ?? pid, WAIT).not.toBe(pid)
  expect(await sum(server, texts)).toBe(SUM)
  expect([existsSync(spilled), existsSync(extension)]).toEqual([false, false])
})

test('killed while it copies rows for Arrow streams: each is whole, no copy is left', async () => {
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const url = `${server.base}/v1/pools/${texts.poolId}/arrow`
  const read = async () => {
    const answer = await fetch(url, { headers: { authorization } })
    return { status: answer.status, bytes: (await answer.arrayBuffer()).byteLength }
  }
  const whole = await read()
  expect(whole.status).toBe(200)
  const streams = Array.from({ length: 5 }, () => read().catch((error: unknown) => error))
  await expect.poll(() => running(server), WAIT).toBeGreaterThan(0)
  process.kill(queryProcess(server)!, 'SIGKILL')
  expect(await Promise.all(streams)).toEqual(streams.map(() => whole))
  const left = () => readdirSync(join(server.dataDir, 'tmp')).filter(name => name.startsWith('export-'))
  await expect.poll(left, WAIT).toEqual([])
  expect(await read()).toEqual(whole)
})

/** The credentials of a new application with the smallest propeller. */
async function newApplication(name: string): Promise<string> {
  const { data } = await server.graphql<{
    createApplication: { application: { clientId: string; secret: string } }
  }>(
    `mutation { createApplication(input: { uniqueName: "${name}", scopes: [DATA_POOL_QUERY], propeller: P1_X_SMALL }) {
      ... on ApplicationResponse { application { clientId secret } } } }`,
  )
  const { clientId, secret } = data.createApplication.application
  return `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}`
}

test('a stream or an export whose process hears nothing ends at its time, and when its client leaves', async () => {
  const parts = [
    'arrow',
    'export?format=ndjson',
    'export?format=csv',
    'export?format=parquet',
    'arrow at its time',
  ]
  for (const [index, part] of parts.entries()) {
    const authorization = await newApplication(`reader${index}`)
    const pid = queryProcess(server)!
    process.kill(pid, 'SIGSTOP')
    const client = new AbortController()
    const url = `${server.base}/v1/pools/${texts.poolId}/${part.replace(' at its time', '')}`
    const read = async () => {
      const answer = await fetch(url, { headers: { authorization }, signal: client.signal })
      return { status: answer.status, body: await answer.text() }
    }
    const answer = read().catch((error: unknown) => error)
    await expect.poll(() => running(server), WAIT).toBe(1)
    if (url.endsWith(part)) {
      client.abort()
      expect(await answer).toMatchObject({ name: 'AbortError' })
    } else {
      expect(await answer).toMatchObject({ status: 503, body: expect.stringContaining('"code":"timeout"') })
    }
    await expect.poll(() => queryProcess(server) ?? pid, WAIT).not.toBe(pid)
    await expect.poll(() => running(server), WAIT).toBe(0)
    expect(await sum(server, texts)).toBe(SUM)
  }
  const left = () => readdirSync(join(server.dataDir, 'tmp')).filter(name => name.startsWith('export-'))
  await expect.poll(left, WAIT).toEqual([])
})

test('without memory: its queries are answered or UNAVAILABLE, later queries are answered', async () => {
  const before = queryProcess(server)!
  process.kill(before, 'SIGKILL') // a new one has no memory to spare
  await expect.poll(() => queryProcess(server) ?? before, WAIT).not.toBe(before)
  expect(await sum(server, texts)).toBe(SUM)
  const pid = queryProcess(server)!
  const bytes = 1024 * Number(/^VmSize:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  limitMemory(pid, bytes)
  for (const answer of await slowQueries(server, texts, 4))
    if (answer !== String(TEXT_EVENTS)) expect(answer).toMatchObject({ code: 'UNAVAILABLE' })
  if (existsSync(`/proc/${pid}`)) limitMemory(pid, 'unlimited')
  expect(await sum(server, texts)).toBe(SUM)
})

/** Limits the address space of a process: allocations beyond it fail. It may be raised again. */
function limitMemory(pid: number, bytes: number | 'unlimited'): void {
  const limited = spawnSync('prlimit', ['--pid', String(pid), `--as=${bytes}:`])
  expect(limited.status, String(limited.stderr)).toBe(0)
}

test('a signal to all processes of the server during queries: they are answered, then it stops', async () => {
  const asked = slowQueries(server, texts, 8)
  await expect.poll(() => running(server), WAIT).toBe(2)
  const pid = queryProcess(server)!
  process.kill(pid, 'SIGTERM')
  const { code, output } = await server.stop()
  expect(await asked).toEqual(Array.from({ length: 8 }, () => String(TEXT_EVENTS)))
  expect(code).toBe(0)
  expect(output).not.toContain(`process ${pid} was ended`)
  expect(existsSync(`/proc/${pid}`)).toBe(false)
})

test('killed by each query: its application is ended alone, and the process is back at once', async () => {
  const other = await startServer({ args: ['--crash-at', 'query-done'] })
  const pool = await other.createPool(SPEC)
  const ended = 'UNAVAILABLE: the query process ended while it worked on this query: send the query again'
  for (let id = 1; id <= 3; id++) {
    expect((await send(pool.url, { id, text: 'a' })).status).toBe(200)
    await expect(sum(other, pool)).rejects.toMatchObject({ message: ended })
    // Each query ends its process twice; after the first one both are those of the penalty lane.
    expect(await restarts(other)).toBe(2 * id)
  }
  const page = await (await fetch(`${other.base}/metrics`)).text()
  expect(
    Number(/^weir_application_penalty_seconds\{application="\w+"\} (\S+)$/m.exec(page)?.[1]),
  ).toBeGreaterThan(500)
  const { code, output } = await other.stop()
  expect(code).toBe(0)
  const ends = [...output.matchAll(/the (\w+) process \d+ was ended .*; the next \w+ process starts (.*)$/gm)]
  expect(ends.map(([, lane, when]) => `${lane} ${when}`)).toEqual([
    'query at once',
    ...Array.from({ length: 5 }, () => 'penalty at once'),
  ])
})

test('the server is killed during queries: no process of it is left', async () => {
  const other = await startServer()
  const pool = await textPool(other)
  const asked = slowQueries(other, pool, 8)
  await expect.poll(() => running(other), WAIT).toBe(2)
  const pid = queryProcess(other)!
  await other.kill()
  await expect.poll(() => existsSync(`/proc/${pid}`), WAIT).toBe(false)
  await asked
})
