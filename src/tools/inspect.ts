/** `weir inspect`: prints what inspect-pools.ts collects, as tables or as JSON. */
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import type { Footer } from '../format/segment-meta.ts'
import type { PoolState } from '../index/index-types.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import { fail, note, say, warn } from '../util/say.ts'
import {
  hasIndex,
  type Inspected,
  inspectFolder,
  type MissingIndex,
  type PoolSummary,
} from './inspect-pools.ts'
import { findingText } from './report.ts'
import { type LogSummary, openStopped, type ReadIndex } from './stopped-folder.ts'
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
  if (pools.some(({ debt }) => debt === null)) return null
  const sum = (of: (debt: Debt) => number) =>
    pools.reduce((total, { debt }) => total + (debt === null ? 0 : of(debt)), 0)
  return {
    smallSegments: sum(debt => debt.smallSegments),
    rowsDeleted: sum(debt => debt.rowsDeleted),
    bytesToMerge: sum(debt => debt.bytesToMerge),
    quarantined: sum(debt => debt.quarantined),
  }
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
