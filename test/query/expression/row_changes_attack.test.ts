/**
 * Hostile texts and random expressions as new values and filters of a job. No hostile text comes
 * through, and no accepted expression fails when the job runs.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { casesWithin, newSeed, randomFrom } from '../../util/random.ts'
import { CORPUS } from './corpus.ts'
import { ExpressionPool, SCHEMA } from './pool.ts'
import { pick, randomValue } from './random-expressions.ts'
import { RowChangesFinder, SEQUENCE } from './row-changes.ts'

const pool = new ExpressionPool()
let finder: RowChangesFinder
beforeAll(async () => {
  const engine = await pool.open()
  finder = new RowChangesFinder(pool.pool, SCHEMA, pool.segments()[0]!, engine)
})
afterAll(async () => {
  finder.close()
  await pool.close()
})

const COLUMNS = SCHEMA.columns.map(({ name }) => name)
const set = (column: string, expression: string) => ({ set: [{ column, expression }] })

for (const [kind, texts] of Object.entries(CORPUS))
  test(`${kind}: none comes through as a new value or as a filter`, async () => {
    const through: string[] = []
    for (const text of texts) {
      for (const column of COLUMNS)
        if ((await finder.refusal(set(column, text))) === undefined)
          through.push(`${column} = ${text.slice(0, 100)}`)
      const filterSql = text.trim() === '' ? `flag AND (${text})` : text
      if ((await finder.refusal({ filterSql })) === undefined) through.push(`filter ${text.slice(0, 100)}`)
    }
    expect(through).toEqual([])
  })

test('rows of lower sequences alone are found', async () => {
  const changes = { filterSql: "tenant = 'a'" }
  expect(await finder.find(changes, SEQUENCE)).toEqual(new Map())
  expect(await finder.find(changes, SEQUENCE + 1)).toEqual(
    new Map([
      [0, []],
      [1, []],
    ]),
  )
})

test('a text that is null in every row is found', async () => {
  const answer = await finder.find({ ...set('tenant', 'NULL || "name"'), filterSql: null })
  expect(answer).toBeInstanceOf(Map)
})

const seed = newSeed()

test(`random expressions are found or refused, as values of every column and as filters, seed ${seed}`, async () => {
  const random = randomFrom(seed)
  let found = 0
  const budget = { what: 'random new values', seed, seconds: 2.5, least: 400, most: 2_500 }
  const cases = await casesWithin(budget, async i => {
    const expression = randomValue(random, 1 + (i % 2))
    const column = pick(random, COLUMNS)
    const changes =
      i % 5 === 0 ? { filterSql: `(${expression}) IS NULL` } : { ...set(column, expression), filterSql: null }
    const answer = await finder.find(changes).catch((error: Error) => {
      throw new Error(`seed ${seed}: ${column} = ${expression}: ${error.message}`)
    })
    if (typeof answer !== 'string') found += 1
  })
  expect(found).toBeGreaterThan(cases / 12.5)
}, 120_000)
