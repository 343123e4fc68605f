/**
 * Queries that hear no interrupt, and processes that end under their queries: who is ended, whose
 * queries run again, and who goes to the penalty lane. The processes are real, and so is DuckDB.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Propeller } from '../../src/catalog/documents/model.ts'
import { openBatches } from '../../src/query/arrow/copied-batches.ts'
import { type CopySegments, EXPORT_GROUP_ROWS, recordBatches } from '../../src/query/arrow/export-stream.ts'
import { copyRows } from '../../src/query/copy-rows.ts'
import type { EngineOptions } from '../../src/query/duckdb/engine-client.ts'
import type { QueryDone } from '../../src/query/plan/query-task.ts'
import {
  type CopyTarget,
  rowsOfPool,
  type SegmentEngine,
  type SegmentTask,
} from '../../src/query/plan/segment-task.ts'
import type { WrittenSelection } from '../../src/query/selection.ts'
import { below, casesOf, newSeed, randomFrom } from '../util/random.ts'
import { schemaOf, TestPool } from './pool.ts'

const seed = newSeed()

const schema = schemaOf([['n', 'INT64']])

/** One row whose distance of two texts takes the square of their length, and hears no interrupt. */
const distanceOf = (length: number) => `levenshtein(repeat('a', ${length} + n::INT), repeat('b', ${length}))`
const distance = (length: number) => `SELECT ${distanceOf(length)} FROM rows`
/** It takes minutes. */
const DEAF = distance(300_000)
/**
 * It takes half a second or more, and is still running when a test ends its process. On a busy
 * machine the largest propeller has time for it, and no other.
 */
const SLOW = distance(16_000)
const SLOW_ROWS = [['16001']]
/** It takes hours, and hears its interrupt. */
const ENDLESS = 'SELECT COUNT(*) FROM range(1000000000000) a, rows'
/** The memory of the DuckDB instance tells in which process a query runs. */
const MEMORY = "SELECT current_setting('memory_limit') FROM rows"
const LARGE = [['320.0 MiB']]
const PENALTY = [['192.0 MiB']]

const WAIT = { timeout: 60_000, interval: 5 }
const GONE = { name: 'Unavailable', code: 'client_gone' }
const TIMEOUT = { name: 'Unavailable', code: 'timeout' }
const LOST = { name: 'Unavailable', code: 'query_process' }

let pool: TestPool
let task: (sql: string) => SegmentTask

beforeEach(async () => {
  pool = new TestPool()
  const segments = [await pool.segment(schema, [{ n: 1n }])]
  task = sql => ({ source: rowsOfPool(schema, { segments }), statement: { sql, bounds: [] }, rowsMax: 10 })
})
afterEach(() => pool.close())

/** An application is named by its propeller and a number: `P1_SMALL 2`. */
const propellerOf = (key: string) => key.split(' ')[0] as Propeller
const open = (options: Partial<EngineOptions> = {}) => pool.open({ propellerOf, ...options })

/** The process of a lane; undefined while there is none. */
function processOf(lane: 'query' | 'penalty'): number | undefined {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const isOurs = readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(
        JSON.stringify(pool.segmentFolder),
      )
      if (isOurs && readFileSync(`/proc/${name}/comm`, 'utf8') === `weir-${lane}\n`) return Number(name)
    } catch {} // it has ended
  }
  return undefined
}

/** Kills the process of a lane. */
function kill(lane: 'query' | 'penalty'): void {
  process.kill(processOf(lane)!, 'SIGKILL')
}

/** Processor time of the query process, in hundredths of a second. */
function cpuTicks(): number {
  const stat = readFileSync(`/proc/${processOf('query')}/stat`, 'latin1')
  const [user, system] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12)
  return Number(user) + Number(system)
}

let copies = 0

