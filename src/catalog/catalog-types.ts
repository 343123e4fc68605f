/**
 * Main thread ↔ catalog worker, and the catalog as the other stages see it.
 *
 * The worker keeps documents by key and knows nothing of their meaning. It answers a change once LMDB has
 * synced it.
 */
import type { PoolSchema } from '../format/schema.ts'
import type { Application, BasicAuth, DataSource, Meta, Pool, Tombstone } from './model.ts'

// ── the worker ───────────────────────────────────────────────────────────────────────────────────────

/** A document and its key. The value is plain JSON. */
export type Entry = readonly [key: string, value: unknown]

/** Applied in one transaction. */
export interface Change {
  readonly puts: readonly Entry[]
  readonly removes: readonly string[]
}

export interface CatalogThreadData {
  /** The folder of the catalog's LMDB. */
  readonly path: string
  readonly crashAt: string
}

/** What the main thread asks of the catalog thread. */
export interface CatalogCalls {
  /** The first call. Returns all documents. @throws CannotRun or Damaged */
  open(): readonly Entry[]
  /** @throws Unavailable `catalog_full`: the change was not made, and nothing else is different: the next one may be tried */
  apply(change: Change): void
}

// ── the catalog as main.ts, ingest and graphql see it ────────────────────────────────────────────────

/** What the caller got wrong: BAD_REQUEST with this sentence. */
export interface BadRequest {
  readonly badRequest: string
}

/** A column as a caller gives it; the rules check it. */
export interface ColumnInput {
  readonly name: string
  readonly jsonProperty: string
  /** A ColumnType, or CLICKHOUSE, which is refused. */
  readonly type: string
  readonly nullable: boolean
}

/** Absent, null and "" all mean: not given. */
export interface NewWebhookSource {
  readonly uniqueName?: string | null | undefined
  readonly description?: string | null | undefined
  readonly basicAuth?: BasicAuth | null | undefined
  readonly columns?: readonly ColumnInput[] | null | undefined
  readonly timestamp?: string | null | undefined
  readonly uniqueId?: string | null | undefined
  readonly tenant?: string | null | undefined
  readonly accessControlEnabled?: boolean | null | undefined
  readonly tableSettings?: TableSettingsGiven | null | undefined
}

export interface TableSettingsGiven {
  readonly engine?: Readonly<Record<string, unknown>> | null | undefined
  readonly partitionBy?: readonly string[] | null | undefined
  readonly primaryKey?: readonly string[] | null | undefined
  readonly orderBy?: readonly string[] | null | undefined
  readonly ttl?: string | null | undefined
}

/** One object by id, or by unique name where no id is given. "" and null both mean: not given. */
export interface IdOrName {
  readonly id?: string | null | undefined
  readonly uniqueName?: string | null | undefined
}

/** What a pool may be asked to become. Absent and null mean: as it is; so does "", but for the description. */
export interface PoolChange {
  readonly uniqueName?: string | null | undefined
  readonly description?: string | null | undefined
  readonly dataRetentionInDays?: number | null | undefined
  readonly accessControlEnabled?: boolean | null | undefined
  readonly timestamp?: { readonly columnName: string } | null | undefined
  readonly syncing?: { readonly interval: string } | null | undefined
}

/** Where a webhook URL leads. */
export interface Target {
  readonly pool: Pool
  readonly source: DataSource
}

/** Everything reads from memory; a change is in memory once it is synced. */
export interface CatalogService {
  meta(): Meta
  application(id: string): Application | undefined
  source(id: string): DataSource | undefined
  sourceByName(uniqueName: string): DataSource | undefined
  /** Oldest first. */
  sources(): readonly DataSource[]
  pool(id: string): Pool | undefined
  poolByName(uniqueName: string): Pool | undefined
  poolByNumber(number: number): Pool | undefined
  /** Oldest first. */
  pools(): readonly Pool[]
  /** The pool behind a webhook URL; undefined where there is none or it is deleted. */
  byWebhookId(webhookId: string): Target | undefined
  tombstones(): readonly Tombstone[]
  /** How events of a live pool are cut; undefined for a version that never was. */
  schema(pool: number, version: number): PoolSchema | undefined
  /** The same as JSON in UTF-8 in shared memory. */
  sharedSchema(pool: number, version: number): SharedArrayBuffer | undefined
  /** Rejects with Unavailable where the change cannot be synced. */
  createWebhookSource(input: NewWebhookSource, createdBy: string): Promise<Target | BadRequest>
  /** Resolves with the pool as it is now, null where there is none. Rejects with Unavailable. */
  modifyPool(which: IdOrName, change: PoolChange, modifiedBy: string): Promise<Pool | BadRequest | null>
  /** Each resolves with the id, or null where there was no such object. Idempotent. */
  deletePool(id: string): Promise<string | null>
  deletePoolByName(uniqueName: string): Promise<string | null>
  deleteSource(id: string): Promise<string | null>
  deleteSourceByName(uniqueName: string): Promise<string | null>
}
