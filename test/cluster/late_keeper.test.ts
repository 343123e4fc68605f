/**
 * A shard of three replicas, one of which sees the log of its table later than the others, as
 * behind a server of Keeper that is late. Its SYNC then ends before it has everything.
 */
import { describe, expect, test, vi } from 'vitest'
import { syncedReplicas } from '../../src/cluster/clickhouse/synced-replicas.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { type Replica, readTopology, type Topology } from '../../src/cluster/clickhouse/topology.ts'
import type { ClickHouseAnswer, ClickHouseHttp } from '../../src/query/clickhouse/http.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { send } from '../util/server.ts'
import { noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { noCluster, POOL, startCluster } from './nodes.ts'
import { standStill } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper } from './zookeeper.ts'

vi.setConfig({ testTimeout: 300_000 })

const TABLES = ['DPO1', 'DPO2'] as const
const SCHEMA = { pool: 1, version: 1, columns: [], timestamp: -1, tenant: -1, key: null }
const REFUSED = { name: 'Unavailable', code: 'cluster_not_synced' }

/** A replica that a test makes late. */
interface Late {
  readonly replica: Replica
  /** From now on it sees the logs as they are now, and SYNC finds nothing to do. */
  freeze(): Promise<void>
  thaw(): void
  /** Parameters of each SYNC. */
  readonly syncs: Readonly<Record<string, string>>[]
}

function lateReplica(replica: Replica): Late {
  let seen: ClickHouseAnswer | undefined
  let asked: Parameters<ClickHouseHttp['run']> | undefined
  const syncs: Readonly<Record<string, string>>[] = []
  const http: Pick<ClickHouseHttp, 'execute' | 'run'> = {
    async execute(sql, parameters, signal) {
      syncs.push(parameters)
      if (seen === undefined) await replica.http.execute(sql, parameters, signal)
    },
    async run(sql, parameters, bytesMax, signal) {
      asked = [sql, parameters, bytesMax]
      return seen ?? (await replica.http.run(sql, parameters, bytesMax, signal))
    },
  }
  return {
    replica: { ...replica, http: http as ClickHouseHttp },
    async freeze() {
      seen = await replica.http.run(...asked!)
    },
    thaw() {
      seen = undefined
    },
    syncs,
  }
}

async function shardOfThree() {
  const zookeeper = await startZookeeper({ tickMs: 2_000 })
  const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 1, replicas: 3 })
  for (const server of servers)
    for (const table of TABLES) await server.query(createTable(table, SCHEMA, '/tables'))
  const addresses = servers.map(({ httpPort }) => ({ url: `http://127.0.0.1:${httpPort}` }))
  const topology = await readTopology(addresses, 'weir')
  const [r1, r2, r3] = topology.shards[0]!
  const late = lateReplica(r3!)
  const shards = [[r1!, r2!, late.replica]]
  let rows = 0
  /** As by a quorum of two. */
  const insert = async (table: string) => {
    rows += 1
    await servers[0]!.query(`INSERT INTO ${table} VALUES (1, '{}', ${rows})`)
    await servers[1]!.query(`SYSTEM SYNC REPLICA ${table}`)
  }
  return { servers, late, topology: { ...topology, shards }, insert }
}

async function namesOf(topology: Topology, turns = 6): Promise<string[]> {
  const names = new Set<string>()
  for (let turn = 0; turn < turns; turn += 1)
    for (const { name } of await syncedReplicas(TABLES, topology)) names.add(name)
  return [...names].sort()
}

describe.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
  `a late replica of three ${noZookeeper ?? noClickhouse ?? ''}`,
  () => {
    test('is asked no question until it has what was acknowledged', async () => {
      const { late, topology, insert } = await shardOfThree()
      // Without entries, with the first one of a log, and with later ones.
      for (let entries = 0; entries < 3; entries += 1) {
        for (const table of TABLES) {
          expect(await namesOf(topology)).toEqual(['r1', 'r2', 'r3'])
          await late.freeze()
          await insert(table)
          expect(await namesOf(topology), `${table} ${entries}`).toEqual(['r1', 'r2'])
          late.thaw()
        }
      }
      expect(new Set(late.syncs.map(parameters => parameters['receive_timeout']))).toEqual(new Set(['3']))
    })

    test('that has to answer is asked again, and then refused', async () => {
      const { late, topology, insert } = await shardOfThree()
      await namesOf(topology)
      const refusing = (replica: Replica): Replica => {
        const http = {
          run: replica.http.run.bind(replica.http),
          execute: () => Promise.reject(new Unavailable('cluster_unreachable', 'made by a test')),
        }
        return { ...replica, http: http as unknown as ClickHouseHttp }
      }
      const [r1, r2] = topology.shards[0]!
      const last = { ...topology, shards: [[refusing(r1!), refusing(r2!), late.replica]] }
      await late.freeze()
      await insert('DPO1')
      await expect(syncedReplicas(TABLES, last)).rejects.toMatchObject(REFUSED)
      late.thaw()
      expect(await namesOf(last)).toEqual(['r3'])
    })

    test('alone may lack what the others have: one that stands still is not waited for', async () => {
      const { servers, topology } = await shardOfThree()
      expect(await namesOf(topology)).toEqual(['r1', 'r2', 'r3'])
      await standStill(servers[0]!.child)
      expect(await namesOf(topology)).toEqual(['r2', 'r3'])
      await servers[1]!.kill()
      await expect(syncedReplicas(TABLES, topology)).rejects.toMatchObject(REFUSED)
      servers[0]!.child.kill('SIGCONT')
      await expect.poll(() => namesOf(topology).catch(() => [])).toEqual(['r1', 'r3'])
    })
  },
)

describe.skipIf(noCluster !== undefined)(`a node before three replicas ${noCluster ?? ''}`, () => {
  test('answers with everything that was acknowledged, from each of them', async () => {
    const { node } = await startCluster({ shards: 1, replicas: 3 })
    const server = await node()
    const { poolId, url } = await server.createPool(POOL)
    expect(await server.count(poolId)).toBe('0')
    for (let n = 1; n <= 9; n += 1) {
      expect((await send(url, [{ at: '2026-01-01T00:00:00Z', id: `k${n}`, n }])).status).toBe(200)
      expect(await server.count(poolId)).toBe(String(n))
    }
  })
})
