/**
 * Table settings over HTTP: which columns name a record, which event of a record wins, and which
 * settings are refused.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, expectProblem, post } from './client.ts'

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

type Settings = Readonly<Record<string, unknown>>

/** A pool with a column of each type, and `n`, which tells its events apart. */
const ALL = [
  column('s', 'STRING', true),
  column('b', 'BOOLEAN', true),
  column('f', 'FLOAT', true),
  column('d', 'DOUBLE', true),
  column('i8', 'INT8', true),
  column('i16', 'INT16', true),
  column('i32', 'INT32', true),
  column('i64', 'INT64', true),
  column('day', 'DATE', true),
  column('ts', 'TIMESTAMP', true),
  column('deep', 'STRING', true, 'a.b'),
  column('j', 'JSON', true),
  column('n', 'INT64', true),
]

const EVENT = {
  s: 'x'.repeat(200),
  b: true,
  f: 0.5,
  d: -1e300,
  i8: -128,
  i16: 1,
  i32: 2,
  i64: 3,
  day: '2026-01-01',
  ts: '2026-01-01T00:00:00.000001Z',
  a: { b: 'é'.repeat(200) },
  j: {},
}

const make = (tableSettings: Settings, more: Readonly<Record<string, unknown>> = {}) =>
  server.createPool({ columns: ALL, tableSettings, ...more })

const send = (pool: TestPool, body: unknown, method = 'POST') => post(server, pool, body, { method })

/** The count, and the sum of n. */
const look = async ({ poolId }: TestPool) => [await server.count(poolId), await server.sum(poolId, 'n')]

describe('orderBy', () => {
  test('names the record by up to eight columns of any type but JSON', async () => {
    const orderBy = ['s', 'deep', 'b', 'f', 'i8', 'i64', 'day', 'ts']
    const pool = await make({ orderBy })
    expect(
      (
        await send(pool, [
          { ...EVENT, n: 1 },
          { ...EVENT, n: 2 },
        ])
      ).status,
    ).toBe(200)
    expect(await look(pool)).toEqual(['1', '2'])
    const others = [{ s: 'y' }, { a: { b: 'ä' } }, { b: false }, { f: 1 }, { i8: 1 }, { i64: 1 }]
    const more = [...others, { day: '2026-01-02' }, { ts: '2026-01-01' }]
    for (const other of more) expect((await send(pool, { ...EVENT, ...other, n: 10 })).status).toBe(200)
    expect(await look(pool)).toEqual(['9', '82'])
    expect((await send(pool, { ...EVENT, n: 3 })).status).toBe(200)
    expect(await look(pool)).toEqual(['9', '83'])
    expect((await send(pool, { ...EVENT, d: 'ignored' }, 'DELETE')).status).toBe(200)
    expect(await look(pool)).toEqual(['8', '80'])
  })

  test('makes its columns required, in posts and deletes', async () => {
    const pool = await make({ orderBy: ['deep', 'i8'] }, { uniqueId: 's' })
    for (const method of ['POST', 'DELETE']) {
      const answer = await send(
        pool,
        [
          { i8: 1, s: 'a' },
          { a: { b: 'x' }, i8: null, s: 'a' },
        ],
        method,
      )
      expect(answer.status, method).toBe(400)
      expect(answer.json.events.map(({ column: name }: { column: string }) => name)).toEqual(['deep', 'i8'])
    }
    expect((await send(pool, { a: { b: 'x' }, i8: 1, s: 'a', n: 1 })).status).toBe(200)
    expect((await send(pool, { a: { b: 'x' }, i8: 1, s: 'b', n: 2 })).status).toBe(200)
    expect(await look(pool)).toEqual(['1', '2'])
    // A DELETE needs the columns of the key, not the unique id.
    expect((await send(pool, { a: { b: 'x' }, i8: 1 }, 'DELETE')).status).toBe(200)
    expect(await look(pool)).toEqual(['0', null])
  })

  test('may name the time of arrival', async () => {
    const pool = await make({ orderBy: ['i8', '_service_received_at'] })
    for (const n of [1, 2]) expect((await send(pool, { i8: 1, n })).status).toBe(200)
    expect(await look(pool)).toEqual(['2', '3'])
  })
})

