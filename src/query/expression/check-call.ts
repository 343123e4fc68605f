/** Calls of functions and operators, checked against the table of functions.ts. */
import type { ColumnType } from '../../format/schema.ts'
import type { Call, Expression } from './ast.ts'
import type { Checker } from './check.ts'
import { type Constants, growthOf, readConstant } from './constant-arguments.ts'
import { type Argument, type FunctionSpec, functionOf } from './functions.ts'
import { quoted } from './operand.ts'
import { boundValue, castTo, isNumber, nullOf, operation, type Typed } from './typed.ts'
import { partOf, Refused } from './values.ts'

const DAY_MS = 86_400_000

/** What DuckDB's parser adds to an operator that stands behind its operand. */
const AFTER_OPERAND = '__postfix'

export function checkCall(call: Call, checker: Checker): Typed {
  const arithmetic = checkArithmetic(call, checker)
  if (arithmetic !== undefined) return arithmetic
  const { name } = call
  // COUNT() is COUNT(*), and COUNT(DISTINCT x) is COUNT_DISTINCT(x).
  const isRows = name === 'count' && call.arguments.length === 0
  const isDistinct = name === 'count' && call.isDistinct
  const spec = functionOf(isRows ? 'count_star' : isDistinct ? 'count_distinct' : name)
  if (spec === undefined)
    throw new Refused(`there is no function ${quoted(name.split(AFTER_OPERAND)[0] ?? '')}`)
  checkForm(call, spec, isDistinct)
  if (spec.isAggregate !== true) return checkScalar(call, spec, checker)
  return checker.aggregate(() => checkAggregate(call, spec, checker))
}

function checkForm(call: Call, spec: FunctionSpec, isDistinct: boolean): void {
  const { name, filter } = call
  if (call.isDistinct && !isDistinct) throw new Refused(`${name}: DISTINCT is for COUNT alone`)
  if (filter !== null && (spec.isAggregate !== true || spec.hasCondition === true))
    throw new Refused(`${name}: it takes no FILTER`)
  const max = spec.repeats === true ? Number.POSITIVE_INFINITY : spec.arguments.length
  const min = spec.arguments.length - (spec.optional ?? 0)
  const given = call.arguments.length
  if (given < min || given > max)
    throw new Refused(
      `${name}: it takes ${min}${max === min ? '' : max > 99 ? ' or more' : ` to ${max}`} arguments`,
    )
}

function checkAggregate(call: Call, spec: FunctionSpec, checker: Checker): Typed {
  const values = spec.hasCondition === true ? call.arguments.slice(0, -1) : call.arguments
  const given = spec.hasCondition === true ? (call.arguments.at(-1) ?? null) : call.filter
  const filter = given === null ? {} : { filter: checker.condition(given) }
  const isQuantile = spec.arguments[1] === 'fraction'
  const operands = values
    .slice(0, isQuantile ? 1 : 2)
    .map((value, index) => argument(call.name, spec.arguments[index] as Argument, value, checker))
  const [operand] = operands
  const number = isQuantile ? fraction(call.name, values[1] as Expression) : spec.number
  const more = { ...filter, ...(number === undefined ? {} : { number }) }
  const kind = spec.result === 'same' ? (operand?.kind ?? 'null') : spec.result
  const isSum = spec.op === 'sum'
  if (kind !== 'integer' || (spec.result === 'same' && !isSum))
    return operation(spec.op, kind, operands, { ...more, bits: operand?.bits ?? 0 })
  const bits = ROWS_BITS + (isSum ? (operand?.bits ?? 0) : 0)
  if (bits > INTEGER_BITS_MAX) return operation('sum', 'real', [castTo('DOUBLE', operand as Typed)], more)
  return operation(spec.op, kind, operands, { ...more, bits })
}

/** No pool has 2^48 rows. */
const ROWS_BITS = 48

/** The widest integer of an engine has a sign and 127 bits: it holds 2^126, and not 2^127. */
const INTEGER_BITS_MAX = 126

