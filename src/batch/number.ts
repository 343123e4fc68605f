/**
 * Number literals, already validated, to values. Short ones are computed here digit by digit, exactly; the others
 * go through `Number` or `BigInt`, which cost a string each.
 */

/** This many digits are below 2^53 whatever they are. */
const DIGITS_EXACT = 15
/** 10^22 is the largest power of ten that a double holds exactly. */
const POWERS = Array.from({ length: 23 }, (_, power) => Number(`1e${power}`))

/** The integer of a literal without fraction and exponent; NaN where it is too long to be surely exact. */
export function shortInteger(bytes: Uint8Array, from: number, to: number): number {
  const negative = bytes[from] === 0x2d
  let pos = negative ? from + 1 : from
  if (to - pos > DIGITS_EXACT) return Number.NaN
  let value = 0
  for (; pos < to; pos++) value = 10 * value + (bytes[pos]! - 0x30)
  return negative ? 0 - value : value
}

/** The integer of any literal without fraction and exponent. */
export function longInteger(bytes: Buffer, from: number, to: number): bigint {
  return BigInt(bytes.toString('latin1', from, to))
}

/** The nearest double of any literal. */
export function nearestDouble(bytes: Buffer, from: number, to: number): number {
  const negative = bytes[from] === 0x2d
  let digits = 0
  let fraction = -1
  let value = 0
  for (let pos = negative ? from + 1 : from; pos < to; pos++) {
    const byte = bytes[pos]!
    if (byte === 0x2e) fraction = 0
    else if (byte > 0x39 || ++digits > DIGITS_EXACT) return Number(bytes.toString('latin1', from, to))
    else {
      value = 10 * value + (byte - 0x30)
      if (fraction >= 0) fraction++
    }
  }
  // Both operands are exact, so the one division rounds correctly (Clinger 1990).
  if (fraction > 0) value /= POWERS[fraction]!
  return negative ? -value : value
}
