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
  /** Kept readable, because the management API shows it. The file has mode 0600. */
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
  /** As the caller gave it; connectionSettings shows it. */
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
}

/** A data pool: its columns, and the settings that decide how its events are stored. */
export interface Pool extends Common {
  /** The pool's number in the log and the index. No later pool gets the same number. */
  readonly number: number
  readonly dataSourceId: string
  /** The current schema version. Catalog documents keep this older name. */
  readonly planVersion: number
  readonly columns: readonly WebhookColumn[]
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
  readonly accessControlEnabled: boolean
  /** Days; 0: rows never expire. */
  readonly retentionDays: number
}

/**
 * A version of a pool's columns and keys. All versions stay as long as the pool, because each log
 * record names one.
 */
export interface SchemaVersion {
  /** The pool's number. */
  readonly pool: number
  readonly version: number
  readonly columns: readonly WebhookColumn[]
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
}

/** Stands for a deleted pool: its log records are skipped, and its files may be removed. */
export interface Tombstone {
  readonly number: number
  readonly poolId: string
  readonly deletedAt: string
}

/** The identity of the data folder, and its counters. */
export interface Meta {
  /** The format version of the documents. */
  readonly format: 1
  /** Random, one per data folder. */
  readonly folderId: string
  readonly accountId: string
  readonly environmentId: string
  readonly nextPoolNumber: number
  /** The application of data/admin.json, which options may replace. */
  readonly firstApplicationId: string
  /** True once the open pool `events` was made. It is not made again after its deletion. */
  readonly openPoolMade: boolean
}

/** Signs tokens (HS256). It is on disk, so that tokens survive a restart. */
export interface SigningKey {
  /** 32 random bytes, base64url. */
  readonly secret: string
}

/** The current version of a pool. */
export function versionOf(pool: Pool): SchemaVersion {
  const { number, planVersion, columns, timestamp, uniqueIdColumn, tenant } = pool
  return { pool: number, version: planVersion, columns, timestamp, uniqueIdColumn, tenant }
}

/**
 * The schema that kernels parse by. The primary timestamp and the unique id are required, whatever
 * `nullable` says.
 */
export function schemaOf(from: SchemaVersion): PoolSchema {
  const index = (name: string | null): number => {
    if (name === null) return -1
    const found = from.columns.findIndex(column => column.name === name)
    assert(found >= 0, `column ${name} of schema ${from.pool}/${from.version} exists`)
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

/** A schema as JSON in UTF-8, in memory that threads share. */
export function shareSchema(schema: PoolSchema): SharedArrayBuffer {
  const json = Buffer.from(JSON.stringify(schema))
  const shared = new SharedArrayBuffer(json.byteLength)
  new Uint8Array(shared).set(json)
  return shared
}
