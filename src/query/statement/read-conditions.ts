/**
 * What a statement's conditions say of one column each, for leaving out segments
 * (plan/prune-segments.ts): parts of the outermost AND of a WHERE whose SELECT reads one pool and
 * joins nothing. A policy keeps conditions from the files, so without this a dashboard of a week
 * would read all rows of its tenant.
 *
 *   W-8  A condition that is not read leaves out nothing. Times are read where DuckDB and Weir
 *        read them alike. now() of the plan is earlier than the engine's, so it is a lower bound.
 */
import { isNode, type Node } from '../expression/tree-node.ts'
import { digitsOf, textOfConstant } from './tree.ts'

/** A value as it is written, the number of a parameter, or microseconds before now. */
type ReadValue =
  | { readonly kind: 'text' | 'number'; readonly text: string }
  | { readonly kind: 'parameter'; readonly name: string }
  | { readonly kind: 'ago'; readonly us: number }

/** `column operator value`. */
export interface ReadCondition {
  readonly column: string
  readonly operator: '=' | '<' | '<=' | '>' | '>='
  readonly value: ReadValue
}

const OPERATORS: Readonly<Record<string, ReadCondition['operator']>> = {
  COMPARE_EQUAL: '=',
  COMPARE_LESSTHAN: '<',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHAN: '>',
  COMPARE_GREATERTHANOREQUALTO: '>=',
}
const TURNED: Readonly<Record<ReadCondition['operator'], ReadCondition['operator']>> = {
  '=': '=',
  '<': '>',
  '<=': '>=',
  '>': '<',
  '>=': '<=',
}
const UNITS_US: Readonly<Record<string, number>> = {
  to_weeks: 604_800e6,
  to_days: 86_400e6,
  to_hours: 3_600e6,
  to_minutes: 60e6,
  to_seconds: 1e6,
}

/** The conditions of a WHERE as the caller wrote it. */
export function readConditions(where: unknown): readonly ReadCondition[] {
  if (!isNode(where)) return []
  if (where['class'] === 'CONJUNCTION' && where['type'] === 'CONJUNCTION_AND')
    return (where['children'] as readonly unknown[]).flatMap(readConditions)
  if (where['class'] === 'BETWEEN') {
    const { input, lower, upper } = where
    return [comparison(input, '>=', lower), comparison(input, '<=', upper)].flatMap(each => each ?? [])
  }
  const operator = where['class'] === 'COMPARISON' ? OPERATORS[String(where['type'])] : undefined
  if (operator === undefined) return []
  const { left, right } = where
  const found = comparison(left, operator, right) ?? comparison(right, TURNED[operator], left)
  return found === undefined ? [] : [found]
}

function comparison(
  left: unknown,
  operator: ReadCondition['operator'],
  right: unknown,
): ReadCondition | undefined {
  const names = isNode(left) && left['class'] === 'COLUMN_REF' ? (left['column_names'] as string[]) : []
  const column = names.at(-1)
  const value = valueIn(right)
  if (column === undefined || names.length > 2 || value === undefined) return undefined
  return value.kind === 'ago' && !operator.startsWith('>') ? undefined : { column, operator, value }
}

function valueIn(node: unknown): ReadValue | undefined {
  if (!isNode(node)) return undefined
  const text = textOfConstant(node)
  if (text !== undefined) return { kind: 'text', text }
  switch (node['class']) {
    case 'PARAMETER':
      return { kind: 'parameter', name: String(node['identifier']) }
    case 'CAST': {
      const type = isNode(node['cast_type']) ? node['cast_type']['id'] : undefined
      const isTime = type === 'TIMESTAMP' || type === 'DATE'
      const inner = isTime ? textOfConstant(node['child']) : undefined
      return inner === undefined
        ? undefined
        : { kind: 'text', text: type === 'DATE' ? inner.slice(0, 10) : inner }
    }
    case 'CONSTANT': {
      const value = node['value']
      const digits =
        isNode(value) && isNode(value['type']) && /INT/.test(String(value['type']['id']))
          ? digitsOf(value['value'])
          : ''
      return /^-?\d+$/.test(digits) ? { kind: 'number', text: digits } : undefined
    }
    default:
      return agoOf(node)
  }
}

/** `now() - INTERVAL 7 DAY`. */
function agoOf({ function_name: name, children }: Node): ReadValue | undefined {
  const [now, interval] = Array.isArray(children) ? (children as unknown[]) : []
  if (name !== '-' || !isNode(now) || now['function_name'] !== 'now' || !isNode(interval)) return undefined
  const unit = UNITS_US[String(interval['function_name'])]
  const count = unit === undefined ? undefined : integerIn(interval['children'])
  return unit === undefined || count === undefined ? undefined : { kind: 'ago', us: count * unit }
}

/** The whole number below the casts that the parser puts around it. */
function integerIn(value: unknown): number | undefined {
  const [node] = Array.isArray(value) ? (value as unknown[]) : [value]
  if (!isNode(node)) return undefined
  if (node['class'] === 'CAST') return integerIn(node['child'])
  if (node['function_name'] === 'trunc') return integerIn(node['children'])
  const constant = node['class'] === 'CONSTANT' ? node['value'] : undefined
  const number = isNode(constant) ? Number(digitsOf(constant['value'])) : Number.NaN
  return Number.isSafeInteger(number) ? number : undefined
}