function copyTarget(msMax?: number): CopyTarget {
  const file = join(pool.temporaryFolder, `export-${++copies}`)
  return { format: 'arrow', file, types: ['INT64'], ...(msMax === undefined ? {} : { msMax }) }
}

/** Runs a query that hears no interrupt. `client`: its client. */
async function runDeaf(engine: SegmentEngine, key: string, copyTo?: CopyTarget) {
  const client = new AbortController()
  const deaf = engine.run({ ...task(DEAF), ...(copyTo && { copyTo }) }, key, undefined, client.signal)
  deaf.catch(() => undefined) // a test awaits it later
  // It would hear an interrupt before it begins its work, of which the process's time tells.
  const began = cpuTicks()
  await expect.poll(() => cpuTicks() - began, WAIT).toBeGreaterThan(30)
  return { deaf, client }
}

/** What a route copies: one column of integers. */
function selection(sql: string): WrittenSelection {
  const planned = { statement: { sql, bounds: [] }, columns: [{ type: 'INT64' }], selectsAll: false }
  return planned as unknown as WrittenSelection
}

/** So many that some are parsed while the process is replaced. */
const texts = (engine: SegmentEngine, round: number) =>
  Promise.all(Array.from({ length: 500 }, (_, n) => engine.parse(`n + ${round * 1000 + n}`, `P1_LARGE ${n}`)))

const rows = async (done: Promise<QueryDone>) => (await done).rows
const names = (engine: SegmentEngine) => engine.penalised().map(([name]) => name)

test('questions and copies end at the time of their propeller, also those that hear no interrupt', async () => {
  const engine = await open({ queryEndMsMax: 500 })
  const { segments } = task(DEAF).source.pools[0]!
  const ended: string[] = []
  const asker = { fairKey: 'P1_X_SMALL 2' }
  const deps = { engine, temporaryFolder: pool.temporaryFolder }
  const deaf = [
    engine.run(task(DEAF), 'P1_X_SMALL 1'),
    copyRows(schema, selection(DEAF), { segments }, asker, deps),
  ]
  const settled = deaf.map(each =>
    each.then(
      () => ended.push('answered'),
      (error: { code: string }) => ended.push(error.code),
    ),
  )
  // Its limit is three times theirs, and it waits for one of their places.
  const other = engine.run(task(ENDLESS), 'P1_LARGE 1').catch(() => ended.push('the other'))
  await Promise.all(settled)
  expect(ended).toEqual(['timeout', 'timeout'])
  expect(names(engine).sort()).toEqual(['P1_X_SMALL 1', 'P1_X_SMALL 2'])
  await engine.stop()
  await other
})

test(`the client of a deaf query goes away: its process is replaced, and the query beside it runs again (seed ${seed})`, async () => {
  let replaced = 0
  const engine = await open({ queryEndMsMax: 300, onCrash: () => ++replaced })
  const kinds = [undefined, copyTarget, () => copyTarget(250_000)]
  // Each waits for a deaf query and a slow one. In CI one of them is deaf.
  const first = below(randomFrom(seed), kinds.length)
  const count = casesOf(1, kinds.length)
  for (let round = 0; round < count; round++) {
    const index = (first + round) % kinds.length
    const kind = kinds[index]
    const copyTo = kinds.at(index - 1)?.()
    const { deaf, client } = await runDeaf(engine, `P1_LARGE ${replaced}`, kind?.())
    const beside = engine.run({ ...task(SLOW), ...(copyTo && { copyTo }) }, 'P1_LARGE x')
    const waiting = engine.run(task(MEMORY), 'P1_LARGE y')
    expect(engine.stats()).toEqual({ running: 2, waiting: 1 })
    const parsed = texts(engine, copies)
    client.abort()
    await expect(deaf).rejects.toMatchObject(GONE)
    for (const each of await parsed) expect(each).not.toHaveProperty('badRequest')
    expect(await rows(beside)).toEqual(copyTo ? [['1']] : SLOW_ROWS)
    expect(await rows(waiting)).toEqual(LARGE)
  }
  expect(replaced).toBe(count)
  // It needed the kill, so it counts; the others did nothing.
  expect(names(engine)).toEqual(Array.from({ length: count }, (_, n) => `P1_LARGE ${n}`))
})

