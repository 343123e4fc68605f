/**
 * What `weir inspect` gathers of a stopped folder. Reads only: what is in the log alone is counted as such, not replayed.
 *
 * Where there is no index (a restored folder, before its first start) the footers of the segments tell what they can: rows
 * and deletes that are stored. Which of the rows are still visible nobody knows then: null, not 0.
 */
import { join } from 'node:path'
import type { Memory } from '../catalog/memory.ts'
import type { Pool } from '../catalog/model.ts'
import type { SegmentMeta } from '../format/segment-meta.ts'
import { type Footer, readFooter } from '../format/segment-meta.ts'
import type { PoolState } from '../index/index-types.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import { cutoffUs, inspectPool } from '../store/compaction/pick-compaction.ts'
import { wallMs } from '../util/clock.ts'
import { crc32 } from '../util/crc32.ts'
import { disk, readFile } from '../util/disk.ts'
import { INSPECT_CHECKSUM_BYTES } from '../util/limits.ts'
import { deleteFile, poolFolder, segmentFile } from '../util/paths.ts'
import { type LogLook, lookAtLog } from './inspect-log.ts'
import { type FolderLook, flushedOf, readCatalog, readIndex, type WholeIndex } from './open-read-only.ts'
import { createProgress } from './progress.ts'
import { liveFooters } from './read-footers.ts'
import { type Finding, Report } from './report.ts'

/** A pool as it is flushed. null: not known without an index. */
export interface PoolLook {
  readonly id: string
  readonly name: string
  readonly number: number
  /** Rows that a query sees, rows on disk, and those of them that were updated or deleted since. */
  readonly rowsLive: number | null
  readonly rowsStored: number
  readonly rowsDeleted: number | null
  readonly segments: number
  readonly deleteFiles: number
  readonly bytes: number
  /** Of the primary timestamp, µs; null too where there are no rows, or one is null. */
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  readonly retentionDays: number
  readonly keys: number | null
  /** Quarantined are segments that cannot be read now. */
  readonly debt: Debt | null
  /** Files of segments that cannot be read, as far as their footers tell; `weir verify` reads all of them. */
  readonly unreadable: readonly Finding[]
  /** Without an index: what the files leave open, such as rows that may be lost. */
  readonly notes: readonly string[]
  /** Without an index: what the live segments say of themselves, by rising sequence. */
  readonly footers: readonly Footer[]
}

/** An index that cannot be used: none that counts (a start builds it), or one that cannot be read. */
export interface NoIndex {
  readonly why: string
  readonly isDamaged: boolean
}

export interface Inspected {
  readonly folder: FolderLook
  readonly memory: Memory
  readonly index: WholeIndex | NoIndex
  readonly log: LogLook
  readonly pools: readonly PoolLook[]
  /** Of one pool, as the index knows it. */
  readonly stateOf: (pool: number) => PoolState | undefined
}

export function isIndex(index: WholeIndex | NoIndex): index is WholeIndex {
  return 'states' in index
}

/** Looks at every pool, or at the one that `choose` takes. The caller closes the index. */
export async function lookAtAll(
  folder: FolderLook,
  choose: (memory: Memory) => readonly Pool[],
): Promise<Inspected> {
  const memory = await readCatalog(folder)
  const chosen = choose(memory)
  const index = await tryIndex(folder, memory)
  const progress = createProgress('looking at segments')
  try {
    const byNumber = new Map(isIndex(index) ? index.states.map(state => [state.pool, state]) : [])
    const pools: PoolLook[] = []
    const flushed: PoolState[] = []
    // Without an index the files of all pools tell what of the log is flushed.
    const toLook = isIndex(index) ? chosen : [...memory.pools.byId.values()]
    for (const [done, pool] of toLook.entries()) {
      const look = isIndex(index)
        ? await lookAtPool(folder, pool, byNumber.get(pool.number), index)
        : await lookAtFiles(folder, pool, flushed)
      if (chosen.includes(pool)) pools.push(look)
      progress.step(done + 1, toLook.length, 'pools')
    }
    const log = lookAtLog(folder.paths.log, flushedOf(memory, isIndex(index) ? index.states : flushed))
    return { folder, memory, index, log, pools, stateOf: number => byNumber.get(number) }
  } catch (error) {
    if (isIndex(index)) index.index.close()
    throw error
  } finally {
    progress.end()
  }
}

