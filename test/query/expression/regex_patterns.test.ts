/** Regular expressions: an engine reads each pattern that is taken, and all others are refused. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readRegex } from '../../../src/query/expression/regex-pattern.ts'
import { Refused } from '../../../src/query/expression/values.ts'
import { below, casesWithin, newSeed, randomFrom } from '../../util/random.ts'
import { ExpressionPool } from './pool.ts'
import { pick, randomPattern } from './random-expressions.ts'

const seed = newSeed()
const pool = new ExpressionPool()
beforeAll(() => pool.open())
afterAll(() => pool.close())

/** The number of groups, or the refusal. */
function groupsOf(pattern: string): number | string {
  try {
    return readRegex(pattern).groups
  } catch (error) {
    if (error instanceof Refused) return error.message
    throw error
  }
}

test(`the engine reads every pattern that is taken, seed ${seed}`, async () => {
  const random = randomFrom(seed)
  const parts = [
    ...'\\[](){}^$.|?*+-,:=!<>&~_ aAzZ09éß€😀',
    '[^',
    '[:',
    ':]',
    '(?',
    '{2',
    '\\d',
    '\\p',
    '\\1',
  ]
  let taken = 0
  const cases = { what: 'patterns', seed, seconds: 1.5, least: 150, most: 2_000 }
  await casesWithin(cases, async () => {
    // One that is taken with something put in, or a range of it taken out.
    const pattern = randomPattern(random)
    const at = below(random, pattern.length + 1)
    const rest = pattern.slice(at + below(random, 3))
    const wild = `${pattern.slice(0, at)}${pick(random, parts)}${pick(random, parts)}${rest}`
    if (/\p{Surrogate}/u.test(wild) || typeof groupsOf(wild) === 'string') return
    taken += 1
    const sql = `regexp_matches(name, '${wild}')`
    const answer = await pool.count(sql).catch((error: Error) => error.message)
    expect(answer, `seed ${seed}: ${sql}`).toMatch(/^\d$/)
  })
  expect(taken).toBeGreaterThan(10)
})

test('what is taken, and its groups', () => {
  const taken = [
    '',
    'a|',
    '()',
    '[^-a]',
    '[a-]',
    '[-]',
    '[^^]',
    '[\\]\\\\-]',
    '[[:^digit:]x]',
    'a{0}',
    'a{2,}?b',
  ]
  expect(taken.filter(pattern => typeof groupsOf(pattern) !== 'number')).toEqual([])
  const refused = [
    ...[
      '[]',
      '[^]',
      '[]a]',
      '[z-a]',
      '[é-a]',
      '[a-c-e]',
      '[a-\\d]',
      '[[:alfa:]]',
      '[a',
      'a]b[',
      'a{1',
      '{1}',
      'a{2,1}',
    ],
    ...[
      'a**',
      'a{2}{2}',
      '^*',
      '\\b+',
      '(?i)?',
      '(?)',
      '(?P<n>a)',
      '(?<!a)',
      '\\p{L}',
      '\\1',
      '\\Q',
      '\\',
      'a\\',
    ],
  ]
  expect(refused.filter(pattern => typeof groupsOf(pattern) === 'number')).toEqual([])
  expect(groupsOf('(a)(?:b)((?i:c))\\(')).toBe(2)
})

test('its size counts repetitions, and its least match empty parts', () => {
  expect(readRegex('a{3}(b|cd)?')).toEqual({ size: 9, choices: 2, least: 3, groups: 1 })
  expect(readRegex('(?:é|[a-z]){2,4}$')).toMatchObject({ least: 2 })
  expect(groupsOf('(?:a{30}){17}')).toMatch(/more than 500 characters/)
  expect(groupsOf('((((a{9}){9}){9}){9}){9}')).toMatch(/more than 500 characters/)
})
