/**
 * Where a query reads: one replica of each shard that has everything which was acknowledged before
 * the query began.
 *
 *   W-8  A replica is asked only after it fetched what the log of its table had. One that cannot
 *        say so in time is left for another one. Where a shard has none, the query is refused:
 *        never a short count.
 *
 * SYNC ends with the log as the replica sees it. Keeper may have several servers, and that of the
 * replica may be late. Who took part in an INSERT has seen its entry, and that were more than half
 * of the shard. So half of a shard tells where its logs end. Of two replicas each has taken part.
 */
import { WHOLE } from '../../query/clickhouse/engine.ts'
import { ClickHouseError, unavailable } from '../../query/clickhouse/http.ts'
import { must, Unavailable } from '../../util/errors.ts'
import { quoteClickHouseText } from '../../util/sql.ts'
import { readRows } from './statements.ts'
import { syncReplica } from './table.ts'
import type { Replica, Topology } from './topology.ts'

/** A replica that lives answers in milliseconds. */
const SYNC_MS_MAX = 3_000
/** ClickHouse's limit for this. By default it goes on for 300 s after nobody waits any more. */
const SYNC_SETTINGS = { receive_timeout: String(SYNC_MS_MAX / 1_000) }
const ANSWER_BYTES_MAX = 1_048_576

/** The log of each table as a replica sees it: its end, and up to where it was taken over. */
type Logs = ReadonlyMap<string, { readonly end: number; readonly taken: number }>

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
  { shards, replicas: counts }: Topology,
  gone?: AbortSignal,
): Promise<Replica> {
  const replicas = must(shards[shard], 'a shard')
  const count = must(counts[shard], 'a count')
  const first = turn % replicas.length // others take theirs meanwhile
  const reasons: string[] = []
  const known = count > 2 ? await knownLogs(tables, replicas, count, reasons, gone) : undefined
  const inTurn = known?.size === 0 ? [] : [...replicas.slice(first), ...replicas.slice(0, first)]
  for (const replica of inTurn) {
    const late = AbortSignal.timeout(SYNC_MS_MAX)
    try {
      const signal = gone === undefined ? late : AbortSignal.any([late, gone])
      const sync = async () => {
        const one = (table: string) => replica.http.execute(syncReplica(table), SYNC_SETTINGS, signal)
        await Promise.all(tables.map(one))
      }
      await sync()
      if (known === undefined || hasTaken(known.get(replica), known)) return replica
      if (!hasTaken(await logsOf(tables, replica, signal), known))
        throw new Unavailable('cluster_not_synced', 'its server of Keeper is late')
      // What it has taken over by now, it may have to fetch.
      await sync()
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

/**
 * The logs as at least half of the shard's replicas see them, without those that are slower. Empty
 * where too few answer.
 */
async function knownLogs(
  tables: readonly string[],
  replicas: readonly Replica[],
  count: number,
  reasons: string[],
  gone: AbortSignal | undefined,
): Promise<ReadonlyMap<Replica, Logs>> {
  const late = AbortSignal.timeout(SYNC_MS_MAX)
  const signal = gone === undefined ? late : AbortSignal.any([late, gone])
  const known = new Map<Replica, Logs>()
  await new Promise<void>(resolve => {
    for (const replica of replicas)
      logsOf(tables, replica, signal)
        .then(logs => known.set(replica, logs))
        .catch((error: Error) => reasons.push(`${replica.name}: ${error.message}`))
        .then(() => {
          if (known.size * 2 >= count || known.size + reasons.length === replicas.length) resolve()
        })
  })
  gone?.throwIfAborted()
  return new Map(known.size * 2 >= count ? known : [])
}

async function logsOf(tables: readonly string[], { http }: Replica, signal: AbortSignal): Promise<Logs> {
  const isOf = `database = currentDatabase() AND table IN (${tables.map(quoteClickHouseText).join(', ')})`
  // The highest index is 0 also in a log without entries, which parts tell apart. Where a replica
  // has no session all is 0.
  const sql = `SELECT table, if(log_max_index > 0, log_max_index + 1, table IN (SELECT table FROM system.parts WHERE ${isOf} AND active)), log_pointer
    FROM system.replicas WHERE ${isOf} AND total_replicas > 0 FORMAT JSONCompact`
  const rows = readRows((await http.run(sql, WHOLE, ANSWER_BYTES_MAX, signal)).body)
  if (rows.length < tables.length)
    throw new Unavailable('cluster_not_synced', 'it has no session or no table')
  return new Map(rows.map(([table = '', end, taken]) => [table, { end: Number(end), taken: Number(taken) }]))
}

/** True where a replica had taken over everything that others know of. */
function hasTaken(logs: Logs | undefined, known: ReadonlyMap<Replica, Logs>): boolean {
  const places = [...known.values()].flatMap(each => [...each])
  return logs !== undefined && places.every(([table, { end }]) => must(logs.get(table), 'a log').taken >= end)
}
