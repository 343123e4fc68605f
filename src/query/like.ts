/** LIKE, without DuckDB's own. */
import { LIKE_PATTERN_CHARACTERS_MAX, LIKE_PATTERNS_MAX } from '../util/limits.ts'
import { Binder } from './binder.ts'
import type { BadQuery } from './query-types.ts'

/** The part of a pattern between two `%`: literal texts and `_`. */
type Piece = readonly (string | typeof ONE)[]
const ONE = Symbol('_')
const REGEX = ['regex', ''] as const

/**
 * The condition that `column` (quoted SQL) is like `pattern`, or BadQuery. `%` is any characters,
 * `_` one, `\` takes the next character literally. By code point; case counts unless `ignoresCase`.
 *
 * NOTE: not DuckDB's LIKE, which tries each `%` at every position and cannot be interrupted:
 * `%a%a%a%b` takes the fourth power of a text's length, 26 s for 400 characters. This uses a
 * comparison, a search for one text, or RE2, which is linear. A text to search for is short, since
 * a search takes the product of both lengths at worst.
 */
export function planLike(
  column: string,
  pattern: string,
  binder: Binder,
  ignoresCase = false,
): string | BadQuery {
  const pieces = readPattern(pattern)
  if (pieces === undefined) return { badRequest: 'the pattern ends with a lone backslash' }
  const bind = (value: string) => binder.bind({ type: 'STRING', value })
  const [form, text] = ignoresCase ? REGEX : plainForm(pieces)
  if (form === '=') return `${column} = ${bind(text)}`
  if (form === 'starts_with' || form === 'ends_with') return `${form}(${column}, ${bind(text)})`
  if (pattern.length > LIKE_PATTERN_CHARACTERS_MAX)
    return { badRequest: `the pattern is longer than ${LIKE_PATTERN_CHARACTERS_MAX} characters` }
  if (form === 'contains') return `contains(${column}, ${bind(text)})`
  if (binder.patterns >= LIKE_PATTERNS_MAX)
    return { badRequest: `a query takes at most ${LIKE_PATTERNS_MAX} patterns of this kind` }
  binder.patterns += 1
  const regex = pieces.map(piece => piece.map(part => (part === ONE ? '.' : quoteRegex(part))).join(''))
  return `regexp_full_match(${column}, ${bind(`(?${ignoresCase ? 'si' : 's'})${regex.join('.*')}`)})`
}

/** True for a pattern without `%` and `_` but one `%` at an end: no text is searched for it. */
export function isComparison(pattern: string): boolean {
  const pieces = readPattern(pattern)
  return pieces !== undefined && ['=', 'starts_with', 'ends_with'].includes(plainForm(pieces)[0])
}

/** Why no query can have the pattern; undefined: it can. */
export function likeProblem(pattern: string, ignoresCase = false): string | undefined {
  const planned = planLike('', pattern, new Binder(), ignoresCase)
  return typeof planned === 'string' ? undefined : planned.badRequest
}

/** The pieces between the `%`; undefined if the pattern ends with a lone `\`. */
function readPattern(pattern: string): readonly Piece[] | undefined {
  const pieces: (string | typeof ONE)[][] = [[]]
  let text = ''
  const endText = () => {
    if (text !== '') pieces.at(-1)!.push(text)
    text = ''
  }
  for (let at = 0; at < pattern.length; at++) {
    const unit = pattern[at]!
    if (unit === '%' || unit === '_') endText()
    if (unit === '%') pieces.push([])
    else if (unit === '_') pieces.at(-1)!.push(ONE)
    else if (unit !== '\\') text += unit
    else if (++at < pattern.length) text += pattern[at]
    else return undefined
  }
  endText()
  return pieces
}

/**
 * The plain form of a pattern that is one text, alone or with `%` around it; all others need a
 * regular expression.
 */
function plainForm(
  pieces: readonly Piece[],
): readonly ['=' | 'starts_with' | 'ends_with' | 'contains' | 'regex', string] {
  if (pieces.some(piece => piece.length > 1 || piece[0] === ONE)) return REGEX
  const texts = pieces.map(([text = '']) => text as string)
  const inner = texts.slice(1, -1).filter(text => text !== '')
  const [first, last] = [texts[0]!, texts.at(-1)!]
  if (texts.length === 1) return ['=', first]
  if (first === '' && last === '' && inner.length <= 1) return ['contains', inner[0] ?? '']
  if (inner.length > 0) return REGEX
  if (last === '') return ['starts_with', first]
  return first === '' ? ['ends_with', last] : REGEX
}

/** Escapes ASCII punctuation and spells NUL out; any other character stands for itself. */
function quoteRegex(text: string): string {
  return text.replaceAll(/[\0!-/:-@[-`{-~]/g, char => (char === '\0' ? '\\x00' : `\\${char}`))
}
