/**
 * Propellers: what an application gets, that it gets no more, and that the table in the docs is
 * true.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { PROPELLERS, type Propeller } from '../../src/catalog/documents/model.ts'
import {
  dataBytesOf,
  memoryBytesOf,
  placesOf,
  RESOURCES,
  threadsOf,
} from '../../src/query/duckdb/duckdb-limits.ts'
import { rowsOfPool, type SegmentTask } from '../../src/query/plan/segment-task.ts'
import { FairQueue } from '../../src/util/fair-queue.ts'
import { CHUNK_TEXT_BYTES_MAX, QUERIES_RUNNING_MIN, QUERY_MEMORY_BYTES } from '../../src/util/limits.ts'
import { schemaOf, TestPool } from './pool.ts'

const schema = schemaOf([['n', 'INT64']])
const HEAVY = 'SELECT COUNT(*) FROM range(1000000000000) a, rows'
const SETTINGS = "SELECT current_setting('threads')::VARCHAR, current_setting('memory_limit') FROM rows"
const CORES = 8
const MiB = 1024 ** 2

test.each([1, 2, 16])(
  'the limit of the process has room for any queries that run at once, on %d cores',
  cores => {
    const limit = dataBytesOf({ memoryBytes: QUERY_MEMORY_BYTES, threads: cores })
    // One is in the short slot. Queries of one propeller share its memory and its threads.
    for (const a of PROPELLERS)
      for (const b of PROPELLERS)
        for (const c of PROPELLERS) {
          let bytes = 0
          for (const each of new Set([a, b, c]))
            bytes += memoryBytesOf(each) + threadsOf(each, cores) * CHUNK_TEXT_BYTES_MAX
          expect(limit).toBeGreaterThan(bytes + 320 * MiB)
        }
  },
)

let pool: TestPool
let task: (sql?: string) => SegmentTask

beforeEach(async () => {
  pool = new TestPool()
  const segments = [await pool.segment(schema, [{ n: 1n }])]
  task = (sql = 'SELECT COUNT(*) FROM rows') => ({
    source: rowsOfPool(schema, { segments }),
    statement: { sql, bounds: [] },
    rowsMax: 10,
  })
})
afterEach(() => pool.close())

/** An application is named by its propeller and a number: `P1_SMALL 2`. */
const propellerOf = (key: string) => key.split(' ')[0] as Propeller

test('the table in docs/operating.md is what the engine does', () => {
  const page = readFileSync('docs/operating.md', 'utf8')
  const rows = [...page.matchAll(/^\| `(P1_\w+)` *\|(.*)\|$/gm)].map(([, name, cells]) => [
    name,
    ...(cells ?? '').split('|').map(cell => cell.trim()),
  ])
  const share = (of: number) => (of === 1 ? 'all cores' : `1/${1 / of} of the cores`)
  expect(rows).toEqual(
    PROPELLERS.map(name => [
      name,
      Number.isFinite(RESOURCES[name].queriesMax) ? String(RESOURCES[name].queriesMax) : 'all places',
      `${RESOURCES[name].queryMsMax / 1000} s`,
      share(RESOURCES[name].threadShare),
      `${memoryBytesOf(name) / MiB} MiB`,
    ]),
  )
})

test('a larger propeller has no less of anything, and the largest has all', () => {
  const of = PROPELLERS.map(name => RESOURCES[name])
  for (const field of ['queriesMax', 'queryMsMax', 'threadShare', 'memoryShare'] as const)
    expect(of.map(one => one[field])).toEqual(of.map(one => one[field]).sort((a, b) => a - b))
  expect(of.at(-1)).toMatchObject({ queriesMax: Number.POSITIVE_INFINITY, threadShare: 1, memoryShare: 1 })
  expect(PROPELLERS.map(name => threadsOf(name, 1))).toEqual([1, 1, 1, 1, 1])
})

test('places grow with threads, and the memory of the process with places', () => {
  expect([1, 2, 4, 5, 6, 16, 64].map(placesOf)).toEqual([2, 2, 2, 2, 3, 8, 8])
  const bytes = [2, 16, 64].map(threads => dataBytesOf({ threads, memoryBytes: QUERY_MEMORY_BYTES }))
  expect(bytes).toEqual([...bytes].sort((a, b) => a - b))
})

