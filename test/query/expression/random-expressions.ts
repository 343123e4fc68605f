/** Random expressions of every function and operator over columns of every type. */
import { type Argument, FUNCTIONS, type FunctionSpec } from '../../../src/query/expression/functions.ts'
import { readRegex } from '../../../src/query/expression/regex-pattern.ts'
import { Refused } from '../../../src/query/expression/values.ts'
import { below, type Random } from '../../util/random.ts'
import { SCHEMA } from './pool.ts'

export const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!
export const NAMES = SCHEMA.columns.map(({ name }) => `"${name.replaceAll('"', '""')}"`)
export const AGGREGATES = FUNCTIONS.filter(spec => spec.isAggregate === true).flatMap(spec => spec.names)
export const SCALARS = FUNCTIONS.filter(spec => spec.isAggregate !== true).flatMap(spec => spec.names)
const OPERATORS = [
  '+',
  '-',
  '*',
  '/',
  '%',
  '||',
  '=',
  '<>',
  '<',
  '>=',
  'AND',
  'OR',
  'LIKE',
  'IS DISTINCT FROM',
]
const TYPES = ['BOOLEAN', 'VARCHAR', 'TINYINT', 'INTEGER', 'BIGINT', 'FLOAT', 'DOUBLE', 'DATE', 'TIMESTAMP']
const LITERALS = [
  "''",
  "'a'",
  "'day'",
  "'second'",
  "'$.n'",
  "'infinity'",
  "'-infinity'",
  "'290000-01-01'",
  "'2024-02-29'",
  "'1e400'",
  "'nan'",
  '0',
  '1',
  '-1',
  '0.5',
  '1e308',
  '-1e308',
  '127',
  '9223372036854775807',
  '-9223372036854775808',
  '18446744073709551616',
  'NULL',
  'true',
  'false',
  'now()',
  'INTERVAL 1000000 YEAR',
  'INTERVAL -1 SECOND',
]

/** What stands in the place of each kind of argument that is written as a literal. */
const CONSTANTS: Partial<Record<Argument, readonly string[]>> = {
  part: ["'year'", "'week'", "'second'", "'epoch'"],
  digits: ['-18', '-2', '0', '1', '3', '18'],
  place: ['1', '2', '-1', '-2', '100'],
  search: ["''", "'a'", "'rie'"],
  needle: ["'a'", "'x'", "' '", "'👩'", "'xx'", "'\u0308'"],
  literal: ["''", "'b'", "'€€'", "'\\0\\0'", "'<\\1>'", "'\\\\'"],
  pattern: [
    ...["'a'", "'^.'", "'.$'", "'[^a-y]+'", "'(?s).+'", "'x{2,3}?'", "'\\bB'", "'(A)|(d)'", "'[[:upper:]]'"],
    ...["'\\s*$'", "'ß|👩'", "'(?i)ADA|ẞ'", "'\\W+'", "'(x|xx)*'", "'()'", "'^(.)(.)?'", "'é\\.?'"],
  ],
  options: ["'i'", "'g'", "'gi'", "''"],
  group: ['0', '1', '2'],
  format: ["'%Y-%m-%d'", "'%H:%M:%S.%f'", "'%j %I%p %a %A'", "'%b %B %%'", "''"],
  width: ['3 MONTH', '1 YEAR', '2 WEEK', '7 DAY', '15 MINUTE', '100000 YEAR', '999999 WEEK'].map(
    width => `INTERVAL ${width}`,
  ),
  path: ["'n'", "'$.a.b'", "'$.a.b[1]'", "'a/b~c'", "'$'"],
  fraction: ['0', '0.5', '1'],
}
/** Columns of each kind of argument. */
const COLUMNS: Partial<Record<Argument, readonly string[]>> = {
  text: ['name', 'tenant', 'secret'],
  number: ['i8', 'i32', 'i64', 'f32', 'f64'],
  integer: ['i8', 'i64', '2', '-1', 'i64 * i64'],
  time: ['ts', 'day', 'seen'],
  json: ['payload', '_service_payload'],
  boolean: ['flag', 'i8 > 0'],
}

