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
import { syncedReplicas } from '../../cluster/clickhouse/synced-replicas.ts'
import { DELETED, takenNames } from '../../cluster/clickhouse/table.ts'
import { type Topology, watchTopology } from '../../cluster/clickhouse/topology.ts'
import { layoutOf, tablesOf } from '../../cluster/cluster.ts'
import { DOCUMENT_BYTES_MAX, MoveRoot } from '../../cluster/move/move-root.ts'
import { clusterOptionsOf } from '../../database/cluster-options.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../../database/command.ts'
import { missingSettings } from '../../database/config.ts'
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { groupSegments } from '../../query/arrow/export-stream.ts'
import { ClickHouseError } from '../../query/clickhouse/http.ts'
import { sweepCopies } from '../../query/copy-rows.ts'
import { queryColumns } from '../../query/expression/operand.ts'
import { rowsOfPool, type SegmentEngine } from '../../query/plan/segment-task.ts'
import { CannotRun, must, Unavailable } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { MiB } from '../../util/limits.ts'
import { fail, note, say } from '../../util/say.ts'
import { quoteClickHouseName, quoteName } from '../../util/sql.ts'
import { whenInterrupted } from '../interrupts.ts'
import { type Offline, openOffline } from '../offline.ts'
import { type Progress, withProgress } from '../progress.ts'
import { moveRows } from './move-rows.ts'

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
  engine: SegmentEngine,
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
  engine: SegmentEngine,
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

// ── Checksums of rows ───────────────────────────────────────────────────────────────────────────

const SUM_BYTES_MAX = 65_536
const SUM_END = 1n << 64n

/**
 * A checksum of the rows of a pool that both stores compute: of each row the first 8 bytes of the
 * MD5 of its values as one text, added up modulo 2^64. The order of rows does not matter.
 *
 *   text of a row  its values one after another: N for null, else V and the value. A text stands
 *                  behind its length, a number before a comma. Times are µs, dates days, real
 *                  numbers the integer of their bits.
 */
interface RowSum {
  readonly rows: number
  readonly sum: bigint
}

/** The integer that stands for a value, in the SQL of each store; undefined for texts. */
const INTEGER_OF: Readonly<Record<ColumnType, readonly [duckdb: Integer, clickHouse: Integer] | undefined>> =
  {
    BOOLEAN: [x => `${x}::INTEGER`, x => `toInt64(${x})`],
    STRING: undefined,
    JSON: undefined,
    FLOAT: [x => `${x}::BIT::INTEGER`, x => `reinterpretAsInt32(reinterpretAsString(${x}))`],
    DOUBLE: [x => `${x}::BIT::BIGINT`, x => `reinterpretAsInt64(reinterpretAsString(${x}))`],
    INT8: [x => x, x => x],
    INT16: [x => x, x => x],
    INT32: [x => x, x => x],
    INT64: [x => x, x => x],
    DATE: [x => `(${x} - DATE '1970-01-01')`, x => `toInt32(${x})`],
    TIMESTAMP: [x => `epoch_us(${x})`, x => `toUnixTimestamp64Micro(${x})`],
  }

type Integer = (column: string) => string

/** The checksum of the live rows of segments. Rejects with SegmentDamaged or Unavailable. */
export async function sumOfSegments(
  schema: PoolSchema,
  segments: readonly QuerySegment[],
  engine: SegmentEngine,
  onRows: (rows: number) => void = () => {},
): Promise<RowSum> {
  const text = queryColumns(schema)
    .map(({ name, type }) => {
      const [x, integer] = [quoteName(name), INTEGER_OF[type]?.[0]]
      const value = integer === undefined ? `strlen(${x}) || ':' || ${x}` : `${integer(x)} || ','`
      return `coalesce('V' || ${value}, 'N')`
    })
    .join(' || ')
  const hash = `(md5_number(${text}) & ${SUM_END - 1n}::UHUGEINT)::UBIGINT`
  const statement = {
    sql: `SELECT count(*)::VARCHAR, coalesce(sum(${hash}), 0)::VARCHAR FROM rows`,
    bounds: [],
  }
  const sums: RowSum[] = []
  for (const group of groupSegments(segments)) {
    const { rows } = await engine.run({ source: rowsOfPool(schema, group), statement, rowsMax: 1 }, 'move')
    const sum = readSum(rows[0] ?? [])
    sums.push(sum)
    onRows(sum.rows)
  }
  return total(sums)
}

/**
 * The checksum of the rows that count, from a synced replica of each shard. Rejects with
 * ClickHouseError or Unavailable.
 */
async function sumOfTable(table: string, schema: PoolSchema, topology: Topology): Promise<RowSum> {
  const replicas = await syncedReplicas([table], topology)
  const sql = tableSum(table, schema)
  const asked = replicas.map(async ({ http }) => {
    const { body } = await http.run(sql, {}, SUM_BYTES_MAX)
    return readSum(body.toString().trim().split('\t'))
  })
  return total(await Promise.all(asked))
}

/** The statement of one server. */
export function tableSum(table: string, schema: PoolSchema): string {
  const values = queryColumns(schema).map(({ name, type }) => {
    const [x, integer] = [quoteClickHouseName(name), INTEGER_OF[type]?.[1]]
    const value = integer === undefined ? `toString(length(${x})), ':', ${x}` : `toString(${integer(x)}), ','`
    return `ifNull(concat('V', ${value}), 'N')`
  })
  const hash = `reinterpretAsUInt64(MD5(concat(${values.join(', ')})))`
  const from = quoteClickHouseName(table)
  // FINAL: of the rows of a key the last one counts.
  const live = schema.key === null ? from : `${from} FINAL WHERE ${DELETED} = 0`
  return `SELECT toString(count()), toString(sum(${hash})) FROM ${live} FORMAT TabSeparated`
}

function readSum([rows, sum]: readonly (string | null | undefined)[]): RowSum {
  return { rows: Number(rows ?? 0), sum: BigInt(sum ?? 0) }
}

function total(sums: readonly RowSum[]): RowSum {
  const rows = sums.reduce((all, each) => all + each.rows, 0)
  return { rows, sum: sums.reduce((all, each) => all + each.sum, 0n) % SUM_END }
}
