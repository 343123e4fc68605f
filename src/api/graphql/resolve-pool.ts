/**
 * Resolvers of data pools. An application that may query a pool may read its columns. Its data
 * source and its webhook URL need `admin`.
 */
import { createPool, deletePool, modifyPool, type NewPool } from '../../catalog/change/change-pool.ts'
import type { Pool } from '../../catalog/documents/model.ts'
import { rejectedPool } from '../../catalog/rejected-pool.ts'
import { RECEIVED_AT } from '../../format/schema.ts'
import { change, find, found, lookups, poolNamed, removing } from './changes.ts'
import { type Context, requireScope } from './context.ts'
import { parserOf } from './filters.ts'
import { badRequest } from './graphql-errors.ts'
import { emptyPage, type PageArgs, pageByIndex, pageOfDocuments } from './list-page.ts'
import type { ShownColumn } from './parents.ts'
import { columnNamed, columnsOf, findShownColumn, keyColumnsOf, visibleColumns } from './pool-columns.ts'
import { pageOfJobs } from './resolve-job.ts'
import { shownActivity } from './resolve-server.ts'
import type { Enums, Inputs, Resolvers } from './schema-types.ts'
import { MANAGE_POLICIES, MANAGE_SOURCES, READ_METRICS } from './scopes.ts'
import { shownTableSettings } from './source-settings.ts'

const BYTES_PER_TERABYTE = 1e12

const pools = lookups('Data Pool', read => read.pools)

export const poolQueries = {
  dataPool: pools.byId,
  dataPoolByName: pools.byName,
  rejectedEventsDataPool: (_, __, { deps }) => found(rejectedPool(deps.catalog.read), 'Data Pool'),
  dataPools: pools.page,
} satisfies Partial<Resolvers['Query']>

const NOT_SYNCED = 'Weir does not sync a Data Pool with a Data Source: events are posted to its webhook.'

export const poolMutations = {
  createDataPoolV2: async (_, { input }, context) => ({
    dataPool: await change(context, by => createPool(newPool(input), by), 'Data Source'),
  }),
  modifyDataPool: async (_, { input }, context) => {
    const { idOrUniqueName, ...asked } = input
    return response(await change(context, by => modifyPool(idOrUniqueName, asked, by), 'Data Pool'))
  },
  // A pool is LIVE when its creation is answered: there is nothing to wait for.
  reconnectDataPool: (_, { input }, { deps }) => find(deps.catalog.read.pools, input, 'Data Pool'),
  retryDataPoolSetup: pools.byId,
  retryDataPoolSetupByName: pools.byName,
  inspectDataPoolSchema: (_, { input }, { deps }) =>
    response(find(deps.catalog.read.pools, input, 'Data Pool')),
  testDataPool: (_, { input }, { deps }) => response(find(deps.catalog.read.pools, input, 'Data Pool')),
  enableSyncing: (_, { id }, context) => notSynced(id, context),
  disableSyncing: pools.byId,
  syncDataPool: (_, { dataPoolId }, context) => notSynced(dataPoolId, context),
  resyncDataPool: (_, { dataPoolId }, context) => notSynced(dataPoolId, context),
  deleteDataPool: removing(deletePool),
  deleteDataPoolByName: removing(deletePool),
} satisfies Partial<Resolvers['Mutation']>

function notSynced(id: string, context: Context): never {
  poolNamed(id, context)
  throw badRequest(NOT_SYNCED)
}

type PoolFields = Omit<Resolvers['DataPool'], 'account' | 'environment'>