/** A call with arguments of the kinds that it takes, of which one may be left out. */
function randomCall(random: Random, spec: FunctionSpec, inner: () => string): string {
  const count = spec.arguments.length - (spec.optional === undefined ? 0 : below(random, 2))
  const list = spec.arguments.slice(0, count).map(argument => {
    const written = CONSTANTS[argument] ?? (random() < 0.6 ? COLUMNS[argument] : undefined)
    return written === undefined ? inner() : pick(random, written)
  })
  const name = pick(
    random,
    spec.names.filter(each => /^\w+$/.test(each) && each !== 'position'),
  )
  return `${name}(${list.join(', ')})`
}

const CALLS = FUNCTIONS.filter(
  spec => spec.isAggregate !== true && !['->', '->>', '||'].includes(spec.names[0]!),
)
const AGGREGATE_CALLS = FUNCTIONS.filter(spec => spec.isAggregate === true)

/** A call of an aggregate. */
export function randomAggregate(random: Random, inner: () => string): string {
  return randomCall(random, pick(random, AGGREGATE_CALLS), inner)
}

/** An expression of at most `depth` operations inside of each other. */
export function randomValue(random: Random, depth: number): string {
  const roll = random()
  if (depth === 0 || roll < 0.3) return pick(random, random() < 0.7 ? NAMES : LITERALS)
  const inner = () => randomValue(random, depth - 1)
  if (roll < 0.5) return randomCall(random, pick(random, CALLS), inner)
  if (roll < 0.6) {
    const list = Array.from({ length: 1 + below(random, 3) }, inner)
    const name = pick(random, SCALARS)
    return /^\w+$/.test(name) ? `${name}(${list.join(', ')})` : `(${inner()} ${name} ${inner()})`
  }
  if (roll < 0.8) return `(${inner()} ${pick(random, OPERATORS)} ${inner()})`
  if (roll < 0.9) return `CAST(${inner()} AS ${pick(random, TYPES)})`
  if (roll < 0.95) return `CASE WHEN ${inner()} > ${inner()} THEN ${inner()} ELSE ${inner()} END`
  return pick(random, [`-${inner()}`, `(${inner()} IN (${inner()}, ${inner()}))`, `(${inner()} IS NULL)`])
}

const ATOMS = [
  ...[
    'a',
    'b',
    'k',
    's',
    'é',
    'ſ',
    'ß',
    '😀',
    '.',
    '\\.',
    '\\d',
    '\\D',
    '\\w',
    '\\W',
    '\\s',
    '\\S',
    '\\n',
    '^',
    '$',
    '\\b',
  ],
  ...[
    '\\B',
    '\\A',
    '\\z',
    '[ab]',
    '[^ab]',
    '[a-zé]',
    '[[:upper:]]',
    '[\\d_-]',
    '[^\\s]',
    '[\\]a]',
    '(?i)',
    '(?s)',
    '(?m)',
    '(?-i)',
    'ab',
    '',
  ],
]
const REPETITIONS = ['', '', '', '*', '+', '?', '*?', '+?', '??', '{2}', '{1,2}', '{2,}', '{0,2}?']

function anyPattern(random: Random, depth: number): string {
  const roll = random()
  if (depth === 0 || roll < 0.2) return pick(random, ATOMS)
  const inner = () => anyPattern(random, depth - 1)
  if (roll < 0.6) return `${inner()}${inner()}${inner()}`
  if (roll < 0.75) return `${inner()}|${inner()}`
  return `${pick(random, ['(', '(?:', '(?i:', '(?s:'])}${inner()})${pick(random, REPETITIONS)}`
}

/** A pattern that is taken, with at most nine groups. */
export function randomPattern(random: Random): string {
  for (;;) {
    const pattern = anyPattern(random, 3)
    try {
      if (readRegex(pattern).groups <= 9) return pattern
    } catch (error) {
      // It repeats nothing, such as an end of the text.
      if (!(error instanceof Refused)) throw error
    }
  }
}
