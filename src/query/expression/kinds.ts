/** Rules about kinds of values: how a literal is read, what can be compared, what can be cast. */
import type { ColumnType } from '../../format/schema.ts'
import type { Literal } from './ast.ts'
import { notOfType, parseValue, tryValue, wholeAround } from './operand.ts'
import { boundValue, castTo, nullOf, type Typed, type ValueKind, wholeValue } from './typed.ts'
import { Refused } from './values.ts'

/** A placeholder whose value is not known while a policy is only checked. */
export type AnyLiteral = Literal | { readonly kind: 'unknown' }

/** A policy value is a text, number or boolean: it equals no object, and texts have quotes. */
export const NO_JSON_VALUE =
  'a JSON value cannot be compared with a policy value: compare a part of it in filterSql with ->>'

/** A literal that nothing else gives a type. */
export function valueOfLiteral(literal: AnyLiteral): Typed {
  switch (literal.kind) {
    case 'null':
    case 'unknown':
      return nullOf('null')
    case 'boolean':
      return boundValue({ type: 'BOOLEAN', value: literal.value })
    case 'number':
      return parsed('INT64', literal.text) ?? wide(literal.text) ?? must('DOUBLE', literal.text)
    case 'text':
      return must('STRING', literal.text)
  }
}

/**
 * What becomes of a number that no whole number equals, or that is beyond all of them, where it is
 * compared with whole numbers. The result of the comparison is exact: `x < 1.5` is `x < 2`.
 *
 *   floor, ceil   the next whole number below it, or above it
 *   never         a whole number that no value equals
 */
export type Rounding = 'floor' | 'ceil' | 'never'

/**
 * A literal that meets a typed value.
 * @param rounding given where it is compared with whole numbers alone
 */
export function coerce(literal: AnyLiteral, target: Typed, rounding?: Rounding): Typed {
  if (literal.kind === 'unknown' && target.kind === 'json') throw new Refused(NO_JSON_VALUE)
  if (literal.kind === 'null' || literal.kind === 'unknown') return nullOf(target.kind)
  const text = literal.kind === 'boolean' ? String(literal.value) : literal.text
  switch (target.kind) {
    case 'text':
      return must('STRING', text)
    case 'json':
      if (text.trim() === 'null') throw new Refused('JSON null is null: use NULL, or IS NULL')
      return must('JSON', text)
    case 'boolean':
      return must('BOOLEAN', literal.kind === 'number' ? (BITS[text] ?? text) : text)
    case 'date':
      return parsed('DATE', text) ?? parsed('TIMESTAMP', text) ?? must('DATE', text)
    case 'instant':
      return boundValue(parseValue('TIMESTAMP', text, target.column?.roundsEpochs))
    case 'integer':
    case 'real':
      return number(literal, text, target, rounding)
    default:
      return valueOfLiteral(literal)
  }
}

/** ClickHouse's booleans are numbers. */
const BITS: Readonly<Record<string, string>> = { '0': 'false', '1': 'true' }

/** Beyond every whole number that is computed: those have 126 bits at most. */
const BEYOND = 2n ** 126n + 1n

/** A whole number beyond 64 bits, written with digits alone. Arithmetic is exact up to 126 bits. */
function wide(text: string): Typed | undefined {
  return /^-?\d+$/.test(text) ? exact(text) : undefined
}

/**
 * The whole number of at most 126 bits that a text is. Any other number gives undefined without
 * `rounding`, BEYOND where that is `never`, and the rounded number otherwise.
 */
function exact(text: string, rounding?: Rounding): Typed | undefined {
  const around = wholeAround(text)
  if (around === undefined) return undefined
  const isWhole = around.floor === around.ceil && around.floor < BEYOND && around.floor > -BEYOND
  if (isWhole) return wholeValue(around.floor)
  if (rounding === undefined) return undefined
  if (rounding === 'never') return wholeValue(BEYOND)
  const value = around[rounding]
  return wholeValue(value > BEYOND ? BEYOND : value < -BEYOND ? -BEYOND : value)
}

/** Read as the column's own type, as filters do; else as a number. */
function number(literal: AnyLiteral, text: string, { column, kind }: Typed, rounding?: Rounding): Typed {
  const asColumn = column === undefined ? undefined : parsed(column.type, text)
  if (asColumn !== undefined) return asColumn
  if (literal.kind === 'number' || (literal.kind === 'text' && column === undefined))
    return (
      parsed('INT64', text) ??
      (kind === 'integer' ? exact(text, rounding) : undefined) ??
      must('DOUBLE', text)
    )
  throw notOfType(column?.type ?? 'number', text)
}

function parsed(type: ColumnType, text: string): Typed | undefined {
  const bound = tryValue(type, text)
  return bound && boundValue(bound)
}

function must(type: ColumnType, text: string): Typed {
  return boundValue(parseValue(type, text))
}

/** The same values in one kind: numbers become real, dates become instants where they are mixed. */
export function unify(operands: readonly Typed[]): readonly Typed[] {
  const kinds = [...new Set(operands.map(({ kind }) => kind))].filter(kind => kind !== 'null')
  const [kind = 'null'] = kinds
  const to = kinds.length <= 1 ? kind : mixed(kinds)
  return operands.map(operand => {
    if (operand.kind === 'null') return nullOf(to)
    if (operand.kind === to) return operand
    return castTo(to === 'real' ? 'DOUBLE' : 'TIMESTAMP', operand)
  })
}

function mixed(kinds: readonly ValueKind[]): ValueKind {
  const all = [...kinds].sort().join(' and ')
  if (all === 'integer and real') return 'real'
  if (all === 'date and instant') return 'instant'
  throw new Refused(`values of the types ${all} do not fit together: CAST one of them`)
}

const CASTS: Readonly<Record<ValueKind, readonly ValueKind[]>> = {
  boolean: ['boolean', 'text', 'integer', 'real'],
  text: ['boolean', 'text', 'integer', 'real', 'date', 'instant'],
  integer: ['boolean', 'text', 'integer', 'real'],
  real: ['boolean', 'text', 'integer', 'real'],
  date: ['text', 'date', 'instant'],
  instant: ['text', 'date', 'instant'],
  json: ['text'],
  interval: [],
  null: ['boolean', 'text', 'integer', 'real', 'date', 'instant'],
}

export function isCastable(from: ValueKind, type: ColumnType): boolean {
  return CASTS[from].includes(castTo(type, nullOf(from)).kind)
}
