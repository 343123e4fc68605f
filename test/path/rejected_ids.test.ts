/**
 * The id of a rejected event never repeats, or a row would take the place of an earlier one: over
 * stops and kills, while the wall clock stands still or steps back.
 */
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { rejectedNow } from '../util/rejected.ts'
import { removeLeftovers, send, startServer, type TestPool, temporaryFolder } from '../util/server.ts'
import { clockEnv } from '../util/set-clock.ts'
import { column } from './client.ts'

afterAll(removeLeftovers)

const NOON_MS = Date.UTC(2026, 4, 6, 12)
const HOUR_MS = 3_600_000
/** Each start has this time, for good, and this end. */
const STARTS = [
  { atMs: NOON_MS, isKilled: false },
  { atMs: NOON_MS, isKilled: true },
  { atMs: NOON_MS - HOUR_MS, isKilled: false },
  { atMs: NOON_MS, isKilled: false },
]
const REQUESTS = 10
const EVENTS = 10
const POOLS = {
  plain: { columns: [column('n', 'INT64')] },
  // Its workers give each event a received-at.
  rising: { columns: [column('id', 'STRING'), column('n', 'INT64')], uniqueId: 'id' },
}

test('no rejected event is lost over stops and kills, whatever the clock says', async () => {
  const dataDir = join(temporaryFolder(), 'data')
  const pools: TestPool[] = []
  let rows = 0
  for (const { atMs, isKilled } of STARTS) {
    const server = await startServer({ dataDir, env: clockEnv({ atMs }) })
    if (pools.length === 0)
      for (const [uniqueName, pool] of Object.entries(POOLS))
        pools.push(await server.createPool({ uniqueName, ...pool }))
    rows += REQUESTS * (EVENTS + 1)
    for (const { poolId, url } of pools) {
      const here = server.base + new URL(url).pathname
      for (let request = 0; request < REQUESTS; request += 1) {
        const events = Array.from({ length: EVENTS }, (_, n) => ({ id: 'same', n: `${n}` }))
        expect((await send(here, events)).status).toBe(400)
        // Refused by its head.
        expect((await send(`${here}?disable_partial_success=x`, {})).status).toBe(400)
      }
      await expect.poll(async () => (await rejectedNow(server, poolId)).length).toBe(rows)
    }
    if (isKilled) await server.kill()
    else expect((await server.stop()).code).toBe(0)
  }
})
