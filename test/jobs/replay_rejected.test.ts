/**
 * Rejected events are taken in again, over HTTP: each once, in their order, whatever kills the
 * server on the way, and whatever their requests were.
 */
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { casesOf } from '../util/random.ts'
import { createSource } from '../util/senders.ts'
import { spawnServer, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { ask, column, ended, post, replay, replayed, untilRejected } from './replays.ts'

const KEYED = { tableSettings: { orderBy: ['id'] } }
const STRICT = { columns: [column('id', 'INT64'), column('n', 'INT64', true)], ...KEYED }
const LENIENT = { ...STRICT, columns: [column('id', 'INT64'), column('n', 'INT64', true, { coerce: true })] }

test('each event is stored once, and counted once, whatever kills the server on the way', async () => {
  const events = casesOf(1_500, 100_000)
  const dataDir = `${temporaryFolder()}/data`
  let server = await startServer({ dataDir })
  const strict = await createSource(server.graphql, STRICT)
  const lenient = await createSource(server.graphql, { ...LENIENT, columns: LENIENT.columns.slice(0, 1) })
  const path = new URL(strict.url).pathname
  for (let from = 0; from < events; from += 500) {
    const body = Array.from({ length: Math.min(500, events - from) }, (_, i) => ({
      id: from + i,
      n: String(from + i),
    }))
    expect(await post(server.base + path, body)).toBe(400)
  }
  await untilRejected(server, strict, events)
  // The replay waits for the column, because jobs of a pool take turns.
  await ask(
    server.graphql,
    'mutation ($input: CreateAddColumnToDataPoolJobInput!) { createAddColumnToDataPoolJob(input: $input) { job { id } } }',
    {
      input: {
        dataPool: lenient.poolId,
        columnName: 'n',
        columnType: 'INT64',
        jsonProperty: 'n',
        coerce: true,
      },
    },
  )
  await server.stop()

  // One kill between the posts and their counts, one between the counts and the removal.
  server = await startServer({ dataDir, args: ['--crash-at', 'replay.posted:2'] })
  const id = await replay(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
  expect((await server.ended).signal).toBe('SIGKILL')
  const second = spawnServer({ dataDir, args: ['--crash-at', 'replay.counted:1'] })
  expect((await second.ended).signal).toBe('SIGKILL')
  server = await startServer({ dataDir })
  const done = await ended(server.graphql, id)
  expect(done).toMatchObject({
    status: 'SUCCEEDED',
    total: events,
    accepted: events,
    refused: 0,
    truncated: 0,
  })
  await untilRejected(server, strict, 0)
  expect(await server.count(lenient.poolId)).toBe(String(events))
  expect(await server.sum(lenient.poolId, 'n')).toBe(String(((events - 1) * events) / 2))
  await server.stop()
})

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  await server.stop()
})

test('events of one key keep their order, within a request and over several', async () => {
  const strict = await createSource(server.graphql, STRICT)
  const lenient = await createSource(server.graphql, LENIENT)
  // Twelve in one request: as texts, place 10 would come before place 2.
  const many = Array.from({ length: 12 }, (_, i) => ({ id: 1, n: String(i) }))
  expect(await post(strict.url, many)).toBe(400)
  for (let n = 0; n < 30; n++) await post(strict.url, { id: 2, n: String(n) })
  await untilRejected(server, strict, 42)
  const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
  expect(done).toMatchObject({ status: 'SUCCEEDED', accepted: 42 })
  expect(await lenient.rows(['id', 'n'])).toEqual([
    ['1', '11'],
    ['2', '29'],
  ])
})

