/**
 * Rows of two nodes into two shards of two replicas: what was answered is what every replica has,
 * while servers die and come back.
 */
import { describe, expect, onTestFinished, test } from 'vitest'
import { insertRows, quorumsOf } from '../../src/cluster/clickhouse/insert-rows.ts'
import { syncedReplicas } from '../../src/cluster/clickhouse/synced-replicas.ts'
import { createTable } from '../../src/cluster/clickhouse/table.ts'
import { readTopology, type Topology } from '../../src/cluster/clickhouse/topology.ts'
import { Inserts } from '../../src/cluster/inserts.ts'
import { KeeperClient } from '../../src/cluster/keeper/keeper-client.ts'
import { Versions } from '../../src/cluster/keeper/versions.ts'
import { deleteSchema, type PoolSchema } from '../../src/format/schema.ts'
import { makeBatch } from '../util/make-batch.ts'
import { newSeed, randomFrom } from '../util/random.ts'
import { type Clickhouse, noClickhouse, startClickhouse } from './clickhouse-servers.ts'
import { standStill } from './stoppable-proxy.ts'
import { noZookeeper, startZookeeper, type Zookeeper } from './zookeeper.ts'

const SEED = newSeed()
const TABLE = 'DPO01'
const SESSION_MS = 6_000

const column = (name: string, type: 'TIMESTAMP' | 'STRING' | 'INT64') => ({
  name,
  type,
  jsonProperty: name,
  required: true,
})
const SCHEMA: PoolSchema = {
  pool: 1,
  version: 1,
  columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
  timestamp: 0,
  tenant: -1,
  key: { columns: [0, 1], version: -1 },
}

/** What a node does with rows, without parsing them. */
async function nodeOf(zookeeper: Zookeeper, topology: Topology) {
  let connected = () => {}
  const isConnected = new Promise<void>(resolve => {
    connected = resolve
  })
  const keeper = new KeeperClient({
    servers: [{ host: '127.0.0.1', port: zookeeper.port }],
    sessionMs: SESSION_MS,
    onConnected: () => connected(),
    onWatched: () => {},
  })
  onTestFinished(() => keeper.stop())
  await isConnected
  const versions = new Versions(keeper, '/versions', 0)
  await versions.open()
  const inserts = new Inserts({
    versions: rows => versions.take(rows),
    insert: async ({ kind, schema, entries }) => {
      const rows = { table: TABLE, kind, schema: kind === 'delete' ? deleteSchema(schema) : schema, entries }
      await insertRows(rows, { topology, quorum: quorumsOf(topology, 0) })
    },
    isCurrent: () => keeper.isAlive(),
    jobVersion: () => 0n,
    onDone: () => {},
    onInsert: () => {},
  })
  const commit = (kind: 'post' | 'delete', rows: readonly { id: string; n: number }[]) => {
    const values = rows.map(({ id, n }) => ({
      payload: '{}',
      key: id,
      values: kind === 'post' ? [0n, id, BigInt(n)] : [0n, id],
    }))
    const batch = makeBatch(kind === 'post' ? SCHEMA : deleteSchema(SCHEMA), values)
    return inserts.commit(TABLE, SCHEMA, kind, batch, Float64Array.of(0, 1_000_000, rows.length, 1))
  }
  return { commit, inserts }
}

async function clusterOf() {
  const zookeeper = await startZookeeper({ tickMs: 2_000 })
  const servers = await startClickhouse({ zookeeperPort: zookeeper.port, shards: 2, replicas: 2 })
  const addresses = servers.map(({ httpPort }) => ({ url: `http://127.0.0.1:${httpPort}` }))
  const topology = await readTopology(addresses, 'weir')
  for (const server of servers) await server.query(createTable(TABLE, SCHEMA, '/tables'))
  expect(topology.shards.map(replicas => replicas.map(({ name }) => name))).toEqual([
    ['r1', 'r2'],
    ['r1', 'r2'],
  ])
  return { zookeeper, servers, topology }
}

/** The records of all shards, as the replica of that index has them. */
async function recordsOf(servers: readonly Clickhouse[], replica: 0 | 1): Promise<Map<string, number>> {
  const records = new Map<string, number>()
  for (const server of [servers[replica]!, servers[2 + replica]!]) {
    await server.query(`SYSTEM SYNC REPLICA ${TABLE}`)
    const printed = await server.query(
      `SELECT id, n FROM ${TABLE} FINAL WHERE _deleted = 0 FORMAT JSONCompact`,
    )
    for (const [id, n] of (JSON.parse(printed) as { data: [string, string][] }).data) {
      expect(records.has(id)).toBe(false)
      records.set(id, Number(n))
    }
  }
  return records
}

