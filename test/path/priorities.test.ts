/**
 * Queries, exports and merges never outrank the acknowledged path: each thread that works for them
 * has a higher nice value than the threads that acknowledge, and the threads of queries a higher
 * one than the flush that the queries wait for.
 *
 * Threads are recognised by the processor time that they used: those of DuckDB and libuv have no
 * names of their own.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MERGE_NICE } from '../../src/database/stages.ts'
import { BACKGROUND_NICE, QUERY_NICE } from '../../src/util/limits.ts'
import {
  fetchToken,
  queryProcess,
  send,
  startServer,
  type TestPool,
  type TestServer,
} from '../util/server.ts'
import { at, events, KEYED, merges, NEVER, OFTEN, post as postTo, until } from './compaction.ts'

/**
 * A thread below this share of all processor time ran a timer, or helped to collect garbage.
 */
const BUSY_SHARE = 0.1
const EVENTS = 500
const REQUESTS = 40

interface Task {
  readonly id: string
  readonly name: string
  readonly nice: number
  readonly ticks: number
}

let server: TestServer
let pool: TestPool

beforeAll(async () => {
  server = await startServer({ env: NEVER })
  pool = await server.createPool({
    columns: [
      { name: 'id', type: 'INT64', jsonProperty: 'id', nullable: false },
      { name: 'text', type: 'STRING', jsonProperty: 'text', nullable: false },
    ],
  })
  for (let request = 0; request < REQUESTS; request++) await post(pool, request)
  await server.sum(pool.poolId, 'id') // a count of all rows would not start the query process
})
afterAll(async () => {
  await server?.stop()
})

async function post({ url }: TestPool, request: number): Promise<void> {
  const events = Array.from({ length: EVENTS }, (_, i) => ({
    id: request * EVENTS + i,
    text: `${request} ${i} `.repeat(150),
  }))
  expect((await send(url, events)).status).toBe(200)
}

function tasksOf(pid: number): Map<string, Task> {
  const tasks = new Map<string, Task>()
  for (const id of readdirSync(`/proc/${pid}/task`)) {
    try {
      const [, name = '', rest = ''] =
        /^\d+ \((.*)\) (.*)$/s.exec(readFileSync(`/proc/${pid}/task/${id}/stat`, 'utf8')) ?? []
      // The fields from the third on: state, …; utime is 14, stime 15, nice 19.
      const fields = rest.split(' ')
      const ticks = Number(fields[11]) + Number(fields[12])
      tasks.set(id, { id, name, nice: Number(fields[16]), ticks })
    } catch {} // the thread has ended
  }
  return tasks
}

/** The threads of server and query process. */
function allTasks(): Map<string, Task> {
  const pids = [server.child.pid, queryProcess(server)] as number[]
  return new Map(pids.flatMap(pid => [...tasksOf(pid)]))
}

/** The threads that used the processor while `work` ran, without the server's main thread. */
async function busyDuring(work: () => Promise<void>): Promise<Task[]> {
  const pid = server.child.pid as number
  const before = allTasks()
  await work()
  const used = [...allTasks().values()].map(task => ({
    ...task,
    ticks: task.ticks - (before.get(task.id)?.ticks ?? 0),
  }))
  const all = used.reduce((sum, { ticks }) => sum + ticks, 0)
  return used.filter(({ id, ticks }) => id !== String(pid) && ticks >= all * BUSY_SHARE)
}

test('the threads that acknowledge have nice 0', () => {
  const tasks = [...tasksOf(server.child.pid as number).values()]
  const acks = tasks.filter(({ name }) => /^weir-(parse|log|spare)/.test(name))
  expect(acks.length).toBeGreaterThanOrEqual(3)
  for (const task of acks) expect(task).toMatchObject({ nice: 0 })
})

test('two heavy queries: every thread that runs them is behind the flush', async () => {
  const patterns = Array.from({ length: 16 }, (_, i) => ({
    column: 'text',
    operator: 'NOT_LIKE',
    value: `%${i}%${i + 1}%9 9%8 8%x${i}%`,
  }))
  const filters = [{ ...patterns[0], and: patterns.slice(1) }]
  const busy = await busyDuring(async () => {
    const untilMs = performance.now() + 2_000
    const ask = async () => {
      while (performance.now() < untilMs)
        expect(await server.count(pool.poolId, { filters })).toBe(String(EVENTS * REQUESTS))
    }
    await Promise.all([ask(), ask()])
  })
  expect(QUERY_NICE).toBeGreaterThan(BACKGROUND_NICE)
  expect(busy.length).toBeGreaterThanOrEqual(2) // DuckDB's own thread and that of the query process
  for (const task of busy) expect(task, JSON.stringify(busy)).toMatchObject({ nice: QUERY_NICE })
})

test('rows that leave as Arrow: every thread that reads or encodes them, too', async () => {
  const token = await fetchToken(server.base, server.dataDir)
  const busy = await busyDuring(async () => {
    const untilMs = performance.now() + 2_000
    while (performance.now() < untilMs) {
      const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/arrow`, {
        headers: { authorization: `Bearer ${token}` },
      })
      expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(1_000_000)
    }
  })
  // The main thread hands finished bytes to the socket, at times for a tenth of all processor time.
  const working = busy.filter(({ id }) => id !== String(server.child.pid))
  expect(working.length).toBeGreaterThanOrEqual(1)
  for (const task of working) expect(task, JSON.stringify(busy)).toMatchObject({ nice: QUERY_NICE })
})

test('merges: they go after everything else, and the threads that DuckDB borrows for them are behind the flush', async () => {
  const { dataDir } = server
  let keyed = await server.createPool(KEYED)
  for (const [count, n] of [
    [5_000, 1],
    [2_500, 2],
  ] as const) {
    for (let from = 0; from < count; from += EVENTS) await postTo(keyed, events(from, from + EVENTS, n))
    await server.count(keyed.poolId)
    await server.kill() // the flusher forgets its recent flushes
    server = await startServer({ dataDir, env: n === 1 ? NEVER : OFTEN })
    keyed = at(server, keyed)
  }
  await until('a merge is through', async () => (await merges(server)) > 0)
  const tasks = [...tasksOf(server.child.pid as number).values()]
  const merging = tasks.filter(({ name }) => name === 'weir-merge')
  expect(merging.map(({ nice }) => nice)).toEqual([MERGE_NICE])
  const borrowed = tasks.filter(({ name, nice }) => !name.startsWith('weir-') && nice === QUERY_NICE)
  expect(borrowed.length).toBeGreaterThanOrEqual(4) // libuv's pool
})
