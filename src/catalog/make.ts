/** The documents of a new webhook data source and its pool. Pure: numbers and names come in, documents go out. */

import { newId } from '../util/ids.ts'
import { keys } from './memory.ts'
import type { DataSource, Meta, Pool } from './model.ts'
import { versionOf } from './plans.ts'
import type { Entry, NewWebhookSource, Target } from './protocol.ts'
import { type Checked, orNull } from './rules.ts'

interface Made {
  readonly target: Target
  /** Source, pool, its first plan version, and the meta document with the next pool number. */
  readonly puts: readonly Entry[]
}

/** Source and pool share their unique name, because clients look the pool up by the source's. */
export function makeWebhookSource(
  input: NewWebhookSource,
  checked: Checked,
  meta: Meta,
  createdBy: string,
  nowMs: number,
): Made {
  const at = new Date(nowMs).toISOString()
  const sourceId = newId('DSO', nowMs)
  const poolId = newId('DPO', nowMs)
  const common = {
    uniqueName: orNull(input.uniqueName) ?? sourceId,
    description: input.description ?? '',
    createdAt: at,
    createdBy,
    modifiedAt: at,
    modifiedBy: createdBy,
  }
  const source: DataSource = {
    ...common,
    id: sourceId,
    webhookId: newId('WHK', nowMs),
    poolId,
    basicAuth: input.basicAuth
      ? { username: input.basicAuth.username, password: input.basicAuth.password }
      : null,
    timestamp: orNull(input.timestamp),
    uniqueIdColumn: checked.uniqueIdColumn,
    tenant: checked.tenant,
  }
  const pool: Pool = {
    ...common,
    id: poolId,
    number: meta.nextPoolNumber,
    dataSourceId: sourceId,
    planVersion: 1,
    ...checked,
    accessControlEnabled: input.accessControlEnabled ?? false,
    retentionDays: 0,
  }
  const version = versionOf(pool)
  const nextMeta: Meta = { ...meta, nextPoolNumber: meta.nextPoolNumber + 1 }
  return {
    target: { pool, source },
    puts: [
      [keys.source(sourceId), source],
      [keys.pool(poolId), pool],
      [keys.plan(version.pool, version.version), version],
      [keys.meta, nextMeta],
    ],
  }
}
