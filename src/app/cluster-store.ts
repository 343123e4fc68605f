/**
 * The store of a cluster: rows in the tables of ClickHouse, the catalog in its Keeper. A node has
 * no data folder. It may be killed, added and moved at will.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CommitPart } from '../api/api-types.ts'
import { refusing } from '../api/probes.ts'
import { refuse } from '../api/problem.ts'
import type { Catalog, CatalogListener } from '../catalog/catalog.ts'
import { isUnfinished } from '../catalog/change/change-job.ts'
import { isRewrite } from '../catalog/change/change-rewrite.ts'
import { PROPELLERS } from '../catalog/documents/model.ts'
import { notesOfCatalog, openCatalogOf } from '../catalog/open-catalog.ts'
import { TombstonePurge } from '../cluster/clickhouse/purge-tombstones.ts'
import { syncedReplica } from '../cluster/clickhouse/synced-replicas.ts'
import { type Cluster, mustBeCurrent, openCluster } from '../cluster/cluster.ts'
import { forgetDeleted } from '../cluster/forget-deleted.ts'
import { ROOM_MS_MAX } from '../cluster/inserts.ts'
import type { Leader } from '../cluster/keeper/leader.ts'
import { clusterOptionsOf } from '../database/cluster-options.ts'
import { createMetrics, type Metrics } from '../database/metrics.ts'
import { addColumnRunner } from '../jobs/add-column.ts'
import { endImportsOfNodes } from '../jobs/end-imports.ts'
import { expireRows } from '../jobs/expire-rows.ts'
import { tableRewriteRunner } from '../jobs/rewrite-tables.ts'
import { BatchBuffers } from '../parse/batch-buffers.ts'
import { startParseWorkers } from '../parse/parse-workers.ts'
import { ClickHouseEngine } from '../query/clickhouse/engine.ts'
import type { TableRows } from '../query/clickhouse/rows.ts'
import { clusterExports } from '../query/cluster-exports.ts'
import { clusterTails } from '../query/cluster-tail.ts'
import { EngineClient } from '../query/duckdb/engine-client.ts'
import { SharedRuns } from '../query/shared-runs.ts'
import { Unavailable } from '../util/errors.ts'
import { MEMTABLE_BYTES_MAX } from '../util/limits.ts'
import { kernelNote } from '../util/native.ts'
import { inform } from '../util/say.ts'
import { clusterSizes, watchCluster } from './cluster-sizes.ts'
import { applicationName } from './server-metrics.ts'
import type { ServerStart } from './start.ts'
import type { RowStore, Store } from './store.ts'

/** Time after ready at which the process that reads users' SQL starts if no query came. */
const PARSER_WARM_MS = 5_000
/** Between two looks at the tables of all servers. */
const SWEEP_MS = 30_000

const NO_BACKUP = refuse(
  409,
  'cluster',
  'the rows of a cluster are backed up by ClickHouse, and its catalog by weir cluster backup',
)

/** Joins the cluster. Rejects with CannotRun or Unavailable. */
export async function openClusterStore(start: ServerStart, listener: CatalogListener): Promise<Store> {
  const node = await openNode(start, listener)
  const { opened, metrics, parse, temporaryFolder } = node
  return { opened, metrics, parse, temporaryFolder, ...rowsThrough(node), ...operationOf(node, start) }
}

/** The parts of a node. */
type Node = Awaited<ReturnType<typeof openNode>>

/** What a node is told. */
interface Listeners {
  /** The present leadership of this node; aborted where another one leads. */
  led: AbortSignal
  /** Called when this node leads. */
  onLead: (led: AbortSignal) => void
  /** Called with the time of each INSERT in ms. */
  onInsert: (ms: number) => void
}

async function openNode(start: ServerStart, listener: CatalogListener) {
  const told: Listeners = { led: AbortSignal.abort(), onLead: () => {}, onInsert: () => {} }
  const { config, kernel, closers, onFatal } = start
  const temporaryFolder = await mkdtemp(join(tmpdir(), 'weir-'))
  closers.push(() => rm(temporaryFolder, { recursive: true, force: true }))
  const metrics = createMetrics()
  const batchBuffers = new BatchBuffers()
  const parse = startParseWorkers(kernel, batchBuffers, { deletesHaveColumns: true })
  closers.push(() => parse.stop())
  const seconds = metrics.histogram('weir_cluster_insert_seconds', 'one INSERT, until a quorum has it')
  const cluster = await openCluster({
    ...clusterOptionsOf(config),
    onFatal,
    onDone: batch => batchBuffers.give(batch),
    onInsert: ms => {
      seconds(ms)
      told.onInsert(ms)
    },
  })
  closers.push(() => cluster.stop())
  const opened = await openCatalogOf({
    store: cluster.store,
    place: 'Keeper',
    adminFile: undefined,
    clientId: config.clientId,
    clientSecret: config.clientSecret,
    ...listener,
  })
  const parser = makeParser(start, temporaryFolder)
  const engine = makeEngine(cluster, opened.catalog, parser, metrics)
  const sizes = clusterSizes(cluster)
  const leader = cluster.lead(led => {
    told.led = led
    told.onLead(led)
  })
  return { cluster, opened, metrics, parse, parser, engine, sizes, temporaryFolder, leader, told }
}

