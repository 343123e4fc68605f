/** What `weir inspect` gathers and prints. Reads only: what is in the log alone is counted as such, not replayed. */
import type { Memory } from '../catalog/memory.ts'
import type { Pool } from '../catalog/model.ts'
import { debtOf } from '../compact/choose.ts'
import type { Debt } from '../compact/protocol.ts'
import { cutoffUs } from '../compact/retention.ts'
import { CannotRun } from '../errors.ts'
import type { PoolState } from '../keys/protocol.ts'
import { wallMs } from '../util/clock.ts'
import { say, warn } from '../util/say.ts'
import { type LogLook, lookAtLog } from './log-look.ts'
import { type FolderLook, lookAtFolder, readCatalog, readIndex, sealedOf, type WholeIndex } from './look.ts'
import { CLEAN, type CommandInput, DAMAGED } from './protocol.ts'
import { bytesText, countText, pairLines, tableLines, timeText } from './table.ts'

/** A pool as it is sealed. */
interface PoolLook {
  readonly id: string
  readonly name: string
  readonly number: number
  /** Rows that a query sees, rows on disk, and those of them that were updated or deleted since. */
  readonly rowsLive: number
  readonly rowsStored: number
  readonly rowsMarked: number
  readonly segments: number
  readonly deleteFiles: number
  readonly bytes: number
  /** Of the primary timestamp, µs; null where there are no rows, or one is null. */
  readonly timestampFromUs: number | null
  readonly timestampToUs: number | null
  readonly retentionDays: number
  readonly keys: number
  readonly debt: Debt
}

/** The exit code: 1 where the log or the index cannot be read. */
export async function inspect({ config, positionals, flags }: CommandInput): Promise<number> {
  const folder = lookAtFolder(config)
  const memory = await readCatalog(folder)
  const [name] = positionals
  const only = name === undefined ? undefined : findPool(memory, name)
  const index = await tryIndex(folder, memory)
  try {
    const states = typeof index === 'string' ? [] : index.states
    const log = lookAtLog(folder.paths.log, sealedOf(memory, states))
    const pools = [...memory.pools.byId.values()]
      .filter(pool => only === undefined || pool === only)
      .map(pool => lookAtPool(pool, index))
    const isJson = flags.has('json')
    const state = only === undefined ? undefined : stateOf(index, only.number)
    if (isJson) say(JSON.stringify(jsonOf(folder, memory, pools, log, index, state), null, 2))
    else if (only === undefined) sayFolder(folder, memory, pools, log, index)
    else sayPool(pools[0]!, state)
    if (typeof index === 'string') warn(`the index does not count: ${index}; what it holds is not shown`)
    if (log.damage !== undefined) warn(log.damage.message)
    return log.damage !== undefined || typeof index === 'string' ? DAMAGED : CLEAN
  } finally {
    if (typeof index !== 'string') index.index.close()
  }
}

/** A text says why there is none to show. */
async function tryIndex(folder: FolderLook, memory: Memory): Promise<WholeIndex | string> {
  try {
    return await readIndex(folder, memory)
  } catch (error) {
    return (error as Error).message
  }
}

function findPool(memory: Memory, name: string): Pool {
  const pool = memory.pools.byId.get(name) ?? memory.pools.byName.get(name)
  if (pool === undefined) throw new CannotRun(`there is no pool "${name}"`)
  return pool
}

function stateOf(index: WholeIndex | string, pool: number): PoolState | undefined {
  return typeof index === 'string' ? undefined : index.states.find(state => state.pool === pool)
}

function lookAtPool(pool: Pool, index: WholeIndex | string): PoolLook {
  const segments = stateOf(index, pool.number)?.segments ?? []
  const sum = (of: (segment: (typeof segments)[number]) => number) =>
    segments.reduce((total, segment) => total + of(segment), 0)
  const rowsStored = sum(segment => segment.rows)
  const rowsMarked = sum(segment => segment.marked)
  const withRows = segments.filter(segment => segment.rows > 0)
  const expireBeforeUs = cutoffUs(pool.retentionDays, wallMs())
  return {
    id: pool.id,
    name: pool.uniqueName,
    number: pool.number,
    rowsLive: rowsStored - rowsMarked,
    rowsStored,
    rowsMarked,
    segments: segments.length,
    deleteFiles: segments.filter(segment => segment.deletes > 0).length,
    bytes: sum(segment => segment.bytes),
    timestampFromUs: least(withRows.map(segment => segment.timestampFromUs)),
    timestampToUs: most(withRows.map(segment => segment.timestampToUs)),
    retentionDays: pool.retentionDays,
    keys: typeof index === 'string' ? 0 : (index.keys.get(pool.number) ?? 0),
    debt: debtOf({ segments, isBarred: () => false, expireBeforeUs }, 0),
  }
}

function least(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>((a, b) => (a === null || (b !== null && b < a) ? b : a), null)
}

