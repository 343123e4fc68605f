/** The bound values of a statement, and names, as SQL of ClickHouse. */
import type { ColumnType } from '../../format/schema.ts'
import { LIKE_PATTERNS_MAX, QUANTILES_MAX } from '../../util/limits.ts'
import { ONE, readLike } from '../expression/like-pattern.ts'
import { quoteRegex } from '../expression/regex-pattern.ts'
import { type Bound, Refused } from '../expression/values.ts'

/** Beyond them a number is no day for Date32. */
export const [DATE32_MIN, DATE32_MAX] = [-25_567, 120_529]

/** What a query parameter of each type is. A real number is its bits: texts of them are rounded. */
const PARAMETER: Readonly<Record<ColumnType, string>> = {
  BOOLEAN: 'Bool',
  STRING: 'String',
  FLOAT: 'UInt32',
  DOUBLE: 'UInt64',
  INT8: 'Int8',
  INT16: 'Int16',
  INT32: 'Int32',
  INT64: 'Int64',
  DATE: 'Int32',
  TIMESTAMP: 'Int64',
  JSON: 'String',
}
const REAL: Partial<Record<ColumnType, string>> = {
  FLOAT: 'reinterpretAsFloat32',
  DOUBLE: 'reinterpretAsFloat64',
}

/** The bound values of a statement: the only way for a caller's text into it. */
export class Binder {
  /** In the order of their parameters: `p1`, `p2` and so on. */
  readonly bounds: Bound[] = []
  readonly #constants = new Map<string, string>()
  #patterns = 0
  readonly #quantiles = new Set<string>()

  /** A DATE is its days and a TIMESTAMP its microseconds. */
  bind(bound: Bound): string {
    const parameter = `{p${this.bounds.push(bound)}:${PARAMETER[bound.type]}}`
    const real = REAL[bound.type]
    return real === undefined ? parameter : `${real}(${parameter})`
  }

  /** A text of ours, which is bound once. */
  constant(value: string): string {
    const known = this.#constants.get(value) ?? this.text(value)
    this.#constants.set(value, known)
    return known
  }

  text(value: string): string {
    return this.bind({ type: 'STRING', value })
  }

  /** The condition that a text is like `pattern` (duckdb/write-like.ts). Throws Refused. */
  like(column: string, pattern: string, ignoresCase: boolean): string {
    const { form, text, pieces } = readLike(pattern, ignoresCase)
    if (form === '=') return `(${column} = ${this.text(text)})`
    if (form === 'contains') return `(position(${column}, ${this.text(text)}) > 0)`
    if (form === 'starts_with') return `startsWith(${column}, ${this.text(text)})`
    if (form === 'ends_with') return `endsWith(${column}, ${this.text(text)})`
    this.countPattern()
    const regex = pieces.map(piece => piece.map(part => (part === ONE ? '.' : quoteRegex(part))).join(''))
    return `match(${column}, ${this.text(`(?${ignoresCase ? 'si' : 's'})\\A(?:${regex.join('.*')})\\z`)})`
  }

  /** Counts a regular expression. Throws Refused. */
  countPattern(): void {
    this.#patterns += 1
    if (this.#patterns > LIKE_PATTERNS_MAX)
      throw new Refused(`a query takes at most ${LIKE_PATTERNS_MAX} patterns of this kind`)
  }

  /** Counts a quantile of these values. Throws Refused where there are too many. */
  countQuantile(values: string): void {
    this.#quantiles.add(values)
    if (this.#quantiles.size > QUANTILES_MAX)
      throw new Refused(
        `a query computes at most ${QUANTILES_MAX} different medians and quantiles, because each keeps all of its values in memory`,
      )
  }
}

const BYTES = new DataView(new ArrayBuffer(8))

/** The text of a query parameter: ClickHouse reads it as a field of a TSV file. */
export function parameterText({ type, value }: Bound): string {
  if (type === 'DOUBLE') {
    BYTES.setFloat64(0, Number(value))
    return String(BYTES.getBigUint64(0))
  }
  if (type === 'FLOAT') {
    BYTES.setFloat32(0, Number(value))
    return String(BYTES.getUint32(0))
  }
  return String(value).replaceAll(/[\0\t\n\r\\]/g, char => ESCAPES[char] ?? char)
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\0': '\\0',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\\': '\\\\',
}
