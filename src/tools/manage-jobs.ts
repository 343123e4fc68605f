/**
 * What `weir jobs` asks of a catalog (manage.ts).
 *
 * A list comes in pages, the newest first, so that no answer is large. In a page, as in the whole
 * list, the newest job is the last.
 */
import { MANAGE_JOBS } from '../api/openapi/admin-requests.ts'
import { readRequest, type ValueOf } from '../api/openapi/schema.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { cancelJob } from '../catalog/change/change-job.ts'
import type { BadRequest } from '../catalog/documents/catalog-types.ts'
import type { Memory } from '../catalog/documents/memory.ts'
import type { Job } from '../catalog/documents/model.ts'
import { AUDIT_ID_CHARACTERS_MAX, JOBS_LISTED_MAX } from '../util/limits.ts'
import type { Managed } from './manage.ts'
import { unknownPool } from './text-tables.ts'

type JobsRequest = ValueOf<typeof MANAGE_JOBS.request>
type ListGiven = Extract<JobsRequest, { readonly action: 'list' }>
export type ListRequest = Required<ListGiven>
type JobsAnswer = ValueOf<typeof MANAGE_JOBS.answer>
export type JobsPage = Extract<JobsAnswer, { readonly jobs: unknown }>
export type ShownJob = JobsPage['jobs'][number]

/** Where pools are listed: `weir inspect` cannot open the folder of a running server. */
const LISTS = 'the GraphQL query dataPools lists them, weir inspect where no server runs'

type Documents = Pick<Memory, 'jobs' | 'pools'>

/** One page of the jobs that a request asks for. */
export function listJobs(memory: Documents, request: ListGiven): JobsPage | BadRequest {
  const { jobs, pools } = memory
  const { pool: name = '', before = '' } = request
  const poolId = name === '' ? '' : poolIdOf(memory, name)
  if (poolId === undefined) return { badRequest: unknownPool(name, pools.all(), LISTS) }
  const ids = new Set(request.jobs ?? [])
  const statuses = new Set(request.status ?? [])
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

function problemOf(request: JobsRequest): string | undefined {
  if (request.action === 'cancel') return request.job === '' ? '"job" must be the id of a job.' : undefined
  const count = request.jobs?.length ?? 0
  return count > JOBS_LISTED_MAX ? `"jobs" has ${count} ids; ${JOBS_LISTED_MAX} are the limit.` : undefined
}

/** Cancels a job: one that waits has ended, and a running one ends after its current step. */
async function cancel(catalog: Catalog, id: string, by: string): Promise<ShownJob | BadRequest> {
  const job = await catalog.change(cancelJob(id, by))
  if (job === null) return { badRequest: `There is no job ${JSON.stringify(id)}.` }
  return 'badRequest' in job ? job : shown(catalog.read, job)
}

export const JOBS: Managed<JobsRequest, JobsAnswer> = {
  ...MANAGE_JOBS,
  read: given => readRequest(MANAGE_JOBS.request, given, problemOf),
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
