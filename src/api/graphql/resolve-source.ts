/** Resolvers of data sources and their tables. Credentials are shown: all of it needs `admin`. */
import type { IdOrName } from '../../catalog/catalog-types.ts'
import type { Decide } from '../../catalog/change.ts'
import {
  createSource,
  createWebhookSource,
  deleteSource,
  modifySource,
  type NewSource,
  type SourceChange,
} from '../../catalog/change-source.ts'
import type { DataSource, SourceKind } from '../../catalog/model.ts'
import { type ForeignKind, isForeign } from '../../catalog/source-kinds.ts'
import { change, find, found, remove } from './changes.ts'
import type { Context } from './context.ts'
import { badRequest, notFound } from './errors.ts'
import { emptyPage, numberPosition, pageOf, pageOfDocuments } from './page.ts'
import type { Inputs, Resolvers } from './schema-types.ts'
import { settingsOf } from './source-settings.ts'

/** Connection settings that are never shown. Weir has no use for them and does not store them. */
const UNSTORED: Readonly<Record<ForeignKind, string | null>> = {
  Snowflake: 'password',
  S3: 'awsSecretAccessKey',
  KAFKA: null,
  CLICKHOUSE: null,
  POSTGRESQL: 'password',
}

type CreateArgs = { readonly input: NewForeign }
type ModifyArgs = { readonly input: ForeignChange }

/** The part that the inputs of all foreign kinds have in common. */
interface NewForeign {
  readonly uniqueName?: string | null | undefined
  readonly description?: string | null | undefined
  readonly connectionSettings: object
}
interface ForeignChange extends Omit<NewForeign, 'connectionSettings'> {
  readonly idOrUniqueName: IdOrName
  readonly connectionSettings?: object | null | undefined
}

export const sourceQueries = {
  dataSource: (_, { id }, { deps }) => found(deps.catalog.read.sources.find(id), 'Data Source'),
  dataSourceByName: (_, { uniqueName }, { deps }) =>
    found(deps.catalog.read.sources.byName(uniqueName), 'Data Source'),
  dataSources: (_, args, context) => {
    const { sources } = context.deps.catalog.read
    return pageOfDocuments(sources, sources.all(), args, context)
  },
  table: (_, { id }, { deps, budget }) => {
    for (const source of deps.catalog.read.sources.all()) {
      budget.items(1 + source.tables.length)
      const table = source.tables.find(each => each.id === id)
      if (table !== undefined) return { source, table }
    }
    throw notFound('Table')
  },
} satisfies Partial<Resolvers['Query']>

export const sourceMutations = {
  createWebhookDataSource: async (_, { input }, context) => {
    const { connectionSettings, uniqueName, description } = input
    const asked = { ...connectionSettings, uniqueName, description }
    const made = await change(
      context,
      createWebhookSource(asked, context.caller.applicationId),
      'Data Source',
    )
    return { dataSource: made.source }
  },
  modifyWebhookDataSource: async (_, { input }, context) => {
    const { idOrUniqueName, uniqueName, description, connectionSettings } = input
    return modify(context, 'WEBHOOK', idOrUniqueName, { ...connectionSettings, uniqueName, description })
  },
  createHttpDataSource: (_, { input }, context) => {
    const { connectionSettings, uniqueName, description } = input
    return create(context, 'Http', { ...connectionSettings, uniqueName, description })
  },
  modifyHttpDataSource: (_, { input }, context) => {
    const { idOrUniqueName, uniqueName, description, connectionSettings } = input
    return modify(context, 'Http', idOrUniqueName, { ...connectionSettings, uniqueName, description })
  },
  createSnowflakeDataSource: async (_, args, context) => ({
    __typename: 'DataSourceResponse' as const,
    ...(await createForeign('Snowflake', args, context)),
  }),
  modifySnowflakeDataSource: async (_, args, context) => ({
    __typename: 'DataSourceResponse' as const,
    ...(await modifyForeign('Snowflake', args, context)),
  }),
  createS3DataSource: (_, args, context) => createForeign('S3', args, context),
  modifyS3DataSource: (_, args, context) => modifyForeign('S3', args, context),
  createKafkaDataSource: (_, args, context) => createForeign('KAFKA', args, context),
  modifyKafkaDataSource: (_, args, context) => modifyForeign('KAFKA', args, context),
  createClickHouseDataSource: (_, args, context) => createForeign('CLICKHOUSE', args, context),
  modifyClickHouseDataSource: (_, args, context) => modifyForeign('CLICKHOUSE', args, context),
  createPostgreSqlDataSource: (_, args, context) => createForeign('POSTGRESQL', args, context),
  modifyPostgreSqlDataSource: (_, args, context) => modifyForeign('POSTGRESQL', args, context),
  reconnectDataSource: (_, { input }, { deps }) => find(deps.catalog.read.sources, input, 'Data Source'),
  testDataSource: (_, { input }, { deps }) => {
    const source = find(deps.catalog.read.sources, input, 'Data Source')
    return source.status === 'BROKEN'
      ? { __typename: 'FailureResponse' as const, error: { code: null, message: source.error ?? '' } }
      : { __typename: 'DataSourceResponse' as const, dataSource: source }
  },
  introspectTables: (_, { input }, { deps }) => {
    const { kind } = find(deps.catalog.read.sources, input, 'Data Source')
    throw badRequest(`A Data Source of type ${kind} has no tables that Weir could read.`)
  },
  deleteDataSource: (_, { id }, context) => remove(context, { id }, deleteSource),
  deleteDataSourceByName: (_, { uniqueName }, context) => remove(context, { uniqueName }, deleteSource),
} satisfies Partial<Resolvers['Mutation']>

