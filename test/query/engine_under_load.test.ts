import { afterEach, beforeEach, expect, test } from 'vitest'
import { rowsOfPool, type SegmentEngine, type SegmentTask } from '../../src/query/plan/segment-task.ts'
import { FairQueue } from '../../src/util/fair-queue.ts'
import { QUERY_WAITING_BYTES_MIN } from '../../src/util/limits.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const schema = schemaOf([['n', 'INT64']])
const HEAVY = 'SELECT COUNT(*) FROM range(1000000000000) a, rows'
/** Far beyond the time of a small query on a busy machine. The heavy queries take minutes. */
const QUERY_MS = 3_000
/** For a slot that is busy: no second query begins beside the first one on a busy machine. */
const FOREVER_MS = 600_000
let pool: TestPool
let task: (sql?: string) => SegmentTask

beforeEach(async () => {
  pool = new TestPool()
  const segments = [withDeletionVectors(await pool.segment(schema, [{ n: 1n }, { n: 2n }]), [0])]
  task = (sql = 'SELECT COUNT(*) FROM rows') => ({
    source: rowsOfPool(schema, { segments }),
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

test('W-9 applications share the room of the queue, and a waiting query has a time limit too', async () => {
  const options = { runningMax: 1, waitingBytesMax: 4.5 * QUERY_WAITING_BYTES_MIN }
  const engine = await pool.open({ ...options, queryMsMax: QUERY_MS })
  const full = { name: 'Unavailable', code: 'queue_full' }
  const heavy = [0, 1].map(() => engine.run(task(HEAVY), 'a'))
  const settled = Promise.allSettled(heavy)
  await expect(engine.run(task(), 'a')).rejects.toMatchObject(full)
  const other = Promise.allSettled([engine.run(task(), 'b')])
  expect(engine.stats()).toEqual({ running: 1, waiting: 2 })
  // The place of the first one may come free just before the others give up.
  for (const each of await settled)
    expect(each).toMatchObject({ reason: { code: expect.stringMatching(/^(queue_)?timeout$/) } })
  await other
  for (const key of ['a', 'b']) expect((await engine.run(task(), key)).rows).toEqual([['1']])
})

test('W-9 a query that waits for checksums takes its room too', async () => {
  let settle = () => {}
  const checked = new Promise<void>(resolve => {
    settle = resolve
  })
  const waitingBytesMax = 4.5 * QUERY_WAITING_BYTES_MIN
  const engine = await pool.open({ waitingBytesMax, ensureWhole: () => checked })
  const waiting = ['a', 'a', 'b'].map(key => engine.run(task(), key))
  await expect(engine.run(task(), 'a')).rejects.toMatchObject({ code: 'queue_full' })
  settle()
  for (const each of waiting) expect((await each).rows).toEqual([['1']])
})

test('applications take turns', async () => {
  const engine = await pool.open({ runningMax: 1, shortMs: FOREVER_MS })
  const order: string[] = []
  const ask = (key: string) => engine.run(task(), key).then(() => order.push(key))
  await Promise.all(['a', 'a', 'a', 'a', 'b', 'b', 'c'].map(ask))
  expect(order.join('')).toBe('aabcaba')
})

test('the fair queue serves its keys in turns', () => {
  const queue = new FairQueue<number>()
  for (const each of [1, 2, 3]) queue.push('a', each)
  queue.push('b', 4)
  queue.remove('a', 2)
  queue.remove('nobody', 2)
  expect(queue.size).toBe(3)
  expect([0, 0, 0, 0].map(() => queue.tryShift())).toEqual([1, 4, 3, undefined])
  expect(queue.size).toBe(0)
})

test('a stop interrupts running queries and refuses waiting ones', async () => {
  const engine: SegmentEngine = await pool.open({ runningMax: 1 })
  const answers = [engine.run(task(HEAVY), 'a'), engine.run(task(), 'a')]
  const settled = Promise.allSettled(answers)
  await engine.stop()
  for (const each of await settled)
    expect(each).toMatchObject({ reason: { name: 'Unavailable', code: 'stopping' } })
  await expect(engine.run(task(), 'a')).rejects.toMatchObject({ code: 'stopping' })
  await engine.stop()
})
