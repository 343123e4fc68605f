/**
 * Calls that DuckDB has in another form: functions of PostgreSQL and ClickHouse as nodes of its
 * own, where these mean exactly the same. The rest is refused by name.
 *
 *   time zones   A pool's TIMESTAMP is an instant, whose value is UTC. `t AT TIME ZONE z` is the
 *                wall clock there, so `t` becomes an instant first. Over a wall clock, or a
 *                written TIMESTAMP, it is the instant, as in PostgreSQL.
 *   LIKE         becomes a regular expression where DuckDB would try every position for each `%`
 *   formats      to_char and formatDateTime become strftime, where the format is written as a text.
 */
import { isNode, type Node } from '../expression/tree-node.ts'
import { Refused } from '../expression/values.ts'
import { isCallable, isMacro, isPlain, macroName, RENAMED, TAKES_AGGREGATE } from './functions.ts'
import {
  callNode,
  caseNode,
  castNode,
  comparisonNode,
  digitsOf,
  integerNode,
  nullNode,
  operatorNode,
  textNode,
  textOfConstant,
} from './tree.ts'

/** A call whose arguments are walked. */
export interface Call {
  readonly name: string
  readonly args: readonly Node[]
  /** It stands in a lambda, which runs it for each element. */
  readonly isInner: boolean
}

/** What a call is as an aggregate: its name and arguments, DISTINCT and the condition of FILTER. */
export interface AggregateForm {
  readonly name: string
  readonly args: readonly Node[]
  readonly isDistinct: boolean
  readonly filter: Node | null
}

const DISTINCT: Readonly<Record<string, string>> = {
  count_distinct: 'count',
  countdistinct: 'count',
  uniq: 'count',
  uniqexact: 'count',
  groupuniqarray: 'list',
  grouparraydistinct: 'list',
}

/** ClickHouse's combinators: the last argument is the condition. */
const CONDITIONAL: Readonly<Record<string, string>> = {
  sumif: 'sum',
  avgif: 'avg',
  minif: 'min',
  maxif: 'max',
  uniqif: 'uniq',
  uniqexactif: 'uniq',
  anyif: 'any_value',
  argmaxif: 'arg_max',
  argminif: 'arg_min',
  grouparrayif: 'list',
  countif: 'count_star',
  count_if: 'count_star',
}

/** The function of a call by DuckDB's name, which may have OVER and FILTER. */
export function aggregateForm(name: string, args: readonly Node[]): AggregateForm {
  const plain = Object.hasOwn(CONDITIONAL, name) ? CONDITIONAL[name] : undefined
  if (plain !== undefined && args.length > 0) {
    const form = aggregateForm(plain, args.slice(0, -1))
    return { ...form, filter: args.at(-1) ?? null }
  }
  const distinct = Object.hasOwn(DISTINCT, name) ? DISTINCT[name] : undefined
  if (distinct !== undefined) return { name: distinct, args, isDistinct: true, filter: null }
  const other = Object.hasOwn(RENAMED, name) ? RENAMED[name] : undefined
  return { name: other ?? name, args, isDistinct: false, filter: null }
}

type Rewrite = (call: Call) => Node

/** The call in DuckDB's form; undefined where it stays as it is. Throws Refused. */
export function rewritten(call: Call): Node | undefined {
  const rewrite = Object.hasOwn(REWRITES, call.name) ? REWRITES[call.name] : undefined
  if (rewrite !== undefined) return rewrite(call)
  const { name, args, isInner } = call
  if (!isCallable(name)) return undefined
  const inner = `${name}_inner`
  return callNode(macroName(isInner && isMacro(inner) ? inner : name), args)
}

const UNITS = 'year quarter month week day hour minute second millisecond microsecond'.split(' ')

/** A unit of time, which ClickHouse writes as a name. */
function unit(node: Node | undefined): Node {
  const names = node?.['class'] === 'COLUMN_REF' ? node['column_names'] : undefined
  const [name] = Array.isArray(names) && names.length === 1 ? (names as string[]) : []
  return name !== undefined && UNITS.includes(name.toLowerCase()) ? textNode(name) : argument(node)
}

