import { expect, test } from 'vitest'
import { send, spawnServer, startServer } from '../util/server.ts'
import { events, KEYED } from './damage.ts'

test('a second process on the same folder exits 2 naming it; the first is not disturbed', async () => {
  const server = await startServer()
  const pool = await server.createPool(KEYED)
  expect((await send(pool.url, events(0, 5))).status).toBe(200)
  const second = await spawnServer({ dataDir: server.dataDir }).ended
  expect(second.code).toBe(2)
  expect(second.output).toContain(`another process uses the data folder ${server.dataDir}`)
  expect((await send(pool.url, events(5, 10))).status).toBe(200)
  expect(await server.count(pool.poolId)).toBe('10')
  // The lock ends with its process, however that ends. Nothing has to be removed by hand.
  await server.kill()
  const third = await startServer({ dataDir: server.dataDir })
  expect(await third.count(pool.poolId)).toBe('10')
  expect((await third.stop()).code).toBe(0)
})
