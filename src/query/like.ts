/**
 * LIKE: `%` any characters, `_` one, `\` takes the next one as it is. Case-sensitive, by code point.
 *
 * NOTE: not DuckDB's LIKE. It tries each `%` at every place: `%a%a%a%b` takes the fourth power of a text's length, 26 s for 400
 * characters, and hears no interrupt meanwhile. Here: a comparison, a search for one text, or RE2, which is linear. What is searched
 * for within a text is short, since a search takes the product of both lengths at worst.
 */
import { LIKE_PATTERN_CHARACTERS_MAX, LIKE_PATTERNS_MAX } from '../limits.ts'
import type { Binder } from './binder.ts'
import type { BadQuery } from './protocol.ts'

/** What stands between two `%`: texts as they are, and `_`. */
type Piece = readonly (string | typeof ONE)[]
const ONE = Symbol('_')
const REGEX = ['regex', ''] as const

/** The condition that `column` (quoted SQL) is like `pattern`; or what is wrong with the pattern. */
export function planLike(column: string, pattern: string, binder: Binder): string | BadQuery {
  const pieces = readPattern(pattern)
  if (pieces === undefined) return { badRequest: 'the pattern ends with a lone backslash' }
  const bind = (value: string) => binder.bind({ type: 'STRING', value })
  const [form, text] = plainForm(pieces)
  if (form === '=') return `${column} = ${bind(text)}`
  if (form === 'starts_with' || form === 'ends_with') return `${form}(${column}, ${bind(text)})`
  if (pattern.length > LIKE_PATTERN_CHARACTERS_MAX)
    return { badRequest: `the pattern is longer than ${LIKE_PATTERN_CHARACTERS_MAX} characters` }
  if (form === 'contains') return `contains(${column}, ${bind(text)})`
  if (binder.patterns >= LIKE_PATTERNS_MAX)
    return { badRequest: `a query takes at most ${LIKE_PATTERNS_MAX} patterns of this kind` }
  binder.patterns += 1
  const regex = pieces.map(piece => piece.map(part => (part === ONE ? '.' : quoteRegex(part))).join(''))
  return `regexp_full_match(${column}, ${bind(`(?s)${regex.join('.*')}`)})`
}

/** The pieces between the `%`; undefined where a `\` at the end takes nothing. */
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

/** One text, alone or with `%` before or after it; else a regular expression is needed. */
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

/** ASCII punctuation escaped, NUL spelled out; all else stands for itself. */
function quoteRegex(text: string): string {
  return text.replaceAll(/[\0!-/:-@[-`{-~]/g, char => (char === '\0' ? '\\x00' : `\\${char}`))
}
