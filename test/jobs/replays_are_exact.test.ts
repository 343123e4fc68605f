/**
 * A replay stores each event once and counts it once, in pools with and without a key, whatever
 * ends the server on the way. It ends, whatever the size of the events and the rate limit, and a
 * request that was all or nothing comes in whole or not at all.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { createSource } from '../util/senders.ts'
import { spawnServer, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { column, ended, post, replay, replayed, stateOf, untilRejected } from './replays.ts'

const SHOP = { ...column('shop', 'STRING'), jsonProperty: '$header.x-shop' }
const STRICT = { columns: [column('id', 'STRING'), column('n', 'INT64'), SHOP] }
/** Texts that are numbers are taken, and `x` is refused again. */
const COLUMNS = [column('id', 'STRING'), column('n', 'INT64', false, { coerce: true }), SHOP]
const POOLS = {
  'without a key': { columns: COLUMNS },
  'whose key holds received-at': { columns: COLUMNS, uniqueId: 'id' },
  'with a key': { columns: COLUMNS, tableSettings: { orderBy: ['n'] } },
}
/** Neighbours of one shop share a request of a replay. */
const SHOPS = 16
const OF_SHOP = 5
const EVENTS = SHOPS * OF_SHOP
/** The second of each shop is refused again. */
const TAKEN = SHOPS * (OF_SHOP - 1)
const SUM = Array.from({ length: EVENTS }, (_, n) => n).reduce((sum, n) => sum + (n % OF_SHOP === 1 ? 0 : n))

/** Posts EVENTS events, which a strict source refuses. */
async function postRefused(url: string): Promise<void> {
  for (let shop = 0; shop < SHOPS; shop += 1) {
    const events = Array.from({ length: OF_SHOP }, (_, n) => ({
      ...{ id: 'same', n: n === 1 ? 'x' : String(shop * OF_SHOP + n) },
    }))
    expect(await post(url, events, { 'x-shop': `shop ${shop}` })).toBe(400)
  }
}

test('each event is stored and counted once, over kills, a stop and a low rate limit', async () => {
  const dataDir = `${temporaryFolder()}/data`
  let server = await startServer({ dataDir })
  const made = await Promise.all(
    Object.values(POOLS).map(async settings => {
      const strict = await createSource(server.graphql, STRICT)
      await postRefused(strict.url)
      await untilRejected(server, strict, EVENTS)
      return { strict, pool: await createSource(server.graphql, settings), job: '' }
    }),
  )
  expect((await server.stop()).code).toBe(0)

  server = await startServer({ dataDir, args: ['--crash-at', 'replay.planned:36'] })
  const { graphql } = server
  const begin = async (one: (typeof made)[number]) => {
    one.job = await replay(graphql, { dataPool: one.pool.poolId, rejectedBy: one.strict.poolId })
  }
  await Promise.all(made.map(begin))
  expect((await server.ended).signal).toBe('SIGKILL')
  for (const point of ['replay.posted:8', 'replay.counted:1']) {
    const killed = spawnServer({ dataDir, args: ['--rate-limit', '1', '--crash-at', point] })
    expect((await killed.ended).signal, point).toBe('SIGKILL')
  }
  server = await startServer({ dataDir })
  // One job had its last page. Two of an application run at a time, so one is at its beginning.
  const accepted = async () => {
    const states = await Promise.all(made.map(({ job }) => stateOf(server.graphql, job)))
    return states.reduce((sum, state) => sum + state.accepted, 0)
  }
  const before = await accepted()
  await expect.poll(accepted, { interval: 1 }).toBeGreaterThan(before)
  // A stop waits for merges of the small segments, and may end them after ten seconds.
  await server.stop()

  server = await startServer({ dataDir, args: ['--rate-limit', '1'] })
  for (const { strict, pool, job } of made) {
    const done = await ended(server.graphql, job)
    expect(done).toMatchObject({ status: 'SUCCEEDED', total: EVENTS, accepted: TAKEN, refused: SHOPS })
    const stored = [await server.count(pool.poolId), await server.sum(pool.poolId, 'n')]
    expect(stored).toEqual([`${TAKEN}`, `${SUM}`])
    await untilRejected(server, strict, SHOPS)
  }
  // The events were paid for when they came: the next one of their sender has its rate.
  const url = server.base + new URL(made[0]!.pool.url).pathname
  expect(await post(url, { id: 'next', n: 1 }, { 'x-shop': 'a' })).toBe(200)
  expect((await server.stop()).code).toBe(0)
})

