/** Functions of texts as SQL of ClickHouse: by characters, as DuckDB has them. */
import type { Typed } from '../expression/typed.ts'
import { jsonSql } from './write-json.ts'
import type { Let } from './write-lambda.ts'
import type { Binder } from './write-values.ts'

interface TextWriter {
  readonly name: Let
  readonly binder: Binder
}

type Write = (typed: Typed, operands: readonly string[], writer: TextWriter) => string

const [SPACES_BEFORE, SPACES_AFTER] = ["'^\\\\p{Zs}+'", "'\\\\p{Zs}+\\\\z'"]
const without = (text: string, spaces: string) => `replaceRegexpOne(${text}, ${spaces}, '')`
/** Beyond it DuckDB counts no characters. */
const OFFSET_MAX = '1000000000'

export const TEXT_FUNCTIONS: Readonly<Record<string, Write>> = {
  lower: (_, [text = ''], { binder }) => changedCase('lower', text, binder),
  upper: (_, [text = ''], { binder }) => changedCase('upper', text, binder),
  trim: (_, [text = '']) => without(without(text, SPACES_BEFORE), SPACES_AFTER),
  ltrim: (_, [text = '']) => without(text, SPACES_BEFORE),
  rtrim: (_, [text = '']) => without(text, SPACES_AFTER),
  length: (_, [text]) => `toInt64(lengthUTF8(${text}))`,
  concat: (_, texts) => `concat('', ${texts.map(text => `ifNull(${text}, '')`).join(', ')})`,
  '||': (_, texts) => `concat(${texts.join(', ')})`,
  starts_with: (_, texts) => `startsWith(${texts.join(', ')})`,
  ends_with: (_, texts) => `endsWith(${texts.join(', ')})`,
  contains: (_, texts) => `(position(${texts.join(', ')}) > 0)`,
  like: ({ word = '' }, [text = ''], { binder }) => binder.like(text, word, false),
  ilike: ({ word = '' }, [text = ''], { binder }) => binder.like(text, word, true),
  substring: (_, texts, { name }) => sized(texts, name, (s, from, count) => part(s, from, count, name)),
  strpos: (_, texts) => `toInt64(positionUTF8(${texts.join(', ')}))`,
  replace: (_, texts) => `replaceAll(${texts.join(', ')})`,
  left: (_, texts, { name }) => sized(texts, name, (s, n) => `substringUTF8(${s}, 1, ${sizeFrom(s, n)})`),
  right: (_, texts, { name }) =>
    sized(texts, name, (s, n) => `substringUTF8(${s}, toInt64(lengthUTF8(${s})) - ${sizeFrom(s, n)} + 1)`),
  regexp_matches: (typed, [text], { binder }) => `match(${text}, ${regex(typed, binder)})`,
  regexp_extract: (typed, [text], { binder }) =>
    `regexpExtract(${text}, ${regex(typed, binder)}, ${typed.number ?? 0})`,
  regexp_replace: (typed, [text, by], { binder }) =>
    `replaceRegexpOne(${text}, ${regex(typed, binder)}, ${by})`,
  regexp_replace_all: (typed, [text, by], { binder }) =>
    `replaceRegexpAll(${text}, ${regex(typed, binder)}, ${by})`,
  json_text: (typed, [json = ''], writer) => jsonSql(json, typed, writer),
  json_value: (typed, [json = ''], writer) => jsonSql(json, typed, writer),
  json_array_length: (typed, [json = ''], writer) => jsonSql(json, typed, writer),
}

/** In ClickHouse `.` is the end of a line too, where the pattern does not say otherwise. */
function regex({ word = '' }: Typed, binder: Binder): string {
  binder.countPattern()
  return binder.text(`(?-s)${word}`)
}

/** The characters of a size, or below 0 all but so many, of a text. */
function sizeFrom(s: string, size: string): string {
  const length = `toInt64(lengthUTF8(${s}))`
  return `least(if(${size} < 0, greatest(${length} + ${size}, 0), ${size}), ${length})`
}