test('a client that goes away in the middle of an ordinary query brings no penalty', async () => {
  const engine = await open({ queryEndMsMax: 60_000 })
  const client = new AbortController()
  const endless = engine.run(task(ENDLESS), 'P1_LARGE 1', undefined, client.signal)
  client.abort()
  await expect(endless).rejects.toMatchObject(GONE)
  expect(names(engine)).toEqual([])
})

test('an application whose query was ended runs one by one in a process of its own, for a time', async () => {
  const engine = await open({ queryEndMsMax: 300, penaltyMs: 6_000, penaltyIdleMs: 500 })
  const { deaf, client } = await runDeaf(engine, 'P1_LARGE 1')
  const beside = engine.run(task(SLOW), 'P1_LARGE 2')
  // It waits in the main lane when its application becomes penalised.
  const moved = engine.run(task(MEMORY), 'P1_LARGE 1')
  expect(engine.stats()).toEqual({ running: 2, waiting: 1 })
  client.abort()
  await expect(deaf).rejects.toMatchObject(GONE)
  expect(names(engine)).toEqual(['P1_LARGE 1'])
  expect(await rows(moved)).toEqual(PENALTY)
  expect(await rows(engine.run(task(MEMORY), 'P1_LARGE 2'))).toEqual(LARGE)
  expect(await rows(beside)).toEqual(SLOW_ROWS)
  // Idle, its process ends in order; the next query starts another one, until the penalty is over.
  await expect.poll(() => processOf('penalty'), WAIT).toBeUndefined()
  await expect
    .poll(() => rows(engine.run(task(MEMORY), 'P1_LARGE 1')), { timeout: 60_000, interval: 50 })
    .toEqual(LARGE)
  expect(names(engine)).toEqual([])
})

test('a query that runs again because of another one of its application goes to the penalty lane with it', async () => {
  const engine = await open({ queryEndMsMax: 300 })
  // It is told of the end of its process before the deaf one is. It takes minutes in the main lane
  // alone: on a busy machine any work would take longer than its propeller allows.
  const memory = "current_setting('memory_limit')"
  const beside = engine.run(
    task(
      `SELECT CASE ${memory} WHEN '${PENALTY[0]![0]}' THEN 0 ELSE ${distanceOf(300_000)} END, ${memory} FROM rows`,
    ),
    'P1_LARGE 1',
  )
  const { deaf, client } = await runDeaf(engine, 'P1_LARGE 1')
  client.abort()
  await expect(deaf).rejects.toMatchObject(GONE)
  expect(await rows(beside)).toEqual([['0', PENALTY[0]![0]]])
})

test('two penalised applications share one place, and others never wait for them', async () => {
  const engine = await open({ queryMsMax: 4_000 })
  const ask = (key: string, sql = ENDLESS) => engine.run(task(sql), key)
  await Promise.allSettled([ask('P1_LARGE 1'), ask('P1_LARGE 2')])
  expect(names(engine).sort()).toEqual(['P1_LARGE 1', 'P1_LARGE 2'])
  const settled = Promise.allSettled(['P1_LARGE 1', 'P1_LARGE 2', 'P1_LARGE 1'].map(key => ask(key)))
  await expect.poll(() => engine.stats(), WAIT).toEqual({ running: 1, waiting: 2 })
  for (const key of ['P1_X_SMALL 1', 'P1_LARGE 3']) await ask(key, MEMORY)
  for (const each of await settled)
    expect(each).toMatchObject({ reason: { code: expect.stringMatching(/^(queue_)?timeout$/) } })
})

