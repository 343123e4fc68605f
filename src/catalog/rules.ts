/**
 * The rules for new pools and for changes of pools (docs/contract.md). Pure functions: each takes
 * an input and returns the checked values, or one sentence that names the problem. "" counts as not
 * given for names of objects, never for a column's own name.
 */
import { COLUMN_TYPES, type ColumnType, PAYLOAD, RECEIVED_AT } from '../format/schema.ts'
import { newId } from '../util/ids.ts'
import {
  COLUMN_NAME_BYTES_MAX,
  COLUMNS_MAX,
  CREDENTIAL_BYTES_MAX,
  DESCRIPTION_BYTES_MAX,
  JSON_PROPERTY_BYTES_MAX,
  RETENTION_DAYS_MAX,
  UNIQUE_NAME_BYTES_MAX,
} from '../util/limits.ts'
import type {
  BadRequest,
  ColumnInput,
  Entry,
  NewWebhookSource,
  PoolChange,
  TableSettingsGiven,
  Target,
} from './catalog-types.ts'
import { keys } from './memory.ts'
import { type DataSource, type Meta, type Pool, versionOf, type WebhookColumn } from './model.ts'

/** Names that DuckDB gives to its own columns when it reads segments. */
const RESERVED = new Set(['file_row_number', 'filename', 'file_index', 'rowid'])
const OUR_PREFIX = '_service_'

/** The columns and keys of a new pool, checked. */
export interface Checked {
  readonly columns: readonly WebhookColumn[]
  /** null means the received-at column. */
  readonly timestamp: string | null
  readonly uniqueIdColumn: string | null
  readonly tenant: string | null
}

/** The columns and keys of `input`, or the problem with them. */
export function checkCreation(input: NewWebhookSource): Checked | BadRequest {
  const given = input.columns ?? []
  const problem =
    textProblem('uniqueName', input.uniqueName, UNIQUE_NAME_BYTES_MAX) ??
    textProblem('description', input.description, DESCRIPTION_BYTES_MAX) ??
    textProblem('basicAuth.username', input.basicAuth?.username, CREDENTIAL_BYTES_MAX) ??
    textProblem('basicAuth.password', input.basicAuth?.password, CREDENTIAL_BYTES_MAX) ??
    columnsProblem(given) ??
    keyProblem(
      given,
      'timestamp',
      defaultTimestamp(input.timestamp),
      type => type === 'TIMESTAMP' || type === 'DATE',
    ) ??
    keyProblem(given, 'uniqueId', input.uniqueId, type => type !== 'JSON') ??
    keyProblem(given, 'tenant', input.tenant, type => type !== 'JSON') ??
    tableSettingsProblem(input.tableSettings)
  if (problem !== undefined) return { badRequest: problem }
  return {
    columns: given.map(({ name, jsonProperty, type, nullable }) => ({
      name,
      jsonProperty,
      type: type as ColumnType,
      nullable,
    })),
    timestamp: orNull(defaultTimestamp(input.timestamp)),
    uniqueIdColumn: orNull(input.uniqueId),
    tenant: orNull(input.tenant),
  }
}

/**
 * The fields of a pool as `change` makes them, or the problem. Whether the name is free is not
 * checked here.
 */
export function checkChange(
  pool: Pool,
  change: PoolChange,
): Pick<Pool, 'uniqueName' | 'description' | 'retentionDays' | 'accessControlEnabled'> | BadRequest {
  const retentionDays = change.dataRetentionInDays ?? pool.retentionDays
  if (!Number.isInteger(retentionDays) || retentionDays < 0 || retentionDays > RETENTION_DAYS_MAX)
    return {
      badRequest: `dataRetentionInDays is 0 (for ever) to ${RETENTION_DAYS_MAX}, not ${retentionDays}.`,
    }
  const problem =
    textProblem('uniqueName', change.uniqueName, UNIQUE_NAME_BYTES_MAX) ??
    textProblem('description', change.description, DESCRIPTION_BYTES_MAX)
  if (problem !== undefined) return { badRequest: problem }
  const timestamp = orNull(change.timestamp?.columnName)
  if (timestamp !== null && timestamp !== (pool.timestamp ?? RECEIVED_AT))
    return { badRequest: `The timestamp of a Data Pool cannot be changed (to "${timestamp}").` }
  if (change.syncing !== undefined && change.syncing !== null)
    return { badRequest: 'A Data Pool of a webhook is not synced: syncing cannot be set.' }
  return {
    uniqueName: orNull(change.uniqueName) ?? pool.uniqueName,
    description: change.description ?? pool.description,
    retentionDays,
    accessControlEnabled: change.accessControlEnabled ?? pool.accessControlEnabled,
  }
}

