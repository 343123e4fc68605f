/** Random expressions of every function and operator over columns of every type. */
import { FUNCTIONS } from '../../../src/query/expression/functions.ts'
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

/** An expression of at most `depth` operations inside of each other. */
export function randomValue(random: Random, depth: number): string {
  const roll = random()
  if (depth === 0 || roll < 0.3) return pick(random, random() < 0.7 ? NAMES : LITERALS)
  const inner = () => randomValue(random, depth - 1)
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
