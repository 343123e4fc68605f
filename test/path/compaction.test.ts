/** Compaction in the real server: there are fewer segments, and nothing else changes. */
import { copyFileSync, cpSync, existsSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { below, casesOf, randomFrom } from '../util/random.ts'
import {
  CounterFailed,
  startServer,
  type TestPool,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import {
  AT,
  at,
  events,
  filesOf,
  KEYED,
  merges,
  metric,
  NEVER,
  OFTEN,
  post,
  until,
  untilRest,
} from './compaction.ts'
import { flipBit, segmentsOf } from './damage.ts'

/** Pools that are deleted: half of them while a merge runs. */
const DELETED = casesOf(2, 6)

/** Each size is half of the one before, so no flush replaces an earlier segment. */
const FALLING = [900, 400, 190, 90, 40]
const FALLING_ROWS = 1620

async function flushes(
  server: TestServer,
  pool: TestPool,
  sizes: readonly number[],
  first = 0,
): Promise<number> {
  let next = first
  for (const size of sizes) {
    for (let left = size; left > 0; left -= 500) {
      const count = Math.min(left, 500)
      await post(pool, events(next, next + count))
      next += count
    }
    expect(await server.count(pool.poolId)).toBe(String(next)) // flushes
  }
  return next
}

/** Segments of each pool of that folder. */
const SMALL_SEGMENTS = 2 * FALLING.length

let small: ReturnType<typeof fillSmall> | undefined

/** A copy of a killed folder with two pools of twice five small segments, all due to be merged. */
async function folderWithSmall() {
  small ??= fillSmall()
  const { dataDir, ...filled } = await small
  const copy = join(temporaryFolder(), 'data')
  cpSync(dataDir, copy, { recursive: true })
  return { ...filled, dataDir: copy }
}

async function fillSmall() {
  let server = await startServer({ env: NEVER })
  const { dataDir } = server
  const pools = [await server.createPool(KEYED), await server.createPool(KEYED)] as const
  for (const pool of pools) await flushes(server, pool, FALLING)
  await server.kill() // the flusher forgets its recent flushes
  const [file] = segmentsOf(dataDir, pools[0].poolId)
  copyFileSync(file!, `${file}.left`)
  server = await startServer({ dataDir, env: NEVER })
  await until('the left file is gone', () => /removed .* no segment list/.test(server.output()))
  const startOutput = server.output()
  for (const pool of pools) await flushes(server, at(server, pool), FALLING, FALLING_ROWS)
  await server.kill()
  for (const pool of pools) expect(segmentsOf(dataDir, pool.poolId).length).toBe(SMALL_SEGMENTS)
  return { dataDir, pools, startOutput }
}

test('a start removes a file that no segment list names, and says so in the singular', async () => {
  const { startOutput } = await folderWithSmall()
  expect(startOutput).toMatch(/removed 1 file that no segment list names\n/)
})

test('W-7: small segments are merged, deleted rows are removed, and every count stays the same', async () => {
  const { dataDir, pools } = await folderWithSmall()
  const server = await startServer({ dataDir, env: OFTEN })
  const pool = at(server, pools[0])
  await post(pool, events(0, 500, 5))
  await post(pool, events(500, 900), 'DELETE')
  const want = [String(2 * FALLING_ROWS - 400), String(2 * FALLING_ROWS - 400 + 500 * 4)]
  const visible = async (one: TestServer) => [await one.count(pool.poolId), await one.sum(pool.poolId, 'n')]
  expect(await visible(server)).toEqual(want)
  await until('there was a merge', async () => (await merges(server)) > 0)
  await untilRest(server)
  expect(await metric(server, 'weir_segments')).toBeLessThan(2 * SMALL_SEGMENTS)
  expect(await metric(server, 'weir_compaction_marked_rows')).toBe(0)
  expect(await (await fetch(`${server.base}/metrics`)).text()).not.toContain(
    'weir_compaction_pool_bytes_to_merge{',
  )
  expect(await visible(server)).toEqual(want)
  await until('replaced files are gone', () => filesOf(dataDir, pool.poolId).length <= 2)
  const figures = ['read_rows', 'read_bytes', 'written_rows', 'written_bytes'].map(what =>
    metric(server, `weir_compaction_${what}_total`),
  )
  for (const figure of await Promise.all(figures)) expect(figure).toBeGreaterThan(0)
  await server.kill()
  const again = await startServer({ dataDir, env: OFTEN })
  expect(await visible(again)).toEqual(want)
  expect((await again.stop()).code).toBe(0)
}, 300_000)

test('W-7: rows updated and deleted while merges run do not come back, nor after a kill, nor after a rebuild', async () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const random = randomFrom(seed)
  let server = await startServer({ env: OFTEN })
  let pool = await server.createPool(KEYED)
  const model = new Map<string, number>()
  const check = async () => {
    const sum = [...model.values()].reduce((all, n) => all + n, 0)
    expect([await server.count(pool.poolId), await server.sum(pool.poolId, 'n')], `seed ${seed}`).toEqual([
      String(model.size),
      model.size === 0 ? null : String(sum),
    ])
  }
  /** Posts until so many more compactions were committed. */
  const churn = async (more: number) => {
    const goal = (await merges(server)) + more
    for (let step = 0; (await merges(server)) < goal; step++) {
      expect(step).toBeLessThan(3000)
      const from = below(random, 3000)
      const batch = events(from, from + 1 + below(random, 300), below(random, 1000))
      const isDelete = random() < 0.3
      await post(pool, batch, isDelete ? 'DELETE' : 'POST')
      for (const { id, n } of batch) {
        if (isDelete) model.delete(id)
        else model.set(id, n)
      }
      if (random() < 0.3) await check()
    }
    await check()
  }
  // A restart forgets the recent flushes, so their segments are merged while posts go on.
  for (let round = 0; round < 2; round++) {
    for (let flush = 0; flush < 6; flush++) {
      const from = below(random, 3000)
      const batch = events(from, from + 100 + below(random, 400), round * 10 + flush)
      await post(pool, batch)
      for (const { id, n } of batch) model.set(id, n)
      await check()
    }
    await server.kill()
    server = await startServer({ dataDir: server.dataDir, env: OFTEN })
    pool = at(server, pool)
    await churn(1)
  }
  await untilRest(server)
  await check()
  await server.stop()
  rmSync(join(server.dataDir, 'index'), { recursive: true })
  server = await startServer({ dataDir: server.dataDir, env: OFTEN })
  await check()
  await server.stop()
}, 300_000)

describe('a server that merges often', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startServer({ env: OFTEN })
  })
  afterAll(async () => {
    expect((await server.stop()).code).toBe(0)
  })

  test('W-8: queries over files that a merge replaces meanwhile finish, and count right', async () => {
    const pool = await server.createPool(KEYED)
    const total = await flushes(server, pool, FALLING)
    const goal = (await merges(server)) + 1
    let asked = 0
    await until('there was a merge', async () => {
      const counts = Array.from({ length: 4 }, () =>
        server.count(pool.poolId, { filters: [{ column: 'at', operator: 'EQUALS', value: AT }] }),
      )
      expect(new Set(await Promise.all(counts))).toEqual(new Set([String(total)]))
      asked += 4
      return (await merges(server)) >= goal
    })
    expect(asked).toBeGreaterThan(0)
  }, 300_000)

  test('a pool deleted while compaction works frees its files, and its URL answers 404 at once', async () => {
    const steady = await server.createPool(KEYED)
    await post(steady, events(0, 10))
    for (let round = 0; round < DELETED; round++) {
      const pool = await server.createPool(KEYED)
      await flushes(server, pool, FALLING)
      const folder = join(server.dataDir, 'segment', pool.poolId)
      expect(existsSync(folder)).toBe(true)
      const goal = (await merges(server)) + 1
      if (round % 2 === 0)
        await until('a merge runs', async () => {
          const running = await metric(server, 'weir_compaction_running')
          return running === 1 || (await merges(server)) >= goal
        })
      await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool.poolId })
      expect((await fetch(pool.url, { method: 'POST', body: '{}' })).status).toBe(404)
      await until('its folder is gone', () => !existsSync(folder))
      expect(await server.count(steady.poolId)).toBe('10')
    }
    await untilRest(server)
    expect(await metric(server, 'weir_compaction_failures_total')).toBe(0)
  }, 300_000)

  test('W-13: rows of a deleted pool that were never flushed hold no log files', async () => {
    const pool = await server.createPool({ columns: [] })
    const files = () => metric(server, 'weir_log_files')
    const large = JSON.stringify({ text: 'x'.repeat(1_000_000) })
    for (let i = 0; i < 12; i++) await post(pool, large)
    const before = await files()
    await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool.poolId })
    await until('the log is short', async () => (await files()) <= 1)
    // Otherwise a slow machine flushed the rows too early, and the test attacked nothing.
    expect(before).toBeGreaterThan(1)
  }, 300_000)
})

