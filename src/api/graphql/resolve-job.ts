/** Resolvers of jobs. */
import { createAddColumnJob } from '../../catalog/change-job.ts'
import { change, found } from './changes.ts'
import { badRequest, notFound } from './errors.ts'
import { emptyPage, pageOfDocuments } from './page.ts'
import type { Resolvers } from './schema-types.ts'

export const jobQueries = {
  addColumnToDataPoolJob: (_, { id }, { deps }) =>
    found(deps.catalog.read.jobs.get(id), 'Add Column To Data Pool Job'),
  addColumnToDataPoolJobByStatus: (_, { status, ...args }, context) => {
    const { jobs, pools } = context.deps.catalog.read
    context.budget.items(jobs.size)
    // A job of a deleted pool has no `dataPool` to show. It is found by its id.
    const inStatus = jobs.all().filter(job => job.status === status && pools.get(job.poolId) !== undefined)
    return pageOfDocuments(jobs, inStatus, args, context)
  },
  deletionJob: () => {
    throw notFound('Deletion Job')
  },
  updateDataPoolRecordsJob: () => {
    throw notFound('Update Data Pool Records Job')
  },
  updateDataPoolRecordsJobByStatus: (_, { status: __, ...args }) => emptyPage(args),
} satisfies Partial<Resolvers['Query']>

/** A refusal in place of a job. The pool is looked up first, as the job would. */
const refusing =
  (
    what: string,
  ): Resolvers['Mutation']['createDeletionJob'] & Resolvers['Mutation']['createUpdateDataPoolRecordsJob'] =>
  (_, { input }, { deps }) => {
    found(deps.catalog.read.pools.get(input.dataPool), 'Data Pool')
    throw badRequest(`This version of Weir does not ${what}.`)
  }

export const jobMutations = {
  createAddColumnToDataPoolJob: async (_, { input }, context) => {
    const decide = createAddColumnJob(input, context.caller.applicationId)
    const job = await change(context, decide, 'Data Pool')
    context.deps.jobs.created(job)
    return { job }
  },
  createDeletionJob: refusing('delete records by a job: send DELETE to the webhook'),
  requestDelete: refusing('delete records by a job: send DELETE to the webhook'),
  createUpdateDataPoolRecordsJob: refusing('update records by a job: post the records again'),
} satisfies Partial<Resolvers['Mutation']>

export const jobFields: Omit<Resolvers['AddColumnToDataPoolJob'], 'account' | 'environment'> = {
  columnName: ({ input }) => input.columnName,
  columnType: ({ input }) => input.columnType as 'CLICKHOUSE',
  columnClickHouseType: ({ input }) => input.columnClickHouseType,
  jsonProperty: ({ input }) => input.jsonProperty,
  dataPool: ({ poolId }, _, { deps }) => found(deps.catalog.read.pools.get(poolId), 'Data Pool'),
  error: ({ error }) => (error === null ? null : { code: null, message: error }),
}
