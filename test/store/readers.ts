/**
 * Reads a segment's file with other readers of Parquet. Values are text, equal to the rows that
 * went in.
 */
import type { DuckDBConnection } from '@duckdb/node-api'
import type { PoolSchema } from '../../src/format/schema.ts'
import type { Row, Value } from '../util/make-batch.ts'
import { readByHyparquet } from '../util/read-parquet.ts'

/** A stored value as text, from what was put in. */
function textOf(value: Value, type: string): string | null {
  if (value === null) return null
  if (type === 'DATE') return String(value)
  if (type === 'FLOAT' || type === 'DOUBLE') return String(Number(value))
  return String(value)
}

/**
 * The rows that readers must give, as text, in the file's column order. `requests` as in `post`.
 */
export function expectedRows(
  schema: PoolSchema,
  rows: readonly Row[],
  requests: readonly (readonly number[])[],
) {
  const perRow = requests.flatMap(([sequence, received, count, stepUs = 0]) =>
    Array.from({ length: count! }, (_, row) => [String(received! + stepUs * row), String(sequence)]),
  )
  return rows.map((row, i) => [
    perRow[i]![0]!,
    String(row.payload),
    ...row.values!.map((value, c) => textOf(value, schema.columns[c]!.type)),
    perRow[i]![1]!,
  ])
}

/** All rows of a file as DuckDB reads them, as text. */
export async function readByDuckDb(
  duck: DuckDBConnection,
  schema: PoolSchema,
  file: string,
): Promise<(string | null)[][]> {
  const columns = schema.columns.map(({ name, type }) => {
    if (type === 'TIMESTAMP') return `epoch_us("${name}")::varchar`
    if (type === 'DATE') return `("${name}" - DATE '1970-01-01')::varchar`
    return type === 'FLOAT' || type === 'DOUBLE' ? `"${name}"::double` : `"${name}"::varchar`
  })
  const all = [
    'epoch_us(_service_received_at)::varchar',
    '_service_payload',
    ...columns,
    '_service_sequence::varchar',
  ]
  const reader = await duck.runAndReadAll(`SELECT ${all.join(', ')} FROM read_parquet('${file}')`)
  return reader.getRows().map(row => row.map(value => (value === null ? null : String(value))))
}

/** All rows of a file as hyparquet reads them, as text. */
export async function textsByHyparquet(schema: PoolSchema, bytes: Uint8Array): Promise<(string | null)[][]> {
  const objects = await readByHyparquet(bytes)
  const names = [
    '_service_received_at',
    '_service_payload',
    ...schema.columns.map(c => c.name),
    '_service_sequence',
  ]
  return objects.map(object =>
    names.map(name => (object[name] === null || object[name] === undefined ? null : String(object[name]))),
  )
}
