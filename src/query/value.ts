/**
 * The text of a filter's value, read as ingest reads the column (DESIGN.md section 4).
 *
 * Numbers are JSON number texts. Integers stay text, so that 64 bits are exact; TIMESTAMP becomes decimal
 * microseconds and DATE decimal days since 1970.
 */
import type { ColumnType } from '../batch/plan.ts'
import { TimeReader } from '../batch/timestamp.ts'
import type { BadQuery, Bound } from './protocol.ts'

/** A JSON number: sign and integer part, fraction, exponent. */
const NUMBER = /^(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?$/
/** Beyond this a number text is no number of ours; it bounds the work of BigInt and Number. */
const NUMBER_TEXT_MAX = 1_100
/** Numbers with a fraction or an exponent are integers up to here. */
const REAL_MAX = 2n ** 53n
const SURROGATE = /\p{Surrogate}/u

const BITS: Partial<Record<ColumnType, bigint>> = { INT8: 8n, INT16: 16n, INT32: 32n, INT64: 64n }

/** The bound value of `text` for a column of `type`; else what is wrong with it. */
export function parseValue(type: ColumnType, text: string): Bound | BadQuery {
  const value = read(type, text)
  return value === undefined ? { badRequest: `${quoted(text)} is not a ${type} value` } : { type, value }
}

/** A caller's text as messages show it: shortened, quoted. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}

/** Microseconds since 1970 of a TIMESTAMP string; undefined where it is none. */
export function parseInstant(text: string): bigint | undefined {
  const bytes = Buffer.from(text, 'utf8')
  const reader = new TimeReader()
  return reader.timestamp(bytes, 0, bytes.length) ? microsOf(reader) : undefined
}

function read(type: ColumnType, text: string): string | number | boolean | undefined {
  switch (type) {
    case 'STRING':
      return SURROGATE.test(text) ? undefined : text
    case 'JSON':
      return readJson(text)
    case 'BOOLEAN':
      return text === 'true' ? true : text === 'false' ? false : undefined
    case 'FLOAT':
      return finite(text, Math.fround)
    case 'DOUBLE':
      return finite(text, value => value)
    case 'DATE':
      return readDate(text)
    case 'TIMESTAMP':
      return readTimestamp(text)
    default:
      return readInteger(text, BITS[type]!)
  }
}

/** A JSON value's source text, which is what the column stores: its bytes are compared, not its meaning. */
function readJson(text: string): string | undefined {
  if (SURROGATE.test(text)) return undefined
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  return text.trim() // around a JSON value only JSON's own white space can stand
}

function matchNumber(text: string): RegExpExecArray | undefined {
  return text.length > NUMBER_TEXT_MAX ? undefined : (NUMBER.exec(text) ?? undefined)
}

function finite(text: string, round: (value: number) => number): number | undefined {
  if (matchNumber(text) === undefined) return undefined
  const value = round(Number(text))
  return Number.isFinite(value) ? value + 0 : undefined
}

/** Exact to 64 bits; with a fraction or exponent only an integral value within ±2^53, as ingest has it. */
function readInteger(text: string, bits: bigint): string | undefined {
  const match = matchNumber(text)
  if (match === undefined) return undefined
  if (match[2] === undefined && match[3] === undefined) return inRange(BigInt(text), bits)
  const value = integerOf(match)
  return value === undefined || value > REAL_MAX || value < -REAL_MAX ? undefined : inRange(value, bits)
}

/** The value of a number, exactly; undefined where it is no integer, or one of far too many digits. */
function integerOf([, whole, fraction = '.', exponent = 'e0']: RegExpExecArray): bigint | undefined {
  const digits = BigInt(`${whole}${fraction.slice(1)}`)
  if (digits === 0n) return 0n
  const power = Number(exponent.slice(1)) - (fraction.length - 1)
  if (Math.abs(power) > NUMBER_TEXT_MAX) return undefined
  const scale = 10n ** BigInt(Math.abs(power))
  if (power >= 0) return digits * scale
  return digits % scale === 0n ? digits / scale : undefined
}

function inRange(value: bigint, bits: bigint): string | undefined {
  const end = 1n << (bits - 1n)
  return value >= -end && value < end ? String(value) : undefined
}

function readDate(text: string): string | undefined {
  const bytes = Buffer.from(text, 'utf8')
  const reader = new TimeReader()
  return reader.date(bytes, 0, bytes.length) ? String(reader.days) : undefined
}

function readTimestamp(text: string): string | undefined {
  const match = matchNumber(text)
  if (match === undefined) return parseInstant(text)?.toString()
  const reader = new TimeReader()
  return readEpoch(reader, text, match) ? String(microsOf(reader)) : undefined
}

function readEpoch(reader: TimeReader, text: string, match: RegExpExecArray): boolean {
  const value = Number(text)
  if (match[2] !== undefined || match[3] !== undefined) return reader.epochDouble(value)
  return Number.isSafeInteger(value) ? reader.epochInteger(value) : reader.epochBig(BigInt(text))
}

function microsOf(reader: TimeReader): bigint {
  return BigInt(reader.seconds) * 1_000_000n + BigInt(reader.micros)
}
