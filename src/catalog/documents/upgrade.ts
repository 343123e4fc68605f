/**
 * Documents of earlier versions in the form of this one. A document is written in the new form by
 * its next change.
 */
import { type Application, type DataSource, type Pool, SCOPES } from './model.ts'
import { CONNECTED, stateOf } from './source-kinds.ts'

/** A source as it was while every source was a webhook. */
interface WebhookSourceBefore
  extends Omit<DataSource, 'kind' | 'status' | 'webhook' | 'tables' | 'settings'> {
  readonly webhookId: string
  readonly poolId: string
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
}

/** The document of `key` in today's form. */
export function upgrade(key: string, value: unknown): unknown {
  const kind = key.split('/', 1)[0]
  if (kind === 'application') return upgradeApplication(value as Application)
  if (kind === 'signing-key') return { kid: '', createdAt: EPOCH, ...(value as object) }
  if (kind === 'source') return upgradeSource(value as DataSource | WebhookSourceBefore)
  if (kind === 'pool') return upgradePool(value as Pool)
  return value
}

const EPOCH = new Date(0).toISOString()

/** The only application of an earlier version had every right and no limits of its queries. */
function upgradeApplication(application: Application): Application {
  if ('propeller' in application) return application
  const before: Application = application
  return { ...before, propeller: 'P1_X_LARGE', scopes: SCOPES }
}

function upgradeSource(source: DataSource | WebhookSourceBefore): DataSource {
  // An earlier version stored CONNECTING, and BROKEN with a second change.
  if ('kind' in source)
    return source.status === 'CONNECTING' ? { ...source, ...stateOf(source.kind) } : source
  const { webhookId, poolId, timestamp, uniqueIdColumn, tenant, ...common } = source
  return {
    ...CONNECTED,
    ...common,
    kind: 'WEBHOOK',
    webhook: { webhookId, poolId, timestamp, uniqueIdColumn, tenant, tableSettings: null },
  }
}

function upgradePool(pool: Pool): Pool {
  if ('webhookId' in pool) return pool
  const before: Pool = pool
  return { ...before, webhookId: null, table: before.uniqueName, tableSettings: null }
}
