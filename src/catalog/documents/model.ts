/** The documents of the catalog. Dates are ISO 8601 UTC with milliseconds. */
import { inEnvelope } from '../../format/json-property.ts'
import {
  type ColumnType,
  KEY_RECEIVED_AT,
  type PoolSchema,
  RECEIVED_AT,
  type SchemaKey,
} from '../../format/schema.ts'
import type { SenderSettings } from '../../format/sender.ts'
import { assert } from '../../util/errors.ts'

interface Authorship {
  readonly createdAt: string
  readonly createdBy: string
  readonly modifiedAt: string
  readonly modifiedBy: string
}

export function newAuthorship(by: string, nowMs: number): Authorship {
  const at = new Date(nowMs).toISOString()
  return { createdAt: at, createdBy: by, modifiedAt: at, modifiedBy: by }
}

export interface Common extends Authorship {
  readonly id: string
  readonly uniqueName: string
  readonly description: string
}

/** Scopes as tokens spell them. */
export const SCOPES = [
  'admin',
  'application:admin',
  'environment:admin',
  'data_pool:query',
  'data_pool:read',
  'data_pool:stats',
  'data_pool:write',
  'metric:query',
  'metric:read',
  'metric:stats',
] as const
export type Scope = (typeof SCOPES)[number]

/** The size of an application's share of the engine. The first is the default. */
export const PROPELLERS = ['P1_X_SMALL', 'P1_SMALL', 'P1_MEDIUM', 'P1_LARGE', 'P1_X_LARGE'] as const
export type Propeller = (typeof PROPELLERS)[number]

export interface Application extends Common {
  /** Readable, because the management API shows it. It is sealed on disk (seal.ts). */
  readonly secret: string
  readonly scopes: readonly Scope[]
  readonly propeller: Propeller
}

export interface BasicAuth {
  readonly username: string
  readonly password: string
}

export interface PoolColumn {
  readonly name: string
  readonly jsonProperty: string
  readonly type: ColumnType
  readonly nullable: boolean
  /** The ClickHouse type as given, of a column whose given type is CLICKHOUSE. */
  readonly clickHouseType?: string
  /** `from`, `path` and `coerce` are those of SchemaColumn. Earlier versions wrote none of them. */
  readonly from?: 'request' | 'body'
  readonly path?: readonly (string | number)[]
  readonly coerce?: true
}

/** The kinds of data sources, as the management API spells them. */
export type SourceKind =
  | 'WEBHOOK'
  | 'Http'
  | 'INTERNAL'
  | 'S3'
  | 'Snowflake'
  | 'KAFKA'
  | 'CLICKHOUSE'
  | 'POSTGRESQL'

/** The settings of a table as the caller gave them. null means the default, [] none. */
export interface TableSettings {
  readonly engine: TableEngine | null
  readonly partitionBy: readonly string[] | null
  readonly primaryKey: readonly string[] | null
  readonly orderBy: readonly string[] | null
  readonly ttl: string | null
}

export type TableEngine =
  | { readonly type: 'MERGE_TREE' }
  | { readonly type: 'REPLACING_MERGE_TREE'; readonly ver: string | null }

export interface WebhookSettings {
  readonly webhookId: string
  readonly poolId: string
  /** As the caller gave it; connectionSettings shows it. */
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
  readonly tableSettings: TableSettings | null
}

/** A table that an Http or S3 source declares. */
export interface SourceTable {
  readonly id: string
  readonly name: string
  /** The path in the bucket; S3 only. */
  readonly path: string | null
  readonly columns: readonly SourceColumn[]
}

export interface SourceColumn {
  readonly name: string
  readonly type: string
  readonly clickHouseType: string | null
  readonly nullable: boolean
}

/**
 * A data source. Webhook and Http sources take events. Pools without a source of their own belong
 * to the one INTERNAL source. Weir does not connect to the systems of the other kinds.
 */
