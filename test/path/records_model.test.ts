/**
 * Random posts, deletes, queries, compaction, retention, restarts and rebuilds against a plain Map:
 * whatever their order, a reader sees the content of the Map. `weir verify` finds every stopped or
 * killed folder clean, and two other readers agree on every segment of a stopped one
 * (cross-read.ts).
 *
 * A failure prints fast-check's seed and path. WEIR_TEST_SEED repeats a run, WEIR_TEST_RUNS sets
 * the number of sequences (TEST_RUNS), and WEIR_KERNEL limits the run to one kernel. `npm test`
 * runs a part of the sequences, each time with another seed.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { tableFromIPC } from 'apache-arrow'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { crossRead } from '../util/cross-read.ts'
import { casesOf, newSeed, TEST_RUNS } from '../util/random.ts'
import { fetchToken, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { rebuildFolder, verifyFolder } from '../util/verify.ts'
import { column, pathOf, post } from './client.ts'
import { merges, until, untilRest } from './compaction.ts'

const SEED = newSeed()
const RESTARTING_MS = 300_000 + TEST_RUNS * 60_000
const CALM = casesOf(20, 100 * TEST_RUNS)
const RESTARTING = casesOf(1, TEST_RUNS)
/** The number of sequences that run at once, each on its own pool. */
const LANES = 5
const IDS = ['a', 'b', 'c', 'd', 'é', '']
const DAYS = ['2026-01-01', '2026-01-02', '2026-02-01']
const REGIONS = ['eu', 'us']
const columns = [
  column('ts', 'TIMESTAMP'),
  column('id', 'STRING'),
  column('region', 'STRING', true),
  column('v', 'DOUBLE', true),
  column('n', 'INT64', true),
]

interface Event {
  readonly ts: string
  readonly id: string
  readonly region: string
  readonly v: number
  readonly n: number | null | 'wrong'
}

/** Table settings, and what they mean: the columns of the key, and the one that decides. */
interface Shape {
  readonly what: string
  readonly tableSettings?: Record<string, unknown>
  readonly key: readonly (keyof Event)[]
  readonly version?: keyof Event
  /** Pools whose highest version may expire before a lower one keep their rows for ever. */
  readonly neverExpires?: boolean
  /** The key holds received-at: each accepted event is a row of its own. */
  readonly byArrival?: boolean
}

const ranked = (ver: string) => ({ replacingMergeTree: { ver } })

const SHAPES: readonly Shape[] = [
  { what: 'default', key: ['ts', 'id'] },
  {
    what: 'the later wins',
    tableSettings: { engine: { replacingMergeTree: {} }, orderBy: [] },
    key: ['ts', 'id'],
  },
  { what: 'by id', tableSettings: { orderBy: ['id'] }, key: ['id'] },
  { what: 'by (region, id)', tableSettings: { orderBy: ['region', 'id'] }, key: ['region', 'id'] },
  {
    what: 'by (id, ts, region)',
    tableSettings: { orderBy: ['id', 'ts', 'region'], partitionBy: ['region'], primaryKey: ['id'] },
    key: ['id', 'ts', 'region'],
  },
  {
    what: 'default, v wins',
    tableSettings: { engine: ranked('v') },
    key: ['ts', 'id'],
    version: 'v',
  },
  {
    what: 'by id, v wins',
    tableSettings: { engine: ranked('v'), orderBy: ['id'] },
    key: ['id'],
    version: 'v',
    neverExpires: true,
  },
  {
    what: 'by (region, id), ts wins',
    tableSettings: { engine: ranked('ts'), orderBy: ['region', 'id'] },
    key: ['region', 'id'],
    version: 'ts',
  },
  {
    what: 'by (region, id, ts), v wins',
    tableSettings: { engine: ranked('v'), orderBy: ['region', 'id', 'ts'] },
    key: ['region', 'id', 'ts'],
    version: 'v',
  },
  {
    what: 'by (arrival, id)',
    tableSettings: { orderBy: ['_service_received_at', 'id'] },
    key: ['id'],
    byArrival: true,
  },
  {
    what: 'by (id, arrival)',
    tableSettings: { orderBy: ['id', '_service_received_at'] },
    key: ['id'],
    byArrival: true,
  },
  {
    what: 'by (region, v, arrival, id), v wins',
    tableSettings: { engine: ranked('v'), orderBy: ['region', 'v', '_service_received_at', 'id'] },
    key: ['region', 'v', 'id'],
    version: 'v',
    neverExpires: true,
    byArrival: true,
  },
]

