/**
 * One INSERT of rows on each shard that they belong to. It is done when a quorum of the shard's
 * replicas has them on disk.
 *
 * A failed INSERT is sent again, to the next replica, as the same bytes: rows with the same
 * versions replace themselves, and a table without replacing drops a block that it has. So a
 * repetition changes nothing, whatever became of the first one.
 */

import type { PoolSchema, RequestKind } from '../../format/schema.ts'
import { PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { ClickHouseError, unavailable } from '../../query/clickhouse/http.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { must } from '../../util/assert.ts'
import { monotonicMs } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'
import { INSERT_MS_MAX } from '../../util/limits.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { type BlockEntry, nativeBlocks } from './native-block.ts'
import { DELETED, syncReplica } from './table.ts'
import type { Replica, Topology } from './topology.ts'

/** Waits between tries: a replica that became read-only is one again when its session is. */
const RETRY_MS = 200

/** How many replicas have the rows when an INSERT is answered. */
interface Quorum {
  /**
   * server: it counts, by `insert_quorum`. sync: ClickHouse 18.16, whose quorum INSERTs refuse each
   * other; each other replica that answers is synced.
   */
  readonly by: 'server' | 'sync'
  /** Of each shard. */
  readonly replicas: readonly number[]
}

export interface InsertOptions {
  readonly topology: Topology
  readonly quorum: Quorum
  /** Shards that have their rows already. */
  readonly without?: ReadonlySet<number>
}

/** Rows of one pool, kind and schema. `schema` of deletes is `deleteSchema` of the pool's. */
export interface RowsToInsert {
  readonly table: string
  readonly kind: RequestKind
  readonly schema: PoolSchema
  readonly entries: readonly BlockEntry[]
  /** No statement is sent when process.hrtime is beyond it: rows as old may be purged. */
  readonly notAfterNs?: bigint
}

/** Resolves when every shard has its rows. Rejects with Unavailable: some may be visible. */
export async function insertRows(rows: RowsToInsert, options: InsertOptions): Promise<void> {
  const { shards, features } = options.topology
  const { kind, schema, entries } = rows
  const sql = insertSql(rows.table, kind, schema)
  const blocks = nativeBlocks(schema, kind, entries, features, shards.length)
  const settled = await Promise.allSettled(
    blocks.map(async (block, index) => {
      if (block === undefined || options.without?.has(index) === true) return
      const bytes = Buffer.from(block.buffer, block.byteOffset, block.byteLength)
      await insertBlock(sql, bytes, index, must(shards[index], 'a shard'), options, rows)
    }),
  )
  for (const each of settled) if (each.status === 'rejected') throw each.reason
}

/** @param given replicas of a shard that must have the rows; 0: the majority */
export function quorumsOf(topology: Topology, given: number): Quorum {
  return {
    by: topology.features.hasTimes ? 'server' : 'sync',
    replicas: topology.shards.map((_, shard) => replicasOf(topology, shard, given)),
  }
}

/**
 * The majority of the shard's replicas, or more where that is asked for: synced-replicas.ts counts
 * on it. Of two, one is enough while Keeper does not hear the other, which fetches the rows when it
 * is back.
 */
function replicasOf({ replicas, isHalved }: Topology, shard: number, given: number): number {
  const count = must(replicas[shard], 'a count')
  const majority = Math.floor(count / 2) + 1
  if (given > 0) return count > 2 ? Math.min(Math.max(given, majority), count) : Math.min(given, count)
  return isHalved[shard] === true ? 1 : majority
}

function insertSql(table: string, kind: RequestKind, { columns, key }: PoolSchema): string {
  const own = kind === 'delete' ? [] : [RECEIVED_AT, PAYLOAD]
  const names = [...own, ...columns.map(({ name }) => name), VERSION, ...(key === null ? [] : [DELETED])]
  return `INSERT INTO ${quoteClickHouseName(table)} (${names.map(quoteClickHouseName).join(', ')}) FORMAT Native`
}

/** Where the next INSERT begins, so that replicas take turns. */
let turn = 0

async function insertBlock(
  sql: string,
  block: Buffer,
  shard: number,
  replicas: readonly Replica[],
  { quorum }: InsertOptions,
  { table, notAfterNs }: RowsToInsert,
): Promise<void> {
  const endMs = monotonicMs() + INSERT_MS_MAX
  const first = turn++ // others take theirs meanwhile
  const signal = AbortSignal.timeout(INSERT_MS_MAX)
  for (let tries = 0; ; tries += 1) {
    const replica = must(replicas[(first + tries) % replicas.length], 'a replica')
    if (notAfterNs !== undefined && process.hrtime.bigint() > notAfterNs)
      throw refused(new Error('they waited for too long'))
    try {
      const parameters = { ...quorumSettings(quorum, shard, replicas), query: sql }
      await replica.http.execute(block, parameters, signal)
      if (quorum.by === 'sync') await syncOthers(table, replica, replicas, signal)
      return
    } catch (error) {
      if (!signal.aborted && !(error instanceof ClickHouseError || error instanceof Unavailable)) throw error
      // A server that is full or refuses Weir's user leaves the others their try.
      const isLast = !isRetryable(error) && tries >= replicas.length - 1
      if (signal.aborted || isLast || monotonicMs() + RETRY_MS >= endMs) throw refused(error)
      await new Promise(resolve => setTimeout(resolve, tries < replicas.length - 1 ? 0 : RETRY_MS))
    }
  }
}

/** Settings of an INSERT. Throws Unavailable where too few replicas answer to be synced. */
export function quorumSettings(
  quorum: Quorum,
  shard: number,
  live: readonly Replica[],
): Record<string, string> {
  const replicas = must(quorum.replicas[shard], 'the quorum of a shard')
  if (quorum.by === 'sync') {
    if (live.length >= replicas) return {}
    throw new Unavailable('cluster_insert', `${live.length} replicas of shard ${shard + 1} answer`)
  }
  return {
    async_insert: '0',
    // A repetition of ours would add its rows, and a part of the rows would look like all of them.
    insert_deduplicate: '1',
    timeout_overflow_mode: 'throw',
    insert_quorum: String(replicas),
    insert_quorum_parallel: '1',
    insert_quorum_timeout: String(INSERT_MS_MAX / 2),
  }
}

/** Every other replica fetches what the first one has. */
export async function syncOthers(
  table: string,
  first: Replica,
  replicas: readonly Replica[],
  signal: AbortSignal,
): Promise<void> {
  const others = replicas.filter(replica => replica !== first)
  await Promise.all(
    others.map(({ http }) => http.execute(syncReplica(table, { hasTimes: false }), {}, signal)),
  )
}

/**
 * Errors that another try may not have: a time-out, too few live replicas, an earlier quorum that
 * is not complete, a lost session of the server, a table that is read-only, an unknown outcome, too
 * many parts, columns that change meanwhile. A replica that was down may lack a column or the
 * table.
 */
const RETRYABLE: ReadonlySet<number> = new Set([
  16, 60, 159, 209, 210, 225, 242, 244, 252, 285, 286, 319, 999,
])

export function isRetryable(error: unknown): boolean {
  return error instanceof ClickHouseError ? RETRYABLE.has(error.code) : error instanceof Unavailable
}

function refused(error: unknown): Unavailable {
  return unavailable(
    'cluster_insert',
    'The cluster has not confirmed the events, which may be stored: send the same request again',
    (error as Error).message,
  )
}
