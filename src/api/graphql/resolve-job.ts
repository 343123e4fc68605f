/**
 * Resolvers of jobs. Lists leave out the jobs of deleted pools. Such a job is found by its id: the
 * client that waits for it sees that it FAILED.
 */
import { createAddColumnJob } from '../../catalog/change/change-add-column.ts'
import { cancelJob } from '../../catalog/change/change-job.ts'
import { createReplayJob } from '../../catalog/change/change-replay.ts'
import { createRewriteJob, setProblem } from '../../catalog/change/change-rewrite.ts'
import type { AddColumnJob, Job, Pool, ReplayJob, RewriteJob } from '../../catalog/documents/model.ts'
import { rejectedPool } from '../../catalog/rejected-pool.ts'
import { isGivenText } from '../../query/plan/plan-context.ts'
import type { Filter } from '../../query/plan/where.ts'
import { change, found, poolNamed } from './changes.ts'
import { type Context, requireScope } from './context.ts'
import { parserOf, shownFilters, storedFilters } from './filters.ts'
import { badRequest, notFound } from './graphql-errors.ts'
import { pageOfDocuments } from './list-page.ts'
import type { Inputs, Resolvers } from './schema-types.ts'
import { MANAGE_JOBS } from './scopes.ts'

type OfKind<Kind extends Job['kind']> = Extract<Job, { kind: Kind }>

function jobsOfKind<Kind extends Job['kind']>(jobs: readonly Job[], kind: Kind): readonly OfKind<Kind>[] {
  return jobs.filter((job): job is OfKind<Kind> => job.kind === kind)
}

function jobOfKind<Kind extends Job['kind']>({ deps }: Context, id: string, kind: Kind, name: JobName) {
  const job = deps.catalog.read.jobs.get(id)
  return found(job === undefined ? undefined : jobsOfKind([job], kind)[0], name)
}

type JobName =
  | 'Add Column To Data Pool Job'
  | 'Deletion Job'
  | 'Replay Rejected Events Job'
  | 'Update Data Pool Records Job'

function pageInStatus<Kind extends Job['kind']>(
  kind: Kind,
  { status, ...args }: Parameters<typeof pageOfDocuments>[2] & { readonly status: Job['status'] },
  context: Context,
) {
  const { jobs, pools } = context.deps.catalog.read
  context.budget.items(jobs.size)
  const inStatus = jobsOfKind(jobs.all(), kind).filter(
    job => job.status === status && pools.get(job.poolId) !== undefined,
  )
  return pageOfDocuments(jobs, inStatus, args, context)
}

export function pageOfJobs<Kind extends Job['kind']>(
  pool: Pool,
  kind: Kind,
  args: Parameters<typeof pageOfDocuments>[2],
  context: Context,
) {
  requireScope(context, ...MANAGE_JOBS)
  const { jobs } = context.deps.catalog.read
  return pageOfDocuments(jobs, jobsOfKind(jobs.of(pool.id), kind), args, context)
}

export const jobQueries = {
  addColumnToDataPoolJob: (_, { id }, context) =>
    jobOfKind(context, id, 'ADD_COLUMN', 'Add Column To Data Pool Job'),
  addColumnToDataPoolJobByStatus: (_, args, context) => pageInStatus('ADD_COLUMN', args, context),
  deletionJob: (_, { id }, context) => jobOfKind(context, id, 'DELETE_RECORDS', 'Deletion Job'),
  replayRejectedEventsJob: (_, { id }, context) =>
    jobOfKind(context, id, 'REPLAY_REJECTED', 'Replay Rejected Events Job'),
  updateDataPoolRecordsJob: (_, { id }, context) =>
    jobOfKind(context, id, 'UPDATE_RECORDS', 'Update Data Pool Records Job'),
  updateDataPoolRecordsJobByStatus: (_, args, context) => pageInStatus('UPDATE_RECORDS', args, context),
} satisfies Partial<Resolvers['Query']>

/** Creates a deletion. Without a condition it would delete every record, so it is refused. */
async function createDeletion(
  input: Inputs['CreateDeletionJobInput'],
  context: Context,
): Promise<{ readonly job: RewriteJob }> {
  if ((input.filters ?? []).length === 0 && !isGivenText(input.filterSql))
    throw badRequest(
      'A deletion needs "filters" or "filterSql". To delete every record, say so: filterSql: "true".',
    )
  return { job: await createRewrite('DELETE_RECORDS', { ...input, set: [] }, context) }
}

