/** A planner's bound values as DuckDB's, each of the column's own type: comparisons then need no cast. */
import type { DuckDBType, DuckDBValue } from '@duckdb/node-api'
import type { ColumnType } from '../batch/plan.ts'
import {
  BIGINT,
  BOOLEAN,
  DATE,
  DOUBLE,
  DuckDBDateValue,
  DuckDBTimestampValue,
  FLOAT,
  INTEGER,
  SMALLINT,
  TIMESTAMP,
  TINYINT,
  VARCHAR,
} from '../util/duckdb.ts'
import type { Bound } from './protocol.ts'

const TYPE: Readonly<Record<ColumnType, DuckDBType>> = {
  BOOLEAN,
  STRING: VARCHAR,
  FLOAT,
  DOUBLE,
  INT8: TINYINT,
  INT16: SMALLINT,
  INT32: INTEGER,
  INT64: BIGINT,
  DATE,
  TIMESTAMP,
  JSON: VARCHAR,
}

/** DuckDB's type of a bound value. */
export function boundType(bound: Bound): DuckDBType {
  return TYPE[bound.type]
}

/** DuckDB's value of a bound value. */
export function boundValue({ type, value }: Bound): DuckDBValue {
  switch (type) {
    case 'INT64':
      return BigInt(value)
    case 'INT8':
    case 'INT16':
    case 'INT32':
      return Number(value)
    case 'DATE':
      return new DuckDBDateValue(Number(value))
    case 'TIMESTAMP':
      return new DuckDBTimestampValue(BigInt(value))
    default:
      return value
  }
}
