/**
 * `weir inspect`: prints what a folder holds, as tables or as JSON. It reads only: requests in the
 * log are counted, not replayed.
 *
 * A restored folder has no index before its first start. Then the footers of the segments give the
 * stored rows and deletes. The number of live rows is not known: null, not 0.
 */

import type { Memory } from '../catalog/documents/memory.ts'
import type { Pool } from '../catalog/documents/model.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import { type Footer, hasDeleteFile, readFooter, type SegmentMeta } from '../format/segment-meta.ts'
import { emptyPool, type PoolState } from '../index/index-types.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import { sumDebts } from '../store/compaction/debt-totals.ts'
import { cutoffUs, inspectPool as inspectSegments } from '../store/compaction/pick-compaction.ts'
import { wallMs } from '../util/clock.ts'
import { disk } from '../util/disk.ts'
import { poolFolder } from '../util/paths.ts'
import { fail, note, say, warn } from '../util/say.ts'
import { liveFooters, segmentFilesOf } from './check-segment.ts'
import { withProgress } from './progress.ts'
import { type Finding, findingText, Report } from './report.ts'
import {
  findPool,
  flushedOf,
  inspectLog,
  type LogSummary,
  openStopped,
  type ReadIndex,
  readCatalog,
  readIndex,
  type StoppedFolder,
} from './stopped-folder.ts'
import { bytesText, countText, pairLines, tableLines, timeText } from './text-tables.ts'

/**
 * Runs `weir inspect`. The exit code is 1 where log, index or a segment cannot be read. A missing
 * index is no damage: a start builds it.
 */
export async function inspect({ config, positionals, flags }: CommandInput): Promise<number> {
  const folder = openStopped(config, { takesBackup: true })
  const [name] = positionals
  const all = await inspectFolder(folder, name)
  const { index, log, pools, state } = all
  try {
    if (flags.has('json')) say(JSON.stringify(jsonOf(all), null, 2))
    else for (const line of name === undefined ? folderLines(all) : poolLines(pools[0]!, state)) say(line)
    if (!hasIndex(index)) warn(missingIndexText(all, index))
    if (log.damage !== undefined) fail(log.damage.message)
    const unreadable = pools.flatMap(pool => pool.unreadable)
    for (const finding of unreadable) fail(findingText(finding))
    for (const text of pools.flatMap(pool => pool.notes)) note(`note: ${text}`)
    const isDamaged =
      log.damage !== undefined || unreadable.length > 0 || (!hasIndex(index) && index.isDamaged)
    return isDamaged ? DAMAGED : CLEAN
  } finally {
    if (hasIndex(index)) index.index.close()
  }
}

function missingIndexText({ folder, pools }: Inspected, { why, isDamaged }: MissingIndex): string {
  const segments = countText(pools.reduce((sum, pool) => sum + pool.segments, 0))
  const shown = `the output comes from the footers of ${segments} segments: which rows are live is not known`
  if (folder.isBackup) return `this is a backup and has no index; ${shown}`
  const what = isDamaged ? `the index cannot be read: ${why}` : `the index is not built: ${why}`
  return `${what}; the next start, or weir rebuild, builds it; ${shown}`
}

function sumDebt(pools: readonly PoolSummary[]): Debt | null {
  const debts = pools.flatMap(({ debt }) => debt ?? [])
  return debts.length < pools.length ? null : sumDebts(debts)
}

function folderLines({ folder, memory, pools, log, index }: Inspected): string[] {
  const counts = pairLines([
    ['compaction', debtText(sumDebt(pools))],
    ['log', logText(log)],
    ['index', indexText(index)],
    [
      'catalog',
      `${countText(memory.pools.size)} pools, ${countText(memory.applications.size)} applications, ${countText(memory.tombstones.size)} deleted pools`,
    ],
  ])
  return [folder.paths.root, '', ...poolTable(pools), '', ...counts]
}

function poolTable(pools: readonly PoolSummary[]): string[] {
  if (pools.length === 0) return ['no pools']
  return tableLines(pools, [
    ['pool', pool => pool.id],
    ['name', pool => pool.name],
    ['rows', pool => pool.rowsLive ?? '-'],
    ['stored', pool => pool.rowsStored],
    ['deleted', pool => pool.rowsDeleted ?? '-'],
    ['segments', pool => pool.segments],
    ['small', pool => pool.debt?.smallSegments ?? '-'],
    ['delete files', pool => pool.deleteFiles],
    ['bytes', pool => bytesText(pool.bytes)],
    ['from', pool => timeOrNone(pool.timestampFromUs)],
    ['to', pool => timeOrNone(pool.timestampToUs)],
    ['retention', retentionText],
  ])
}

/** The pool, and one line for each segment, in the order of their sequences. */
function poolLines(pool: PoolSummary, state: PoolState | undefined): string[] {
  const lines = pairLines([
    ['pool', `${pool.id} (${pool.name}), number ${pool.number}`],
    ['rows', rowsText(pool)],
    ['keys', pool.keys === null ? UNKNOWN : countText(pool.keys)],
    ['bytes', bytesText(pool.bytes)],
    ['compaction', debtText(pool.debt)],
    ['retention', retentionText(pool)],
    ['flushed', pool.keys === null ? UNKNOWN : `up to sequence ${countText(state?.flushedSequence ?? 0)}`],
  ])
  if (pool.footers.length > 0) lines.push('', ...footerTable(pool.footers))
  const segments = [...(state?.segments ?? [])].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  if (segments.length > 0) lines.push('', ...segmentTable(segments))
  return lines
}

