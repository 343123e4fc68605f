/**
 * The tables of the catalog's pools on all servers.
 *
 *   ensure   the table of a new pool
 *   addColumns  the columns that a pool gets
 *   sweep    what the others could not do, because a server was down: creates tables and columns
 *            that are missing, and drops tables whose pool is deleted; gives tables the
 *            durability that the node was started with
 *
 * A table is dropped only where its replicas meet below the path of this cluster, so that neither
 * other users of the servers nor another Weir beside this one lose theirs. One that has rows is
 * dropped only where the catalog says that its pool was deleted: a restored catalog does not know
 * the pools that are newer than it.
 */

import { PAYLOAD, type PoolSchema } from '../../format/schema.ts'
import { ClickHouseError } from '../../query/clickhouse/http.ts'
import { monotonicMs } from '../../util/clock.ts'
import { CannotRun, must, TABLES_REFUSED, Unavailable } from '../../util/errors.ts'
import { quoteClickHouseName, quoteClickHouseText } from '../../util/sql.ts'
import { rowsOf, run } from './statements.ts'
import {
  changeDurability,
  createTable,
  isNullable,
  otherDurability,
  syncReplica,
  tableType,
} from './table.ts'
import type { Replica, Topology } from './topology.ts'

/** A column is added in tens of milliseconds where the servers are not busy. */
const ADD_MS_MAX = 30_000
const LOOK_AGAIN_MS = 50
/**
 * A table without a pool is dropped after so long: its pool's creation is then no more under way.
 */
const LEFT_MS_MIN = 120_000

/**
 * ClickHouse's error where Keeper has the replica of a table that the server lacks. Weir does not
 * drop it: a disk that is not mounted looks so too, and may have the only copy of a part.
 */
const REPLICA_ALREADY_EXISTS = 253

/** Where Keeper has what the replicas of the tables share. */
export function tablesPath(root: string): string {
  return `${root}/tables`
}

/** The schemas of pools by their ids, which are the names of their tables. */
export type PoolSchemas = ReadonlyMap<string, PoolSchema>

export class PoolTables {
  readonly #topology: () => Topology
  readonly #path: string | undefined
  readonly #isDurable: boolean
  /** Since when a table has no pool, by server and table. */
  readonly #left = new Map<string, number>()
  /** Tables without a pool that the operator was told of. */
  readonly #told = new Set<string>()

  /**
   * @param path where Keeper has what replicas share; without it the tables have no replicas
   * @param isDurable see createTable
   */
  constructor(topology: () => Topology, path: string | undefined, isDurable = true) {
    this.#topology = topology
    this.#path = path
    this.#isDurable = isDurable
  }

