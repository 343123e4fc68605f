/**
 * Regular expressions: the part of RE2's syntax that both engines read alike, checked before an
 * engine sees it. `.` is any character but the end of a line, unless `(?s)` says otherwise.
 */
import { LIKE_PATTERN_CHARACTERS_MAX, REGEX_SIZE_MAX } from '../../util/limits.ts'
import { Refused } from './values.ts'

interface Part {
  /** Characters and classes of characters, repeated ones as often as they are. */
  readonly size: number
  /** What of it may match in more than one way. */
  readonly choices: number
  /** The least characters of a match. */
  readonly least: number
}

export interface Regex extends Part {
  /** Groups that are numbered. */
  readonly groups: number
}

const OPEN = /\((?:\?[ims]*(?:-[ims]+)?:|(?!\?))/uy
const OR = /\|/uy
/** What no repetition may follow: ends, edges of words, and flags for what comes behind. */
const ANCHOR = /[$^]|\\[AzbB]|\(\?(?=[ims-])[ims]{0,3}(?:-[ims]{1,3})?\)/uy
const ATOM = /\\[!-/:-@[-`{-~dDsSwWfnrtv]|[^\\*+?{(|[]/uy
const CLASS = /\[(?:\^(?!\])|(?!\^|\]))-?/uy
const CLASS_ITEM =
  /\[:\^?(?:alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]|(\\[!-/:-@[-`{-~]|[^\\\][-])(?:-(\\[!-/:-@[-`{-~]|[^\\\][-]))?|\\[dDsSwWfnrtv]/uy
const CLASS_END = /-?\]/uy
const REPETITION = /[*+?]\??|\{(\d{1,4})(,\d{0,4})?\}\??/uy

/** Takes what the rest of the pattern begins with, or null. */
type Take = (form: RegExp) => RegExpExecArray | null

const NOTHING: Part = { size: 1, choices: 0, least: 0 }
/** A class of ASCII characters. */
const SEVERAL: Part = { size: 1, choices: 1, least: 1 }
/** Any character, of which an engine compares each byte. */
const ANY: Part = { size: 2, choices: 1, least: 1 }

/** Reads a pattern. Throws Refused. */
export function readRegex(pattern: string): Regex {
  if (pattern.length > LIKE_PATTERN_CHARACTERS_MAX)
    throw new Refused(`the pattern is longer than ${LIKE_PATTERN_CHARACTERS_MAX} characters`)
  /** Of each open group the alternatives, of which the last one is read. */
  const open: Part[][] = [[NOTHING]]
  let [at, groups] = [0, 0]
  const take: Take = form => {
    form.lastIndex = at
    const found = form.exec(pattern)
    at += found?.[0].length ?? 0
    return found
  }
  const add = (part: Part) => open.at(-1)!.push(joined(open.at(-1)!.pop()!, part))
  while (at < pattern.length) {
    const from = at
    const opened = take(OPEN)
    if (opened !== null) {
      open.push([NOTHING])
      if (opened[0] === '(') groups += 1
    } else if (take(OR) !== null) open.at(-1)!.push(NOTHING)
    else if (take(ANCHOR) !== null) add(NOTHING)
    else {
      const atom = take(ATOM)?.[0]
      const isClosed = atom === ')' && open.length > 1
      const part = isClosed ? alternatives(open.pop()!) : atom === undefined ? classOf(take) : partOf(atom)
      if (part === undefined) throw wrongAt(pattern, from)
      add(repeated(part, take(REPETITION)))
    }
  }
  if (open.length > 1) throw new Refused('the pattern has a group without its ")"')
  return { ...alternatives(open[0]!), groups }
}

function wrongAt(pattern: string, at: number): Refused {
  const place = [...pattern.slice(0, at)].length + 1
  return new Refused(
    `the pattern is wrong at character ${place}, or it has a form that is not taken: see docs/expressions.md`,
  )
}

/** One character, or a class with a name of its own. */
function partOf(atom: string): Part | undefined {
  if (atom === ')') return undefined
  if (/^(?:\.|\\[DSW])$/.test(atom)) return ANY
  return /^\\[dsw]$/.test(atom) ? SEVERAL : { size: Buffer.byteLength(atom), choices: 0, least: 1 }
}

/** `[…]`: characters, ranges and classes. */
function classOf(take: Take): Part | undefined {
  const begin = take(CLASS)?.[0]
  let isWide = begin?.startsWith('[^') === true
  while (begin !== undefined && take(CLASS_END) === null) {
    const [item, low = '', high] = take(CLASS_ITEM) ?? []
    if (item === undefined || (high !== undefined && codeOf(low) > codeOf(high))) return undefined
    if (/[^\0-\x7f]|\\[DSW]/.test(item)) isWide = true
  }
  return begin === undefined ? undefined : isWide ? ANY : SEVERAL
}

function codeOf(item: string): number {
  return item.replace(/^\\/, '').codePointAt(0)!
}

function joined(a: Part, b: Part): Part {
  return limited({ size: a.size + b.size, choices: a.choices + b.choices, least: a.least + b.least })
}

function alternatives([first, ...others]: readonly Part[]): Part {
  return others.reduce((a, b) => {
    const { size, choices } = joined(a, b)
    return { size, choices: choices + 1, least: Math.min(a.least, b.least) }
  }, first!)
}

function repeated(part: Part, repetition: RegExpExecArray | null): Part {
  if (repetition === null) return part
  const [sign, from, to] = repetition
  const low = Number(from ?? (sign.startsWith('+') ? 1 : 0))
  const high = to === undefined ? Math.max(1, low) : Number(to.slice(1) || low + 1)
  if (high < low) throw new Refused(`the pattern has the repetition ${sign}, which ends below its begin`)
  const times = Math.max(1, high)
  const choices =
    part.choices * times + (from !== undefined && to === undefined ? 0 : Math.max(1, high - low))
  return limited({ size: part.size * times, choices, least: part.least * low })
}

function limited(part: Part): Part {
  if (part.size <= REGEX_SIZE_MAX) return part
  throw new Refused(
    `the pattern has more than ${REGEX_SIZE_MAX} characters, counted as often as they are repeated`,
  )
}

/** Escapes ASCII punctuation and spells NUL out; any other character stands for itself. */
export function quoteRegex(text: string): string {
  return text.replaceAll(/[\0!-/:-@[-`{-~]/g, char => (char === '\0' ? '\\x00' : `\\${char}`))
}
