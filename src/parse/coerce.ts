/**
 * `coerce` of a column: texts that hold a value of the column's type become that value, as senders
 * write prices, flags and times. docs/contract.md lists what is taken. Everything else keeps its
 * kind and is refused by the rules of its type (set-value.ts).
 *
 * Only the TypeScript kernel coerces.
 */
import type { ColumnType } from '../format/schema.ts'
import { FOUND } from './event-error.ts'
import type { Value } from './set-value.ts'
import { TimeReader } from './timestamp.ts'
import { unescapeInto } from './unescape.ts'

/** A number as JSON writes it, with a sign where the sender adds one. */
const NUMBER = /^(?:\+(?!-))?(-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?)$/
/** A text with more bytes is no number and no time. */
const TEXT_BYTES_MAX = 400

/** RFC 2822, 3.3 and 4.3: the day of the week and the seconds may be missing. */
const MAIL_DATE =
  /^(?:(?:mon|tue|wed|thu|fri|sat|sun), ?)?(\d{1,2}) ([a-z]{3}) (\d{4}) (\d\d:\d\d(?::\d\d)?) ([+-]\d{4}|[a-z]{1,3})$/i
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const ZONES: Readonly<Record<string, string>> = {
  gmt: 'Z',
  ut: 'Z',
  utc: 'Z',
  z: 'Z',
  est: '-0500',
  edt: '-0400',
  cst: '-0600',
  cdt: '-0500',
  mst: '-0700',
  mdt: '-0600',
  pst: '-0800',
  pdt: '-0700',
}

const DAY_SECONDS = 86_400

const time = new TimeReader()

/**
 * Replaces a value of another kind by the value of `type` that it holds. An empty text, which is
 * what forms send for an empty field, becomes null, except in a STRING column.
 * @param cuts as TimeReader.epoch
 */
export function coerce(type: ColumnType, value: Value, cuts: boolean): void {
  if (type === 'STRING') {
    if (value.found === FOUND.number || value.found === FOUND.boolean)
      replace(value, FOUND.string, `"${value.bytes.toString('latin1', value.start, value.end)}"`)
    return
  }
  if (value.found !== FOUND.string || type === 'JSON') return
  const text = textOf(value)
  if (text === undefined) return
  if (text === '') value.found = FOUND.null
  else if (type === 'BOOLEAN') coerceBoolean(text.toLowerCase(), value)
  else if (type === 'TIMESTAMP' || type === 'DATE') coerceTime(type, text, value, cuts)
  else coerceNumber(text, value)
}

function replace(value: Value, found: number, source: string, mark = 0): void {
  value.bytes = Buffer.from(source)
  value.found = found
  value.mark = mark
  value.start = 0
  value.end = value.bytes.length
}

/** The text of a string without spaces around it; undefined where it is too long. */
function textOf({ bytes, mark, start, end }: Value): string | undefined {
  const [from, to] = [start + 1, end - 1]
  if (to - from > TEXT_BYTES_MAX) return undefined
  if (mark === 0) return bytes.toString('utf8', from, to).trim()
  const plain = Buffer.alloc(to - from)
  return plain.toString('utf8', 0, unescapeInto(plain, 0, bytes, from, to)).trim()
}

function coerceBoolean(text: string, value: Value): void {
  if (text === 'true' || text === '1') replace(value, FOUND.boolean, 'true')
  if (text === 'false' || text === '0') replace(value, FOUND.boolean, 'false')
}

/** A number beyond f64 stays a text: documents with such numbers are refused as a whole. */
function coerceNumber(text: string, value: Value): boolean {
  const [, literal, fraction, exponent] = NUMBER.exec(text) ?? []
  if (literal === undefined || !Number.isFinite(Number(literal))) return false
  replace(value, FOUND.number, literal, fraction === undefined && exponent === undefined ? 0 : 1)
  return true
}

/** Epoch numbers, RFC 2822 dates, and for a DATE every TIMESTAMP: its day in UTC. */
function coerceTime(type: 'TIMESTAMP' | 'DATE', text: string, value: Value, cuts: boolean): void {
  const mailDate = isoOfMailDate(text)
  if (mailDate !== undefined) replace(value, FOUND.string, `"${mailDate}"`)
  else if (!coerceNumber(text, value)) replace(value, FOUND.string, JSON.stringify(text))
  if (type === 'TIMESTAMP') return
  const { bytes, found, mark, start, end } = value
  const isTime =
    found === FOUND.number
      ? time.epoch(bytes, start, end, mark === 1, cuts)
      : time.timestamp(bytes, start + 1, end - 1)
  if (isTime) replace(value, FOUND.string, `"${dayOf(time.seconds)}"`)
}

/** `YYYY-MM-DD` of a moment between the years 1 and 9999. */
function dayOf(seconds: number): string {
  return new Date(1000 * DAY_SECONDS * Math.floor(seconds / DAY_SECONDS)).toISOString().slice(0, 10)
}

/**
 * `YYYY-MM-DDTHH:MM:SSZ`, whose values the reader of timestamps checks; undefined for other texts.
 */
function isoOfMailDate(text: string): string | undefined {
  const [, day, month, year, clock, zone] = MAIL_DATE.exec(text) ?? []
  if (day === undefined || month === undefined || zone === undefined) return undefined
  const number = MONTHS.indexOf(month.toLowerCase()) + 1
  const offset = /^[+-]/.test(zone) ? zone : ZONES[zone.toLowerCase()]
  if (number === 0 || offset === undefined) return undefined
  return `${year}-${String(number).padStart(2, '0')}-${day.padStart(2, '0')}T${clock}${offset}`
}
