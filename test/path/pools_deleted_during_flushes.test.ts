/** A pool is deleted while the index commits its flush: the server goes on for all other pools. */
import { expect, test } from 'vitest'
import { send, startServer } from '../util/server.ts'

const COLUMNS = [
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
  { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
]

test('W-4: pools deleted at any moment of their flush leave every other pool answering', async () => {
  const server = await startServer()
  const steady = await server.createPool({ columns: COLUMNS, timestamp: 'at', uniqueId: 'id' })
  for (let round = 0; round < 40; round += 1) {
    const pool = await server.createPool({ columns: COLUMNS, timestamp: 'at', uniqueId: 'id' })
    const events = Array.from({ length: 200 }, (_, id) => ({ id: `e${id}`, at: '2026-01-01' }))
    expect((await send(pool.url, events)).status).toBe(200)
    const counting = server.count(pool.poolId).catch(() => 'gone') // flushes the pool
    const deleting = new Promise(resolve => setTimeout(resolve, round)).then(() =>
      server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool.poolId }),
    )
    await Promise.all([counting, deleting])
    expect((await send(pool.url, events[0])).status).toBe(404)
    expect((await send(steady.url, { id: `r${round}`, at: '2026-01-01' })).status).toBe(200)
    expect(await server.count(steady.poolId)).toBe(String(round + 1))
  }
  expect((await server.stop()).code).toBe(0)
})
