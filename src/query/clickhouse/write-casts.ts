/** Casts as SQL of ClickHouse: what does not fit is null. */
import type { ColumnType } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import type { Typed, ValueKind } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
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
      if (from.bits <= 63) return `${to}(${sql})`
      if (isSingle) throw new Refused('whole numbers beyond 64 bits become DOUBLE and not FLOAT in a cluster')
      return wideAsReal(sql, name)
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
function wideAsReal(sql: string, name: Let): string {
  return name([`toInt128(${sql})`], x => {
    const [low, high] = [`toUInt64(${x})`, `toInt64(bitShiftRight(${x}, 64))`]
    const sum = `toFloat64(${low}) + toFloat64(${high}) * 18446744073709551616.`
    return `if(${high} = -1, -toFloat64(bitNot(${low})) - 1, ${sum})`
  })
}

/** True of a real number of 32 bits. */
function isSingle({ op, kind, operands, column, bound, type, select }: Typed): boolean {
  if (column !== undefined || bound !== undefined) return (column?.type ?? bound?.type) === 'FLOAT'
  if (op === 'cast') return type === 'FLOAT'
  if (select !== undefined) return select.outputs.some(({ value }) => isSingle(value))
  if (op === 'arg_max' || op === 'arg_min') return operands.slice(0, 1).some(isSingle)
  const values = operands.filter(each => each.kind === kind)
  return SAME_TYPE.has(op) && values.length > 0 && values.every(isSingle)
}

/** Operations whose result has the type of their operands. */
const SAME_TYPE: ReadonlySet<string> = new Set('min max case coalesce nullif greatest least'.split(' '))

// ── texts ───────────────────────────────────────────────────────────────────────────────────────

function textSql(from: Typed, sql: string, name: Let): string {
  switch (from.kind) {
    case 'boolean':
      return `multiIf(${sql}, 'true', NOT (${sql}), 'false', NULL)`
    case 'real':
      // DuckDB prints 4013918.75 where 4013918.8 is the same FLOAT.
      if (isSingle(from)) throw new Refused('a FLOAT becomes no text in a cluster: CAST it to DOUBLE first')
      return name([sql], x => name([`toString(abs(${x}))`], text => realText(x, text, name)))
    case 'date':
      return name([sql], days => dateText(days))
    case 'instant':
      return name([sql], us => instantText(us, name))
    default:
      return `toString(${sql})`
  }
}

/** As C++ prints it: digits below 1e16 and from 0.0001 on, else with an exponent. */
function realText(x: string, text: string, name: Let): string {
  const isSmall = `startsWith(${text}, '0.0000')`
  const whole = `splitByChar('.', assumeNotNull(${text}))[1]`
  const significant = `replaceRegexpOne(${text}, '^0\\\\.0*', '')`
  const digits = `if(${isSmall}, ${significant}, replaceRegexpOne(${whole}, '0+$', ''))`
  const exponent = `if(${isSmall}, toInt64(length(${significant})) - toInt64(length(${text})) + 1, toInt64(length(${whole})) - 1)`
  const mantissa = name(
    [digits],
    d => `if(length(${d}) > 1, concat(substring(${d}, 1, 1), '.', substring(${d}, 2)), ${d})`,
  )
  const power = (of: string) =>
    name([of], e => `concat(if(${e} < 0, 'e-', 'e+'), if(abs(${e}) < 10, '0', ''), toString(abs(${e})))`)
  const halves = `splitByChar('e', assumeNotNull(${text}))`
  const written = `concat(${halves}[1], ${power(`toInt32OrZero(${halves}[2])`)})`
  const plain = `concat(${text}, if(position(${text}, '.') > 0, '', '.0'))`
  const positive = `multiIf(NOT isFinite(${x}), ${text}, position(${text}, 'e') > 0, ${written}, ${text} <> '0' AND (${isSmall} OR length(${whole}) > 16), concat(${mantissa}, ${power(exponent)}), ${plain})`
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
