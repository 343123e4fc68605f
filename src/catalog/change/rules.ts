/**
 * The rules for the columns and keys of pools (docs/contract.md). Pure functions: each takes an
 * input and returns the checked values, or one sentence that names the problem. "" counts as not
 * given for names of objects, never for a column's own name.
 */

import { clickHouseTypeOf, mapClickHouseType } from '../../format/clickhouse-type.ts'
import { COLUMN_TYPES, type ColumnType, PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import {
  CLICKHOUSE_TYPE_CHARACTERS_MAX,
  COLUMN_NAME_BYTES_MAX,
  COLUMNS_MAX,
  CREDENTIAL_BYTES_MAX,
  JSON_PROPERTY_BYTES_MAX,
} from '../../util/limits.ts'
import type { BadRequest, ColumnInput, PoolInput } from '../documents/catalog-types.ts'
import type { BasicAuth, Columns, Pool, PoolColumn, TableSettings } from '../documents/model.ts'
import { keyOf, readTableSettings } from './table-settings.ts'

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
    columnsProblem(given) ??
    (timestamp === RECEIVED_AT
      ? undefined
      : keyProblem(given, 'timestamp', timestamp, type => TIME_TYPES.includes(type))) ??
    keyProblem(given, 'uniqueId', input.uniqueId, type => type !== 'JSON') ??
    keyProblem(given, 'tenant', input.tenant, type => type !== 'JSON')
  if (problem !== undefined) return { badRequest: problem }
  const columns = given.map(storedColumn)
  const uniqueIdColumn = orNull(input.uniqueId)
  const tableSettings = readTableSettings(input.tableSettings)
  if (tableSettings !== null && 'badRequest' in tableSettings) return tableSettings
  const key = keyOf(tableSettings, columns, timestamp, uniqueIdColumn)
  if (key !== null && key !== undefined && 'badRequest' in key) return key
  const checked = { columns, timestamp, uniqueIdColumn, tenant: orNull(input.tenant), tableSettings }
  return key === undefined ? checked : { ...checked, key }
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

export function columnsProblem(columns: readonly ColumnInput[]): string | undefined {
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

function columnProblem(column: ColumnInput): string | undefined {
  const { name, jsonProperty } = column
  if (jsonProperty === '') return `The column "${name}" has an empty jsonProperty.`
  if (Buffer.byteLength(jsonProperty) > JSON_PROPERTY_BYTES_MAX)
    return `The jsonProperty of column "${name}" is longer than ${JSON_PROPERTY_BYTES_MAX} bytes.`
  if (!isText(jsonProperty)) return `The jsonProperty of column "${name}" holds an unpaired surrogate.`
  return typeProblem(column) ?? clickHouseTypeProblem(column)
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

/** A column of a pool as it was given: the reverse of storedColumn. */
export function givenColumn(column: PoolColumn): ColumnInput {
  return column.clickHouseType === undefined ? column : { ...column, type: 'CLICKHOUSE' }
}

export function storedColumn(column: ColumnInput): PoolColumn {
  const { name, jsonProperty, nullable, clickHouseType } = column
  if (column.type !== 'CLICKHOUSE') return { name, jsonProperty, type: column.type as ColumnType, nullable }
  const given = must(orNull(clickHouseType), 'the ClickHouse type of a checked column')
  const { type } = must(mapClickHouseType(given), 'a ClickHouse type that Weir stores')
  return { name, jsonProperty, type, nullable, clickHouseType: given }
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
