/** Two nodes of one cluster, as producers and readers behind a load balancer see them. */
import { describe, expect, test } from 'vitest'
import { send } from '../util/server.ts'
import { atNode, noCluster, POOL, startCluster } from './nodes.ts'

const AT = '2026-01-01T00:00:00Z'

describe.skipIf(noCluster !== undefined)(`two nodes ${noCluster ?? ''}`, () => {
  test('take events, updates and deletes in turn, and each sees what the other acknowledged', async () => {
    const cluster = await startCluster()
    const nodes = [await cluster.node(), await cluster.node()] as const
    const { poolId, url } = await nodes[0].createPool(POOL)
    // A node knows what another one made as soon as that is answered.
    for (const [index, node] of nodes.entries()) {
      const events = ['a', 'b', `own ${index}`].map(id => ({ at: AT, id, n: 10 + index }))
      expect((await send(atNode(url, node), events)).status).toBe(200)
      for (const each of nodes) expect(await each.count(poolId)).toBe(String(3 + index))
    }
    expect(await nodes[0].sum(poolId, 'n')).toBe(String(11 + 11 + 10 + 11))
    expect((await send(atNode(url, nodes[1]), [{ at: AT, id: 'a' }], 'DELETE')).status).toBe(200)
    for (const each of nodes) expect(await each.count(poolId)).toBe('3')

    expect((await send(atNode(url, nodes[0]), [{ at: AT, id: 'a', n: 1 }])).status).toBe(200)
    for (const each of nodes) expect(await each.sum(poolId, 'n')).toBe(String(1 + 11 + 10 + 11))

    const refused = await send(atNode(url, nodes[1]), [
      { at: AT, id: 7 },
      { at: AT, id: 'c', n: 2 },
    ])
    expect(refused.headers.get('x-events-rejected')).toBe('1')
    for (const each of nodes) expect(await each.count(poolId)).toBe('5')

    await nodes[1].graphql(`mutation { deleteDataPool(id: "${poolId}") }`)
    for (const node of nodes) expect((await send(atNode(url, node), [{ at: AT, id: 'd' }])).status).toBe(404)
  })
})
