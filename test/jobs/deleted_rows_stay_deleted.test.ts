/**
 * W-6 of rows that a job deleted: a rebuilt index does not find them, also where a crash undid the
 * removal of their files.
 */
import { cpSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AT, at, filesOf, NEVER, post } from '../path/compaction.ts'
import { weir, weirInside } from '../tools/folder.ts'
import { startServer, type TestPool, temporaryFolder } from '../util/server.ts'
import { verifyFolder } from '../util/verify.ts'
import { POOLS } from './job-model.ts'
import { runJob } from './rewrite-jobs.ts'

const event = (id: string, n: number, v: number) => ({ at: AT, id, n, word: 'w', v })

/** Three segments. In the versioned pool the second holds a lost row, and nothing else. */
const SEGMENTS = [
  [event('a', 1, 7), event('b', 2, 1)],
  [event('a', 1, 3)],
  [event('b', 2, 2), event('c', 3, 1)],
]

/** Each name is a pool. They share the servers, because a start takes seconds. */
test(`pools ${Object.keys(POOLS).join(', ')}, with the files of before the job`, async () => {
  const dataDir = join(temporaryFolder(), 'data')
  let server = await startServer({ dataDir, env: NEVER })
  const pools = new Map<string, TestPool>()
  for (const [name, spec] of Object.entries(POOLS)) {
    const pool = await server.createPool(spec)
    pools.set(name, pool)
    for (const events of SEGMENTS) {
      await post(pool, events)
      await server.count(pool.poolId) // which flushes
    }
  }
  expect((await server.stop()).code).toBe(0)
  const segments = join(dataDir, 'segment')
  const before = join(dataDir, '..', 'before')
  cpSync(segments, before, { recursive: true })
  server = await startServer({ dataDir, env: NEVER })
  for (const [name, { poolId }] of pools)
    for (const filterSql of ['n = 1', 'true'])
      expect(await runJob(server, 'deletion', { dataPool: poolId, filterSql }), name).toBeNull()
  await server.kill()
  cpSync(before, segments, { recursive: true })
  rmSync(join(dataDir, 'index'), { recursive: true })

  server = await startServer({ dataDir, env: NEVER })
  for (const [name, pool] of pools) {
    expect(await server.count(pool.poolId), name).toBe('0')
    await post(at(server, pool), SEGMENTS[1])
    expect(await server.count(pool.poolId), name).toBe('1')
  }
  expect((await server.stop()).code).toBe(0)
  await verifyFolder(dataDir) // throws what it finds
})

test('also after a repair: a lost delete file without keys is written again', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  let server = await startServer({ dataDir, env: NEVER })
  const pool = await server.createPool(POOLS['events']!)
  await post(pool, SEGMENTS[0])
  expect(await runJob(server, 'deletion', { dataPool: pool.poolId, filterSql: 'true' })).toBeNull()
  expect((await server.stop()).code).toBe(0)
  const [name = ''] = filesOf(dataDir, pool.poolId)
  expect(name).toMatch(/\.deletes$/)
  const file = join(dataDir, 'segment', pool.poolId, name)
  for (const damage of [() => rmSync(file), () => writeFileSync(file, 'damaged')]) {
    damage()
    expect((await weirInside(['verify', '--data-dir', dataDir])).code).toBe(1)
    const done = await weir(['repair', '--data-dir', dataDir]) // without --yes
    expect([done.code, done.out]).toEqual([0, expect.stringContaining('nothing is lost')])
    await verifyFolder(dataDir) // throws what it finds
  }
  rmSync(join(dataDir, 'index'), { recursive: true })
  server = await startServer({ dataDir, env: NEVER })
  expect(await server.count(pool.poolId)).toBe('0')
  expect((await server.stop()).code).toBe(0)
})