/** A text, and sizes that ClickHouse counts: null where one of them is null. */
function sized(
  [text = '', ...sizes]: readonly string[],
  name: Let,
  write: (text: string, first: string, second?: string) => string,
): string {
  const bounded = (value: string) =>
    `toInt64(least(toInt128(${OFFSET_MAX}), greatest(toInt128(-${OFFSET_MAX}), toInt128(${value}))))`
  const orNull = (size: string) => name([size], n => `if(${n} IS NULL, NULL, ${bounded(n)})`)
  return name([text, ...sizes.map(orNull)], (s = '', first = '', second) => {
    const isNull = [first, ...(second === undefined ? [] : [second])]
      .map(each => `${each} IS NULL`)
      .join(' OR ')
    return `if(${isNull}, NULL, ${write(s, first, second)})`
  })
}

/** From an offset, which counts from the end below 0, a length, which goes back below 0. */
function part(s: string, from: string, count: string | undefined, name: Let): string {
  const start = `if(${from} < 0, toInt64(lengthUTF8(${s})) + ${from}, ${from} - 1)`
  if (count === undefined) return `substringUTF8(${s}, greatest(${start}, 0) + 1)`
  return name([`least(${start}, ${start} + ${count})`, `toInt64(abs(${count}))`], (begin = '', size = '') => {
    const length = `greatest(${begin} + ${size} - greatest(${begin}, 0), 0)`
    return `substringUTF8(${s}, greatest(${begin}, 0) + 1, ${length})`
  })
}

/** Each character alone becomes one other: ClickHouse's own follow rules of words and languages. */
function changedCase(to: Case, text: string, binder: Binder): string {
  const { from, into } = TABLES[to]()
  return `translateUTF8(${to}(${text}), ${binder.constant(from)}, ${binder.constant(into)})`
}

type Case = 'lower' | 'upper'

interface CaseTable {
  readonly from: string
  readonly into: string
}

const TABLES: Readonly<Record<Case, () => CaseTable>> = { lower: lazy('lower'), upper: lazy('upper') }

function lazy(to: Case): () => CaseTable {
  let table: CaseTable | undefined
  return () => {
    table ??= caseTable(to)
    return table
  }
}

/** Characters that came after Unicode 15, which the local store has. */
const NEWER = /[\u1c89\u1c8a\ua7cb-\ua7cf\ua7d2-\ua7d5\ua7da-\ua7dc\u{10d50}-\u{10d85}\u{16ea0}-\u{16ed3}]/u
const [FIRST, LAST, SURROGATES, BEHIND] = [0x80, 0x1_e943, 0xd800, 0xe000]

/** The characters that the local store changes, and those that they become. */
function caseTable(to: Case): CaseTable {
  const pairs = new Map<string, string>()
  /** Of a character whose upper case is two, such as ß, the one whose lower case it is. */
  const single = new Map<string, string>()
  for (let code = FIRST; code <= LAST; code = code + 1 === SURROGATES ? BEHIND : code + 1) {
    const char = String.fromCodePoint(code)
    const changed = to === 'lower' ? char.toLowerCase() : char.toUpperCase()
    if (to === 'upper') single.set(char.toLowerCase(), char)
    if (changed !== char && !NEWER.test(char + changed)) pairs.set(char, changed)
  }
  const isOne = (text: string | undefined) => text !== undefined && [...text].length === 1
  const all = [...pairs].map(
    ([char, changed]) => [char, isOne(changed) ? changed : single.get(char)] as const,
  )
  if (to === 'lower') all.push(['\u0130', 'i'])
  const known = all.filter(([char, changed]) => isOne(changed) && changed !== char)
  return { from: known.map(([char]) => char).join(''), into: known.map(([, changed]) => changed).join('') }
}
