/**
 * A kill at each step of a job that changes rows. The next start goes on with it: every row is
 * changed once, which an expression such as `n + 1` tells, and no row is lost.
 */
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AT, NEVER, post } from '../path/compaction.ts'
import { crossRead } from '../util/cross-read.ts'
import { below, casesOf, newSeed, randomFrom, someOf } from '../util/random.ts'
import { startServer, type TestPool, type TestServer, temporaryFolder } from '../util/server.ts'
import { rebuildFolder } from '../util/verify.ts'
import { POOLS } from './job-model.ts'
import { createJob, ended } from './rewrite-jobs.ts'

/** A flush takes a small segment with it unless that has more than twice its rows. */
const SEGMENT_ROWS = [1350, 450, 150, 50]
const ROWS = 2000
const EVENTS_MAX = 500

const POINTS = [
  'job.started',
  'rewrite.found:2',
  'merge.copied',
  'merge.published:2',
  'compact.merged:2',
  'index.before-compaction-commit:3',
  'index.compaction-committed',
  'compact.committed:2',
  'rewrite.done:3',
  'job.succeeded',
]

/** A pool with several segments: row i has the number i. */
async function filled(server: TestServer, uniqueName: string): Promise<TestPool> {
  const pool = await server.createPool({ ...POOLS['keyed']!, uniqueName })
  let rows = 0
  for (const more of SEGMENT_ROWS) {
    const to = rows + more
    while (rows < to) {
      const length = Math.min(EVENTS_MAX, to - rows)
      const events = Array.from({ length }, (_, i) => ({
        at: AT,
        id: `e${rows + i}`,
        n: rows + i,
        word: 'w',
      }))
      await post(pool, events)
      rows += length
    }
    expect(await server.count(pool.poolId)).toBe(String(rows))
  }
  expect(rows).toBe(ROWS)
  return pool
}

const SUM = ((ROWS - 1) * ROWS) / 2
const isKept = (n: number) => n % 3 !== 0
const NUMBERS = Array.from({ length: ROWS }, (_, n) => n)
const KEPT = NUMBERS.filter(isKept)

const KINDS = [
  {
    kind: 'update' as const,
    input: { set: [{ column: 'n', expression: 'n + 1' }] },
    rows: ROWS,
    sum: SUM + ROWS,
  },
  {
    kind: 'deletion' as const,
    input: { filterSql: 'n % 3 = 0' },
    rows: KEPT.length,
    sum: KEPT.reduce((sum, n) => sum + n, 0),
  },
]

const seed = newSeed()

/**
 * The points with the kinds of job that are killed there: both in the long run, and one of them in
 * CI. Neighbours take turns, so that each run kills jobs of both kinds.
 */
const CASES = ((first: number) =>
  POINTS.map((point, i) => {
    const ofPoint = (first + i) % KINDS.length
    const kinds = [...KINDS.entries()].filter(([kind]) => casesOf(1, 2) === 2 || kind === ofPoint)
    return [point, kinds] as const
  }))(below(randomFrom(seed), KINDS.length))

/**
 * The points after which a start builds the index anew. After the others `weir rebuild` does, and
 * other readers find the rows: a start takes seconds.
 */
const REBUILT_BY_START = new Set(someOf(POINTS, 1, seed))

/** What a pool must hold after its job. */
interface Held {
  readonly dataPool: string
  readonly rows: number
  readonly sum: number
}

async function holds(server: TestServer, { dataPool, rows, sum }: Held): Promise<void> {
  expect(await server.count(dataPool)).toBe(String(rows))
  expect(await server.sum(dataPool, 'n')).toBe(String(sum))
}

/** A stopped folder with a pool for each kind of job, which each point gets a copy of. */
let folder: string
const poolIds: string[] = []

beforeAll(async () => {
  const server = await startServer({ env: NEVER })
  folder = server.dataDir
  for (const { kind } of KINDS) poolIds.push((await filled(server, kind)).poolId)
  expect((await server.stop()).code).toBe(0)
})

test.each(CASES)(`a kill at %s (seed ${seed})`, async (point, kinds) => {
  const dataDir = join(temporaryFolder(), 'data')
  cpSync(folder, dataDir, { recursive: true })
  const all: Held[] = []
  for (const [index, { kind, input, rows, sum }] of kinds) {
    const dataPool = poolIds[index]!
    let server = await startServer({ dataDir, env: { ...NEVER, WEIR_CRASH_AT: point } })
    const job = await createJob(server, kind, { dataPool, ...input })
    const alive = ended(server, job).then(state => JSON.stringify(state))
    const end = await Promise.race([server.ended, alive.catch(() => server.ended)])
    expect(end).toMatchObject({ signal: 'SIGKILL' })
    server = await startServer({ dataDir, env: NEVER })
    expect(await ended(server, job)).toEqual({ status: 'SUCCEEDED', progress: 1, error: null })
    all.push({ dataPool, rows, sum })
    for (const held of all) await holds(server, held)
    expect((await server.stop()).code).toBe(0)
  }
  rmSync(join(dataDir, 'index'), { recursive: true })
  if (REBUILT_BY_START.has(point)) {
    const server = await startServer({ dataDir, env: NEVER })
    for (const held of all) await holds(server, held)
    expect((await server.stop()).code).toBe(0)
    return
  }
  await rebuildFolder(dataDir)
  const found = await crossRead(dataDir)
  for (const { dataPool, rows, sum } of all) {
    const numbers = (found.get(dataPool) ?? []).map(row => Number(row['n']))
    expect([numbers.length, numbers.reduce((all, n) => all + n, 0)]).toEqual([rows, sum])
  }
})

test('numbers that were taken in vain are not given to segments of a job again', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  let server = await startServer({ dataDir, env: { ...NEVER, WEIR_CRASH_AT: 'job.started:6' } })
  const { poolId } = await filled(server, 'taken')
  // Each reservation takes a number, and these jobs find no row.
  for (let i = 0; i < 5; i++)
    await ended(server, await createJob(server, 'deletion', { dataPool: poolId, filterSql: 'n < 0' }))
  const set = [{ column: 'n', expression: 'n + 1' }]
  const job = await createJob(server, 'update', { dataPool: poolId, set })
  expect((await server.ended).signal).toBe('SIGKILL')
  for (const point of ['rewrite.done:2', 'rewrite.done']) {
    server = await startServer({ dataDir, env: { ...NEVER, WEIR_CRASH_AT: point } })
    expect((await server.ended).signal).toBe('SIGKILL')
  }
  server = await startServer({ dataDir, env: NEVER })
  expect((await ended(server, job)).status).toBe('SUCCEEDED')
  expect(await server.sum(poolId, 'n')).toBe(String(SUM + ROWS))
  expect((await server.stop()).code).toBe(0)
})
