/**
 * The operands of a caller's question: column names become columns, texts become bound values.
 *
 * A text is read as ingest reads the column (docs/contract.md). Numbers are JSON number texts.
 * Integers stay text, so that 64 bits are exact. TIMESTAMP becomes decimal microseconds since 1970,
 * DATE decimal days.
 */

import { valueBytes } from '../../format/batch-layout.ts'
import { type ColumnType, PAYLOAD, type PoolSchema, RECEIVED_AT } from '../../format/schema.ts'
import { TimeReader } from '../../parse/timestamp.ts'
import { jsonIn } from '../../util/json.ts'
import { type Bound, Refused } from './values.ts'

export interface QueryColumn {
  readonly name: string
  readonly type: ColumnType
  /** A TIMESTAMP of a pool whose schema lacks `cutsEpochs`. All other texts of times are cut. */
  readonly roundsEpochs?: true
}

/** A pool as one reader sees it. */
export interface PoolView extends PoolSchema {
  /** The names of the columns that exist for the reader. Absent for all of them. */
  readonly visible?: ReadonlySet<string>
}

/** The columns of a pool in the order that clients see, without `_service_sequence`. */
export function queryColumns(view: PoolView): readonly QueryColumn[] {
  const all: readonly QueryColumn[] = [
    columnIn(view, RECEIVED_AT, 'TIMESTAMP'),
    { name: PAYLOAD, type: 'JSON' },
    ...view.columns.map(({ name, type }) => columnIn(view, name, type)),
  ]
  return view.visible === undefined ? all : all.filter(({ name }) => view.visible?.has(name))
}

function columnIn({ cutsEpochs }: PoolSchema, name: string, type: ColumnType): QueryColumn {
  return type === 'TIMESTAMP' && cutsEpochs !== true ? { name, type, roundsEpochs: true } : { name, type }
}

/**
 * The column of exactly that name. Throws Refused. The search compares names one by one, so that
 * `constructor` and `__proto__` are plain names.
 */
export function findColumn(view: PoolView, name: string): QueryColumn {
  const column = exactColumn(view, name)
  if (column === undefined) throw new Refused(`there is no column ${quoted(name)}`)
  return column
}

/** The column of exactly that name; undefined if the reader sees none. */
export function exactColumn(view: PoolView, name: string): QueryColumn | undefined {
  if (view.visible?.has(name) === false) return undefined
  if (name === RECEIVED_AT) return columnIn(view, name, 'TIMESTAMP')
  if (name === PAYLOAD) return { name, type: 'JSON' }
  const type = view.columns.find(each => each.name === name)?.type
  return type && columnIn(view, name, type)
}

/** The column of that name, or the only one whose name is equal ignoring case. */
export function similarColumn(view: PoolView, name: string): QueryColumn | undefined {
  const exact = exactColumn(view, name)
  if (exact !== undefined) return exact
  const wanted = name.toLowerCase()
  const similar = queryColumns(view).filter(each => each.name.toLowerCase() === wanted)
  return similar.length === 1 ? similar[0] : undefined
}

/** The primary timestamp's column; `_service_received_at` in a pool without one. */
export function timestampColumn(schema: PoolSchema): QueryColumn {
  const { name, type } = schema.columns[schema.timestamp] ?? { name: RECEIVED_AT, type: 'TIMESTAMP' }
  return columnIn(schema, name, type)
}

/** True of the times that every event has. */
export function isNeverNull(schema: PoolSchema, name: string): boolean {
  return name === timestampColumn(schema).name || name === RECEIVED_AT
}

