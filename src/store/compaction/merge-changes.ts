/**
 * The SQL of a job's changes in a merge: rows of the one input that leave, and columns that get new
 * values (format/row-changes.ts).
 *
 * The query process found the changes, over the expressions of a user. Here they are data: every
 * statement is our own.
 */
import { changedName, ROW_NUMBER } from '../../format/row-changes.ts'
import { COLUMN_TYPE, type ColumnType, type PoolSchema } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { quoteText } from '../../util/sql.ts'
import type { MergeChanges } from './compaction-types.ts'

/** The type in SQL of a column of a segment. Parquet's timestamps are UTC in every file. */
export function storedType(type: ColumnType): string {
  return type === 'TIMESTAMP' ? 'TIMESTAMPTZ' : COLUMN_TYPE[type].duckdb
}

/** The numbers of the rows that leave. */
export function removedSql({ file }: MergeChanges): string {
  return `SELECT ${ROW_NUMBER} FROM ${changesTable(file)}`
}

/** The join with the changes, whose rows have the alias `u`, for a scan with the alias `s`. */
export function changesJoin({ file, set }: MergeChanges): string {
  if (set.length === 0) return ''
  return ` LEFT JOIN ${changesTable(file)} u ON s.file_row_number = u.${ROW_NUMBER}`
}

/**
 * The value of the column at `at` of the schema in the new segment.
 * @param stored SQL of the value that the input has
 */
export function valueAfter(
  stored: string,
  schema: PoolSchema,
  at: number,
  set: readonly number[] = [],
): string {
  const index = set.indexOf(at)
  if (index < 0) return stored
  const changed = newValue(`u.${changedName(index)}`, columnAt(schema, at).type)
  return `CASE WHEN u.${ROW_NUMBER} IS NULL THEN ${stored} ELSE ${changed} END`
}

/**
 * One row: of each column that is set, the number of null values and the bytes of the longest text.
 */
export function valuesSql({ file, set }: MergeChanges, schema: PoolSchema): string {
  const columns = set.flatMap((at, index) => {
    const { type } = columnAt(schema, at)
    const isText = type === 'STRING' || type === 'JSON'
    const value = newValue(changedName(index), type)
    return [`COUNT(*) FILTER (${value} IS NULL)`, isText ? `MAX(strlen(${value}))` : '0']
  })
  return `SELECT ${columns.join(', ')} FROM ${changesTable(file)}`
}

/**
 * A sentence why values cannot be stored, by a row as valuesSql selects it; or undefined.
 * @param part of the pool that was read
 */
export function problemOf(
  { set }: Pick<MergeChanges, 'set'>,
  schema: PoolSchema,
  row: readonly (string | number | bigint | null)[],
  part = 'segment',
): string | undefined {
  for (const [index, at] of set.entries()) {
    const { name, required } = columnAt(schema, at)
    const [nulls, bytes] = [Number(row[2 * index] ?? 0), Number(row[2 * index + 1] ?? 0)]
    const which = `the expression of column ${JSON.stringify(name)}`
    if (required && nulls > 0)
      return `${which} is null for ${nulls} records of one ${part}, and the column is required`
    if (bytes > BODY_BYTES_MAX)
      return `${which} has a value of ${bytes} bytes, and an event has at most ${BODY_BYTES_MAX}`
  }
  return undefined
}

/**
 * As ingest stores it: JSON null is null, and -0 is 0. A value that ingest refuses is null: NaN, an
 * infinite number, and a time outside of the years 0001 to 9999.
 */
function newValue(value: string, type: ColumnType): string {
  const typed = `${value}::${storedType(type)}`
  switch (type) {
    case 'JSON':
      return `nullif(${typed}, 'null')`
    case 'FLOAT':
    case 'DOUBLE':
      return `CASE WHEN isfinite(${typed}) THEN ${typed} + 0 END`
    case 'DATE':
      return `CASE WHEN ${typed} BETWEEN '0001-01-01'::DATE AND '9999-12-31'::DATE THEN ${typed} END`
    case 'TIMESTAMP':
      return `CASE WHEN ${typed} BETWEEN ${FIRST_TIME} AND ${LAST_TIME} THEN ${typed} END`
    default:
      return typed
  }
}

const FIRST_TIME = "'0001-01-01 00:00:00+00'::TIMESTAMPTZ"
const LAST_TIME = "'9999-12-31 23:59:59.999999+00'::TIMESTAMPTZ"

function columnAt({ columns }: PoolSchema, at: number) {
  return must(columns[at], 'a column that is set')
}

function changesTable(file: string): string {
  return `read_parquet(${quoteText(file)})`
}
