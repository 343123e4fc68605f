/** What is kept of partial groups has a limit that applications share, and goes with its files. */
import { afterEach, expect, test } from 'vitest'
import type { QuerySegment } from '../../src/index/index-types.ts'
import type { EngineClient } from '../../src/query/duckdb/engine-client.ts'
import { counter } from '../../src/query/plan/counter.ts'
import { leaderboard } from '../../src/query/plan/leaderboard.ts'
import { schemaOf, TestPool } from './pool.ts'

const ROWS = 5_000
const BYTES_MAX = 1_000_000
const schema = schemaOf([
  ['name', 'STRING'],
  ['n', 'INT64'],
])
let pool: TestPool
afterEach(() => pool.close())

async function open(): Promise<QuerySegment> {
  pool = new TestPool()
  await pool.open({ partialsBytesMax: BYTES_MAX, partialsRowsMin: 1 })
  return await pool.write(`SELECT 'a' || i AS name, i::BIGINT AS n, now() AS _service_received_at,
    '{}' AS _service_payload, 0::BIGINT AS _service_sequence FROM range(${ROWS}) t(i)`)
}

/** Asks for the sum of numbers up to `most`, and tells how many segments were not read for it. */
async function keptOf(fairKey: string, most: number, segments: readonly QuerySegment[]): Promise<number> {
  let kept = -1
  const partials = {
    onKept: (count: number) => {
      kept = count
    },
  }
  const query = { metric: { kind: 'sum', column: 'n' }, filterSql: `n <= ${most}` } as const
  const answer = await pool.answer(counter, schema, query, segments, { fairKey, partials })
  expect(answer).toEqual({ value: String((most * (most + 1)) / 2) })
  return kept
}

test('an application that asks much does not drop what is kept for another', async () => {
  const segments = [await open()]
  expect(await keptOf('B', 7, segments)).toBe(1)
  for (let most = 1; most <= 400; most++) await keptOf('A', most, segments)
  expect(await keptOf('B', 7, segments)).toBe(1)
  // The newest of A's are there, and the oldest are not: its segment was computed again.
  const { bytes } = await bytesAfter(segments)
  expect(bytes).toBeGreaterThan(BYTES_MAX / 2)
  expect(bytes).toBeLessThanOrEqual(BYTES_MAX)
}, 60_000)

async function bytesAfter(segments: readonly QuerySegment[]): Promise<{ readonly bytes: number }> {
  let bytes = -1
  const partials = {
    onKept: (_: number, of: number) => {
      bytes = of
    },
  }
  await pool.answer(counter, schema, { metric: { kind: 'count' }, filterSql: 'n >= 0' }, segments, {
    partials,
  })
  return { bytes }
}

test('a question with many groups is not kept, and is answered', async () => {
  const segments = [await open()]
  const metric = { kind: 'sum', column: 'n' } as const
  const query = { metric, name: 'v', dimensions: ['name'], sort: 'DESC', rowLimit: 2 } as const
  for (let ask = 0; ask < 3; ask++) {
    let kept = -1
    const partials = {
      onKept: (count: number) => {
        kept = count
      },
    }
    const answer = await pool.answer(leaderboard, schema, query, segments, { partials })
    expect(answer).toMatchObject({
      rows: [
        ['a4999', '4999'],
        ['a4998', '4998'],
      ],
    })
    expect(kept).toBe(0)
  }
  expect((await bytesAfter(segments)).bytes).toBeLessThan(BYTES_MAX / 5)
})

test('what is kept goes with its file', async () => {
  const segments = [await open()]
  for (let most = 1; most <= 40; most++) await keptOf('A', most, segments)
  const { bytes } = await bytesAfter(segments)
  ;(pool.local as EngineClient).forget(segments.map(({ file }) => file))
  const { bytes: after } = await bytesAfter(segments)
  expect(after).toBeLessThan(bytes / 5)
})
