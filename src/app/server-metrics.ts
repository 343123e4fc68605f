/** The metrics of the server: the front end's counters, and the depth and limit of every queue. */
import type { Api, ApiMeter } from '../api/api-types.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { JOB_KINDS, JOB_STATUSES } from '../catalog/documents/model.ts'
import type { Activity } from '../database/activity.ts'
import type { Metrics } from '../database/metrics.ts'
import type { Pools } from '../database/pools.ts'
import type { QueryEngine } from '../query/plan/query-task.ts'
import type { Debt } from '../store/compaction/compaction-types.ts'
import {
  BATCHES_UNDER_WAY_MAX,
  FLUSHES_MAX,
  FLUSHES_SMALL,
  JOBS_RUNNING_MAX,
  JOBS_UNFINISHED_MAX,
  LOG_QUEUED_BYTES_MAX,
  MEMTABLE_BYTES_MAX,
  METRIC_APPLICATIONS_MAX,
  METRIC_DEBT_POOLS_MAX,
  PENALTY_RUNNING_MAX,
  QUERIES_RUNNING_MAX,
  QUERIES_WAITING_MAX,
  RECENT_FLUSH_BYTES_MAX,
  SLABS_MAX,
  WAITING_BYTES_MAX,
  WAITING_REQUESTS_MAX,
} from '../util/limits.ts'
import { diskSpace, memoryLimit, residentMemory, sharedReading } from './machine.ts'
import type { Server } from './server.ts'
import { flushLagMs } from './server-state.ts'

/** Running jobs with lines of their own about their progress: the oldest ones. */
const METRIC_JOBS_MAX = 20

/** The counters of the front end. Events are labelled with the unique name of their pool. */
export function createMeter(metrics: Metrics, activity: Activity, catalog: Catalog): ApiMeter {
  const name = (poolId: string) => catalog.pool(poolId)?.uniqueName ?? poolId
  return {
    request: status => metrics.request(status),
    bodyBytes: metrics.bytes,
    events(poolId, accepted, rejected) {
      if (accepted > 0) metrics.events(name(poolId), 'accepted', 'ok', accepted)
      let rejectedCount = 0
      for (const [code, count] of rejected) {
        metrics.events(name(poolId), 'rejected', code, count)
        rejectedCount += count
      }
      activity.add(poolId, accepted, rejectedCount)
    },
    refused: metrics.refused,
    signatureRefused: (poolId, code) => metrics.signatureRefused(name(poolId), code),
    rejectedRows: metrics.rejectedRows,
    poolName: name,
  }
}

type Queue = readonly [name: string, depth: number, limit: number]

function queuesOf({ parse, pools, commit, engine, jobs }: Server, api: Api): Queue[] {
  const requests = api.stats()
  const tasks = parse.stats()
  const store = pools.flusher.stats()
  const queries = engine.stats()
  const { running, waiting } = jobs.stats()
  return [
    ['connections', requests.connections, requests.connectionsMax],
    ['parse_tasks', tasks.running, tasks.max],
    ['batches', requests.tasksRunning, BATCHES_UNDER_WAY_MAX],
    ['slabs', requests.slabsInUse, SLABS_MAX],
    ['waiting_requests', requests.waitingRequests, WAITING_REQUESTS_MAX],
    ['waiting_bytes', requests.bufferedBytes, WAITING_BYTES_MAX],
    ['log_bytes', commit.stats().queuedBytes, LOG_QUEUED_BYTES_MAX],
    ['memtable_bytes', store.memtableBytes, MEMTABLE_BYTES_MAX],
    ['recent_flush_bytes', store.recentFlushBytes, RECENT_FLUSH_BYTES_MAX],
    ['flushes', store.flushesUnderWay, FLUSHES_MAX * FLUSHES_SMALL],
    ['queries_running', queries.running, QUERIES_RUNNING_MAX + PENALTY_RUNNING_MAX],
    ['queries_waiting', queries.waiting, 2 * QUERIES_WAITING_MAX], // of two lanes
    ['jobs_running', running, JOBS_RUNNING_MAX],
    ['jobs_waiting', waiting, JOBS_UNFINISHED_MAX],
  ]
}

/** The unique name of an application for a label. */
export function applicationName(catalog: Catalog, id: string): string {
  return catalog.application(id)?.uniqueName ?? id
}

/** The needs of the gauges besides the server. */
interface Watched {
  readonly dataDir: string
  readonly startedAtMs: number
  readonly isReady: () => boolean
}

