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
import { noCluster, POOL, startCluster } from './nodes.ts'
import { stoppableProxy } from './stoppable-proxy.ts'

vi.setConfig({ testTimeout: 300_000 })

const TABLE = 'DPO01'
const SCHEMA = { pool: 1, version: 1, columns: [], timestamp: -1, tenant: -1, key: null }

describe.skipIf(noCluster !== undefined)(`a shard of two replicas ${noCluster ?? ''}`, () => {
  test('keeps its quorum while the other one has a session', async () => {
    const lines = recordLog()
    const { servers } = await startCluster({ shards: 1, replicas: 2 })
    const proxy = await stoppableProxy(servers[1]!.httpPort)
    const addresses = [servers[0]!.httpPort, proxy.port].map(port => ({ url: `http://127.0.0.1:${port}` }))
    const watch = await watchTopology(addresses, 'weir')
    for (const server of servers) await server.query(createTable(TABLE, SCHEMA, '/tables'))
    let stored = 0
    try {
      let n = 0
      const insert = async () => {
        const { topology } = watch
        const batch = makeBatch(SCHEMA, [{ payload: `{"n":${++n}}`, key: '', values: [] }])
        const versions = BigInt64Array.of(BigInt(n))
        const entries = [{ batch, requests: Float64Array.of(0, 1_000_000, 1, 1), versions }]
        const rows = { table: TABLE, kind: 'post' as const, schema: SCHEMA, entries }
        await insertRows(rows, { topology, quorum: quorumsOf(topology, 0) })
        stored += 1
      }
      await insert()
      // Weir gets no answer of it, and it lives.
      proxy.stop()
      await watch.look()
      expect([watch.topology.shards[0]!.length, watch.topology.isHalved]).toEqual([1, [false]])
      // The other server counts it.
      await insert()
      await servers[1]!.kill()
      await expect
        .poll(() => watch.look().then(() => watch.topology.isHalved), { timeout: 60_000 })
        .toEqual([true])
      await insert()
      await servers[1]!.restart()
      proxy.go()
      const seen = async () => {
        await watch.look()
        return [watch.topology.shards[0]!.length, watch.topology.isHalved]
      }
      await expect.poll(seen, { timeout: 60_000 }).toEqual([2, [false]])
      await insert()
    } finally {
      watch.stop()
    }
    for (const server of servers) {
      await server.query(`SYSTEM SYNC REPLICA ${TABLE}`)
      expect(await server.query(`SELECT count() FROM ${TABLE}`)).toBe(`${stored}\n`)
    }
    const other = `the replica at 127.0.0.1:${proxy.port}`
    const ofTopology = lines
      .map(({ message }) => message)
      .filter(line => line?.startsWith('cluster_') !== true)
    expect(ofTopology.slice(0, 2)).toEqual([
      `${other} cannot be asked: no answer in time`,
      'shard 1: one of its two replicas has left Keeper; the other one is the quorum, unless WEIR_CLICKHOUSE_QUORUM says otherwise',
    ])
    // Keeper may hear it before it answers Weir, or after.
    expect(ofTopology.slice(2).sort()).toEqual([
      'shard 1: its quorum is both of its replicas again, unless WEIR_CLICKHOUSE_QUORUM says otherwise',
      `${other} answers again`,
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
