/** The documents of the catalog. Dates are ISO 8601 UTC with milliseconds. */
import { type ColumnType, KEY_RECEIVED_AT, type PoolSchema, type SchemaKey } from '../format/schema.ts'
import { assert } from '../util/assert.ts'

/** Fields of every managed object. */
export interface Common {
  readonly id: string
  readonly uniqueName: string
  readonly description: string
  readonly createdAt: string
  readonly createdBy: string
  readonly modifiedAt: string
  readonly modifiedBy: string
}

/** Scopes as tokens spell them. */
export const SCOPES = [
  'admin',
  'application:admin',
  'environment:admin',
  'data_pool:query',
  'data_pool:read',
  'data_pool:stats',
  'metric:query',
  'metric:read',
  'metric:stats',
] as const
export type Scope = (typeof SCOPES)[number]

export interface Application extends Common {
  /** Readable: the management API shows it (mode 0600 on disk). */
  readonly secret: string
  readonly scopes: readonly Scope[]
}

export interface BasicAuth {
  readonly username: string
  readonly password: string
}

/** An unpacked column as the user gave it. */
export interface WebhookColumn {
  readonly name: string
  readonly jsonProperty: string
  readonly type: ColumnType
  readonly nullable: boolean
}

/** A webhook data source. */
export interface DataSource extends Common {
  readonly webhookId: string
  readonly poolId: string
  readonly basicAuth: BasicAuth | null
  /** As given: echoed by connectionSettings. */
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
}

/** A data pool: columns and everything that decides how events are kept. */
export interface Pool extends Common {
  /** Its number in log and index; never reused. */
  readonly number: number
  readonly dataSourceId: string
  /** The schema version of today. Catalog documents keep this older name. */
  readonly planVersion: number
  readonly columns: readonly WebhookColumn[]
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
  readonly accessControlEnabled: boolean
  /** Days; 0 keeps for ever. */
  readonly retentionDays: number
}

/** A version of a pool's columns and keys. All are kept while the pool is: log records name theirs. */
export interface SchemaVersion {
  /** The pool's number. */
  readonly pool: number
  readonly version: number
  readonly columns: readonly WebhookColumn[]
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
}

/** What is left of a deleted pool: its log records are skipped and its files may go. */
export interface Tombstone {
  readonly number: number
  readonly poolId: string
  readonly deletedAt: string
}

/** The folder's own facts. */
export interface Meta {
  /** Version of the documents. */
  readonly format: 1
  /** Random, one per data folder. */
  readonly folderId: string
  readonly accountId: string
  readonly environmentId: string
  readonly nextPoolNumber: number
  /** The application that options and data/admin.json speak of. */
  readonly firstApplicationId: string
  /** The open pool `events` is made once, never again after its deletion. */
  readonly openPoolMade: boolean
}

/** Signs tokens (HS256). Kept, so that tokens survive a restart. */
export interface SigningKey {
  /** 32 random bytes, base64url. */
  readonly secret: string
}

/** Versions of a pool's columns become plans, which kernels and kept records are cut by. */

/** The current version of a pool. */
export function versionOf(pool: Pool): SchemaVersion {
  const { number, planVersion, columns, timestamp, uniqueIdColumn, tenant } = pool
  return { pool: number, version: planVersion, columns, timestamp, uniqueIdColumn, tenant }
}

/** The plan of one version. Primary timestamp and unique id are required whatever `nullable` says. */
export function schemaOf(from: SchemaVersion): PoolSchema {
  const index = (name: string | null): number => {
    if (name === null) return -1
    const found = from.columns.findIndex(column => column.name === name)
    assert(found >= 0, `column ${name} of plan ${from.pool}/${from.version} exists`)
    return found
  }
  const timestamp = index(from.timestamp)
  const uniqueId = index(from.uniqueIdColumn)
  return {
    pool: from.pool,
    version: from.version,
    columns: from.columns.map(({ name, type, jsonProperty, nullable }, i) => ({
      name,
      type,
      jsonProperty,
      required: !nullable || i === timestamp || i === uniqueId,
    })),
    timestamp,
    tenant: index(from.tenant),
    key: keyOf(timestamp, uniqueId),
  }
}

function keyOf(timestamp: number, uniqueId: number): SchemaKey | null {
  if (uniqueId === -1) return null
  return { columns: [timestamp === -1 ? KEY_RECEIVED_AT : timestamp, uniqueId], version: -1 }
}

/** A plan as JSON in UTF-8, in memory that threads share. */
export function shareSchema(schema: PoolSchema): SharedArrayBuffer {
  const json = Buffer.from(JSON.stringify(schema))
  const shared = new SharedArrayBuffer(json.byteLength)
  new Uint8Array(shared).set(json)
  return shared
}
