/**
 * Values and types across DuckDB's border: bound values go in, each of its column's own type, so
 * that a comparison needs no cast; values come out as the strings that the API prints.
 */
import type { DuckDBType, DuckDBValue } from '@duckdb/node-api'
import { COLUMN_TYPE } from '../../format/schema.ts'
import {
  DuckDBDateValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  duckdbType,
} from '../../util/duckdb.ts'
import { printAnyDate, printAnyInstant, printNumber } from '../expression/print-values.ts'
import type { Bound } from '../expression/values.ts'

export function boundType(bound: Bound): DuckDBType {
  return duckdbType(COLUMN_TYPE[bound.type].duckdb)
}

export function duckdbValue({ type, value }: Bound): DuckDBValue {
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

/**
 * One value of a column of type `typeId`. NaN and infinite numbers are null, and so are times far
 * beyond the year 9999.
 */
export function printValue(value: unknown, typeId: DuckDBTypeId): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return printNumber(value, typeId === DuckDBTypeId.FLOAT)
  if (value instanceof DuckDBTimestampValue || value instanceof DuckDBTimestampTZValue)
    return printAnyInstant(value.micros)
  if (value instanceof DuckDBDateValue) return printAnyDate(value.days)
  return String(value)
}
