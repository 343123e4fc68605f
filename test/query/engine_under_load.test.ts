import { afterEach, beforeEach, expect, test } from 'vitest'
import { FairQueue } from '../../src/query/fair-queue.ts'
import type { QueryEngine, QueryJob } from '../../src/query/protocol.ts'
import { planOf, TestPool, withMarks } from './pool.ts'

const plan = planOf([['n', 'INT64']])
const HEAVY = 'SELECT COUNT(*) FROM range(10000000000) a, rows'
/** Far beyond what a small query takes on a busy machine; the heavy ones take minutes. */
const QUERY_MS = 3_000
let pool: TestPool
let job: (sql?: string) => QueryJob

beforeEach(async () => {
  pool = new TestPool()
  const segments = [withMarks(await pool.segment(plan, [{ n: 1n }, { n: 2n }]), [0])]
  job = (sql = 'SELECT COUNT(*) FROM rows') => ({
    plan,
    segments,
    statement: { sql, bounds: [] },
    rowsMax: 10,
  })
})
afterEach(() => pool.close())

test('a query that takes too long is interrupted, the next one runs', async () => {
  const engine = await pool.open({ queryMsMax: QUERY_MS })
  await expect(engine.run(job(HEAVY), 'a')).rejects.toMatchObject({ name: 'Unavailable', code: 'timeout' })
  expect((await engine.run(job(), 'a')).rows).toEqual([['1']])
  expect(engine.stats()).toEqual({ running: 0, waiting: 0 })
})

test('W-9 the queue is bounded, and waiting ends too', async () => {
  const engine = await pool.open({ queryMsMax: QUERY_MS, runningMax: 1, waitingMax: 2 })
  const heavy = [0, 1, 2].map(() => engine.run(job(HEAVY), 'a'))
  const settled = Promise.allSettled(heavy)
  expect(engine.stats()).toEqual({ running: 1, waiting: 2 })
  await expect(engine.run(job(), 'b')).rejects.toMatchObject({ name: 'Unavailable', code: 'queue_full' })
  for (const each of await settled) expect(each).toMatchObject({ reason: { code: 'timeout' } })
  expect((await engine.run(job(), 'b')).rows).toEqual([['1']])
})

test('applications take turns', async () => {
  const engine = await pool.open({ runningMax: 1 })
  const order: string[] = []
  const ask = (key: string) => engine.run(job(), key).then(() => order.push(key))
  await Promise.all(['a', 'a', 'a', 'a', 'b', 'b', 'c'].map(ask))
  expect(order.join('')).toBe('aabcaba')
})

test('the queue itself', () => {
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

test('stopping interrupts what runs and refuses what waits', async () => {
  const engine: QueryEngine = await pool.open({ runningMax: 1 })
  const answers = [engine.run(job(HEAVY), 'a'), engine.run(job(), 'a')]
  const settled = Promise.allSettled(answers)
  await engine.stop()
  for (const each of await settled)
    expect(each).toMatchObject({ reason: { name: 'Unavailable', code: 'stopping' } })
  await expect(engine.run(job(), 'a')).rejects.toMatchObject({ code: 'stopping' })
  await engine.stop()
})
