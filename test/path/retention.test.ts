/**
 * Retention in the real server: by DATE, by TIMESTAMP, by received-at; late events, future events,
 * and after a rebuild.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type PoolSpec, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { at, column, filesOf, OFTEN, post, until, untilRest } from './compaction.ts'

const DAY_MS = 86_400_000
/**
 * The date `days` days from today as `YYYY-MM-DD`. No test takes a day next to a cutoff, because
 * midnight may pass meanwhile.
 */
const day = (days: number) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10)

const spec = (type: string): PoolSpec => ({
  columns: [column('at', type), column('id', 'STRING')],
  timestamp: 'at',
  uniqueId: 'id',
})

async function keep(server: TestServer, pool: TestPool, days: number): Promise<void> {
  const { errors } = await server.graphql(
    'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename } }',
    { input: { idOrUniqueName: { id: pool.poolId }, dataRetentionInDays: days } },
  )
  expect(errors).toBeUndefined()
}

/** 100 rows of each of the days. */
async function fill(server: TestServer, pool: TestPool, days: readonly number[]): Promise<void> {
  for (const one of days)
    await post(
      pool,
      Array.from({ length: 100 }, (_, i) => ({ at: day(one), id: `${one}/${i}` })),
    )
  await server.count(pool.poolId)
}

async function untilCount(server: TestServer, pool: TestPool, count: number): Promise<void> {
  await until(`${count} records are left`, async () => (await server.count(pool.poolId)) === String(count))
}

const TYPES = ['DATE', 'TIMESTAMP'] as const

/** One folder over the lives of its server. Each pool has the rules of its own. */
test('whole segments, then rows, with their keys; nothing younger, nothing of the future; after a kill and a rebuild too', async () => {
  let server = await startServer({ env: OFTEN })
  const { dataDir } = server
  const pools = await Promise.all(TYPES.map(type => server.createPool(spec(type))))
  const unflushed = await server.createPool(spec('TIMESTAMP'))
  const arrived = await server.createPool({ columns: [column('id', 'STRING')] })
  for (const pool of pools) {
    // Its size makes it a segment of its own, and all of it expires.
    await fill(server, pool, [-20, -10, -9])
    await fill(server, pool, [-8, -3, 0, 30]) // a part of this segment expires
    expect(await server.count(pool.poolId)).toBe('700')
  }
  // Without a timestamp rows expire by the day on which they were received.
  await post(
    arrived,
    Array.from({ length: 300 }, (_, i) => ({ id: `e${i}` })),
  )
  expect(await server.count(arrived.poolId)).toBe('300')
  await untilRest(server)
  for (const pool of pools) {
    expect(await server.count(pool.poolId)).toBe('700') // with 0, rows never expire
    await keep(server, pool, 5)
    await untilCount(server, pool, 300)
    // A late event is accepted and expires at the next pass, here after a restart. No live record
    // has its key.
    await post(pool, [
      { at: day(-10), id: '-10/1' },
      { at: day(-3), id: '-3/1' },
    ])
    expect(await server.count(pool.poolId)).toBe('301')
  }
  await keep(server, arrived, 5)
  // Rows that were acknowledged and not flushed yet when the days change go too.
  await post(unflushed, [
    { at: day(-20), id: 'old' },
    { at: day(-1), id: 'young' },
  ])
  await keep(server, unflushed, 5)
  await untilCount(server, unflushed, 1)
  await untilRest(server)
  expect(await server.count(arrived.poolId)).toBe('300')

  await server.kill()
  server = await startServer({ dataDir, env: OFTEN })
  for (const pool of pools) await untilCount(server, pool, 300)
  await untilRest(server)
  await server.stop()
  rmSync(join(dataDir, 'index'), { recursive: true })
  server = await startServer({ dataDir, env: OFTEN })
  for (const pool of pools) {
    expect(await server.count(pool.poolId)).toBe('300')
    await keep(server, pool, 36_500)
    await untilRest(server)
    expect(await server.count(pool.poolId)).toBe('300')
  }
  expect((await server.stop()).code).toBe(0)

  // All rows without a timestamp go, with their Parquet files.
  server = await startServer({ dataDir, env: { ...OFTEN, WEIR_RETENTION_DAYS_AHEAD: '7' } })
  await untilCount(server, arrived, 0)
  await until('its files are gone', () =>
    filesOf(dataDir, arrived.poolId).every(file => file.endsWith('.deletes')),
  )
  await post(at(server, arrived), { id: 'new' })
  expect(await server.count(arrived.poolId)).toBe('1')
  expect((await server.stop()).code).toBe(0)
}, 300_000)
