/** The connection settings of a data source, and table settings, as the API shows them. */
import type { DataSource, Pool, SourceTable, TableSettings } from '../../catalog/documents/model.ts'
import { NO_SENDER, type SignatureSettings } from '../../format/sender.ts'
import { must } from '../../util/errors.ts'
import type { GraphqlDeps } from './context.ts'
import type { Enums } from './schema-types.ts'

type ColumnType = Enums['ColumnType']
type SettingsDeps = Pick<GraphqlDeps, 'catalog' | 'webhookUrl'>

/** One type of the schema for each kind. The catalog has stored the settings as they were given. */
export function settingsOf(source: DataSource, deps: SettingsDeps) {
  const { kind, settings } = source
  const texts = <Name extends string>(...names: readonly Name[]) =>
    Object.fromEntries(names.map(name => [name, String(settings[name] ?? '')])) as Record<Name, string>
  const given = (name: string) => (settings[name] ?? null) as string | null
  switch (kind) {
    case 'WEBHOOK':
      return webhookSettings(source, deps)
    case 'Http':
      return {
        __typename: 'HttpConnectionSettings' as const,
        basicAuth: source.basicAuth,
        tables: source.tables.map(shownTable),
      }
    case 'INTERNAL':
      return { __typename: 'InternalConnectionSettings' as const, _: null }
    case 'S3':
      return {
        __typename: 'S3ConnectionSettings' as const,
        ...texts('awsAccessKeyId', 'bucket'),
        tables: source.tables.map(shownTable),
      }
    case 'Snowflake':
      return {
        __typename: 'SnowflakeConnectionSettings' as const,
        ...texts('account', 'database', 'warehouse', 'schema', 'username', 'role'),
      }
    case 'KAFKA':
      return {
        __typename: 'KafkaConnectionSettings' as const,
        ...texts('auth', 'password', 'user'),
        bootstrapServers: (settings['bootstrapServers'] ?? []) as readonly string[],
        tls: (settings['tls'] ?? null) as boolean | null,
      }
    case 'CLICKHOUSE':
      return {
        __typename: 'ClickHouseConnectionSettings' as const,
        ...texts('database', 'password', 'url', 'user'),
        readonly: null,
      }
    case 'POSTGRESQL':
      return {
        __typename: 'PostgreSqlConnectionSettings' as const,
        ...texts('host', 'user'),
        database: given('database'),
        port: (settings['port'] ?? null) as number | null,
        schema: given('schema'),
      }
  }
}

function webhookSettings(
  { webhook, basicAuth, sender, rejectedEvents }: DataSource,
  { catalog, webhookUrl }: SettingsDeps,
) {
  const { webhookId, poolId, timestamp, uniqueIdColumn, tenant, tableSettings } = must(webhook, 'a webhook')
  const pool: Pool | undefined = catalog.read.pools.get(poolId)
  const { signature, ...settings } = { ...NO_SENDER, ...sender }
  return {
    __typename: 'WebhookConnectionSettings' as const,
    accessControlEnabled: pool?.accessControlEnabled ?? null,
    basicAuth,
    // With the stored type: clients of webhooks do not know CLICKHOUSE.
    columns: pool?.columns.map(column => ({ ...column, coerce: column.coerce === true })) ?? null,
    tableSettings: tableSettings === null ? null : shownTableSettings(tableSettings),
    tenant,
    timestamp,
    uniqueId: uniqueIdColumn,
    webhookUrl: webhookUrl(webhookId),
    ...settings,
    signature: signature && shownSignature(signature),
    eventsPath: pool?.eventsPath ?? null,
    keepEnvelope: pool?.keepEnvelope === true,
    rejectedEvents: rejectedEvents ?? 'KEEP',
  }
}

/** The parameters of GENERIC_HMAC are fields of the signature itself. */
function shownSignature({ generic, ...signature }: SignatureSettings) {
  return { ...signature, ...generic }
}

function shownTable({ id, name, path, columns }: SourceTable) {
  return { id, name, path, columns: columns.map(column => ({ ...column, type: column.type as ColumnType })) }
}

/** TableSettings of the schema: as given, with null for what was not given. */
export function shownTableSettings(settings: TableSettings | null) {
  if (settings === null)
    return { engine: null, partitionBy: null, primaryKey: null, orderBy: null, ttl: null }
  return { ...settings, engine: shownEngine(settings.engine) }
}

function shownEngine(engine: TableSettings['engine']) {
  if (engine === null) return null
  return engine.type === 'MERGE_TREE'
    ? { __typename: 'MergeTreeTableEngine' as const, ...engine }
    : { __typename: 'ReplacingMergeTreeTableEngine' as const, ...engine }
}