export const poolFields: PoolFields = {
  dataSource: (pool, _, context) => {
    requireScope(context, ...MANAGE_SOURCES)
    return found(context.deps.catalog.read.sources.get(pool.dataSourceId), 'Data Source')
  },
  webhookUrl: (pool, _, context) => {
    requireScope(context, ...MANAGE_SOURCES)
    const webhookId = context.deps.catalog.read.webhookIdOf(pool)
    return webhookId === undefined ? null : context.deps.webhookUrl(webhookId)
  },
  // A job shows a deleted one.
  status: ({ id }, _, { deps }) => (deps.catalog.read.pools.get(id) === undefined ? 'DELETING' : 'LIVE'),
  error: () => null,
  dataRetentionInDays: pool => pool.retentionDays,
  isBuiltIn: pool => pool.builtIn !== undefined,
  // A webhook source's pool has a timestamp in any case; clients read it without asking.
  timestamp: (pool, _, context) =>
    typed(pool, pool.timestamp ?? (pool.webhookId === null ? RECEIVED_AT : null), context),
  tenant: (pool, _, context) => typed(pool, pool.tenant, context),
  uniqueId: (pool, _, context) => typed(pool, pool.uniqueIdColumn, context),
  recordCount: async (pool, _, context) =>
    mayKnowSize(pool, context) ? String((await context.deps.sizeOf(pool)).rows) : null,
  sizeInTerabytes: async (pool, _, context) =>
    mayKnowSize(pool, context) ? (await context.deps.sizeOf(pool)).bytes / BYTES_PER_TERABYTE : null,
  activity: (pool, _, context) =>
    mayKnowSize(pool, context) ? shownActivity(context.deps.activity.of(pool.id)) : null,
  columns: (pool, args, context) => pageOfColumns(visible(pool, columnsOf(pool).all, context), args, context),
  availableMeasures: (pool, args, context) =>
    pageOfColumns(visible(pool, columnsOf(pool).measures, context), args, context),
  setupTasks: (pool, _, context) => [
    {
      name: 'Webhook',
      description: setupOf(pool, context),
      status: 'SUCCEEDED',
      error: null,
      completedAt: pool.createdAt,
    },
  ],
  // Nothing is synced. Terraform plans a change for ever where the interval is not shown again.
  syncing: ({ syncInterval }) => ({
    status: 'DISABLED',
    interval: (syncInterval ?? null) as Enums['DataPoolSyncInterval'] | null,
    lastSyncedAt: null,
  }),
  syncs: (_, args) => emptyPage(args),
  metrics: (pool, args, context) => {
    requireScope(context, ...READ_METRICS)
    const { metrics } = context.deps.catalog.read
    return pageOfDocuments(metrics, metrics.of(pool.id), args, context)
  },
  deletionJobs: (pool, args, context) => pageOfJobs(pool, 'DELETE_RECORDS', args, context),
  addColumnToDataPoolJobs: (pool, args, context) => pageOfJobs(pool, 'ADD_COLUMN', args, context),
  updateDataPoolRecordsJobs: (pool, args, context) => pageOfJobs(pool, 'UPDATE_RECORDS', args, context),
  dataPoolAccessPolicies: (pool, args, context) => {
    requireScope(context, ...MANAGE_POLICIES)
    const { policies } = context.deps.catalog.read
    return pageOfDocuments(policies, policies.of(pool.id), args, context)
  },
  validateExpression: async (pool, { expression }, context) => {
    const { deps, budget } = context
    budget.query({ expression })
    const schema = deps.catalog.read.currentSchema(pool)
    const visible = visibleColumns(pool, context)
    const view = visible === undefined ? schema : { ...schema, visible }
    const refused = await deps.query.checkMetricExpression(view, expression, parserOf(context))
    return { valid: refused === undefined, reason: refused?.badRequest ?? null }
  },
  // Its texts may name any column.
  tableSettings: (pool, _, context) =>
    shownTableSettings(visibleColumns(pool, context) === undefined ? pool.tableSettings : null),
  partitionByColumns: (pool, _, context) =>
    visible(pool, columnsAmong(pool, pool.tableSettings?.partitionBy ?? []), context),
  primaryKeyColumns: (pool, _, context) => {
    const given = pool.tableSettings?.primaryKey
    return visible(pool, given ? columnsAmong(pool, given) : keyColumnsOf(pool), context)
  },
  // The given columns are the key, except in a pool of MergeTree, which has none.
  orderByColumns: (pool, _, context) => {
    const given = pool.tableSettings?.orderBy ?? []
    return visible(pool, given.length > 0 ? columnsAmong(pool, given) : keyColumnsOf(pool), context)
  },
}

/**
 * The number of rows and bytes of a pool with access control tells of rows that a reader may not
 * see.
 */
function mayKnowSize({ accessControlEnabled }: Pool, { caller }: Context): boolean {
  return !accessControlEnabled || caller.scopes.has('admin')
}

/** What stands in the way of a pool's events: credentials, or nothing. */
function setupOf(pool: Pool, { deps }: Context): string {
  const source = deps.catalog.read.sources.get(pool.dataSourceId)
  if (source?.kind !== 'INTERNAL') return 'The Data Pool takes events.'
  return 'The Data Pool takes events without credentials: for a webhook with credentials, create a source with createHttpDataSource and a Data Pool of it.'
}

function response(dataPool: Pool) {
  return { __typename: 'DataPoolResponse' as const, dataPool }
}

function newPool({
  columns,
  timestamp,
  tenant,
  uniqueId,
  ...input
}: Inputs['CreateDataPoolInputV2']): NewPool {
  return {
    ...input,
    columns: columns?.map(({ columnName, isNullable, type, clickHouseType }) => ({
      name: columnName,
      type,
      clickHouseType,
      nullable: isNullable,
    })),
    timestamp: timestamp?.columnName,
    tenant: tenant?.columnName,
    uniqueId: uniqueId?.columnName,
  }
}

/** A column as other fields name it; null where it does not exist for the caller. */
function typed(pool: Pool, name: string | null, context: Context) {
  if (name === null || visibleColumns(pool, context)?.has(name) === false) return null
  return { columnName: name, type: columnNamed(pool, name).storedType }
}

function visible(pool: Pool, columns: readonly ShownColumn[], context: Context): readonly ShownColumn[] {
  const names = visibleColumns(pool, context)
  return names === undefined ? columns : columns.filter(({ name }) => names.has(name))
}

function columnsAmong(pool: Pool, texts: readonly string[]): ShownColumn[] {
  return texts.flatMap(text => findShownColumn(pool, text) ?? [])
}

function pageOfColumns(columns: readonly ShownColumn[], args: PageArgs, { budget }: Context) {
  budget.items(columns.length)
  return pageByIndex(columns, args)
}