describe('all events of a request, or none', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startServer()
  })
  afterAll(async () => {
    expect((await server.stop()).code).toBe(0)
  })

  const columns = (coerce: object) => [column('id', 'STRING'), column('n', 'INT64', false, coerce)]
  const sources = async () => ({
    strict: await createSource(server.graphql, { columns: columns({}) }),
    lenient: await createSource(server.graphql, { columns: columns({ coerce: true }) }),
  })
  const WHOLE = '?disable_partial_success=true'

  test('large events: more than an answer holds, and texts that escapes make longer', async () => {
    const { strict, lenient } = await sources()
    const texts = ['x'.repeat(60_000), '\u0000'.repeat(10_000)]
    for (let request = 0; request < 15; request += 1) {
      const events = Array.from({ length: 16 }, (_, n) => ({
        id: `${request}-${n}`,
        n: '1',
        pad: texts[n % 2],
      }))
      expect(await post(strict.url, events)).toBe(400)
    }
    await untilRejected(server, strict, 240)
    const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
    expect(done).toMatchObject({ status: 'SUCCEEDED', total: 240, accepted: 240, refused: 0 })
    expect(await server.count(lenient.poolId)).toBe('240')
  })

  test('one that is still invalid keeps out its request, and no other one', async () => {
    const { strict, lenient } = await sources()
    const one = (id: string, n: unknown) => ({ id, n })
    expect(await post(strict.url, [one('before', '1')])).toBe(400)
    expect(await post(strict.url + WHOLE, [one('a', '1'), one('b', 'x'), one('c', 3)])).toBe(400)
    expect(await post(strict.url + WHOLE, [one('d', '1'), one('e', 'x')])).toBe(400)
    expect(await post(strict.url + WHOLE, [one('f', '1'), one('g', 2)])).toBe(400)
    expect(await post(strict.url, [one('after', '1'), one('not', 'x')])).toBe(400)
    await untilRejected(server, strict, 10)
    const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
    expect(done).toMatchObject({ status: 'SUCCEEDED', total: 10, accepted: 4, refused: 6 })
    expect(await lenient.ids()).toEqual(['after', 'before', 'f', 'g'])
    await untilRejected(server, strict, 6)
  })

  test('a condition that leaves out a part of it leaves out all, and says so', async () => {
    const { strict, lenient } = await sources()
    expect(
      await post(strict.url + WHOLE, [
        { id: 'a', n: '1' },
        { id: 'b', n: 2 },
      ]),
    ).toBe(400)
    expect(await post(strict.url + WHOLE, { id: 'c', n: '1' })).toBe(400)
    await untilRejected(server, strict, 3)
    const input = { dataPool: lenient.poolId, rejectedBy: strict.poolId }
    const part = await replayed(server.graphql, { ...input, filterSql: "code = 'wrong_type'" })
    expect(part).toMatchObject({ status: 'SUCCEEDED', total: 2, accepted: 1, refused: 1 })
    expect(part.firstRefusal).toMatch(/all or none/)
    expect(await lenient.ids()).toEqual(['c'])
    expect(await replayed(server.graphql, input)).toMatchObject({ total: 2, accepted: 2 })
  })

  test('a request over several pages, and one with a text that was cut', async () => {
    const { strict, lenient } = await sources()
    const pad = '"'.repeat(900)
    const events = (count: number, more = {}) =>
      Array.from({ length: count }, (_, n) => ({ id: `${count}-${n}`, n: `${n}`, pad, ...more }))
    for (const count of [300, 400, 500])
      expect(await post(strict.url + WHOLE, [...events(count - 1), { id: `${count}`, n: 7 }])).toBe(400)
    expect(await post(strict.url, events(13))).toBe(400)
    const cut = { id: 'cut', n: 1, pad: 'x'.repeat(70_000) }
    expect(await post(strict.url + WHOLE, [...events(450), cut])).toBe(400)
    expect(await post(strict.url + WHOLE, [...events(444), { id: 'bad', n: 'x' }])).toBe(400)
    await untilRejected(server, strict, 300 + 400 + 500 + 13 + 451 + 445)
    const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
    expect(done).toMatchObject({ status: 'SUCCEEDED', accepted: 1213, refused: 451 + 445, truncated: 0 })
    expect(await server.count(lenient.poolId)).toBe('1213')
  })

  test('the largest request, of which each event has the largest head', async () => {
    const big = { ...column('big', 'STRING', true), jsonProperty: '$header.x-big' }
    const source = (coerce: object) => createSource(server.graphql, { columns: [...columns(coerce), big] })
    const [strict, lenient] = [await source({}), await source({ coerce: true })]
    const pad = 'é'.repeat(1_000)
    const body = JSON.stringify(Array.from({ length: 500 }, (_, n) => ({ id: `${n}`, n: '1', pad })))
    const head = { 'x-big': 'b'.repeat(4_070) }
    // The head counts as a part of the body.
    const fill = ' '.repeat(BODY_BYTES_MAX - 4_096 - Buffer.byteLength(body))
    expect(await post(strict.url + WHOLE, body + fill, head)).toBe(400)
    await untilRejected(server, strict, 500)
    const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
    expect(done).toMatchObject({ status: 'SUCCEEDED', accepted: 500 })
  })

  test('W-9: pages are as large as before again behind large events', async () => {
    const { strict, lenient } = await sources()
    const events = (count: number, pad: string) => Array.from({ length: count }, () => ({ n: '1', pad }))
    for (let request = 0; request < 12; request += 1)
      expect(await post(strict.url, events(16, 'x'.repeat(60_000)))).toBe(400)
    const [pages, rows] = [12, 12 * 16 + 12 * 500]
    for (let page = 0; page < pages; page += 1) expect(await post(strict.url, events(500, ''))).toBe(400)
    await untilRejected(server, strict, rows)
    const asked = async () => {
      const page = await (await fetch(`${server.base}/metrics`)).text()
      return Number(/^weir_query_seconds_count (\d+)$/m.exec(page)?.[1])
    }
    const before = await asked()
    const done = await replayed(server.graphql, { dataPool: lenient.poolId, rejectedBy: strict.poolId })
    expect(done).toMatchObject({ status: 'SUCCEEDED', total: rows, refused: rows })
    // Pages of 125 rows, the size which the large events leave, would be 48 for the others.
    expect((await asked()) - before).toBeLessThan(2.5 * pages)
  })
})
