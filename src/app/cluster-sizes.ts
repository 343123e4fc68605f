/**
 * How much a cluster holds, from one replica of each shard that answers. It is read at most once a
 * second, whoever asks: a page of pools asks for each of them.
 *
 * ClickHouse counts rows of parts. Until parts are merged these are also rows that were replaced,
 * and those that say that a record is deleted.
 */
import { readRows } from '../cluster/clickhouse/statements.ts'
import type { Replica } from '../cluster/clickhouse/topology.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { Metrics } from '../database/metrics.ts'
import { unavailable } from '../query/clickhouse/http.ts'
import { warn } from '../util/say.ts'
import { keptReading } from './machine.ts'
import type { Size, StoreState } from './store.ts'

const READ_MS = 1_000
const ANSWER_BYTES_MAX = 64 * 1_048_576
const READ_MS_MAX = 3_000

const PARTS = `SELECT table, toString(count()), toString(sum(rows)), toString(sum(bytes_on_disk))
FROM system.parts WHERE active AND database = currentDatabase() GROUP BY table FORMAT JSONCompact`
const DISKS =
  'SELECT toString(sum(total_space)), toString(sum(free_space)) FROM system.disks FORMAT JSONCompact'
const DELAY = `SELECT toString(max(absolute_delay)) FROM system.replicas
WHERE database = currentDatabase() FORMAT JSONCompact`

interface Sizes {
  readonly pools: ReadonlyMap<string, Size>
  readonly parts: number
  readonly bytes: number
  readonly diskBytes: number
  readonly diskFreeBytes: number
  readonly delaySeconds: number
}

export type ClusterSizes = ReturnType<typeof clusterSizes>

export function clusterSizes(cluster: Pick<Cluster, 'topology'>) {
  const read = keptReading(() => readSizes(cluster), READ_MS)
  return {
    read,
    of: async (poolId: string): Promise<Size> => (await read()).pools.get(poolId) ?? { rows: 0, bytes: 0 },
    async state(waiting: { readonly rows: number; readonly oldestMs: number }): Promise<StoreState> {
      const { parts, bytes, diskBytes, diskFreeBytes } = await read()
      return {
        unflushedRecords: String(waiting.rows),
        flushLagMs: waiting.oldestMs,
        segments: parts,
        segmentBytes: bytes,
        diskBytes,
        diskFreeBytes,
      }
    },
  }
}

async function readSizes({ topology }: Pick<Cluster, 'topology'>): Promise<Sizes> {
  const { shards } = topology()
  const pools = new Map<string, Size>()
  const sums = { parts: 0, bytes: 0, diskBytes: 0, diskFreeBytes: 0, delaySeconds: 0 }
  await Promise.all(
    shards.map(async replicas => {
      const [[parts, disks], delays] = await Promise.all([
        firstOf(replicas, each => Promise.all([ask(each, PARTS), ask(each, DISKS)])),
        Promise.allSettled(replicas.map(each => ask(each, DELAY))),
      ])
      for (const [table = '', count, rows, bytes] of parts) {
        const before = pools.get(table) ?? { rows: 0, bytes: 0 }
        pools.set(table, { rows: before.rows + Number(rows), bytes: before.bytes + Number(bytes) })
        sums.parts += Number(count)
        sums.bytes += Number(bytes)
      }
      for (const [total, free] of disks) {
        sums.diskBytes += Number(total)
        sums.diskFreeBytes += Number(free)
      }
      for (const each of delays)
        if (each.status === 'fulfilled')
          sums.delaySeconds = Math.max(sums.delaySeconds, Number(each.value[0]?.[0]))
    }),
  )
  return { pools, ...sums }
}

/** What the first replica says that answers. Rejects with Unavailable where none does. */
async function firstOf<T>(replicas: readonly Replica[], read: (replica: Replica) => Promise<T>): Promise<T> {
  let last: unknown
  for (const replica of replicas)
    try {
      return await read(replica)
    } catch (error) {
      last = error
    }
  throw last
}

/** Rejects with Unavailable. */
async function ask({ http }: Replica, sql: string): Promise<readonly (readonly string[])[]> {
  try {
    const { body } = await http.run(sql, {}, ANSWER_BYTES_MAX, AbortSignal.timeout(READ_MS_MAX))
    return readRows(body)
  } catch (error) {
    const what = 'ClickHouse did not tell its sizes'
    throw unavailable('cluster_sizes', what, `${what}: ${(error as Error).message}`)
  }
}

/** Registers the gauges of a cluster as one of its nodes sees it. */
export function watchCluster(
  { gauge }: Pick<Metrics, 'gauge'>,
  { keeper, topology, writableShards }: Pick<Cluster, 'keeper' | 'topology' | 'writableShards'>,
  sizes: Pick<ClusterSizes, 'read'>,
): void {
  let isSaid = false
  /** Where the servers do not answer, the page lacks the values, and one line says why. */
  const read = async () => {
    try {
      const now = await sizes.read()
      isSaid = false
      return now
    } catch (error) {
      if (!isSaid) warn(`the sizes of the cluster cannot be read: ${(error as Error).message}`)
      isSaid = true
      return undefined
    }
  }
  const sum = (counts: readonly number[]) => counts.reduce((all, count) => all + count, 0)
  gauge(
    'weir_cluster_current',
    '1 while Keeper hears this node, and the others wait for it with each change',
    () => (keeper.isCurrent() ? 1 : 0),
  )
  gauge('weir_cluster_catalog_version', 'the version of the catalog that this node has applied', () =>
    keeper.version(),
  )
  gauge('weir_cluster_replicas', 'replicas of all shards', () => sum(topology().replicas))
  gauge('weir_cluster_replicas_live', 'replicas of all shards that answer', () =>
    sum(topology().shards.map(replicas => replicas.length)),
  )
  gauge(
    'weir_cluster_shards_halved',
    'shards of two replicas of which Keeper hears one, which is the quorum unless WEIR_CLICKHOUSE_QUORUM says otherwise',
    () => topology().isHalved.filter(is => is).length,
  )
  gauge(
    'weir_cluster_shards_writable',
    'shards of which enough replicas answer and have Keeper to take rows; /readyz is 503 where none is',
    writableShards,
  )
  gauge(
    'weir_cluster_parts',
    'active parts of all tables on one replica of each shard',
    async () => (await read())?.parts,
  )
  gauge('weir_cluster_bytes', 'bytes of these parts', async () => (await read())?.bytes)
  gauge(
    'weir_cluster_replica_delay_seconds',
    'how far the most behind table of all replicas that answer is behind the others, as ClickHouse says',
    async () => (await read())?.delaySeconds,
  )
}