describe.skipIf((noZookeeper ?? noClickhouse) !== undefined)(
  `rows ${noZookeeper ?? noClickhouse ?? ''}`,
  () => {
    test('of the same key from two nodes in turn: the last answer wins each time', async () => {
      const { zookeeper, servers, topology } = await clusterOf()
      const nodes = [await nodeOf(zookeeper, topology), await nodeOf(zookeeper, topology)]
      for (let n = 0; n < 100; n += 1) await nodes[n % 2]!.commit('post', [{ id: `k${n % 7}`, n }])
      await nodes[0]!.commit('delete', [{ id: 'k3', n: 0 }])
      await nodes[1]!.commit('post', [{ id: 'k4', n: 1_000 }])
      for (const replica of [0, 1] as const) {
        const records = await recordsOf(servers, replica)
        expect([...records].sort()).toEqual([
          ['k0', 98],
          ['k1', 99],
          ['k2', 93],
          ['k4', 1_000],
          ['k5', 96],
          ['k6', 97],
        ])
      }
    })

    test('a query finds a replica with every answered row, or none at all', async () => {
      const { zookeeper, servers, topology } = await clusterOf()
      const { commit } = await nodeOf(zookeeper, topology)
      const rows = Array.from({ length: 50 }, (_, n) => ({ id: `k${n}`, n }))
      await commit('post', rows)
      const counted = async () => {
        const replicas = await syncedReplicas([TABLE], topology)
        const counts = replicas.map(async ({ http }) =>
          Number((await http.run(`SELECT count() FROM ${TABLE} FINAL`, {}, 100)).body.toString()),
        )
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
      }
      for (let turn = 0; turn < 4; turn += 1) expect(await counted()).toBe(50)
      const [first, second] = servers
      // One stands still, without closing what it has open.
      await standStill(first!.child)
      for (let turn = 0; turn < 2; turn += 1) expect(await counted()).toBe(50)
      await second!.kill()
      const refused = expect.objectContaining({ name: 'Unavailable', code: 'cluster_not_synced' })
      await expect(counted()).rejects.toThrow(refused)
      first!.child.kill('SIGCONT')
      await expect.poll(() => counted().catch(() => 0)).toBe(50)
      // Without Keeper no replica can say that it has all.
      await zookeeper.kill()
      await expect(counted()).rejects.toThrow(refused)
    })

    test(`while servers die and come back, seed ${SEED}`, async () => {
      const { zookeeper, servers, topology } = await clusterOf()
      const nodes = [await nodeOf(zookeeper, topology), await nodeOf(zookeeper, topology)]
      const model = new Map<string, number>()
      let isOver = false
      let refused = 0
      let answered = 0
      const workers = Array.from({ length: 6 }, async (_, worker) => {
        const random = randomFrom(SEED + worker)
        for (let turn = 0; !isOver; turn += 1) {
          const kind = random() < 0.2 ? 'delete' : 'post'
          const rows = Array.from({ length: 1 + Math.floor(random() * 20) }, () => ({
            id: `${worker}/${Math.floor(random() * 30)}`,
            n: turn,
          }))
          // A client sends again what was not confirmed, to whichever node.
          for (;;)
            try {
              await nodes[Math.floor(random() * 2)]!.commit(kind, rows)
              break
            } catch (error) {
              expect(error).toMatchObject({ name: 'Unavailable' })
              refused += 1
              await new Promise(resolve => setTimeout(resolve, 100))
            }
          answered += 1
          for (const { id, n } of rows) {
            if (kind === 'post') model.set(id, n)
            else model.delete(id)
          }
        }
      })
      const random = randomFrom(SEED + 99)
      for (let fault = 0; fault < 5; fault += 1) {
        const before = answered
        await expect.poll(() => answered - before).toBeGreaterThan(5)
        if (fault === 3) await zookeeper.restart()
        else await servers[Math.floor(random() * servers.length)]!.restart()
      }
      const before = answered
      await expect.poll(() => answered - before).toBeGreaterThan(20)
      isOver = true
      await Promise.all(workers)
      for (const replica of [0, 1] as const)
        expect(new Map([...(await recordsOf(servers, replica))].sort())).toEqual(new Map([...model].sort()))
      for (const { inserts } of nodes)
        expect(inserts.stats()).toMatchObject({ running: 0, waitingPools: 0, bytes: 0 })
      expect(refused).toBeGreaterThanOrEqual(0)
    })
  },
)
