/**
 * What `weir jobs` asks of a catalog (manage.ts).
 *
 * A list comes in pages, the newest first, so that no answer is large. In a page, as in the whole
 * list, the newest job is the last.
 */
import type { Catalog } from '../catalog/catalog.ts'
import { cancelJob } from '../catalog/change/change-job.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import type { Memory } from '../catalog/documents/memory.ts'
import { JOB_STATUSES, type Job, type JobStatus } from '../catalog/documents/model.ts'
import { AUDIT_ID_CHARACTERS_MAX, JOBS_LISTED_MAX } from '../util/limits.ts'
import { type Managed, strayField } from './manage.ts'
import { unknownPool } from './text-tables.ts'

export type JobsRequest = ListRequest | CancelRequest

/** Asks for the newest jobs that match, at most JOBS_LISTED_MAX. */
export interface ListRequest {
  readonly action: 'list'
  /**
   * Id or unique name; the id of a deleted pool that still has jobs. An empty text asks for all.
   */
  readonly pool: string
  /** An empty list stands for all. */
  readonly status: readonly JobStatus[]
  /** Ids of jobs, at most JOBS_LISTED_MAX. An empty list asks for all. */
  readonly jobs: readonly string[]
  /** `before` of the page that comes after this one; "" for the newest. */
  readonly before: string
}

interface CancelRequest {
  readonly action: 'cancel'
  readonly job: string
}

/** A job as the command prints it. */
export interface ShownJob {
  readonly id: string
  readonly kind: string
  readonly poolId: string
  /** The pool's unique name; null where the pool was deleted. */
  readonly pool: string | null
  readonly status: JobStatus
  /** 0 to 1. */
  readonly progress: number
  /** The job was cancelled, and has not ended. */
  readonly isCancelled: boolean
  readonly error: string | null
  readonly createdAt: string
  readonly createdBy: string
  readonly startedAt: string | null
  readonly endedAt: string | null
}

export interface JobsPage {
  /** The newest is the last. */
  readonly jobs: readonly ShownJob[]
  /** The `before` of a request for the next, older page; null where this page is the oldest. */
  readonly before: string | null
}

const FIELDS: Readonly<Record<JobsRequest['action'], readonly string[]>> = {
  list: ['action', 'pool', 'status', 'jobs', 'before'],
  cancel: ['action', 'job'],
}

function readJobs(given: unknown): JobsRequest | BadRequest {
  const read = (typeof given === 'object' ? given : null) as Record<string, unknown> | null
  const action = read?.['action']
  if (read === null || (action !== 'list' && action !== 'cancel'))
    return { badRequest: '"action" must be list or cancel.' }
  const stray = strayField(read, FIELDS[action])
  if (stray !== undefined) return stray
  return action === 'list' ? readList(read) : readCancel(read)
}

function readList({
  pool = '',
  status = [],
  jobs = [],
  before = '',
}: Record<string, unknown>): ListRequest | BadRequest {
  if (typeof pool !== 'string' || typeof before !== 'string')
    return { badRequest: '"pool" and "before" must be texts.' }
  if (!isListOfTexts(status) || !isListOfTexts(jobs))
    return { badRequest: '"status" and "jobs" must be lists of texts.' }
  const unknown = status.find(one => !JOB_STATUSES.includes(one as JobStatus))
  if (unknown !== undefined)
    return {
      badRequest: `There is no status ${JSON.stringify(unknown)}; there are ${JOB_STATUSES.join(', ')}.`,
    }
  if (jobs.length > JOBS_LISTED_MAX)
    return { badRequest: `"jobs" has ${jobs.length} ids; ${JOBS_LISTED_MAX} are the limit.` }
  return { action: 'list', pool, status: status as readonly JobStatus[], jobs, before }
}

function readCancel({ job }: Record<string, unknown>): CancelRequest | BadRequest {
  if (typeof job !== 'string' || job === '') return { badRequest: '"job" must be the id of a job.' }
  return { action: 'cancel', job }
}

function isListOfTexts(given: unknown): given is readonly string[] {
  return Array.isArray(given) && given.every(one => typeof one === 'string')
}

/** Where pools are listed: `weir inspect` cannot open the folder of a running server. */
const LISTS = 'the GraphQL query dataPools lists them, weir inspect where no server runs'

type Documents = Pick<Memory, 'jobs' | 'pools'>

/** One page of the jobs that a request asks for. */
export function listJobs(memory: Documents, request: ListRequest): JobsPage | BadRequest {
  const { jobs, pools } = memory
  const { pool: name, before } = request
  const poolId = name === '' ? '' : poolIdOf(memory, name)
  if (poolId === undefined) return { badRequest: unknownPool(name, pools.all(), LISTS) }
  const ids = new Set(request.jobs)
  const statuses = new Set(request.status)
  const matches = (job: Job) =>
    (before === '' || jobs.positionOf(job) < before) &&
    (ids.size === 0 || ids.has(job.id)) &&
    (statuses.size === 0 || statuses.has(job.status))
  const all = poolId === '' ? jobs.all() : jobs.of(poolId)
  const page: ShownJob[] = []
  let oldest = ''
  for (let at = all.length - 1; at >= 0; at--) {
    const job = all[at]!
    if (!matches(job)) continue
    if (page.length === JOBS_LISTED_MAX) return { jobs: page.reverse(), before: oldest }
    page.push(shown(memory, job))
    oldest = jobs.positionOf(job)
  }
  return { jobs: page.reverse(), before: null }
}

/** A deleted pool is known by the jobs that it had. */
function poolIdOf({ jobs, pools }: Documents, name: string): string | undefined {
  const pool = pools.find(name)
  return pool?.id ?? (jobs.of(name).length > 0 ? name : undefined)
}

/** Cancels a job: one that waits has ended, and a running one ends after its current step. */
async function cancel(catalog: Catalog, id: string, by: string): Promise<ShownJob | BadRequest> {
  const job = await catalog.change(cancelJob(id, by))
  if (job === null) return { badRequest: `There is no job ${JSON.stringify(id)}.` }
  return 'badRequest' in job ? job : shown(catalog.read, job)
}

export const JOBS: Managed<JobsRequest, JobsPage | ShownJob> = {
  path: '/v1/admin/jobs',
  scope: 'admin',
  read: readJobs,
  attemptOf: request =>
    request.action === 'list'
      ? undefined
      : { mutation: 'cancelJob', object: request.job.slice(0, AUDIT_ID_CHARACTERS_MAX) },
  run: async (catalog, request, by) =>
    request.action === 'list' ? listJobs(catalog.read, request) : cancel(catalog, request.job, by),
  idOf: answer => ('id' in answer ? answer.id : undefined),
}

function shown({ pools }: Pick<Memory, 'pools'>, job: Job): ShownJob {
  const { id, kind, poolId, status, progress, error, createdAt, createdBy, startedAt } = job
  return {
    id,
    kind,
    poolId,
    pool: pools.get(poolId)?.uniqueName ?? null,
    status,
    progress,
    isCancelled: status === 'IN_PROGRESS' && 'isCancelled' in job && job.isCancelled,
    error,
    createdAt,
    createdBy,
    startedAt,
    endedAt: job.succeededAt ?? job.failedAt,
  }
}
