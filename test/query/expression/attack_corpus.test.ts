/**
 * Hostile SQL texts, each as a filter, as a metric, as part of both, and as a policy's filter. None
 * is accepted, none takes long, and the next question is answered.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseTexts } from '../../../src/query/ask.ts'
import { checkFilterSql, checkMetricExpression } from '../../../src/query/check-texts.ts'
import type { BadQuery } from '../../../src/query/expression/values.ts'
import type { ParseTexts } from '../../../src/query/plan/policy.ts'
import { CORPUS } from './corpus.ts'
import { ExpressionPool, SCHEMA } from './pool.ts'

/** Two cores that other tests use too. */
const MS_MAX = 2_000

const pool = new ExpressionPool()
let parse: ParseTexts
beforeAll(async () => {
  const engine = await pool.open()
  parse = texts => parseTexts(texts, engine, 'APP')
})
afterAll(() => pool.close())

/** Every place where a text could come through. */
function placesOf(text: string): [string, () => Promise<BadQuery | undefined>][] {
  return [
    ['filter', () => checkFilterSql(SCHEMA, text, 'plain', parse)],
    ['policy', () => checkFilterSql(SCHEMA, text, 'placeholders', parse)],
    ['metric', () => checkMetricExpression(SCHEMA, text, parse)],
    ['condition of a metric', () => checkMetricExpression(SCHEMA, `COUNT(*) FILTER (WHERE ${text})`, parse)],
    ['argument', () => checkMetricExpression(SCHEMA, `SUM(${text})`, parse)],
    ['operand', () => checkFilterSql(SCHEMA, `flag AND (${text})`, 'plain', parse)],
    ['value', () => checkFilterSql(SCHEMA, `coalesce(${text}, false)`, 'plain', parse)],
  ]
}

let tried = 0

for (const [kind, texts] of Object.entries(CORPUS))
  test(`${kind}: none comes through, and none takes long`, async () => {
    const through: string[] = []
    const slow: string[] = []
    for (const text of texts) {
      // No text but spaces means that there is no filter.
      const places = text.trim() === '' ? placesOf(text).slice(2) : placesOf(text)
      for (const [place, check] of places) {
        tried += 1
        const began = performance.now()
        if ((await check()) === undefined) through.push(`${place}: ${text.slice(0, 100)}`)
        if (performance.now() - began > MS_MAX) slow.push(`${place}: ${text.slice(0, 100)}`)
      }
      expect(await pool.count("tenant = 'a'"), text.slice(0, 100)).toBe('2')
    }
    expect({ through, slow }).toEqual({ through: [], slow: [] })
  })

test('no refusal tells of the engine', async () => {
  const words =
    /duckdb|json_serialize|SELECT \(|LINE \d|node_modules|\.ts\b|Binder|Catalog Error|max_expression/i
  const telling: string[] = []
  for (const text of Object.values(CORPUS).flat()) {
    const sentence = (await checkFilterSql(SCHEMA, text, 'plain', parse))?.badRequest
    const isTelling = !words.test(text) && words.test(sentence ?? '')
    if (isTelling || (sentence?.length ?? 0) > 500) telling.push(`${text.slice(0, 60)} → ${sentence}`)
  }
  expect(telling).toEqual([])
})

test('hundreds of cases were tried', () => {
  process.stdout.write(`attack corpus: ${tried} cases tried\n`)
  expect(tried).toBeGreaterThan(2_000)
})
