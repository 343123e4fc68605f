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
  | { readonly kind: 'text' | 'number' | 'time'; readonly text: string }
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

/** The conditions of a WHERE as the caller wrote it, on columns of the only table, of that name. */
export function readConditions(where: unknown, table: string): readonly ReadCondition[] {
  if (!isNode(where)) return []
  if (where['class'] === 'CONJUNCTION' && where['type'] === 'CONJUNCTION_AND')
    return (where['children'] as readonly unknown[]).flatMap(each => readConditions(each, table))
  const read = (left: unknown, operator: ReadCondition['operator'], right: unknown) => {
    const column = columnIn(left, table)
    return column === undefined ? undefined : comparison(column, operator, valueIn(right))
  }
  if (where['class'] === 'BETWEEN') {
    const { input, lower, upper } = where
    return [read(input, '>=', lower), read(input, '<=', upper)].flatMap(each => each ?? [])
  }
  const operator = where['class'] === 'COMPARISON' ? OPERATORS[String(where['type'])] : undefined
  if (operator === undefined) return []
  const { left, right } = where
  const found = read(left, operator, right) ?? read(right, TURNED[operator], left)
  return found === undefined ? [] : [found]
}

/** Before the point stands the table: another name is of an outer query, or a JSON column. */
function columnIn(node: unknown, table: string): string | undefined {
  const names = isNode(node) && node['class'] === 'COLUMN_REF' ? (node['column_names'] as string[]) : []
  const [first, second] = names
  if (names.length === 1) return first
  return names.length === 2 && first?.toLowerCase() === table.toLowerCase() ? second : undefined
}

function comparison(
  column: string,
  operator: ReadCondition['operator'],
  value: ReadValue | undefined,
): ReadCondition | undefined {
  if (value === undefined) return undefined
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
        : { kind: 'time', text: type === 'DATE' ? inner.slice(0, 10) : inner }
    }
    case 'CONSTANT': {
      const digits = digitsIn(node['value'])
      return digits === undefined ? undefined : { kind: 'number', text: digits }
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
  const digits = textOfConstant(node) ?? digitsIn(node['value'])
  const number = digits === undefined || digits.trim() === '' ? Number.NaN : Number(digits)
  return Number.isSafeInteger(number) ? number : undefined
}

/** The digits of an integer; those of a DECIMAL lack its point. */
function digitsIn(constant: unknown): string | undefined {
  const type = isNode(constant) ? constant['type'] : undefined
  if (!isNode(constant) || !isNode(type) || !/INT/.test(String(type['id']))) return undefined
  const digits = digitsOf(constant['value'])
  return /^-?\d+$/.test(digits) ? digits : undefined
}
