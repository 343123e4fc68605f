/**
 * The protocol of the catalog thread, and what callers of the catalog give to its changes.
 *
 * The thread stores documents by key and knows nothing of their meaning. It answers a change after
 * LMDB has synced it.
 */
import type { GenericHmac, SenderSettings, SignatureScheme } from '../../format/sender.ts'
import type { BasicAuth, DataSource, Pool } from './model.ts'

/** A document and its key. The value is plain JSON. */
export type Entry = readonly [key: string, value: unknown]

export interface Change {
  readonly puts: readonly Entry[]
  readonly removes: readonly string[]
}

export interface CatalogThreadData {
  readonly path: string
  readonly crashAt: string
}

export interface CatalogCalls {
  /** The first call. Returns all documents. @throws CannotRun or Damaged */
  open(): readonly Entry[]
  /** @throws Unavailable `catalog_full`: the change was not made, and the next one may be tried */
  apply(change: Change): void
}

/** The caller's mistake: answered as BAD_REQUEST with this sentence. */
export interface BadRequest {
  readonly badRequest: string
}

/** A column as a caller gives it; the rules check it. */
export interface ColumnInput {
  readonly name: string
  readonly jsonProperty: string
  /** A ColumnType, or CLICKHOUSE with a `clickHouseType`. */
  readonly type: string
  readonly clickHouseType?: string | null | undefined
  readonly nullable: boolean
  readonly coerce?: boolean | null | undefined
}

/** Columns and keys of a new pool. Absent, null and "" all mean that the field was not given. */
export interface PoolInput {
  readonly columns?: readonly ColumnInput[] | null | undefined
  readonly timestamp?: string | null | undefined
  readonly uniqueId?: string | null | undefined
  readonly tenant?: string | null | undefined
  readonly tableSettings?: TableSettingsGiven | null | undefined
  readonly eventsPath?: string | null | undefined
  readonly keepEnvelope?: boolean | null | undefined
}

/** Parameters of a signature. GENERIC_HMAC takes those of GenericHmac, which have defaults. */
export interface SignatureGiven extends Given<GenericHmac> {
  readonly scheme?: SignatureScheme | null | undefined
  readonly secrets?: readonly string[] | null | undefined
  readonly toleranceSeconds?: number | null | undefined
}

type Given<T> = { readonly [K in keyof T]?: T[K] | null | undefined }

/** Settings of a webhook for foreign senders. Absent and null mean not given. */
export interface SenderGiven extends Given<Omit<SenderSettings, 'signature'>> {
  readonly signature?: SignatureGiven | null | undefined
  /** False: the webhook takes unsigned requests, whatever its preset says. */
  readonly signatureEnabled?: boolean | null | undefined
  /** KEEP, the default, or COUNT. */
  readonly rejectedEvents?: 'KEEP' | 'COUNT' | null | undefined
}

/** Absent, null and "" all mean that the field was not given. */
export interface NewWebhookSource extends PoolInput, SenderGiven {
  readonly uniqueName?: string | null | undefined
  readonly description?: string | null | undefined
  readonly basicAuth?: BasicAuth | null | undefined
  readonly accessControlEnabled?: boolean | null | undefined
}

/** TableSettingsInput of the schema. Of `engine` one member is given, the others are null. */
export interface TableSettingsGiven {
  readonly engine?: Readonly<Record<string, object | null | undefined>> | null | undefined
  readonly partitionBy?: readonly string[] | null | undefined
  readonly primaryKey?: readonly string[] | null | undefined
  readonly orderBy?: readonly string[] | null | undefined
  readonly ttl?: string | null | undefined
}

/** By id, or by unique name where no id is given. "" and null mean not given. */
export interface IdOrName {
  readonly id?: string | null | undefined
  readonly uniqueName?: string | null | undefined
}

/** The pool and the source of a webhook URL. */
export interface Target {
  readonly pool: Pool
  readonly source: DataSource
}
