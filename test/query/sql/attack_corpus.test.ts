/**
 * Hostile statements. None is answered, none takes long, no refusal tells of the engine, and the
 * next statement is right.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { CORPUS } from './corpus.ts'
import { SqlPools } from './pools.ts'

/** Two cores that other tests use too. */
const MS_MAX = 2_000
const ENGINE =
  /duckdb|json_serialize|LINE \d+:|node_modules|\.ts\b|Binder|Catalog Error|max_expression|read_parquet\(\[/i

const pools = new SqlPools()
beforeAll(() => pools.open())
afterAll(() => pools.close())

let tried = 0
for (const [kind, texts] of Object.entries(CORPUS))
  test(`${kind}: none is answered`, async () => {
    const through: string[] = []
    const slow: string[] = []
    const telling: string[] = []
    for (const text of texts) {
      tried += 1
      const began = performance.now()
      const planned = await pools.plan(text)
      if (performance.now() - began > MS_MAX) slow.push(text.slice(0, 200))
      if (!('badRequest' in planned)) through.push(text.slice(0, 200))
      else if (planned.badRequest.length > 500 || (ENGINE.test(planned.badRequest) && !ENGINE.test(text)))
        telling.push(`${text.slice(0, 60)} → ${planned.badRequest}`)
      if (tried % 20 === 0)
        expect(await pools.rows('SELECT COUNT(*) FROM orders WHERE id < 5'), text.slice(0, 200)).toBe(
          '[["5"]]',
        )
    }
    expect({ through, slow, telling }).toEqual({ through: [], slow: [], telling: [] })
  })

test('hundreds of statements were tried', () => {
  process.stdout.write(`attack corpus of statements: ${tried} cases tried\n`)
  expect(tried).toBeGreaterThan(400)
})
