/**
 * INSERTs into tables that keep every row, until a quorum of each shard's replicas is known to have
 * all rows of a block.
 *
 *   W-1  A repeated INSERT that succeeds is no proof. ClickHouse drops a block that it knows, also
 *        where the only replica that has the part is gone, or the part's quorum has failed. A
 *        replica that returns with such a part moves it away. So a replica counts that finds all
 *        of the rows by their versions, none of them in a part whose quorum is open or has failed.
 *
 * Keeper says what became of a part: `quorum/parallel` has it while its quorum is open, and
 * `quorum/failed_parts` for ever after it has failed. It is asked after the replicas, behind a
 * SYNC, so that it knows of every part that they have. A part that rows were merged into is never
 * moved away. Source: ReplicatedMergeTreeSink.cpp and StorageReplicatedMergeTree.cpp of ClickHouse.
 */
import { WHOLE } from '../../query/clickhouse/engine.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { monotonicMs } from '../../util/clock.ts'
import { must, Unavailable } from '../../util/errors.ts'
import { INSERT_MS_MAX, MiB } from '../../util/limits.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import type { KeeperClient } from '../keeper/keeper-client.ts'
import { type InsertOptions, type RowsToInsert, refused, type Unproven } from './insert-rows.ts'
import { type BlockEntry, REQUEST_WORDS } from './native-block.ts'
import { readRows } from './statements.ts'
import type { Replica } from './topology.ts'

/** An INSERT may be of 10,000 requests, each of which is a range of versions. */
const ANSWER_BYTES_MAX = 16 * MiB
const SETTINGS = { ...WHOLE, max_query_size: String(16 * MiB) }
/** A replica that lives answers in milliseconds. */
const ANSWER_MS_MAX = 3_000
/** The rows may be on their way to another replica. */
const RETRY_MS = 200

/** Where Keeper has the tables' replication paths. */
export interface TablesInKeeper {
  readonly keeper: Pick<KeeperClient, 'sync' | 'getChildren'>
  /** The path of a table is `<path>/<shard>/<table>`. */
  readonly path: string
}

/**
 * Resolves when every shard has its rows. Rejects with Unavailable: some may be visible.
 * @param options as they are now: a replica that is back meanwhile may have the rows
 * @param insert as insertRows, with these options
 */
export async function insertProven(
  rows: RowsToInsert,
  options: () => InsertOptions,
  tables: TablesInKeeper,
  insert: (options: InsertOptions) => Promise<readonly Unproven[]>,
): Promise<void> {
  const endMs = monotonicMs() + INSERT_MS_MAX
  let unproven = await insert(options())
  const without = new Set(options().topology.shards.keys())
  for (;;) {
    const missing = await missingOn(unproven, rows, options(), tables)
    const [reason] = missing.values()
    if (reason === undefined) return
    if (monotonicMs() > endMs) throw refused(new Error(`${rows.table}: ${reason}`))
    await new Promise(resolve => setTimeout(resolve, RETRY_MS))
    for (const shard of missing.keys()) without.delete(shard)
    unproven = await insert({ ...options(), without, isRepeated: true })
    for (const shard of missing.keys()) without.add(shard)
  }
}

/** The shards of which no quorum is known to have its rows, and why. */
async function missingOn(
  unproven: readonly Unproven[],
  rows: RowsToInsert,
  { topology }: InsertOptions,
  tables: TablesInKeeper,
): Promise<ReadonlyMap<number, string>> {
  const missing = new Map<number, string>()
  const check = async ({ shard, rows: count, quorum }: Unproven) => {
    const replicas = must(topology.shards[shard], 'a shard')
    const found = await Promise.allSettled(replicas.map(replica => partsWith(rows, count, replica)))
    const whole = found.flatMap(each => (each.status === 'fulfilled' ? [each.value] : [])).filter(isFound)
    const why = `${whole.length} of ${quorum} replicas have the rows of a block that was dropped as known`
    if (whole.length < quorum) missing.set(shard, why)
    else if (
      await isAnyUnproven(
        new Set(whole.flat()),
        `${tables.path}/${topology.names[shard]}/${rows.table}`,
        tables.keeper,
      )
    )
      missing.set(shard, 'the quorum of a part is open, or has failed')
  }
  await Promise.all(
    unproven.map(
      async each =>
        await check(each).catch(error => {
          if (!(error instanceof Unavailable)) throw error
          missing.set(each.shard, error.message)
        }),
    ),
  )
  return missing
}

function isFound(parts: readonly string[] | undefined): parts is readonly string[] {
  return parts !== undefined
}

/** The parts that have the rows on a replica; undefined where it has not all of them. */
async function partsWith(
  { table, entries }: RowsToInsert,
  rows: number,
  { http }: Replica,
): Promise<readonly string[] | undefined> {
  const sql = `SELECT _part, count() FROM ${quoteClickHouseName(table)} WHERE ${isOfEntries(entries)} GROUP BY _part FORMAT JSONCompact`
  const { body } = await http.run(sql, SETTINGS, ANSWER_BYTES_MAX, AbortSignal.timeout(ANSWER_MS_MAX))
  const parts = readRows(body)
  const found = parts.reduce((sum, [, count]) => sum + Number(count), 0)
  // More are rows that are there twice, which another try would not mend.
  return found >= rows ? parts.map(([part = '']) => part) : undefined
}

/** A condition for the rows of the entries. */
function isOfEntries(entries: readonly BlockEntry[]): string {
  const firsts = entries.flatMap(({ versions }) => [...versions])
  const counts = entries.flatMap(({ requests, versions }) =>
    [...versions.keys()].map(request => must(requests[request * REQUEST_WORDS + 2], 'rows of a request')),
  )
  const ranges = `arrayMap((first, rows) -> range(toUInt64(first), toUInt64(first + rows)), [${firsts.join(', ')}], [${counts.join(', ')}])`
  return `${VERSION} IN (SELECT arrayJoin(arrayFlatten(${ranges})))`
}

/** Rejects with Unavailable where Keeper cannot be asked. */
async function isAnyUnproven(
  parts: ReadonlySet<string>,
  path: string,
  keeper: TablesInKeeper['keeper'],
): Promise<boolean> {
  await keeper.sync(path)
  // A part leaves the first of them for the second one.
  const open = await keeper.getChildren(`${path}/quorum/parallel`)
  const failed = await keeper.getChildren(`${path}/quorum/failed_parts`)
  return [...open, ...failed].some(part => parts.has(part))
}