/** Registers all gauges. */
export function watchServer(server: Server, api: Api, watched: Watched): void {
  const { metrics, engine, catalog } = server
  watchProcess(metrics, watched)
  watchMachine(metrics, watched.dataDir)
  watchQueues(server, api)
  watchApplications(metrics, engine, catalog)
  watchJobs(metrics, catalog)
}

function watchProcess({ gauge }: Metrics, { startedAtMs, isReady }: Watched): void {
  gauge('weir_ready', '1 while /readyz answers 200', () => (isReady() ? 1 : 0))
  const startedAt = startedAtMs / 1000
  gauge('process_start_time_seconds', 'when the server started, in seconds since 1970', () => startedAt)
}

/** Disk and memory. Where the system does not answer, the page lacks the values. */
function watchMachine({ gauge }: Metrics, dataDir: string): void {
  const space = sharedReading(() => diskSpace(dataDir))
  gauge('weir_disk_bytes', 'size of the disk of the data folder', async () => (await space())?.bytes)
  gauge(
    'weir_disk_free_bytes',
    'bytes of the disk of the data folder that Weir may still fill',
    async () => (await space())?.freeBytes,
  )
  gauge(
    'weir_memory_limit_bytes',
    'memory that Weir may use: the limit of its container or unit, or else the memory of the machine',
    memoryLimit,
  )
  gauge(
    'weir_resident_memory_bytes',
    'resident memory of the server and of its processes; the kernel takes that of kind file back when it needs memory',
    sharedReading(residentMemory),
    'process',
    'kind',
  )
}

/** Registers the gauges of the applications whose queries wait, or have a penalty. */
function watchApplications(metrics: Metrics, engine: QueryEngine, catalog: Catalog): void {
  metrics.gauge(
    'weir_application_queries_waiting',
    `queries of an application that wait for their turn; of the ${METRIC_APPLICATIONS_MAX} applications with the most`,
    () =>
      [...engine.waiting()]
        .sort((a, b) => b[1] - a[1])
        .slice(0, METRIC_APPLICATIONS_MAX)
        .map(([id, waiting]) => [applicationName(catalog, id), waiting] as const),
    'application',
  )
  metrics.gauge(
    'weir_application_penalty_seconds',
    'time for which the queries of an application still run in the penalty process',
    () =>
      engine
        .penalised()
        .slice(-METRIC_APPLICATIONS_MAX)
        .map(([id, ms]) => [applicationName(catalog, id), ms / 1000] as const),
    'application',
  )
}

/** Registers the gauges of the jobs in the catalog. */
function watchJobs(metrics: Metrics, { read }: Catalog): void {
  metrics.gauge(
    'weir_jobs',
    'jobs by kind and status; of those that have ended, the ones that are kept',
    () => {
      const counts = new Map<string, number>()
      for (const { kind, status } of read.jobs.all())
        counts.set(`${kind} ${status}`, (counts.get(`${kind} ${status}`) ?? 0) + 1)
      return Object.keys(JOB_KINDS).flatMap(kind =>
        JOB_STATUSES.map(status => [kind, status, counts.get(`${kind} ${status}`) ?? 0] as const),
      )
    },
    'kind',
    'status',
  )
  metrics.gauge(
    'weir_job_progress',
    `progress of jobs IN_PROGRESS, from 0 to 1; of the ${METRIC_JOBS_MAX} oldest`,
    () =>
      read.jobs
        .all()
        .filter(({ status }) => status === 'IN_PROGRESS')
        .slice(0, METRIC_JOBS_MAX)
        .map(
          ({ id, kind, poolId, progress }) =>
            [id, kind, read.pools.get(poolId)?.uniqueName ?? poolId, progress] as const,
        ),
    'job',
    'kind',
    'pool',
  )
}

/** Registers the gauges of the queues, of the log, of the memtables and of compaction. */
function watchQueues(server: Server, api: Api): void {
  const { metrics, pools, commit } = server
  const depths = () => queuesOf(server, api).map(([name, depth]) => [name, depth] as const)
  const limits = () => queuesOf(server, api).map(([name, , limit]) => [name, limit] as const)
  const { gauge } = metrics
  const log = () => commit.stats()
  const flusher = () => pools.flusher.stats()
  gauge('weir_queue_depth', 'entries or bytes in each queue', depths, 'queue')
  gauge('weir_queue_limit', 'limit of each queue', limits, 'queue')
  gauge(
    'weir_connections_refused',
    'connections closed as they opened since the start, because the limit was reached',
    () => api.stats().connectionsRefused,
  )
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
