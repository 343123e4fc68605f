/** Resolvers of data sources and their tables. Credentials are shown: all of it needs `admin`. */

import type { Decide, Named } from '../../catalog/change/change.ts'
import {
  createSource,
  createWebhookSource,
  deleteSource,
  modifySource,
  type NewSource,
  type SourceChange,
} from '../../catalog/change/change-source.ts'
import type { IdOrName } from '../../catalog/documents/catalog-types.ts'
import type { DataSource, SourceKind } from '../../catalog/documents/model.ts'
import { type ForeignKind, isForeign } from '../../catalog/documents/source-kinds.ts'
import { change, find, lookups, removing } from './changes.ts'
import type { Context } from './context.ts'
import { badRequest, notFound } from './graphql-errors.ts'
import { emptyPage, pageByIndex, pageOfDocuments } from './list-page.ts'
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

interface NewForeign extends Named {
  readonly connectionSettings: object
}
interface ForeignChange extends Named {
  readonly idOrUniqueName: IdOrName
  readonly connectionSettings?: object | null | undefined
}

const sources = lookups('Data Source', read => read.sources)

export const sourceQueries = {
  dataSource: sources.byId,
  dataSourceByName: sources.byName,
  dataSources: sources.page,
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
    const made = await change(context, by => createWebhookSource(asked, by), 'Data Source')
    return { dataSource: made.source }
  },
  modifyWebhookDataSource: (_, { input }, context) => modifyOwn('WEBHOOK', input, context),
  createHttpDataSource: (_, { input }, context) => {
    const { connectionSettings, uniqueName, description } = input
    return create(context, 'Http', { ...connectionSettings, uniqueName, description })
  },
  modifyHttpDataSource: (_, { input }, context) => modifyOwn('Http', input, context),
  createSnowflakeDataSource: creating('Snowflake'),
  modifySnowflakeDataSource: modifying('Snowflake'),
  createS3DataSource: creating('S3'),
  modifyS3DataSource: modifying('S3'),
  createKafkaDataSource: creating('KAFKA'),
  modifyKafkaDataSource: modifying('KAFKA'),
  createClickHouseDataSource: creating('CLICKHOUSE'),
  modifyClickHouseDataSource: modifying('CLICKHOUSE'),
  createPostgreSqlDataSource: creating('POSTGRESQL'),
  modifyPostgreSqlDataSource: modifying('POSTGRESQL'),
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
  deleteDataSource: removing(deleteSource),
  deleteDataSourceByName: removing(deleteSource),
} satisfies Partial<Resolvers['Mutation']>

export const sourceFields: Omit<Resolvers['DataSource'], 'account' | 'environment'> = {
  type: ({ kind }) => kind,
  error: ({ error }) => (error === null ? null : { code: null, message: error }),
  connectionSettings: (source, _, { deps }) => settingsOf(source, deps),
  tables: (source, args, { budget }) => {
    budget.items(source.tables.length)
    const tables = source.tables.map(table => ({ source, table }))
    return { ...pageByIndex(tables, args), cachedAt: source.modifiedAt }
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
  const operation = (by: string): Decide<DataSource> => createSource(kind, input, by)
  return { dataSource: await change(context, operation, 'Data Source') }
}

async function modify(context: Context, kind: SourceKind, which: IdOrName, input: SourceChange) {
  return { dataSource: await change(context, by => modifySource(kind, which, input, by), 'Data Source') }
}

function modifyOwn(
  kind: 'WEBHOOK' | 'Http',
  { idOrUniqueName, uniqueName, description, connectionSettings }: ForeignChange,
  context: Context,
) {
  return modify(context, kind, idOrUniqueName, { ...connectionSettings, uniqueName, description })
}

function creating(kind: ForeignKind) {
  return async (_: unknown, { input }: CreateArgs, context: Context) => {
    const { uniqueName, description, connectionSettings } = input
    const asked = { uniqueName, description, ...parted(kind, connectionSettings) }
    return connecting(await create(context, kind, asked))
  }
}

function modifying(kind: ForeignKind) {
  return async (_: unknown, { input }: ModifyArgs, context: Context) => {
    const { idOrUniqueName, uniqueName, description, connectionSettings } = input
    const asked = { uniqueName, description, ...parted(kind, connectionSettings ?? {}) }
    return connecting(await modify(context, kind, idOrUniqueName, asked))
  }
}

/** Clients know CONNECTING and BROKEN: the answer shows the first, the next look the second. */
function connecting({ dataSource }: { readonly dataSource: DataSource }) {
  return {
    __typename: 'DataSourceResponse' as const,
    dataSource: { ...dataSource, status: 'CONNECTING' as const, error: null },
  }
}

type Tables = readonly Inputs['S3DataSourceTableInput'][]

/** Connection settings as the catalog stores them: tables apart, without what is never shown. */
function parted(kind: ForeignKind, given: object): Pick<NewSource, 'tables' | 'settings'> {
  const { tables, ...rest } = given as { readonly tables?: Tables | null }
  const settings = Object.fromEntries(Object.entries(rest).filter(([name]) => name !== UNSTORED[kind]))
  return { tables, settings }
}
