/** Literals in DuckDB's tree: numbers, true and false, intervals. */
import { type Expression, INTERVAL_UNITS, type IntervalUnit } from './ast.ts'
import { endOfPart } from './lexical.ts'
import { isNode, type Node, nodeOf, nodesOf } from './tree-node.ts'
import { Refused } from './values.ts'

/** The number of an interval. */
export const INTERVAL_MAX = 1_000_000
/** Integer part, fraction and exponent of a number in SQL. Each may be absent. */
const NUMBER = /^(\d*)(\.\d*)?([eE][+-]?\d+)?/
const INTEGER_TYPES: readonly unknown[] = ['INTEGER', 'BIGINT', 'HUGEINT', 'UHUGEINT']
/** More digits than any column's number has. */
const NUMBER_CHARACTERS_MAX = 400

/**
 * The number of a CONSTANT as a JSON number. JSON.parse rounds large numbers, and decimals have no
 * point in the tree, so the digits are read from the SQL text.
 */
export function numberText(node: Node, sql: Buffer): string {
  const value = nodeOf(node, 'value')
  const type = nodeOf(value, 'type')['id']
  if (![...INTEGER_TYPES, 'DECIMAL', 'DOUBLE'].includes(type))
    throw new Refused('values are texts, numbers, true, false and NULL')
  const held = value['value'] ?? 0
  if (INTEGER_TYPES.includes(type) && Number.isSafeInteger(held)) return String(held)
  const place = Number(node['query_location'] ?? 0)
  const source = sql.toString('latin1', place, place + NUMBER_CHARACTERS_MAX)
  const { sign, at } = signsOf(source)
  const text = source.slice(at)
  const [whole = '', integer = '', fraction = '.', exponent = ''] = NUMBER.exec(text) ?? []
  const isCut = source.length === NUMBER_CHARACTERS_MAX && whole.length === text.length
  if (isCut || (integer === '' && fraction === '.') || /^[\w.]/.test(text.slice(whole.length)))
    throw new Refused('a number is written with digits, a point and an exponent')
  return `${sign}${withoutZeros(integer)}${fraction === '.' ? '' : fraction}${exponent}`
}

/**
 * The sign of a number, and where its digits begin. The parser joins signs to their number, which
 * then stands at the first of them: `-(2.5)`.
 */
function signsOf(source: string): { readonly sign: '-' | ''; readonly at: number } {
  let at = 0
  let isNegative = false
  while (/^[-(\s]|^\/\*/.test(source.slice(at, at + 2))) {
    const end = endOfPart(source, at)
    if (source.slice(at, end) === '-') isNegative = !isNegative
    at = end
  }
  return { sign: isNegative ? '-' : '', at }
}

function withoutZeros(integer: string): string {
  let zeros = 0
  while (zeros < integer.length - 1 && integer[zeros] === '0') zeros++
  return integer.slice(zeros) || '0'
}

/** `true` and `false` are casts of texts in the tree. `INTERVAL '7 days'` is a cast too. */
export function fromCast(node: Node): Expression | undefined {
  const child = nodeOf(node, 'child')
  const type = nodeOf(node, 'cast_type')['id']
  const text = constantText(child)
  if (type === 'BOOLEAN' && (text === 't' || text === 'f')) return { kind: 'boolean', value: text === 't' }
  if (type !== 'INTERVAL') return undefined
  const [count = '', word = '', ...more] = (text ?? '')
    .trim()
    .toLowerCase()
    .split(/[ \t\r\n]+/)
  const unit = INTERVAL_UNITS.find(each => each === word || each === `${word}s`)
  if (!/^-?\d{1,9}$/.test(count) || unit === undefined || more.length > 0) throw new Refused(INTERVAL_FORM)
  return interval(Number(count), unit)
}

const INTERVAL_FORM = `an interval is one whole number of ${INTERVAL_UNITS.join(', ')}`
const UNIT_OF: ReadonlyMap<unknown, IntervalUnit> = new Map(INTERVAL_UNITS.map(unit => [`to_${unit}`, unit]))

/** The interval of `to_days(…)`, as which the parser gives `INTERVAL 7 DAY`. */
export function intervalOf(node: Node): Expression | undefined {
  const unit = UNIT_OF.get(node['function_name'])
  if (unit === undefined) return undefined
  const [argument, ...more] = nodesOf(node, 'children')
  const count = argument === undefined ? undefined : countOf(argument)
  if (count === undefined || more.length > 0) throw new Refused(INTERVAL_FORM)
  return interval(count, unit)
}

function interval(count: number, unit: IntervalUnit): Expression {
  if (Math.abs(count) > INTERVAL_MAX) throw new Refused(`an interval has at most ${INTERVAL_MAX} ${unit}`)
  return { kind: 'interval', count, unit }
}

/** The whole number below the casts that the parser puts around it. */
function countOf(node: Node): number | undefined {
  if (node['class'] === 'CAST') return countOf(nodeOf(node, 'child'))
  const [child] = node['function_name'] === 'trunc' ? nodesOf(node, 'children') : []
  if (child !== undefined) return countOf(child)
  if (node['class'] !== 'CONSTANT') return undefined
  const value = nodeOf(node, 'value')
  const held = value['value'] ?? 0
  if (Number.isSafeInteger(held)) return held as number
  return typeof held === 'string' && /^-?\d{1,9}$/.test(held) ? Number(held) : undefined
}

function constantText(node: Node): string | undefined {
  if (node['class'] !== 'CONSTANT' || !isNode(node['value'])) return undefined
  const { value } = node['value']
  return typeof value === 'string' ? value : undefined
}