/** The live rows by key. */
interface Model {
  readonly shape: Shape
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
  /** The merges of the servers that ended. */
  merges: number
  /** The expected content of each pool, for the end. */
  readonly models: Map<string, Model>
}

/** Compaction ticks often: flushes of a quiet pool are merged at once. */
const OFTEN = { WEIR_COMPACT_TICK_MS: '5' }
const DAY_MS = 86_400_000
/** Retention removes rows of earlier days: only the last of DAYS stays. */
const KEEP_FROM = '2026-01-15'

let arrivals = 0
/** The name of the row that a new event becomes. */
function newKeyOf({ key, byArrival }: Shape, event: Event): string {
  const values = byArrival === true ? [arrivals++] : key.map(name => event[name])
  return values.join(' · ')
}
const isValid = ({ n }: Event) => n !== 'wrong'

/** An equal version wins, because it comes later. */
function isBelow({ version }: Shape, event: Event, other: Event | undefined): boolean {
  return version !== undefined && other !== undefined && event[version]! < other[version]!
}

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

/** A client tries again with the same body. */
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
  for (const event of valid) {
    const key = newKeyOf(model.shape, event)
    if (!isBelow(model.shape, event, model.rows.get(key))) model.rows.set(key, event)
  }
}

class Delete implements fc.AsyncCommand<Model, Real> {
  readonly events: readonly Event[]
  constructor(events: readonly Event[]) {
    this.events = events
  }
  check = () => true
  async run(model: Model, real: Real): Promise<void> {
    if (model.shape.byArrival === true) return this.#deleteArrived(model, real)
    await remove(this.events, real)
    for (const event of this.events) model.rows.delete(newKeyOf(model.shape, event))
  }
  /** Deletes a row for each event that has its id, by the received-at that a reader gets. */
  async #deleteArrived(model: Model, real: Real): Promise<void> {
    const arrived = new Map<string, Row[]>()
    for (const row of await readRows(real)) {
      const text = rowText(row)
      arrived.set(text, [...(arrived.get(text) ?? []), row])
    }
    const gone: Record<string, unknown>[] = []
    for (const { id } of this.events) {
      const found = [...model.rows].find(([, row]) => row.id === id)
      if (found === undefined) continue
      const row = arrived.get(streamText(found[1]))?.pop()
      expect(row, `the row ${streamText(found[1])}`).toBeDefined()
      const micros = String(row!['_service_received_at']).padStart(16, '0')
      const time = new Date(Number(micros.slice(0, -3))).toISOString().replace('Z', `${micros.slice(-3)}Z`)
      gone.push({ ...found[1], _service_received_at: time })
      model.rows.delete(found[0])
    }
    if (gone.length > 0) await remove(gone, real)
  }
  toString = () => `delete ${JSON.stringify(this.events)}`
}

async function remove(events: readonly object[], { host, pool }: Real): Promise<void> {
  const answer = await post(host.server, pool, events, { method: 'DELETE' })
  expect(answer.status).toBe(200)
}

/** A query, which flushes everything before it. */
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

/** The ways in which a server ends, and the work on its folder before the next start. */
const REBUILDS = ['rebuild at start', 'weir rebuild', 'weir rebuild after a kill'] as const
const HOW = ['stop', 'kill', ...REBUILDS] as const
type How = (typeof HOW)[number]
type Step = fc.AsyncCommand<Model, Real>

class Restart implements fc.AsyncCommand<Model, Real> {
  readonly how: How
  /**
   * True: commands run as processes, as a user runs them. False: their code runs in this process.
   */
  readonly isReal: boolean
  constructor(how: How, isReal = false) {
    this.how = how
    this.isReal = isReal
  }
  check = () => true
  async run(_: Model, { host }: Real): Promise<void> {
    const { how } = this
    const { dataDir } = host.server
    host.merges += await merges(host.server)
    if (how === 'kill' || how === 'weir rebuild after a kill') await host.server.kill()
    else await stopped(host)
    await this.#verify(dataDir)
    if (how === 'rebuild at start') rmSync(join(dataDir, 'index'), { recursive: true })
    else if (how !== 'stop' && how !== 'kill') await this.#rebuild(dataDir, host)
    host.server = await startServer({ dataDir, args: host.args, env: OFTEN })
    if (how === 'stop' || how === 'weir rebuild') expect(host.server.output()).not.toContain('replayed')
    const isBuilt = host.server.output().includes('the index was built from')
    expect(isBuilt).toBe(how === 'rebuild at start')
    host.restarts++
  }
  async #verify(dataDir: string): Promise<void> {
    await verifyFolder(dataDir)
    if (this.isReal)
      expect(await weir(['verify', '--data-dir', dataDir])).toMatchObject({
        code: 0,
        output: expect.stringMatching(/(^|\n)clean: /),
      })
  }
  async #rebuild(dataDir: string, { models }: Host): Promise<void> {
    if (this.isReal) expect(await weir(['rebuild', '--data-dir', dataDir])).toMatchObject({ code: 0 })
    else await rebuildFolder(dataDir)
    await this.#verify(dataDir)
    if (this.how === 'weir rebuild') await crossCheck(dataDir, models)
  }
  toString = () => `${this.how} and start`
}

