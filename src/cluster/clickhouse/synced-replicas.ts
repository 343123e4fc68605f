/**
 * Where a query reads: one replica of each shard that has everything which was acknowledged before
 * the query began.
 *
 *   W-8  A replica is asked only after it fetched what the log of its table had. One that cannot
 *        say so in time is left for another one. Where a shard has none, the query is refused:
 *        never a short count.
 */
import { ClickHouseError, unavailable } from '../../query/clickhouse/http.ts'
import { must } from '../../util/assert.ts'
import { Unavailable } from '../../util/errors.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import type { Replica, Topology } from './topology.ts'

/** A replica that lives answers in milliseconds. */
const SYNC_MS_MAX = 3_000
/** ClickHouse's limit for this. By default it goes on for 300 s after nobody waits any more. */
const SYNC_SETTINGS = { receive_timeout: String(SYNC_MS_MAX / 1_000) }

/** Where the next query begins, so that replicas take turns. */
let turn = 0

/**
 * A replica of each shard that has everything of the tables. Rejects with Unavailable
 * (`cluster_not_synced`), or as `gone` says.
 */
export async function syncedReplicas(
  tables: readonly string[],
  topology: Topology,
  gone?: AbortSignal,
): Promise<readonly Replica[]> {
  turn += 1
  return await Promise.all(topology.shards.map((_, shard) => syncedReplica(tables, shard, topology, gone)))
}

/** One of one shard, as above. */
export async function syncedReplica(
  tables: readonly string[],
  shard: number,
  { shards, features }: Topology,
  gone?: AbortSignal,
): Promise<Replica> {
  const replicas = must(shards[shard], 'a shard')
  const first = turn // others take theirs meanwhile
  // Merges need not be waited for.
  const how = features.hasTimes ? ' LIGHTWEIGHT' : ''
  const reasons: string[] = []
  for (let tries = 0; tries < replicas.length; tries += 1) {
    const replica = must(replicas[(first + tries) % replicas.length], 'a replica')
    const late = AbortSignal.timeout(SYNC_MS_MAX)
    try {
      const signal = gone === undefined ? late : AbortSignal.any([late, gone])
      const synced = tables.map(table => {
        const sql = `SYSTEM SYNC REPLICA ${quoteClickHouseName(table)}${how}`
        return replica.http.execute(sql, SYNC_SETTINGS, signal)
      })
      await Promise.all(synced)
      return replica
    } catch (error) {
      gone?.throwIfAborted()
      if (!late.aborted && !(error instanceof ClickHouseError || error instanceof Unavailable)) throw error
      reasons.push(`${replica.name}: ${late.aborted ? 'no answer in time' : (error as Error).message}`)
    }
  }
  const what = `No replica of shard ${shard + 1} can say that it has all acknowledged events`
  throw unavailable('cluster_not_synced', what, `${what}: ${reasons.join('; ')}`)
}
