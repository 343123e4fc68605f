/**
 * One of two replicas is enough for a 200 when Keeper does not hear the other one any more, and
 * not yet when that one only does not answer.
 */
import { describe, expect, test, vi } from 'vitest'
import { insertRows, quorumsOf } from '../../src/cluster/clickhouse/insert-rows.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { watchTopology } from '../../src/cluster/clickhouse/topology.ts'
import { recordLog } from '../util/log-lines.ts'
import { makeBatch } from '../util/make-batch.ts'
import { send } from '../util/server.ts'
import { startModernProxy } from './modern-proxy.ts'
import { noCluster, POOL, startCluster } from './nodes.ts'

vi.setConfig({ testTimeout: 300_000 })

const TABLE = 'DPO01'
const SCHEMA = { pool: 1, version: 1, columns: [], timestamp: -1, tenant: -1, key: null }

describe.skipIf(noCluster !== undefined)(`a shard of two replicas ${noCluster ?? ''}`, () => {
  test('keeps its quorum while the other one has a session', async () => {
    const lines = recordLog()
    const { servers } = await startCluster({ shards: 1, replicas: 2 })
    for (const server of servers)
      await server.query(createTable(TABLE, SCHEMA, { hasTimes: false }, '/tables'))
    const proxy = await startModernProxy(servers[1]!.httpPort)
    const addresses = [servers[0]!.httpPort, proxy.port].map(port => ({ url: `http://127.0.0.1:${port}` }))
    const watch = await watchTopology(addresses, 'weir')
    try {
      let n = 0
      const insert = () => {
        const { topology } = watch
        const batch = makeBatch(SCHEMA, [{ payload: `{"n":${n++}}`, key: '', values: [] }])
        const entries = [
          { batch, requests: Float64Array.of(0, 1_000_000, 1, 1), versions: BigInt64Array.of(0n) },
        ]
        const rows = { table: TABLE, kind: 'post' as const, schema: SCHEMA, entries }
        return insertRows(rows, { topology, quorum: quorumsOf(topology, 0), settings: {} })
      }
      await insert()
      // Nobody can reach it by HTTP, and it lives.
      proxy.close()
      await watch.look()
      expect([watch.topology.shards[0]!.length, watch.topology.isHalved]).toEqual([1, [false]])
      await expect(insert()).rejects.toMatchObject({ code: 'cluster_insert' })
      await servers[1]!.kill()
      await expect
        .poll(() => watch.look().then(() => watch.topology.isHalved), { timeout: 60_000 })
        .toEqual([true])
      await insert()
      const again = await startModernProxy(servers[1]!.httpPort, proxy.port)
      await servers[1]!.restart()
      await expect
        .poll(() => watch.look().then(() => watch.topology.isHalved), { timeout: 60_000 })
        .toEqual([false])
      await insert()
      again.close()
    } finally {
      watch.stop()
    }
    for (const server of servers) {
      await server.query(`SYSTEM SYNC REPLICA ${TABLE}`)
      expect(await server.query(`SELECT count() FROM ${TABLE}`)).toBe('3\n')
    }
    expect(lines.map(({ message }) => message)).toEqual([
      'shard 1: one of its two replicas has left Keeper, so an event is acknowledged when the other one has it',
      'shard 1: an event is acknowledged when both of its replicas have it again',
    ])
  })

  test('tells by its metric that one is enough', async () => {
    const { servers, node } = await startCluster({ shards: 1, replicas: 2 })
    const server = await node()
    const { url, poolId } = await server.createPool(POOL)
    const event = { at: '2026-01-01T00:00:00Z', id: 'a', n: 1 }
    expect((await send(url, [event])).status).toBe(200)
    const halved = async () =>
      /^weir_cluster_shards_halved (\d)$/m.exec(await (await fetch(`${server.base}/metrics`)).text())?.[1]
    expect(await halved()).toBe('0')
    await servers[1]!.kill()
    await expect.poll(halved, { timeout: 60_000 }).toBe('1')
    expect((await send(url, [{ ...event, n: 2 }])).status).toBe(200)
    expect(await server.sum(poolId, 'n')).toBe('2')
    await server.stop()
  })
})