/** Stops the server in order. Its folder must hold the rows of the models. */
async function stopped({ server, models }: Host): Promise<void> {
  const end = await server.stop()
  expect([end.code, end.output]).toEqual([0, expect.any(String)])
  await crossCheck(server.dataDir, models)
}

/** Waits until nothing is left to merge. */
class Compact implements fc.AsyncCommand<Model, Real> {
  check = () => true
  async run(model: Model, { host, pool }: Real): Promise<void> {
    expect(await host.server.count(pool.poolId)).toBe(String(model.rows.size))
    await untilRest(host.server)
  }
  toString = () => 'compaction'
}

/** Retention of some days until all earlier rows are removed, then none again. */
class Retain implements fc.AsyncCommand<Model, Real> {
  check = ({ shape }: Readonly<Model>) => shape.neverExpires !== true
  async run(model: Model, { host, pool }: Real): Promise<void> {
    const days = Math.floor(Date.now() / DAY_MS) - Date.parse(KEEP_FROM) / DAY_MS
    const timeRange = { start: '2000-01-01T00:00:00Z', stop: `${KEEP_FROM}T00:00:00Z` }
    await keepDays(host.server, pool, days)
    await until('old rows are gone', async () => {
      return (await host.server.count(pool.poolId, { timeRange })) === '0'
    })
    for (const [key, row] of model.rows) if (row.ts < KEEP_FROM) model.rows.delete(key)
    await keepDays(host.server, pool, 0)
  }
  toString = () => `retention from ${KEEP_FROM} on`
}

async function keepDays(server: TestServer, pool: TestPool, dataRetentionInDays: number): Promise<void> {
  const input = { idOrUniqueName: { id: pool.poolId }, dataRetentionInDays }
  const { errors } = await server.graphql(
    `mutation ($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { ... on DataPoolResponse { dataPool { dataRetentionInDays } } } }`,
    { input },
  )
  expect(errors).toBeUndefined()
}

/** Two other readers find the rows of the models in a stopped folder. */
async function crossCheck(dataDir: string, models: ReadonlyMap<string, Model>): Promise<void> {
  const found = await crossRead(dataDir)
  for (const [poolId, { rows }] of models) {
    const micros = (ts: string) => String(Date.parse(ts) * 1000)
    const want = [...rows.values()].map(row => textOf({ ...row, ts: micros(row.ts) }))
    const is = (found.get(poolId) ?? []).map(row => textOf(row))
    expect(is.sort(), poolId).toEqual(want.sort())
  }
}

/** The values of a row that are compared. */
function textOf(row: Readonly<Record<string, unknown>> | Event): string {
  const { ts, id, region, v, n } = row as Event
  return [ts, id, region, Number(v), n].map(String).join(' ')
}

/** The sum of n; null without a value, as in SQL. */
function sumOf(rows: readonly Event[]): string | null {
  const values = rows.map(row => row.n).filter(n => typeof n === 'number')
  return values.length === 0 ? null : String(values.reduce((sum, n) => sum + BigInt(n), 0n))
}

/** A row of the Arrow route, times in milliseconds. */
type Row = Readonly<Record<string, unknown>>
const rowText = (row: Row) => textOf({ ...row, ts: Number(row['ts']) })
const streamText = (event: Event) => textOf({ ...event, ts: String(Date.parse(event.ts)) })

/** The live rows by the Arrow route, with `_service_received_at` in microseconds. */
async function readRows({ host, pool }: Real): Promise<Row[]> {
  const authorization = `Bearer ${await fetchToken(host.server.base, host.server.dataDir)}`
  const answer = await fetch(`${host.server.base}/v1/pools/${pool.poolId}/arrow`, {
    headers: { authorization },
  })
  expect(answer.status).toBe(200)
  const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
  const micros = table.batches.flatMap(({ schema, data }) => {
    const place = schema.fields.findIndex(({ name }) => name === '_service_received_at')
    return [...(data.children[place]!.values as BigInt64Array)]
  })
  return table.toArray().map((row, n) => ({ ...row?.toJSON(), _service_received_at: micros[n] }))
}

