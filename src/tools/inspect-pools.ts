/**
 * Collects what `weir inspect` prints. It reads only: requests in the log are counted, not
 * replayed.
 *
 * A restored folder has no index before its first start. Then the footers of the segments give the
 * stored rows and deletes. The number of live rows is not known: null, not 0.
 */
import type { Memory } from '../catalog/documents/memory.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { type Footer, hasDeleteFile, readFooter, type SegmentMeta } from '../format/segment-meta.ts'
import { emptyPool, type PoolState } from '../index/index-types.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import { cutoffUs, inspectPool as inspectSegments } from '../store/compaction/pick-compaction.ts'
import { wallMs } from '../util/clock.ts'
import { disk } from '../util/disk.ts'
import { poolFolder } from '../util/paths.ts'
import { liveFooters, segmentFilesOf } from './check-segment.ts'
import { withProgress } from './progress.ts'
import { type Finding, Report } from './report.ts'
import {
  findPool,
  flushedOf,
  inspectLog,
  type LogSummary,
  type ReadIndex,
  readCatalog,
  readIndex,
  type StoppedFolder,
} from './stopped-folder.ts'

/** The flushed rows of a pool. A figure is null where it is not known without an index. */
export interface PoolSummary {
  readonly id: string
  readonly name: string
  readonly number: number
  /** Rows that a query sees, rows on disk, and rows on disk that were updated or deleted since. */
  readonly rowsLive: number | null
  readonly rowsStored: number
  readonly rowsDeleted: number | null
  readonly segments: number
  readonly deleteFiles: number
  readonly bytes: number
  /**
   * Range of the primary timestamp, µs; null too where there are no rows, or a segment has no
   * range.
   */
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  readonly retentionDays: number
  readonly keys: number | null
  /** Its quarantined segments are those that cannot be read now. */
  readonly debt: Debt | null
  /** Files without a readable footer, or of a wrong length. `weir verify` reads whole files. */
  readonly unreadable: readonly Finding[]
  /** Without an index: possible losses that the files cannot prove. */
  readonly notes: readonly string[]
  /** Without an index: the footers of live segments, in the order of their sequences. */
  readonly footers: readonly Footer[]
}

/** An index that cannot be used: a missing one, which a start builds, or a damaged one. */
export interface MissingIndex {
  readonly why: string
  readonly isDamaged: boolean
}

export interface Inspected {
  readonly folder: StoppedFolder
  readonly memory: Memory
  readonly index: ReadIndex | MissingIndex
  readonly log: LogSummary
  readonly pools: readonly PoolSummary[]
  /** The state of the named pool in the index; undefined where no pool is named. */
  readonly state: PoolState | undefined
}

export function hasIndex(index: ReadIndex | MissingIndex): index is ReadIndex {
  return 'states' in index
}

/** Inspects the pool of this name or id, or all pools. The caller closes the index. */
export async function inspectFolder(folder: StoppedFolder, name: string | undefined): Promise<Inspected> {
  const memory = await readCatalog(folder)
  const all = [...memory.pools.all()]
  const named = name === undefined ? undefined : findPool(name, all)
  const chosen = named === undefined ? all : [named]
  const index = await tryIndex(folder, memory)
  const byNumber = new Map(hasIndex(index) ? index.states.map(state => [state.pool, state]) : [])
  const pools: PoolSummary[] = []
  const flushed: PoolState[] = []
  // Without an index the files of all pools tell which requests of the log are flushed.
  const inspected = hasIndex(index) ? chosen : all
  try {
    await withProgress('inspecting segments', async progress => {
      for (const [done, pool] of inspected.entries()) {
        const summary = hasIndex(index)
          ? await inspectPool(folder, pool, byNumber.get(pool.number), index)
          : await inspectFiles(folder, pool, flushed)
        if (chosen.includes(pool)) pools.push(summary)
        progress.step(done + 1, inspected.length, 'pools')
      }
    })
    const log = inspectLog(folder.paths.log, flushedOf(memory, hasIndex(index) ? index.states : flushed))
    return { folder, memory, index, log, pools, state: named && byNumber.get(named.number) }
  } catch (error) {
    if (hasIndex(index)) index.index.close()
    throw error
  }
}

