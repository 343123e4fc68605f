/** DuckDB's values as the API prints them: strings or null. */
import {
  DuckDBDateValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBTypeId,
} from '../util/duckdb.ts'

const DAY_MS = 86_400_000

/** One value of a column of type `typeId`. Sums beyond a double's range have no number: null. */
export function printValue(value: unknown, typeId: DuckDBTypeId): string | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return printNumber(value, typeId === DuckDBTypeId.FLOAT)
  if (value instanceof DuckDBTimestampValue || value instanceof DuckDBTimestampTZValue)
    return printInstant(value.micros)
  if (value instanceof DuckDBDateValue) return printDate(value.days)
  return String(value)
}

/** UTC ISO with milliseconds, six digits where the microseconds are not zero. */
export function printInstant(us: bigint): string {
  const rest = Number(((us % 1000n) + 1000n) % 1000n)
  const iso = new Date(Number((us - BigInt(rest)) / 1000n)).toISOString()
  return rest === 0 ? iso : `${iso.slice(0, -1)}${String(rest).padStart(3, '0')}Z`
}

/** `YYYY-MM-DD`. */
export function printDate(days: number): string {
  return new Date(days * DAY_MS).toISOString().slice(0, 10)
}

function printNumber(value: number, single: boolean): string | null {
  if (!Number.isFinite(value)) return null
  return single ? shortestSingle(value) : String(value)
}

/** The shortest text that reads back as the same f32. Nine digits always do. */
export function shortestSingle(value: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return String(short)
  }
  return String(Number(value.toPrecision(9)))
}
