/**
 * With a staleness, queries of a pool share one flush; without one, each sees what is acknowledged.
 */
import { afterAll, expect, test } from 'vitest'
import { removeLeftovers, send, startServer } from '../util/server.ts'

afterAll(removeLeftovers)

const COLUMNS = [{ name: 'n', jsonProperty: 'n', type: 'INT64', nullable: false }] as const

test('a query may miss rows of the allowed time, and never those before it', async () => {
  const server = await startServer({ args: ['--staleness', '60000'] })
  const [one, other] = [
    await server.createPool({ columns: [...COLUMNS], uniqueName: 'one' }),
    await server.createPool({ columns: [...COLUMNS], uniqueName: 'other' }),
  ]
  expect((await send(one.url, [{ n: 1 }])).status).toBe(200)
  expect(await server.sum(one.poolId, 'n')).toBe('1')
  expect((await send(one.url, [{ n: 2 }])).status).toBe(200)
  expect((await send(other.url, [{ n: 5 }])).status).toBe(200)
  expect([await server.count(one.poolId), await server.sum(one.poolId, 'n')]).toEqual(['1', '1'])
  expect(await server.sum(other.poolId, 'n')).toBe('5')
  await server.stop()
  const exact = await startServer({ dataDir: server.dataDir })
  expect(await exact.sum(one.poolId, 'n')).toBe('3')
  expect((await send(`${exact.base}${new URL(one.url).pathname}`, [{ n: 4 }])).status).toBe(200)
  expect(await exact.sum(one.poolId, 'n')).toBe('7')
  await exact.stop()
})