export interface DataSource extends Common {
  readonly kind: SourceKind
  /** CONNECTING is never stored: the answer to a creation says it of a source that is BROKEN. */
  readonly status: 'CONNECTING' | 'CONNECTED' | 'BROKEN'
  /** Why the source is BROKEN, one sentence. */
  readonly error: string | null
  /** Credentials of the webhooks; WEBHOOK and Http only. */
  readonly basicAuth: BasicAuth | null
  readonly webhook: WebhookSettings | null
  /** Sealed on disk. Absent in the documents of earlier versions, and for kinds but WEBHOOK. */
  readonly sender?: SenderSettings | null
  /**
   * Until then, in ms since 1970, its sender may hand over a secret to any node of a cluster.
   * Absent in a data folder.
   */
  readonly handshakeUntilMs?: number | undefined
  /** Whether rejected events are kept (rejected-pool.ts) or only counted. Absent: KEEP. */
  readonly rejectedEvents?: 'KEEP' | 'COUNT'
  readonly tables: readonly SourceTable[]
  /** The other connection settings of a kind that Weir does not connect to, as given. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** The columns that identify a record, in key order, and the one that ranks its versions. */
export interface NamedKey {
  readonly columns: readonly string[]
  readonly version: string | null
}

/** What the kernels parse by: it changes only with a new schema version. */
export interface Columns {
  readonly columns: readonly PoolColumn[]
  /** A column, or RECEIVED_AT where the caller named it. null means RECEIVED_AT too. */
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
  /** Where it is absent, the key is (timestamp, unique id). Null makes every event a record. */
  readonly key?: NamedKey | null
  /** Where the events stand in the body of a POST; absent: the body is the events. */
  readonly eventsPath?: string
  /** As in PoolSchema. */
  readonly keepEnvelope?: true
  /** Epoch numbers are cut to whole µs. Absent: they are rounded (format/schema.ts). */
  readonly cutsEpochs?: true
}

/** A data pool: its columns, and the settings that decide how its events are stored. */
export interface Pool extends Common, Columns {
  /** The pool's number in the log and the index. No later pool gets the same number. */
  readonly number: number
  readonly dataSourceId: string
  /** The table of the source that the pool reads; the pool's first unique name elsewhere. */
  readonly table: string
  /** The current schema version. Catalog documents keep this older name. */
  readonly planVersion: number
  readonly accessControlEnabled: boolean
  /** In days. 0 keeps rows for ever. */
  readonly retentionDays: number
  /** Where events are posted; null for the pool of a WEBHOOK source, which has the id. */
  readonly webhookId: string | null
  readonly tableSettings: TableSettings | null
  /** The interval of syncing where one was given. Weir shows it and syncs nothing. */
  readonly syncInterval?: string
  /** The server itself writes the pool (rejected-pool.ts). It is not deleted. */
  readonly builtIn?: 'REJECTED_EVENTS'
}

/** The current schema version of a pool. Its document has an older name for it. */
export function schemaVersionOf({ planVersion }: Pool): number {
  return planVersion
}

/** All versions stay as long as the pool, because each log record names one. */
export interface SchemaVersion extends Columns {
  readonly pool: number
  readonly version: number
}

export type MetricType = 'COUNT' | 'SUM' | 'COUNT_DISTINCT' | 'AVERAGE' | 'MIN' | 'MAX' | 'CUSTOM'

/** A structured filter as the API takes it; query/plan/where.ts gives it its meaning. */
export interface StoredFilter {
  readonly column: string
  readonly operator: string
  readonly value: string | null
  readonly and: readonly StoredFilter[]
  readonly or: readonly StoredFilter[]
}

/** A predefined metric. Its SQL texts were checked when they were given. */
export interface Metric extends Common {
  readonly poolId: string
  readonly type: MetricType
  /** The measure, or the dimension of COUNT_DISTINCT; null for COUNT and CUSTOM. */
  readonly column: string | null
  /** CUSTOM only, as given. */
  readonly expression: string | null
  readonly filters: readonly StoredFilter[]
  readonly filterSql: string | null
  readonly dimensions: readonly string[]
  readonly accessControlEnabled: boolean
}

/** Limits what the applications that it is assigned to see of one pool. */
export interface AccessPolicy extends Common {
  readonly poolId: string
  /** Column names, or `*` alone for all. */
  readonly columns: readonly string[]
  readonly rows: readonly StoredFilter[]
  readonly filterSql: string | null
  readonly applicationIds: readonly string[]
}

/** The one environment of a data folder. Its id is meta's `environmentId`. */
export type Environment = Common

export const JOB_STATUSES = ['CREATED', 'IN_PROGRESS', 'SUCCEEDED', 'FAILED'] as const
export type JobStatus = (typeof JOB_STATUSES)[number]

export type Job = AddColumnJob | RewriteJob | ImportJob | ReplayJob

/** Every kind of job, as people read it. */
export const JOB_KINDS: Readonly<Record<Job['kind'], string>> = {
  ADD_COLUMN: 'add column',
  DELETE_RECORDS: 'delete records',
  IMPORT: 'import',
  REPLAY_REJECTED: 'replay of rejected events',
  UPDATE_RECORDS: 'update records',
}

export interface JobCommon extends Authorship {
  readonly id: string
  readonly poolId: string
  readonly status: JobStatus
  /** 0 to 1. */
  readonly progress: number
  /** Why the job FAILED, one sentence. */
  readonly error: string | null
  readonly startedAt: string | null
  readonly succeededAt: string | null
  readonly failedAt: string | null
}

export interface AddColumnJob extends JobCommon {
  readonly kind: 'ADD_COLUMN'
  readonly input: AddColumnInput
  /** The first sequence that is parsed with the new column; null before. */
  readonly cutOverSequence: number | null
}

export interface RewriteJob extends JobCommon {
  readonly kind: 'DELETE_RECORDS' | 'UPDATE_RECORDS'
  readonly input: RewriteInput
  /** The job changes rows of lower sequences only: those that were acknowledged before it. */
  readonly beforeSequence: number
  /** null before the job started, and in a cluster. */
  readonly work: RewriteWork | null
  /** How far it is in each shard of a cluster. Absent before it started there, and elsewhere. */
  readonly shards?: readonly ShardWork[]
  /** A caller has cancelled it. It ends after the segment that it is at. */
  readonly isCancelled: boolean
}

/** The segments that a rewrite job has reserved: until it ends, no merge takes them. */
export interface RewriteWork {
  /** The pool's segments with lower numbers are the job's. What it writes has higher ones. */
  readonly segmentsBelow: number
  /** Rows of these segments when the job started. */
  readonly rows: number
}

/** The rows of a shard, which a rewrite job looks at in ranges of the key. */
export interface ShardWork {
  /** Rows of the table when the job started, with those that others have replaced. */
  readonly rows: number
  /** Of them, those that it has looked at. */
  readonly done: number
  /** The key up to which it has looked at them; null before the first range. */
  readonly reached: readonly string[] | null
}

export interface RewriteInput {
  readonly filters: readonly StoredFilter[]
  readonly filterSql: string | null
  readonly set: readonly SetColumn[]
}

/** A column that gets the value of an expression over its row. */
interface SetColumn {
  readonly column: string
  readonly expression: string
}

/** Stores the rows of a file. It runs as long as its request, which is how it ends. */
export interface ImportJob extends JobCommon {
  readonly kind: 'IMPORT'
  readonly input: ImportInput
  readonly done: ImportProgress
  /** The node of a cluster that has its connection; absent in a data folder. */
  readonly process?: string
  /** A caller has cancelled it. It ends with its next batch. */
  readonly isCancelled: boolean
}

export interface ImportInput {
  readonly format: string
  readonly encoding: string
  /** A text of the client, by which it finds the import again; may be empty. */
  readonly label: string
  readonly skipRows: number
  /** Bytes of the body; null where they were not declared. */
  readonly bytes: number | null
  /** The parameters that name columns, of which a resumed import needs the same; absent if none. */
  readonly mapping?: string
}

export interface ImportProgress {
  /** Rows that were read: left out, accepted or refused. */
  readonly rows: number
  readonly accepted: number
  readonly rejected: number
  /** Rows at the beginning of the file that are stored or refused. */
  readonly durableRows: number
  /** Bytes of the file up to the last of them; null where the body was decoded. */
  readonly durableBytes: number | null
}

/** Takes rejected events into its pool (jobs/replay-rejected.ts). */
export interface ReplayJob extends JobCommon {
  readonly kind: 'REPLAY_REJECTED'
  readonly input: ReplayInput
  /** The id of the last rejected event that it looks at; "" before it started, or for none. */
  readonly lastId: string
  readonly done: ReplayProgress
  /** The request that is being posted; absent between two pages. */
  readonly posting?: ReplayPosting
  /** A caller has cancelled it. It ends after the page that it is at. */
  readonly isCancelled: boolean
}

/** The rejected events of one pool, with conditions on their rows. */
export interface ReplayInput {
  /** The id of the pool that refused them, which may be another one, or deleted. */
  readonly rejectedBy: string
  readonly filters: readonly StoredFilter[]
  readonly filterSql: string | null
}

export interface ReplayProgress {
  /** Rejected events that the job looks at. */
  readonly total: number
  /** Stored now, and no rejected events any more. */
  readonly accepted: number
  /** Refused again. They stay as they are. */
  readonly refused: number
  /** Left out, because not all of their text was kept. */
  readonly truncated: number
  readonly firstRefusal: { readonly code: string; readonly message: string } | null
  /** The id of the last rejected event that was looked at; "" before the first. */
  readonly position: string
  /** Accepted ones up to there, which may still be rejected events: their removal is due. */
  readonly removing: readonly string[]
}

export interface ReplayPosting {
  /** No other request of the pool has it: a record with it says that this one was stored. */
  readonly receivedAtUs: number
  /** The progress that holds then. */
  readonly done: ReplayProgress
}

export interface AddColumnInput {
  readonly columnName: string
  readonly columnType: string
  readonly columnClickHouseType: string | null
  readonly jsonProperty: string | null
  readonly coerce?: true
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
  /** Present until a start that listens has printed the credentials and commands to paste. */
  readonly firstStepsDue?: true
  /** SHA-256 of the id and secret that a start applied last; absent where none is known. */
  readonly givenDigest?: string
}

/** Signs tokens (HS256). It is on disk, so that tokens survive a restart. */
export interface SigningKey {
  /** Names the key in the head of a token; "" for the key of an earlier version. */
  readonly kid: string
  readonly createdAt: string
  /** 32 random bytes, base64url. */
  readonly secret: string
}

export function versionOf(pool: Pool): SchemaVersion {
  const { number, planVersion, columns, timestamp, uniqueIdColumn, tenant, key, eventsPath } = pool
  const { keepEnvelope, cutsEpochs } = pool
  return {
    ...{ pool: number, version: planVersion, columns, timestamp, uniqueIdColumn, tenant },
    ...(key === undefined ? {} : { key }),
    ...(eventsPath === undefined ? {} : { eventsPath }),
    ...(keepEnvelope === undefined ? {} : { keepEnvelope }),
    ...(cutsEpochs === undefined ? {} : { cutsEpochs }),
  }
}

/** Kernels parse by it. Primary timestamp and unique id are required whatever `nullable` says. */
export function schemaOf(from: SchemaVersion): PoolSchema {
  const index = (name: string | null): number => {
    if (name === null) return -1
    const found = from.columns.findIndex(column => column.name === name)
    assert(found >= 0, `column ${name} of schema ${from.pool}/${from.version} exists`)
    return found
  }
  const timestamp = from.timestamp === RECEIVED_AT ? -1 : index(from.timestamp)
  const key = keyOf(from, index)
  const isKey = new Set(key === null ? [] : [...key.columns, key.version])
  // The unique id is required even where another key makes it a plain column.
  for (const each of [timestamp, index(from.uniqueIdColumn)]) isKey.add(each)
  return {
    pool: from.pool,
    version: from.version,
    columns: from.columns.map(({ nullable, clickHouseType: _, ...facts }, i) => {
      const column = { ...facts, required: !nullable || isKey.has(i) }
      return from.keepEnvelope === true ? inEnvelope(column, from.eventsPath ?? '') : column
    }),
    timestamp,
    tenant: index(from.tenant),
    key,
    ...(from.uniqueIdColumn === null ? {} : { uniqueId: index(from.uniqueIdColumn) }),
    ...(from.eventsPath === undefined ? {} : { eventsPath: from.eventsPath }),
    ...(from.keepEnvelope === undefined ? {} : { keepEnvelope: from.keepEnvelope }),
    ...(from.cutsEpochs === undefined ? {} : { cutsEpochs: from.cutsEpochs }),
  }
}

function keyOf(from: SchemaVersion, index: (name: string | null) => number): SchemaKey | null {
  const keyIndex = (name: string) => (name === RECEIVED_AT ? KEY_RECEIVED_AT : index(name))
  if (from.key === null) return null
  if (from.key !== undefined)
    return { columns: from.key.columns.map(keyIndex), version: index(from.key.version) }
  if (from.uniqueIdColumn === null) return null
  return { columns: [keyIndex(from.timestamp ?? RECEIVED_AT), index(from.uniqueIdColumn)], version: -1 }
}

export function shareSchema(schema: PoolSchema): SharedArrayBuffer {
  const json = Buffer.from(JSON.stringify(schema))
  const shared = new SharedArrayBuffer(json.byteLength)
  new Uint8Array(shared).set(json)
  return shared
}
