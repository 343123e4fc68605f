import { afterEach, beforeEach, expect, test } from 'vitest'
import type { QueryEngine, QueryTask } from '../../src/query/plan/query-task.ts'
import { FairQueue } from '../../src/util/fair-queue.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const schema = schemaOf([['n', 'INT64']])
const HEAVY = 'SELECT COUNT(*) FROM range(1000000000000) a, rows'
/** Far beyond the time of a small query on a busy machine. The heavy queries take minutes. */
const QUERY_MS = 3_000
let pool: TestPool
let task: (sql?: string) => QueryTask

beforeEach(async () => {
  pool = new TestPool()
  const segments = [withDeletionVectors(await pool.segment(schema, [{ n: 1n }, { n: 2n }]), [0])]
  task = (sql = 'SELECT COUNT(*) FROM rows') => ({
    schema,
    segments,
    statement: { sql, bounds: [] },
    rowsMax: 10,
  })
})
afterEach(() => pool.close())

test('a query that takes too long is interrupted, and the next one runs', async () => {
  const engine = await pool.open({ queryMsMax: QUERY_MS })
  await expect(engine.run(task(HEAVY), 'a')).rejects.toMatchObject({ name: 'Unavailable', code: 'timeout' })
  expect((await engine.run(task(), 'a')).rows).toEqual([['1']])
  expect(engine.stats()).toEqual({ running: 0, waiting: 0 })
})

test('a query whose client has gone ends at once, whether it runs or waits', async () => {
  const engine = await pool.open({ queryMsMax: 250_000, runningMax: 1 })
  const [first, second] = [new AbortController(), new AbortController()]
  const gone = { name: 'Unavailable', code: 'client_gone' }
  const running = engine.run(task(HEAVY), 'a', undefined, first.signal)
  const waiting = engine.run(task(HEAVY), 'a', undefined, second.signal)
  expect(engine.stats()).toEqual({ running: 1, waiting: 1 })
  second.abort()
  await expect(waiting).rejects.toMatchObject(gone)
  first.abort()
  await expect(running).rejects.toMatchObject(gone)
  await expect(engine.run(task(), 'a', undefined, first.signal)).rejects.toMatchObject(gone)
  expect((await engine.run(task(), 'a')).rows).toEqual([['1']])
  expect(engine.stats()).toEqual({ running: 0, waiting: 0 })
})

test('W-9 the queue is bounded, and a waiting query has a time limit too', async () => {
  const engine = await pool.open({ queryMsMax: QUERY_MS, runningMax: 1, waitingMax: 2 })
  const heavy = [0, 1, 2].map(() => engine.run(task(HEAVY), 'a'))
  const settled = Promise.allSettled(heavy)
  expect(engine.stats()).toEqual({ running: 1, waiting: 2 })
  await expect(engine.run(task(), 'b')).rejects.toMatchObject({ name: 'Unavailable', code: 'queue_full' })
  // The place of the first one may come free just before the others give up.
  for (const each of await settled)
    expect(each).toMatchObject({ reason: { code: expect.stringMatching(/^(queue_)?timeout$/) } })
  expect((await engine.run(task(), 'b')).rows).toEqual([['1']])
})

test('applications take turns', async () => {
  const engine = await pool.open({ runningMax: 1 })
  const order: string[] = []
  const ask = (key: string) => engine.run(task(), key).then(() => order.push(key))
  await Promise.all(['a', 'a', 'a', 'a', 'b', 'b', 'c'].map(ask))
  expect(order.join('')).toBe('aabcaba')
})

test('the fair queue serves its keys in turns', () => {
  const queue = new FairQueue<number>(4)
  expect([1, 2, 3].map(each => queue.tryPush('a', each))).toEqual([true, true, true])
  expect(queue.tryPush('b', 4)).toBe(true)
  expect(queue.tryPush('b', 5)).toBe(false)
  queue.remove('a', 2)
  queue.remove('nobody', 2)
  expect(queue.size).toBe(3)
  expect([0, 0, 0, 0].map(() => queue.tryShift())).toEqual([1, 4, 3, undefined])
  expect(queue.size).toBe(0)
})

test('a stop interrupts running queries and refuses waiting ones', async () => {
  const engine: QueryEngine = await pool.open({ runningMax: 1 })
  const answers = [engine.run(task(HEAVY), 'a'), engine.run(task(), 'a')]
  const settled = Promise.allSettled(answers)
  await engine.stop()
  for (const each of await settled)
    expect(each).toMatchObject({ reason: { name: 'Unavailable', code: 'stopping' } })
  await expect(engine.run(task(), 'a')).rejects.toMatchObject({ code: 'stopping' })
  await engine.stop()
})