async function tryIndex(folder: FolderLook, memory: Memory): Promise<WholeIndex | NoIndex> {
  try {
    const index = await readIndex(folder, memory, 'keys')
    return typeof index === 'string' ? { why: index, isDamaged: false } : index
  } catch (error) {
    return { why: (error as Error).message, isDamaged: true }
  }
}

async function lookAtPool(
  { paths }: FolderLook,
  pool: Pool,
  state: PoolState | undefined,
  index: WholeIndex,
): Promise<PoolLook> {
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
    deleteFiles: segments.filter(segment => segment.deletes > 0).length,
    bytes: sumOf(segments, segment => segment.bytes),
    timestampFromUs: least(withRows.map(segment => segment.timestampFromUs)),
    timestampToUs: most(withRows.map(segment => segment.timestampToUs)),
    keys: index.keys.get(pool.number) ?? 0,
    debt: inspectPool({ segments, isExcluded: segment => bad.has(segment), expireBeforeUs }, bad.size).debt,
    unreadable,
    notes: [],
    footers: [],
  }
}

/** What the files say of themselves. What is flushed by them goes to `flushed`. */
async function lookAtFiles({ paths }: FolderLook, pool: Pool, flushed: PoolState[]): Promise<PoolLook> {
  const folder = poolFolder(paths, pool.id)
  const report = new Report()
  const footers = await liveFooters(folder, pool.number, report)
  const flushedSequence = footers.reduce((most, { sequenceTo }) => Math.max(most, sequenceTo), 0)
  flushed.push({ pool: pool.number, flushedSequence, nextSegment: 0, receivedToUs: 0, segments: [] })
  const files = footers.flatMap(footer => filesOf(folder, footer)).filter(file => disk.exists(file))
  return {
    ...namesOf(pool),
    rowsLive: null,
    rowsStored: sumOf(footers, footer => footer.rows),
    rowsDeleted: null,
    segments: footers.length,
    deleteFiles: footers.filter(footer => footer.deletes > 0).length,
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

/** Files that are missing, of another length, or without a footer; and the numbers of their segments. */
async function findUnreadable(folder: string, segments: readonly SegmentMeta[]) {
  const bad = new Set<number>()
  const report = new Report()
  for (const meta of segments) {
    const before = report.count
    const files = filesOf(folder, meta)
    const missing = files.filter(file => !disk.exists(file))
    for (const file of missing) report.find(file, 'it is missing')
    const [file = folder] = files
    const bytes = missing.length > 0 ? meta.bytes : sumOf(files, one => disk.size(one))
    if (bytes !== meta.bytes)
      report.find(file, `the segment has ${bytes} bytes, the index says ${meta.bytes}`)
    else if (meta.rows > 0 && missing.length === 0 && !isAsWritten(file, meta))
      await report.try(() => readFooter(disk, file))
    if (report.count > before) bad.add(meta.segment)
  }
  return { unreadable: report.findings, bad }
}

/**
 * Are the bytes those of the index's checksum? Then the footer is as it was written, and need not be parsed, which takes longer
 * than the checksum. Asked of small segments alone, of which there may be tens of thousands: of a large one the footer is less to read.
 */
function isAsWritten(file: string, { checksum }: SegmentMeta): boolean {
  if (disk.size(file) > INSPECT_CHECKSUM_BYTES) return false
  try {
    return crc32(readFile(disk, file)) === checksum
  } catch {
    return false // the footer may be readable all the same
  }
}

function filesOf(folder: string, { segment, rows, deletes }: SegmentMeta | Footer): string[] {
  return [
    ...(rows > 0 ? [join(folder, segmentFile(segment))] : []),
    ...(deletes > 0 ? [join(folder, deleteFile(segment))] : []),
  ]
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