describe('ReplacingMergeTree(ver)', () => {
  const RISING: Readonly<Record<string, readonly [unknown, unknown, unknown]>> = {
    f: [-3.5, 0, 1e-45],
    d: [-1e300, -5e-324, 0],
    i8: [-128, -1, 0],
    i16: [-129, 0, 300],
    i32: [-(2 ** 31), -1, 2 ** 31 - 1],
    i64: [-(2 ** 53) + 1, 0, 2 ** 53 - 1],
    day: ['0001-01-01', '1969-12-31', '9999-12-31'],
    ts: ['0001-01-01', '1969-12-31T23:59:59.999999Z', '1970-01-01'],
  }

  test.each(Object.keys(RISING))('the highest %s wins, whenever it comes', async ver => {
    const pool = await make({ engine: { replacingMergeTree: { ver } }, orderBy: ['s'] })
    const [low, middle, high] = RISING[ver]!
    const at = async (version: unknown, n: number, wanted: string) => {
      expect((await send(pool, { s: 'a', [ver]: version, n })).json).toMatchObject([{ statusCode: 200 }])
      expect(await look(pool)).toEqual(['1', wanted])
    }
    await at(middle, 1, '1')
    await at(low, 2, '1')
    await at(high, 3, '3')
    await at(high, 4, '4')
    await at(middle, 5, '4')
    const batch = [low, high, middle, high, low].map((version, i) => ({ s: 'b', [ver]: version, n: 10 + i }))
    expect((await send(pool, batch)).status).toBe(200)
    expect(await look(pool)).toEqual(['2', '17'])
    expect((await send(pool, { s: 'a' }, 'DELETE')).status).toBe(200)
    expect(await look(pool)).toEqual(['1', '13'])
    expect((await send(pool, { s: 'a', [ver]: low, n: 6 })).status).toBe(200)
    expect(await look(pool)).toEqual(['2', '19'])
  })

  test('is required in every event', async () => {
    const pool = await make({ engine: { replacingMergeTree: { ver: 'i32' } } }, { uniqueId: 's' })
    const answer = await send(pool, [{ s: 'a' }, { s: 'a', i32: null }, { s: 'a', i32: 1 }])
    expect(answer.json.map(({ statusCode }: { statusCode: number }) => statusCode)).toEqual([400, 400, 200])
    expect(answer.json[0].statusMessage).toContain('i32')
  })

  test('decides among the events of the default key where orderBy is not given', async () => {
    const pool = await make(
      { engine: { replacingMergeTree: { ver: 'i32' } } },
      { timestamp: 'ts', uniqueId: 's' },
    )
    const ts = '2026-01-01'
    for (const [i32, n] of [
      [5, 1],
      [4, 2],
      [5, 3],
    ])
      expect((await send(pool, { s: 'a', ts, i32, n })).status).toBe(200)
    expect(await look(pool)).toEqual(['1', '3'])
  })

  test('keeps rows for ever where the highest version could expire before a lower one', async () => {
    const keep = async (pool: TestPool, dataRetentionInDays: number) =>
      server.graphql(
        `mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { ... on DataPoolResponse { dataPool { dataRetentionInDays } } } }`,
        { input: { idOrUniqueName: { id: pool.poolId }, dataRetentionInDays } },
      )
    const engine = { replacingMergeTree: { ver: 'i32' } }
    const pool = await make({ engine, orderBy: ['s'] }, { timestamp: 'ts' })
    const refused = await keep(pool, 30)
    expect(refused.errors?.[0]).toMatchObject({ extensions: { code: 'BAD_REQUEST' } })
    expect(refused.errors?.[0]?.message).toMatch(/version column.*"ts"/)
    expect((await keep(pool, 0)).errors).toBeUndefined()
    const byTime = { engine: { replacingMergeTree: { ver: 'ts' } }, orderBy: ['s'] }
    for (const settings of [{ engine, orderBy: ['s', 'ts'] }, byTime, { orderBy: ['s'] }])
      expect((await keep(await make(settings, { timestamp: 'ts' }), 30)).errors).toBeUndefined()
  })
})

test('MergeTree makes every event its own record, and nothing can be deleted', async () => {
  const pool = await make(
    { engine: { mergeTree: { type: 'MERGE_TREE' } }, orderBy: ['s'] },
    { timestamp: 'ts', uniqueId: 's' },
  )
  for (const n of [1, 2]) expect((await send(pool, { ...EVENT, n })).status).toBe(200)
  expect(await look(pool)).toEqual(['2', '3'])
  expectProblem(await send(pool, EVENT, 'DELETE'), 400, 'no_unique_id')
})

test.each<[settings: Settings, sentence: RegExp]>([
  [{ orderBy: ['nobody'] }, /"nobody".*no column/],
  [{ orderBy: ['toDate(ts)'] }, /"toDate\(ts\)".*no column.*Expressions/],
  [{ orderBy: ['j'] }, /"j".*JSON/],
  [{ orderBy: ['s', 'ts', 's'] }, /"s" twice/],
  [{ orderBy: ['_service_payload'] }, /"_service_payload"/],
  [{ orderBy: ['s', 'b', 'f', 'd', 'i8', 'i16', 'i32', 'i64', 'day'] }, /9 columns.*at most 8/],
  [{ engine: { replacingMergeTree: { ver: 'nobody' } }, orderBy: ['s'] }, /"nobody".*no column/],
  [{ engine: { replacingMergeTree: { ver: 's' } }, orderBy: ['i8'] }, /"s" is of type STRING/],
  [{ engine: { replacingMergeTree: { ver: 'b' } }, orderBy: ['s'] }, /"b" is of type BOOLEAN/],
  [{ engine: { replacingMergeTree: { ver: 'j' } }, orderBy: ['s'] }, /"j" is of type JSON/],
  [{ engine: { replacingMergeTree: { ver: 'i8' } } }, /"i8" needs a key/],
  [{ engine: { summingMergeTree: { columns: ['n'] } } }, /SUMMING_MERGE_TREE is not served/],
  [{ engine: { aggregatingMergeTree: {} } }, /AGGREGATING_MERGE_TREE is not served/],
  [{ engine: { postgreSql: {} } }, /POSTGRESQL is not served/],
  [{ ttl: 'ts + INTERVAL 1 DAY' }, /ttl is not served.*dataRetentionInDays/],
])('%j is refused', async (settings, sentence) => {
  await expect(make(settings)).rejects.toThrow(sentence)
})
