/**
 * Reads TIMESTAMP and DATE values as docs/contract.md describes them: strings of one fixed grammar
 * over bytes, and epoch numbers whose unit follows from their size. All times are UTC. `Date`
 * accepts too much to be of use.
 *
 * A result is left in `seconds` and `micros` (0 to 999,999): microseconds alone pass 2^53 after the
 * year 2255.
 */
import { digitsOf, longInteger, shortInteger } from './number.ts'

/** Seconds since 1970 of 0001-01-01T00:00:00 and of the end of the year 9999. */
const SECONDS_MIN = -62_135_596_800
const SECONDS_END = 253_402_300_800

/** An epoch number below this is in seconds. */
const SECONDS_BELOW = 1e11
/** An epoch number below this is in milliseconds. Larger ones are in micro- or nanoseconds. */
const MILLIS_BELOW = 1e14
/**
 * The order of a number is the power of ten that it is below, and not the next lower one. A number
 * of a higher order than this is beyond the year 9999 even in nanoseconds.
 */
const NANOS_ORDER_MAX = 21

const POINT = 0x2e
const SPACE = 0x20

/** An integer of fewer digits than these, with its sign, has 64 bits. */
const DIGITS_SURELY_LONG = 18

const DAYS_BEFORE_MONTH = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
const DAYS_OF_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** Reads one time at a time. Methods return false where it is none; the result is in the fields. */
export class TimeReader {
  seconds = 0
  micros = 0
  /** Days since 1970, the result of `date`. */
  days = 0

  /** `YYYY-MM-DD`, the whole of bytes [from, to). */
  date(bytes: Uint8Array, from: number, to: number): boolean {
    if (to - from !== 10 || bytes[from + 4] !== 0x2d || bytes[from + 7] !== 0x2d) return false
    const year = 100 * twoDigits(bytes, from) + twoDigits(bytes, from + 2)
    const month = twoDigits(bytes, from + 5)
    const day = twoDigits(bytes, from + 8)
    // A broken pair of digits is NaN, and every comparison with it is false.
    if (!(year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysOfMonth(year, month))) return false
    this.days = daysSince1970(year, month, day)
    return true
  }

  /** The whole grammar of a TIMESTAMP string, all of bytes [from, to). */
  timestamp(bytes: Uint8Array, from: number, to: number): boolean {
    if (to - from < 10 || !this.date(bytes, from, from + 10)) return false
    this.seconds = 86_400 * this.days
    this.micros = 0
    if (to - from === 10) return true
    const between = bytes[from + 10]
    if (between !== 0x54 && between !== 0x74 && between !== 0x20) return false
    const zone = this.#clock(bytes, from + 11, to)
    if (zone < 0 || !this.#zone(bytes, zone, to)) return false
    return this.seconds >= SECONDS_MIN && this.seconds < SECONDS_END
  }

  /** `HH:MM[:SS[(.|,)digits]]` from `at`; returns where it ends, negative where it is none. */
  #clock(bytes: Uint8Array, at: number, to: number): number {
    if (to - at < 5 || bytes[at + 2] !== 0x3a) return -1
    const hour = twoDigits(bytes, at)
    const minute = twoDigits(bytes, at + 3)
    if (!(hour <= 23 && minute <= 59)) return -1
    this.seconds += 3600 * hour + 60 * minute
    if (to - at < 6 || bytes[at + 5] !== 0x3a) return at + 5
    if (to - at < 8) return -1
    const second = twoDigits(bytes, at + 6)
    if (!(second <= 60)) return -1
    this.seconds += second
    const mark = to - at > 8 ? bytes[at + 8] : 0
    return mark === 0x2e || mark === 0x2c ? this.#fraction(bytes, at + 9, to) : at + 8
  }