function argument(node: Node | undefined): Node {
  if (node === undefined) throw new Refused('a function has too few arguments')
  return node
}

const withUnit: Rewrite = ({ name, args: [first, ...rest] }) => callNode(name, [unit(first), ...rest])

/** `dateAdd(day, 1, t)`; DuckDB's date_add takes a time and an interval. */
const shift =
  (operator: '+' | '-'): Rewrite =>
  ({ args }) => {
    const [part, number, time] = args
    if (time === undefined) return callNode(operator, args, { is_operator: true })
    const name = textOfConstant(unit(part))?.toLowerCase().replace(/s$/, '') ?? ''
    if (!UNITS.includes(name)) throw new Refused('the unit of a shift is year, month, day, hour or the like')
    return callNode(operator, [time, callNode(`to_${name}s`, [argument(number)])], { is_operator: true })
  }

const toCase: Rewrite = ({ name, args }) => {
  if (args.length < 3 || args.length % 2 === 0)
    throw new Refused(`${name}: conditions and values, then the last value`)
  const pairs = Array.from(
    { length: (args.length - 1) / 2 },
    (_, at) => [args[2 * at], args[2 * at + 1]] as const,
  )
  return caseNode(pairs, args.at(-1))
}

/** Oracle's: a value, then pairs of a value that it may equal and a result. */
const decode: Rewrite = ({ args }) => {
  if (args.length < 3) return callNode('decode', args)
  const [value, ...rest] = args
  const pairs = Array.from({ length: Math.floor(rest.length / 2) }, (_, at) => {
    const equals = comparisonNode('COMPARE_NOT_DISTINCT_FROM', value, rest[2 * at])
    return [equals, rest[2 * at + 1]] as const
  })
  return caseNode(pairs, rest.length % 2 === 1 ? rest.at(-1) : nullNode())
}

const atTimeZone: Rewrite = ({ args }) => {
  const [zone, time] = args
  if (time === undefined || isWrittenClock(time) || hasWallClock(time)) return callNode('timezone', args)
  return callNode('timezone', [zone, castNode(time, 'TIMESTAMP WITH TIME ZONE')])
}

/** True for `TIMESTAMP '…'`, which is no instant of a pool. */
function isWrittenClock({ cast_type: type, child }: Node): boolean {
  return isNode(type) && type['id'] === 'TIMESTAMP' && textOfConstant(child) !== undefined
}

/** True for a value that a time zone made: its time is that of a clock there. */
function hasWallClock(node: unknown): boolean {
  if (Array.isArray(node)) return node.some(hasWallClock)
  if (!isNode(node) || node['class'] === 'SUBQUERY') return false
  return node['function_name'] === 'timezone' || Object.values(node).some(hasWallClock)
}

const nowInUtc: Rewrite = ({ args }) => {
  if (args.length > 0) throw new Refused('now() has no argument')
  return castNode(callNode('now', []), 'TIMESTAMP')
}

const EPOCH = castNode(textNode('1970-01-01'), 'TIMESTAMP')
/** The first Monday of 1970: weeks begin on Mondays. */
const EPOCH_WEEK = castNode(textNode('1970-01-05'), 'TIMESTAMP')

const startOfInterval: Rewrite = ({ args: [time, interval, ...rest] }) => {
  if (interval === undefined || rest.length > 0)
    throw new Refused('toStartOfInterval: a time and an interval')
  const origin = interval['function_name'] === 'to_weeks' ? EPOCH_WEEK : EPOCH
  return callNode('time_bucket', [interval, castNode(time, 'TIMESTAMP'), origin])
}

const dateBin: Rewrite = ({ args: [interval, time, origin] }) => {
  if (origin === undefined) throw new Refused('date_bin: an interval, a time and an origin')
  return callNode('time_bucket', [interval, castNode(time, 'TIMESTAMP'), castNode(origin, 'TIMESTAMP')])
}

