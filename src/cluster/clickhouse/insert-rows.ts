/**
 * One INSERT of rows on each shard that they belong to. ClickHouse answers it when a quorum of the
 * shard's replicas has them on disk.
 *
 * A failed INSERT is sent again, to the next replica, as the same bytes, whatever became of the
 * first one:
 *
 *   a pool with a unique id   is written once more. Rows with the same versions replace themselves,
 *                             and the answer is about the rows that this INSERT wrote.
 *   a pool without one        ClickHouse drops a block that it knows, and answers as if it had
 *                             stored it. So the caller looks for the rows (stored-rows.ts).
 *
 *   W-1  The answer to an INSERT that wrote its own part is proof, and no other one.
 *        docs/decisions/0105 has every way to an answer.
 */
import { randomUUID } from 'node:crypto'
import type { PoolSchema, RequestKind } from '../../format/schema.ts'
import { PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { ClickHouseError, unavailable } from '../../query/clickhouse/http.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { monotonicMs } from '../../util/clock.ts'
import { must, Unavailable } from '../../util/errors.ts'
import { INSERT_MS_MAX } from '../../util/limits.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { type BlockEntry, type NativeBlock, nativeBlocks } from './native-block.ts'
import { isRetryable } from './statements.ts'
import { DELETED } from './table.ts'
import type { Replica, Topology } from './topology.ts'

/** Waits between tries: a replica that became read-only is one again when its session is. */
const RETRY_MS = 200

/** How many replicas have the rows when an INSERT is answered. */
interface Quorum {
  /** Of each shard. */
  readonly replicas: readonly number[]
  /** Of each shard: it has two replicas, and nobody asked for both. */
  readonly isOneEnough?: readonly boolean[]
}

export interface InsertOptions {
  readonly topology: Topology
  readonly quorum: Quorum
  /** Shards that have their rows already. */
  readonly without?: ReadonlySet<number>
  /** An earlier call may have sent the rows. */
  readonly isRepeated?: boolean
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

/** Rows of one shard whose INSERT was answered without proof. */
export interface Unproven {
  readonly shard: number
  /** How many rows the shard should have. */
  readonly rows: number
  /** How many replicas are to have them. */
  readonly quorum: number
}

/**
 * Resolves when every shard has its rows, but for those that are returned. Rejects with
 * Unavailable: some may be visible.
 */
export async function insertRows(rows: RowsToInsert, options: InsertOptions): Promise<readonly Unproven[]> {
  const { shards } = options.topology
  const { kind, schema, entries } = rows
  const sql = insertSql(rows.table, kind, schema)
  const blocks = nativeBlocks(schema, kind, entries, shards.length)
  const settled = await Promise.allSettled(
    blocks.map(async (block, shard) => {
      if (block === undefined || options.without?.has(shard) === true) return []
      const unproven = await insertBlock(sql, block, shard, must(shards[shard], 'a shard'), options, rows)
      return unproven === undefined ? [] : [{ shard, rows: block.rows, quorum: unproven }]
    }),
  )
  return settled.flatMap(each => {
    if (each.status === 'rejected') throw each.reason
    return each.value
  })
}

/** @param given replicas of a shard that must have the rows; 0: the majority */
export function quorumsOf(topology: Topology, given: number): Quorum {
  return {
    replicas: topology.shards.map((_, shard) => replicasOf(topology, shard, given)),
    isOneEnough: topology.replicas.map(count => count === 2 && given === 0),
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

/**
 * The quorum, where the answer is no proof of it: ClickHouse may have dropped the block as a known
 * one.
 */
async function insertBlock(
  sql: string,
  { bytes }: NativeBlock,
  shard: number,
  replicas: readonly Replica[],
  { quorum, isRepeated = false }: InsertOptions,
  { schema, entries, notAfterNs }: RowsToInsert,
): Promise<number | undefined> {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  // Versions are of one request alone, so no other block has the same first one.
  const token = schema.key === null ? String(must(entries[0]?.versions[0], 'a version')) : undefined
  const endMs = monotonicMs() + INSERT_MS_MAX
  const first = turn++ // others take theirs meanwhile
  const signal = AbortSignal.timeout(INSERT_MS_MAX)
  for (let tries = 0; ; tries += 1) {
    const replica = must(replicas[(first + tries) % replicas.length], 'a replica')
    if (notAfterNs !== undefined && process.hrtime.bigint() > notAfterNs)
      throw refused(new Error('they waited for too long'))
    try {
      const needed = await byQuorum(quorum, shard, count =>
        replica.http.execute(body, { ...insertSettings(count, token), query: sql }, signal),
      )
      return token === undefined || (tries === 0 && !isRepeated) ? undefined : needed
    } catch (error) {
      if (!signal.aborted && !(error instanceof ClickHouseError || error instanceof Unavailable)) throw error
      // A server that is full or refuses Weir's user leaves the others their try.
      const isLast = !isRetryable(error) && tries >= replicas.length - 1
      if (signal.aborted || isLast || monotonicMs() + RETRY_MS >= endMs) throw refused(error)
      await new Promise(resolve => setTimeout(resolve, tries < replicas.length - 1 ? 0 : RETRY_MS))
    }
  }
}

/** ClickHouse's error where Keeper hears fewer replicas of the table than the quorum has. */
const TOO_FEW_LIVE_REPLICAS = 285

/**
 * Calls `insert` with the shard's quorum. Of two replicas one is enough where ClickHouse says that
 * Keeper does not hear the other one: of this table, as one replica may have lost a table alone. It
 * says so before it writes anything.
 * @returns the quorum that was kept
 */
export async function byQuorum(
  { replicas, isOneEnough }: Quorum,
  shard: number,
  insert: (count: number) => Promise<void>,
): Promise<number> {
  const count = must(replicas[shard], 'the quorum of a shard')
  try {
    await insert(count)
    return count
  } catch (error) {
    const said = error instanceof Unavailable ? error.cause : error
    const isFew = said instanceof ClickHouseError && said.code === TOO_FEW_LIVE_REPLICAS
    if (!isFew || isOneEnough?.[shard] !== true) throw error
    await insert(1)
    return 1
  }
}

/**
 * Settings of an INSERT.
 * @param count replicas of the quorum
 * @param token of blocks that are the same: a second one is dropped. By default none is. It works
 * on all versions, unlike the switches for deduplication, of which one came after another.
 */
export function insertSettings(count: number, token: string = randomUUID()): Record<string, string> {
  return {
    async_insert: '0',
    insert_deduplicate: '1',
    insert_deduplication_token: token,
    // A repetition within ClickHouse would meet its own block, and take it for one that is stored.
    insert_keeper_max_retries: '0',
    timeout_overflow_mode: 'throw',
    insert_quorum: String(count),
    insert_quorum_parallel: '1',
    insert_quorum_timeout: String(INSERT_MS_MAX / 2),
  }
}

/** What a sender is told whose rows may be stored. */
export function refused(error: unknown): Unavailable {
  return unavailable(
    'cluster_insert',
    'The cluster has not confirmed the events, which may be stored: send the same request again',
    (error as Error).message,
  )
}