function rowsThrough({ cluster, opened, engine, metrics, sizes }: Node) {
  const { inserts, versions } = cluster
  const pin: Store['reading']['pin'] = async pools => {
    mustBeCurrent(cluster.keeper)
    const source: TableRows = { pools }
    return { source, release: () => {} }
  }
  return {
    rows: rowsOf(cluster, opened.catalog),
    room: bytes => inserts.room(bytes),
    waitMsMax: ROOM_MS_MAX,
    onRoom: room => {
      inserts.onRoom = room
    },
    reading: { pin, engine, runs: new SharedRuns(), onQuery: metrics.query },
    copyStatement: undefined,
    exports: exportThread => clusterExports({ engine, exportThread }),
    openTail: clusterTails({ engine, boundary: () => versions.boundary() }),
    sizeOf: pool => sizes.of(pool.id),
  } satisfies Partial<Store>
}

type Operation = Omit<Store, keyof (Node & ReturnType<typeof rowsThrough>)>

function operationOf(node: Node, { config, kernel, http, onFatal }: ServerStart): Operation {
  const { cluster, opened, metrics, sizes, parser, told } = node
  const { catalog } = opened
  const { inserts, keeper } = cluster
  return {
    received: cluster.received,
    backups: NO_BACKUP,
    adminFile: undefined,
    notes: [
      `${kernelNote(kernel, config.kernel)}, durability ${config.durability}`,
      http.note,
      `rows in ${cluster.describe()}, catalog in Keeper at ${config.keeperPath}`,
      ...notesOfCatalog(opened),
    ],
    health: () => {
      const why = keeper.refusal()
      if (why !== undefined) return refusing('keeper_lost', why)
      // Questions may have answers, and rows are tried: ingest itself refuses nothing for it.
      if (cluster.writableShards() > 0) return { ready: true }
      return { ready: false, why: 'no shard has enough replicas that answer and have Keeper to take rows' }
    },
    refusal: () => {
      const why = keeper.refusal()
      return why === undefined ? undefined : refuse(503, 'keeper_lost', why)
    },
    state: () => sizes.state(inserts.stats()),
    runners: () => runnersOf(node),
    leaderCatalog: node.leader.fencedCatalog(catalog),
    lead: act => {
      told.onLead = led => {
        act(led)
        leads(node, led).catch(onFatal)
      }
      if (!told.led.aborted) told.onLead(told.led)
    },
    queues: () => {
      const { running, runningMax, waitingPools, bytes } = inserts.stats()
      return [
        ['insert_bytes', bytes, MEMTABLE_BYTES_MAX],
        ['inserts', running, runningMax],
        ['pools_waiting', waitingPools, catalog.pools().length],
      ]
    },
    watch: activity => {
      told.onInsert = ms => activity.sync(ms)
      watchCluster(metrics, cluster, sizes)
    },
    ready: () => {
      setTimeout(() => parser.warm(), PARSER_WARM_MS).unref()
    },
    quiet: async () => {},
    stop: () => stop(node),
  }
}

async function stop(node: Node): Promise<true> {
  const { cluster, opened, metrics, parse, parser, engine, temporaryFolder } = node
  await Promise.all([engine.stop(), parser.stop(), parse.stop()])
  await cluster.stop()
  // The others wait for this node with each change until its session ends.
  await opened.catalog.stop()
  await rm(temporaryFolder, { recursive: true, force: true })
  metrics.stop()
  return true
}

function runnersOf({ cluster, opened, leader, engine, metrics }: Node): ReturnType<Store['runners']> {
  const catalog = leader.fencedCatalog(opened.catalog)
  const rewrite = tableRewriteRunner({
    catalog,
    engine,
    schemaOf: pool => catalog.read.currentSchema(pool),
    options: cluster.insertOptions,
    replicaOf: (table, shard, topology, gone) => syncedReplica([table], shard, topology, gone),
    propellerOf: id => opened.catalog.propellerOf(id),
    onRows: metrics.jobRows,
  })
  // Each node takes up the column when it sees the change.
  const cutOver = async <T>(_: unknown, change: (sequence: number) => Promise<T>) =>
    await change(await cluster.versions.boundary())
  return {
    ADD_COLUMN: addColumnRunner({ catalog, cutOver, addToTables: pool => cluster.store.addColumns(pool) }),
    UPDATE_RECORDS: rewrite,
    DELETE_RECORDS: rewrite,
  }
}

