/** LIKE, without DuckDB's own; and the values that a statement binds. */
import { LIKE_PATTERNS_MAX } from '../../util/limits.ts'
import { ONE, readLike } from '../expression/like-pattern.ts'
import { quoteRegex } from '../expression/regex-pattern.ts'
import { type Bound, Refused } from '../expression/values.ts'

/** The bound values of a statement: the only way for a caller's text into a statement. */
export class Binder {
  /** In the order of their placeholders. */
  readonly bounds: Bound[] = []
  #patterns = 0

  /** Counts a regular expression. Throws Refused. */
  countPattern(): void {
    if (this.#patterns >= LIKE_PATTERNS_MAX)
      throw new Refused(`a query takes at most ${LIKE_PATTERNS_MAX} patterns of this kind`)
    this.#patterns += 1
  }

  bind(bound: Bound): string {
    this.bounds.push(bound)
    return `$${this.bounds.length}`
  }
}

/**
 * The condition that `column` (quoted SQL) is like `pattern`. Characters are code points. Case
 * counts unless `ignoresCase`. Throws Refused.
 *
 * NOTE: not DuckDB's LIKE, which tries each `%` at every position and cannot be interrupted:
 * `%a%a%a%b` takes the fourth power of a text's length, 26 s for 400 characters. This uses a
 * comparison, a search for one text, or RE2, which is linear. A text to search for is short, since
 * a search takes the product of both lengths at worst.
 */
export function planLike(column: string, pattern: string, binder: Binder, ignoresCase: boolean): string {
  const { form, text, pieces } = readLike(pattern, ignoresCase)
  const bind = (value: string) => binder.bind({ type: 'STRING', value })
  if (form === '=') return `${column} = ${bind(text)}`
  if (form !== 'regex') return `${form}(${column}, ${bind(text)})`
  binder.countPattern()
  const regex = pieces.map(piece => piece.map(part => (part === ONE ? '.' : quoteRegex(part))).join(''))
  return `regexp_full_match(${column}, ${bind(`(?${ignoresCase ? 'si' : 's'})${regex.join('.*')}`)})`
}