/** Reads the live rows from the Arrow route. */
class Stream implements fc.AsyncCommand<Model, Real> {
  check = () => true
  async run(model: Model, real: Real): Promise<void> {
    const is = (await readRows(real)).map(rowText)
    const want = [...model.rows.values()].map(streamText)
    expect(is.sort()).toEqual(want.sort())
  }
  toString = () => 'stream'
}

/** Compares counts and sums of every id, and of every range of days. */
async function compareParts(model: Model, real: Real): Promise<void> {
  const { host, pool } = real
  const rows = [...model.rows.values()]
  const parts = IDS.map(id => ({
    filters: [{ column: 'id', operator: 'EQUALS', value: id }],
    seen: rows.filter(row => row.id === id),
  }))
  const days = DAYS.flatMap((from, i) =>
    [...DAYS.slice(i + 1), '2026-03-01'].map(to => ({
      timeRange: { start: `${from}T00:00:00Z`, stop: `${to}T00:00:00Z` },
      seen: rows.filter(row => row.ts >= from && row.ts < to),
    })),
  )
  for (const { seen, ...input } of [...parts, ...days]) {
    expect(await host.server.count(pool.poolId, input), JSON.stringify(input)).toBe(String(seen.length))
    expect(await host.server.sum(pool.poolId, 'n', input), JSON.stringify(input)).toBe(sumOf(seen))
  }
  await new Stream().run(model, real)
}

/** Compares the count, the sum, and the row of each key. */
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
    const filters = [
      one,
      { column: 'ts', operator: 'EQUALS', value: row.ts },
      { column: 'region', operator: 'EQUALS', value: row.region },
      { column: 'v', operator: 'EQUALS', value: String(row.v) },
      { column: 'n', ...own },
    ]
    aliases.push(`k${index}: counter(input: { metric: { count: { dataPool: { id: "${pool.poolId}" } } },
      filters: [${filters.map(asGraphql).join()}] }) { value }`)
    const equal = [...model.rows.values()].filter(other => streamText(other) === streamText(row))
    expected[`k${index}`] = { value: String(equal.length) }
  }
  if (aliases.length === 0) return
  const { data, errors } = await server.graphql(`{ ${aliases.join('\n')} }`)
  expect(errors).toBeUndefined()
  expect(data).toEqual(expected)
}

/** An event of the first day. */
function event(id: string, v: number, n: number | null): Event {
  return { ts: DAYS[0]!, id, region: 'eu', v, n }
}

function asGraphql(filter: { column: string; operator: string; value?: string }): string {
  const value = filter.value === undefined ? '' : `, value: ${JSON.stringify(filter.value)}`
  return `{ column: "${filter.column}", operator: ${filter.operator}${value} }`
}

/** Pools whose keys hold received-at run as often as others. */
const anyShape = fc.oneof(
  fc.constantFrom(...SHAPES.filter(({ byArrival }) => byArrival !== true)),
  fc.constantFrom(...SHAPES.filter(({ byArrival }) => byArrival === true)),
)
const anyKey = {
  ts: fc.constantFrom(...DAYS),
  id: fc.constantFrom(...IDS),
  region: fc.constantFrom(...REGIONS),
  v: fc.constantFrom(-1.5, 0, 1, 2),
}
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
  fc.constant(new Stream()),
  fc
    .tuple(fc.constantFrom(...IDS), fc.nat({ max: DAYS.length - 1 }))
    .map(([id, from]) => new Narrow(id, from)),
]
const rests = [fc.constant(new Compact()), fc.constant(new Retain())]
const restarts = HOW.map(how => fc.constant(new Restart(how)))

const KERNELS = [
  // Each start takes seconds: few sequences have one.
  { kernel: 'native', calm: CALM, restarting: RESTARTING },
  { kernel: 'js', calm: casesOf(5, 10), restarting: 0 },
].filter(({ kernel }) => kernel === (process.env['WEIR_KERNEL'] ?? kernel))

