/** Answers of plain DuckDB, printed as the docs say that Weir prints values. */
import {
  DuckDBArrayValue,
  type DuckDBConnection,
  DuckDBDateValue,
  DuckDBDecimalValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
  type DuckDBValue,
} from '@duckdb/node-api'

/** Names and rows, or the error. */
export type Answer =
  | { readonly names: readonly string[]; readonly rows: readonly (readonly (string | null)[])[] }
  | { readonly error: string }

export async function plainAnswer(
  connection: DuckDBConnection,
  query: string,
  parameters?: unknown,
): Promise<Answer> {
  try {
    const result = await connection.run(query, parameters as never)
    const rows = await result.getRows()
    const isFloat = result.columnTypes().map(({ typeId }) => typeId === DuckDBTypeId.FLOAT)
    return {
      names: result.columnNames(),
      rows: rows.map(row => row.map((value, at) => (isFloat[at] ? single(value) : printed(value)))),
    }
  } catch (error) {
    return { error: String(error) }
  }
}

/** A FLOAT has as few digits as tell it from others. */
function single(value: DuckDBValue): string | null {
  const digits = Array.from({ length: 9 }, (_, at) => Number(Number(value).toPrecision(at + 1)))
  return value === null ? null : String(digits.find(each => Math.fround(each) === value))
}

/** Times are UTC, with milliseconds, or with microseconds where these are not 0. */
function instant(micros: bigint): string {
  const ms = new Date(Number(micros / 1000n)).toISOString()
  return micros % 1000n === 0n ? ms : `${ms.slice(0, -1)}${String(micros % 1000n).padStart(3, '0')}Z`
}

function printed(value: DuckDBValue): string | null {
  if (value === null) return null
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : null
  if (value instanceof DuckDBTimestampValue || value instanceof DuckDBTimestampTZValue)
    return instant(value.micros)
  if (value instanceof DuckDBDateValue) return value.toString()
  return isNested(value) ? json(value) : String(value)
}

const isNested = (value: DuckDBValue) =>
  value instanceof DuckDBListValue ||
  value instanceof DuckDBArrayValue ||
  value instanceof DuckDBStructValue ||
  value instanceof DuckDBMapValue

/** The text of a value in JSON: numbers with all of their digits. */
function json(value: DuckDBValue): string {
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue)
    return `[${value.items.map(json).join()}]`
  if (value instanceof DuckDBStructValue) return objectOf(Object.entries(value.entries))
  if (value instanceof DuckDBMapValue)
    return objectOf(value.entries.map(({ key, value: each }) => [printed(key) ?? 'null', each]))
  const isPlain =
    ['number', 'bigint', 'boolean'].includes(typeof value) || value instanceof DuckDBDecimalValue
  return isPlain ? String(value) : JSON.stringify(printed(value))
}

const objectOf = (entries: readonly (readonly [string, DuckDBValue])[]): string =>
  `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${json(value)}`).join()}}`