test('work of a job waits as long as it must and brings no penalty; commands have none', async () => {
  const engine = await open({ queryMsMax: 1_500, queryEndMsMax: 300, runningMax: 1 })
  const copy = engine.run({ ...task(ENDLESS), copyTo: copyTarget(5_000) }, 'P1_LARGE 2')
  const [job, question] = [true as const, undefined].map(isOfJob =>
    engine.run(
      { ...task('SELECT n FROM rows'), copyTo: copyTarget(5_000), ...(isOfJob && { isOfJob }) },
      'P1_LARGE 1',
    ),
  )
  await expect(question).rejects.toMatchObject({ code: 'queue_timeout' })
  await expect(copy).rejects.toMatchObject(TIMEOUT)
  expect(await rows(job!)).toEqual([['1']])
  expect(names(engine)).toEqual(['P1_LARGE 2'])
  await expect(engine.run({ ...task(ENDLESS), isOfJob: true }, 'P1_LARGE 1')).rejects.toMatchObject(TIMEOUT)
  expect(names(engine)).toEqual(['P1_LARGE 2'])
  await engine.stop()
  const ofCommand = await pool.open({ queryMsMax: 500 })
  await expect(ofCommand.run(task(ENDLESS), 'export')).rejects.toMatchObject(TIMEOUT)
  expect(names(ofCommand)).toEqual([])
})

test('the process is killed under one query and under two: each is answered', async () => {
  const engine = await open()
  for (const copyTo of [undefined, copyTarget()]) {
    const alone = engine.run({ ...task(SLOW), ...(copyTo && { copyTo }) }, 'P1_LARGE 1')
    kill('query')
    expect(await rows(alone)).toEqual(copyTo ? [['1']] : SLOW_ROWS)
  }
  await engine.run(task(MEMORY), 'P1_LARGE 1') // a new process is open
  const both = [1, 2].map(each => engine.run(task(SLOW), `P1_LARGE ${each}`))
  kill('query')
  expect(await Promise.all(both.map(rows))).toEqual([SLOW_ROWS, SLOW_ROWS])
  expect(names(engine)).toEqual([])
})

test('a query that ends two processes is the cause; the one beside it, and others, are answered', async () => {
  const engine = await open()
  const culprit = engine.run(task(DEAF), 'P1_LARGE 1').catch((error: unknown) => error)
  const beside = engine.run(task(SLOW), 'P1_LARGE 2')
  kill('query')
  // Each runs again alone: the culprit first.
  await expect.poll(() => engine.stats(), WAIT).toEqual({ running: 1, waiting: 1 })
  const others = Array.from({ length: 5 }, () => rows(engine.run(task(MEMORY), 'P1_LARGE 3')))
  kill('penalty')
  expect(await culprit).toMatchObject(LOST)
  expect(await rows(beside)).toEqual(SLOW_ROWS)
  expect(await Promise.all(others)).toEqual(others.map(() => LARGE))
  expect(names(engine)).toEqual(['P1_LARGE 1'])
})

test('a query that only the smaller lane cannot answer is to be sent again, without a penalty', async () => {
  const engine = await open({ queryMsMax: 2_000 })
  const endless = engine.run(task(ENDLESS), 'P1_LARGE 1')
  kill('query')
  await expect(endless).rejects.toMatchObject(LOST)
  expect(names(engine)).toEqual([])
})

test('a query for which the process has no memory runs again alone, and is the cause if it has none there', async () => {
  let crashes = 0
  const engine = await open({ onCrash: () => ++crashes })
  // DuckDB does not count the texts that an expression makes of a chunk.
  const bomb =
    "SELECT MAX(length(upper(repeat(repeat('x', 1000), 1000 + ((n + i) % 7)::INT)))) FROM rows, range(5000) t(i)"
  // As if a query beside it had taken the memory: alone it has enough.
  const innocent = `${bomb} WHERE current_setting('memory_limit') <> '${PENALTY[0]![0]}'`
  expect(await rows(engine.run(task(innocent), 'P1_LARGE 1'))).toEqual([[null]])
  expect(names(engine)).toEqual([])
  await expect(engine.run(task(bomb), 'P1_LARGE 2')).rejects.toMatchObject({ code: 'query_memory' })
  expect(names(engine)).toEqual(['P1_LARGE 2'])
  expect(crashes).toBe(0)
})

