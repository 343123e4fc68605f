/**
 * What event analysts ask, of Weir and of plain DuckDB over an export of the same pools: the rows
 * are equal, with a policy and without.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newSeed, someOf } from '../../util/random.ts'
import { type Ground, openGround } from './ground.ts'
import type { Answer } from './plain-answer.ts'
import { QUESTIONS, type Question } from './questions.ts'
import { SELECTS } from './selects.ts'

let ground: Ground
beforeAll(async () => {
  ground = await openGround()
})
afterAll(() => ground.stop())

const questions = Object.entries(QUESTIONS).map(([title, asked]): [string, Question] => [
  title,
  typeof asked === 'string' ? { sql: asked } : asked,
])

/** The rows of each answer. */
const answers = new Map<string, readonly unknown[]>()

/** Outputs without an alias have another name in Weir, that of PostgreSQL. */
const rowsOf = (answer: Answer) => ('error' in answer ? answer : answer.rows)

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
      answers.set(`${title}, ${reader}`, 'rows' in want ? want.rows : [])
    })
    test('SELECTs of many forms', async () => {
      const other: string[] = []
      for (const text of SELECTS) {
        const [want, answer] = [rowsOf(await ground.plain(text)), rowsOf(await ground.ask(text))]
        if ('error' in want || JSON.stringify(answer) !== JSON.stringify(want))
          other.push(`${text}: ${JSON.stringify(answer)} and not ${JSON.stringify(want)}`)
      }
      expect(other).toEqual([])
    })
  })

/** Hostile parts, and what a refusal says of them. */
const HOSTILE = [
  ["getenv('HOME')", /no function "getenv"/],
  ["(SELECT max(content) FROM read_text('/etc/hostname'))", /no function "read_text"/],
  ['(SELECT count(*) FROM nosuch)', /"nosuch" not found/],
] as const
const COLUMN = /(?<![\w.'"$])(?:quantity|name|visitor|ts|url|amount|day|props|price|id)(?![\w(.'"])/g
const TABLE = /(?<=\b(?:FROM|JOIN) )(?:hits|visitors|prices)\b/g

/** The questions with a hostile part in the place of one column or table. */
function spoilt(): { readonly text: string; readonly says: RegExp }[] {
  return questions.flatMap(([, { sql, parameters, dialect }]) => {
    if (parameters !== undefined || dialect !== undefined) return []
    const at = (place: RegExpExecArray, part: string) =>
      `${sql.slice(0, place.index)}${part}${sql.slice(place.index + place[0].length)}`
    return [
      ...[...sql.matchAll(COLUMN)].flatMap(place =>
        HOSTILE.map(([part, says]) => ({ text: at(place, part), says })),
      ),
      ...[...sql.matchAll(TABLE)].map(place => ({
        text: at(place, "read_text('/etc/hostname')"),
        says: /no function "read_text"/,
      })),
    ]
  })
}

/** `npm test` asks so many of them, by lot. */
const SPOILT = 150
const seed = newSeed()

test(`a hostile part in any place of a question is refused, seed ${seed}`, async () => {
  const asked = someOf(spoilt(), SPOILT, seed)
  const through: string[] = []
  let found = 0
  for (const { text, says } of asked) {
    const answer = await ground.ask(text)
    if (!('error' in answer)) through.push(text)
    else if (says.test(answer.error)) found += 1
  }
  expect(through).toEqual([])
  // The part is no SQL in some places, such as that of an alias.
  process.stdout.write(`hostile parts: ${found} of ${asked.length} were what was refused\n`)
  expect(found).toBeGreaterThan(asked.length / 2)
})

test('every question has rows, and most of them others with the policy', () => {
  expect([...answers].filter(([, rows]) => rows.length === 0)).toEqual([])
  const isOther = ([title]: [string, Question]) =>
    JSON.stringify(answers.get(`${title}, with a policy`)) !==
    JSON.stringify(answers.get(`${title}, without a policy`))
  expect(questions.filter(isOther).length).toBeGreaterThan(questions.length / 2)
})
