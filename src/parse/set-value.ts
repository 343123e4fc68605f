/**
 * Writes one value into one column by the rules of its type (docs/contract.md). Each function
 * writes the row and returns 0, or returns an error word and leaves the row for the caller to take
 * back.
 */

import type { ColumnType } from '../format/schema.ts'
import { assert } from '../util/errors.ts'
import type { Column } from './column-builders.ts'
import { EVENT_ERROR, errorWord, FOUND } from './event-error.ts'
import { longInteger, nearestDouble, realInteger, shortInteger } from './number.ts'
import { TimeReader } from './timestamp.ts'
import { unescapeInto } from './unescape.ts'

/** The place and the kind of a value; see EventScan. One object is used for all values. */
export interface Value {
  bytes: Buffer
  found: number
  mark: number
  start: number
  end: number
}

const time = new TimeReader()
/** A string's text without escapes, as `readText` left it. One object is used for all values. */
const text: { bytes: Uint8Array; from: number; to: number } = { bytes: new Uint8Array(0), from: 0, to: 0 }

const DOUBLE_INTEGER_MAX = 2 ** 53

/**
 * Writes a value that is there and not null. Returns 0 or an error word.
 * @param cuts as TimeReader.epoch
 */
export function setValue(column: Column, type: ColumnType, row: number, value: Value, cuts: boolean): number {
  switch (type) {
    case 'STRING':
      return value.found === FOUND.string ? setString(column, row, value) : wrongType(value)
    case 'JSON':
      column.setBytes(row, value.bytes, value.start, value.end)
      return 0
    case 'BOOLEAN':
      if (value.found !== FOUND.boolean) return wrongType(value)
      column.setWord(row, value.bytes[value.start] === 0x74 ? 1 : 0)
      return 0
    case 'FLOAT':
    case 'DOUBLE':
      return value.found === FOUND.number ? setDouble(column, type, row, value) : wrongType(value)
    case 'INT8':
      return setInteger(column, row, value, 0x7f)
    case 'INT16':
      return setInteger(column, row, value, 0x7fff)
    case 'INT32':
      return setInteger(column, row, value, 0x7fff_ffff)
    case 'INT64':
      return value.found === FOUND.number ? setInt64(column, row, value) : wrongType(value)
    case 'DATE':
      return value.found === FOUND.string ? setDate(column, row, value) : wrongType(value)
    case 'TIMESTAMP':
      return setTimestamp(column, row, value, cuts)
  }
}

function wrongType(value: Value): number {
  return errorWord(EVENT_ERROR.wrong_type, value.found)
}

function setString(column: Column, row: number, value: Value): number {
  const from = value.start + 1
  const to = value.end - 1
  if (value.mark === 0) {
    column.setBytes(row, value.bytes, from, to)
    return 0
  }
  const begin = column.beginBytes(row, to - from)
  column.endBytes(row, begin + unescapeInto(column.bytes, begin, value.bytes, from, to))
  return 0
}

function setDouble(column: Column, type: 'FLOAT' | 'DOUBLE', row: number, value: Value): number {
  const double = nearestDouble(value.bytes, value.start, value.end)
  assert(Number.isFinite(double), 'the scan refuses numbers beyond f64')
  const stored = type === 'FLOAT' ? Math.fround(double) : double
  if (!Number.isFinite(stored)) return errorWord(EVENT_ERROR.out_of_range, FOUND.number)
  column.setDouble(row, stored)
  return 0
}

/** INT8, INT16, INT32: from −max − 1 to max. */
function setInteger(column: Column, row: number, value: Value, max: number): number {
  if (value.found !== FOUND.number) return wrongType(value)
  let integer: number
  if (value.mark === 0) {
    integer = shortInteger(value.bytes, value.start, value.end)
    if (Number.isNaN(integer)) return errorWord(EVENT_ERROR.out_of_range, FOUND.number)
  } else {
    integer = realInteger(value.bytes, value.start, value.end)
    if (Number.isNaN(integer)) return errorWord(EVENT_ERROR.not_integral, FOUND.number)
  }
  if (integer > max || integer < -max - 1) return errorWord(EVENT_ERROR.out_of_range, FOUND.number)
  column.setWord(row, integer)
  return 0
}

function setInt64(column: Column, row: number, value: Value): number {
  if (value.mark === 1) {
    const integer = realInteger(value.bytes, value.start, value.end)
    if (Number.isNaN(integer)) return errorWord(EVENT_ERROR.not_integral, FOUND.number)
    if (!Number.isFinite(integer)) return errorWord(EVENT_ERROR.out_of_range, FOUND.number)
    column.setLong(row, integer)
    return 0
  }
  const short = shortInteger(value.bytes, value.start, value.end)
  if (!Number.isNaN(short)) {
    column.setLong(row, short)
    return 0
  }
  const long = longInteger(value.bytes, value.start, value.end)
  if (long === null) return errorWord(EVENT_ERROR.out_of_range, FOUND.number)
  column.setBig(row, long)
  return 0
}

/** Lets `text` be the string without its quotes and escapes. */
function readText(value: Value): void {
  text.bytes = value.bytes
  text.from = value.start + 1
  text.to = value.end - 1
  if (value.mark === 0) return
  const plain = new Uint8Array(text.to - text.from) // escapes in a time are rare
  text.to = unescapeInto(plain, 0, value.bytes, text.from, text.to)
  text.from = 0
  text.bytes = plain
}

function setDate(column: Column, row: number, value: Value): number {
  readText(value)
  if (!time.date(text.bytes, text.from, text.to)) return errorWord(EVENT_ERROR.bad_date, FOUND.string)
  column.setWord(row, time.days)
  return 0
}

function setTimestamp(column: Column, row: number, value: Value, cuts: boolean): number {
  if (value.found === FOUND.string) {
    readText(value)
    if (!time.timestamp(text.bytes, text.from, text.to))
      return errorWord(EVENT_ERROR.bad_timestamp, FOUND.string)
  } else if (value.found === FOUND.number) {
    if (!time.epoch(value.bytes, value.start, value.end, value.mark === 1, cuts))
      return errorWord(EVENT_ERROR.bad_timestamp, FOUND.number)
  } else return wrongType(value)
  const micros = 1e6 * time.seconds + time.micros
  if (Math.abs(micros) < DOUBLE_INTEGER_MAX) column.setLong(row, micros)
  else column.setBig(row, 1_000_000n * BigInt(time.seconds) + BigInt(time.micros))
  return 0
}
