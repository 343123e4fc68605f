/**
 * The columns of a user's statement as Parquet and Arrow hold them exactly, with names that differ.
 *
 *   HUGEINT                          DECIMAL(38, 0): Parquet has a double of it
 *   times without a zone             TIMESTAMP WITH TIME ZONE: an instant, as answers print it
 *   intervals, times of day, UUIDs   VARCHAR, and so is every type that is not named here
 *
 * Lists, structs and maps stay, with the types in them changed by the same rules.
 */
import type { DuckDBType } from '@duckdb/node-api'
import {
  DuckDBArrayType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  DuckDBTypeId,
} from '../../util/duckdb.ts'
import { must } from '../../util/errors.ts'
import { quoteName } from '../../util/sql.ts'

const TEXT = 'VARCHAR'
const INSTANT = 'TIMESTAMP WITH TIME ZONE'

const SAME: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.BOOLEAN,
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
  DuckDBTypeId.FLOAT,
  DuckDBTypeId.DOUBLE,
  DuckDBTypeId.DECIMAL,
  DuckDBTypeId.VARCHAR,
  DuckDBTypeId.BLOB,
  DuckDBTypeId.DATE,
  DuckDBTypeId.TIMESTAMP_TZ,
])

/** A statement whose result has the columns of another, and no row: DuckDB computes none. */
export function noRowOf(select: string): string {
  return `SELECT * FROM (${select}) LIMIT 0`
}

/**
 * A statement with those columns, and their names.
 * @param names of the columns of `noRowOf`: DuckDB makes those of a subquery different
 */
export function parquetColumns(
  select: string,
  names: readonly string[],
  types: readonly DuckDBType[],
  rowsMax: number,
): { readonly sql: string; readonly names: readonly string[] } {
  const columns = names.map((name, index) => {
    const type = must(types[index], 'the type of a column')
    const stored = storedType(type)
    if (type.typeId === DuckDBTypeId.TIMESTAMP) {
      const column = quoteName(name)
      // The cast takes six times as long.
      return `make_timestamptz(epoch_us(${column})) AS ${column}`
    }
    return stored === String(type)
      ? quoteName(name)
      : `CAST(${quoteName(name)} AS ${stored}) AS ${quoteName(name)}`
  })
  return { sql: `SELECT ${columns.join(', ')} FROM (${select}) LIMIT ${Math.trunc(rowsMax)}`, names }
}

function storedType(type: DuckDBType): string {
  if (type instanceof DuckDBListType || type instanceof DuckDBArrayType)
    return `${storedType(type.valueType)}[]`
  if (type instanceof DuckDBMapType) return `MAP(${storedType(type.keyType)}, ${storedType(type.valueType)})`
  if (type instanceof DuckDBStructType) {
    const names = type.entryNames.map(name => name.toLowerCase())
    if (names.includes('') || new Set(names).size < names.length) return TEXT
    return `STRUCT(${type.entryNames.map((name, index) => `${quoteName(name)} ${storedType(must(type.entryTypes[index], 'a field'))}`).join(', ')})`
  }
  switch (type.typeId) {
    case DuckDBTypeId.HUGEINT:
      return 'DECIMAL(38,0)'
    case DuckDBTypeId.TIMESTAMP:
    case DuckDBTypeId.TIMESTAMP_S:
    case DuckDBTypeId.TIMESTAMP_MS:
      return INSTANT
    default:
      return SAME.has(type.typeId) ? String(type) : TEXT
  }
}
