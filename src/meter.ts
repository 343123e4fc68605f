/** What the front end counts, as metrics; and the depth of every queue beside its limit. */
import type { Api, ApiMeter } from './api/protocol.ts'
import type { CatalogService } from './catalog/protocol.ts'
import type { Commit } from './commit/protocol.ts'
import type { Debt } from './compact/protocol.ts'
import {
  JOBS_UNDER_WAY_MAX,
  KEPT_BYTES_MAX,
  LOG_QUEUED_BYTES_MAX,
  METRIC_DEBT_POOLS_MAX,
  QUERIES_RUNNING_MAX,
  QUERIES_WAITING_MAX,
  SEALS_MAX,
  SEALS_SMALL,
  SLABS_MAX,
  TAIL_BYTES_MAX,
  WAITING_BYTES_MAX,
  WAITING_REQUESTS_MAX,
} from './limits.ts'
import type { Metrics } from './metrics.ts'
import type { Pools } from './pools.ts'
import type { QueryEngine } from './query/protocol.ts'

/** The front end's counters. Events are labelled with their pool's unique name. */
export function createMeter(metrics: Metrics, catalog: CatalogService): ApiMeter {
  const name = (poolId: string) => catalog.pool(poolId)?.uniqueName ?? poolId
  return {
    request: (_route, status) => metrics.request(status),
    bodyBytes: metrics.bytes,
    events(poolId, accepted, rejected) {
      if (accepted > 0) metrics.events(name(poolId), 'accepted', 'ok', accepted)
      for (const [code, count] of rejected) metrics.events(name(poolId), 'rejected', code, count)
    },
    refused: metrics.refused,
    job: () => {},
  }
}

interface Watched {
  readonly parse: { stats(): { readonly running: number; readonly max: number } }
  readonly pools: Pools
  readonly commit: Commit
  readonly engine: QueryEngine
}

/** Registers a gauge for each queue and one for each limit. */
export function watchQueues(metrics: Metrics, { parse, pools, commit, engine }: Watched, api: Api): void {
  metrics.gauge(
    'weir_queue_depth',
    'what stands in each queue',
    () => [
      ['parse_jobs', parse.stats().running],
      ['jobs', api.stats().jobsRunning],
      ['slabs', api.stats().slabsInUse],
      ['waiting_requests', api.stats().waitingRequests],
      ['waiting_bytes', api.stats().heldBytes],
      ['log_bytes', commit.stats().queuedBytes],
      ['tail_bytes', pools.stats().tailBytes],
      ['kept_bytes', pools.stats().keptBytes],
      ['seals', pools.stats().sealsUnderWay],
      ['queries_running', engine.stats().running],
      ['queries_waiting', engine.stats().waiting],
    ],
    'queue',
  )
  metrics.gauge(
    'weir_queue_limit',
    'the most that may stand in each queue',
    () => [
      ['parse_jobs', parse.stats().max],
      ['jobs', JOBS_UNDER_WAY_MAX],
      ['slabs', SLABS_MAX],
      ['waiting_requests', WAITING_REQUESTS_MAX],
      ['waiting_bytes', WAITING_BYTES_MAX],
      ['log_bytes', LOG_QUEUED_BYTES_MAX],
      ['tail_bytes', TAIL_BYTES_MAX],
      ['kept_bytes', KEPT_BYTES_MAX],
      ['seals', SEALS_MAX * SEALS_SMALL],
      ['queries_running', QUERIES_RUNNING_MAX],
      ['queries_waiting', QUERIES_WAITING_MAX],
    ],
    'queue',
  )
  metrics.gauge('weir_log_files', 'log files in use', () => commit.stats().files)
  metrics.gauge(
    'weir_log_sequence',
    'the last sequence that was handed out',
    () => commit.stats().lastSequence,
  )
  metrics.gauge('weir_log_open', '1 while the log takes writes', () =>
    commit.stats().state === 'open' ? 1 : 0,
  )
  metrics.gauge('weir_segments', 'live segments', () => pools.segmentCount())
  watchCompaction(metrics, pools)
  metrics.gauge('weir_tail_rows', 'rows and deletes not yet sealed', () => pools.stats().tailRows)
  metrics.gauge('weir_pools_unsealed', 'pools with rows in the tail', () => pools.stats().poolsUnsealed)
  metrics.gauge('weir_pools_failing', 'pools whose last seal failed', () => pools.stats().poolsFailing)
}

/** What waits to be compacted: in sum, and of the pools with the most. */
function watchCompaction(metrics: Metrics, pools: Pools): void {
  const gauge = (what: string, help: string, reading: () => number) =>
    metrics.gauge(`weir_compaction_${what}`, help, reading)
  const debt = () => pools.compaction.stats().debt
  gauge('small_segments', 'segments that a merge would join to larger ones', () => debt().smallSegments)
  gauge('marked_rows', 'rows that are not visible and still on disk', () => debt().markedRows)
  gauge('bytes_to_merge', 'bytes of all segments that a merge would rewrite', () => debt().bytesToMerge)
  gauge(
    'quarantined_segments',
    'segments that could not be read; merges leave them alone',
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
  byPool('quarantined_segments', 'segments of a pool that merges leave alone', one => one.quarantined)
  gauge('pools_waiting', 'pools that have something to merge', () => pools.compaction.stats().poolsWaiting)
  gauge('running', '1 while a merge runs', () => (pools.compaction.stats().isMerging ? 1 : 0))
}
