/** What `weir inspect` prints; inspect-look.ts gathers it. */
import type { Pool } from '../catalog/model.ts'
import { CLEAN, type CommandInput, DAMAGED } from '../engine/command.ts'
import type { Footer } from '../format/segment-meta.ts'
import type { PoolState } from '../index/index-types.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import { note, say, warn } from '../util/say.ts'
import { choosePool } from './choose-pool.ts'
import type { LogLook } from './inspect-log.ts'
import { type Inspected, isIndex, lookAtAll, type NoIndex, type PoolLook } from './inspect-pools.ts'
import { lookAtFolder, type WholeIndex } from './open-read-only.ts'
import { findingText } from './report.ts'
import { bytesText, countText, pairLines, tableLines, timeText } from './text-table.ts'

/** The exit code: 1 where log, index or a segment cannot be read. No index at all is no damage: a start builds it. */
export async function inspect({ config, positionals, flags }: CommandInput): Promise<number> {
  const folder = lookAtFolder(config, true)
  const [name] = positionals
  let only: Pool | undefined
  const all = await lookAtAll(folder, ({ pools: { byId, byName } }) => {
    if (name === undefined) return [...byId.values()]
    only = choosePool(name, {
      byId: id => byId.get(id),
      byName: one => byName.get(one),
      all: [...byId.values()],
    })
    return [only]
  })
  const { index, log, pools } = all
  try {
    const state = only === undefined ? undefined : all.stateOf(only.number)
    if (flags.has('json')) say(JSON.stringify(jsonOf(all, state), null, 2))
    else if (only === undefined) sayFolder(all)
    else sayPool(pools[0]!, state)
    if (!isIndex(index)) warn(noIndexText(all, index))
    if (log.damage !== undefined) warn(log.damage.message)
    const unreadable = pools.flatMap(pool => pool.unreadable)
    for (const finding of unreadable) warn(findingText(finding))
    for (const text of pools.flatMap(pool => pool.notes)) note(`note: ${text}`)
    const isDamaged =
      log.damage !== undefined || unreadable.length > 0 || (!isIndex(index) && index.isDamaged)
    return isDamaged ? DAMAGED : CLEAN
  } finally {
    if (isIndex(index)) index.index.close()
  }
}

function noIndexText({ folder, pools }: Inspected, { why, isDamaged }: NoIndex): string {
  const segments = countText(pools.reduce((sum, pool) => sum + pool.segments, 0))
  const shown = `what is shown comes from the footers of ${segments} segments: which rows are live is not known`
  if (folder.isBackup) return `this is a backup, which has no index; ${shown}`
  const what = isDamaged ? `the index cannot be read: ${why}` : `the index is not built: ${why}`
  return `${what}; the next start builds it, or weir rebuild; ${shown}`
}