test('whole requests come in again as the source accepts them now, all of their events or none', async () => {
  const ID = { columns: [column('id', 'STRING'), column('n', 'INT64', true)] }
  const source = await createSource(server.graphql, ID)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  expect(await post(source.url, 'id=form&n=1', form)).toBe(415)
  expect(await post(source.url, 'id=wrong', { 'content-type': 'application/xml' })).toBe(415)
  expect(await post(source.url, '[{"id":"a"},{"id":"b"}')).toBe(400)
  expect(await post(source.url, '{"id":"c"}\n{"id":', { 'content-type': 'application/x-ndjson' })).toBe(400)
  expect(await post(source.url, `"${'x'.repeat(70_000)}"`)).toBe(400)
  expect(await post(source.url, [{ id: 'good' }, { id: 'x', n: 'bad' }])).toBe(200)
  await untilRejected(server, source, 6)
  const first = await replayed(server.graphql, { dataPool: source.poolId })
  expect(first).toMatchObject({ status: 'SUCCEEDED', total: 6, accepted: 0, refused: 5, truncated: 1 })
  expect(first.firstRefusal).toMatch(/Content-Type is "application\/x-www-form-urlencoded"/)
  await ask(
    server.graphql,
    'mutation ($input: ModifyWebhookDataSourceInput!) { modifyWebhookDataSource(input: $input) { dataSource { id } } }',
    { input: { idOrUniqueName: { id: source.sourceId }, connectionSettings: { accept: ['FORM'] } } },
  )
  // A form's values are texts, so the column of a number refuses it still: another pool takes it.
  const lenient = await createSource(server.graphql, {
    columns: [column('id', 'STRING'), column('n', 'INT64', true, { coerce: true })],
    accept: ['FORM'],
  })
  const second = await replayed(server.graphql, {
    dataPool: lenient.poolId,
    rejectedBy: source.poolId,
    filterSql: "code = 'unsupported_media_type'",
  })
  expect(second).toMatchObject({ status: 'SUCCEEDED', total: 2, accepted: 1, refused: 1 })
  expect(await lenient.rows(['id', 'n'])).toEqual([['form', '1']])
  await untilRejected(server, source, 5)
  expect(await source.ids()).toEqual(['good'])
})

test('what columns read of the request comes with its events', async () => {
  const read = { ...column('shop', 'STRING'), jsonProperty: '$header.x-shop' }
  const strict = await createSource(server.graphql, { columns: [...STRICT.columns, read] })
  const lenient = await createSource(server.graphql, { columns: [...LENIENT.columns, read] })
  for (const shop of ['a', 'a', 'b', 'aü"\\b'])
    expect(
      await post(strict.url, { id: 1, n: '1' }, { 'x-shop': Buffer.from(shop).toString('latin1') }),
    ).toBe(400)
  await untilRejected(server, strict, 4)
  const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
  expect(done).toMatchObject({ accepted: 4, refused: 0 })
  expect((await lenient.rows(['shop'])).flat().sort()).toEqual(['a', 'a', 'aü"\\b', 'b'])
})

test('compressed, wrapped and all-or-nothing requests', async () => {
  const wrapped = { eventsPath: 'data' }
  const strict = await createSource(server.graphql, { ...STRICT, ...wrapped })
  const lenient = await createSource(server.graphql, { ...LENIENT, ...wrapped })
  const body = JSON.stringify({
    data: [
      { id: 1, n: '1' },
      { id: 2, n: 2 },
    ],
  })
  expect(await post(`${strict.url}?disable_partial_success=true`, body)).toBe(400)
  expect(
    await post(strict.url, gzipSync('{"data":[{"id":3,"n":"3"}]}'), { 'content-encoding': 'gzip' }),
  ).toBe(400)
  await untilRejected(server, strict, 3)
  const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
  expect(done).toMatchObject({ accepted: 3, refused: 0 })
  expect(await lenient.rows(['id', 'n'])).toEqual([
    ['1', '1'],
    ['2', '2'],
    ['3', '3'],
  ])
})

test('a wrong filter, an unknown pool, the built-in pool and other scopes are refused', async () => {
  const { poolId } = await createSource(server.graphql, STRICT)
  await expect(replay(server.graphql, { dataPool: poolId, filterSql: 'nix = 1' })).rejects.toThrow(
    /no column "nix"/,
  )
  await expect(replay(server.graphql, { dataPool: 'nix' })).rejects.toThrow(/not found/)
  await expect(replay(server.graphql, { dataPool: 'weir_rejected_events' })).rejects.toThrow(
    /no rejected events of its own/,
  )
  expect(await replayed(server.graphql, { dataPool: poolId, rejectedBy: 'DPO-gone' })).toMatchObject({
    status: 'SUCCEEDED',
    total: 0,
  })
})
