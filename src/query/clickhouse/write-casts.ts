/** Casts as SQL of ClickHouse: what does not fit is null. */
import type { ColumnType } from '../../format/schema.ts'
import { must } from '../../util/assert.ts'
import type { Typed, ValueKind } from '../expression/typed.ts'
import { dateOfText, instantOfText, integerOfText, realOfText } from './read-texts.ts'
import type { Let } from './write-lambda.ts'

/** The type of a null of each kind. */
export const NULLABLE: Readonly<Record<ValueKind, string>> = {
  boolean: 'Nullable(Bool)',
  text: 'Nullable(String)',
  integer: 'Nullable(Int64)',
  real: 'Nullable(Float64)',
  date: 'Nullable(Int32)',
  instant: 'Nullable(Int64)',
  json: 'Nullable(String)',
  interval: 'Nullable(String)',
  null: 'Nullable(Bool)',
}
const INTEGER: Partial<Record<ColumnType, string>> = {
  INT8: 'Int8',
  INT16: 'Int16',
  INT32: 'Int32',
  INT64: 'Int64',
}

/** True where a value, or one of several, takes Int128. */
export function isWide(...values: readonly (Pick<Typed, 'bits'> | undefined)[]): boolean {
  return values.some(value => (value?.bits ?? 0) > 62)
}

interface CastWriter {
  readonly name: Let
}

/** @param sql of the operand */
export function castSql(typed: Typed, sql: string, { name }: CastWriter): string {
  const from = must(typed.operands[0], 'an operand')
  const type = must(typed.type, 'a type')
  if (from.kind === typed.kind && from.kind !== 'integer' && from.kind !== 'real') return sql
  if (from.kind === 'null') return `CAST(NULL AS ${NULLABLE[typed.kind]})`
  switch (typed.kind) {
    case 'boolean':
      return from.kind === 'text' ? booleanOfText(sql, name) : `(${sql} <> 0)`
    case 'integer':
      return integerSql(from, sql, must(INTEGER[type], 'a type of integers'), name)
    case 'real':
      return realSql(from, sql, type === 'FLOAT', name)
    case 'date':
      return from.kind === 'text'
        ? dateOfText(sql, name)
        : name([sql], us => `toInt32(intDiv(${us} - positiveModulo(${us}, 86400000000), 86400000000))`)
    case 'instant':
      return from.kind === 'text' ? instantOfText(sql, name) : `(toInt64(${sql}) * 86400000000)`
    default:
      return textSql(from, sql, name)
  }
}

function booleanOfText(sql: string, name: Let): string {
  return name([sql], text => {
    const word = `lower(${text})`
    return `multiIf(${word} IN ('true', 't', 'yes', 'y', '1'), true, ${word} IN ('false', 'f', 'no', 'n', '0'), false, NULL)`
  })
}

function integerSql({ kind }: Typed, sql: string, type: string, name: Let): string {
  if (kind === 'boolean') return `to${type}(${sql})`
  // ClickHouse's round is to even, as DuckDB's cast is.
  if (kind === 'real') return `accurateCastOrNull(round(${sql}), '${type}')`
  const whole = kind === 'text' ? integerOfText(sql, name) : sql
  return `accurateCastOrNull(${whole}, '${type}')`
}

function realSql(from: Typed, sql: string, isSingle: boolean, name: Let): string {
  const to = isSingle ? 'toFloat32' : 'toFloat64'
  switch (from.kind) {
    case 'integer':
      return from.bits > 63 ? wideAsReal(sql, to, name) : `${to}(${sql})`
    case 'text':
      return realOfText(sql, isSingle, name)
    case 'boolean':
      return `${to}(${sql})`
    default:
      if (!isSingle) return `toFloat64(${sql})`
      return name([sql], x => `if(isFinite(toFloat32(${x})) OR NOT isFinite(${x}), toFloat32(${x}), NULL)`)
  }
}

