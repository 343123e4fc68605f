/**
 * Compaction, wired: the scheduler with flusher, manifest, index, segment thread and catalog.
 *
 *   W-5  Compaction starts after the sweep (`sweepThenCompact`).
 *   W-6  Where files of earlier runs had to stay, a rebuild would still read them: `leaveAlone`,
 *        `keepObsolete`.
 */
import { basename, dirname } from 'node:path'
import type { Catalog } from '../catalog/catalog.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import type { Manifest } from '../index/manifest.ts'
import type { Commit } from '../log/commit-log.ts'
import type { SegmentChecks } from '../store/check/segment-checks.ts'
import type { CompactPool, ServerLoad } from '../store/compaction/compaction-types.ts'
import { Scheduler } from '../store/compaction/scheduler.ts'
import type { Flusher } from '../store/flush/flusher.ts'
import type { SegmentThread } from '../store/flush/segment-writer.ts'
import { must } from '../util/assert.ts'
import { callAfter, monotonicMs, wallMs } from '../util/clock.ts'
import { warn } from '../util/say.ts'
import type { Pools, PoolsOptions } from './pools.ts'

const DAY_MS = 86_400_000

interface CompactionWiring extends PoolsOptions {
  readonly manifest: Manifest
  readonly flusher: Flusher
  readonly writer: SegmentThread
  readonly checks: SegmentChecks
  /** Makes a living pool known to the flusher. */
  readonly makeKnown: (pool: number) => void
  readonly folderOf: (pool: number) => string
  /** True for a damaged pool: compaction does not touch it. */
  readonly isLeftAlone: (pool: number) => boolean
  /** Monotonic ms of the last append. */
  readonly lastAppendMs: () => number
  /** undefined while the log is not open. */
  readonly commit: () => Commit | undefined
}

/** The scheduler of all pools. `Scheduler.start` begins its work. */
export function wireCompaction(wiring: CompactionWiring): Scheduler {
  const { config, catalog, index, manifest, flusher, writer, merger, metrics } = wiring
  return new Scheduler({
    merger,
    clock: {
      nowMs: monotonicMs,
      wallMs: () => wallMs() + config.retentionDaysAhead * DAY_MS,
      after: callAfter,
    },
    tickMs: config.compactTickMs,
    livePools: () => manifest.pools().filter(pool => catalog.poolByNumber(pool) !== undefined),
    pool: pool => (wiring.isLeftAlone(pool) ? undefined : compactPool(wiring, pool)),
    segments: pool => manifest.pool(pool)?.segments ?? [],
    obsolete: pool => manifest.uncovered(pool),
    replaceableSegments: pool => flusher.replaceableSegments(pool),
    forgetRecentFlushes: pool => flusher.forgetRecent(pool),
    takeSegmentNumber: pool => {
      wiring.makeKnown(pool)
      return flusher.takeSegmentNumber(pool)
    },
    pin: async pool => {
      const { all, release } = await manifest.snapshot(pool)
      return { segments: all, release }
    },
    commit: commit => index.index.commitCompaction(commit),
    apply: (commit, committed) => {
      if (commit.add !== undefined) wiring.checks.setWhole(commit.add)
      manifest.applyCompaction(commit, committed)
    },
    unlink: (folder, segments) => writer.unlink(folder, segments),
    load: () => loadOf(wiring),
    onMerged: figures => metrics.merge(figures),
    onFailed: () => metrics.mergeFailed(),
    onDamaged: error => {
      const damaged = manifest.files().find(({ file }) => file === error.file)
      if (damaged !== undefined) wiring.checks.setDamaged(damaged.meta, error)
    },
    onFatal: wiring.onFatal,
    warn,
  })
}

/**
 * The pool's retention days changed: one retention pass begins now, and another one after a flush
 * of the rows that are acknowledged by now. Where the flush fails, which the flusher reports, the
 * pass of the next full hour removes them.
 */
export function retentionChanged(pools: Pools, pool: number): void {
  pools.compaction.retentionChanged(pool)
  pools.flushNow(pool).then(
    () => pools.compaction.retentionChanged(pool),
    () => undefined,
  )
}

function compactPool({ catalog, folderOf }: CompactionWiring, number: number): CompactPool | undefined {
  const pool = catalog.poolByNumber(number)
  if (pool === undefined) return undefined
  return {
    poolId: pool.id,
    folder: folderOf(number),
    retentionDays: pool.retentionDays,
    schema: version => must(catalog.schema(number, version), 'the schema of a segment'),
  }
}

function loadOf({ flusher, lastAppendMs, commit }: CompactionWiring): ServerLoad {
  const { flushingBytes, flushesAreSlow, poolsFailing } = flusher.stats()
  return {
    ingestAgoMs: monotonicMs() - lastAppendMs(),
    // Memtables that are not old enough for a flush do not count: thousands of pools hold as much
    // all the time.
    flushingBytes,
    flushesAreSlow,
    isRefusing: poolsFailing > 0 || commit()?.stats().state !== 'open',
  }
}

/**
 * Runs when the server is ready: removes the entries of deleted pools from the index, then files
 * that no segment list names, then starts compaction.
 */
export async function sweepThenCompact(
  catalog: Catalog,
  { opened, index }: OpenedIndex,
  pools: Pools,
): Promise<void> {
  try {
    for (const { pool } of opened.pools)
      if (catalog.poolByNumber(pool) === undefined) await index.dropPool(pool)
    const swept = await index.sweep(new Map(catalog.pools().map(pool => [pool.id, pool.number])))
    const removed = swept.removed.length
    if (removed > 0)
      warn(`removed ${removed === 1 ? '1 file' : `${removed} files`} that no segment list names`)
    for (const file of swept.missing)
      warn(`segment ${file} is missing: queries that need it answer SEGMENT_DAMAGED`)
    leaveDamagedAlone(catalog, pools, swept.keptOrphans)
    for (const pool of swept.poolsWithOrphans) keepObsolete(catalog, pools, pool)
    pools.compaction.start()
  } catch (error) {
    if (pools.compaction.isStopping()) return // the next start sweeps again
    pools.compaction.neverStarts()
    // An unnamed file may replace segments that are still there, so no merge may run beside it.
    const { message } = error as Error
    warn(
      `the sweep of old files failed; compaction, retention and jobs pause until the next start: ${message}`,
    )
  }
}

/**
 * A rebuild took other files instead of these. Merges go on, but a segment that a merge makes
 * obsolete may be the one that replaces such a file, and a delete may apply to that file's rows.
 */
function keepObsolete(catalog: Catalog, pools: Pools, pool: number): void {
  pools.manifest.keepUncovered(pool)
  const id = catalog.poolByNumber(pool)?.id ?? String(pool)
  warn(
    `the folder of pool ${id} holds files that no segment list names; until the next start compaction keeps all deletes and all obsolete files of this pool`,
  )
}

/** Unnamed files beside missing ones: nothing is removed in these pools, and nothing is merged. */
function leaveDamagedAlone(catalog: Catalog, pools: Pools, files: readonly string[]): void {
  for (const file of files)
    warn(`${file} is named by no segment list; it stays, because other files of its pool are missing`)
  for (const id of new Set(files.map(file => basename(dirname(file))))) {
    const pool = catalog.pool(id)
    if (pool === undefined) continue
    pools.leaveAlone(pool.number)
    warn(`pool ${id} is not compacted: stop Weir and run "weir repair"`)
  }
}
