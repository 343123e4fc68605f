/** Values as the texts that the API prints. */

const DAY_MS = 86_400_000

/** UTC ISO with milliseconds, six digits where the microseconds are not zero. */
export function printInstant(us: bigint): string {
  const rest = Number(((us % 1000n) + 1000n) % 1000n)
  const iso = new Date(Number((us - BigInt(rest)) / 1000n)).toISOString()
  return rest === 0 ? iso : `${iso.slice(0, -1)}${String(rest).padStart(3, '0')}Z`
}

/** `YYYY-MM-DD`, and outside of the years 0 to 9999 `+YYYYYY-MM-DD` or `-YYYYYY-MM-DD`. */
export function printDate(days: number): string {
  const iso = new Date(days * DAY_MS).toISOString()
  return iso.slice(0, iso.indexOf('T'))
}

/** The range of a JavaScript Date. */
const DATE_MS_MAX = 8_640_000_000_000_000 - DAY_MS

/** False for infinite times, and those that only an expression makes: no column has them. */
function isPrintable(ms: number): boolean {
  return Math.abs(ms) <= DATE_MS_MAX
}

/** The instant, or null far beyond the year 9999. */
export function printAnyInstant(us: bigint): string | null {
  return isPrintable(Number(us / 1000n)) ? printInstant(us) : null
}

/** The same for a date. */
export function printAnyDate(days: number): string | null {
  return isPrintable(days * DAY_MS) ? printDate(days) : null
}

/** NaN and infinite numbers, such as a sum beyond a double's range, are null. */
export function printNumber(value: number, single: boolean): string | null {
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
