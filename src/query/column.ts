/** The columns that a query may name: the service's two, then the plan's. Names are exact. */
import { type ColumnType, PAYLOAD, type Plan, RECEIVED_AT } from '../batch/plan.ts'

/** A column as queries see it. */
export interface QueryColumn {
  readonly name: string
  readonly type: ColumnType
}

/** All columns of a plan in the order that clients see. `_service_sequence` is not one of them. */
export function queryColumns(plan: Plan): readonly QueryColumn[] {
  return [
    { name: RECEIVED_AT, type: 'TIMESTAMP' },
    { name: PAYLOAD, type: 'JSON' },
    ...plan.columns.map(({ name, type }) => ({ name, type })),
  ]
}

/** The column of that very name; a scan, so that `constructor` and `__proto__` are plain names. */
export function findColumn(plan: Plan, name: string): QueryColumn | undefined {
  if (name === RECEIVED_AT) return { name, type: 'TIMESTAMP' }
  if (name === PAYLOAD) return { name, type: 'JSON' }
  const column = plan.columns.find(each => each.name === name)
  return column === undefined ? undefined : { name, type: column.type }
}

/** The primary timestamp's column; `_service_received_at` in a pool without one. */
export function timestampColumn(plan: Plan): QueryColumn {
  const column = plan.columns[plan.timestamp]
  return column === undefined
    ? { name: RECEIVED_AT, type: 'TIMESTAMP' }
    : { name: column.name, type: column.type }
}

/** DuckDB's type of a column. JSON is kept as its text. */
export const DUCKDB_TYPE: Readonly<Record<ColumnType, string>> = {
  BOOLEAN: 'BOOLEAN',
  STRING: 'VARCHAR',
  FLOAT: 'FLOAT',
  DOUBLE: 'DOUBLE',
  INT8: 'TINYINT',
  INT16: 'SMALLINT',
  INT32: 'INTEGER',
  INT64: 'BIGINT',
  DATE: 'DATE',
  TIMESTAMP: 'TIMESTAMP',
  JSON: 'VARCHAR',
}