function sumDebt(pools: readonly PoolLook[]): Debt | null {
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

function sayFolder({ folder, memory, pools, log, index }: Inspected): void {
  say(folder.paths.root)
  say('')
  for (const line of poolTable(pools)) say(line)
  say('')
  for (const line of pairLines([
    ['compaction', debtText(sumDebt(pools))],
    ['log', logText(log)],
    ['index', indexText(index)],
    [
      'catalog',
      `${countText(memory.pools.byId.size)} pools, ${countText(memory.applications.byId.size)} applications, ${countText(memory.tombstones.size)} deleted pools`,
    ],
  ]))
    say(line)
}

function poolTable(pools: readonly PoolLook[]): string[] {
  const head = [
    'pool',
    'name',
    'rows',
    'stored',
    'marked',
    'segments',
    'small',
    'deletes',
    'bytes',
    'from',
    'to',
    'keeps',
  ]
  const rows = pools.map(pool => [
    pool.id,
    pool.name,
    pool.rowsLive ?? '-',
    pool.rowsStored,
    pool.rowsDeleted ?? '-',
    pool.segments,
    pool.debt?.smallSegments ?? '-',
    pool.deleteFiles,
    bytesText(pool.bytes),
    momentText(pool.timestampFromUs),
    momentText(pool.timestampToUs),
    keepsText(pool),
  ])
  return rows.length === 0 ? ['no pools'] : tableLines(head, rows)
}

/** One line a segment, in the order of their sequences. */
function sayPool(pool: PoolLook, state: PoolState | undefined): void {
  for (const line of pairLines([
    ['pool', `${pool.id} (${pool.name}), number ${pool.number}`],
    ['rows', rowsText(pool)],
    ['keys', pool.keys === null ? UNKNOWN : countText(pool.keys)],
    ['bytes', bytesText(pool.bytes)],
    ['compaction', debtText(pool.debt)],
    ['keeps', keepsText(pool)],
    ['flushed', pool.keys === null ? UNKNOWN : `up to sequence ${countText(state?.flushedSequence ?? 0)}`],
  ]))
    say(line)
  if (pool.footers.length > 0) sayFooters(pool.footers)
  const segments = [...(state?.segments ?? [])].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  if (segments.length === 0) return
  say('')
  const head = ['segment', 'rows', 'marked', 'deletes', 'bytes', 'plan', 'sequences', 'from', 'to', 'tenants']
  const rows = segments.map(one => [
    one.segment,
    one.rows,
    one.deletedRows,
    one.deletes,
    bytesText(one.bytes),
    one.schemaVersion,
    `${one.sequenceFrom}..${one.sequenceTo}`,
    momentText(one.timestampFromUs),
    momentText(one.timestampToUs),
    one.tenant === null ? '-' : `${one.tenant.min}..${one.tenant.max}`,
  ])
  for (const line of tableLines(head, rows)) say(line)
}

function sayFooters(footers: readonly Footer[]): void {
  say('')
  const head = ['segment', 'rows', 'deletes', 'plan', 'sequences']
  const rows = footers.map(({ segment, rows, deletes, schemaVersion, sequenceFrom, sequenceTo }) => [
    segment,
    rows,
    deletes,
    schemaVersion,
    `${sequenceFrom}..${sequenceTo}`,
  ])
  for (const line of tableLines(head, rows)) say(line)
}

function momentText(us: number | null): string {
  return us === null ? '-' : timeText(us)
}

function keepsText({ retentionDays }: PoolLook): string {
  return retentionDays === 0 ? 'for ever' : `${retentionDays} days`
}

const UNKNOWN = 'not known without an index'

function rowsText({ rowsLive, rowsStored, rowsDeleted }: PoolLook): string {
  const stored = `${countText(rowsStored)} stored`
  if (rowsLive === null || rowsDeleted === null) return `${stored}; how many of them are live is ${UNKNOWN}`
  return `${countText(rowsLive)} live; ${stored}, ${countText(rowsDeleted)} of them marked`
}

function debtText(debt: Debt | null): string {
  if (debt === null) return UNKNOWN
  const { smallSegments, rowsDeleted, bytesToMerge, quarantined } = debt
  const bad = quarantined === 0 ? '' : `, ${countText(quarantined)} segments that cannot be read`
  return `${countText(smallSegments)} small segments, ${countText(rowsDeleted)} marked rows, ${bytesText(bytesToMerge)} to merge${bad}`
}

function logText(log: LogLook): string {
  const { files, bytes, records, lastSequence, unflushedRequests, unflushedBytes, end } = log
  const stop = end === undefined ? 'damaged' : end.cleanStop ? 'stopped cleanly' : 'not stopped cleanly'
  return `${files} files, ${bytesText(bytes)}; ${countText(records)} records up to sequence ${countText(lastSequence)}; ${countText(unflushedRequests)} requests (${bytesText(unflushedBytes)}) not yet flushed; ${stop}`
}

function indexText(index: WholeIndex | NoIndex): string {
  if (!isIndex(index)) return `${index.isDamaged ? 'cannot be read' : 'not built'}: ${index.why}`
  const { bytes, bytesUsed, format, commit } = index
  const keys = keyCount(index)
  const each = keys === 0 ? '' : ` (${(bytesUsed / keys).toFixed(1)} bytes a key)`
  return `${bytesText(bytesUsed)} in a file of ${bytesText(bytes)}, ${countText(keys)} keys${each}; format ${format}, commit ${countText(commit)}`
}

function keyCount({ keys }: WholeIndex): number {
  return [...keys.values()].reduce((sum, count) => sum + count, 0)
}

function jsonOf({ folder, memory, pools, log, index }: Inspected, state: PoolState | undefined): unknown {
  const { damage, end, ...counts } = log
  const { format, commit, bytes, bytesUsed } = isIndex(index) ? index : ({} as Partial<WholeIndex>)
  return {
    folder: folder.paths.root,
    pools: pools.map(({ footers, ...pool }) => {
      const segmentList = state?.segments ?? (footers.length > 0 ? footers : undefined)
      return segmentList === undefined ? pool : { ...pool, segmentList }
    }),
    debt: sumDebt(pools),
    log: { ...counts, cleanStop: end?.cleanStop ?? false, damage: damage?.message ?? null },
    index: isIndex(index)
      ? { bytes, bytesUsed, keys: keyCount(index), format, commit }
      : { missing: index.why, isDamaged: index.isDamaged },
    catalog: {
      pools: memory.pools.byId.size,
      applications: memory.applications.byId.size,
      deletedPools: memory.tombstones.size,
    },
  }
}