function segmentTable(segments: PoolState['segments']): string[] {
  return tableLines(segments, [
    ['segment', one => one.segment],
    ['rows', one => one.rows],
    ['deleted', one => one.deletedRows],
    ['deletes', one => one.deletes],
    ['bytes', one => bytesText(one.bytes)],
    ['schema', one => one.schemaVersion],
    ['sequences', sequencesOf],
    ['from', one => timeOrNone(one.timestampFromUs)],
    ['to', one => timeOrNone(one.timestampToUs)],
    ['tenants', one => (one.tenant === null ? '-' : `${one.tenant.min}..${one.tenant.max}`)],
  ])
}

function footerTable(footers: readonly Footer[]): string[] {
  return tableLines(footers, [
    ['segment', one => one.segment],
    ['rows', one => one.rows],
    ['deletes', one => one.deletes],
    ['schema', one => one.schemaVersion],
    ['sequences', sequencesOf],
  ])
}

function sequencesOf({ sequenceFrom, sequenceTo }: Pick<Footer, 'sequenceFrom' | 'sequenceTo'>): string {
  return `${sequenceFrom}..${sequenceTo}`
}

function timeOrNone(us: number | null): string {
  return us === null ? '-' : timeText(us)
}

function retentionText({ retentionDays }: PoolSummary): string {
  return retentionDays === 0 ? 'for ever' : `${retentionDays} days`
}

const UNKNOWN = 'not known without an index'

function rowsText({ rowsLive, rowsStored, rowsDeleted }: PoolSummary): string {
  const stored = `${countText(rowsStored)} stored`
  if (rowsLive === null || rowsDeleted === null) return `${stored}; the number of live rows is ${UNKNOWN}`
  return `${countText(rowsLive)} live; ${stored}, ${countText(rowsDeleted)} of them deleted`
}

function debtText(debt: Debt | null): string {
  if (debt === null) return UNKNOWN
  const { smallSegments, rowsDeleted, bytesToMerge, quarantined } = debt
  const bad = quarantined === 0 ? '' : `, ${countText(quarantined)} segments that cannot be read`
  return `${countText(smallSegments)} small segments, ${countText(rowsDeleted)} deleted rows, ${bytesText(bytesToMerge)} to merge${bad}`
}

function logText(log: LogSummary): string {
  const { files, bytes, records, lastSequence, unflushedRequests, unflushedBytes, end } = log
  const stop = end === undefined ? 'damaged' : end.cleanStop ? 'stopped cleanly' : 'not stopped cleanly'
  return `${files} files, ${bytesText(bytes)}; ${countText(records)} records up to sequence ${countText(lastSequence)}; ${countText(unflushedRequests)} requests (${bytesText(unflushedBytes)}) not yet flushed; ${stop}`
}

function indexText(index: ReadIndex | MissingIndex): string {
  if (!hasIndex(index)) return `${index.isDamaged ? 'cannot be read' : 'not built'}: ${index.why}`
  const { bytes, bytesUsed, format, commit, keyTotal: keys } = index
  const each = keys === 0 ? '' : ` (${(bytesUsed / keys).toFixed(1)} bytes a key)`
  return `${bytesText(bytesUsed)} in a file of ${bytesText(bytes)}, ${countText(keys)} keys${each}; format ${format}, commit ${countText(commit)}`
}

function figuresOf({ bytes, bytesUsed, keyTotal: keys, format, commit }: ReadIndex) {
  return { bytes, bytesUsed, keys, format, commit }
}

function jsonOf({ folder, memory, pools, log, index, state }: Inspected): unknown {
  const { damage, end, ...counts } = log
  return {
    folder: folder.paths.root,
    pools: pools.map(({ footers, ...pool }) => {
      const segmentList = state?.segments ?? (footers.length > 0 ? footers : undefined)
      return segmentList === undefined ? pool : { ...pool, segmentList }
    }),
    debt: sumDebt(pools),
    log: { ...counts, cleanStop: end?.cleanStop ?? false, damage: damage?.message ?? null },
    index: hasIndex(index) ? figuresOf(index) : { missing: index.why, isDamaged: index.isDamaged },
    catalog: {
      pools: memory.pools.size,
      applications: memory.applications.size,
      deletedPools: memory.tombstones.size,
    },
  }
}

/** The flushed rows of a pool. A figure is null where it is not known without an index. */
interface PoolSummary {
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
interface MissingIndex {
  readonly why: string
  readonly isDamaged: boolean
}

interface Inspected {
  readonly folder: StoppedFolder
  readonly memory: Memory
  readonly index: ReadIndex | MissingIndex
  readonly log: LogSummary
  readonly pools: readonly PoolSummary[]
  /** The state of the named pool in the index; undefined where no pool is named. */
  readonly state: PoolState | undefined
}

function hasIndex(index: ReadIndex | MissingIndex): index is ReadIndex {
  return 'states' in index
}

/** Inspects the pool of this name or id, or all pools. The caller closes the index. */
async function inspectFolder(folder: StoppedFolder, name: string | undefined): Promise<Inspected> {
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
    timestampFromUs: outermost(Math.min, withRows, segment => segment.timestampFromUs),
    timestampToUs: outermost(Math.max, withRows, segment => segment.timestampToUs),
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

/** The first or the last time of segments; null where none is known. */
function outermost(
  pick: (a: number, b: number) => number,
  segments: readonly SegmentMeta[],
  of: (segment: SegmentMeta) => number | null,
): number | null {
  const known = segments.map(of).filter(us => us !== null)
  return known.length === 0 ? null : known.reduce((a, b) => pick(a, b))
}
