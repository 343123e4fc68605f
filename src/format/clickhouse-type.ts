/**
 * ClickHouse types that users give for columns of type CLICKHOUSE, mapped onto the types of Weir.
 * The catalog keeps the given text and shows it again unchanged; the mapped type decides what is
 * parsed and stored.
 *
 *   String, FixedString(n), UUID, Enum…       STRING: the text as sent. The length of a FixedString
 *                                             and the names of an Enum are not checked
 *   Int8 … Int64                              INT8 … INT64
 *   UInt8, UInt16, UInt32                     the next larger: INT16, INT32, INT64
 *   UInt64                                    INT64: a value above 2^63 - 1 is rejected, never
 *                                             rounded
 *   Float32, Float64                          FLOAT, DOUBLE
 *   Bool                                      BOOLEAN
 *   Date, Date32                              DATE
 *   DateTime, DateTime64(p), each with a zone TIMESTAMP: UTC, microseconds. A text without a zone
 *                                             is UTC, whatever zone the type names
 *   JSON, Object('json')                      JSON
 *   Nullable(t), LowCardinality(t)            as t
 *
 * Other types are refused by their names: they would lose digits (Decimal, Int128) or have no
 * counterpart (Array, Map, Tuple).
 */
import { COLUMN_TYPE, type ColumnType } from './schema.ts'

/** What a ClickHouse type means here. */
export interface MappedType {
  readonly type: ColumnType
  /** The text says Nullable. */
  readonly isNullable: boolean
}

/** Types without parameters. */
const PLAIN: Readonly<Record<string, ColumnType>> = {
  String: 'STRING',
  UUID: 'STRING',
  Int8: 'INT8',
  Int16: 'INT16',
  Int32: 'INT32',
  Int64: 'INT64',
  UInt8: 'INT16',
  UInt16: 'INT32',
  UInt32: 'INT64',
  UInt64: 'INT64',
  Float32: 'FLOAT',
  Float64: 'DOUBLE',
  Bool: 'BOOLEAN',
  Date: 'DATE',
  Date32: 'DATE',
  DateTime: 'TIMESTAMP',
  DateTime64: 'TIMESTAMP',
  JSON: 'JSON',
}

/** Types with parameters, and what the parameters look like. */
const WITH_PARAMETERS: readonly (readonly [name: string, parameters: RegExp, type: ColumnType])[] = [
  ['FixedString', /^\d{1,9}$/, 'STRING'],
  ['DateTime', /^'[A-Za-z0-9_+/-]{1,64}'$/, 'TIMESTAMP'],
  ['DateTime64', /^[0-9](?: ?, ?'[A-Za-z0-9_+/-]{1,64}')?$/, 'TIMESTAMP'],
  ['Object', /^'json'$/, 'JSON'],
]

/** The mapped type of a ClickHouse type; undefined where Weir has none. */
export function mapClickHouseType(text: string): MappedType | undefined {
  const { name, parameters } = partsOf(text.trim())
  if (parameters === undefined) return Object.hasOwn(PLAIN, name) ? plain(PLAIN[name]!) : undefined
  if (name === 'LowCardinality') return lowCardinality(parameters)
  if (name === 'Nullable') {
    const inner = /^(?:Nullable|LowCardinality)\b/.test(parameters)
      ? undefined
      : mapClickHouseType(parameters)
    return inner && { type: inner.type, isNullable: true }
  }
  if (/^Enum(?:8|16)?$/.test(name)) return areMembers(parameters) ? plain('STRING') : undefined
  const found = WITH_PARAMETERS.find(([is, fits]) => is === name && fits.test(parameters))
  return found && plain(found[2])
}

/** The ClickHouse type that the management API shows for a column of one of Weir's types. */
export function clickHouseTypeOf(type: ColumnType, isNullable: boolean): string {
  const { clickHouse } = COLUMN_TYPE[type]
  return isNullable ? `Nullable(${clickHouse})` : clickHouse
}

/** A name, and what stands in the parentheses behind it. */
function partsOf(text: string): { readonly name: string; readonly parameters?: string } {
  const open = text.indexOf('(')
  if (open < 0 || !text.endsWith(')')) return { name: text }
  return { name: text.slice(0, open).trim(), parameters: text.slice(open + 1, -1).trim() }
}

/** True for the members of an Enum: texts in quotes, each with a number or without. */
function areMembers(text: string): boolean {
  let rest = text
  for (;;) {
    const member = /^'(?:[^'\\]|\\.)*'/.exec(rest)?.[0]
    if (member === undefined) return false
    rest = rest.slice(member.length).trimStart()
    if (rest.startsWith('=')) {
      const number = /^-?\d{1,5}/.exec(rest.slice(1).trimStart())?.[0]
      if (number === undefined) return false
      rest = rest.slice(1).trimStart().slice(number.length).trimStart()
    }
    if (rest === '') return true
    if (!rest.startsWith(',')) return false
    rest = rest.slice(1).trimStart()
  }
}

/** The type inside of LowCardinality: any but JSON, Nullable or not. */
function lowCardinality(parameters: string): MappedType | undefined {
  const inner = /^LowCardinality\b/.test(parameters) ? undefined : mapClickHouseType(parameters)
  return inner === undefined || inner.type === 'JSON' ? undefined : inner
}

function plain(type: ColumnType): MappedType {
  return { type, isNullable: false }
}
