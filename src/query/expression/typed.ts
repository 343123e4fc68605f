/**
 * A checked expression: columns of the pool's schema, operations by name, values of a known type.
 * It says what is computed. How an engine spells it is the dialect's matter.
 */
import type { ColumnType } from '../../format/schema.ts'
import type { IntervalUnit } from './ast.ts'
import type { QueryColumn } from './operand.ts'
import type { Select } from './select.ts'
import type { KeyRule } from './time-key.ts'
import type { Bound } from './values.ts'

/** What a value is. `null` is the type of NULL itself, which fits every other. */
export type ValueKind =
  | 'boolean'
  | 'text'
  | 'integer'
  | 'real'
  | 'date'
  | 'instant'
  | 'json'
  | 'interval'
  | 'null'

export interface Typed {
  /** A key of the dialect's table. */
  readonly op: string
  readonly kind: ValueKind
  /** An integer's absolute value is at most 2^bits, by which a dialect picks its type. Else 0. */
  readonly bits: number
  readonly operands: readonly Typed[]
  /** The condition of an aggregate's FILTER. */
  readonly filter?: Typed
  /** Of `column`. */
  readonly column?: QueryColumn
  /** Of `column`: the alias of its table. Absent: the select has one table without an alias. */
  readonly table?: string
  /** Of `scalar`, `exists` and `in_select`: the rows that it reads. */
  readonly select?: Select
  /** Of `value`. */
  readonly bound?: Bound
  /**
   * Of `cast`. What does not fit is null: a text that is no finite number, a time outside of the
   * years -90000 to 90000. The UTC offset of a text counts where it becomes an instant.
   */
  readonly type?: ColumnType
  /** Of `shift` and `time_bucket`, null outside of the years -90000 to 90000, and of a literal. */
  readonly interval?: { readonly count: number; readonly unit: IntervalUnit }
  /** The part or the format of a date, a JSON path, a pattern, or the name of an `output`. */
  readonly word?: string
  /** Of `time_key`: the key of the interval that holds its operand, a time. */
  readonly timeKey?: KeyRule
  /**
   * Of `quantile`: from 0 to 1. Of `round`: the digits, of `power` the exponent, of
   * `regexp_extract` the group. Of a replacement: how many times as long it makes a text at most.
   */
  readonly number?: number
  /** Of `quantile`: all fractions that a question asks of the operand, `number` among them. */
  readonly numbers?: readonly number[]
}

const KIND_OF: Readonly<Record<ColumnType, ValueKind>> = {
  BOOLEAN: 'boolean',
  STRING: 'text',
  FLOAT: 'real',
  DOUBLE: 'real',
  INT8: 'integer',
  INT16: 'integer',
  INT32: 'integer',
  INT64: 'integer',
  DATE: 'date',
  TIMESTAMP: 'instant',
  JSON: 'json',
}
const TYPE_OF: Readonly<Record<ValueKind, ColumnType>> = {
  boolean: 'BOOLEAN',
  text: 'STRING',
  integer: 'INT64',
  real: 'DOUBLE',
  date: 'DATE',
  instant: 'TIMESTAMP',
  json: 'JSON',
  interval: 'STRING',
  null: 'STRING',
}
const BITS: Partial<Record<ColumnType, number>> = { INT8: 7, INT16: 15, INT32: 31, INT64: 63 }

/** The widest type of a column that holds values of the kind. */
export function typeOfKind(kind: ValueKind): ColumnType {
  return TYPE_OF[kind]
}

export function kindOfType(type: ColumnType): ValueKind {
  return KIND_OF[type]
}

export function isNumber({ kind }: Pick<Typed, 'kind'>): boolean {
  return kind === 'integer' || kind === 'real' || kind === 'null'
}

/** An operation over operands. Integers get the largest operand's bits unless `more` says them. */
export function operation(
  op: string,
  kind: ValueKind,
  operands: readonly Typed[],
  more: Partial<Omit<Typed, 'op' | 'kind' | 'operands'>> = {},
): Typed {
  const bits = kind === 'integer' ? Math.max(1, ...operands.map(operand => operand.bits)) : 0
  return { op, kind, bits, operands, ...more }
}

export function columnOf(column: QueryColumn): Typed {
  return { op: 'column', kind: KIND_OF[column.type], bits: BITS[column.type] ?? 0, operands: [], column }
}

export function boundValue(bound: Bound): Typed {
  const kind = KIND_OF[bound.type]
  const bits = kind === 'integer' ? bitLength(String(bound.value)) : 0
  return { op: 'value', kind, bits, operands: [], bound }
}

/** A value is bound in parts of so many bits: no type of a bound value has more than 64. */
const PART = 2n ** 62n

/** A whole number of up to 127 bits. */
export function wholeValue(value: bigint): Typed {
  const bind = (part: bigint) => boundValue({ type: 'INT64', value: String(part) })
  if (value / PART === 0n) return bind(value)
  const more = { bits: bitLength(String(value)) }
  const high = operation('*', 'integer', [wholeValue(value / PART), bind(PART)], more)
  return operation('+', 'integer', [high, bind(value % PART)], more)
}

export function nullOf(kind: ValueKind): Typed {
  return { op: 'null', kind, bits: 1, operands: [] }
}

export function castTo(type: ColumnType, operand: Typed): Typed {
  return operation('cast', KIND_OF[type], [operand], { type, bits: BITS[type] ?? 0 })
}

function bitLength(text: string): number {
  const value = BigInt(text)
  return (value < 0n ? -value : value).toString(2).length
}