function checkScalar(call: Call, spec: FunctionSpec, checker: Checker): Typed {
  const { name } = call
  const [first] = call.arguments
  if (spec.op === 'now' || spec.op === 'today') return nowOf(spec.op, checker.nowMs)
  if (spec.arguments[0] === 'json') return checkJson(call, spec, checker)
  if (spec.op === 'cast') return checker.cast(first as Expression, spec.type as ColumnType)
  if (spec.arguments[0] === 'same') {
    const operands = checker.group(call.arguments, spec.op === 'nullif' ? [undefined, 'never'] : [])
    const [{ kind } = nullOf('null')] = operands
    if (kind === 'json' && spec.op !== 'coalesce') throw new Refused(`${name}: it takes no JSON`)
    return operation(spec.op, kind, operands)
  }
  if (spec.op === 'concat' || spec.op === '||') checker.joinTexts(call.arguments.length)
  let constants: Constants = spec.part === undefined ? {} : { word: spec.part }
  const operands: Typed[] = []
  for (const [index, expression] of call.arguments.entries()) {
    const wanted = spec.arguments[Math.min(index, spec.arguments.length - 1)] as Argument
    const read = readConstant(wanted)
    if (read === undefined) operands.push(argument(name, wanted, expression, checker))
    else {
      const constant = partOf(name, () => read(expression, spec.op, constants.word ?? ''))
      if ('kind' in constant) operands.push(constant)
      else constants = { ...constants, ...constant }
    }
  }
  const { op = spec.op, ...words } = constants
  const growth = partOf(name, () => growthOf(op, operands, words.word))
  if (growth === undefined) return scalarOf({ ...spec, op }, operands, words)
  if (growth > 1) checker.joinTexts(growth)
  return scalarOf({ ...spec, op }, operands, { ...words, number: growth })
}

function scalarOf(spec: FunctionSpec, operands: readonly Typed[], words: Constants): Typed {
  const { op, result } = spec
  const [operand = nullOf('null')] = operands
  const isWhole = operand.kind === 'integer' && words.number === undefined
  if (isWhole && ['round', 'floor', 'ceil'].includes(op)) return operand
  if (op === 'date_part' && words.word === 'epoch') return operation(op, 'real', operands, words)
  const kind = result === 'same' ? operand.kind : result
  const bits = RESULT_BITS[op]
  return operation(op, kind, operands, bits === undefined ? words : { ...words, bits })
}

const RESULT_BITS: Readonly<Record<string, number>> = {
  length: 33,
  strpos: 33,
  json_array_length: 33,
  date_part: 40,
  date_diff: 64,
  sign: 1,
}

function argument(name: string, wanted: Argument, expression: Expression, checker: Checker): Typed {
  if (wanted === 'time') return timeOf(name, expression, checker)
  const typed = checker.check(expression)
  const { kind } = typed
  const fits =
    kind === 'null' ||
    (wanted === 'any' && kind !== 'interval') ||
    (wanted === 'plain' && kind !== 'interval' && kind !== 'json') ||
    (wanted === 'number' && isNumber(typed)) ||
    kind === wanted
  if (!fits) throw new Refused(`${name}: its argument is ${kind}, and ${WANTED[wanted] ?? wanted} is needed`)
  if (kind !== 'null') return typed
  if (wanted === 'text' || wanted === 'integer' || wanted === 'boolean') return nullOf(wanted)
  return nullOf(wanted === 'number' ? 'real' : 'boolean')
}

const WANTED: Partial<Record<Argument, string>> = {
  any: 'a value',
  plain: 'a value that is not JSON',
  number: 'a number',
  integer: 'a whole number',
  text: 'a text',
  boolean: 'a condition',
}

/** A DATE or TIMESTAMP as an instant. A literal text, or one of a policy, is read as one. */
function timeOf(name: string, expression: Expression, checker: Checker): Typed {
  if (expression.kind === 'text' || expression.kind === 'policyValue')
    return checker.cast(expression, 'TIMESTAMP')
  const typed = checker.check(expression)
  if (typed.kind === 'null') return nullOf('instant')
  if (typed.kind !== 'date' && typed.kind !== 'instant')
    throw new Refused(`${name}: its argument is ${typed.kind}, and a DATE or TIMESTAMP is needed`)
  // The engine may store instants with a zone. The cast makes all of them UTC.
  return castTo('TIMESTAMP', typed)
}

function nowOf(op: 'now' | 'today', nowMs: number): Typed {
  if (op === 'today') return boundValue({ type: 'DATE', value: String(Math.floor(nowMs / DAY_MS)) })
  return boundValue({ type: 'TIMESTAMP', value: String(BigInt(nowMs) * 1000n) })
}

function fraction(name: string, expression: Expression): number {
  const number = expression.kind === 'number' ? Number(expression.text) : -1
  if (number >= 0 && number <= 1) return number
  throw new Refused(`${name}: its second argument is a number from 0 to 1`)
}