test('a long copy is not run again after a crash; its second crash brings the penalty', async () => {
  const engine = await open()
  for (const penalised of [[], ['P1_LARGE 1']]) {
    const copy = engine.run({ ...task(DEAF), copyTo: copyTarget(250_000) }, 'P1_LARGE 1')
    kill('query')
    await expect(copy).rejects.toMatchObject(LOST)
    expect(names(engine)).toEqual(penalised)
    await engine.run(task(MEMORY), 'P1_LARGE 2') // a new process is open
  }
})

test('long copies never take all places, nor the turn of a question of their application', async () => {
  const engine = await open()
  const long = (key: string) => engine.run({ ...task(ENDLESS), copyTo: copyTarget(250_000) }, key)
  const settled = Promise.allSettled([long('P1_LARGE 1'), long('P1_LARGE 1'), long('P1_LARGE 2')])
  expect(engine.stats()).toEqual({ running: 1, waiting: 2 })
  expect(engine.waiting()).toEqual([
    ['P1_LARGE 1', 1],
    ['P1_LARGE 2', 1],
  ])
  for (const key of ['P1_LARGE 1', 'P1_LARGE 2', 'P1_X_SMALL 1'])
    expect(await rows(engine.run(task('SELECT n FROM rows'), key))).toEqual([['1']])
  await engine.stop()
  expect(await settled).toMatchObject([1, 2, 3].map(() => ({ reason: { code: 'stopping' } })))
})

test('what takes long leaves a slot to what is short, and begins again when another slot is free', async () => {
  const engine = await open()
  const begun: string[] = []
  const client = new AbortController()
  const ask = (key: string, one: SegmentTask, gone?: AbortSignal) =>
    engine.run(one, key, () => begun.push(key), gone)
  // It writes a file, which it cannot write twice.
  const some = 'SELECT i AS n FROM rows, range(1000000000000) t(i) WHERE i % 1000000 = 0'
  const long = [
    ask('P1_LARGE 1', task(ENDLESS), client.signal),
    ask('P1_LARGE 2', task(ENDLESS)),
    ask('P1_LARGE 3', { ...task(some), copyTo: copyTarget() }),
    ask('P1_LARGE 2', task(ENDLESS)),
  ]
  const ended = Promise.allSettled(long)
  const short = ['P1_LARGE 4', 'P1_LARGE 5'].map(key => rows(ask(key, task(MEMORY))))
  expect(await Promise.all(short)).toEqual([LARGE, LARGE])
  // An application that runs nothing goes first.
  expect(begun).toEqual([1, 2, 3, 4, 5, 2].map(n => `P1_LARGE ${n}`))
  expect(engine.stats()).toEqual({ running: 3, waiting: 1 })
  expect(engine.waiting()).toEqual([['P1_LARGE 3', 1]])
  client.abort()
  await expect(long[0]).rejects.toMatchObject(GONE)
  await expect.poll(() => begun.filter(key => key === 'P1_LARGE 3'), WAIT).toHaveLength(2)
  await engine.stop()
  await ended
})

