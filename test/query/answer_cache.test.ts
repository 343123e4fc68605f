/** Answers that are kept: for which versions, for how many bytes, and whose are dropped. */
import { beforeEach, expect, test } from 'vitest'
import { AnswerCache } from '../../src/query/answer-cache.ts'
import { ask } from '../../src/query/ask.ts'
import { duckdb } from '../../src/query/duckdb/write-statement.ts'
import { type CounterQuery, counter } from '../../src/query/plan/counter.ts'
import type { PoolsOfQuestion } from '../../src/query/plan/policy.ts'
import { nativeSql } from '../../src/query/sql/native-question.ts'
import { MiB } from '../../src/util/limits.ts'
import { schemaOf } from './pool.ts'

const ONE = schemaOf([['n', 'INT64']])
const OTHER = schemaOf([['n', 'INT64']])
const poolsOf = (...schemas: (typeof ONE)[]): PoolsOfQuestion =>
  schemas.map(schema => ({ schema, policy: null }))
const POOLS = poolsOf(ONE)
const versions = new Map<number, number>()
let cache: AnswerCache

beforeEach(() => {
  versions.clear()
  versions.set(ONE.pool, 1).set(OTHER.pool, 1)
  cache = new AnswerCache({ bytesMax: MiB, versionOf: pool => versions.get(pool) })
})

const done = (text: string) => ({
  columns: ['value'],
  rows: [[text, null]],
  recordsProcessed: 1,
  bytesProcessed: 1,
  durationMs: 1,
})

test('an answer is given for its version alone, and a later one takes its place', () => {
  cache.keep('A', 'q', POOLS, [1], done('first'))
  const { bytes } = cache.stats()
  expect(cache.find('A', 'q', POOLS)).toEqual(done('first'))
  expect([cache.find('B', 'q', POOLS), cache.find('A', 'p', POOLS)]).toEqual([undefined, undefined])
  expect(cache.find('A', 'q', poolsOf({ ...ONE, version: 2 }))).toBeUndefined()
  cache.keep('A', 'q', POOLS, [1], done('first'))
  versions.set(ONE.pool, 2)
  expect(cache.find('A', 'q', POOLS)).toBeUndefined()
  expect(cache.stats().bytes).toBe(0)
  cache.keep('A', 'q', POOLS, [2], done('other'))
  expect(cache.find('A', 'q', POOLS)).toEqual(done('other'))
  expect(cache.stats()).toEqual({ bytes, hits: 2, misses: 4 })
})

test('no answer is kept or given while a row of its pools is not flushed, or where it is late', () => {
  cache.keep('A', 'late', POOLS, [0], done('x'))
  cache.keep('A', 'no version', POOLS, [undefined], done('x'))
  versions.delete(ONE.pool)
  cache.keep('A', 'unflushed', POOLS, [1], done('x'))
  versions.set(ONE.pool, 1)
  expect(cache.stats().bytes).toBe(0)
  cache.keep('A', 'q', POOLS, [1], done('x'))
  versions.delete(ONE.pool)
  expect(cache.find('A', 'q', POOLS)).toBeUndefined()
})

test('an answer about several pools ends with each of them, and with a deleted pool', () => {
  const both = poolsOf(ONE, OTHER)
  for (const { pool } of [ONE, OTHER]) {
    cache.keep('A', 'q', both, [versions.get(ONE.pool), versions.get(OTHER.pool)], done('x'))
    expect(cache.find('A', 'q', both)).toBeDefined()
    versions.set(pool, 7)
    expect(cache.find('A', 'q', both)).toBeUndefined()
  }
  cache.keep('A', 'q', both, [7, 7], done('x'))
  cache.keep('A', 'p', POOLS, [7], done('x'))
  cache.forget(OTHER.pool)
  expect([cache.find('A', 'q', both), cache.find('A', 'p', POOLS)]).toEqual([undefined, done('x')])
  cache.forget(ONE.pool)
  expect(cache.stats().bytes).toBe(0)
})

