/** Jobs that one node creates and the one that leads runs, over the whole program. */
import { describe, expect, test } from 'vitest'
import { createJob, ended } from '../jobs/rewrite-jobs.ts'
import { send, type TestServer } from '../util/server.ts'
import { atNode, noCluster, POOL, startCluster } from './nodes.ts'

const AT = '2026-01-01T00:00:00Z'

const ADD_COLUMN = `mutation ($input: CreateAddColumnToDataPoolJobInput!) {
  createAddColumnToDataPoolJob(input: $input) { job { id } } }`
const ADDED = 'query ($id: ID!) { job: addColumnToDataPoolJob(id: $id) { status error { message } } }'

async function addColumn(node: TestServer, poolId: string): Promise<void> {
  const input = { dataPool: poolId, columnName: 'more', columnType: 'INT64', jsonProperty: 'more' }
  const { data, errors } = await node.graphql<{ createAddColumnToDataPoolJob: { job: { id: string } } }>(
    ADD_COLUMN,
    { input },
  )
  expect(errors).toBeUndefined()
  const { id } = data.createAddColumnToDataPoolJob.job
  const status = async () => (await node.graphql<{ job: { status: string } }>(ADDED, { id })).data.job.status
  await expect.poll(status, { timeout: 60_000 }).toBe('SUCCEEDED')
}

describe.skipIf(noCluster !== undefined)(`jobs ${noCluster ?? ''}`, () => {
  test('add a column, change records and delete them, whichever node is asked', {
    timeout: 180_000,
  }, async () => {
    const cluster = await startCluster()
    const nodes = [await cluster.node(), await cluster.node()] as const
    const { poolId, url } = await nodes[0].createPool(POOL)
    const events = Array.from({ length: 50 }, (_, n) => ({ at: AT, id: `k${n}`, n, more: 100 + n }))
    const post = async (node: TestServer, some: readonly object[]) =>
      expect((await send(atNode(url, node), some)).status).toBe(200)
    await post(nodes[0], events)
    for (const asked of nodes) {
      // Each node parses with the column as soon as the job has ended at the other one.
      const other = asked === nodes[0] ? nodes[1] : nodes[0]
      if (asked === nodes[0]) {
        await addColumn(asked, poolId)
        await post(other, events.slice(0, 25))
        for (const node of nodes) expect(await node.sum(poolId, 'more')).toBe(String(25 * 112))
      }
      const below = [{ column: 'n', operator: 'LESS_THAN', value: '10' }]
      const update = await createJob(asked, 'update', {
        dataPool: poolId,
        filters: below,
        set: [{ column: 'n', expression: 'n + 1000' }],
      })
      expect(await ended(other, update)).toMatchObject({ status: 'SUCCEEDED' })
      if (asked === nodes[0]) for (const node of nodes) expect(await node.sum(poolId, 'n')).toBe('11225')
    }
    const gone = [{ column: 'n', operator: 'GREATER_THAN_OR_EQUAL_TO', value: '1000' }]
    const deletion = await createJob(nodes[1], 'deletion', { dataPool: poolId, filters: gone })
    expect(await ended(nodes[0], deletion)).toMatchObject({ status: 'SUCCEEDED' })
    for (const node of nodes) expect(await node.count(poolId)).toBe('40')
    // The leader dies: the other one goes on with jobs.
    await post(nodes[1], events)
    const leader = nodes.find(node => node.output().includes('this node leads'))!
    const left = leader === nodes[0] ? nodes[1] : nodes[0]
    await leader.kill()
    const last = await createJob(left, 'deletion', { dataPool: poolId, filterSql: 'n < 5' })
    expect(await ended(left, last)).toMatchObject({ status: 'SUCCEEDED' })
    expect(await left.count(poolId)).toBe('45')
  })
})
