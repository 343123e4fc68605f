/**
 * The rules for the columns and keys of pools (docs/contract.md). Pure functions: each takes an
 * input and returns the checked values, or one sentence that names the problem. "" counts as not
 * given for names of objects, never for a column's own name.
 */

import { clickHouseTypeOf, mapClickHouseType } from '../../format/clickhouse-type.ts'
import { bodyPropertyProblem, propertyFacts, requestPart } from '../../format/json-property.ts'
import { COLUMN_TYPES, type ColumnType, NUMBER_TYPES, PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { assert, must } from '../../util/errors.ts'
import {
  COLUMN_NAME_BYTES_MAX,
  COLUMNS_MAX,
  CREDENTIAL_BYTES_MAX,
  JSON_PROPERTY_BYTES_MAX,
} from '../../util/limits.ts'
import type { BadRequest, ColumnInput, PoolInput } from '../documents/catalog-types.ts'
import type { BasicAuth, Columns, Pool, PoolColumn, TableSettings } from '../documents/model.ts'
import { keyOf, readTableSettings } from './table-settings.ts'

/** Characters of a ClickHouse type. */
export const CLICKHOUSE_TYPE_CHARACTERS_MAX = 256
/** Names that DuckDB gives to its own columns when it reads segments. */
const RESERVED = new Set(['file_row_number', 'filename', 'file_index', 'rowid'])
const OUR_PREFIX = '_service_'
export const TIME_TYPES: readonly ColumnType[] = ['DATE', 'TIMESTAMP']

export interface Checked extends Columns {
  readonly tableSettings: TableSettings | null
}

export function checkPool(input: PoolInput): Checked | BadRequest {
  const given = input.columns ?? []
  const timestamp = orNull(input.timestamp)
  const problem =
    columnsProblem(given, [], orNull(input.eventsPath)) ??
    (timestamp === RECEIVED_AT
      ? undefined
      : keyProblem(given, 'timestamp', timestamp, type => TIME_TYPES.includes(type))) ??
    keyProblem(given, 'uniqueId', input.uniqueId, type => type !== 'JSON') ??
    keyProblem(given, 'tenant', input.tenant, type => type !== 'JSON') ??
    eventsPathProblem(input)
  if (problem !== undefined) return { badRequest: problem }
  const columns = given.map(storedColumn)
  const uniqueIdColumn = orNull(input.uniqueId)
  const tableSettings = readTableSettings(input.tableSettings)
  if (tableSettings !== null && 'badRequest' in tableSettings) return tableSettings
  const key = keyOf(tableSettings, columns, timestamp, uniqueIdColumn)
  if (key !== null && key !== undefined && 'badRequest' in key) return key
  const eventsPath = orNull(input.eventsPath)
  return {
    ...{ columns, timestamp, uniqueIdColumn, tenant: orNull(input.tenant), tableSettings },
    ...(key === undefined ? {} : { key }),
    ...(eventsPath === null ? {} : { eventsPath }),
    ...(input.keepEnvelope === true ? { keepEnvelope: true } : {}),
    cutsEpochs: true,
  }
}

export function basicAuthProblem(basicAuth: BasicAuth | null | undefined): string | undefined {
  return (
    textProblem('basicAuth.username', basicAuth?.username, CREDENTIAL_BYTES_MAX) ??
    textProblem('basicAuth.password', basicAuth?.password, CREDENTIAL_BYTES_MAX)
  )
}

/** null for a value that counts as not given. */
export function orNull(text: string | null | undefined): string | null {
  return text === undefined || text === '' ? null : text
}

/**
 * The problem with new columns. @param before columns that the pool has or waits for: only their
 * names count, because earlier versions had other rules
 * @param eventsPath of the pool
 */
export function columnsProblem(
  columns: readonly ColumnInput[],
  before: readonly Pick<ColumnInput, 'name' | 'jsonProperty'>[] = [],
  eventsPath: string | null = null,
): string | undefined {
  const count = before.length + columns.length
  if (count > COLUMNS_MAX) return `A Data Pool has at most ${COLUMNS_MAX} columns, ${count} were given.`
  const seen = new Map(before.map(({ name }) => [name.toLowerCase(), name]))
  /** Each event repeats what its column reads of the request, so one column may read it. */
  const parts = new Map(before.map(({ name, jsonProperty }) => [partOf(jsonProperty), name]))
  for (const column of columns) {
    const problem = nameProblem(column.name) ?? columnProblem(column, eventsPath)
    if (problem !== undefined) return problem
    const same = seen.get(column.name.toLowerCase())
    if (same !== undefined)
      return `The columns "${same}" and "${column.name}" have the same name (case is ignored).`
    seen.set(column.name.toLowerCase(), column.name)
    const part = partOf(column.jsonProperty)
    const reader = part === undefined ? undefined : parts.get(part)
    if (reader !== undefined)
      return `The columns "${reader}" and "${column.name}" read the same part of the request.`
    parts.set(part, column.name)
  }
  return undefined
}

/** The part of the request that a property reads; undefined where it reads the event. */
function partOf(jsonProperty: string): string | undefined {
  const facts = propertyFacts(jsonProperty)
  if (!('from' in facts)) return undefined
  return facts.from === 'body' ? jsonProperty : JSON.stringify(requestPart(jsonProperty))
}

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

function columnProblem(column: ColumnInput, eventsPath: string | null): string | undefined {
  const { name, jsonProperty } = column
  if (jsonProperty === '') return `The column "${name}" has an empty jsonProperty.`
  if (Buffer.byteLength(jsonProperty) > JSON_PROPERTY_BYTES_MAX)
    return `The jsonProperty of column "${name}" is longer than ${JSON_PROPERTY_BYTES_MAX} bytes.`
  if (!isText(jsonProperty)) return `The jsonProperty of column "${name}" holds an unpaired surrogate.`
  return typeProblem(column) ?? clickHouseTypeProblem(column) ?? propertyProblem(column, eventsPath)
}

/** Headers and parameters are texts, so a column of another type coerces them. */
function propertyProblem(column: ColumnInput, eventsPath: string | null): string | undefined {
  const facts = propertyFacts(column.jsonProperty)
  if ('badRequest' in facts) return facts.badRequest
  const { name, type, coerce } = storedColumn(column)
  if (coerce === true && type === 'JSON')
    return `The column "${name}" has the type JSON, which coerce cannot be given for: it takes every value.`
  if (facts.from === 'body') return bodyPropertyProblem(column.jsonProperty, eventsPath)
  if (facts.from === undefined) return undefined
  if (type === 'JSON')
    return `The column "${name}" reads a text of the request, so its type cannot be JSON: give STRING.`
  if (coerce !== true && (type === 'BOOLEAN' || NUMBER_TYPES.includes(type)))
    return `The column "${name}" of type ${type} reads a text of the request: give it coerce, or the type STRING.`
  return undefined
}

/** A path that ends with an index or begins with "$." is a path of other systems. */
function eventsPathProblem({ eventsPath, keepEnvelope }: PoolInput): string | undefined {
  const path = orNull(eventsPath)
  if (path === null)
    return keepEnvelope === true
      ? 'keepEnvelope keeps the body around the events: give an eventsPath with it.'
      : undefined
  const tooLong = textProblem('eventsPath', path, JSON_PROPERTY_BYTES_MAX)
  if (tooLong !== undefined) return tooLong
  const names = path.split('.')
  const isPath = names[0] !== '$' && names.every(name => name !== '' && !/\[\d{0,4}\]$/.test(name))
  return isPath
    ? undefined
    : `The eventsPath ${JSON.stringify(path)} is no path: it holds names of objects with dots between them, such as "records" or "data.items".`
}

/** A column whose type is CLICKHOUSE has a ClickHouse type that maps onto one of ours. */
function typeProblem({ name, type, clickHouseType }: ColumnInput): string | undefined {
  if (type === 'CLICKHOUSE') {
    const given = orNull(clickHouseType)
    if (given === null) return `The column "${name}" has the type CLICKHOUSE and no clickHouseType.`
    if (given.length > CLICKHOUSE_TYPE_CHARACTERS_MAX || mapClickHouseType(given) === undefined)
      return `The column "${name}" has the ClickHouse type ${given.slice(0, CLICKHOUSE_TYPE_CHARACTERS_MAX)}, which Weir does not store.`
    return undefined
  }
  return (COLUMN_TYPES as readonly string[]).includes(type)
    ? undefined
    : `The column "${name}" has the type ${type}, which a column cannot have.`
}

/** Another clickHouseType would be lost. Clients send back the one that Weir shows. */
function clickHouseTypeProblem({ name, type, clickHouseType, nullable }: ColumnInput): string | undefined {
  const given = orNull(clickHouseType)
  if (type === 'CLICKHOUSE' || given === null) return undefined
  if (given === clickHouseTypeOf(type as ColumnType, nullable)) return undefined
  return `The column "${name}" has the type ${type} and the clickHouseType ${given.slice(0, CLICKHOUSE_TYPE_CHARACTERS_MAX)}: give the type CLICKHOUSE with it, or no clickHouseType.`
}

/** A checked column as the catalog keeps it. */
export function storedColumn(column: ColumnInput): PoolColumn {
  const { name, jsonProperty, nullable, clickHouseType, coerce } = column
  const facts = propertyFacts(jsonProperty)
  assert(!('badRequest' in facts), 'the property of a checked column')
  const rest = { ...facts, ...(coerce === true ? { coerce } : {}) }
  if (column.type !== 'CLICKHOUSE')
    return { name, jsonProperty, type: column.type as ColumnType, nullable, ...rest }
  const given = must(orNull(clickHouseType), 'the ClickHouse type of a checked column')
  const { type } = must(mapClickHouseType(given), 'a ClickHouse type that Weir stores')
  return { name, jsonProperty, type, nullable, clickHouseType: given, ...rest }
}

function keyProblem(
  columns: readonly ColumnInput[],
  what: string,
  name: string | null | undefined,
  fits: (type: ColumnType) => boolean,
): string | undefined {
  if (orNull(name) === null) return undefined
  const column = columns.find(each => each.name === name)
  const type = column && storedColumn(column).type
  if (type === undefined) return `The ${what} "${name}" names no column that was given.`
  return fits(type)
    ? undefined
    : `The ${what} "${name}" is a column of type ${type}, which cannot be the ${what}.`
}

export function textProblem(
  what: string,
  text: string | null | undefined,
  bytesMax: number,
): string | undefined {
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

/** The type of a pool's column, those of every pool included; undefined where it has none. */
export function columnTypeOf({ columns }: Pick<Pool, 'columns'>, name: string): ColumnType | undefined {
  if (name === RECEIVED_AT) return 'TIMESTAMP'
  if (name === PAYLOAD) return 'JSON'
  return columns.find(column => column.name === name)?.type
}
