/**
 * Hostile texts and random expressions as new values and filters of a job. No hostile text comes
 * through, and no accepted expression fails when the job runs.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { randomFrom } from '../../util/random.ts'
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

test('random expressions are found or refused, as values of every column and as filters', async () => {
  const seed = Date.now() % 1e9
  const random = randomFrom(seed)
  let found = 0
  for (let i = 0; i < 2_500; i++) {
    const expression = randomValue(random, 1 + (i % 2))
    const column = pick(random, COLUMNS)
    const changes =
      i % 5 === 0 ? { filterSql: `(${expression}) IS NULL` } : { ...set(column, expression), filterSql: null }
    const answer = await finder.find(changes).catch((error: Error) => {
      throw new Error(`seed ${seed}: ${column} = ${expression}: ${error.message}`)
    })
    if (typeof answer !== 'string') found += 1
  }
  process.stdout.write(`random new values: ${found} of 2500 found, seed ${seed}\n`)
  expect(found).toBeGreaterThan(200)
}, 120_000)
