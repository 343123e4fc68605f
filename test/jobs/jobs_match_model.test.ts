/**
 * Jobs as commands among posts, deletions, queries, merges, restarts and kills: after each round
 * the pools hold the model's rows, also with an index that was rebuilt from the files.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { OFTEN } from '../path/compaction.ts'
import { below, casesOf, newSeed, randomFrom } from '../util/random.ts'
import { startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { ModelPool, POOLS } from './job-model.ts'

const ROUNDS = casesOf(6, 14)
const STEPS = 12

const seed = newSeed()

test(`pools equal the model after jobs of every kind, seed ${seed}`, async () => {
  const random = randomFrom(seed)
  const dataDir = join(temporaryFolder(), 'data')
  const start = (): Promise<TestServer> => startServer({ dataDir, env: OFTEN })
  let server = await start()
  const pools: ModelPool[] = []
  for (const spec of Object.values(POOLS))
    pools.push(new ModelPool(await server.createPool(spec), spec, random))
  let rows = 0
  for (let round = 0; round < ROUNDS; round++) {
    for (let step = 0; step < STEPS; step++) {
      const pool = pools[below(random, pools.length)]!
      const choice = random()
      if (choice < 0.5) await pool.post(server)
      else if (choice < 0.6) await pool.deleteSome(server)
      else if (choice < 0.75)
        await server.count(pool.pool.poolId) // which flushes
      else await pool.startJob(server)
    }
    const end = random()
    if (end < 0.5) {
      await (end < 0.3 ? server.kill() : server.stop())
      if (end < 0.15) rmSync(join(dataDir, 'index'), { recursive: true })
      server = await start()
    }
    for (const [index, pool] of pools.entries()) {
      await pool.jobsEnd(server)
      await pool.check(server, `seed ${seed}, round ${round}, pool ${Object.keys(POOLS)[index]}`)
      rows += pool.rows
    }
  }
  expect(rows).toBeGreaterThan(0)
  await server.stop()
  rmSync(join(dataDir, 'index'), { recursive: true })
  server = await start()
  for (const pool of pools) await pool.check(server, `seed ${seed}, index rebuilt`)
  expect((await server.stop()).code).toBe(0)
})
