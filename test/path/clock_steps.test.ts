/**
 * The wall clock steps by hours, to 1970 and to 2100, while the server runs and from start to
 * start. No event is lost, received-at rises, jobs end, and time-outs do not notice. Tokens and
 * retention go by the wall clock, and the test says how.
 */
import { once } from 'node:events'
import { renameSync, writeFileSync } from 'node:fs'
import { type ClientRequest, request } from 'node:http'
import { join } from 'node:path'
import { tableFromIPC } from 'apache-arrow'
import { expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { addColumn } from '../jobs/add-column.ts'
import { createJob, ended } from '../jobs/rewrite-jobs.ts'
import { newSeed, someOf } from '../util/random.ts'
import { fetchToken, send, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { clockEnv } from '../util/set-clock.ts'
import { column } from './client.ts'
import { at, OFTEN, post, until } from './compaction.ts'

const HOUR_MS = 3_600_000
const aheadOf = (moment: string) => Date.parse(moment) - Date.now()
/** Each step, as ms ahead of the real clock. */
const STEPS: readonly (readonly [name: string, aheadMs: number])[] = [
  ['the right time', 0],
  ['five hours later', 5 * HOUR_MS],
  ['five hours earlier', -5 * HOUR_MS],
  ['1970', aheadOf('1970-01-01T00:00:10Z')],
  ['the right time again', 0],
  ['2100', aheadOf('2100-06-01T00:00:00Z')],
  ['the right time after 2100', 0],
]
const seed = newSeed()
/**
 * The steps from start to start, which takes seconds for each: all in the long run. CI leaves out
 * two between the first and the last.
 */
const STEPS_OF_STARTS = [
  ...STEPS.slice(0, 1),
  ...someOf(STEPS.slice(1, -1), STEPS.length - 4, seed),
  ...STEPS.slice(-1),
]
const CONNECTIONS = 16
const EACH = 3

/** A folder, its server, and the clock that both starts and steps set. */
class SteppedServer {
  readonly #folder = temporaryFolder('weir-clock-')
  readonly #file = join(this.#folder, 'ahead')
  server!: TestServer

  /** A rename: no thread reads half of it. */
  set(aheadMs: number): void {
    writeFileSync(`${this.#file}.new`, String(aheadMs))
    renameSync(`${this.#file}.new`, this.#file)
  }

  async start(): Promise<TestServer> {
    const env = { ...OFTEN, ...clockEnv({ file: this.#file }) }
    this.server = await startServer({ dataDir: join(this.#folder, 'data'), env })
    return this.server
  }

  async token(): Promise<string> {
    return await fetchToken(this.server.base, this.server.dataDir)
  }

  /** The status of a question with this token. */
  async statusOf(token: string): Promise<number> {
    const answer = await fetch(`${this.server.base}/v1/pools/rising/arrow`, {
      headers: { authorization: `Bearer ${token}` },
    })
    await answer.arrayBuffer()
    return answer.status
  }

  /** The received-at of all rows of `rising` in µs, sorted. An earlier token may be over. */
  async received(): Promise<bigint[]> {
    const answer = await fetch(`${this.server.base}/v1/pools/rising/arrow?columns=_service_received_at`, {
      headers: { authorization: `Bearer ${await this.token()}` },
    })
    const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
    const values = table.batches.flatMap(({ data }) => [...(data.children[0]!.values as BigInt64Array)])
    return values.sort((a, b) => (a < b ? -1 : 1))
  }
}

const RISING = { uniqueName: 'rising', columns: [column('id', 'STRING')], uniqueId: 'id' }
const KEYED = {
  uniqueName: 'keyed',
  columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64', true)],
  timestamp: 'at',
  uniqueId: 'id',
}

for (const how of ['while the server runs', 'from start to start, with kills'] as const)
  test(`no event is lost, received-at rises and jobs end, ${how} (seed ${seed})`, async () => {
    const isKilled = how === 'from start to start, with kills'
    const steps = isKilled ? STEPS_OF_STARTS : STEPS
    const stepped = new SteppedServer()
    stepped.set(0)
    let server = await stepped.start()
    let rising = await server.createPool(RISING)
    let keyed = await server.createPool(KEYED)
    let sent = 0
    let latest = 0n
    for (const [index, [name, aheadMs]] of steps.entries()) {
      stepped.set(aheadMs)
      if (isKilled) await server.kill()
      if (isKilled) server = await stepped.start()
      ;[rising, keyed] = [at(server, rising), at(server, keyed)]
      // Tokens are of one time: the client of the test has those of the last start.
      const own = { ...server, graphql: graphqlOf(stepped) }
      const before = sent
      const producer = async () => {
        for (let n = 0; n < EACH; n++) {
          expect((await send(rising.url, { id: 'same' })).status).toBe(200)
          sent += 1
        }
      }
      await Promise.all(Array.from({ length: CONNECTIONS }, producer))
      await post(keyed, [{ at: '2026-01-01', id: `k${index}`, n: index }])
      const received = await stepped.received()
      expect(received.length, name).toBe(sent)
      expect(new Set(received).size, name).toBe(sent)
      const later = received.filter(us => us > latest)
      expect(later.length, name).toBe(sent - before)
      latest = must(received.at(-1), 'a row')
      const set = [{ column: 'n', expression: 'n + 100' }]
      const job = await createJob(own, 'update', { dataPool: keyed.poolId, set })
      expect((await ended(own, job)).status, name).toBe('SUCCEEDED')
      await addColumn(own, keyed.poolId, `added_${index}`, 'INT64')
    }
    // Row i was there for the updates i and later.
    const sum = steps.reduce((all, _, i) => all + i + 100 * (steps.length - i), 0)
    const { data } = await graphqlOf(stepped)<{ counter: { value: string } }>(
      'query ($input: CounterInput!) { counter(input: $input) { value } }',
      { input: { metric: { sum: { dataPool: { id: keyed.poolId }, measure: { columnName: 'n' } } } } },
    )
    expect(data.counter.value).toBe(String(sum))
    expect((await server.stop()).code).toBe(0)
  })

/** GraphQL with a new token for each request: a step may end an older one. */
function graphqlOf(stepped: SteppedServer): TestServer['graphql'] {
  return async (query, variables) => {
    const answer = await fetch(`${stepped.server.base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${await stepped.token()}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
    })
    return (await answer.json()) as never
  }
}

test('tokens end by the wall clock, and one of a clock ahead is refused when the clock is right', async () => {
  const stepped = new SteppedServer()
  stepped.set(0)
  await (await stepped.start()).createPool(RISING)
  const token = await stepped.token()
  expect(await stepped.statusOf(token)).toBe(200)
  stepped.set(2 * HOUR_MS)
  await until('the clock has stepped', async () => (await stepped.statusOf(token)) === 401)
  const ahead = await stepped.token()
  expect(await stepped.statusOf(ahead)).toBe(200)
  stepped.set(0)
  await until('the clock is right', async () => (await stepped.statusOf(ahead)) === 401)
  expect(await stepped.statusOf(token)).toBe(200)
  stepped.set(aheadOf('1970-01-01T00:00:10Z'))
  await until('the clock has stepped', async () => (await stepped.statusOf(token)) === 401)
  expect(await stepped.statusOf(await stepped.token())).toBe(200)
  expect((await stepped.server.stop()).code).toBe(0)
})

test('retention goes by the wall clock: one that is ahead removes rows, one that is behind removes none', async () => {
  const stepped = new SteppedServer()
  stepped.set(0)
  const server = await stepped.start()
  const pool = await server.createPool(KEYED)
  const today = new Date().toISOString()
  await post(pool, [
    { at: today, id: 'today' },
    { at: '2126-01-01', id: 'of the future' },
  ])
  const count = async () => {
    const input = { metric: { count: { dataPool: { id: pool.poolId } } } }
    const { data } = await graphqlOf(stepped)<{ counter: { value: string } }>(
      'query ($input: CounterInput!) { counter(input: $input) { value } }',
      { input },
    )
    return data.counter.value
  }
  expect(await count()).toBe('2')
  stepped.set(aheadOf('1970-01-01T00:00:10Z'))
  const { errors } = await graphqlOf(stepped)(
    'mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename } }',
    { input: { idOrUniqueName: { id: pool.poolId }, dataRetentionInDays: 30 } },
  )
  expect(errors).toBeUndefined()
  await post(pool, [{ at: today, id: 'while it is behind' }])
  expect(await count()).toBe('3')
  stepped.set(aheadOf('2100-06-01T00:00:00Z'))
  await until('the next pass has removed the rows', async () => (await count()) === '1')
  stepped.set(0)
  await post(pool, [{ at: today, id: 'after it' }])
  expect(await count()).toBe('2')
  expect((await server.stop()).code).toBe(0)
})

test('a body that is half sent when the clock steps is no slow body', async () => {
  const stepped = new SteppedServer()
  stepped.set(0)
  const server = await stepped.start()
  const pool = await server.createPool(RISING)
  const body = JSON.stringify({ id: 'slow' })
  const begin = (): ClientRequest => {
    const sending = request(pool.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-length': body.length },
    })
    sending.write(body.slice(0, 5))
    return sending
  }
  const sending = STEPS.map(begin)
  for (const [index, [, aheadMs]] of STEPS.entries()) {
    stepped.set(aheadMs)
    // A request of its own: timers run meanwhile, and the server has the step.
    expect((await send(pool.url, { id: 'between' })).status).toBe(200)
    const one = must(sending[index], 'a request')
    one.end(body.slice(5))
    const [answer] = (await once(one, 'response')) as [{ statusCode: number; resume(): void }]
    answer.resume()
    expect(answer.statusCode).toBe(200)
  }
  const rows = String(2 * STEPS.length)
  await until('all rows are there', async () => (await server.count(pool.poolId).catch(() => '')) === rows)
  expect((await server.stop()).code).toBe(0)
})