describe.each(KERNELS)('kernel $kernel', ({ kernel, calm, restarting }) => {
  let host: Host
  beforeAll(async () => {
    const args = ['--kernel', kernel]
    host = {
      server: await startServer({ args, env: OFTEN }),
      args,
      restarts: 0,
      merges: 0,
      models: new Map(),
    }
  })
  afterAll(async () => {
    await host.server.stop()
  })

  /** A new pool and its model. */
  async function begin(shape: Shape): Promise<{ model: Model; real: Real }> {
    const { tableSettings } = shape
    const settings = tableSettings === undefined ? {} : { tableSettings }
    const pool = await host.server.createPool({ columns, timestamp: 'ts', uniqueId: 'id', ...settings })
    const model: Model = { shape, rows: new Map(), last: [] }
    host.models.set(pool.poolId, model)
    return { model, real: { host, pool } }
  }

  /** Each sequence on a fresh pool of the same server. */
  async function check(
    commands: readonly fc.Arbitrary<fc.AsyncCommand<Model, Real>>[],
    numRuns: number,
    seed = SEED,
    isThorough = false,
  ): Promise<void> {
    let runs = 0
    const sequences = fc.commands([...commands], { maxCommands: 12 })
    const property = fc.asyncProperty(anyShape, sequences, async (shape, sequence) => {
      const { model, real } = await begin(shape)
      await fc.asyncModelRun(() => ({ model, real }), sequence)
      await compare(model, real)
      if (isThorough) await compareParts(model, real)
      runs++
    })
    await fc.assert(property, { seed, numRuns, endOnFailure: false, verbose: 1 })
    expect(runs).toBeGreaterThanOrEqual(numRuns)
  }

  // This test comes first, because the folders that it checks have few pools then.
  test(
    `every kind of restart, and ${restarting} sequences with some, seed ${SEED}`,
    async () => {
      const before = host.restarts
      if (restarting > 0)
        await check(
          [...changes, ...changes, ...reads, ...reads, ...rests, ...restarts],
          restarting,
          SEED,
          true,
        )
      // A random sequence may have no restart, so each kind is made here in any case, for two
      // pools: in one the later wins, in the other a lower version stays beaten until a delete
      // ends that.
      const plain = await begin(SHAPES[0]!)
      const ranked = await begin(SHAPES.find(({ what }) => what === 'by id, v wins')!)
      const live = async (steps: readonly Step[], rankedSteps: readonly Step[]) => {
        for (const step of steps) await step.run(plain.model, plain.real)
        for (const step of rankedSteps) {
          await step.run(ranked.model, ranked.real)
          await compare(ranked.model, ranked.real)
        }
      }
      const restart = async (how: How, isReal = false) => {
        await new Restart(how, isReal).run(plain.model, plain.real)
        await compare(ranked.model, ranked.real)
      }
      await live(
        [new Post([event('a', 0, 1)])],
        [
          new Post([event('a', 2, 1), event('b', 2, 1), event('c', 2, 1)]),
          new Count(),
          new Post([event('a', 1, 2), event('b', 2, 2), event('a', 0, 3)]),
        ],
      )
      await restart('kill')
      await live([new Delete([event('a', 0, null)])], [new Count(), new Post([event('c', 1, 4)])])
      // Processes take seconds, so they run once.
      await restart('weir rebuild', kernel === 'native')
      await live(
        [new Post([event('a', 0, 2)])],
        [new Delete([event('a', 0, null)]), new Post([event('a', -1.5, 5)])],
      )
      await restart('weir rebuild after a kill')
      await live(
        [new Count(), new Post(DAYS.map(ts => ({ ...event('b', 0, 3), ts }))), new Compact(), new Retain()],
        [new Stream(), new Compact()],
      )
      await restart('rebuild at start')
      await live([new Count()], [new Post([event('b', 1, 6), event('c', 2, 7)]), new Count()])
      await compare(plain.model, plain.real)
      expect([...ranked.model.rows.values()].map(({ n }) => n)).toEqual([2, 7, 5])
      for (const { model, real } of [plain, ranked]) await compareParts(model, real)
      expect(host.restarts - before).toBeGreaterThanOrEqual(4)
      expect(pathOf(plain.real.pool)).toMatch(/^\/v1\//)
    },
    RESTARTING_MS,
  )

  test(`${calm} sequences on a running server, seeds from ${SEED}`, async () => {
    const lanes = Array.from({ length: LANES }, (_, lane) =>
      check([...changes, ...reads], Math.ceil(calm / LANES), SEED + lane),
    )
    await Promise.all(lanes)
  })

  test('merges were made, and the segments of all sequences are what their models say', async () => {
    host.merges += await merges(host.server)
    await stopped(host)
    await verifyFolder(host.server.dataDir)
    expect(host.merges).toBeGreaterThan(0)
  })
})
