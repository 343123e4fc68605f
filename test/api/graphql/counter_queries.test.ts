import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { deletePool } from '../../../src/catalog/change/change-pool.ts'
import { createWebhookSource } from '../../../src/catalog/change/change-source.ts'
import { keys } from '../../../src/catalog/documents/memory.ts'
import type { CounterQuery } from '../../../src/query/plan/counter.ts'
import { must, SegmentDamaged, Unavailable } from '../../../src/util/errors.ts'
import { UI_KIT } from './documents.ts'
import { COUNTED, makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeEach(async () => {
  server = await makeServer()
})
afterEach(() => server.stop())

const COUNT = { count: { dataPool: { name: 'events' } } }

function counter(counterInput: object, scope?: readonly ['admin'] | readonly ['data_pool:query']) {
  return server.ask(UI_KIT.counter, { counterInput }, scope === undefined ? {} : { scope })
}

async function refused(counterInput: object, message: RegExp, code = 'BAD_REQUEST'): Promise<void> {
  const { status, errors } = await counter(counterInput)
  expect([status, errors?.[0]?.extensions.code]).toEqual([200, code])
  expect(errors?.[0]?.message).toMatch(message)
  expect(server.asked).toEqual([])
}

describe('a counter', () => {
  test('reaches the query stage as given, and its value is answered', async () => {
    const filters = [
      {
        column: 'constructor',
        operator: 'IS_NOT_NULL',
        value: '',
        or: [{ column: 'a', operator: 'EQUALS', value: '1' }],
      },
    ]
    const timeRange = { relative: 'LAST_N_DAYS', n: 30, start: '0001-01-01T00:00:00Z', stop: '2024-08-01' }
    const { data } = await counter({
      metric: COUNT,
      timeRange,
      timeZone: 'Europe/Berlin',
      filters,
      filterSql: null,
    })
    expect(data).toEqual({ counter: { value: '42' } })
    const [asked] = server.asked
    expect(asked?.applicationId).toBe('app')
    expect(asked?.pool.uniqueName).toBe('events')
    expect(asked?.query).toEqual({
      metric: { kind: 'count' },
      own: undefined,
      timeRange,
      timeZone: 'Europe/Berlin',
      filters,
      filterSql: null,
    })
  })

  test('has one info, by whatever names and however often a document asks for it', async () => {
    const { data } = await server.ask(
      'query ($i: CounterInput!) { counter(input: $i) { a: query { id } b: query { id } value } }',
      { i: { metric: COUNT } },
    )
    expect(data.counter.a.id).toMatch(/^QRY/)
    expect(data.counter.b).toEqual(data.counter.a)
  })

  test('tolerates null siblings, and finds the pool by id or by a name that is an id', async () => {
    const id = server.catalog.read.pools.byName('events')?.id
    for (const dataPool of [{ id, name: null }, { id: null, name: 'events' }, { name: id }]) {
      const metric = {
        id: null,
        name: null,
        count: null,
        sum: { dataPool, measure: { columnName: '__proto__' } },
      }
      expect((await counter({ metricId: null, metricName: null, metric })).errors).toBeUndefined()
    }
    expect(server.asked.map(({ query }) => (query as CounterQuery).metric)).toEqual(
      Array(3).fill({ kind: 'sum', column: '__proto__' }),
    )
  })

  test('asks the pool whose id a name is, whatever another pool is called', async () => {
    const id = server.catalog.read.pools.byName('events')?.id ?? ''
    // The catalog refuses such a name; whoever gets one in all the same does not get another pool's
    // queries.
    expect(await server.catalog.change(createWebhookSource({ uniqueName: id }, 'app'))).toHaveProperty(
      'badRequest',
    )
    await server.catalog.change(createWebhookSource({ uniqueName: 'other' }, 'app'))
    const other = must(server.catalog.read.pools.byName('other'), 'the other pool')
    await server.catalog.put([[keys.pool(other.id), { ...other, uniqueName: id }]])
    for (const dataPool of [{ name: id }, { id }])
      expect((await counter({ metric: { count: { dataPool } } })).errors).toBeUndefined()
    expect(server.asked.map(({ pool }) => pool.id)).toEqual([id, id])
  })

  test('describes the query in all fields', async () => {
    const { data, errors } = await server.ask(
      `query ($input: CounterInput!) { counter(input: $input) { query { id createdAt createdBy modifiedAt modifiedBy
        bytesProcessed durationInMilliseconds recordsProcessed resultingBytes resultingRecords booster { id }
        propeller status type subtype sql } } }`,
      { input: { metric: COUNT } },
    )
    expect(errors).toBeUndefined()
    expect(data.counter.query).toEqual({
      id: expect.stringMatching(/^QRY/),
      createdAt: expect.stringMatching(/Z$/),
      createdBy: 'app',
      modifiedAt: expect.stringMatching(/Z$/),
      modifiedBy: 'app',
      bytesProcessed: '99',
      durationInMilliseconds: 2,
      recordsProcessed: '7',
      resultingBytes: 2,
      resultingRecords: 1,
      booster: null,
      propeller: server.catalog.application('app')?.propeller,
      status: 'COMPLETED',
      type: 'METRIC',
      subtype: 'COUNTER',
      sql: 'SELECT 1',
    })
  })

  test('may have the value null', async () => {
    server.answer = async () => ({
      ...COUNTED,
      rows: [[null]],
      answer: { value: null },
    })
    expect((await counter({ metric: COUNT })).data).toEqual({ counter: { value: null } })
  })

  test('is answered beside one that fails', async () => {
    const { data, errors } = await server.ask(
      `{ a: counter(input: {metric: {count: {dataPool: {name: "events"}}}}) { value }
         b: counter(input: {metric: {count: {dataPool: {name: "nope"}}}}) { value } }`,
    )
    expect(data).toEqual({ a: { value: '42' }, b: null })
    expect(errors).toMatchObject([
      { message: 'Data Pool not found', path: ['b'], extensions: { code: 'NOT_FOUND' } },
    ])
  })
})

describe('a refused counter', () => {
  const dataPool = { name: 'events' }
  const measure = { columnName: 'a' }

  test('does not name exactly one metric', async () => {
    await refused({}, /exactly one/)
    await refused({ metric: COUNT, metricName: 'm' }, /exactly one/)
    await refused({ metric: {} }, /exactly one form/)
    await refused({ metric: { ...COUNT, sum: { dataPool, measure } } }, /exactly one form/)
  })

  test('names a metric that does not exist', async () => {
    for (const input of [
      { metricName: 'm' },
      { metricName: '__proto__' },
      { metricId: 'MET1' },
      { metric: { id: 'MET1' } },
      { metric: { name: 'constructor' } },
    ])
      await refused(input, /^Metric not found$/, 'NOT_FOUND')
  })

  test('does not name exactly one existing pool', async () => {
    await refused({ metric: { count: { dataPool: {} } } }, /exactly one of "id" and "name"/)
    await refused(
      { metric: { count: { dataPool: { id: 'a', name: 'b' } } } },
      /exactly one of "id" and "name"/,
    )
    await refused(
      { metric: { count: { dataPool: { id: 'constructor' } } } },
      /^Data Pool not found$/,
      'NOT_FOUND',
    )
  })

  test('has input of the wrong form', async () => {
    await refused({ metric: COUNT, timeRange: { relative: 'today' } }, /RelativeTimeRange/)
    await refused({ metric: COUNT, timeRange: { start: 'yesterday' } }, /DateTime/)
    await refused({ metric: COUNT, timeRange: { start: 5 } }, /DateTime/)
    await refused({ metric: COUNT, nope: 1 }, /nope/)
  })

  test('lacks data_pool:query, and the message has the documented words', async () => {
    const id = server.catalog.read.pools.byName('events')?.id
    // The pool is named as it was asked for: the id behind a name would say that it is there.
    for (const [dataPool, shown] of [
      [{ id }, id],
      [{ name: 'events' }, 'events'],
      [{ name: 'absent' }, 'absent'],
    ] as const) {
      const { status, errors } = await counter({ metric: { count: { dataPool } } }, ['admin'])
      expect([status, errors?.[0]?.extensions.code]).toEqual([200, 'FORBIDDEN'])
      expect(errors?.[0]?.message).toBe(
        `Application app is not allowed to query Data Pool ${shown}, because it lacks the "data-pool:query" scope`,
      )
    }
  })

  test('asks a pool with access control, which has no policies yet', async () => {
    await server.catalog.change(
      createWebhookSource({ uniqueName: 'closed', accessControlEnabled: true }, 'app'),
    )
    await refused({ metric: { count: { dataPool: { name: 'closed' } } } }, /access control/, 'FORBIDDEN')
  })
})

describe('an error of the query stage', () => {
  async function check(message: RegExp, code: string): Promise<void> {
    const { status, errors } = await counter({ metric: COUNT })
    expect([status, errors?.[0]?.extensions]).toEqual([200, { code }])
    expect(errors?.[0]?.message).toMatch(message)
  }

  test('becomes a code of the API', async () => {
    server.answer = async () => ({ badRequest: 'no such column' })
    await check(/^no such column$/, 'BAD_REQUEST')
    server.answer = () => Promise.reject(new Unavailable('queue_full', 'too many queries'))
    await check(/^too many queries$/, 'UNAVAILABLE')
    server.answer = () => Promise.reject(new SegmentDamaged('0000000001.parquet', 'gone'))
    await check(/0000000001\.parquet/, 'SEGMENT_DAMAGED')
    server.answer = () => Promise.reject(new Error('secret detail'))
    await check(/^Internal error$/, 'INTERNAL')
    server.answer = async () => {
      await server.catalog.change(deletePool({ uniqueName: 'events' }))
      throw new Unavailable('gone', 'pool 1 is gone')
    }
    await check(/^Data Pool not found$/, 'NOT_FOUND')
  })
})
