/**
 * Random expressions of every function and operator over columns of every type with extreme values.
 * Each is answered or refused with a sentence: the engine never fails by itself.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { below, casesWithin, newSeed, randomFrom } from '../../util/random.ts'
import { ExpressionPool } from './pool.ts'
import { AGGREGATES, NAMES, pick, randomAggregate, randomValue, SCALARS } from './random-expressions.ts'

const seed = newSeed()
const CASES = { what: 'random expressions', seed, seconds: 2.5, least: 300, most: 1_500 }

const pool = new ExpressionPool()
beforeAll(() => pool.open())
afterAll(() => pool.close())

test(`random expressions are answered or refused, seed ${seed}`, async () => {
  const random = randomFrom(seed)
  let answered = 0
  const cases = await casesWithin(CASES, async () => {
    const inner = () => randomValue(random, 1 + below(random, 2))
    const aggregate = pick(random, ['count', 'min', 'max', 'count_distinct'])
    const expression = random() < 0.6 ? `${aggregate}(${inner()})` : randomAggregate(random, inner)
    const asked = pool.custom(expression).catch((error: Error) => {
      throw new Error(`seed ${seed}: ${expression}: ${error.message}`)
    })
    if (!(await asked)?.startsWith('BAD: ')) answered += 1
  })
  expect(answered).toBeGreaterThan(cases / 10)
}, 120_000)

test('every aggregate takes what it says, over extreme values', async () => {
  for (const name of AGGREGATES)
    for (const column of NAMES)
      for (const last of ['', ', 0.5', ", tenant = 'a'", ', ts']) {
        const expression = `${name}(${column}${last})`
        await pool.custom(expression).catch((error: Error) => {
          throw new Error(`${expression}: ${error.message}`)
        })
      }
})

test('every function takes integers of 126 bits where it takes integers', async () => {
  const wide = 'i64 * i64'
  const pairs = [wide, 'name', 'ts'].flatMap(one => [wide, 'name', 'f64'].map(other => [one, other]))
  const lists = [[wide], ...pairs, ...pairs.map(pair => ['name', ...pair])]
  let answered = 0
  for (const name of SCALARS.filter(each => /^\w+$/.test(each)))
    for (const list of lists) {
      const expression = `max(${name}(${list.join(', ')}))`
      const answer = await pool.custom(expression).catch((error: Error) => {
        throw new Error(`${expression}: ${error.message}`)
      })
      if (!answer?.startsWith('BAD: ')) answered += 1
    }
  expect(answered).toBeGreaterThan(20)
})