/** A text's parts that a format knows, the longest first, and DuckDB's. */
const TO_CHAR: readonly (readonly [string, string])[] = [
  ['FMMonth', '%B'],
  ['FMDay', '%A'],
  ['FMMM', '%-m'],
  ['FMDD', '%-d'],
  ['FMHH24', '%-H'],
  ['FMHH12', '%-I'],
  ['YYYY', '%Y'],
  ['IYYY', '%G'],
  ['HH24', '%H'],
  ['HH12', '%I'],
  ['DDD', '%j'],
  ['Mon', '%b'],
  ['YY', '%y'],
  ['MM', '%m'],
  ['DD', '%d'],
  ['HH', '%I'],
  ['MI', '%M'],
  ['SS', '%S'],
  ['MS', '%g'],
  ['US', '%f'],
  ['Dy', '%a'],
  ['ID', '%u'],
  ['IW', '%V'],
  ['AM', '%p'],
  ['PM', '%p'],
]

const FORMAT_DATE_TIME: readonly (readonly [string, string])[] = [
  ...['Y', 'y', 'm', 'd', 'H', 'I', 'j', 'p', 'a', 'b', 'u', 'V', 'G', 'S'].map(
    c => [`%${c}`, `%${c}`] as const,
  ),
  ['%W', '%A'],
  ['%M', '%B'],
  ['%i', '%M'],
  ['%s', '%S'],
  ['%f', '%f'],
  ['%F', '%Y-%m-%d'],
  ['%T', '%H:%M:%S'],
  ['%R', '%H:%M'],
  ['%%', '%%'],
]

const format =
  (known: readonly (readonly [string, string])[]): Rewrite =>
  ({ name, args: [time, text, ...rest] }) => {
    const given = textOfConstant(text)
    if (given === undefined || rest.length > 0)
      throw new Refused(`${name}: a time and a format, which is written as a text; others have strftime`)
    return callNode('strftime', [castNode(time, 'TIMESTAMP'), textNode(strftimeOf(name, given, known))])
  }

function strftimeOf(name: string, given: string, known: readonly (readonly [string, string])[]): string {
  let out = ''
  for (let at = 0; at < given.length; ) {
    const quoted = /^"([^"]*)"/.exec(given.slice(at))
    const part = known.find(([from]) => given.startsWith(from, at))
    const char = given.charAt(at)
    if (name === 'to_char' && quoted !== null) out += quoted[1]?.replaceAll('%', '%%') ?? ''
    else if (part !== undefined) out += part[1]
    else if (/[\p{L}%]/u.test(char))
      throw new Refused(`${name}: ${JSON.stringify(given.slice(at, at + 8))} has no form here: use strftime`)
    else out += char
    at += name === 'to_char' && quoted !== null ? quoted[0].length : (part?.[0].length ?? 1)
  }
  return out
}

const conversion =
  (type: string, isTry = false): Rewrite =>
  ({ name, args }) => {
    if (args.length !== 1) throw new Refused(`${name} has one argument`)
    return castNode(args[0], type, isTry)
  }

const decimal =
  (width: number): Rewrite =>
  ({ name, args: [value, scale] }) => {
    const digits = Number(digitsOf(isNode(scale?.['value']) ? scale['value']['value'] : undefined))
    if (!Number.isInteger(digits) || digits < 0 || digits > width)
      throw new Refused(`${name}: the scale is a number from 0 to ${width}`)
    const info = { type: 'DECIMAL_TYPE_INFO', alias: '', extension_info: null, width, scale: digits }
    return castNode(value, 'DECIMAL', false, info)
  }

/** ClickHouse's: keys one below the other, each written as a text or as a position from 1. */
const jsonExtract =
  (type: string | null): Rewrite =>
  ({ name, args: [json, ...keys] }) => {
    const path = keys.map(key => {
      const text = textOfConstant(key)
      if (text === undefined) throw new Refused(`${name}: keys are written as texts`)
      return `."${text.replaceAll(/["\\]/g, '\\$&')}"`
    })
    const at = [argument(json), textNode(`$${path.join('')}`)]
    if (type === null) return callNode('json_extract', at)
    const text = callNode('json_extract_string', at)
    return type === 'VARCHAR' ? text : castNode(text, type, true)
  }

