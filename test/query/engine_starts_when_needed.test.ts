/** The server's engine starts its worker once: with the first query, or when it is warmed. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createQueryEngine, type EngineOptions, type LazyEngine } from '../../src/query/engine-client.ts'
import { schemaOf, TestPool } from './pool.ts'

const schema = schemaOf([['n', 'INT64']])
let pool: TestPool
let faults: Error[]

beforeEach(() => {
  pool = new TestPool()
  faults = []
})
afterEach(() => pool.close())

function create(options: Partial<EngineOptions> = {}): LazyEngine {
  return createQueryEngine({
    segmentFolder: pool.segmentFolder,
    temporaryFolder: pool.temporaryFolder,
    threads: 2,
    crashAt: '',
    onFatal: error => faults.push(error),
    ...options,
  })
}

async function count(engine: LazyEngine) {
  const segments = [await pool.segment(schema, [{ n: 1n }, { n: 2n }])]
  const statement = { sql: 'SELECT COUNT(*) FROM rows', bounds: [] }
  return (await engine.run({ schema, segments, statement, rowsMax: 10 }, 'a')).rows
}

test('the first query starts the worker, and waits for it', async () => {
  const engine = create()
  expect(await count(engine)).toEqual([['2']])
  engine.warm() // it runs already
  expect(await count(engine)).toEqual([['2']])
  await engine.stop()
  expect(faults).toEqual([])
})

test('a query while the worker starts is answered by that worker', async () => {
  const engine = create()
  engine.warm()
  expect(await count(engine)).toEqual([['2']])
  await engine.stop()
  expect(faults).toEqual([])
})

test('an unused engine stops at once, and a starting one stops in order', async () => {
  await create().stop()
  const engine = create()
  engine.warm()
  await engine.stop()
  await expect(count(engine)).rejects.toMatchObject({ name: 'Unavailable', code: 'stopping' })
  expect(faults).toEqual([])
})

test('a worker that cannot start is a fault, told once, and its query is answered', async () => {
  const engine = create({ threads: 1e15 })
  await expect(count(engine)).rejects.toMatchObject({ name: 'Unavailable', code: 'query_worker' })
  await expect(count(engine)).rejects.toMatchObject({ name: 'Unavailable', code: 'query_worker' })
  await engine.stop()
  expect(faults).toHaveLength(1)
})
