/** The gauges of a cluster as one of its nodes sees it. */
import type { Cluster } from '../cluster/cluster.ts'
import type { Metrics } from '../database/metrics.ts'
import { warn } from '../util/say.ts'
import type { ClusterSizes } from './cluster-sizes.ts'

/** Registers them. */
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
