/**
 * Compaction, joined: what the scheduler asks of sealer, manifest, index, segment thread and catalog.
 *
 * W-5: it begins after the sweep (`sweepThenCompact`). W-6: where files of earlier runs had to stay, a rebuild would still read them:
 * `keepAsItIs`, `staleText`.
 */
import { basename, dirname } from 'node:path'
import type { Catalog } from './catalog/catalog.ts'
import type { CatalogService } from './catalog/protocol.ts'
import type { Commit } from './commit/protocol.ts'
import type { Merger } from './compact/protocol.ts'
import { Scheduler } from './compact/scheduler.ts'
import type { CompactPool, Load } from './compact/scheduler-calls.ts'
import type { Config } from './config.ts'
import type { OpenedIndex } from './keys/index-client.ts'
import type { Manifest } from './keys/manifest.ts'
import type { Metrics } from './metrics.ts'
import type { Pools } from './pools.ts'
import type { Sealer } from './segment/sealer.ts'
import type { SegmentWriterClient } from './segment/writer-client.ts'
import { must } from './util/assert.ts'
import { monotonicMs, wallMs } from './util/clock.ts'
import { warn } from './util/say.ts'

const DAY_MS = 86_400_000

interface CompactionJoin {
  readonly config: Config
  readonly catalog: CatalogService
  readonly index: OpenedIndex
  readonly manifest: Manifest
  readonly sealer: Sealer
  readonly writer: SegmentWriterClient
  readonly merger: Merger
  readonly metrics: Metrics
  /** Makes a living pool known to the sealer. */
  readonly makeKnown: (pool: number) => void
  readonly folderOf: (pool: number) => string
  /** Nothing is merged in such a pool: it is damaged. */
  readonly isLeftAlone: (pool: number) => boolean
  /** Monotonic ms of the last append. */
  readonly lastAppendMs: () => number
  /** undefined while the log is not open. */
  readonly commit: () => Commit | undefined
  readonly onFault: (error: Error) => void
}

/** The scheduler of all pools; it begins with `start`. */
export function joinCompaction(join: CompactionJoin): Scheduler {
  const { config, catalog, index, manifest, sealer, writer, merger, metrics } = join
  return new Scheduler({
    merger,
    clock: {
      nowMs: monotonicMs,
      wallMs: () => wallMs() + config.retentionDaysAhead * DAY_MS,
      after: (ms, call) => {
        const timer = setTimeout(call, ms)
        return () => clearTimeout(timer)
      },
    },
    tickMs: config.compactTickMs,
    livePools: () => manifest.pools().filter(pool => catalog.poolByNumber(pool) !== undefined),
    pool: pool => (join.isLeftAlone(pool) ? undefined : compactPool(join, pool)),
    segments: pool => manifest.pool(pool)?.segments ?? [],
    emptied: pool => manifest.emptied(pool),
    held: pool => sealer.heldSegments(pool),
    forgetKept: pool => sealer.forgetKept(pool),
    takeSegmentNumber: pool => {
      join.makeKnown(pool)
      return sealer.takeSegmentNumber(pool)
    },
    pin: async pool => {
      const { all, release } = await manifest.snapshot(pool)
      return { segments: all, release }
    },
    swap: swap => index.index.swap(swap),
    apply: (swap, committed) => manifest.applySwap(swap, committed),
    unlink: (folder, segments) => writer.unlink(folder, segments),
    load: () => loadOf(join),
    onMerged: figures => metrics.merge(figures),
    onFailed: () => metrics.mergeFailed(),
    onFatal: join.onFault,
    warn,
  })
}

/**
 * The pool keeps its rows for another number of days: a pass begins, and another one with the rows that were acknowledged
 * by now and not sealed yet. Where they cannot be sealed, which the sealer says, they go at the next full hour.
 */
export function retentionChanged(pools: Pools, pool: number): void {
  pools.compaction.retentionChanged(pool)
  pools.sealNow(pool).then(
    () => pools.compaction.retentionChanged(pool),
    () => undefined,
  )
}

function compactPool({ catalog, folderOf }: CompactionJoin, number: number): CompactPool | undefined {
  const pool = catalog.poolByNumber(number)
  if (pool === undefined) return undefined
  return {
    poolId: pool.id,
    folder: folderOf(number),
    retentionDays: pool.retentionDays,
    plan: version => must(catalog.plan(number, version), 'the plan of a segment'),
  }
}

function loadOf({ sealer, lastAppendMs, commit }: CompactionJoin): Load {
  const { sealingBytes, sealsAreSlow, poolsFailing } = sealer.stats()
  return {
    ingestAgoMs: monotonicMs() - lastAppendMs(),
    // Not what waits in the tails for its age: thousands of pools hold as much all the time.
    tailBytes: sealingBytes,
    sealsAreSlow,
    isRefusing: poolsFailing > 0 || commit()?.stats().state !== 'open',
  }
}

/** After ready: what deleted pools left in the index, then files that nothing names, then compaction. */
export async function sweepThenCompact(
  catalog: Catalog,
  { opened, index }: OpenedIndex,
  pools: Pools,
): Promise<void> {
  try {
    for (const { pool } of opened.pools)
      if (catalog.poolByNumber(pool) === undefined) await index.dropPool(pool)
    const swept = await index.sweep(new Map(catalog.pools().map(pool => [pool.id, pool.number])))
    if (swept.removed.length > 0) warn(`removed ${swept.removed.length} files that no segment list names`)
    for (const file of swept.missing) warn(`segment ${file} is missing: queries that need it will say so`)
    keepAsItIs(catalog, pools, swept.kept)
    for (const pool of swept.stale) {
      pools.keepEmptied(pool)
      warn(staleText(catalog.poolByNumber(pool)?.id ?? String(pool)))
    }
    pools.compaction.start()
  } catch (error) {
    if (pools.compaction.isStopping()) return // the next start sweeps again
    // A file that nothing names may stand for segments that are still there: nothing may be merged beside it.
    warn(
      `the sweep of old files failed, compaction and retention rest until the next start: ${(error as Error).message}`,
    )
  }
}

/**
 * After a rebuild: files of which it took others for the truth. Merges go on, but what they empty may be what stands for such a
 * file, and a delete may be for its rows.
 */
function staleText(poolId: string): string {
  return `files that no segment list names stay in the folder of pool ${poolId}: until the next start compaction keeps all deletes and the files of what it empties`
}

/** Pools with files that nothing names beside named ones that are missing: nothing is removed there, and nothing merged. */
function keepAsItIs(catalog: Catalog, pools: Pools, kept: readonly string[]): void {
  for (const file of kept)
    warn(`${file} is named by no segment list; it stays, since other files of its pool are missing`)
  for (const id of new Set(kept.map(file => basename(dirname(file))))) {
    const pool = catalog.pool(id)
    if (pool === undefined) continue
    pools.leaveAlone(pool.number)
    warn(`pool ${id} is not compacted until weir repair has looked at it`)
  }
}
