/**
 * Random expressions of every function and operator over columns of every type with extreme values.
 * Each is answered or refused with a sentence: the engine never fails by itself.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FUNCTIONS } from '../../../src/query/expression/functions.ts'
import { below, type Random, randomFrom } from '../../util/random.ts'
import { ExpressionPool, SCHEMA } from './pool.ts'

const CASES = 1_500

const pool = new ExpressionPool()
beforeAll(() => pool.open())
afterAll(() => pool.close())

const pick = <T>(random: Random, list: readonly T[]): T => list[below(random, list.length)]!
const NAMES = SCHEMA.columns.map(({ name }) => `"${name.replaceAll('"', '""')}"`)
const AGGREGATES = FUNCTIONS.filter(spec => spec.isAggregate === true).flatMap(spec => spec.names)
const SCALARS = FUNCTIONS.filter(spec => spec.isAggregate !== true).flatMap(spec => spec.names)
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

function value(random: Random, depth: number): string {
  const roll = random()
  if (depth === 0 || roll < 0.3) return pick(random, random() < 0.7 ? NAMES : LITERALS)
  const inner = () => value(random, depth - 1)
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

test('random expressions are answered or refused', async () => {
  const seed = Date.now() % 1e9
  const random = randomFrom(seed)
  let answered = 0
  for (let i = 0; i < CASES; i++) {
    const argument = value(random, 1 + below(random, 2))
    const aggregate = pick(random, random() < 0.6 ? ['count', 'min', 'max', 'count_distinct'] : AGGREGATES)
    const expression = `${aggregate === 'count_star' ? 'count' : aggregate}(${argument})`
    const asked = pool.custom(expression).catch((error: Error) => {
      throw new Error(`seed ${seed}: ${expression}: ${error.message}`)
    })
    if (!(await asked)?.startsWith('BAD: ')) answered += 1
  }
  process.stdout.write(`random expressions: ${CASES}, answered ${answered}, seed ${seed}\n`)
  expect(answered).toBeGreaterThan(CASES / 10)
}, 120_000)

test('every aggregate takes what it says, over extreme values', async () => {
  for (const name of AGGREGATES)
    for (const column of NAMES)
      for (const last of ['', ', 0.5', ", tenant = 'a'"]) {
        const expression = `${name}(${column}${last})`
        await pool.custom(expression).catch((error: Error) => {
          throw new Error(`${expression}: ${error.message}`)
        })
      }
})
