/**
 * Tombstones leave a table when nothing can need them: they are older than anything that may come,
 * and no older row of their key is anywhere.
 *
 *   1. A boundary of versions is an hour old. Nodes send no INSERT with a version of more than a
 *      minute ago (inserts.ts).
 *   2. Every server of the cluster has answered each look for ten minutes, and none runs an INSERT
 *      into the table that is older than a minute. So no INSERT from before the boundary is left
 *      in a server that stood still. And no job of the pool that changes rows is unfinished: one
 *      that waited or runs for long inserts tombstones with its version, which is as old as it.
 *   3. Every replica has all rows below the boundary in one part that a merge made. Such a part has
 *      one row of a key, and every other part has newer rows alone.
 *   4. Then a mutation deletes the tombstones below the boundary. Where a key has a newer row, that
 *      one counts before and after.
 *
 * For 3 the table of a shard is merged into one part, which writes all of it: where a quarter of
 * its rows are tombstones, where it is not too large, and one table at a time.
 */
import type { PoolSchema } from '../../format/schema.ts'
import { VERSION } from '../../query/clickhouse/rows.ts'
import { monotonicMs } from '../../util/clock.ts'
import { must, Unavailable } from '../../util/errors.ts'
import { quoteClickHouseName, quoteClickHouseText } from '../../util/sql.ts'
import { versionOfJob } from '../keeper/versions.ts'
import { rowsOf, run } from './statements.ts'
import { DELETED, syncReplica } from './table.ts'
import type { Replica, Topology } from './topology.ts'

const [MINUTE_MS, HOUR_MS, DAY_MS] = [60_000, 3_600_000, 86_400_000]
const ANSWERING_MS_MIN = 10 * MINUTE_MS
/** The node that looks may have stood still itself. */
const LOOK_MS_MAX = 2 * MINUTE_MS
const INSERT_SECONDS_MAX = 60
const SHARE_MIN = 1 / 4
const BYTES_MAX = 50 * 1_073_741_824
/** The merge goes on in the servers when nobody waits for it. */
const MERGE_MS_MAX = HOUR_MS

/** What is known of one table in one shard. */
interface Looked {
  /** When it is looked at again. */
  readonly nextMs: number
  /** It was to be merged then, for the tombstones below a version. */
  readonly merge?: { readonly version: bigint; readonly sinceMs: number }
}

export class TombstonePurge {
  readonly #topology: () => Topology
  /** The boundary that will be old enough next, and the newest that is so. */
  #next: { readonly boundary: number; readonly sinceMs: number } | undefined
  #ripe: number | undefined
  /** Since when all servers have answered each look. */
  #answering: { readonly sinceMs: number; readonly lastMs: number } | undefined
  readonly #looked = new Map<string, Looked>()
  #isMerging = false

  constructor(topology: () => Topology) {
    this.#topology = topology
  }

  /**
   * Looks at the tables of all pools, and purges those that it may. One node calls it at a time,
   * every half minute or so. Never rejects for what a server says.
   * @param boundary takes a new one (versions.ts), once an hour
   * @param isChanged whether a pool has a job that changes rows and has not ended
   * @returns lines for the operator
   */
  async look(
    pools: ReadonlyMap<string, PoolSchema>,
    boundary: () => Promise<number>,
    isChanged: (table: string) => boolean,
  ): Promise<readonly string[]> {
    const nowMs = monotonicMs()
    if (this.#next !== undefined && nowMs - this.#next.sinceMs >= HOUR_MS) {
      this.#ripe = this.#next.boundary
      this.#next = undefined
    }
    try {
      this.#next ??= { boundary: await boundary(), sinceMs: nowMs }
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      return [] // Keeper is away, which others say
    }
    const isSettled = await this.#areAnswering(nowMs)
    if (this.#ripe === undefined || !isSettled) return []
    const lines: string[] = []
    const { shards, names } = this.#topology()
    for (const [table, { key }] of pools)
      for (const [shard, replicas] of shards.entries())
        try {
          if (key === null || isChanged(table)) continue
          const count = await this.#purge(`${shard} ${table}`, table, replicas, this.#ripe, nowMs)
          if (count > 0) lines.push(`purges ${count} tombstones of ${table} in shard ${names[shard]}`)
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error
          lines.push(`tombstones of ${table} stay for now: ${error.message}`)
        }
    return lines
  }

  /** True where every server has answered for long enough. */
  async #areAnswering(nowMs: number): Promise<boolean> {
    const { shards, replicas } = this.#topology()
    const isAll = shards.every(({ length }, shard) => length === replicas[shard])
    const asked = await Promise.allSettled(shards.flat().map(each => rowsOf(each, 'SELECT 1')))
    if (!isAll || asked.some(({ status }) => status === 'rejected')) {
      this.#answering = undefined
      return false
    }
    const { sinceMs = nowMs, lastMs = nowMs } = this.#answering ?? {}
    this.#answering = { sinceMs: nowMs - lastMs > LOOK_MS_MAX ? nowMs : sinceMs, lastMs: nowMs }
    return nowMs - this.#answering.sinceMs >= ANSWERING_MS_MIN
  }

