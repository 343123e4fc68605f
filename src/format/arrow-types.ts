/** The Arrow type of each type of column. Loads apache-arrow. */
import {
  Bool,
  type DataType,
  DateDay,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  TimestampMicrosecond,
  Utf8,
} from 'apache-arrow'
import type { ColumnType } from './schema.ts'

/** JSON is its text: readers that do not know the `arrow.json` extension warn or refuse. */
const ARROW_TYPE: Readonly<Record<ColumnType, () => DataType>> = {
  BOOLEAN: () => new Bool(),
  STRING: () => new Utf8(),
  FLOAT: () => new Float32(),
  DOUBLE: () => new Float64(),
  INT8: () => new Int8(),
  INT16: () => new Int16(),
  INT32: () => new Int32(),
  INT64: () => new Int64(),
  DATE: () => new DateDay(),
  TIMESTAMP: () => new TimestampMicrosecond('UTC'),
  JSON: () => new Utf8(),
}

export function arrowType(type: ColumnType): DataType {
  return ARROW_TYPE[type]()
}
