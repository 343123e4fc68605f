/** Retention in a cluster, where the node that leads creates deletions (mode cluster-store). */
import { expect, test } from 'vitest'
import { STORE } from '../util/cluster-node.ts'
import { send, startServer } from '../util/server.ts'
import { POOL } from './nodes.ts'

const title = 'records that are too old go by a deletion, and the others stay'

// ClickHouse 18.16 compares no times.
test.skipIf(STORE !== 'chdb')(title, { timeout: 90_000 }, async () => {
  const server = await startServer()
  const { poolId, url } = await server.createPool(POOL)
  const now = new Date().toISOString()
  const events = [
    { at: '2020-01-01T00:00:00Z', id: 'old', n: 1 },
    { at: '2020-01-02T00:00:00Z', id: 'old too', n: 2 },
    { at: now, id: 'new', n: 4 },
  ]
  expect((await send(url, events)).status).toBe(200)
  expect(await server.count(poolId)).toBe('3')
  const { errors } = await server.graphql(
    'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename } }',
    { input: { idOrUniqueName: { id: poolId }, dataRetentionInDays: 30 } },
  )
  expect(errors).toBeUndefined()
  await expect.poll(() => server.count(poolId), { timeout: 60_000 }).toBe('1')
  expect(await server.sum(poolId, 'n')).toBe('4')
})
