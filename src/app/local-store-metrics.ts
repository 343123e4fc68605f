/** The gauges of a data folder: log, memtables, segments, compaction and the disk. */
import type { Metrics } from '../database/metrics.ts'
import type { Pools } from '../database/pools.ts'
import type { Commit } from '../log/commit-log.ts'
import type { KeptOfQuestions } from '../query/ask.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import { monotonicMs } from '../util/clock.ts'
import { METRIC_DEBT_POOLS_MAX } from '../util/limits.ts'
import { diskSpace, sharedReading } from './machine.ts'

/** Registers them. */
export function watchLocalStore(metrics: Metrics, pools: Pools, commit: Commit, dataDir: string): void {
  const { gauge } = metrics
  const log = () => commit.stats()
  const flusher = () => pools.flusher.stats()
  watchDisk(metrics, dataDir)
  gauge('weir_log_files', 'log files in use', () => log().files)
  gauge('weir_log_sequence', 'the last sequence that a request got', () => log().lastSequence)
  gauge('weir_log_open', '1 while the log takes writes', () => (log().state === 'open' ? 1 : 0))
  gauge('weir_segments', 'live segments', () => pools.segmentCount())
  watchChecks(metrics, pools)
  watchCompaction(metrics, pools)
  gauge('weir_memtable_rows', 'rows and deletes not yet flushed', () => flusher().memtableRows)
  gauge(
    'weir_flush_lag_seconds',
    'age of the oldest row or delete that is not yet flushed',
    () => flushLagMs(flusher().oldestMs) / 1000,
  )
  gauge('weir_pools_unflushed', 'pools with rows in the memtable', () => flusher().poolsUnflushed)
  gauge(
    'weir_pools_failing',
    'pools whose last flush failed; /readyz answers 503 until a flush of each succeeds',
    () => flusher().poolsFailing,
  )
}

/** The age of the oldest row that is not flushed; 0 without any. */
export function flushLagMs(oldestMs: number | undefined): number {
  return oldestMs === undefined ? 0 : Math.max(0, monotonicMs() - oldestMs)
}

/** The answers and partial groups that are kept. Without a cache all are 0. */
export function watchAnswers({ gauge }: Metrics, { answers, repeated }: KeptOfQuestions): void {
  const partials = () => repeated?.stats() ?? { bytes: 0, segments: 0 }
  gauge(
    'weir_kept_partials_bytes',
    'estimated memory of the partial groups that are kept',
    () => partials().bytes,
  )
  gauge(
    'weir_kept_partials_segments',
    'segments since the start that a question needed not read, because its partial groups were kept',
    () => partials().segments,
  )
  const stats = () => answers?.stats() ?? { bytes: 0, hits: 0, misses: 0 }
  gauge('weir_answer_cache_bytes', 'estimated memory of the answers that are kept', () => stats().bytes)
  gauge('weir_answer_cache_hits', 'questions since the start that a kept answer answered', () => stats().hits)
  gauge(
    'weir_answer_cache_misses',
    'questions since the start for which no kept answer was true',
    () => stats().misses,
  )
}

/** The disk. Where the system does not answer, the page lacks the values. */
function watchDisk({ gauge }: Metrics, dataDir: string): void {
  const space = sharedReading(() => diskSpace(dataDir))
  gauge('weir_disk_bytes', 'size of the disk of the data folder', async () => (await space())?.bytes)
  gauge(
    'weir_disk_free_bytes',
    'bytes of the disk of the data folder that Weir may still fill',
    async () => (await space())?.freeBytes,
  )
}

/** What is known of the files of segments, and how far the scrub is. */
function watchChecks({ gauge }: Metrics, pools: Pools): void {
  gauge(
    'weir_segments_unchecked',
    'live segments that were not compared with their checksum since the start',
    () => pools.uncheckedCount(),
  )
  gauge(
    'weir_damaged_files',
    'files of segments that were found damaged since the start',
    () => pools.damagedFiles,
  )
  const scrub = () => pools.scrub.stats()
  gauge('weir_scrub_progress', 'part of the present scrub that is done, from 0 to 1', () => scrub().progress)
  gauge('weir_scrub_bytes', 'bytes that the scrub has read since the start', () => scrub().bytes)
  gauge('weir_scrub_passes', 'scrubs that were complete since the start', () => scrub().passes)
}

/** The compaction debt: the sum, and the pools with the most. */
function watchCompaction(metrics: Metrics, pools: Pools): void {
  const gauge = (what: string, help: string, reading: () => number) =>
    metrics.gauge(`weir_compaction_${what}`, help, reading)
  const debt = () => pools.compaction.stats().debt
  gauge('small_segments', 'segments that a merge would combine into larger ones', () => debt().smallSegments)
  gauge('deleted_rows', 'superseded and deleted rows that are still on disk', () => debt().rowsDeleted)
  gauge('bytes_to_merge', 'bytes of all segments that a merge would rewrite', () => debt().bytesToMerge)
  gauge(
    'quarantined_segments',
    'segments that could not be read; no merge takes them',
    () => debt().quarantined,
  )
  const byPool = (what: string, help: string, reading: (debt: Debt) => number) =>
    metrics.gauge(
      `weir_compaction_pool_${what}`,
      `${help}; of the ${METRIC_DEBT_POOLS_MAX} pools with the most debt`,
      () =>
        pools
          .worstDebts()
          .map(([name, one]) => [name, reading(one)] as const)
          .filter(([, count]) => count > 0),
      'pool',
    )
  byPool('bytes_to_merge', 'bytes of a pool that a merge would rewrite', one => one.bytesToMerge)
  byPool('quarantined_segments', 'segments of a pool that no merge takes', one => one.quarantined)
  gauge('pools_waiting', 'pools with segments to merge', () => pools.compaction.stats().poolsWaiting)
  gauge('running', '1 while a merge runs', () => (pools.compaction.stats().isMerging ? 1 : 0))
}
