/** Real numbers as DuckDB has them: NaN, which it orders and ClickHouse does not, and averages. */
import type { ColumnType } from '../../format/schema.ts'
import type { Typed } from '../expression/typed.ts'
import type { Let } from './write-lambda.ts'

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

/** Two values in the order of which NaN is beyond all others. */
export function beyondAll(x: string): string {
  return `isNaN(assumeNotNull(${x})), if(isNaN(${x}), 0, assumeNotNull(${x}))`
}

export function squareRoot(x = ''): string {
  return `if(${x} >= 0 OR isNaN(${x}), sqrt(${x}), NULL)`
}

/** By multiplications, as the local store has it. */
export function power(value: string, exponent: number): string {
  if (exponent === 0) return `if(${value} IS NULL, NULL, toFloat64(1))`
  const product = Array.from({ length: Math.abs(exponent) }, () => value).join(' * ')
  return exponent > 0 ? `(${product})` : `(1 / nullIf(${product}, 0))`
}

/** The quotient has at least 64 bits before its point then, as a count has less than 48. */
const SHIFT = 112

/**
 * The average of whole numbers of 64 bits. DuckDB divides in 80 bits, so that a quotient is rounded
 * twice: to 64 bits, and then to the 53 of a DOUBLE. One in some thousands differs by that.
 * @param count of the values of `sum`
 */
export function averageOfBigints(sum: string, count: string, name: Let): string {
  const sums = [sum, `toUInt256(nullIf(${count}, 0))`]
  return name(sums, (s = '', n = '') =>
    name([`bitShiftLeft(toUInt256(abs(${s})), ${SHIFT})`], dividend =>
      name([`intDiv(${dividend}, ${n})`], quotient =>
        name(
          [`least(greatest(toInt64(length(trimLeft(bin(${quotient}), '0'))) - 64, 1), ${SHIFT - 1})`],
          bits =>
            name([`bitShiftRight(${quotient}, ${bits})`], kept => {
              const rest = `(${quotient} - bitShiftLeft(${kept}, ${bits}))`
              const half = `bitShiftLeft(toUInt256(1), ${bits} - 1)`
              const isOdd = `(${dividend} % ${n} > 0 OR ${kept} % 2 = 1)`
              const isUp = `(${rest} > ${half} OR (${rest} = ${half} AND ${isOdd}))`
              const rounded = `if(${isUp} AND ${kept} = 18446744073709551615, 18446744073709551616., toFloat64(toUInt64(${kept}) + ${isUp}))`
              const average = `${rounded} / toFloat64(bitShiftLeft(toUInt128(1), ${SHIFT} - ${bits}))`
              // The sum itself is rounded beyond 64 bits.
              const isExact = `abs(${s}) < 9223372036854775808`
              return `multiIf(${s} = 0, toFloat64(0), ${isExact}, if(${s} < 0, -1, 1) * ${average}, toFloat64(${s}) / toFloat64(${n}))`
            }),
        ),
      ),
    ),
  )
}

/** True of a value that is BIGINT in DuckDB, and not shorter. */
export function isBigint({ op, operands, column, bound, type, kind }: Typed): boolean {
  const known = column?.type ?? bound?.type ?? (op === 'cast' ? type : undefined)
  if (known !== undefined) return !SHORT.includes(known)
  const values = operands.filter(each => each.kind === kind)
  return !SAME_TYPE.has(op) || values.some(isBigint)
}

const SHORT: readonly ColumnType[] = ['INT8', 'INT16', 'INT32']
/** Operations whose result has the type of their operands. */
const SAME_TYPE: ReadonlySet<string> = new Set('case coalesce nullif greatest least'.split(' '))