/** `column -> 'a' ->> 'b'` is one path into a column. */
function checkJson(call: Call, spec: FunctionSpec, checker: Checker): Typed {
  const [json, ...keys] = call.arguments
  const from = checker.check(json as Expression)
  const isPath = from.op === 'json_value'
  const column = isPath ? (from.operands[0] as Typed) : from
  if (column.op !== 'column' || (column.kind !== 'json' && column.kind !== 'text'))
    throw new Refused(`${call.name}: a JSON column is needed`)
  const isClickHouse = spec.type !== undefined
  const path = keys.map(key => pathOf(call.name, key, isClickHouse)).join('')
  const word = `${isPath ? from.word : ''}${path}`
  const bits = RESULT_BITS[spec.op] ?? 0
  if (!isClickHouse)
    return operation(spec.op, spec.result as 'text' | 'json' | 'integer', [column], { word, bits })
  const text = operation('json_text', 'text', [column], { word })
  return spec.type === 'STRING' ? text : castTo(spec.type as ColumnType, text)
}

function pathOf(name: string, key: Expression, isClickHouse: boolean): string {
  // ClickHouse takes keys alone, and counts elements from 1.
  if (key.kind === 'number' && !isClickHouse && /^\d{1,9}$/.test(key.text)) return step(key.text)
  const pointer = key.kind !== 'text' ? undefined : isClickHouse ? step(key.text) : pointerOf(key.text)
  if (pointer === undefined)
    throw new Refused(`${name}: a key such as 'a' or a path such as '$.a.b[0]' is needed, written as a text`)
  return pointer
}

// ── arithmetic ──────────────────────────────────────────────────────────────────────────────────

function checkArithmetic(call: Call, checker: Checker): Typed | undefined {
  const name = call.name === 'mod' ? '%' : call.name
  if (!['+', '-', '*', '/', '%'].includes(name)) return undefined
  const [left, right, ...more] = call.arguments
  if (left === undefined || more.length > 0 || (right === undefined && name !== '-' && name !== '+'))
    throw new Refused(`${name}: it takes two arguments`)
  if (right === undefined) {
    const operand = numeric(name, checker.check(left))
    return name === '+' ? operand : operation('negate', operand.kind, [operand])
  }
  return shifted(name, left, right, checker) ?? numbers(name, checker.check(left), checker.check(right))
}

/** A time and an interval; undefined if neither operand is an interval. */
function shifted(name: string, left: Expression, right: Expression, checker: Checker): Typed | undefined {
  const isFirst = left.kind === 'interval'
  const interval = isFirst ? left : right
  if (interval.kind !== 'interval') return undefined
  if (name !== '+' && (name !== '-' || isFirst))
    throw new Refused('an interval is added to a time, or taken from it')
  const time = timeOf(name, isFirst ? right : left, checker)
  const count = name === '-' ? -interval.count : interval.count
  return operation('shift', 'instant', [time], { interval: { count, unit: interval.unit } })
}

/** Integers stay exact up to INTEGER_BITS_MAX bits of the result; then they become real. */
function numbers(op: string, left: Typed, right: Typed): Typed {
  const [a, b] = [numeric(op, left), numeric(op, right)]
  const most = Math.max(a.bits, b.bits)
  const bits = op === '*' ? a.bits + b.bits : op === '%' ? most : most + 1
  const isExact = a.kind === 'integer' && b.kind === 'integer' && op !== '/' && bits <= INTEGER_BITS_MAX
  return isExact ? operation(op, 'integer', [a, b], { bits }) : operation(op, 'real', [a, b])
}

function numeric(name: string, typed: Typed): Typed {
  if (typed.kind === 'null') return nullOf('real')
  if (isNumber(typed)) return typed
  throw new Refused(`${name}: its operands are numbers, and this is ${typed.kind}`)
}

/** The JSON pointer (RFC 6901) of a key, as also `$a` is one, or of a path such as `$.a."b"[0]`. */
function pointerOf(text: string): string | undefined {
  if (!/^\$(?:$|[.[])/.test(text)) return step(text)
  let pointer = ''
  for (let at = 1; at < text.length; ) {
    const rest = text.slice(at)
    const [whole, name, quoted, index] = STEP.exec(rest) ?? []
    const key = name ?? quoted?.replaceAll(/\\(["\\])/g, '$1') ?? index
    if (whole === undefined || key === undefined) return undefined
    pointer += step(key)
    at += whole.length
  }
  return pointer
}

/** `.name`, `."any \"name\""` or `[0]`. No wildcard: it has many values. */
const STEP = /^(?:\.([\w$-]{1,1024})|\."((?:[^"\\]|\\["\\]){0,1024})"|\[(\d{1,9})\])/

function step(key: string): string {
  return `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
}
