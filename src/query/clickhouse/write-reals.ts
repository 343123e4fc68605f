/** NaN, which DuckDB orders and ClickHouse does not. */
import type { Typed } from '../expression/typed.ts'

/** They make NaN of infinite numbers, which they make of large ones. */
const ARITHMETIC: ReadonlySet<string> = new Set(['+', '-', '*', '/', '%', 'sum', 'average', 'quantile'])

/**
 * True of a real number that may be NaN. No column of a pool and no cast of a text is.
 * @param isOfPool true of a column of a pool
 */
export function mayBeNan(typed: Typed, isOfPool: (column: Typed) => boolean): boolean {
  const { op, kind, operands, select } = typed
  if (kind !== 'real') return false
  if (op === 'column') return !isOfPool(typed)
  if (op === 'output') return true
  if (select !== undefined) return select.outputs.some(({ value }) => mayBeNan(value, isOfPool))
  return ARITHMETIC.has(op) || operands.some(each => mayBeNan(each, isOfPool))
}

/** A comparison in which NaN equals itself and is beyond all others. Both are names. */
export function orderedReals(op: string, a: string, b: string): string {
  switch (op) {
    case '=':
      return `((${a} = ${b}) OR (isNaN(${a}) AND isNaN(${b})))`
    case '<>':
      return `((${a} <> ${b}) AND NOT (isNaN(${a}) AND isNaN(${b})))`
    case '<':
      return `((${a} < ${b}) OR (isNaN(${b}) AND NOT isNaN(${a})))`
    case '>':
      return `((${a} > ${b}) OR (isNaN(${a}) AND NOT isNaN(${b})))`
    case '<=':
      return `((${a} <= ${b}) OR (isNaN(${b}) AND ${a} IS NOT NULL))`
    default:
      return `((${a} >= ${b}) OR (isNaN(${a}) AND ${b} IS NOT NULL))`
  }
}
