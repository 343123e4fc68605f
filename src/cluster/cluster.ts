/**
 * A node's part in a cluster: the catalog in Keeper, the servers of ClickHouse with the tables of
 * the pools, and the ways of rows in and out.
 *
 *   commit()      versions from Keeper ─► gathered by pool (inserts.ts) ─► INSERT by a thread
 *   queryPlace()  a synced replica of each shard
 *
 * A node that is not current in Keeper takes and answers nothing: it may not know what was made or
 * deleted.
 */
import type { Entry } from '../catalog/documents/catalog-types.ts'
import { keys } from '../catalog/documents/memory.ts'
import { type AddColumnInput, type Job, type Pool, schemaOf, versionOf } from '../catalog/documents/model.ts'
import type { StoreClient } from '../catalog/lmdb/store-client.ts'
import type { BatchBuffer } from '../format/batch-layout.ts'
import { deleteSchema, type PoolSchema } from '../format/schema.ts'
import type { QueryPlace } from '../query/clickhouse/engine.ts'
import type { ClickHouseAddress } from '../query/clickhouse/http.ts'
import { ReceivedClocks } from '../util/clock.ts'
import { must, Unavailable } from '../util/errors.ts'
import { startThread } from '../util/thread-kit.ts'
import { type InsertOptions, quorumsOf, type RowsToInsert } from './clickhouse/insert-rows.ts'
import { checkNoRows, PoolTables, tablesPath } from './clickhouse/pool-tables.ts'
import { type QueriedPool, queryPlace } from './clickhouse/query-place.ts'
import { insertProven } from './clickhouse/stored-rows.ts'
import { takenNames } from './clickhouse/table.ts'
import { type Topology, watchTopology } from './clickhouse/topology.ts'
import { type InsertCalls, sent } from './insert-thread.ts'
import { Inserts, type InsertTask } from './inserts.ts'
import { JobVersions } from './job-versions.ts'
import type { Layout } from './keeper/keeper-root.ts'
import { type KeeperStore, type KeeperStoreOptions, openKeeperStore } from './keeper/keeper-store.ts'
import { Leader } from './keeper/leader.ts'
import { Versions } from './keeper/versions.ts'

export interface ClusterOptions {
  readonly addresses: readonly (ClickHouseAddress & { readonly database: string })[]
  /** Its name in `remote_servers`. */
  readonly cluster: string
  /** Replicas that have an event before its 200; 0: the majority. */
  readonly quorum: number
  /** Rows outlive a power cut of all replicas. */
  readonly isDurable: boolean
  readonly keeper: KeeperStoreOptions['keeper']
  readonly root: string
  readonly secretKey: Uint8Array
  onFatal(error: Error): void
  /** The memory of a batch is free. */
  onDone(batch: BatchBuffer): void
  /** An INSERT was answered after so long. */
  onInsert(ms: number): void
}

/** The shards are found by a checksum of the key. It is fixed in the catalog. */
const HASH = 'crc32'

export type Cluster = Awaited<ReturnType<typeof openCluster>>

/** Rejects with CannotRun or Unavailable. */
export async function openCluster(options: ClusterOptions) {
  const { addresses, cluster, root } = options
  const watch = await watchTopology(addresses, cluster)
  const topology = () => watch.topology
  const database = must(addresses[0], 'an address').database
  try {
    const keeper = await openKeeperStore({
      ...options,
      layout: layoutOf(options, topology()),
      beforeNew: () => checkNoRows(topology(), root),
    })
    const tables = tablesOf(options, topology)
    const versions = new Versions(keeper.keeper, `${root}/versions`, keeper.zxidOffset)
    await versions.open()
    const thread = startThread<InsertCalls>({ name: 'insert', data: undefined, onCrash: options.onFatal })
    let leader: Leader | undefined
    const jobs = new JobVersions()
    /** How rows are inserted, with the servers as they are now. */
    const insertOptions = (): InsertOptions => ({
      topology: topology(),
      quorum: quorumsOf(topology(), options.quorum),
    })
    const keptTables = { keeper: keeper.keeper, path: tablesPath(root) }
    const inserts = new Inserts({
      versions: rows => versions.take(rows),
      insert: task => {
        const rows = rowsOf(task)
        const insert = ({ topology, ...more }: InsertOptions) =>
          thread.call('insert', { rows, topology: sent(topology), ...more })
        return insertProven(rows, insertOptions, keptTables, insert)
      },
      isCurrent: () => keeper.isCurrent(),
      jobVersion: table => jobs.of(table),
      onDone: options.onDone,
      onInsert: options.onInsert,
    })
    return {
      keeper,
      topology,
      /** How many shards can take rows, as the servers were last seen. */
      writableShards: () => watch.writable,
      tables,
      versions,
      inserts,
      insertOptions,
      received: new ReceivedClocks(keeper.nodes.clock),
      /** The servers in a line. */
      describe: () => describe(topology()),
      store: withTables(keeper, tables, jobs),
      /** As queryPlace. Rejects with Unavailable where this node is not current. */
      async placeOf(pools: readonly QueriedPool[], gone?: AbortSignal): Promise<QueryPlace> {
        mustBeCurrent(keeper)
        return await queryPlace(pools, topology(), database, gone)
      },
      /** This node may lead from now on. @param onLead it leads until the signal */
      lead(onLead: (ended: AbortSignal) => void): Leader {
        leader = new Leader({ store: keeper, path: `${root}/leader`, onLead })
        return leader
      },
      async stop(): Promise<void> {
        await leader?.stop()
        await thread.stop().catch(() => {}) // onFatal has got the reason
        watch.stop()
      },
    }
  } catch (error) {
    watch.stop()
    throw error
  }
}