test('a query that hears no interrupt in the short slot is ended, and holds no place of others', async () => {
  const engine = await open({ queryEndMsMax: 300, shortMs: 1_000 })
  const begun: string[] = []
  const ask = (key: string, sql: string) => engine.run(task(sql), key, () => begun.push(key))
  const long = ['P1_LARGE 1', 'P1_LARGE 2'].map(key => ask(key, ENDLESS))
  const ended = Promise.allSettled(long)
  let state = 'runs'
  const deaf = ask('P1_LARGE 3', DEAF).catch(() => (state = 'ended'))
  await expect.poll(() => begun.length, WAIT).toBe(3)
  expect(await rows(ask('P1_LARGE 4', MEMORY))).toEqual(LARGE)
  // It has not had its time yet, and begins again.
  expect(state).toBe('runs')
  await expect.poll(() => begun.filter(key => key === 'P1_LARGE 3'), WAIT).toHaveLength(2)
  await engine.stop()
  await Promise.all([ended, deaf])
})

test('a query that the short slot interrupts after a penalty goes to the penalty lane', async () => {
  const engine = await open({ queryMsMax: 3_000, shortMs: 2_000 })
  const begun: string[] = []
  const ask = (key: string, one = task(ENDLESS)) => {
    const asked = engine.run(one, key, () => begun.push(key))
    asked.catch(() => undefined) // a test awaits it later
    return asked
  }
  const copy = ask('P1_LARGE 1', { ...task(ENDLESS), copyTo: copyTarget(250_000) })
  // The second one is in the short slot when the first one has had its time.
  const penalised = [1, 2].map(() => ask('P1_LARGE 2'))
  await expect.poll(() => begun, WAIT).toEqual([1, 2, 2].map(n => `P1_LARGE ${n}`))
  const next = ask('P1_LARGE 3') // it takes the place of the first one
  await expect(penalised[0]).rejects.toMatchObject(TIMEOUT)
  await expect.poll(() => processOf('penalty'), WAIT).toBeDefined()
  await engine.stop()
  await Promise.allSettled([copy, next, ...penalised])
})

test('a stream that ends early ends the copy that it began ahead', async () => {
  const engine = await open()
  const copied: string[] = []
  const copy: CopySegments = (group, ended) => {
    const sql = copied.length === 0 ? 'SELECT n FROM rows' : ENDLESS
    copied.push(sql)
    const asker = { fairKey: 'P1_LARGE 1', gone: ended }
    return copyRows(schema, selection(sql), group, asker, { engine, temporaryFolder: pool.temporaryFolder })
  }
  // Each says that it has enough rows for a group of its own.
  const meta = { rows: EXPORT_GROUP_ROWS, schemaVersion: 1 }
  const columns =
    "now()::TIMESTAMP AS _service_received_at, '{}' AS _service_payload, 0::BIGINT AS _service_sequence"
  const segments = [
    await pool.write(`SELECT 1::BIGINT n, ${columns}`, meta),
    await pool.write(`SELECT 2::BIGINT n, ${columns}`, meta),
  ]
  const batches = recordBatches(segments, copy, openBatches)
  expect((await batches.next()).done).toBe(false)
  expect(copied).toEqual(['SELECT n FROM rows', ENDLESS])
  await batches.return()
  expect(engine.stats()).toEqual({ running: 0, waiting: 0 })
  expect(readdirSync(pool.temporaryFolder).filter(name => name.startsWith('export-'))).toEqual([])
})

/** Applications that ask a deaf query each. */
const DEAF_ASKERS = casesOf(2, 5)

test(`${DEAF_ASKERS} applications ask deaf queries, and the process is back at once after each`, async () => {
  let replaced = 0
  const engine = await open({ queryEndMsMax: 100, onCrash: () => ++replaced })
  for (let each = 1; each <= DEAF_ASKERS; each++) {
    await engine.run(task(MEMORY), 'P1_LARGE x') // the process is open
    const { deaf, client } = await runDeaf(engine, `P1_LARGE ${each}`)
    client.abort()
    await expect(deaf).rejects.toMatchObject(GONE)
    expect(await rows(engine.run(task(MEMORY), 'P1_LARGE x'))).toEqual(LARGE)
  }
  expect(replaced).toBe(DEAF_ASKERS)
})
