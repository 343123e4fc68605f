/**
 * What event analysts ask, of Weir and of plain DuckDB over an export of the same pools: the rows
 * are equal, with a policy and without.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Ground, openGround } from './ground.ts'
import { QUESTIONS, type Question } from './questions.ts'

let ground: Ground
beforeAll(async () => {
  ground = await openGround()
})
afterAll(() => ground.stop())

const questions = Object.entries(QUESTIONS).map(([title, asked]): [string, Question] => [
  title,
  typeof asked === 'string' ? { sql: asked } : asked,
])

/** The number of rows of each answer. */
const rowsOf = new Map<string, number>()

for (const reader of ['without a policy', 'with a policy'])
  describe(reader, () => {
    beforeAll(async () => {
      if (reader === 'with a policy') await ground.limit()
    })
    test.each(questions)('%s', async (title, { sql, plain = sql, parameters, dialect }) => {
      const want = await ground.plain(plain, parameters)
      expect(want).not.toHaveProperty('error')
      const more = {
        ...(parameters === undefined ? {} : { parameters }),
        ...(dialect === undefined ? {} : { dialect }),
      }
      expect(await ground.ask(sql, more)).toEqual(want)
      rowsOf.set(`${title}, ${reader}`, 'rows' in want ? want.rows.length : 0)
    })
  })

test('every question has rows, and most of them others with the policy', () => {
  expect([...rowsOf].filter(([, rows]) => rows === 0)).toEqual([])
})