  /** Returns how many tombstones go; 0 where none may yet. */
  async #purge(
    key: string,
    table: string,
    replicas: readonly Replica[],
    ripe: number,
    nowMs: number,
  ): Promise<number> {
    const { nextMs = nowMs, merge } = this.#looked.get(key) ?? {}
    if (nowMs < nextMs) return 0
    const first = must(replicas[0], 'a replica')
    const version = merge?.version ?? versionOfJob(ripe)
    const count = await tombstones(first, table, version)
    this.#looked.set(key, { nextMs: nowMs + HOUR_MS })
    if (count === 0 || !(await isWorth(first, table, count))) return 0
    const states = await Promise.all(replicas.map(each => stateOf(each, table, version, replicas.length > 1)))
    const name = quoteClickHouseName(table)
    const isInserting = states.some(state => state.isInserting)
    if (!isInserting && states.every(({ isMerged }) => isMerged)) {
      await run(
        first,
        `ALTER TABLE ${name} DELETE WHERE ${DELETED} = 1 AND ${VERSION} < toUInt64(${version})`,
      )
      return count
    }
    const isUnderWay = merge !== undefined && nowMs - merge.sinceMs < DAY_MS
    const begins = !(isInserting || isUnderWay || this.#isMerging)
    const now = begins ? { version, sinceMs: nowMs } : isUnderWay ? merge : undefined
    this.#looked.set(key, { nextMs: nowMs + MINUTE_MS, ...(now === undefined ? {} : { merge: now }) })
    if (!begins) return 0
    this.#isMerging = true
    // The next looks see what became of it.
    run(first, `OPTIMIZE TABLE ${name} FINAL`, {}, MERGE_MS_MAX)
      .catch(() => undefined)
      .finally(() => {
        this.#isMerging = false
      })
    return 0
  }
}

/** Tombstones with lower versions. A mutation that deletes some is not asked for twice. */
async function tombstones(replica: Replica, table: string, version: bigint): Promise<number> {
  const [[count] = []] = await rowsOf(
    replica,
    `SELECT count() FROM ${quoteClickHouseName(table)} WHERE ${DELETED} = 1 AND ${VERSION} < toUInt64(${version})`,
  )
  const [[running] = []] = await rowsOf(
    replica,
    `SELECT count() FROM system.mutations WHERE ${isOf(table)} AND is_done = 0`,
  )
  return Number(running) === 0 ? Number(count) : 0
}

async function stateOf(replica: Replica, table: string, version: bigint, isReplicated: boolean) {
  const name = quoteClickHouseName(table)
  // Parts that others have are fetched.
  if (isReplicated) await run(replica, syncReplica(table))
  const [[inserting] = []] = await rowsOf(
    replica,
    `SELECT count() FROM system.processes WHERE elapsed > ${INSERT_SECONDS_MAX} AND positionCaseInsensitive(query, 'insert') > 0 AND position(query, ${quoteClickHouseText(table)}) > 0`,
  )
  const parts = await rowsOf(
    replica,
    `SELECT _part, count() FROM ${name} WHERE ${VERSION} < toUInt64(${version}) GROUP BY _part`,
  )
  return {
    isInserting: Number(inserting) > 0,
    isMerged: parts.every(([part = '']) => isMergedPart(part)) && parts.length <= 1,
  }
}

/** Where a merge or a mutation made the part: its level, behind its two block numbers, is no 0. */
function isMergedPart(part: string): boolean {
  const [, , , level = '0'] = part.split('_')
  return Number(level) > 0
}

async function isWorth(replica: Replica, table: string, dead: number): Promise<boolean> {
  const [[rows, bytes] = []] = await rowsOf(
    replica,
    `SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE ${isOf(table)} AND active`,
  )
  return dead >= Number(rows) * SHARE_MIN && Number(bytes) <= BYTES_MAX
}

function isOf(table: string): string {
  return `database = currentDatabase() AND table = ${quoteClickHouseText(table)}`
}
