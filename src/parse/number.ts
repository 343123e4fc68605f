/**
 * The values of number literals, which the scanner has validated. Short ones are computed here
 * digit by digit, exactly. The others go through `Number` or `BigInt`, which cost a string each.
 */

/** This many digits are below 2^53 whatever they are. */
const DIGITS_EXACT = 15
/** 10^22 is the largest power of ten that a double holds exactly. */
const POWERS = Array.from({ length: 23 }, (_, power) => Number(`1e${power}`))

/** The integer of a literal without fraction and exponent; NaN where it has too many digits. */
export function shortInteger(bytes: Uint8Array, from: number, to: number): number {
  const negative = bytes[from] === 0x2d
  let pos = negative ? from + 1 : from
  if (to - pos > DIGITS_EXACT) return Number.NaN
  let value = 0
  for (; pos < to; pos++) value = 10 * value + (bytes[pos]! - 0x30)
  return negative ? 0 - value : value
}

const LONG_MIN = -(2n ** 63n)
const LONG_MAX = 2n ** 63n - 1n

/** The integer of a literal without fraction and exponent, or null beyond 64 bits. */
export function longInteger(bytes: Buffer, from: number, to: number): bigint | null {
  if (to - from > 20) return null
  const long = BigInt(bytes.toString('latin1', from, to))
  return long < LONG_MIN || long > LONG_MAX ? null : long
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

/** Up to here each integer has a double of its own. 2^53 itself stands for 2^53 + 1 too. */
const INTEGER_MAX = 2 ** 53
/** 2^53 is 9,007,199,254,740,992. */
const LAST_DIGIT_OF_MAX = 0x32

/**
 * The integer of a literal with a fraction or an exponent, exactly. NaN where its value is no
 * integer, an infinity beyond ±2^53. The double alone does not tell: 9007199254740991.5 and
 * 0.99999999999999999999 round to integers.
 */
export function realInteger(bytes: Buffer, from: number, to: number): number {
  const double = nearestDouble(bytes, from, to)
  if (!Number.isInteger(double)) return Number.NaN
  const { last, ones, exponent } = digitsOf(bytes, from, to)
  if (last < 0) return 0
  const places = last < ones ? last + 1 - ones : last - ones
  if (places > exponent) return Number.NaN
  const size = Math.abs(double)
  const isBeyond = size > INTEGER_MAX || (size === INTEGER_MAX && bytes[last] !== LAST_DIGIT_OF_MAX)
  return isBeyond ? double * Number.POSITIVE_INFINITY : double
}

/** Larger exponents count as this one: a literal has fewer digits, so the value is as extreme. */
const EXPONENT_MAX = 1e8

/** The places of a number literal's digits, and its exponent. */
interface Digits {
  /** The first digit that is not zero; -1 where there is none. */
  readonly first: number
  /** The last digit that is not zero. */
  readonly last: number
  /** The end of the digits, and of the whole ones. */
  readonly end: number
  readonly ones: number
  readonly exponent: number
}

export function digitsOf(bytes: Uint8Array, from: number, to: number): Digits {
  let [first, last, point, end] = [-1, -1, -1, from]
  for (; end < to && (bytes[end]! | 0x20) !== 0x65; end++) {
    if (bytes[end] === 0x2e) point = end
    else if (bytes[end]! > 0x30) {
      if (first < 0) first = end
      last = end
    }
  }
  return { first, last, end, ones: point < 0 ? end : point, exponent: exponentOf(bytes, end + 1, to) }
}

/** The exponent of a literal, from behind its `e` on; 0 where it has none. */
function exponentOf(bytes: Uint8Array, from: number, to: number): number {
  if (from >= to) return 0
  const isSigned = bytes[from] === 0x2d || bytes[from] === 0x2b
  let exponent = 0
  for (let at = isSigned ? from + 1 : from; at < to; at++)
    exponent = Math.min(EXPONENT_MAX, 10 * exponent + (bytes[at]! - 0x30))
  return bytes[from] === 0x2d ? -exponent : exponent
}