export const sourceFields: Omit<Resolvers['DataSource'], 'account' | 'environment'> = {
  type: ({ kind }) => kind,
  error: ({ error }) => (error === null ? null : { code: null, message: error }),
  connectionSettings: (source, _, { deps }) => settingsOf(source, deps),
  tables: (source, args, { budget }) => {
    budget.items(source.tables.length)
    const page = pageOf(
      source.tables.map(table => ({ source, table })),
      args,
      (_, index) => numberPosition(index),
    )
    return { ...page, cachedAt: source.modifiedAt }
  },
  tableIntrospections: (_, args) => emptyPage(args),
  checks: ({ kind, status, error, modifiedAt }) => [
    {
      name: isForeign(kind) ? 'Connection' : 'Webhook',
      description: isForeign(kind) ? 'Weir connects to the source.' : 'Producers can post events.',
      status: status === 'CONNECTED' ? 'SUCCEEDED' : status === 'BROKEN' ? 'FAILED' : 'NOT_STARTED',
      error: error === null ? null : { code: null, message: error },
      checkedAt: modifiedAt,
    },
  ],
  dataPools: (source, args, context) => {
    const { pools } = context.deps.catalog.read
    return pageOfDocuments(pools, pools.of(source.id), args, context)
  },
}

async function create(context: Context, kind: 'Http' | ForeignKind, input: NewSource) {
  const decide: Decide<DataSource> = createSource(kind, input, context.caller.applicationId)
  return { dataSource: await change(context, decide, 'Data Source') }
}

async function modify(context: Context, kind: SourceKind, which: IdOrName, input: SourceChange) {
  const decide = modifySource(kind, which, input, context.caller.applicationId)
  return { dataSource: await change(context, decide, 'Data Source') }
}

/** Creates a source of a kind that Weir does not connect to. */
async function createForeign(kind: ForeignKind, { input }: CreateArgs, context: Context) {
  const { uniqueName, description, connectionSettings } = input
  const asked = { uniqueName, description, ...parted(kind, connectionSettings) }
  return connecting(await create(context, kind, asked))
}

async function modifyForeign(kind: ForeignKind, { input }: ModifyArgs, context: Context) {
  const { idOrUniqueName, uniqueName, description, connectionSettings } = input
  const change = { uniqueName, description, ...parted(kind, connectionSettings ?? {}) }
  return connecting(await modify(context, kind, idOrUniqueName, change))
}

/**
 * The answer shows such a source as CONNECTING; whoever reads it then finds it BROKEN. Clients know
 * both states and print the error.
 */
function connecting({ dataSource }: { readonly dataSource: DataSource }) {
  return { dataSource: { ...dataSource, status: 'CONNECTING' as const, error: null } }
}

type Tables = readonly Inputs['S3DataSourceTableInput'][]

/** Connection settings as the catalog stores them: tables apart, without what is never shown. */
function parted(kind: ForeignKind, given: object): Pick<NewSource, 'tables' | 'settings'> {
  const { tables, ...rest } = given as { readonly tables?: Tables | null }
  const settings = Object.fromEntries(Object.entries(rest).filter(([name]) => name !== UNSTORED[kind]))
  return { tables, settings }
}