/** null for a value that counts as not given. */
export function orNull(text: string | null | undefined): string | null {
  return text === undefined || text === '' ? null : text
}

/** Naming the received-at column means the default. */
function defaultTimestamp(name: string | null | undefined): string | null {
  return name === RECEIVED_AT ? null : orNull(name)
}

function columnsProblem(columns: readonly ColumnInput[]): string | undefined {
  if (columns.length > COLUMNS_MAX)
    return `A Data Pool has at most ${COLUMNS_MAX} columns, ${columns.length} were given.`
  const seen = new Map<string, string>()
  for (const column of columns) {
    const problem = nameProblem(column.name) ?? columnProblem(column)
    if (problem !== undefined) return problem
    const same = seen.get(column.name.toLowerCase())
    if (same !== undefined)
      return `The columns "${same}" and "${column.name}" have the same name (case is ignored).`
    seen.set(column.name.toLowerCase(), column.name)
  }
  return undefined
}

/** The problem with a column's name alone. */
function nameProblem(name: string): string | undefined {
  if (name === '') return 'A column has an empty name.'
  if (!isText(name) || name.includes('\u0000'))
    return `The column name ${JSON.stringify(name)} holds a NUL or an unpaired surrogate.`
  if (Buffer.byteLength(name) > COLUMN_NAME_BYTES_MAX)
    return `The column name "${name}" is longer than ${COLUMN_NAME_BYTES_MAX} bytes.`
  const lower = name.toLowerCase()
  if (lower.startsWith(OUR_PREFIX))
    return `The column name "${name}" begins with "${OUR_PREFIX}", which is reserved.`
  if (RESERVED.has(lower)) return `The column name "${name}" is reserved.`
  return undefined
}

function columnProblem({ name, jsonProperty, type }: ColumnInput): string | undefined {
  if (jsonProperty === '') return `The column "${name}" has an empty jsonProperty.`
  if (Buffer.byteLength(jsonProperty) > JSON_PROPERTY_BYTES_MAX)
    return `The jsonProperty of column "${name}" is longer than ${JSON_PROPERTY_BYTES_MAX} bytes.`
  if (!isText(jsonProperty)) return `The jsonProperty of column "${name}" holds an unpaired surrogate.`
  if (!(COLUMN_TYPES as readonly string[]).includes(type))
    return `The column "${name}" has the type ${type}, which a webhook column cannot have.`
  return undefined
}

/** The problem with `name` as the key `what`: it must be a column of a type that `fits`. */
function keyProblem(
  columns: readonly ColumnInput[],
  what: string,
  name: string | null | undefined,
  fits: (type: string) => boolean,
): string | undefined {
  if (orNull(name) === null) return undefined
  const type = name === RECEIVED_AT || name === PAYLOAD ? undefined : columns.find(c => c.name === name)?.type
  if (type === undefined) return `The ${what} "${name}" names no column that was given.`
  return fits(type)
    ? undefined
    : `The ${what} "${name}" is a column of type ${type}, which cannot be the ${what}.`
}

function tableSettingsProblem(settings: TableSettingsGiven | null | undefined): string | undefined {
  if (settings === null || settings === undefined) return undefined
  const lists = [settings.partitionBy, settings.primaryKey, settings.orderBy]
  const engine = Object.values(settings.engine ?? {}).some(value => value !== null && value !== undefined)
  const given = engine || orNull(settings.ttl) !== null || lists.some(list => (list ?? []).length > 0)
  return given ? 'tableSettings other than empty ones are not supported by this version.' : undefined
}

/** The problem with a text that the catalog stores. */
function textProblem(what: string, text: string | null | undefined, bytesMax: number): string | undefined {
  if (text === null || text === undefined) return undefined
  if (Buffer.byteLength(text) > bytesMax) return `The ${what} is longer than ${bytesMax} bytes.`
  return isText(text) && !text.includes('\u0000')
    ? undefined
    : `The ${what} holds a NUL or an unpaired surrogate.`
}

/** True where the text can be written as UTF-8 without loss. */
function isText(text: string): boolean {
  return Buffer.from(text).toString() === text
}

/** The documents of a new webhook data source and its pool. */

interface Made {
  readonly target: Target
  /** Source, pool, its first schema version, and the meta document with the next pool number. */
  readonly puts: readonly Entry[]
}

/**
 * The source and the pool share a unique name, because clients find the pool by the name of the
 * source.
 */
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
      [keys.schema(version.pool, version.version), version],
      [keys.meta, nextMeta],
    ],
  }
}
