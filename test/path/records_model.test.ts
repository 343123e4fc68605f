/**
 * Random posts, deletes, queries and restarts against a plain Map: whatever the order, what a reader sees is the Map.
 * A failure prints fast-check's seed and path; WEIR_TEST_SEED repeats a run.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, pathOf, post } from './client.ts'

const SEED = Number(process.env['WEIR_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
/** Sequences that run at once, each on its own pool. */
const LANES = 5
const IDS = ['a', 'b', 'c', 'd', 'é', '']
const DAYS = ['2026-01-01', '2026-01-02', '2026-02-01']
const columns = [column('ts', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64', true)]

interface Event {
  readonly ts: string
  readonly id: string
  readonly n: number | null | 'wrong'
}

/** Live records by key. */
interface Model {
  readonly rows: Map<string, Event>
  last: readonly Event[]
}

/** The server, replaced by each restart. */
interface Real {
  readonly host: Host
  readonly pool: TestPool
}

interface Host {
  server: TestServer
  readonly args: readonly string[]
  restarts: number
}

const keyOf = ({ ts, id }: Event) => `${ts} ${id}`
const isValid = ({ n }: Event) => n !== 'wrong'

class Post implements fc.AsyncCommand<Model, Real> {
  readonly events: readonly Event[]
  constructor(events: readonly Event[]) {
    this.events = events
  }
  check = () => true
  async run(model: Model, real: Real): Promise<void> {
    model.last = this.events
    await postAll(this.events, model, real)
  }
  toString = () => `post ${JSON.stringify(this.events)}`
}

/** A client's retry: the same body again. */
class Repost implements fc.AsyncCommand<Model, Real> {
  check = (model: Readonly<Model>) => model.last.length > 0
  run = (model: Model, real: Real) => postAll(model.last, model, real)
  toString = () => 'repost'
}

async function postAll(events: readonly Event[], model: Model, { host, pool }: Real): Promise<void> {
  const valid = events.filter(isValid)
  const answer = await post(host.server, pool, events)
  expect(answer.status).toBe(valid.length > 0 ? 200 : 400)
  expect(answer.headers['x-events-accepted']).toBe(String(valid.length))
  for (const event of valid) model.rows.set(keyOf(event), event)
}

class Delete implements fc.AsyncCommand<Model, Real> {
  readonly events: readonly Event[]
  constructor(events: readonly Event[]) {
    this.events = events
  }
  check = () => true
  async run(model: Model, { host, pool }: Real): Promise<void> {
    const answer = await post(host.server, pool, this.events, { method: 'DELETE' })
    expect(answer.status).toBe(200)
    for (const event of this.events) model.rows.delete(keyOf(event))
  }
  toString = () => `delete ${JSON.stringify(this.events)}`
}

/** A reader asks: everything before is sealed. */
class Count implements fc.AsyncCommand<Model, Real> {
  check = () => true
  async run(model: Model, { host, pool }: Real): Promise<void> {
    expect(await host.server.count(pool.poolId)).toBe(String(model.rows.size))
  }
  toString = () => 'count'
}

class Narrow implements fc.AsyncCommand<Model, Real> {
  readonly id: string
  readonly from: number
  constructor(id: string, from: number) {
    this.id = id
    this.from = from
  }
  check = () => true
  async run(model: Model, { host, pool }: Real): Promise<void> {
    const filters = [{ column: 'id', operator: 'NOT_EQUALS', value: this.id }]
    const timeRange = { start: `${DAYS[this.from]}T00:00:00Z`, stop: '2026-03-01T00:00:00Z' }
    const seen = [...model.rows.values()].filter(row => row.id !== this.id && row.ts >= DAYS[this.from]!)
    expect(await host.server.sum(pool.poolId, 'n', { filters, timeRange })).toBe(sumOf(seen))
    expect(await host.server.count(pool.poolId, { filters, timeRange })).toBe(String(seen.length))
  }
  toString = () => `sum and count where id <> ${JSON.stringify(this.id)} from ${DAYS[this.from]}`
}

class Restart implements fc.AsyncCommand<Model, Real> {
  readonly how: 'stop' | 'kill'
  constructor(how: 'stop' | 'kill') {
    this.how = how
  }
  check = () => true
  async run(_: Model, { host }: Real): Promise<void> {
    const { dataDir } = host.server
    const end = await host.server[this.how]()
    if (this.how === 'stop') expect([end.code, end.output]).toEqual([0, expect.any(String)])
    host.server = await startServer({ dataDir, args: host.args })
    if (this.how === 'stop') expect(host.server.output()).not.toContain('replayed')
    host.restarts++
  }
  toString = () => (this.how === 'stop' ? 'SIGTERM and start' : 'SIGKILL and start')
}

/** null where nothing is to be summed, as SQL has it. */
function sumOf(rows: readonly Event[]): string | null {
  const values = rows.map(row => row.n).filter(n => typeof n === 'number')
  return values.length === 0 ? null : String(values.reduce((sum, n) => sum + BigInt(n), 0n))
}

/** All of it: count, sum, and each key's row by itself. */
async function compare(model: Model, { host, pool }: Real): Promise<void> {
  const { server } = host
  expect(await server.count(pool.poolId)).toBe(String(model.rows.size))
  expect(await server.sum(pool.poolId, 'n')).toBe(sumOf([...model.rows.values()]))
  const aliases: string[] = []
  const expected: Record<string, { value: string | null }> = {}
  for (const [index, row] of [...model.rows.values()].entries()) {
    const one = { column: 'id', operator: 'EQUALS', value: row.id }
    const { n } = row
    const own = n === null ? { operator: 'IS_NULL' } : { operator: 'EQUALS', value: String(n) }
    const filters = [one, { column: 'ts', operator: 'EQUALS', value: row.ts }, { column: 'n', ...own }]
    aliases.push(`k${index}: counter(input: { metric: { count: { dataPool: { id: "${pool.poolId}" } } },
      filters: [${filters.map(asGraphql).join()}] }) { value }`)
    expected[`k${index}`] = { value: '1' }
  }
  if (aliases.length === 0) return
  const { data, errors } = await server.graphql(`{ ${aliases.join('\n')} }`)
  expect(errors).toBeUndefined()
  expect(data).toEqual(expected)
}

function asGraphql(filter: { column: string; operator: string; value?: string }): string {
  const value = filter.value === undefined ? '' : `, value: ${JSON.stringify(filter.value)}`
  return `{ column: "${filter.column}", operator: ${filter.operator}${value} }`
}

const anyKey = { ts: fc.constantFrom(...DAYS), id: fc.constantFrom(...IDS) }
const anyNumber = fc.integer({ min: -(2 ** 53) + 1, max: 2 ** 53 - 1 })
const anyEvent: fc.Arbitrary<Event> = fc.record({
  ...anyKey,
  n: fc.oneof(
    { arbitrary: anyNumber, weight: 8 },
    { arbitrary: fc.constant(null), weight: 1 },
    { arbitrary: fc.constant('wrong' as const), weight: 1 },
  ),
})
const anyPost = fc.array(anyEvent, { minLength: 1, maxLength: 20 }).map(events => new Post(events))
const anyDelete = fc
  .array(fc.record({ ...anyKey, n: fc.constant(null) }), { minLength: 1, maxLength: 6 })
  .map(events => new Delete(events))
const changes = [anyPost, anyPost, fc.constant(new Repost()), anyDelete]
const reads = [
  fc.constant(new Count()),
  fc
    .tuple(fc.constantFrom(...IDS), fc.nat({ max: DAYS.length - 1 }))
    .map(([id, from]) => new Narrow(id, from)),
]
const restarts = [fc.constant(new Restart('stop')), fc.constant(new Restart('kill'))]

describe.each([
  { kernel: 'native', calm: 200, restarting: 3 },
  { kernel: 'js', calm: 10, restarting: 0 },
])('kernel $kernel', ({ kernel, calm, restarting }) => {
  let host: Host
  beforeAll(async () => {
    const args = ['--kernel', kernel]
    host = { server: await startServer({ args }), args, restarts: 0 }
  })
  afterAll(async () => {
    await host.server.stop()
  })

  /** Each sequence on a fresh pool of the same server. */
  async function check(
    commands: readonly fc.Arbitrary<fc.AsyncCommand<Model, Real>>[],
    numRuns: number,
    seed = SEED,
  ): Promise<void> {
    let runs = 0
    const property = fc.asyncProperty(fc.commands([...commands], { maxCommands: 12 }), async sequence => {
      const pool = await host.server.createPool({ columns, timestamp: 'ts', uniqueId: 'id' })
      const model: Model = { rows: new Map(), last: [] }
      const real: Real = { host, pool }
      await fc.asyncModelRun(() => ({ model, real }), sequence)
      await compare(model, real)
      runs++
    })
    await fc.assert(property, { seed, numRuns, endOnFailure: false, verbose: 1 })
    expect(runs).toBeGreaterThanOrEqual(numRuns)
  }

  test(`${calm} sequences on a running server, seeds from ${SEED}`, async () => {
    const lanes = Array.from({ length: LANES }, (_, lane) =>
      check([...changes, ...reads], Math.ceil(calm / LANES), SEED + lane),
    )
    await Promise.all(lanes)
  })

  test(`${restarting} sequences with restarts, seed ${SEED}`, async () => {
    const before = host.restarts
    if (restarting > 0) await check([...changes, ...changes, ...reads, ...restarts], restarting)
    // A sequence may hold none: one of each is made here, in any case.
    const pool = await host.server.createPool({ columns, timestamp: 'ts', uniqueId: 'id' })
    const model: Model = { rows: new Map(), last: [] }
    const one = new Post([{ ts: DAYS[0]!, id: 'a', n: 1 }])
    const two = new Post([{ ts: DAYS[0]!, id: 'a', n: 2 }])
    const gone = new Delete([{ ts: DAYS[0]!, id: 'a', n: null }])
    for (const step of [
      one,
      new Restart('kill'),
      gone,
      new Restart('stop'),
      two,
      new Restart('kill'),
      new Count(),
    ])
      await step.run(model, { host, pool })
    await compare(model, { host, pool })
    expect(host.restarts - before).toBeGreaterThanOrEqual(3)
    expect(pathOf(pool)).toMatch(/^\/v1\//)
  })
})
