/** Patterns that take a backtracking LIKE for ever are answered, and the next query runs. */
import { afterAll, expect, test } from 'vitest'
import { schemaOf, TestPool } from './pool.ts'

const schema = schemaOf([['s', 'STRING']])
const pool = new TestPool()
afterAll(() => pool.close())

test('every pattern passes over a text once', async () => {
  const length = 100_000
  const segment = await pool.segment(schema, [
    { s: 'a'.repeat(length) },
    { s: `${'ab'.repeat(length)}c` },
    { s: null },
  ])
  const count = (operator: 'LIKE' | 'NOT_LIKE', value: string) =>
    pool.counter(schema, { metric: { kind: 'count' }, filters: [{ column: 's', operator, value }] }, [
      segment,
    ])
  for (const [pattern, found] of [
    ['%a%a%a%a%a%b', 0],
    ['%a%a%a%a%a%c', 1],
    [`%${'a%'.repeat(400)}c`, 1],
    [`%a${'_'.repeat(901)}c`, 1],
    [`%b${'_'.repeat(901)}`, 1],
    ['_'.repeat(1_000), 0],
    [`${'_%'.repeat(500)}`, 2],
    [`%${'𝄞_%'.repeat(200)}`, 0],
  ] as const) {
    expect([pattern.slice(0, 20), await count('LIKE', pattern)]).toEqual([
      pattern.slice(0, 20),
      String(found),
    ])
    expect(await count('NOT_LIKE', pattern)).toBe(String(2 - found))
  }
})