/** What all nodes must agree on. */
export function layoutOf(
  { cluster, addresses }: Pick<ClusterOptions, 'cluster' | 'addresses'>,
  { shards }: Topology,
): Layout {
  const { database } = must(addresses[0], 'an address')
  return { shards: shards.length, hash: HASH, cluster, database }
}

export function tablesOf(
  { root, isDurable }: Pick<ClusterOptions, 'root' | 'isDurable'>,
  topology: () => Topology,
): PoolTables {
  return new PoolTables(topology, tablesPath(root), isDurable)
}

function describe({ shards, replicas }: Topology): string {
  const [all, live] = [replicas, shards.map(each => each.length)].map(counts =>
    counts.reduce((a, b) => a + b, 0),
  )
  const down = all === live ? '' : `, of which ${live} answer`
  return `${shards.length} shard${shards.length === 1 ? '' : 's'} with ${all} replicas${down}`
}

export function mustBeCurrent(keeper: KeeperStore): void {
  const why = keeper.refusal()
  if (why !== undefined) throw new Unavailable('keeper_lost', why)
}

function rowsOf({ schema, ...task }: InsertTask): RowsToInsert {
  return { ...task, schema: task.kind === 'delete' ? deleteSchema(schema) : schema }
}

interface StoreWithTables extends StoreClient {
  /**
   * Gives the tables the columns of a pool before a change of the catalog names them: that takes as
   * long as the slowest replica, and changes wait for each other. Rejects with Unavailable.
   */
  addColumns(pool: Pool): Promise<void>
}

/** The catalog, which names no pool or column before the tables have it. */
export function withTables(
  keeper: KeeperStore,
  tables: Pick<PoolTables, 'ensure' | 'addColumns'>,
  jobs = new JobVersions(),
): StoreWithTables {
  /** The schema versions of pools, by the keys of their documents. */
  const known = new Map(keeper.entries.flatMap(([key, value]) => versionEntry(key, value)))
  /** The columns that tables got for the next change of their pools, by the same keys. */
  const added = new Map<string, string>()
  return {
    get entries() {
      return keeper.entries
    },
    process: keeper.nodes.process,
    refuses: change => change.puts.map(problemOf).find(each => each !== undefined) ?? keeper.refuses(change),
    refusal: () => keeper.refusal(),
    stop: () => keeper.stop(),
    follow(take) {
      jobs.take(keeper.entries)
      keeper.follow(change => {
        for (const key of change.removes) known.delete(key)
        for (const [key, value] of change.puts)
          for (const [pool, version] of versionEntry(key, value)) {
            known.set(pool, version)
            added.delete(pool)
          }
        jobs.take(change.puts)
        take(change)
      })
    },
    async addColumns(pool) {
      const schema = schemaOfPool(pool)
      await tables.addColumns(pool.id, schema)
      added.set(keys.pool(pool.id), JSON.stringify(schema.columns))
    },
    async apply(change) {
      mustBeCurrent(keeper)
      const { stamp } = keeper
      for (const [key, value] of change.puts)
        for (const [pool, version] of versionEntry(key, value)) {
          const schema = schemaOfPool(value)
          const before = known.get(pool)
          if (before === undefined) await tables.ensure((value as Pool).id, schema)
          else if (before < version && added.get(pool) !== JSON.stringify(schema.columns))
            throw new Unavailable('cluster_tables', 'The tables of the Data Pool lack the column yet')
        }
      // The change was decided on what was known before the tables were made.
      return stamp === keeper.stamp && (await keeper.apply(change))
    },
  }
}

/** Why a cluster can never have a document; undefined where it can. */
function problemOf([key, value]: Entry): string | undefined {
  if (isPool(key) && (schemaOfPool(value).key?.version ?? -1) >= 0)
    return 'A Data Pool with a version column ("ver") is not possible in a cluster: there the record that was received last counts.'
  const [taken] = takenNames(
    isPool(key) ? (value as Pool).columns.map(({ name }) => name) : addedBy(key, value),
  )
  return taken && `The column name "${taken}" is not possible in a cluster: every table has such a column.`
}

/** The column of a new job that adds one. */
function addedBy(key: string, job: unknown): readonly string[] {
  if (!key.startsWith('job/')) return []
  const { kind, status, input } = job as Job
  return kind === 'ADD_COLUMN' && status === 'CREATED' ? [(input as AddColumnInput).columnName] : []
}

function versionEntry(key: string, value: unknown): (readonly [string, number])[] {
  return isPool(key) ? [[key, (value as Pool).planVersion]] : []
}

function isPool(key: string): boolean {
  return key.startsWith('pool/')
}

function schemaOfPool(pool: unknown): PoolSchema {
  return schemaOf(versionOf(pool as Pool))
}
