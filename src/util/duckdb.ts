/**
 * The part of DuckDB's package that Weir uses (load-package.ts). Importing it loads DuckDB, so only
 * threads that run it do.
 */
import type * as DuckDb from '@duckdb/node-api'
import { loadPackage } from './load-package.ts'

export const {
  BIGINT,
  BOOLEAN,
  DATE,
  DOUBLE,
  DuckDBDataChunk,
  DuckDBDateValue,
  DuckDBInstance,
  DuckDBPendingResultState,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  FLOAT,
  INTEGER,
  SMALLINT,
  StatementType,
  TIMESTAMP,
  TINYINT,
  UINTEGER,
  VARCHAR,
} = loadPackage('@duckdb/node-api') as typeof DuckDb

export type DuckDBInstance = DuckDb.DuckDBInstance
export type DuckDBPendingResultState = DuckDb.DuckDBPendingResultState
export type DuckDBTypeId = DuckDb.DuckDBTypeId
