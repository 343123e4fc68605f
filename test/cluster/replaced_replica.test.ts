/** A replica that is back with an empty disk, and one that is added, by the steps of the page. */
import { describe, expect, test, vi } from 'vitest'
import { send, type TestPool, type TestServer } from '../util/server.ts'
import { type Clickhouse, startClickhouse } from './clickhouse-servers.ts'
import { atNode, nodesOn, noModernServers, POOL, startCluster } from './nodes.ts'
import { repair } from './repair-page.ts'
import { startZookeeper } from './zookeeper.ts'

vi.setConfig({ testTimeout: 1_200_000 })

const PAGE = 'docs/how-to/repair-a-cluster.md'

/** Events of a pool, of which each is acknowledged. */
class Events {
  #acked = 0

  /** One more is there, and every count has it. */
  async one(node: TestServer, { url, poolId }: TestPool): Promise<void> {
    const event = { at: '2026-01-01T00:00:00Z', id: String(this.#acked), n: 1 }
    expect((await send(atNode(url, node), [event])).status).toBe(200)
    this.#acked += 1
    await expect.poll(() => node.count(poolId).catch(() => '')).toBe(String(this.#acked))
  }

  /** The server has all rows, without the help of others. */
  async areOn(server: Clickhouse, { poolId }: TestPool): Promise<void> {
    const count = () => server.query(`SELECT uniqExact(id) FROM ${poolId}`).catch(() => '')
    await expect.poll(count, { timeout: 60_000 }).toBe(`${this.#acked}\n`)
  }
}

describe.skipIf(noModernServers !== undefined)(`a replica ${noModernServers ?? ''}`, () => {
  test('with an empty disk gets its tables and rows once Keeper has forgotten it', async () => {
    const { servers, node } = await startCluster({ shards: 1, replicas: 2 })
    const [kept, lost] = servers as [Clickhouse, Clickhouse]
    const events = new Events()
    const first = await node()
    const pool = await first.createPool(POOL)
    await events.one(first, pool)
    await lost.empty()
    await lost.restart()
    await events.one(first, pool)
    await first.stop()
    // The node that leads looks at once, and then each half minute.
    const second = await node()
    const said = () => new RegExp(`SYSTEM DROP REPLICA 'r2'(?=.*${PAGE})`).exec(second.output())?.[0]
    await expect.poll(said).toBeDefined()
    await events.one(second, pool)
    await second.stop()
    // Nothing is left to fetch, and the command has no answer.
    expect(await repair(servers, said()!.replace('r2', 'r3'), 'r2')).toBe('')
    const third = await node()
    await events.areOn(lost, pool)
    await events.one(third, pool)
    await kept.kill()
    await events.one(third, pool)
    await events.areOn(lost, pool)
  })

  test('that is added gets all tables and rows, and counts for the quorum', async () => {
    const zookeeper = await startZookeeper({ tickMs: 2_000 })
    const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 1, replicas: 3 })
    const [one, two, added] = servers as [Clickhouse, Clickhouse, Clickhouse]
    await added.stop()
    for (const server of [one, two]) {
      server.nameReplicas(2)
      await server.restart()
    }
    const urls = servers.map(({ httpPort }) => `http://127.0.0.1:${httpPort}`)
    const events = new Events()
    const before = await nodesOn(urls.slice(0, 2), zookeeper).node()
    const pool = await before.createPool(POOL)
    await events.one(before, pool)
    // Nodes know it first, then the servers.
    await before.stop()
    const node = await nodesOn(urls, zookeeper).node()
    await events.one(node, pool)
    for (const server of [one, two]) {
      server.nameReplicas(3)
      await server.stop()
      await server.restart()
      await events.one(node, pool)
    }
    await added.restart()
    await events.areOn(added, pool)
    await events.one(node, pool)
    await one.kill()
    await events.one(node, pool)
    await events.areOn(added, pool)
  })
})