/** The boundary comes before the job: a record posted after the answer has a higher sequence. */
async function createRewrite(
  kind: RewriteJob['kind'],
  { dataPool, filters, filterSql, set }: Inputs['CreateUpdateDataPoolRecordsJobInput'],
  context: Context,
): Promise<RewriteJob> {
  const { deps, budget } = context
  const pool = poolNamed(dataPool, context)
  const given = { filters: storedFilters(filters) ?? [], filterSql: filterSql ?? null, set }
  budget.query(given)
  // Before the values: a value that such a column cannot take is not why it is refused.
  const unfit = kind === 'UPDATE_RECORDS' ? setProblem(pool, set) : undefined
  if (unfit !== undefined) throw badRequest(unfit)
  const changes = { ...given, filters: given.filters as readonly Filter[] }
  const schema = deps.catalog.read.currentSchema(pool)
  const refused = await deps.query.checkRowChanges(schema, changes, parserOf(context))
  if (refused !== undefined) throw badRequest(refused.badRequest)
  const beforeSequence = await deps.boundary()
  const asked = { ...given, kind, dataPool: pool.id, beforeSequence }
  const job = await change(context, by => createRewriteJob(asked, by), 'Data Pool')
  deps.jobs.created(job)
  return job
}

/** The filters are checked as those of a question about the pool of rejected events. */
async function createReplay(
  { dataPool, rejectedBy, filters, filterSql }: Inputs['CreateReplayRejectedEventsJobInput'],
  context: Context,
): Promise<ReplayJob> {
  const { deps, budget } = context
  const pool = poolNamed(dataPool, context)
  const by = rejectedBy ? (deps.catalog.read.pools.find(rejectedBy)?.id ?? rejectedBy) : pool.id
  const given = { rejectedBy: by, filters: storedFilters(filters) ?? [], filterSql: filterSql ?? null }
  budget.query(given)
  const rejected = found(rejectedPool(deps.catalog.read), 'Data Pool')
  const schema = deps.catalog.read.currentSchema(rejected)
  const rows = { filters: given.filters as readonly Filter[], filterSql: given.filterSql, set: [] }
  const refused = await deps.query.checkRowChanges(schema, rows, parserOf(context))
  if (refused !== undefined) throw badRequest(refused.badRequest)
  const asked = { ...given, dataPool: pool.id }
  const job = await change(context, caller => createReplayJob(asked, caller), 'Data Pool')
  deps.jobs.created(job)
  return job
}

export const jobMutations = {
  createAddColumnToDataPoolJob: async (_, { input }, context) => {
    const dataPool = poolNamed(input.dataPool, context).id
    const job = await change(context, by => createAddColumnJob({ ...input, dataPool }, by), 'Data Pool')
    context.deps.jobs.created(job)
    return { job }
  },
  createDeletionJob: (_, { input }, context) => createDeletion(input, context),
  requestDelete: (_, { input }, context) => createDeletion(input, context),
  createUpdateDataPoolRecordsJob: async (_, { input }, context) => ({
    job: await createRewrite('UPDATE_RECORDS', input, context),
  }),
  createReplayRejectedEventsJob: async (_, { input }, context) => ({
    job: await createReplay(input, context),
  }),
  cancelJob: async (_, { id }, context) => {
    const job = await change(context, by => cancelJob(id, by), 'Job')
    return { id: job.id, status: job.status, error: jobFields.error(job) }
  },
} satisfies Partial<Resolvers['Mutation']>

/** A deleted pool, of which a job knows the id alone. Clients poll `dataPool { id }`. */
function deletedPool(id: string): Pool {
  return new Proxy({ id } as Pool, {
    get: (_, name) => {
      if (name === 'id') return id
      if (name === 'then') return undefined // no promise, to whoever asks
      throw notFound('Data Pool')
    },
  })
}

const jobFields = {
  dataPool: ({ poolId }: Job, _: unknown, { deps }: Context) =>
    deps.catalog.read.pools.get(poolId) ?? deletedPool(poolId),
  error: ({ error }: Job) => (error === null ? null : { code: null, message: error }),
}

export const addColumnJobFields: Omit<Resolvers['AddColumnToDataPoolJob'], 'account' | 'environment'> = {
  ...jobFields,
  columnName: ({ input }: AddColumnJob) => input.columnName,
  columnType: ({ input }) => input.columnType as 'CLICKHOUSE',
  columnClickHouseType: ({ input }) => input.columnClickHouseType,
  jsonProperty: ({ input }) => input.jsonProperty,
}

export const replayJobFields: Omit<Resolvers['ReplayRejectedEventsJob'], 'account' | 'environment'> = {
  ...jobFields,
  filters: ({ input }) => shownFilters(input.filters),
  filterSql: ({ input }) => input.filterSql,
  rejectedBy: ({ input }) => input.rejectedBy,
  total: ({ done }) => done.total,
  accepted: ({ done }) => done.accepted,
  refused: ({ done }) => done.refused,
  truncated: ({ done }) => done.truncated,
  firstRefusal: ({ done }) => done.firstRefusal?.message ?? null,
}

export const deletionJobFields: Omit<Resolvers['DeletionJob'], 'account' | 'environment'> = {
  ...jobFields,
  filters: ({ input }) => shownFilters(input.filters),
  filterSql: ({ input }) => input.filterSql,
}

export const updateJobFields: Omit<Resolvers['UpdateDataPoolRecordsJob'], 'account' | 'environment'> = {
  ...deletionJobFields,
  set: ({ input }) => input.set,
}