/** DuckDB's process. It reads users' SQL for every store, and no row of a cluster. */
function makeParser({ kernel, config }: ServerStart, temporaryFolder: string): EngineClient {
  return new EngineClient({
    segmentFolder: temporaryFolder,
    temporaryFolder,
    kernel,
    threads: availableParallelism(),
    crashAt: config.crashAt,
    ensureWhole: async () => {},
    propellerOf: () => PROPELLERS[0],
    onWaited: () => {},
    onCrash: () => {},
  })
}

function makeEngine(
  cluster: Cluster,
  catalog: Catalog,
  parser: EngineClient,
  metrics: Metrics,
): ClickHouseEngine {
  return new ClickHouseEngine({
    parser,
    placeOf: (pools, gone) => {
      const queried = pools.map(({ schema }) => ({ schema, table: tableOf(catalog, schema.pool) }))
      return cluster.placeOf(queried, gone)
    },
    propellerOf: id => catalog.propellerOf(id),
    onWaited: (id, ms) => metrics.queryWaited(applicationName(catalog, id), ms),
  })
}

/** What one node does for all, beside jobs. */
async function leads(node: Node, led: AbortSignal): Promise<void> {
  const { cluster, opened, leader } = node
  const { catalog } = opened
  const fenced = leader.fencedCatalog(catalog)
  inform('this node leads: it runs the jobs of the cluster')
  const processes = () => cluster.keeper.nodes.processes()
  await Promise.all([
    sweepTables(cluster, catalog, leader, led),
    endImportsOfNodes(fenced, processes, led),
    expireRows(
      { catalog: fenced, reading: rowsThrough(node).reading, boundary: () => cluster.versions.boundary() },
      led,
    ),
  ])
}

/** Brings tables of servers that were down up to date, and purges tombstones, until the signal. */
async function sweepTables(
  { tables, keeper, topology, versions }: Cluster,
  catalog: Catalog,
  leader: Leader,
  ended: AbortSignal,
): Promise<void> {
  const mayDrop = (id: string) => leader.isLeader() && keeper.isCurrent() && catalog.pool(id) === undefined
  const isDeleted = (id: string) => catalog.tombstones().some(({ poolId }) => poolId === id)
  const isChanged = (id: string) => catalog.read.jobs.of(id).some(job => isRewrite(job) && isUnfinished(job))
  const purge = new TombstonePurge(topology)
  while (!ended.aborted) {
    const pools = new Map(catalog.pools().map(pool => [pool.id, catalog.read.currentSchema(pool)]))
    for (const line of await tables.sweep(pools, mayDrop, isDeleted)) inform(line)
    await forgetDeleted(tables, leader.fencedCatalog(catalog))
    for (const line of await purge.look(pools, () => versions.boundary(), isChanged)) inform(line)
    await sleep(SWEEP_MS, undefined, { signal: ended }).catch(() => {}) // it leads no more
  }
}

/** The table of a pool has its id. Throws Unavailable where the pool was deleted meanwhile. */
function tableOf(catalog: Catalog, pool: number): string {
  const found = catalog.poolByNumber(pool)
  if (found === undefined) throw new Unavailable('pool_deleted', 'the Data Pool was deleted')
  return found.id
}

/** Rows into the cluster. Each part of a batch has its own promise: no pool waits for others. */
function rowsOf({ inserts, versions, keeper }: Cluster, catalog: Catalog): RowStore {
  const insert = async ({ pool: number, kind, version, batch, requests }: CommitPart): Promise<void> => {
    const [pool, schema] = [catalog.poolByNumber(number), catalog.schema(number, version)]
    if (pool === undefined || schema === undefined) return // it was deleted, and is answered so
    try {
      await inserts.commit(pool.id, schema, kind, batch, requests)
    } catch (error) {
      if (error instanceof Unavailable && catalog.poolByNumber(number) === undefined) return
      throw error
    }
  }
  return {
    boundary: () => versions.boundary(),
    commit({ parts }) {
      mustBeCurrent(keeper)
      return parts.map(part => ({ rows: part.rows, done: insert(part), stage: 'insert' }))
    },
  }
}
