/**
 * Faults of every part of a cluster, under inserts, updates, deletes and questions at three nodes
 * whose clocks are minutes apart, and on a modern ClickHouse jobs, imports, replays, retention,
 * tails and changes of the catalog too: what was acknowledged is what every node and every replica
 * has, and no count was ever short.
 *
 *   WEIR_TEST_FAULTS   faults in all; default 12, of a long run 200
 *   WEIR_TEST_SEED     of a run that failed
 */
import { describe, expect, test } from 'vitest'
import { newSeed, randomFrom } from '../util/random.ts'
import type { TestPool } from '../util/server.ts'
import { isModern } from './clickhouse-servers.ts'
import { ClusterFaults, type FaultyCluster, kindsOf, startFaultyCluster } from './cluster-faults.ts'
import { FaultLoad } from './fault-load.ts'
import { FaultWork } from './fault-work.ts'
import { noCluster, POOL } from './nodes.ts'

const SEED = newSeed()
const FAULTS = Number(process.env['WEIR_TEST_FAULTS'] ?? (process.env['WEIR_TEST_LONG'] === '1' ? 200 : 12))
/** Requests that are acknowledged after a fault before the next one comes. */
const ACKS_BETWEEN = 30

type Row = readonly [id: string, n: number]

async function rowsOfNodes({ nodes }: FaultyCluster, { poolId }: TestPool): Promise<Row[][]> {
  const query = `{ dataGrid(input: { dataPool: { id: "${poolId}" }, columns: ["id", "n"], first: 1000 }) { rows } }`
  return await Promise.all(
    nodes.map(async node => {
      const { data } = await node.graphql<{ dataGrid: { rows: [string, string][] } }>(query)
      return data.dataGrid.rows.map(([id, n]) => [id, Number(n)] as const)
    }),
  )
}

/** The first list is of the first replica of each shard, and so on. */
async function rowsOfReplicas({ servers, replicas }: FaultyCluster, { poolId }: TestPool): Promise<Row[][]> {
  const lists: Row[][] = Array.from({ length: replicas }, () => [])
  for (const [index, server] of servers.entries()) {
    await server.query(`SYSTEM SYNC REPLICA \`${poolId}\``)
    const printed = await server.query(
      `SELECT id, n FROM \`${poolId}\` FINAL WHERE _deleted = 0 FORMAT JSONCompact`,
    )
    const { data } = JSON.parse(printed) as { data: [string, string][] }
    lists[index % replicas]!.push(...data.map(([id, n]) => [id, Number(n)] as const))
  }
  return lists
}

describe.skipIf(noCluster !== undefined)(`faults ${noCluster ?? ''}`, () => {
  test(`of each part lose nothing, seed ${SEED}`, { timeout: 240_000 + FAULTS * 180_000 }, async () => {
    const cluster = await startFaultyCluster()
    const pool = await cluster.nodes[0]!.createPool(POOL)
    const load = new FaultLoad(cluster.nodes, pool, SEED)
    const work = isModern ? new FaultWork(cluster.nodes, randomFrom(SEED + 2_000)) : undefined
    const random = randomFrom(SEED + 1_000)
    const faults = new ClusterFaults(cluster, random)
    load.start()
    await work?.start()
    try {
      for (const kind of shuffled(kindsOf(FAULTS), random)) {
        const before = load.acked
        await expect.poll(() => load.acked - before, { timeout: 90_000 }).toBeGreaterThan(ACKS_BETWEEN)
        load.takeGaps()
        await faults.make(kind)
        const after = load.acked
        const asked = load.answered
        await expect.poll(() => load.acked - after, { timeout: 90_000 }).toBeGreaterThan(ACKS_BETWEEN)
        await expect.poll(() => load.answered - asked, { timeout: 90_000 }).toBeGreaterThan(3)
        faults.took(kind, load.takeGaps())
        process.stdout.write(`${faults.said.at(-1)}\n`)
      }
    } catch (error) {
      process.stdout.write(`failed: ${faults.said.at(-1)}\n`)
      throw error
    } finally {
      await load.stop()
      await work?.stop()
      const rounds = [...(work?.rounds ?? [])].map(([name, count]) => `${count} of ${name}`)
      process.stdout.write(
        `${load.acked} acknowledged, ${load.refused} sent again, ${load.answered} counts; rounds: ${rounds.join(', ')}\n${faults.table()}\n`,
      )
    }
    const expected = [...load.model].sort()
    for (const rows of [...(await rowsOfNodes(cluster, pool)), ...(await rowsOfReplicas(cluster, pool))])
      expect(rows.toSorted()).toEqual(expected)
  })
})

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  return all
    .map(one => [random(), one] as const)
    .sort(([a], [b]) => a - b)
    .map(([, one]) => one)
}