test('W-8: a damaged segment is left alone and said; the other segments and pools go on', async () => {
  const { dataDir, pools } = await folderWithSmall()
  const [hurt, whole] = pools
  const damaged = segmentsOf(dataDir, hurt.poolId)[2] ?? ''
  flipBit(damaged, statSync(damaged).size - 1)
  const server = await startServer({ dataDir, env: OFTEN })
  const quarantined = () => metric(server, 'weir_compaction_quarantined_segments')
  await until('it is in quarantine', async () => (await quarantined()) === 1)
  const page = await (await fetch(`${server.base}/metrics`)).text()
  expect(page.match(/weir_compaction_pool_quarantined_segments{.*/g)?.length).toBe(1)
  await untilRest(server)
  expect(
    server
      .output()
      .split('\n')
      .filter(line => line.includes(damaged)).length,
  ).toBe(1)
  await until('the others are merged', () => {
    const [rest, all] = [segmentsOf(dataDir, hurt.poolId), segmentsOf(dataDir, whole.poolId)]
    return rest.length === 4 && rest[2] === damaged && all.length === 1
  })
  expect(await server.sum(whole.poolId, 'n')).toBe(String(2 * FALLING_ROWS))
  const error = await server.sum(hurt.poolId, 'n').catch((cause: unknown) => cause)
  expect(error).toBeInstanceOf(CounterFailed)
  expect((error as CounterFailed).code).toBe('SEGMENT_DAMAGED')
  expect((await server.stop()).code).toBe(0)
}, 300_000)

for (const point of ['compact.merged', 'compact.committed'])
  test(`W-4, W-6: killed at ${point}: everything is there, also where the index is removed`, async () => {
    const { dataDir, pools } = await folderWithSmall()
    const started = startServer({ dataDir, env: { ...OFTEN, WEIR_CRASH_AT: point } })
    const ended = await started.then(one => one.ended, String)
    expect(typeof ended === 'string' ? ended : ended.signal).toMatch(/SIGKILL/)
    const bare = join(temporaryFolder(), 'data')
    cpSync(dataDir, bare, { recursive: true })
    rmSync(join(bare, 'index'), { recursive: true })
    await Promise.all([dataDir, bare].map(folder => survives(folder, pools)))
  }, 300_000)

/** Starts on a folder with small segments, and changes both pools while they are merged. */
async function survives(dataDir: string, pools: readonly TestPool[]): Promise<void> {
  const server = await startServer({ dataDir, env: OFTEN })
  const check = async () => {
    for (const { poolId } of pools) {
      expect(await server.count(poolId)).toBe(String(2 * FALLING_ROWS - 50))
      expect(await server.sum(poolId, 'n')).toBe(String(2 * FALLING_ROWS + 50))
    }
  }
  // The merge that was killed was one of either pool.
  for (const pool of pools) {
    await post(at(server, pool), events(0, 50, 3))
    await post(at(server, pool), events(50, 100), 'DELETE')
  }
  await check()
  await untilRest(server)
  await check()
  expect((await server.stop()).code).toBe(0)
}
