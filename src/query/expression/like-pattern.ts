/** Patterns of LIKE: what they ask for, and whether a query can have them. */
import { LIKE_PATTERN_CHARACTERS_MAX } from '../../util/limits.ts'
import { Refused } from './values.ts'

/** The part of a pattern between two `%`: literal texts and `_`. */
type Piece = readonly (string | typeof ONE)[]
export const ONE = Symbol('_')
const REGEX = ['regex', ''] as const

/** A pattern as it is searched for: by one text, or by its pieces as a regular expression. */
export interface LikePattern {
  readonly form: '=' | 'starts_with' | 'ends_with' | 'contains' | 'regex'
  readonly text: string
  readonly pieces: readonly Piece[]
}

/** Reads a pattern: `%` is any characters, `_` one, `\` quotes the next one. Throws Refused. */
export function readLike(pattern: string, ignoresCase = false): LikePattern {
  const pieces = readPattern(pattern)
  if (pieces === undefined) throw new Refused('the pattern ends with a lone backslash')
  const [form, text] = ignoresCase ? REGEX : plainForm(pieces)
  if (!COMPARISONS.includes(form) && pattern.length > LIKE_PATTERN_CHARACTERS_MAX)
    throw new Refused(`the pattern is longer than ${LIKE_PATTERN_CHARACTERS_MAX} characters`)
  return { form, text, pieces }
}

const COMPARISONS: readonly string[] = ['=', 'starts_with', 'ends_with']

/** True for a pattern without `%` and `_` but one `%` at an end: no text is searched for it. */
export function isComparison(pattern: string): boolean {
  const pieces = readPattern(pattern)
  return pieces !== undefined && COMPARISONS.includes(plainForm(pieces)[0])
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

/** The plain form of a pattern that is one text, alone or with `%` around it, else REGEX. */
function plainForm(pieces: readonly Piece[]): readonly [LikePattern['form'], string] {
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
