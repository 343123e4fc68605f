/**
 * What the values of one field have in common over all samples: counts of kinds, and of texts and
 * numbers that a narrower type would take. Numbers are read from their digits, because a double
 * changes integers beyond 2^53.
 */
import { FOUND } from '../event-error.ts'
import { longInteger } from '../number.ts'
import { TimeReader } from '../timestamp.ts'

/** A decimal number as senders write prices: 18 digits fit into 64 bits whatever they are. */
const NUMBER_TEXT = /^-?(?:0|[1-9]\d{0,17})(\.\d{1,30})?$/
/** A date of RFC 2822, section 3.3. The zone names are the two that senders use. */
const MAIL_DATE =
  /^(?:(?:mon|tue|wed|thu|fri|sat|sun), )?(\d{1,2}) ([a-z]{3}) (\d{4}) (\d\d:\d\d:\d\d) ([+-]\d{4}|gmt|utc)$/i
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
/** A longer text is no number, no time and no boolean. */
const SHORT_TEXT_BYTES = 64

/** Seconds since 1970 of the years 1990 and 2100: numbers outside are seldom times. */
const EPOCH_FROM = 631_152_000
const EPOCH_TO = 4_102_444_800

const time = new TimeReader()

/** The counts of one field. Every count is a number of values, and null is no value. */
export class Facts {
  nulls = 0
  booleans = 0
  objects = 0
  arrays = 0
  numbers = 0
  /** Numbers beyond 64 bits without a fraction and an exponent. */
  wideIntegers = 0
  /** Numbers that are written with a fraction or an exponent. */
  reals = 0
  /** Numbers that are moments between 1990 and 2100. */
  epochs = 0
  strings = 0
  /** Strings that hold nothing. */
  empty = 0
  /** Strings that a TIMESTAMP column takes, and those of them that a DATE column takes. */
  times = 0
  dates = 0
  /** Strings that hold a date of RFC 2822, a boolean, a number, a decimal fraction, an epoch. */
  mailDates = 0
  booleanTexts = 0
  numberTexts = 0
  fractionTexts = 0
  epochTexts = 0
  /** Bytes of all strings. */
  textBytes = 0
  /** Elements of the longest array. */
  elementsMax = 0

  /** Values that are not null. */
  get values(): number {
    return this.booleans + this.objects + this.arrays + this.numbers + this.strings
  }

  /** Counts a value of any kind but a string, which stands in `bytes` from `start` to `end`. */
  addPlain(found: number, bytes: Buffer, start: number, end: number, isReal: boolean): void {
    if (found === FOUND.null) this.nulls++
    else if (found === FOUND.boolean) this.booleans++
    else if (found === FOUND.object) this.objects++
    else if (found === FOUND.array) this.arrays++
    else this.#addNumber(bytes, start, end, isReal)
  }

  #addNumber(bytes: Buffer, start: number, end: number, isReal: boolean): void {
    this.numbers++
    if (isReal) this.reals++
    else if (longInteger(bytes, start, end) === null) this.wideIntegers++
    if (isEpoch(bytes, start, end, isReal)) this.epochs++
  }

  /** Counts a string by its text without quotes and escapes. */
  addText(text: Buffer): void {
    this.strings++
    this.textBytes += text.length
    if (text.length === 0) this.empty++
    if (text.length === 0 || text.length > SHORT_TEXT_BYTES) return
    if (time.timestamp(text, 0, text.length)) {
      this.times++
      if (time.date(text, 0, text.length)) this.dates++
      return
    }
    const plain = text.toString('utf8')
    const number = NUMBER_TEXT.exec(plain)
    if (number !== null) {
      this.numberTexts++
      if (number[1] !== undefined) this.fractionTexts++
      if (isEpoch(text, 0, text.length, number[1] !== undefined)) this.epochTexts++
    } else if (/^(?:true|false)$/i.test(plain)) this.booleanTexts++
    else if (isMailDate(plain)) this.mailDates++
  }
}

function isEpoch(bytes: Buffer, start: number, end: number, isReal: boolean): boolean {
  return time.epoch(bytes, start, end, isReal, true) && time.seconds >= EPOCH_FROM && time.seconds < EPOCH_TO
}

function isMailDate(text: string): boolean {
  const [, day, month, year, clock, zone] = MAIL_DATE.exec(text) ?? []
  if (day === undefined || month === undefined || zone === undefined) return false
  const number = MONTHS.indexOf(month.toLowerCase()) + 1
  const offset = /^[a-z]/i.test(zone) ? 'Z' : zone
  const iso = `${year}-${String(number).padStart(2, '0')}-${day.padStart(2, '0')}T${clock}${offset}`
  const bytes = Buffer.from(iso)
  return number > 0 && time.timestamp(bytes, 0, bytes.length)
}
