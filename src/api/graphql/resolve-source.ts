/** Resolvers of data sources. The catalog decides. Every operation here needs the scope `admin`. */
import type { NewWebhookSource } from '../../catalog/catalog-types.ts'
import type { DataSource } from '../../catalog/model.ts'
import { type Context, requireScope } from './context.ts'
import { badRequest, notFound } from './errors.ts'
import { numberPosition, type PageArgs, pageOf } from './page.ts'

const MANAGE = 'manage Data Sources'

/** The input of createWebhookDataSource as the schema coerces it. */
interface CreateInput {
  readonly uniqueName?: string | null
  readonly description?: string | null
  readonly connectionSettings: Omit<NewWebhookSource, 'uniqueName' | 'description'>
}

export const sourceQueries = {
  dataSource: (_: unknown, { id }: { id: string }, context: Context) => {
    requireScope(context, MANAGE, 'admin')
    return found(context.deps.catalog.source(id))
  },
  dataSourceByName: (_: unknown, { uniqueName }: { uniqueName: string }, context: Context) => {
    requireScope(context, MANAGE, 'admin')
    return found(context.deps.catalog.sourceByName(uniqueName))
  },
  dataSources: (_: unknown, args: PageArgs, context: Context) => {
    requireScope(context, MANAGE, 'admin')
    const sources = context.deps.catalog.sources()
    context.budget.items(sources.length)
    return pageOf(sources, args, source => `${source.createdAt}/${source.id}`)
  },
}

export const sourceMutations = {
  createWebhookDataSource: async (_: unknown, { input }: { input: CreateInput }, context: Context) => {
    requireScope(context, MANAGE, 'admin')
    const { uniqueName, description, connectionSettings } = input
    const asked: NewWebhookSource = { ...connectionSettings, uniqueName, description }
    const made = await context.deps.catalog.createWebhookSource(asked, context.caller.applicationId)
    if ('badRequest' in made) throw badRequest(made.badRequest)
    return { dataSource: made.source }
  },
  deleteDataSource: (_: unknown, { id }: { id: string }, context: Context) => {
    requireScope(context, MANAGE, 'admin')
    return context.deps.catalog.deleteSource(id)
  },
  deleteDataSourceByName: (_: unknown, { uniqueName }: { uniqueName: string }, context: Context) => {
    requireScope(context, MANAGE, 'admin')
    return context.deps.catalog.deleteSourceByName(uniqueName)
  },
}

export const sourceFields = {
  type: () => 'WEBHOOK',
  status: () => 'CONNECTED',
  error: () => null,
  connectionSettings: (source: DataSource, _: unknown, { deps }: Context) => {
    const pool = deps.catalog.pool(source.poolId)
    return {
      __typename: 'WebhookConnectionSettings',
      accessControlEnabled: pool?.accessControlEnabled ?? null,
      basicAuth: source.basicAuth,
      columns: pool?.columns ?? null,
      tableSettings: null,
      tenant: source.tenant,
      timestamp: source.timestamp,
      uniqueId: source.uniqueIdColumn,
      webhookUrl: deps.webhookUrl(source.webhookId),
    }
  },
  // A webhook source has no tables to introspect and nothing to check.
  tables: (source: DataSource, args: PageArgs) => ({
    ...pageOf([], args, () => ''),
    cachedAt: source.modifiedAt,
  }),
  tableIntrospections: (_: DataSource, args: PageArgs) => pageOf([], args, () => ''),
  checks: () => [],
  dataPools: (source: DataSource, args: PageArgs, { deps }: Context) => {
    const pool = deps.catalog.pool(source.poolId)
    return pageOf(pool === undefined ? [] : [pool], args, ({ number }) => numberPosition(number))
  },
}

function found(source: DataSource | undefined): DataSource {
  if (source === undefined) throw notFound('Data Source')
  return source
}
