/**
 * `weir move`: takes a stopped data folder into a cluster.
 *
 *   checks ──► the catalog, which no node starts on ──► tables and rows, pool by pool ──►
 *   counts and checksums of both are equal ──► nodes may start
 *
 * After a kill the same command goes on (cluster/move/move-root.ts). The folder stays as a stop of
 * the server leaves it.
 */
import { createHash } from 'node:crypto'
import { isUnfinished } from '../../catalog/change/change-job.ts'
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import type { Pool } from '../../catalog/documents/model.ts'
import type { PoolTables } from '../../cluster/clickhouse/pool-tables.ts'
import { takenNames } from '../../cluster/clickhouse/table.ts'
import { type Topology, watchTopology } from '../../cluster/clickhouse/topology.ts'
import { layoutOf, tablesOf } from '../../cluster/cluster.ts'
import { DOCUMENT_BYTES_MAX, MoveRoot } from '../../cluster/move/move-root.ts'
import { clusterOptionsOf } from '../../database/cluster-options.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../../database/command.ts'
import { missingSettings } from '../../database/config.ts'
import { ClickHouseError } from '../../query/clickhouse/http.ts'
import { sweepCopies } from '../../query/copy-rows.ts'
import type { QueryEngine } from '../../query/plan/query-task.ts'
import { must } from '../../util/assert.ts'
import { CannotRun, Unavailable } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { MiB } from '../../util/limits.ts'
import { fail, note, say } from '../../util/say.ts'
import { whenInterrupted } from '../interrupts.ts'
import { type Offline, openOffline } from '../offline.ts'
import { type Progress, withProgress } from '../progress.ts'
import { moveRows } from './move-rows.ts'
import { sumOfSegments, sumOfTable } from './row-sums.ts'

const ANSWER_BYTES_MAX = 64 * MiB
const AGAIN = 'nothing is lost: run the same command again, and it goes on'

/** Runs `weir move`. The exit code is 1 where a pool differs afterwards. */
export async function move({ config }: CommandInput): Promise<number> {
  const missing = missingSettings(config)
  if (missing.length > 0)
    throw new CannotRun(`weir move needs the settings of a cluster: ${missing.join(', ')}`)
  const forget = whenInterrupted(() => note(`the move was interrupted; ${AGAIN}`))
  const closers: (() => unknown)[] = []
  try {
    const options = clusterOptionsOf(config)
    const watch = await watchTopology(options.addresses, options.cluster)
    closers.push(() => watch.stop())
    const root = await MoveRoot.open({ ...options, layout: layoutOf(options, watch.topology) })
    closers.push(() => root.stop())
    const offline = await openOffline(config)
    closers.push(() => offline.close())
    const topology = () => watch.topology
    const { quorum } = options
    return await moveFolder({ offline, root, topology, quorum, tables: tablesOf(options, topology) })
  } catch (error) {
    if (!(error instanceof Unavailable || error instanceof ClickHouseError)) throw error
    throw new CannotRun(`${error.message}; ${AGAIN}`)
  } finally {
    for (const close of closers.reverse()) await close()
    forget()
  }
}

interface Move {
  readonly offline: Offline
  readonly root: MoveRoot
  readonly tables: PoolTables
  readonly quorum: number
  topology(): Topology
}

async function moveFolder(move: Move): Promise<number> {
  const { offline, root, topology } = move
  const pools = offline.catalog.pools().toSorted((a, b) => a.number - b.number)
  const entries = offline.catalog.read.documents()
  const folder = checksumOf(offline, entries)
  const goesOn = root.state !== undefined
  if (root.state?.isDone === true && root.state.folder === folder) {
    say('the folder was moved before, and nothing is left to do')
    return CLEAN
  }
  if (root.state === undefined) {
    checkCatalog(offline, pools, entries)
    await checkNoTables(pools, topology())
    await root.begin(folder)
  } else if (root.state.folder !== folder)
    throw new CannotRun(
      'another folder is moved to this place in Keeper, or this one has changed since its move began: name another WEIR_KEEPER_PATH, and a WEIR_CLICKHOUSE_DATABASE without its tables',
    )
  crashPoint('move.begun')
  await root.putDocuments(entries)
  crashPoint('move.catalog')
  const engine = await offline.engine()
  await sweepCopies(offline.paths.temporary)
  await withProgress('moving rows', progress => movePools(move, pools, engine, goesOn, progress))
  const rows = await withProgress('comparing', progress => compare(move, pools, engine, progress))
  if (rows === undefined) return DAMAGED
  crashPoint('move.compared')
  await root.end()
  crashPoint('move.ended')
  say(
    `moved ${pools.length} pools with ${rows} rows: counts and checksums are equal; start nodes with the WEIR_CLIENT_ID and WEIR_CLIENT_SECRET of ${offline.paths.admin}`,
  )
  return CLEAN
}