/** The list from 0, or from a value, to another one by steps of 1, or of a value. */
const series: Rewrite = ({ name, args, isInner }) => {
  const [first, second, step] = args
  const [from, to] = second === undefined ? [integerNode(0), argument(first)] : [first, second]
  const isOfTimes = step !== undefined && isInterval(step)
  const limited = `${name}${isOfTimes ? '_time' : isInner ? '_inner' : ''}`
  return callNode(macroName(limited), [from, to, step ?? integerNode(1)])
}

function isInterval(node: Node): boolean {
  const type = node['cast_type']
  if (isNode(type) && type['id'] === 'INTERVAL') return true
  return /^to_(?:(?:micro|milli)?seconds|minutes|hours|days|weeks|months|quarters|years)$/.test(
    String(node['function_name']),
  )
}

/** A width may be a value in braces of its own. */
function hasNestedBraces(text: string): boolean {
  return text
    .split('{')
    .slice(1, -1)
    .some(part => !part.includes('}'))
}

/** A width in a format makes a long text. */
const printed: Rewrite = ({ name, args }) => {
  const text = textOfConstant(args[0])
  if (text === undefined || /\d{4}|\*/.test(text) || hasNestedBraces(text))
    throw new Refused(`${name}: the format is written as a text, with widths of at most three digits`)
  return callNode(name, args)
}

/** LIKE and its kin: the operator, whether it ignores case, and whether it is negated. */
const like =
  (ignoresCase: boolean, isNegated: boolean): Rewrite =>
  ({ args: [value, pattern, quote] }) => {
    const match = likeNode(argument(value), argument(pattern), quote, ignoresCase)
    return isNegated ? operatorNode('OPERATOR_NOT', [match]) : match
  }

function likeNode(value: Node, pattern: Node, quoteNode: Node | undefined, ignoresCase: boolean): Node {
  const text = textOfConstant(pattern)
  const quote = quoteNode === undefined ? '' : textOfConstant(quoteNode)
  if (text === undefined) {
    if (quoteNode !== undefined) throw new Refused('with ESCAPE the pattern of LIKE is written as a text')
    return callNode(macroName(ignoresCase ? 'ilike' : 'like'), [value, pattern])
  }
  if (quote === undefined || [...quote].length > 1) throw new Refused('ESCAPE takes one character')
  // DuckDB searches for the pieces of a constant pattern one after the other.
  if (quote === '' && !ignoresCase && !text.includes('_'))
    return callNode('~~', [value, pattern], { is_operator: true })
  const regex = `(?s${ignoresCase ? 'i' : ''})${regexOf(text, quote)}`
  return callNode('regexp_full_match', [value, groupOf(textNode(regex))])
}