async function tryIndex(folder: StoppedFolder, memory: Memory): Promise<ReadIndex | MissingIndex> {
  try {
    const index = await readIndex(folder, memory, 'keys')
    return typeof index === 'string' ? { why: index, isDamaged: false } : index
  } catch (error) {
    return { why: (error as Error).message, isDamaged: true }
  }
}

async function inspectPool(
  { paths }: StoppedFolder,
  pool: Pool,
  state: PoolState | undefined,
  index: ReadIndex,
): Promise<PoolSummary> {
  const segments = state?.segments ?? []
  const rowsStored = sumOf(segments, segment => segment.rows)
  const rowsDeleted = sumOf(segments, segment => segment.deletedRows)
  const withRows = segments.filter(segment => segment.rows > 0)
  const expireBeforeUs = cutoffUs(pool.retentionDays, wallMs())
  const { unreadable, bad } = await findUnreadable(poolFolder(paths, pool.id), segments)
  return {
    ...namesOf(pool),
    rowsLive: rowsStored - rowsDeleted,
    rowsStored,
    rowsDeleted,
    segments: segments.length,
    deleteFiles: segments.filter(hasDeleteFile).length,
    bytes: sumOf(segments, segment => segment.bytes),
    timestampFromUs: least(withRows.map(segment => segment.timestampFromUs)),
    timestampToUs: most(withRows.map(segment => segment.timestampToUs)),
    keys: index.keys.get(pool.number) ?? 0,
    debt: inspectSegments({ segments, isExcluded: segment => bad.has(segment), expireBeforeUs }, bad.size)
      .debt,
    unreadable,
    notes: [],
    footers: [],
  }
}

/** Inspects a pool without an index. Its flushed sequence by its files goes to `flushed`. */
async function inspectFiles(
  { paths }: StoppedFolder,
  pool: Pool,
  flushed: PoolState[],
): Promise<PoolSummary> {
  const folder = poolFolder(paths, pool.id)
  const report = new Report()
  const footers = await liveFooters(folder, pool.number, report)
  const flushedSequence = footers.reduce((most, { sequenceTo }) => Math.max(most, sequenceTo), 0)
  flushed.push({ ...emptyPool(pool.number), flushedSequence })
  const files = footers.flatMap(footer => segmentFilesOf(folder, footer)).filter(file => disk.exists(file))
  return {
    ...namesOf(pool),
    rowsLive: null,
    rowsStored: sumOf(footers, footer => footer.rows),
    rowsDeleted: null,
    segments: footers.length,
    deleteFiles: footers.filter(hasDeleteFile).length,
    bytes: sumOf(files, file => disk.size(file)),
    timestampFromUs: null,
    timestampToUs: null,
    keys: null,
    debt: null,
    unreadable: report.findings,
    notes: report.notes,
    footers,
  }
}

function namesOf({ id, uniqueName, number, retentionDays }: Pool) {
  return { id, name: uniqueName, number, retentionDays }
}

/**
 * Finds files that are missing, of another length, or without a footer, and the numbers of their
 * segments.
 */
async function findUnreadable(folder: string, segments: readonly SegmentMeta[]) {
  const bad = new Set<number>()
  const report = new Report()
  for (const meta of segments) {
    const before = report.count
    const files = segmentFilesOf(folder, meta)
    const missing = files.filter(file => !disk.exists(file))
    for (const file of missing) report.find(file, 'it is missing')
    const [file = folder] = files
    const bytes = missing.length > 0 ? meta.bytes : sumOf(files, one => disk.size(one))
    if (bytes !== meta.bytes)
      report.find(file, `the segment has ${bytes} bytes, it should have ${meta.bytes} by the index`)
    else if (meta.rows > 0 && missing.length === 0) await report.try(() => readFooter(disk, file))
    if (report.count > before) bad.add(meta.segment)
  }
  return { unreadable: report.findings, bad }
}

function sumOf<T>(list: readonly T[], of: (one: T) => number): number {
  return list.reduce((total, one) => total + of(one), 0)
}

function least(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>((a, b) => (a === null || (b !== null && b < a) ? b : a), null)
}

function most(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>((a, b) => (a === null || (b !== null && b > a) ? b : a), null)
}