/** What the folder has: its documents, and the segments with the number of their deleted rows. */
function checksumOf({ index }: Offline, entries: readonly Entry[]): string {
  const segments = index.opened.pools
    .toSorted((a, b) => a.pool - b.pool)
    .map(({ pool, segments }) => [
      pool,
      ...segments.map(({ segment, checksum, deletedRows }) => [segment, checksum, deletedRows]),
    ])
  const sorted = entries.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return createHash('sha256')
    .update(JSON.stringify([sorted, segments]))
    .digest('hex')
}

/** Throws CannotRun for what a cluster cannot have. */
function checkCatalog({ catalog }: Offline, pools: readonly Pool[], entries: readonly Entry[]): void {
  const versioned = pools.filter(pool => (catalog.read.currentSchema(pool).key?.version ?? -1) >= 0)
  if (versioned.length > 0)
    throw new CannotRun(
      `a cluster has no Data Pools with a version column ("ver"): ${versioned.map(nameOf).join(', ')}`,
    )
  const taken = pools.flatMap(pool =>
    takenNames(pool.columns.map(({ name }) => name)).map(name => `${nameOf(pool)} (${name})`),
  )
  if (taken.length > 0)
    throw new CannotRun(`tables of a cluster have columns of these names themselves: ${taken.join(', ')}`)
  const jobs = catalog.read.jobs.all().filter(isUnfinished)
  if (jobs.length > 0)
    throw new CannotRun(
      `the folder has jobs that have not ended (${jobs.map(({ id }) => id).join(', ')}): start the server until weir jobs --follow has ended, or cancel them with weir jobs --cancel`,
    )
  const large = entries.find(([, value]) => Buffer.byteLength(JSON.stringify(value)) > DOCUMENT_BYTES_MAX)
  if (large !== undefined) throw new CannotRun(`Keeper takes no document as large as ${large[0]}`)
}

function nameOf({ uniqueName }: Pool): string {
  return uniqueName
}

/** Throws CannotRun where a server has a table that a pool would get. */
async function checkNoTables(pools: readonly Pool[], { shards }: Topology): Promise<void> {
  const ids = new Set(pools.map(({ id }) => id))
  const sql = 'SELECT name FROM system.tables WHERE database = currentDatabase() FORMAT TabSeparated'
  for (const { http, address } of shards.flat()) {
    const names = (await http.run(sql, {}, ANSWER_BYTES_MAX)).body.toString().split('\n')
    const found = names.find(name => ids.has(name))
    if (found !== undefined)
      throw new CannotRun(
        `${address.url} has a table ${found} already, as another move may have left it: drop it, or name another WEIR_CLICKHOUSE_DATABASE`,
      )
  }
}

async function movePools(
  { offline, root, topology, tables, quorum }: Move,
  pools: readonly Pool[],
  engine: QueryEngine,
  goesOn: boolean,
  progress: Progress,
): Promise<void> {
  const { catalog, paths } = offline
  const begun = must(root.state, 'a move that has begun')
  const total = liveRows(offline, pools)
  let done = liveRows(offline, pools.slice(0, begun.pools))
  for (const [index, pool] of pools.entries()) {
    if (index < begun.pools) continue
    const schema = catalog.read.currentSchema(pool)
    await tables.ensure(pool.id, schema)
    const isUnderWay = index === begun.pools
    const moved = isUnderWay ? begun.rows : 0
    done += moved
    const snapshot = await offline.snapshot(pool.number)
    const { segments } = snapshot
    const onRows = (rows: number) => {
      done += rows
      progress.step(done, total, 'rows')
    }
    const deps = { root, engine, temporaryFolder: paths.temporary, quorum, topology, onRows }
    await moveRows({ index, table: pool.id, schema, segments }, moved, goesOn && isUnderWay, deps)
    snapshot.release()
  }
}

function liveRows({ index }: Offline, pools: readonly Pool[]): number {
  const numbers = new Set(pools.map(({ number }) => number))
  return index.opened.pools
    .filter(({ pool }) => numbers.has(pool))
    .flatMap(({ segments }) => segments)
    .reduce((sum, { rows, deletedRows }) => sum + rows - deletedRows, 0)
}

/** The number of rows; undefined where a pool differs, which is said. */
async function compare(
  { offline, topology }: Move,
  pools: readonly Pool[],
  engine: QueryEngine,
  progress: Progress,
): Promise<number | undefined> {
  let [rows, isEqual] = [0, true]
  const total = liveRows(offline, pools)
  const onRows = (more: number) => {
    rows += more
    progress.step(rows, total, 'rows')
  }
  for (const pool of pools) {
    const schema = offline.catalog.read.currentSchema(pool)
    const snapshot = await offline.snapshot(pool.number)
    const [source, target] = await Promise.all([
      sumOfSegments(schema, snapshot.segments, engine, onRows),
      sumOfTable(pool.id, schema, topology()),
    ])
    snapshot.release()
    if (source.rows === target.rows && source.sum === target.sum) continue
    isEqual = false
    fail(
      `the pool ${pool.uniqueName} differs: the folder has ${source.rows} rows with the checksum ${source.sum}, its tables ${target.rows} with ${target.sum}`,
    )
  }
  return isEqual ? rows : undefined
}