function regexOf(pattern: string, quote: string): string {
  const quoted = (char: string) => char.replace(/[!-/:-@[-`{-~]/, '\\$&')
  let out = ''
  const characters = [...pattern]
  for (let at = 0; at < characters.length; at++) {
    const char = characters[at] ?? ''
    if (quote !== '' && char === quote) {
      at += 1
      if (at >= characters.length) throw new Refused('the pattern of LIKE ends with the character of ESCAPE')
      out += quoted(characters[at] ?? '')
    } else out += char === '%' ? '.*' : char === '_' ? '.' : quoted(char)
  }
  return out
}

/** DuckDB makes its own LIKE of some patterns, which is not linear, but of no group. */
const matches: Rewrite = ({ name, args: [value, pattern, ...options] }) =>
  callNode(name, [argument(value), groupOf(argument(pattern)), ...options])

function groupOf(pattern: Node): Node {
  const text = textOfConstant(pattern)
  if (text !== undefined) return textNode(`(${text})`)
  const open = callNode('||', [textNode('('), pattern], { is_operator: true })
  return callNode('||', [open, textNode(')')], { is_operator: true })
}

/** PostgreSQL's operators, which find a part of the text. */
const matchesAnyCase =
  (isNegated: boolean): Rewrite =>
  ({ args: [value, pattern] }) => {
    const match = callNode('regexp_matches', [argument(value), groupOf(argument(pattern)), textNode('i')])
    return isNegated ? operatorNode('OPERATOR_NOT', [match]) : match
  }

/** The aggregate's name must be one that statements may call. */
const listAggregate: Rewrite = ({ name, args }) => {
  const aggregate = textOfConstant(args[1])
  if (aggregate === undefined || !isPlain(aggregate.toLowerCase()))
    throw new Refused(`${name}: the second argument is the name of an aggregate, written as a text`)
  return callNode(name, args)
}

/** The structure of from_json: DuckDB reads it into a type. */
const structured: Rewrite = ({ name, args }) => {
  const text = textOfConstant(args[1])
  if (text === undefined || text.split(/[[{]/).length > STRUCTURE_MAX)
    throw new Refused(
      `${name}: the structure is written as a text, with fewer than ${STRUCTURE_MAX} lists and objects`,
    )
  return callNode(name, args)
}
const STRUCTURE_MAX = 64

const unary =
  (type: string): Rewrite =>
  ({ args: [value] }) =>
    operatorNode(type, [argument(value)])

const coalesce: Rewrite = ({ args }) => operatorNode('OPERATOR_COALESCE', args)

const INTEGERS: Readonly<Record<string, string>> = {
  int8: 'TINYINT',
  int16: 'SMALLINT',
  int32: 'INTEGER',
  int64: 'BIGINT',
  int128: 'HUGEINT',
  uint8: 'UTINYINT',
  uint16: 'USMALLINT',
  uint32: 'UINTEGER',
  uint64: 'UBIGINT',
  float32: 'FLOAT',
  float64: 'DOUBLE',
  string: 'VARCHAR',
  date: 'DATE',
  datetime: 'TIMESTAMP',
  uuid: 'UUID',
}

const CONVERSIONS = Object.entries(INTEGERS).flatMap(([name, type]): [string, Rewrite][] => [
  [`to${name}`, conversion(type)],
  [`to${name}ornull`, conversion(type, true)],
])

const REWRITES: Readonly<Record<string, Rewrite>> = {
  ...Object.fromEntries(CONVERSIONS),
  ...Object.fromEntries([...TAKES_AGGREGATE].map(name => [name, listAggregate])),
  '~*': matchesAnyCase(false),
  '!~*': matchesAnyCase(true),
  '~~': like(false, false),
  '!~~': like(false, true),
  '~~*': like(true, false),
  '!~~*': like(true, true),
  like_escape: like(false, false),
  not_like_escape: like(false, true),
  ilike_escape: like(true, false),
  not_ilike_escape: like(true, true),
  array_resize: call => callNode(macroName('list_resize'), call.args),
  coalesce,
  date_add: shift('+'),
  date_bin: dateBin,
  date_diff: withUnit,
  date_sub: ({ name, args }) =>
    textOfConstant(args[0]) === undefined ? shift('-')({ name, args, isInner: false }) : callNode(name, args),
  date_trunc: withUnit,
  dateadd: shift('+'),
  datediff: withUnit,
  datesub: shift('-'),
  decode,
  format: printed,
  from_json: structured,
  from_json_strict: structured,
  json_transform: structured,
  json_transform_strict: structured,
  formatdatetime: format(FORMAT_DATE_TIME),
  generate_series: series,
  get_current_timestamp: nowInUtc,
  ifnull: coalesce,
  iif: toCase,
  isnotnull: unary('OPERATOR_IS_NOT_NULL'),
  isnull: unary('OPERATOR_IS_NULL'),
  jsonextract: jsonExtract(null),
  jsonextractbool: jsonExtract('BOOLEAN'),
  jsonextractfloat: jsonExtract('DOUBLE'),
  jsonextractint: jsonExtract('BIGINT'),
  jsonextractraw: jsonExtract(null),
  jsonextractstring: jsonExtract('VARCHAR'),
  multiif: toCase,
  now: nowInUtc,
  nvl: coalesce,
  printf: printed,
  regexp_full_match: matches,
  regexp_matches: matches,
  range: series,
  timezone: atTimeZone,
  to_char: format(TO_CHAR),
  todecimal128: decimal(38),
  todecimal32: decimal(9),
  todecimal64: decimal(18),
  tostartofinterval: startOfInterval,
  transaction_timestamp: nowInUtc,
}

export const REWRITTEN: readonly string[] = [
  ...Object.keys(REWRITES),
  ...Object.keys(DISTINCT),
  ...Object.keys(CONDITIONAL),
]
