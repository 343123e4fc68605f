/** The statistics of a dimension, as its resolver gives them. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Budget, type Context } from '../../../src/api/graphql/context.ts'
import type { DimensionOfPool } from '../../../src/api/graphql/parents.ts'
import { statisticsOf } from '../../../src/api/graphql/resolve-question.ts'
import type { Scope } from '../../../src/catalog/documents/model.ts'
import type { Answered } from '../../../src/query/ask.ts'
import type { Askable } from '../../../src/query/plan/question.ts'
import { columnRange, columnValues } from '../../../src/query/plan/statistics.ts'
import { COUNTED, makeServer, type TestServer } from './server.ts'

let server: TestServer
let asked: Askable[]
beforeEach(async () => {
  server = await makeServer()
  asked = []
})
afterEach(() => server.stop())

function contextOf(scope: Scope, rows: Answered['rows']): Context {
  return {
    deps: {
      catalog: server.catalog,
      query: {
        ask: async (question: Askable) => {
          asked.push(question)
          return { ...COUNTED, rows }
        },
      },
    },
    caller: { applicationId: 'app', scopes: new Set([scope]), verifyAgain: () => undefined },
    budget: new Budget(() => 1),
    slices: { step: async () => undefined },
    held: { rows: () => undefined, during: <T>(work: Promise<T>) => work },
  } as unknown as Context
}

function statistics(scope: Scope, rows: Answered['rows']) {
  const dimension = {
    pool: server.catalog.read.pools.byName('events')!,
    metric: {},
    column: { columnName: 'a' },
  }
  return statisticsOf(dimension as unknown as DimensionOfPool, contextOf(scope, rows))
}

test('one query answers minimum, maximum and average, when they are asked for', async () => {
  const all = statistics('metric:stats', [['1', '9', '4.5']])
  expect(asked).toEqual([])
  expect((await Promise.all([all.range(), all.range()])).map(({ rows }) => rows)).toEqual(
    Array(2).fill([['1', '9', '4.5']]),
  )
  expect(asked).toEqual([columnRange])
})

test('unique values have a limit, and there are none if there are too many', async () => {
  const three = statistics('data_pool:query', [['a'], ['b'], ['c']])
  expect(await three.uniqueValues(null)).toEqual(['a', 'b', 'c'])
  expect(await three.uniqueValues(2)).toEqual(['a', 'b'])
  await expect(three.uniqueValues(0)).rejects.toThrow(/limit/)
  expect(asked).toEqual([columnValues, columnValues])
  const many = statistics('data_pool:query', Array(1_001).fill(['x']))
  expect(await many.uniqueValues(5)).toEqual([])
})

test('need a scope', () => {
  for (const scope of ['admin', 'metric:read', 'data_pool:read'] as const)
    expect(() => statistics(scope, [])).toThrow(/lacks the "metric:query" scope/)
  expect(() => statistics('metric:query', [])).not.toThrow()
})