test('DuckDB has the threads and the memory of the propeller', async () => {
  const engine = await pool.open({ threads: CORES, propellerOf })
  for (const name of PROPELLERS) {
    const [row] = (await engine.run(task(SETTINGS), `${name} 1`)).rows
    expect(row?.[0], name).toBe(String(threadsOf(name, CORES)))
    const [, amount, unit] = /^([\d.]+) (\w+)$/.exec(row?.[1] ?? '') ?? []
    expect(unit).toBe('MiB')
    expect(Number(amount)).toBeCloseTo((QUERY_MEMORY_BYTES * RESOURCES[name].memoryShare) / MiB, 0)
  }
})

test('a copy for an Arrow stream runs in the instance of its application', async () => {
  const engine = await pool.open({ propellerOf })
  for (const name of PROPELLERS) {
    const file = join(pool.temporaryFolder, `export-${name}`)
    const target = { format: 'arrow', file, types: ['STRING', 'STRING'], msMax: 10_000 } as const
    await engine.run({ ...task(SETTINGS), copyTo: target }, `${name} 1`)
    expect(readFileSync(file, 'latin1'), name).toContain(`${memoryBytesOf(name) / MiB}.0 MiB`)
  }
})

test('an application runs no more queries at once than its propeller, and others pass it', async () => {
  const waited: string[] = []
  const engine = await pool.open({ propellerOf, onWaited: key => waited.push(key) })
  const first = engine.run(task(HEAVY), 'P1_X_SMALL 1')
  const second = engine.run(task(), 'P1_X_SMALL 1')
  const settled = Promise.allSettled([first, second])
  expect(engine.stats()).toEqual({ running: 1, waiting: 1 })
  expect(engine.waiting()).toEqual([['P1_X_SMALL 1', 1]])
  for (const key of ['P1_X_SMALL 2', 'P1_LARGE 1', 'P1_X_SMALL 2'])
    expect((await engine.run(task(), key)).rows).toEqual([['1']])
  expect(engine.stats()).toEqual({ running: 1, waiting: 1 })
  await engine.stop()
  for (const each of await settled) expect(each).toMatchObject({ reason: { code: 'stopping' } })
  expect(waited).toEqual([])
})

test('a waiting query runs when its application has a place again', async () => {
  const waited: string[] = []
  const engine = await pool.open({ propellerOf, onWaited: (key, ms) => waited.push(`${key} ${ms >= 0}`) })
  const order: number[] = []
  await Promise.all([1, 2, 3].map(each => engine.run(task(), 'P1_SMALL 1').then(() => order.push(each))))
  expect(order).toEqual([1, 2, 3])
  expect(waited).toEqual(['P1_SMALL 1 true', 'P1_SMALL 1 true'])
  expect(engine.waiting()).toEqual([])
})

test('one application of a large propeller fills the engine, and no more than that', async () => {
  const engine = await pool.open({ propellerOf })
  const heavy = Array.from({ length: QUERIES_RUNNING_MIN + 1 }, () => engine.run(task(HEAVY), 'P1_X_LARGE 1'))
  const settled = Promise.allSettled(heavy)
  expect(engine.stats()).toEqual({ running: QUERIES_RUNNING_MIN, waiting: 1 })
  await engine.stop()
  await settled
})

test('a query ends at the limit of its propeller, not of the engine', async () => {
  const engine = await pool.open({ propellerOf })
  const larger = Promise.allSettled([engine.run(task(HEAVY), 'P1_SMALL 1')])
  await expect(engine.run(task(HEAVY), 'P1_X_SMALL 1')).rejects.toMatchObject({ code: 'timeout' })
  expect(engine.stats()).toEqual({ running: 1, waiting: 0 })
  await engine.stop()
  expect(await larger).toMatchObject([{ reason: { code: 'stopping' } }])
})

test('a key that may not go keeps its place in the fair queue', () => {
  const queue = new FairQueue<number>()
  for (const [key, item] of [
    ['a', 1],
    ['a', 2],
    ['b', 3],
    ['c', 4],
  ] as const)
    queue.push(key, item)
  expect(queue.sizes()).toEqual([
    ['a', 2],
    ['b', 1],
    ['c', 1],
  ])
  expect(queue.tryShift(key => key !== 'a')).toBe(3)
  expect(queue.tryShift(() => false)).toBeUndefined()
  expect([0, 0, 0].map(() => queue.tryShift())).toEqual([1, 4, 2])
})
