/**
 * The kinds of data sources that Weir does not connect to, and the state that a kind begins with.
 */
import type { DataSource, SourceKind } from './model.ts'

/** Kinds that Weir does not connect to, as messages name them. */
const FOREIGN = {
  Snowflake: 'Snowflake',
  S3: 'S3',
  KAFKA: 'Kafka',
  CLICKHOUSE: 'ClickHouse',
  POSTGRESQL: 'PostgreSQL',
} as const satisfies Partial<Record<SourceKind, string>>
export type ForeignKind = keyof typeof FOREIGN

export function isForeign(kind: SourceKind): kind is ForeignKind {
  return kind in FOREIGN
}

/** The fields of a source that is connected and has no settings yet. */
export const CONNECTED = {
  status: 'CONNECTED',
  error: null,
  basicAuth: null,
  webhook: null,
  tables: [],
  settings: {},
} as const satisfies Partial<DataSource>

export function stateOf(kind: SourceKind): Pick<DataSource, 'status' | 'error'> {
  if (!isForeign(kind)) return { status: 'CONNECTED', error: null }
  const error = `Weir does not connect to ${FOREIGN[kind]}: send the records to a webhook instead, with createWebhookDataSource.`
  return { status: 'BROKEN', error }
}
