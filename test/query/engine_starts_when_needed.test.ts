/** The server's engine starts its process once: with the first query, or when it is warmed. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { EngineClient, type EngineOptions } from '../../src/query/duckdb/engine-client.ts'
import { rowsOfPool } from '../../src/query/plan/segment-task.ts'
import { schemaOf, TestPool } from './pool.ts'

const schema = schemaOf([['n', 'INT64']])
let pool: TestPool
let crashes: number

beforeEach(() => {
  pool = new TestPool()
  crashes = 0
})
afterEach(() => pool.close())

function create(options: Partial<EngineOptions> = {}): EngineClient {
  return new EngineClient({
    segmentFolder: pool.segmentFolder,
    temporaryFolder: pool.temporaryFolder,
    threads: 2,
    crashAt: '',
    ensureWhole: () => undefined,
    onCrash: () => {
      crashes += 1
    },
    ...options,
  })
}

async function count(engine: EngineClient) {
  const segments = [await pool.segment(schema, [{ n: 1n }, { n: 2n }])]
  const statement = { sql: 'SELECT COUNT(*) FROM rows', bounds: [] }
  return (await engine.run({ source: rowsOfPool(schema, { segments }), statement, rowsMax: 10 }, 'a')).rows
}

test('the first query starts the process, and waits for it', async () => {
  const engine = create()
  expect(await count(engine)).toEqual([['2']])
  engine.warm() // it runs already
  expect(await count(engine)).toEqual([['2']])
  await engine.stop()
  expect(crashes).toBe(0)
})

test('a query while the process starts is answered by that process', async () => {
  const engine = create()
  engine.warm()
  expect(await count(engine)).toEqual([['2']])
  await engine.stop()
  expect(crashes).toBe(0)
})

test('an unused engine stops at once, and a starting one stops in order', async () => {
  await create().stop()
  const engine = create()
  engine.warm()
  await engine.stop()
  await expect(count(engine)).rejects.toMatchObject({ name: 'Unavailable', code: 'stopping' })
  expect(crashes).toBe(0)
})

test('a process that cannot start: its queries are answered, and later ones try again', async () => {
  const engine = create({ threads: 1e15 })
  for (const tries of [1, 2, 3]) {
    const failed = {
      name: 'Unavailable',
      code: 'query_process',
      message: expect.stringMatching(/cannot start: .*cast.*$/),
    }
    await expect(count(engine)).rejects.toMatchObject(failed)
    expect(crashes).toBe(tries)
  }
  await engine.stop()
})

test('a process that cannot start ends an opening', async () => {
  await expect(pool.open({ threads: 1e15 })).rejects.toMatchObject({ name: 'Unavailable' })
})

test('a query that hears no interrupt ends with its process, and the next one is answered', async () => {
  const engine = create({ queryMsMax: 3_000, queryEndMsMax: 0 })
  const segments = [await pool.segment(schema, [{ n: 1n }])]
  // NULLIF writes its operand twice, so DuckDB plans this for longer than any test.
  const sql = `SELECT ${Array.from({ length: 40 }).reduce<string>(value => `NULLIF(${value} + 1, 0)`, 'n')} FROM rows`
  const endless = engine.run(
    { source: rowsOfPool(schema, { segments }), statement: { sql, bounds: [] }, rowsMax: 10 },
    'a',
  )
  await expect(endless).rejects.toMatchObject({ code: 'timeout' })
  expect(await count(engine)).toEqual([['2']])
  expect(crashes).toBe(1)
  await engine.stop()
})
