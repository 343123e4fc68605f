/**
 * Deletion vectors go to the query process once: what is sent, what it keeps, and what it asks for.
 */
import { afterAll, expect, test } from 'vitest'
import type { DeletionVector, QuerySegment } from '../../src/index/index-types.ts'
import { DeletedRowsCache } from '../../src/query/duckdb/deleted-rows-cache.ts'
import type { SentSegment } from '../../src/query/duckdb/engine-calls.ts'
import { segmentsOf as allOf, take, toSend, withSegments } from '../../src/query/duckdb/sent-segments.ts'
import { rowsOfPool } from '../../src/query/plan/segment-task.ts'
import { schemaOf, TestPool, withDeletionVectors } from './pool.ts'

const schema = schemaOf([['n', 'INT64']])
const pool = new TestPool()
afterAll(() => pool.close())

/** The process with a cache of `bytesMax`. */
function processOf(bytesMax: number) {
  const cache = new DeletedRowsCache<readonly DeletionVector[]>(bytesMax)
  return { cache, take: (segments: readonly SentSegment[]) => take(segments, cache) }
}

const NONE: ReadonlySet<number> = new Set()

/** Three segments of a hundred rows, with as many rows deleted as `deleted` says. */
async function segmentsOf(deleted: readonly number[]): Promise<QuerySegment[]> {
  return await Promise.all(
    deleted.map(async count => {
      const rows = Array.from({ length: 100 }, (_, n) => ({ n: BigInt(n) }))
      const segment = await pool.segment(schema, rows)
      return count === 0 ? segment : withDeletionVectors(segment, numbers(count))
    }),
  )
}

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

test('a query sends no vector; the process asks for those that it lacks, and keeps them', async () => {
  const segments = await segmentsOf([0, 10, 20])
  const { cache, ...process } = processOf(1_000_000)
  expect(toSend(segments, NONE).map(sent => 'deletionVectors' in sent)).toEqual([false, false, false])
  expect(process.take(toSend(segments, NONE))).toEqual({ missing: [1, 2] })
  expect(toSend(segments, new Set([1])).map(sent => 'deletionVectors' in sent)).toEqual([false, true, false])
  expect(process.take(toSend(segments, new Set([1])))).toEqual({ missing: [2] })
  expect(process.take(toSend(segments, new Set([2])))).toEqual({ segments })
  expect(process.take(toSend(segments, NONE))).toEqual({ segments })
  const grown = [segments[0]!, withDeletionVectors(segments[1]!, numbers(11)), segments[2]!]
  expect(process.take(toSend(grown, NONE))).toEqual({ missing: [1] })
  expect(process.take(toSend(grown, 'all'))).toEqual({ segments: grown })
  expect(process.take(toSend(segments, 'all')), 'an older manifest').toEqual({ segments })
  expect(process.take(toSend(grown, NONE)), 'and the newer one is still known').toEqual({ segments: grown })
  cache.forget(segments.map(({ file }) => file))
  expect(process.take(toSend(grown, NONE))).toEqual({ missing: [1, 2] })
  expect(cache.bytes).toBe(0)
})

test('the pools of a task are sent together, and come apart again', () => {
  const task = (...pools: string[][]) => ({
    source: { pools: pools.map(segments => ({ schema, segments })), sequenceAfter: 7 },
    rowsMax: 1,
  })
  const pools = task(['a', 'b'], [], ['c'], ['d', 'e'])
  expect(allOf(pools.source)).toEqual(['a', 'b', 'c', 'd', 'e'])
  expect(withSegments(pools, allOf(pools.source))).toEqual(pools)
  expect(withSegments(task(['a']), ['A'])).toEqual(task(['A']))
})

test('a full cache drops the vectors that were not used for the longest time', async () => {
  const segments = await segmentsOf([10, 10, 10])
  const { cache, ...process } = processOf(1_200) // two of them
  expect(process.take(toSend(segments, 'all'))).toEqual({ segments })
  expect(cache.bytes).toBeLessThanOrEqual(1_200)
  expect(process.take(toSend(segments, NONE))).toEqual({ missing: [0] })
  expect(process.take(toSend(segments.slice(0, 1), 'all'))).toEqual({ segments: segments.slice(0, 1) })
  expect(process.take(toSend(segments, NONE))).toEqual({ missing: [1] })
})

test('vectors that exceed the cache of the process are sent with each query, and counted', async () => {
  const segments = await segmentsOf([10, 20, 30])
  const engine = await pool.open({ deletionVectorBytesMax: 600 })
  const statement = { sql: 'SELECT COUNT(*) FROM rows', bounds: [] }
  const asked = numbers(20).map(() =>
    engine.run({ source: rowsOfPool(schema, { segments }), statement, rowsMax: 1 }, 'a'),
  )
  for (const { rows } of await Promise.all(asked)) expect(rows).toEqual([['240']])
})