  /** Resolves when a quorum of each shard has the table. Rejects with Unavailable. */
  async ensure(table: string, schema: PoolSchema): Promise<void> {
    const topology = this.#topology()
    const create = createTable(table, schema, this.#path, this.#isDurable)
    const made = topology.shards.map(async (replicas, shard) => {
      const settled = await Promise.allSettled(replicas.map(replica => run(replica, create)))
      const failed = settled.flatMap(each => (each.status === 'rejected' ? [each.reason as Error] : []))
      for (const error of failed) if (!(error instanceof Unavailable)) throw error
      if (replicas.length - failed.length >= quorumOf(must(topology.replicas[shard], 'a count'))) return
      const why =
        failed.length === 0 ? 'the others do not answer' : failed.map(each => each.message).join('; ')
      throw new Unavailable(
        'cluster_tables',
        `Too few replicas of shard ${topology.names[shard]} have made the table of the pool: ${why}`,
      )
    })
    for (const each of await Promise.allSettled(made)) if (each.status === 'rejected') throw each.reason
  }

  /**
   * Resolves when every replica that answers has the columns of the pool. Others get them from the
   * log of their table, before its rows. Rejects with Unavailable, some may have them then; with
   * TABLES_REFUSED where ClickHouse refuses one, or a table has it with another type.
   */
  async addColumns(table: string, schema: PoolSchema): Promise<void> {
    const { shards } = this.#topology()
    const added = shards.map(replicas => addOnShard(replicas, table, schema))
    for (const each of await Promise.allSettled(added)) if (each.status === 'rejected') throw each.reason
  }

  /**
   * Makes the tables of every server those of the pools. Only one node does so at a time, every
   * half minute or so. Never rejects for what a server says.
   * @param pools all of a catalog that is current
   * @param mayDrop asked before each drop: whether the table still has no pool. The process may
   * have stood still since it read the pools
   * @param isDeleted whether the catalog has deleted the pool of a table
   * @returns lines for the operator: what was done, and what could not be
   */
  async sweep(
    pools: PoolSchemas,
    mayDrop: (table: string) => boolean = () => true,
    isDeleted: (table: string) => boolean = () => false,
  ): Promise<readonly string[]> {
    const { shards } = this.#topology()
    const swept = shards.flat().map(async replica => {
      const lines: string[] = []
      try {
        await this.#sweepServer(replica, pools, lines, mayDrop, isDeleted)
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error
        lines.push(`tables of ${replica.address.url} are left for the next look: ${error.message}`)
      }
      return lines
    })
    return (await Promise.all(swept)).flat()
  }

  /** The tables that no server has; none where one does not answer. Rejects with Unavailable. */
  async absent(tables: readonly string[]): Promise<readonly string[]> {
    const { shards, replicas } = this.#topology()
    if (shards.some(({ length }, shard) => length !== replicas[shard])) return []
    const sql = 'SELECT name FROM system.tables WHERE database = currentDatabase()'
    const found = await Promise.all(shards.flat().map(replica => rowsOf(replica, sql)))
    const names = new Set(found.flat(2))
    return tables.filter(table => !names.has(table))
  }

  async #sweepServer(
    replica: Replica,
    pools: PoolSchemas,
    lines: string[],
    mayDrop: (table: string) => boolean,
    isDeleted: (table: string) => boolean,
  ): Promise<void> {
    const where = replica.address.url
    let forgotten = 0
    /** One table that fails leaves the others their turn. False: nothing was done. */
    const attempt = async (what: string, act: () => Promise<unknown>) => {
      try {
        if ((await act()) !== false) lines.push(`${where}: ${what}`)
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error
        const { cause } = error
        if (cause instanceof ClickHouseError && cause.code === REPLICA_ALREADY_EXISTS) forgotten += 1
        else lines.push(`${where}: failed, and is tried again: ${what}: ${error.message}`)
      }
    }
    const tables = await rowsOf(replica, `SELECT table, count() ${COLUMNS} GROUP BY table`)
    const counts = new Map(tables.map(([table, count]) => [table, Number(count)]))
    for (const [table, schema] of pools) {
      const count = counts.get(table)
      if (count === undefined)
        await attempt(`created the table ${table}`, () =>
          run(replica, createTable(table, schema, this.#path, this.#isDurable)),
        )
      else if (count < schema.columns.length + (schema.key === null ? 3 : 4))
        await attempt(`added columns to the table ${table}`, () => addOnShard([replica], table, schema))
    }
    if (forgotten > 0)
      lines.push(
        `${where} has lost ${forgotten} tables of which Keeper knows its replica ${replica.name}: if its disk is lost for good, run SYSTEM DROP REPLICA '${replica.name}' on another replica of its shard, and they are made again (docs/how-to/repair-a-cluster.md)`,
      )
    const others = await rowsOf(replica, otherDurability(this.#isDurable))
    for (const [table = ''] of others)
      if (pools.has(table))
        await attempt(`gave the table ${table} the durability of this node`, () =>
          alter(replica, table, [changeDurability(this.#isDurable)]),
        )
    for (const table of await this.#leftTables(replica, pools)) {
      const why = isDeleted(table) ? 'whose pool is deleted' : 'which is empty and has no pool'
      await attempt(`dropped the table ${table}, ${why}`, async () => {
        if (!isDeleted(table) && (await this.#hasRows(replica, table, lines))) return false
        return mayDrop(table) && (await drop(replica, table))
      })
    }
  }

  /** True where a table has rows, which the operator is told once. Rejects with Unavailable. */
  async #hasRows(replica: Replica, table: string, lines: string[]): Promise<boolean> {
    const keeps = `${replica.address.url}: keeps the table ${table}`
    if (this.#told.has(keeps)) return true
    // Others may have rows that this one has not fetched.
    if (this.#path !== undefined) await run(replica, syncReplica(table))
    const [[count] = []] = await rowsOf(replica, `SELECT count() FROM ${quoteClickHouseName(table)}`)
    if (Number(count) === 0) return false
    this.#told.add(keeps)
    lines.push(`${keeps}: it has rows, and this catalog never had its pool. Restore a newer one, or drop it`)
    return true
  }

  /** The tables whose pool has not been there for long enough. */
  async #leftTables(replica: Replica, pools: PoolSchemas): Promise<readonly string[]> {
    const found = (await rowsOf(replica, ownTables(this.#path))).map(([name = '']) => name)
    const left = new Set(found.filter(name => POOL_ID.test(name) && !pools.has(name)))
    const prefix = `${replica.address.url} `
    for (const known of this.#left.keys())
      if (known.startsWith(prefix) && !left.has(known.slice(prefix.length))) this.#left.delete(known)
    const nowMs = monotonicMs()
    return [...left].filter(name => {
      const sinceMs = this.#left.get(prefix + name) ?? nowMs
      this.#left.set(prefix + name, sinceMs)
      return nowMs - sinceMs >= LEFT_MS_MIN
    })
  }
}

/**
 * Where the servers have rows of a cluster at this root, Keeper has lost its catalog: a new one
 * would know none of their pools. Rejects with CannotRun then, and with Unavailable.
 */
export async function checkNoRows({ shards }: Topology, root: string): Promise<void> {
  const sql = `SELECT count() FROM system.parts WHERE database = currentDatabase() AND active AND rows > 0
    AND table IN (${ownReplicas(tablesPath(root))})`
  for (const replica of shards.flat()) {
    const [[parts] = []] = await rowsOf(replica, sql)
    if (Number(parts) !== 0)
      throw new CannotRun(
        `Keeper has no catalog at ${root}, and ${replica.address.url} has its tables: restore the catalog (weir cluster restore), or give another WEIR_KEEPER_PATH`,
      )
  }
}

const POOL_ID = /^DPO[0-9A-Z]+$/
const COLUMNS = 'FROM system.columns WHERE database = currentDatabase()'

/**
 * The tables that this cluster made. A replica that is read-only may have lost its Keeper, in which
 * case the catalog names no pool: its rows stay.
 */
function ownTables(path: string | undefined): string {
  if (path === undefined)
    return `SELECT name FROM system.tables WHERE database = currentDatabase() AND engine IN ('MergeTree', 'ReplacingMergeTree')`
  return `${ownReplicas(path)} AND is_readonly = 0`
}

/** The tables below a path of Keeper, as a SELECT. */
export function ownReplicas(path: string): string {
  return `SELECT table FROM system.replicas WHERE database = currentDatabase() AND startsWith(zookeeper_path, ${quoteClickHouseText(`${path}/`)})`
}

/** How many replicas of a shard make a quorum. Of two one may be gone. */
function quorumOf(replicas: number): number {
  return replicas === 2 ? 1 : Math.floor(replicas / 2) + 1
}

async function addOnShard(replicas: readonly Replica[], table: string, schema: PoolSchema): Promise<void> {
  const asked = async (replica: Replica) => [replica, await lackedColumns(replica, table, schema)] as const
  let last = new Unavailable('cluster_tables', 'some replicas are late')
  let isRefused = false
  for (const endMs = monotonicMs() + ADD_MS_MAX; ; ) {
    const found: (readonly [Replica, readonly string[]])[] = []
    for (const each of await Promise.allSettled(replicas.map(asked))) {
      if (each.status === 'fulfilled') found.push(each.value)
      else if (each.reason instanceof Unavailable) last = each.reason
      else throw each.reason
    }
    const lacking = found.filter(([, columns]) => columns.length > 0)
    if (found.length > 0 && lacking.length === 0) return
    const isNowhere = lacking.length === found.length
    const isEnd = isNowhere && (isRefused || (found.length === 0 && last.code === TABLES_REFUSED))
    if (isEnd || monotonicMs() > endMs)
      throw new Unavailable(
        isEnd ? TABLES_REFUSED : 'cluster_tables',
        `The column is not in every table of the pool: ${last.message}`,
      )
    const [first] = lacking
    // One replica changes the table of all.
    if (first !== undefined && isNowhere)
      try {
        await alter(first[0], table, first[1])
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error
        last = error
        // Another node may have added it meanwhile, which the next look sees.
        isRefused = error.code === TABLES_REFUSED
      }
    await new Promise(resolve => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}

/** What ALTER TABLE has to do for the columns of the pool that its table lacks. */
async function lackedColumns(
  replica: Replica,
  table: string,
  schema: PoolSchema,
): Promise<readonly string[]> {
  const found = await rowsOf(
    replica,
    `SELECT name, type ${COLUMNS} AND table = ${quoteClickHouseText(table)}`,
  )
  if (found.length === 0) throw new Unavailable('cluster_tables', `${replica.name} has no table ${table}`)
  const types = new Map(found.map(([name, type]) => [name, type]))
  return schema.columns.flatMap(({ name, type }, index) => {
    const is = tableType(type, isNullable(schema, index))
    const has = types.get(name)
    if (has === is) return []
    // A job that was cancelled while it added the column has left it.
    if (has !== undefined)
      throw new Unavailable(
        TABLES_REFUSED,
        `${table} on ${replica.name} has a column ${name} of type ${has}, not ${is}`,
      )
    // The order of columns is the same in every table, or a replica that comes cannot be made.
    const before = schema.columns[index - 1]?.name ?? PAYLOAD
    return [`ADD COLUMN ${quoteClickHouseName(name)} ${is} AFTER ${quoteClickHouseName(before)}`]
  })
}

async function alter(replica: Replica, table: string, columns: readonly string[]): Promise<void> {
  await run(replica, `ALTER TABLE ${quoteClickHouseName(table)} ${columns.join(', ')}`)
}

async function drop(replica: Replica, table: string): Promise<void> {
  // Without SYNC the path in Keeper stays for minutes. A pool may have grown beyond any limit.
  const sql = `DROP TABLE IF EXISTS ${quoteClickHouseName(table)} SYNC`
  await run(replica, sql, { max_table_size_to_drop: '0' })
}
