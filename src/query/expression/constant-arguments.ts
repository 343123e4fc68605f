/** Arguments that a caller writes as literals: what they may be, and what an operation gets. */
import { LIKE_PATTERN_CHARACTERS_MAX, TEXTS_JOINED_MAX } from '../../util/limits.ts'
import type { Expression } from './ast.ts'
import { type Argument, DATE_PARTS, READ_PARTS } from './functions.ts'
import { valueOfLiteral } from './kinds.ts'
import { quoteRegex, readRegex } from './regex-pattern.ts'
import type { Typed } from './typed.ts'
import { Refused } from './values.ts'

/** What becomes of arguments that are no operands. */
export interface Constants {
  readonly word?: string
  readonly number?: number
  readonly interval?: NonNullable<Typed['interval']>
  /** The operation, where an argument chooses it. */
  readonly op?: string
}

/** @param word the one of an argument before it */
type Read = (expression: Expression, op: string, word: string) => Constants | Typed

/** Reads an argument: as constants, or as an operand. Undefined for one that is any value. */
export function readConstant(wanted: Argument): Read | undefined {
  return READ[wanted]
}

const PLACE_MAX = 100
const OVERLAPS = 'a place below 0 needs a separator of which no end is its begin, too'
/** So that the begin of an interval that holds any time is in DuckDB's calendar. */
const WIDTH_YEARS_MAX = 100_000
/** The letters of strftime that mean the same in both engines, or are made of parts of a time. */
const FORMAT = /^(?:[^%]|%[YmdHIMSfpjaAbB%]){1,100}$/u
const FORMATS = '%Y %m %d %H %I %M %S %f %p %j %a %A %b %B %%'
const GROUP_MAX = 9

const READ: Partial<Record<Argument, Read>> = {
  part(expression, op) {
    const parts: readonly string[] = op === 'date_part' ? READ_PARTS : DATE_PARTS
    const word = textOf(expression).toLowerCase()
    return allowed({ word }, parts.includes(word), `its first argument is one of '${parts.join("', '")}'`)
  },
  digits(expression) {
    const number = wholeOf(expression)
    const sentence = 'its second argument is a whole number from -18 to 18'
    return allowed({ number }, Math.abs(number) <= 18, sentence)
  },
  place(expression, _, by) {
    const place = wholeOf(expression)
    const sentence = `its third argument is a whole number from -${PLACE_MAX} to ${PLACE_MAX}, and not 0`
    allowed(place, place !== 0 && Math.abs(place) <= PLACE_MAX, sentence)
    // From the end the parts would be others than those from the begin.
    const overlaps = [...by].some((_char, at) => at > 0 && by.startsWith(by.slice(at)))
    const isFound = place > 0 || !overlaps
    return allowed({ op: 'regexp_extract', word: partPattern(by, place), number: 1 }, isFound, OVERLAPS)
  },
  search: expression => shortText(expression, 'what it looks for'),
  needle(expression, op) {
    const value = shortText(expression, 'what it looks for')
    return allowed(
      op === 'split_part' ? { word: textOf(expression) } : value,
      textOf(expression) !== '',
      'what it looks for is an empty text',
    )
  },
  literal(expression, op, word) {
    const value = shortText(expression, 'the replacement')
    const { groups } = readRegex(op === 'replace' ? '' : word)
    const references = op === 'replace' ? [] : [...textOf(expression).matchAll(/\\([\d\\]?)/g)]
    const isKnown = references.every(([, to]) => to === '\\' || (to !== '' && Number(to) <= groups))
    const sentence = `in the replacement \\ stands before another one, or before the number of a group, of which the pattern has ${groups}`
    return allowed(value, isKnown, sentence)
  },
  pattern(expression) {
    const word = textOf(expression)
    readRegex(word)
    return allowed({ word }, expression.kind === 'text', 'the pattern is written as a text')
  },
  options(expression, op, word) {
    const letters = textOf(expression)
    const [known, shown] = op === 'regexp_replace' ? [/^(?:g?i?|ig)$/, "'i', 'g' or 'gi'"] : [/^i?$/, "'i'"]
    const isAll = letters.includes('g')
    const isKnown = expression.kind === 'text' && known.test(letters)
    const constants = {
      word: letters.includes('i') ? `(?i)${word}` : word,
      op: isAll ? 'regexp_replace_all' : op,
    }
    allowed(constants, isKnown, `its options are ${shown}`)
    const isFound = !isAll || readRegex(word).least > 0
    return allowed(constants, isFound, "the pattern matches an empty text, so that 'g' finds one everywhere")
  },
  group(expression, _, word) {
    const number = wholeOf(expression)
    const { groups } = readRegex(word)
    const isThere = number >= 0 && number <= Math.min(groups, GROUP_MAX)
    const sentence = `its third argument is the number of a group, of which the pattern has ${groups}`
    return allowed({ number }, isThere, sentence)
  },
  format(expression) {
    const word = textOf(expression)
    const sentence = `the format is a text of 1 to 100 characters with ${FORMATS}`
    return allowed({ word }, FORMAT.test(word), sentence)
  },
  width(expression) {
    const isInterval = expression.kind === 'interval' && expression.count > 0
    if (!isInterval)
      throw new Refused('its first argument is an interval above 0, such as INTERVAL 15 MINUTE')
    const { count, unit } = expression
    const isShort = unit !== 'years' || count <= WIDTH_YEARS_MAX
    return allowed(
      { interval: { count, unit } },
      isShort,
      `its interval has at most ${WIDTH_YEARS_MAX} years`,
    )
  },
}