/** A JSON number: sign and integer part, fraction, exponent. */
const NUMBER = /^(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?$/
/** A longer text is not read as a number. This bounds the work of BigInt and Number. */
const NUMBER_TEXT_MAX = 1_100
/** The largest integer that a number with a fraction or an exponent may stand for. */
const REAL_MAX = 2n ** 53n
const SURROGATE = /\p{Surrogate}/u

/** The bound value of `text` for a column of `type`. Throws Refused. */
export function parseValue(type: ColumnType, text: string, roundsEpochs?: boolean): Bound {
  const bound = tryValue(type, text, roundsEpochs)
  if (bound === undefined) throw notOfType(type, text)
  return bound
}

/** The bound value of `text` for a column of `type`; undefined if it is none. */
export function tryValue(type: ColumnType, text: string, roundsEpochs = false): Bound | undefined {
  const value = type === 'TIMESTAMP' ? readTimestamp(text, !roundsEpochs) : read(type, text)
  return value === undefined ? undefined : { type, value }
}

export function notOfType(type: string, text: string): Refused {
  return new Refused(`${quoted(text)} is not ${withArticle(type)} value`)
}

/** A caller's text as messages show it: shortened and quoted. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}

/** Microseconds since 1970 of a TIMESTAMP string; undefined if it is not one. */
export function parseInstant(text: string): bigint | undefined {
  const bytes = Buffer.from(text, 'utf8')
  const reader = new TimeReader()
  return reader.timestamp(bytes, 0, bytes.length) ? microsOf(reader) : undefined
}

/** A noun of a message with its article: `an INT32 value`, `a DATE value`. */
function withArticle(noun: string): string {
  return `${'AEIOUaeiou'.includes(noun.charAt(0)) ? 'an' : 'a'} ${noun}`
}

const DAY_MS = 86_400_000
const PRINTED_DAY = /^[+-]?\d{4,6}-\d\d-\d\d$/
const PRINTED_INSTANT = /^([+-]?\d{4,6}-\d\d-\d\dT[\d:]{8}\.\d{3})(\d{3})?Z$/

/**
 * A DATE or TIMESTAMP as answers print it: days or microseconds since 1970; undefined if it is
 * none. One that was computed may be of another year than those of events, 1 to 9999.
 */
export function parsePrinted(type: 'DATE' | 'TIMESTAMP', text: string): bigint | undefined {
  if (type === 'DATE') {
    const ms = PRINTED_DAY.test(text) ? Date.parse(`${text}T00:00:00.000Z`) : Number.NaN
    return Number.isFinite(ms) ? BigInt(ms / DAY_MS) : undefined
  }
  const [, milliseconds, micros] = PRINTED_INSTANT.exec(text) ?? []
  const ms = Date.parse(`${milliseconds}Z`)
  return Number.isFinite(ms) ? BigInt(ms) * 1000n + BigInt(micros ?? 0) : undefined
}

function read(type: Exclude<ColumnType, 'TIMESTAMP'>, text: string): string | number | boolean | undefined {
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
    default:
      return readInteger(text, BigInt(8 * valueBytes(type)))
  }
}

/** The source text of a JSON value. The column stores it, and filters compare its bytes. */
function readJson(text: string): string | undefined {
  if (SURROGATE.test(text) || jsonIn(text) === undefined) return undefined
  return text.trim() // JSON.parse accepted only JSON's own white space around the value
}

function matchNumber(text: string): RegExpExecArray | undefined {
  return text.length > NUMBER_TEXT_MAX ? undefined : (NUMBER.exec(text) ?? undefined)
}

function finite(text: string, round: (value: number) => number): number | undefined {
  if (matchNumber(text) === undefined) return undefined
  const value = round(Number(text))
  return Number.isFinite(value) ? value + 0 : undefined
}

/** Exact to 64 bits. As in ingest, one with a fraction or exponent is integral and within ±2^53. */
function readInteger(text: string, bits: bigint): string | undefined {
  const match = matchNumber(text)
  if (match === undefined) return undefined
  if (match[2] === undefined && match[3] === undefined) return inRange(BigInt(text), bits)
  const value = aroundOf(match)
  if (value === undefined || value.floor !== value.ceil) return undefined
  return value.floor > REAL_MAX || value.floor < -REAL_MAX ? undefined : inRange(value.floor, bits)
}

/** The nearest whole numbers that are not above and not below a number: both are a whole one. */
export interface WholeAround {
  readonly floor: bigint
  readonly ceil: bigint
}

/** The whole numbers around a number, exactly; undefined where it is none, or beyond a DOUBLE. */
export function wholeAround(text: string): WholeAround | undefined {
  const match = matchNumber(text)
  return match === undefined || finite(text, value => value) === undefined ? undefined : aroundOf(match)
}

/** The same for a matched number; undefined where it has far too many digits. */
function aroundOf([, whole, fraction = '.', exponent = 'e0']: RegExpExecArray): WholeAround | undefined {
  const digits = BigInt(`${whole}${fraction.slice(1)}`)
  if (digits === 0n) return { floor: 0n, ceil: 0n }
  const power = Number(exponent.slice(1)) - (fraction.length - 1)
  if (power > NUMBER_TEXT_MAX) return undefined
  // A text is no longer than NUMBER_TEXT_MAX, so with a smaller power the number is below 1.
  const scale = 10n ** BigInt(Math.min(Math.abs(power), NUMBER_TEXT_MAX))
  if (power >= 0) return { floor: digits * scale, ceil: digits * scale }
  const [towardsZero, isWhole] = [digits / scale, digits % scale === 0n]
  return {
    floor: isWhole || digits > 0n ? towardsZero : towardsZero - 1n,
    ceil: isWhole || digits < 0n ? towardsZero : towardsZero + 1n,
  }
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

function readTimestamp(text: string, cuts: boolean): string | undefined {
  const match = matchNumber(text)
  if (match === undefined) return parseInstant(text)?.toString()
  const reader = new TimeReader()
  const isReal = match[2] !== undefined || match[3] !== undefined
  const isTime = reader.epoch(Buffer.from(text), 0, text.length, isReal, cuts)
  return isTime ? String(microsOf(reader)) : undefined
}

function microsOf(reader: TimeReader): bigint {
  return BigInt(reader.seconds) * 1_000_000n + BigInt(reader.micros)
}