function most(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>((a, b) => (a === null || (b !== null && b > a) ? b : a), null)
}

function sumDebt(pools: readonly PoolLook[]): Debt {
  const sum = (of: (debt: Debt) => number) => pools.reduce((total, { debt }) => total + of(debt), 0)
  return {
    smallSegments: sum(debt => debt.smallSegments),
    markedRows: sum(debt => debt.markedRows),
    bytesToMerge: sum(debt => debt.bytesToMerge),
    quarantined: 0, // known to a running server only
  }
}

function sayFolder(
  folder: FolderLook,
  memory: Memory,
  pools: readonly PoolLook[],
  log: LogLook,
  index: WholeIndex | string,
): void {
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
    pool.rowsLive,
    pool.rowsStored,
    pool.rowsMarked,
    pool.segments,
    pool.debt.smallSegments,
    pool.deleteFiles,
    bytesText(pool.bytes),
    momentText(pool.timestampFromUs),
    momentText(pool.timestampToUs),
    pool.retentionDays === 0 ? 'for ever' : `${pool.retentionDays} days`,
  ])
  return rows.length === 0 ? ['no pools'] : tableLines(head, rows)
}

/** One line a segment, in the order of their sequences. */
function sayPool(pool: PoolLook, state: PoolState | undefined): void {
  const keeps = pool.retentionDays === 0 ? 'for ever' : `${pool.retentionDays} days`
  for (const line of pairLines([
    ['pool', `${pool.id} (${pool.name}), number ${pool.number}`],
    [
      'rows',
      `${countText(pool.rowsLive)} live; ${countText(pool.rowsStored)} stored, ${countText(pool.rowsMarked)} of them marked`,
    ],
    ['keys', countText(pool.keys)],
    ['bytes', bytesText(pool.bytes)],
    ['compaction', debtText(pool.debt)],
    ['keeps', keeps],
    ['sealed', `up to sequence ${countText(state?.sealedSequence ?? 0)}`],
  ]))
    say(line)
  const segments = [...(state?.segments ?? [])].sort((a, b) => a.sequenceFrom - b.sequenceFrom)
  if (segments.length === 0) return
  say('')
  const head = ['segment', 'rows', 'marked', 'deletes', 'bytes', 'plan', 'sequences', 'from', 'to', 'tenants']
  const rows = segments.map(one => [
    one.segment,
    one.rows,
    one.marked,
    one.deletes,
    bytesText(one.bytes),
    one.planVersion,
    `${one.sequenceFrom}..${one.sequenceTo}`,
    momentText(one.timestampFromUs),
    momentText(one.timestampToUs),
    one.tenant === null ? '-' : `${one.tenant.min}..${one.tenant.max}`,
  ])
  for (const line of tableLines(head, rows)) say(line)
}

function momentText(us: number | null): string {
  return us === null ? '-' : timeText(us)
}

function debtText({ smallSegments, markedRows, bytesToMerge }: Debt): string {
  return `${countText(smallSegments)} small segments, ${countText(markedRows)} marked rows, ${bytesText(bytesToMerge)} to merge`
}

function logText(log: LogLook): string {
  const { files, bytes, records, lastSequence, unsealedRequests, unsealedBytes, end } = log
  const stop = end === undefined ? 'damaged' : end.cleanStop ? 'stopped cleanly' : 'not stopped cleanly'
  return `${files} files, ${bytesText(bytes)}; ${countText(records)} records up to sequence ${countText(lastSequence)}; ${countText(unsealedRequests)} requests (${bytesText(unsealedBytes)}) not yet sealed; ${stop}`
}

function indexText(index: WholeIndex | string): string {
  if (typeof index === 'string') return index
  const { bytes, format, commit } = index
  const keys = keyCount(index)
  const each = keys === 0 ? '' : ` (${(bytes / keys).toFixed(1)} bytes a key)`
  return `${bytesText(bytes)}, ${countText(keys)} keys${each}; format ${format}, commit ${countText(commit)}`
}

function keyCount({ keys }: WholeIndex): number {
  return [...keys.values()].reduce((sum, count) => sum + count, 0)
}

function jsonOf(
  folder: FolderLook,
  memory: Memory,
  pools: readonly PoolLook[],
  log: LogLook,
  index: WholeIndex | string,
  state: PoolState | undefined,
): unknown {
  const { damage, end, ...counts } = log
  return {
    folder: folder.paths.root,
    pools: pools.map(pool => (state === undefined ? pool : { ...pool, segmentList: state.segments })),
    debt: sumDebt(pools),
    log: { ...counts, cleanStop: end?.cleanStop ?? false, damage: damage?.message ?? null },
    index:
      typeof index === 'string'
        ? { missing: index }
        : { bytes: index.bytes, keys: keyCount(index), format: index.format, commit: index.commit },
    catalog: {
      pools: memory.pools.byId.size,
      applications: memory.applications.byId.size,
      deletedPools: memory.tombstones.size,
    },
  }
}