test('the bytes have a limit, and the application with the most loses its oldest answers', () => {
  cache.keep('small', 'q', POOLS, [1], done('x'.repeat(10_000)))
  for (let n = 0; n < 1_000; n++) {
    cache.keep('large', `q${n}`, POOLS, [1], done('x'.repeat(10_000)))
    cache.find('large', 'q0', POOLS)
    expect(cache.stats().bytes).toBeLessThanOrEqual(MiB)
  }
  expect(cache.stats().bytes).toBeGreaterThan(0.9 * MiB)
  expect(cache.find('small', 'q', POOLS)).toBeDefined()
  // It was asked for all the time.
  expect(cache.find('large', 'q0', POOLS)).toBeDefined()
  expect(cache.find('large', 'q1', POOLS)).toBeUndefined()
  // A newcomer gets a share of an application that is not here any more.
  for (let n = 0; n < 20; n++) cache.keep('new', `q${n}`, POOLS, [1], done('x'.repeat(10_000)))
  for (let n = 0; n < 20; n++) expect(cache.find('new', `q${n}`, POOLS)).toBeDefined()
})

test('an answer of more than a sixteenth of all bytes is not kept, and what it would replace goes', () => {
  cache.keep('A', 'q', POOLS, [1], done('x'.repeat(MiB / 16 / 2)))
  expect(cache.stats().bytes).toBe(0)
  const many = { ...done('x'), rows: Array.from({ length: 2_000 }, () => ['x']) }
  cache.keep('A', 'q', POOLS, [1], many)
  expect(cache.find('A', 'q', POOLS)).toBeUndefined()
  cache.keep('A', 'q', POOLS, [1], done('x'))
  expect(cache.stats().bytes).toBeGreaterThan(0)
})

/** Asks as a store would, whose query meets what `during` does. The answer counts the queries. */
function asker(during = () => {}) {
  let queries = 0
  const engine = {
    dialect: duckdb,
    run: async () => {
      during()
      return done(String(++queries))
    },
  }
  const pin = async (pools: readonly { readonly schema: typeof ONE }[]) => ({
    source: undefined,
    versions: pools.map(({ schema }) => versions.get(schema.pool)),
    release: () => {},
  })
  const deps = { engine: engine as never, pin, answers: cache, onQuery: () => {} }
  return async (
    options: { by?: string; policy?: object | null; verify?: () => void; varies?: 'clock' } = {},
  ) => {
    const { by = 'A', policy = null, verify = () => {}, varies } = options
    const pools = [{ schema: ONE, policy }] as PoolsOfQuestion
    const reader = {
      applicationId: by,
      verifyAgain: verify,
      inTurn: async <T>(plan: () => T): Promise<T> => plan(),
    }
    const metric = { sum: { dataPool: { id: 'x' }, measure: { columnName: 'n' } } }
    const { query } = counter.read({ metric } as never, () => undefined as never)
    const statement = { sql: 'SELECT 1', prefix: 'p_', pools: [], parameters: [], conditions: [], varies }
    const native = { statement, poolOf: [0], bounds: [], form: 'rows', text: '' }
    const answer =
      varies === undefined
        ? await ask<CounterQuery, unknown>(counter, pools, query, reader, deps)
        : await ask(nativeSql, pools, native as never, reader, deps)
    return 'rows' in answer ? `${answer.rows[0]![0]}${answer.fromCache ? ' kept' : ''}` : answer.badRequest
  }
}

test('a question is answered by what is kept, for its application and without a policy alone', async () => {
  const first = asker()
  expect([await first(), await first(), await first({ by: 'B' })]).toEqual(['1', '1 kept', '2'])
  const policy = { columns: ['*'], rows: [], filterSql: null, values: {} }
  expect([await first({ policy }), await first({ policy })]).toEqual(['3', '4'])
  const refused = first({
    verify: () => {
      throw new Error('may not')
    },
  })
  await expect(refused).rejects.toThrow('may not')
  expect([await first({ varies: 'clock' }), await first({ varies: 'clock' })]).toEqual(['5', '6'])
  versions.set(ONE.pool, 2)
  expect([await first(), await first()]).toEqual(['7', '7 kept'])
})

test('the answer of rows that changed during the query is not kept', async () => {
  const first = asker(() => void versions.set(ONE.pool, versions.get(ONE.pool)! + 1))
  expect([await first(), await first()]).toEqual(['1', '2'])
})
