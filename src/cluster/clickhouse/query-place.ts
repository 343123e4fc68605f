/**
 * Where a question of a cluster runs: the server that has one of the synced replicas, and each
 * table as that server reads it.
 */
import type { PoolSchema } from '../../format/schema.ts'
import type { QueryPlace } from '../../query/clickhouse/engine.ts'
import type { PoolTable } from '../../query/clickhouse/rows.ts'
import { must } from '../../util/errors.ts'
import { quoteClickHouseName, quoteClickHouseText } from '../../util/sql.ts'
import { syncedReplicas } from './synced-replicas.ts'
import { DELETED, sortedBy } from './table.ts'
import type { Replica, Topology } from './topology.ts'

/** A pool that a question reads. */
export interface QueriedPool {
  readonly table: string
  readonly schema: PoolSchema
}

/**
 * Resolves when everything that was acknowledged before is there. Rejects with Unavailable
 * (`cluster_not_synced`), or as `gone` says.
 */
export async function queryPlace(
  pools: readonly QueriedPool[],
  topology: Topology,
  database: string,
  gone?: AbortSignal,
): Promise<QueryPlace> {
  const names = [...new Set(pools.map(({ table }) => table))]
  const replicas = await syncedReplicas(names, topology, gone)
  const [first, ...others] = replicas
  const { http } = must(first, 'a shard')
  const ofShards = others.length === 0 ? {} : { ofShards: shardsOf(replicas) }
  const tables = pools.map(
    ({ table, schema }): PoolTable => ({
      table: `${quoteClickHouseName(database)}.${quoteClickHouseName(table)}`,
      isLive: schema.key === null ? '' : `${DELETED} = 0`,
      key: schema.key === null ? [] : sortedBy(schema),
      ...ofShards,
    }),
  )
  return { http, tables }
}

/** The servers ask each other as Weir's user. */
function shardsOf(replicas: readonly Replica[]): (select: string) => string {
  const [first] = replicas
  const { user, password = '' } = must(first, 'a shard').address
  const servers = quoteClickHouseText(replicas.map(({ tcp }) => tcp).join(','))
  const as = user === undefined ? '' : `, ${quoteClickHouseText(user)}, ${quoteClickHouseText(password)}`
  return select => `remote(${servers}, view(${select})${as})`
}
