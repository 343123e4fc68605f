/** The part of DuckDB's package that Weir uses. Importing it loads DuckDB. */
import type * as DuckDb from '@duckdb/node-api'
import { loadPackage } from './load-package.ts'

const duckdb = loadPackage('@duckdb/node-api') as typeof DuckDb

export const {
  DuckDBArrayType,
  DuckDBDataChunk,
  DuckDBDateValue,
  DuckDBInstance,
  DuckDBListType,
  DuckDBMapType,
  DuckDBPendingResultState,
  DuckDBStructType,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  StatementType,
  UINTEGER,
} = duckdb

/** Names of the package's constants that are types. */
type TypeName = {
  [Name in keyof typeof DuckDb]: (typeof DuckDb)[Name] extends DuckDb.DuckDBType ? Name : never
}[keyof typeof DuckDb]

/** DuckDB's type of this name. */
export function duckdbType(name: TypeName): DuckDb.DuckDBType {
  return duckdb[name]
}

export type DuckDBInstance = DuckDb.DuckDBInstance
export type DuckDBStructType = DuckDb.DuckDBStructType
export type DuckDBType = DuckDb.DuckDBType
export type DuckDBPendingResultState = DuckDb.DuckDBPendingResultState
export type DuckDBTypeId = DuckDb.DuckDBTypeId