/** A text's part at a place, counted from the end below 0, is the first group. */
function partPattern(by: string, place: number): string {
  const separator = quoteRegex(by)
  const others = Math.abs(place) - 1
  const pattern =
    place > 0
      ? `(?s)\\A(?:.*?${separator}){${others}}(.*?)(?:${separator}|\\z)`
      : `(?s)\\A(?:.*${separator}|)(.*?)(?:${separator}.*?){${others}}\\z`
  readRegex(pattern)
  return pattern
}

function allowed<T>(value: T, isAllowed: boolean, sentence: string): T {
  if (isAllowed) return value
  throw new Refused(sentence)
}

function textOf(expression: Expression): string {
  return expression.kind === 'text' ? expression.text : ''
}

/** NaN where it is no whole number. */
function wholeOf(expression: Expression): number {
  const number = expression.kind === 'number' ? Number(expression.text) : Number.NaN
  return Number.isInteger(number) ? number : Number.NaN
}

function shortText(expression: Expression, what: string): Typed {
  if (expression.kind === 'text' && expression.text.length <= LIKE_PATTERN_CHARACTERS_MAX)
    return valueOfLiteral(expression)
  throw new Refused(`${what} is written as a text of at most ${LIKE_PATTERN_CHARACTERS_MAX} characters`)
}

/**
 * How many times as long as its text a replacement makes it at most; undefined of other operations.
 * Throws Refused.
 */
export function growthOf(op: string, operands: readonly Typed[], word = ''): number | undefined {
  const isRegex = op.startsWith('regexp_replace')
  if (op !== 'replace' && !isRegex) return undefined
  const [found = '', literal = ''] = operands.slice(-2).map(({ bound }) => String(bound?.value ?? ''))
  const groups = isRegex ? [...literal.matchAll(/\\\d/g)].length : 0
  const least = isRegex ? readRegex(word).least : Buffer.byteLength(found)
  // One replacement adds its own length once, which is short.
  const times = op === 'regexp_replace' ? 1 : Math.ceil(Buffer.byteLength(literal) / least)
  const sentence = `a text becomes at most ${TEXTS_JOINED_MAX} times as long, and this replacement is too long`
  return allowed(Math.max(1, times + groups), times + groups <= TEXTS_JOINED_MAX, sentence)
}