/** DuckDB's: the two halves become real, and their sum is rounded once more. */
function wideAsReal(sql: string, to: string, name: Let): string {
  return name([`toInt128(${sql})`], x => {
    const [low, high] = [`toUInt64(${x})`, `toInt64(bitShiftRight(${x}, 64))`]
    return `if(${high} = -1, -toFloat64(bitNot(${low})) - 1, ${to}(toFloat64(${low}) + toFloat64(${high}) * 18446744073709551616.))`
  })
}

// ── texts ───────────────────────────────────────────────────────────────────────────────────────

function textSql({ kind }: Typed, sql: string, name: Let): string {
  switch (kind) {
    case 'boolean':
      return `multiIf(${sql}, 'true', NOT (${sql}), 'false', NULL)`
    case 'real':
      return name([sql], x => name([`toString(abs(${x}))`], text => realText(x, text, name)))
    case 'date':
      return name([sql], days => dateText(days))
    case 'instant':
      return name([sql], us => instantText(us, name))
    default:
      return `toString(${sql})`
  }
}

/** As C++ prints it: digits up to 1e16, and from 0.0001 on; else with an exponent. */
function realText(x: string, text: string, name: Let): string {
  const isSmall = `(abs(${x}) < 0.0001)`
  const digits = `if(${isSmall}, replaceRegexpOne(${text}, '^0\\\\.0*', ''), replaceRegexpOne(${text}, '0+$', ''))`
  const exponent = `if(${isSmall}, -(length(${text}) - 1 - length(replaceRegexpOne(${text}, '^0\\\\.0*', ''))), length(${text}) - 1)`
  const mantissa = (of: string) =>
    name([of], d => `if(length(${d}) > 1, concat(substring(${d}, 1, 1), '.', substring(${d}, 2)), ${d})`)
  const power = (of: string) =>
    name([of], e => `concat(if(${e} < 0, 'e-', 'e+'), if(abs(${e}) < 10, '0', ''), toString(abs(${e})))`)
  const written = `concat(splitByChar('e', assumeNotNull(${text}))[1], ${power(`toInt32OrZero(splitByChar('e', assumeNotNull(${text}))[2])`)})`
  const made = `concat(${mantissa(digits)}, ${power(exponent)})`
  const plain = `concat(${text}, if(position(${text}, '.') > 0, '', '.0'))`
  const positive = `multiIf(NOT isFinite(${x}), ${text}, ${x} = 0 OR (abs(${x}) >= 0.0001 AND abs(${x}) < 1e16), ${plain}, position(${text}, 'e') > 0, ${written}, ${made})`
  return `concat(if(${x} < 0 OR 1 / ${x} < 0, '-', ''), ${positive})`
}

/** The year, month and day of any year; the year before 1 is `0001 (BC)`. */
function dateText(days: string): string {
  const safe = `CAST(toInt32(positiveModulo(${days} + 25567, 146097)) - 25567 AS Nullable(Date32))`
  const year = `(toInt64(toYear(${safe})) + 400 * intDiv(${days} + 25567 - positiveModulo(${days} + 25567, 146097), 146097))`
  const shown = `if(${year} > 0, ${year}, 1 - ${year})`
  return `concat(leftPad(toString(${shown}), greatest(4, length(toString(${shown}))), '0'), '-', leftPad(toString(toMonth(${safe})), 2, '0'), '-', leftPad(toString(toDayOfMonth(${safe})), 2, '0'), if(${year} > 0, '', ' (BC)'))`
}

function instantText(us: string, name: Let): string {
  const day = `intDiv(${us} - positiveModulo(${us}, 86400000000), 86400000000)`
  return name([dateText(day), `toInt64(positiveModulo(${us}, 86400000000))`], (date = '', time = '') => {
    const two = (number: string) => `leftPad(toString(${number}), 2, '0')`
    const clock = [
      `intDiv(${time}, 3600000000)`,
      `intDiv(${time}, 60000000) % 60`,
      `intDiv(${time}, 1000000) % 60`,
    ]
    const micros = `${time} % 1000000`
    const fraction = `if(${micros} = 0, '', concat('.', replaceRegexpOne(leftPad(toString(${micros}), 6, '0'), '0+$', '')))`
    const all = clock.map(two).join(", ':', ")
    return `concat(${date}, ' ', ${all}, ${fraction})`
  })
}
