/**
 * When compaction begins after a start, and what it leaves alone.
 *
 *   W-5  Compaction starts after the sweep (`sweepThenCompact`).
 *   W-6  A rebuild would still read files of earlier runs that had to stay, so compaction leaves
 *        their pool alone (`leaveDamagedAlone`) or keeps its obsolete files (`keepObsolete`).
 */
import { basename, dirname } from 'node:path'
import type { Catalog } from '../catalog/catalog.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import { fail, inform, warn } from '../util/say.ts'
import type { Pools } from './pools.ts'

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
      inform(`removed ${removed === 1 ? '1 file' : `${removed} files`} that no segment list names`)
    for (const file of swept.missing)
      fail(`segment ${file} is missing: queries that need it answer SEGMENT_DAMAGED`)
    leaveDamagedAlone(catalog, pools, swept.keptOrphans)
    for (const pool of swept.poolsWithOrphans) keepObsolete(catalog, pools, pool)
    pools.compaction.start()
  } catch (error) {
    if (pools.compaction.isStopping()) return // the next start sweeps again
    pools.compaction.neverStarts()
    // An unnamed file may replace segments that are still there, so no merge may run beside it.
    const { message } = error as Error
    fail(
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
    fail(`pool ${id} is not compacted: stop Weir and run "weir repair"`)
  }
}