  /** Reads digits from `at`, of which six count. Returns their end, or -1 where there is none. */
  #fraction(bytes: Uint8Array, at: number, to: number): number {
    let pos = at
    let scale = 100_000
    while (pos < to && bytes[pos]! >= 0x30 && bytes[pos]! <= 0x39) {
      this.micros += scale * (bytes[pos]! - 0x30)
      scale = scale >= 10 ? scale / 10 : 0
      pos++
    }
    return pos === at ? -1 : pos
  }

  /** `Z`, `z`, ` UTC`, `±HH`, `±HHMM`, `±HH:MM` or nothing, from `at` to the end. */
  #zone(bytes: Uint8Array, at: number, to: number): boolean {
    if (at === to) return true
    if (bytes[at] === SPACE) {
      if (to - at === 4 && bytes[at + 1] === 0x55) return bytes[at + 2] === 0x54 && bytes[at + 3] === 0x43
      return this.#offset(bytes, at + 1, to)
    }
    if (bytes[at] === 0x5a || bytes[at] === 0x7a) return to - at === 1
    return this.#offset(bytes, at, to)
  }

  /** `±HH`, `±HHMM` or `±HH:MM`, from `at` to the end. */
  #offset(bytes: Uint8Array, at: number, to: number): boolean {
    const length = to - at
    const sign = bytes[at]
    if ((sign !== 0x2b && sign !== 0x2d) || length < 3) return false
    const hours = twoDigits(bytes, at + 1)
    let minutes = 0
    if (length === 5) minutes = twoDigits(bytes, at + 3)
    else if (length === 6 && bytes[at + 3] === 0x3a) minutes = twoDigits(bytes, at + 4)
    else if (length !== 3) return false
    if (!(hours <= 23 && minutes <= 59)) return false
    const offset = 3600 * hours + 60 * minutes
    this.seconds += sign === 0x2b ? -offset : offset
    return true
  }

  /**
   * A number literal, bytes [from, to). One without fraction and exponent has 64 bits.
   * @param isReal it has a fraction or an exponent
   * @param cuts what is finer than a µs is cut, toward the past; else the number is rounded
   */
  epoch(bytes: Buffer, from: number, to: number, isReal: boolean, cuts: boolean): boolean {
    const short = isReal ? Number.NaN : shortInteger(bytes, from, to)
    if (Math.abs(short) < MILLIS_BELOW) return this.#shortEpoch(short)
    const mayBeTooLong = !isReal && to - from > DIGITS_SURELY_LONG
    if (mayBeTooLong && longInteger(bytes, from, to) === null) return false
    return this.#epochByDigits(bytes, from, to, cuts)
  }

  #shortEpoch(value: number): boolean {
    if (Math.abs(value) < SECONDS_BELOW) {
      this.seconds = value + 0
      this.micros = 0
    } else {
      this.seconds = Math.floor(value / 1000)
      this.micros = 1000 * (value - 1000 * this.seconds)
    }
    return this.seconds >= SECONDS_MIN && this.seconds < SECONDS_END
  }

  /**
   * Any number literal by its digits: a double has no room for the microseconds of every moment.
   * A number that is not cut is rounded, halves up.
   */
  #epochByDigits(bytes: Uint8Array, from: number, to: number, cuts: boolean): boolean {
    this.seconds = 0
    this.micros = 0
    const { first, last, end, ones, exponent } = digitsOf(bytes, from, to)
    if (first < 0) return true // it is zero
    const order = (first < ones ? ones - first : ones + 1 - first) + exponent
    if (order > NANOS_ORDER_MAX) return false
    const unit = order <= 11 ? 6 : order <= 14 ? 3 : order <= 17 ? 0 : -3
    // The number of digits, from the first that is not zero, that are whole microseconds.
    const kept = order + unit
    let place = 0
    let next = 0
    let at = first
    for (; at < end && place <= kept; at++) {
      if (bytes[at] === POINT) continue
      const digit = bytes[at]! - 0x30
      if (place === kept) next = digit
      else if (place < kept - 6) this.seconds = 10 * this.seconds + digit
      else this.micros = 10 * this.micros + digit
      place++
    }
    for (; place < kept; place++)
      if (place < kept - 6) this.seconds *= 10
      else this.micros *= 10
    const negative = bytes[from] === 0x2d
    const isLast = last < at // nothing but zeros behind `next`
    const up = cuts ? negative && (next > 0 || !isLast) : next > 5 || (next === 5 && !(negative && isLast))
    return this.#sign(negative, up)
  }

  /** Makes the size one µs larger, where asked, and gives it its sign. */
  #sign(negative: boolean, up: boolean): boolean {
    if (up) this.micros += 1
    if (negative && this.micros > 0) {
      this.seconds = -this.seconds - 1
      this.micros = 1_000_000 - this.micros
    } else if (negative) this.seconds = 0 - this.seconds
    if (this.micros === 1_000_000) {
      this.seconds += 1
      this.micros = 0
    }
    return this.seconds >= SECONDS_MIN && this.seconds < SECONDS_END
  }
}

/** Two digits as a number; NaN where one of them is no digit. */
function twoDigits(bytes: Uint8Array, at: number): number {
  const tens = bytes[at]! - 0x30
  const ones = bytes[at + 1]! - 0x30
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? 10 * tens + ones : Number.NaN
}

function isLeap(year: number): boolean {
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
}

function daysOfMonth(year: number, month: number): number {
  return month === 2 && isLeap(year) ? 29 : DAYS_OF_MONTH[month - 1]!
}

/** Days from 1970-01-01 in the proleptic Gregorian calendar. */
function daysSince1970(year: number, month: number, day: number): number {
  const before = year - 1
  const leaps = Math.floor(before / 4) - Math.floor(before / 100) + Math.floor(before / 400)
  const leapDay = month > 2 && isLeap(year) ? 1 : 0
  return 365 * before + leaps + DAYS_BEFORE_MONTH[month - 1]! + leapDay + day - 1 - 719_162
}
