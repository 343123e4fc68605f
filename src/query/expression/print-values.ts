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

/** The shortest text that reads back as the same f32. Nine digits always do. */
export function shortestSingle(value: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return String(short)
  }
  return String(Number(value.toPrecision(9)))
}
