/** The metrics of the server: the front end's counters, and the depth and limit of every queue. */
import type { Api, ApiMeter } from '../api/api-types.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { JOB_KINDS, JOB_STATUSES } from '../catalog/documents/model.ts'
import type { Activity } from '../database/activity.ts'
import type { Metrics } from '../database/metrics.ts'
import type { QueryEngine } from '../query/plan/query-task.ts'
import {
  BATCHES_UNDER_WAY_MAX,
  JOBS_RUNNING_MAX,
  JOBS_UNFINISHED_MAX,
  METRIC_APPLICATIONS_MAX,
  PENALTY_RUNNING_MAX,
  QUERIES_WAITING_BYTES_MAX,
  QUERY_WAITING_BYTES_MIN,
  SLABS_MAX,
  WAITING_BYTES_MAX,
  WAITING_REQUESTS_MAX,
} from '../util/limits.ts'
import { linesLeftOut } from '../util/lines.ts'
import { memoryLimit, residentMemory, sharedReading } from './machine.ts'
import type { Server } from './start.ts'
import type { Queue } from './store.ts'

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

function queuesOf({ store, jobs }: Server, api: Api): Queue[] {
  const requests = api.stats()
  const tasks = store.parse.stats()
  const { engine } = store.reading
  const queries = engine.stats()
  const { running, waiting } = jobs.stats()
  return [
    ['connections', requests.connections, requests.connectionsMax],
    ['parse_tasks', tasks.running, tasks.max],
    ['batches', requests.tasksRunning, BATCHES_UNDER_WAY_MAX],
    ['slabs', requests.slabsInUse, SLABS_MAX],
    ['waiting_requests', requests.waitingRequests, WAITING_REQUESTS_MAX],
    ['waiting_bytes', requests.bufferedBytes, WAITING_BYTES_MAX],
    ...store.queues(),
    ['queries_running', queries.running, engine.runningMax + 1 + PENALTY_RUNNING_MAX],
    // Of two lanes. Those that take more memory are fewer.
    ['queries_waiting', queries.waiting, (2 * QUERIES_WAITING_BYTES_MAX) / QUERY_WAITING_BYTES_MIN],
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
  readonly startedAtMs: number
  readonly isReady: () => boolean
}

/** Registers all gauges. */
export function watchServer(server: Server, api: Api, watched: Watched): void {
  const { metrics, reading, opened } = server.store
  const { catalog } = opened
  watchProcess(metrics, watched)
  watchMemory(metrics)
  watchQueues(server, api)
  metrics.gauge(
    'weir_query_runs',
    'runs of questions since the start, of which equal questions share one',
    () => reading.runs?.begun ?? 0,
  )
  watchApplications(metrics, reading.engine, catalog)
  watchJobs(metrics, catalog)
}

function watchProcess({ gauge }: Metrics, { startedAtMs, isReady }: Watched): void {
  gauge('weir_ready', '1 while /readyz answers 200', () => (isReady() ? 1 : 0))
  const startedAt = startedAtMs / 1000
  gauge(
    'weir_lines_left_out',
    'lines since the start that standard output or standard error did not take',
    linesLeftOut,
    'output',
  )
  gauge('process_start_time_seconds', 'when the server started, in seconds since 1970', () => startedAt)
}

/** Memory. Where the system does not answer, the page lacks the values. */
function watchMemory({ gauge }: Metrics): void {
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

function watchQueues(server: Server, api: Api): void {
  const depths = () => queuesOf(server, api).map(([name, depth]) => [name, depth] as const)
  const limits = () => queuesOf(server, api).map(([name, , limit]) => [name, limit] as const)
  const { gauge } = server.store.metrics
  gauge('weir_queue_depth', 'entries or bytes in each queue', depths, 'queue')
  gauge('weir_queue_limit', 'limit of each queue', limits, 'queue')
  gauge(
    'weir_connections_refused',
    'connections closed as they opened since the start, because the limit was reached',
    () => api.stats().connectionsRefused,
  )
  gauge(
    'weir_connections_without_request',
    'connections closed since the start before the HTTP library had read a request of theirs',
    () => api.stats().connectionsUnheard,
  )
}
