/**
 * The settings of a pool's table as callers give them: read, bounded, and turned into the pool's
 * key.
 */
import { VERSION_TYPES } from '../../format/key.ts'
import { RECEIVED_AT } from '../../format/schema.ts'
import type { BadRequest, TableSettingsGiven } from '../documents/catalog-types.ts'
import type { NamedKey, Pool, PoolColumn, TableEngine, TableSettings } from '../documents/model.ts'

/** Entries of each list of table settings. */
export const TABLE_SETTINGS_NAMES_MAX = 32
/** Bytes of an entry of table settings in UTF-8: an expression over columns. */
export const TABLE_SETTINGS_TEXT_BYTES_MAX = 1_024

/** Eight texts of KEY_PART_BYTES_MAX make a key of 1,608 bytes; LMDB takes at most 1,978. */
export const KEY_COLUMNS_MAX = 8

const REFUSED: Readonly<Record<string, string>> = {
  summingMergeTree:
    'The table engine SUMMING_MERGE_TREE is not served, because Weir keeps each row as it came: leave "engine" out, and query the sums with a SUM Metric.',
  aggregatingMergeTree:
    'The table engine AGGREGATING_MERGE_TREE is not served, because Weir keeps each row as it came: leave "engine" out, and query the aggregates with Metrics.',
  postgreSql:
    'The table engine POSTGRESQL is not served, because Weir stores columnar segments: leave "engine" out, or give replacingMergeTree.',
}

/** The settings as given, null where none are; or the problem. */
export function readTableSettings(
  given: TableSettingsGiven | null | undefined,
): TableSettings | BadRequest | null {
  if (given === null || given === undefined) return null
  const engine = readEngine(given.engine)
  if (engine !== null && 'badRequest' in engine) return engine
  const { partitionBy = null, primaryKey = null, orderBy = null } = given
  const lists = { partitionBy, primaryKey, orderBy }
  for (const [name, list] of Object.entries(lists)) {
    const problem = listProblem(name, list ?? [])
    if (problem !== undefined) return { badRequest: problem }
  }
  if ((given.ttl ?? '') !== '')
    return {
      badRequest:
        'tableSettings.ttl is not served: leave it out, and set dataRetentionInDays with modifyDataPool.',
    }
  return { engine, ...lists, ttl: null }
}

/** One member of `engine` is given; clients send the others as null. */
function readEngine(engine: TableSettingsGiven['engine']): TableEngine | BadRequest | null {
  const given = Object.entries(engine ?? {}).filter(([, value]) => value !== null && value !== undefined)
  const [first, second] = given
  if (first === undefined) return null
  if (second !== undefined) return { badRequest: 'tableSettings.engine must have exactly one member.' }
  const [name, value] = first
  if (name === 'mergeTree') return { type: 'MERGE_TREE' }
  if (name === 'replacingMergeTree') {
    const { ver } = value as { readonly ver?: string | null }
    return { type: 'REPLACING_MERGE_TREE', ver: ver === undefined || ver === '' ? null : ver }
  }
  return { badRequest: REFUSED[name] ?? `There is no table engine ${name}.` }
}

function listProblem(name: string, list: readonly string[]): string | undefined {
  if (list.length > TABLE_SETTINGS_NAMES_MAX)
    return `tableSettings.${name} has at most ${TABLE_SETTINGS_NAMES_MAX} entries.`
  return list.some(text => Buffer.byteLength(text) > TABLE_SETTINGS_TEXT_BYTES_MAX)
    ? `An entry of tableSettings.${name} is longer than ${TABLE_SETTINGS_TEXT_BYTES_MAX} bytes.`
    : undefined
}

/** undefined means (timestamp, unique id), null means that every event is its own record. */
export function keyOf(
  settings: TableSettings | null,
  columns: readonly PoolColumn[],
  timestamp: string | null,
  uniqueId: string | null,
): NamedKey | null | undefined | BadRequest {
  if (settings === null) return undefined
  const orderBy = settings.orderBy ?? []
  const { engine } = settings
  const version = engine?.type === 'REPLACING_MERGE_TREE' ? engine.ver : null
  const problem = orderByProblem(orderBy, columns) ?? versionProblem(version, columns)
  if (problem !== undefined) return { badRequest: problem }
  if (engine?.type === 'MERGE_TREE') return null
  if (orderBy.length > 0) return { columns: orderBy, version }
  if (version === null) return undefined
  return uniqueId === null
    ? { badRequest: `The version column "${version}" needs a key: give orderBy or a unique id.` }
    : { columns: [timestamp ?? RECEIVED_AT, uniqueId], version }
}

function orderByProblem(names: readonly string[], columns: readonly PoolColumn[]): string | undefined {
  if (names.length > KEY_COLUMNS_MAX)
    return `tableSettings.orderBy names ${names.length} columns; a key has at most ${KEY_COLUMNS_MAX}.`
  for (const [i, name] of names.entries()) {
    const type = name === RECEIVED_AT ? 'TIMESTAMP' : columns.find(column => column.name === name)?.type
    if (type === undefined)
      return `tableSettings.orderBy names "${name}", which is no column of the Data Pool. Expressions are not served.`
    if (type === 'JSON')
      return `tableSettings.orderBy names "${name}", a column of type JSON, which cannot be part of a key.`
    if (names.indexOf(name) < i) return `tableSettings.orderBy names "${name}" twice.`
  }
  return undefined
}

function versionProblem(version: string | null, columns: readonly PoolColumn[]): string | undefined {
  if (version === null) return undefined
  const type = columns.find(column => column.name === version)?.type
  if (type === undefined)
    return `The version column "${version}" of the table engine is no column of the Data Pool.`
  return VERSION_TYPES.has(type)
    ? undefined
    : `The version column "${version}" is of type ${type}; a version is a number, a DATE or a TIMESTAMP.`
}

/**
 * Why rows of a pool with this key must not expire; undefined where they may. The highest version
 * of a key could expire before a lower one that it beat, and a rebuild would bring that one back.
 */
export function expiryProblem({ key, timestamp }: Pick<Pool, 'key' | 'timestamp'>): string | undefined {
  if (key === undefined || key === null || key.version === null) return undefined
  const time = timestamp ?? RECEIVED_AT
  return key.columns.includes(time) || key.version === time
    ? undefined
    : `This Data Pool has a version column, so its rows can expire only where its timestamp ("${time}") is in orderBy or is the version column: dataRetentionInDays must be 0.`
}
