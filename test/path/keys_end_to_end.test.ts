/** Rows by key over HTTP: every type that a key may have, and long ids. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startServer, type TestServer } from '../util/server.ts'
import { column, post } from './client.ts'

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const ids = (id: string, type: string) => [column('ts', type), column('id', id), column('n', 'INT64', true)]

/** JSON texts: all of `same` are one value, `other` is a different one. */
const IDS: readonly { type: string; same: string[]; other: string }[] = [
  { type: 'BOOLEAN', same: ['true'], other: 'false' },
  { type: 'INT8', same: ['1', '1.0', '1e0'], other: '-1' },
  { type: 'INT16', same: ['1', '1.0', '10e-1'], other: '256' },
  { type: 'INT32', same: ['100', '1e2', '100.00'], other: '-2147483648' },
  { type: 'INT64', same: ['9223372036854775807'], other: '9223372036854775806' },
  { type: 'FLOAT', same: ['0', '-0', '0.0', '-0e9'], other: '1e-45' },
  { type: 'DOUBLE', same: ['1', '1.0', '1e0'], other: '1.0000000000000002' },
  { type: 'DATE', same: ['"2024-02-29"'], other: '"2024-03-01"' },
  {
    type: 'TIMESTAMP',
    same: ['"2024-01-01"', '"2024-01-01T01:00+01"', '1704067200'],
    other: '1704067200.000001',
  },
  { type: 'STRING', same: ['"a"', '"\\u0061"'], other: '"a\\u0000"' },
]
const TIMES = [
  {
    type: 'TIMESTAMP',
    same: ['"2026-01-01T00:00:00Z"', '"2026-01-01"', '1767225600000'],
    other: '"2026-01-01T00:00:00.000001Z"',
  },
  { type: 'DATE', same: ['"2026-01-01"'], other: '"2026-01-02"' },
]

describe.each(TIMES)('timestamp $type', time => {
  test.each(IDS)('id $type: post, repost, delete, post again', async id => {
    const pool = await server.createPool({
      columns: ids(id.type, time.type),
      timestamp: 'ts',
      uniqueId: 'id',
    })
    const send = async (ts: string, of: string, n: number, method = 'POST') => {
      const answer = await post(server, pool, `{"ts":${ts},"id":${of},"n":${n}}`, { method })
      expect(answer.status).toBe(200)
    }
    const look = async () => [await server.count(pool.poolId), await server.sum(pool.poolId, 'n')]
    let n = 0
    for (const ts of time.same) for (const text of id.same) await send(ts, text, ++n)
    expect(await look()).toEqual(['1', String(n)])
    await send(time.same[0]!, id.other, 1000)
    await send(time.other, id.same[0]!, 2000)
    expect(await look()).toEqual(['3', String(n + 3000)])
    await send(time.same.at(-1)!, id.same.at(-1)!, 0, 'DELETE')
    expect(await look()).toEqual(['2', '3000'])
    await send(time.same[0]!, id.same[0]!, 5)
    expect(await look()).toEqual(['3', '3005'])
    for (const [ts, of] of [
      [time.same[0]!, id.other],
      [time.other, id.same[0]!],
      [time.same[0]!, id.same[0]!],
    ] as const)
      await send(ts, of, 0, 'DELETE')
    expect(await look()).toEqual(['0', null])
  })
})

test.each([199, 200, 201, 2_000, 1_000_000])('ids of %i bytes that differ in the last byte', async bytes => {
  const pool = await server.createPool({
    columns: ids('STRING', 'TIMESTAMP'),
    timestamp: 'ts',
    uniqueId: 'id',
  })
  const start = 'k'.repeat(bytes - 1)
  const send = async (last: string, n: number, method = 'POST') => {
    const answer = await post(server, pool, { ts: '2026-01-01', id: start + last, n }, { method })
    expect(answer.status).toBe(200)
  }
  const look = async () => [await server.count(pool.poolId), await server.sum(pool.poolId, 'n')]
  await send('a', 1)
  await send('b', 20)
  expect(await look()).toEqual(['2', '21'])
  await send('a', 300)
  expect(await look()).toEqual(['2', '320'])
  await send('b', 0, 'DELETE')
  await send('c', 0, 'DELETE')
  expect(await look()).toEqual(['1', '300'])
})

test('the primary key is timestamp and id; columns of a key are required whatever nullable says', async () => {
  const columns = [column('ts', 'TIMESTAMP', true), column('id', 'STRING', true), column('n', 'INT64', true)]
  const pool = await server.createPool({ columns, timestamp: 'ts', uniqueId: 'id' })
  const good = { ts: '2026-01-01', id: 'a', n: 1 }
  const answer = await post(server, pool, [
    good,
    { ...good, ts: null },
    { ...good, id: null },
    { id: 'a' },
    { ts: good.ts },
  ])
  expect(answer.json.map((one: { statusCode: number }) => one.statusCode)).toEqual([200, 400, 400, 400, 400])
  expect(await server.count(pool.poolId)).toBe('1')
})
