/**
 * Question: how many GraphQL requests a second of processor time does the handler answer, beside
 * the handlers of other packages on the same schema and resolvers?
 *
 * Method: in this process, without HTTP, 16 requests at once: a counter whose answer is ready, and
 * a page of 100 pools. The other packages come from the folder of `--packages`, where
 * `npm install graphql-yoga graphql-http @escape.tech/graphql-armor` was run; they get this
 * process's `graphql`. Non-goals: the query stage, the network.
 */
import { existsSync, rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Context, GraphqlDeps } from '../src/api/graphql/context.ts'
import { createGraphql } from '../src/api/graphql/endpoint.ts'
import { makeSchema } from '../src/api/graphql/graphql-schema.ts'
import { createWebhookSource } from '../src/catalog/change/change-source.ts'
import { keys, Memory } from '../src/catalog/documents/memory.ts'
import { SCOPES } from '../src/catalog/documents/model.ts'
import { median, print, row } from './measure.ts'
import { numberOf } from './options.ts'

const POOLS = 100
const AT_ONCE = 16
const SECONDS = 5
const ROUNDS = 5

const REQUESTS = {
  'counter, cached document': JSON.stringify({
    query: 'query Counter($i: CounterInput!) { counter(input: $i) { value } }',
    variables: { i: { metric: { count: { dataPool: { name: 'pool 1' } } }, timeZone: 'Europe/Berlin' } },
  }),
  'dataPools(first: 100), 12 fields each': JSON.stringify({
    query: `{ dataPools(first: ${POOLS}) { nodes { id uniqueName description createdAt createdBy modifiedAt modifiedBy status
      account { id } environment { id } timestamp { columnName } columns { nodes { columnName type } } } } }`,
  }),
}

type Handle = (body: string) => Promise<string>

interface GraphqlOptions {
  readonly seconds?: string | undefined
  readonly packages?: string | undefined
}

export async function benchGraphql(options: GraphqlOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, SECONDS)
  const deps = makeDeps()
  const graphql = createGraphql(deps)
  const handlers: Record<string, Handle> = {
    weir: async body =>
      (await graphql({ address: '', authorization: 'Bearer x', body: Buffer.from(body) })).body,
    ...(options.packages === undefined ? {} : others(options.packages, deps)),
  }
  print(`graphql: in one process, ${AT_ONCE} requests at once, ${ROUNDS} rounds in turn, median`)
  for (const [name, body] of Object.entries(REQUESTS)) {
    const rates = new Map(Object.keys(handlers).map(handler => [handler, [] as number[]]))
    // The first round warms up.
    for (let round = 0; round <= ROUNDS; round++)
      for (const [handler, handle] of Object.entries(handlers)) {
        const rate = await ratePerCpuSecond(handle, body, seconds / ROUNDS)
        if (round > 0) rates.get(handler)?.push(rate)
      }
    const expected = await dataOf(handlers['weir']!, body)
    for (const [handler, handle] of Object.entries(handlers)) {
      const rate = Math.round(median(rates.get(handler) ?? []))
      const isSame = (await dataOf(handle, body)) === expected
      const note = isSame ? '' : '  ANOTHER ANSWER'
      print(row(`${name}: ${handler}`, `${rate} requests/s of processor time${note}`))
    }
  }
}

async function dataOf(handle: Handle, body: string): Promise<string> {
  return JSON.stringify(JSON.parse(await handle(body)).data)
}

async function ratePerCpuSecond(handle: Handle, body: string, seconds: number): Promise<number> {
  const begin = process.cpuUsage()
  const used = () => {
    const { user, system } = process.cpuUsage(begin)
    return (user + system) / 1e6
  }
  let count = 0
  const client = async () => {
    while (used() < seconds) {
      await handle(body)
      count += 1
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  return count / used()
}

/** The dependencies of the resolvers, with a catalog in memory and queries that cost nothing. */
function makeDeps(): GraphqlDeps {
  const read = new Memory()
  const meta = { format: 1, folderId: 'f', accountId: 'ACC1', environmentId: 'ENV1', nextPoolNumber: 1 }
  read.apply({ puts: [[keys.meta, meta]], removes: [] })
  for (let i = 0; i < POOLS; i++) {
    const columns = [{ name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false }]
    const made = createWebhookSource({ uniqueName: `pool ${i}`, columns, timestamp: 'at' }, 'app')(read, i)
    if (!('badRequest' in made)) read.apply(made)
  }
  const answered = { rows: [['42']], recordsProcessed: 1, bytesProcessed: 1, durationMs: 1, sql: '' }
  return {
    catalog: {
      read,
      pool: (id: string) => read.pools.get(id),
    },
    verify: async () => ({ applicationId: 'app', scopes: new Set(SCOPES) }),
    webhookUrl: (id: string) => id,
    pools: { sizeOf: () => ({ rows: 0, bytes: 0 }) },
    query: { ask: async () => answered },
  } as unknown as GraphqlDeps
}

/** The same resolvers without the limits of our handler. */
function contextOf(deps: GraphqlDeps): Context {
  const budget = { items() {}, query() {}, mutation() {}, objects: () => 0, isTurnDue: () => false }
  const slices = { step: () => undefined }
  const caller = { applicationId: 'app', scopes: new Set(SCOPES) }
  return { deps, caller, budget, slices } as unknown as Context
}

function others(folder: string, deps: GraphqlDeps): Record<string, Handle> {
  const own = join(folder, 'node_modules/graphql')
  const ours = join(createRequire(import.meta.url).resolve('graphql'), '..')
  if (existsSync(own)) rmSync(own, { recursive: true })
  symlinkSync(ours, own)
  // biome-ignore lint/suspicious/noExplicitAny: the packages are not installed here
  const load = createRequire(join(folder, 'package.json')) as (name: string) => any
  const schema = makeSchema()
  const context = () => contextOf(deps)
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  const yogaOf = (plugins: readonly unknown[]): Handle => {
    const yoga = load('graphql-yoga').createYoga({ schema, context, plugins, logging: false })
    return async body =>
      await (await yoga.fetch('http://x/graphql', { method: 'POST', headers, body })).text()
  }
  const http = load('graphql-http').createHandler({ schema, context })
  const armor = new (load('@escape.tech/graphql-armor').EnvelopArmor)()
  return {
    'graphql-http': async body =>
      (await http({ method: 'POST', url: '/graphql', headers, body, raw: null, context: undefined }))[0],
    'graphql-yoga': yogaOf([]),
    'graphql-yoga with graphql-armor': yogaOf(armor.protect().plugins),
  }
}
