/**
 * Question: what do many objects and many callers of the management API cost?
 *
 *   1. A catalog of `pools` pools, five metrics each, and a tenth as many applications: start-up,
 *      memory, the first and the last page of each list, a lookup, a creation, a deletion.
 *   2. On a small catalog: GraphQL requests/s of one counter document that repeats and of
 *      `dataPools(first: 100)`, with 16 clients of each, and the acks of a steady ingest beside
 *      them.
 *
 * The catalog of part 1 is written before the server starts, in one transaction.
 */
import { join } from 'node:path'
import type { Decide } from '../src/catalog/change/change.ts'
import { createApplication } from '../src/catalog/change/change-application.ts'
import { createMetric } from '../src/catalog/change/change-metric.ts'
import { createWebhookSource } from '../src/catalog/change/change-source.ts'
import type { Entry } from '../src/catalog/documents/catalog-types.ts'
import { Memory } from '../src/catalog/documents/memory.ts'
import { openStore } from '../src/catalog/lmdb/catalog-store.ts'
import type { TestServer } from '../test/util/server.ts'
import { BENCH_COLUMNS, BENCH_SEED, benchEvent, createRandom } from './events.ts'
import { benchFolder } from './leftovers.ts'
import { everyMs, latencies, memory, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { keyedPool, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface ControlOptions {
  readonly pools?: string | undefined
  readonly seconds?: string | undefined
  readonly connections?: string | undefined
}

const METRICS_PER_POOL = 5
const PAGE = 100
const BATCH = 500
/** A POST of 500 events each: 10k events/s, far below what the server takes. */
const POST_EVERY_MS = 50

/** Runs with `pools` (10,000), for `seconds` (10) and `connections` (16) clients a document. */
export async function benchControl(options: ControlOptions): Promise<void> {
  const pools = numberOf('pools', options.pools, 10_000)
  const seconds = numberOf('seconds', options.seconds, 10)
  const connections = numberOf('connections', options.connections, 16)
  await manyObjects(pools)
  await manyCallers(seconds, connections)
}

async function manyObjects(pools: number): Promise<void> {
  const applications = Math.ceil(pools / 10)
  print(`control: ${pools} pools, ${pools * METRICS_PER_POOL} metrics, ${applications} applications`)
  const dataDir = join(benchFolder('weir-control-'), 'data')
  const empty = await startWeir({ dataDir })
  const before = memory(empty.child.pid as number)
  await empty.stop()
  await fillCatalog(join(dataDir, 'catalog'), pools, applications)
  const begin = performance.now()
  const server = await startWeir({ dataDir })
  const startMs = performance.now() - begin
  const { anonymous } = memory(server.child.pid as number)
  print(row('start to ready', `${startMs.toFixed(0)} ms, process and all`))
  print(row('anonymous memory', `${short(anonymous)}B, with the first pool only ${short(before.anonymous)}B`))
  for (const list of ['dataPools', 'metrics', 'applications', 'dataSources']) await pages(server, list)
  await timed(server, 'dataPoolByName', '{ dataPoolByName(uniqueName: "pool 7") { id } }')
  await timed(server, 'every pool in one list', '{ dataPools { nodes { id } } }')
  const created = await timed<{ createWebhookDataSource: { dataSource: { id: string } } }>(
    server,
    'createWebhookDataSource',
    'mutation { createWebhookDataSource(input: { connectionSettings: {} }) { dataSource { id } } }',
  )
  const { id } = created.createWebhookDataSource.dataSource
  await timed(server, 'deleteDataSource', `mutation { deleteDataSource(id: "${id}") }`)
  await server.stop()
}

/** The objects, made by the same functions as through the API, in one transaction. */
async function fillCatalog(path: string, pools: number, applications: number): Promise<void> {
  const store = await openStore(path)
  const memory = new Memory()
  memory.load(store.entries, path)
  const puts = new Map<string, unknown>()
  const nowMs = Date.now()
  const make = <T>(decide: Decide<T>): T => {
    const decision = decide(memory, nowMs)
    if ('badRequest' in decision) throw new Error(decision.badRequest)
    memory.apply(decision)
    for (const [key, value] of decision.puts) puts.set(key, value)
    return decision.result
  }
  for (let number = 0; number < pools; number++) {
    const uniqueName = `pool ${number}`
    const columns = [...BENCH_COLUMNS]
    const { pool } = make(
      createWebhookSource({ uniqueName, columns, timestamp: 'time', uniqueId: 'id' }, 'bench'),
    )
    for (let metric = 0; metric < METRICS_PER_POOL; metric++)
      make(
        createMetric({ poolId: pool.id, type: 'COUNT', uniqueName: `metric ${number}/${metric}` }, 'bench'),
      )
  }
  for (let number = 0; number < applications; number++)
    make(createApplication({ uniqueName: `application ${number}` }, 'bench'))
  const entries: readonly Entry[] = [...puts]
  store.apply({ puts: entries, removes: [] })
  await store.close()
}

/** The first page of a list, the page in its middle and the last one. */
async function pages(server: TestServer, list: string): Promise<void> {
  const fields = '{ nodes { id uniqueName createdAt } pageInfo { endCursor startCursor } }'
  type Page = Record<string, { readonly pageInfo: { readonly endCursor: string } }>
  await timed<Page>(server, `${list}, first ${PAGE}`, `{ ${list}(first: ${PAGE}) ${fields} }`)
  const last = `{ ${list}(last: ${PAGE}) ${fields.replace('endCursor startCursor', 'endCursor: startCursor')} }`
  const { [list]: end } = await timed<Page>(server, `${list}, last ${PAGE}`, last)
  const before = `{ ${list}(last: ${PAGE}, before: "${end?.pageInfo.endCursor}") ${fields} }`
  await timed(server, `${list}, the page before`, before)
}

/** Asks 20 times and prints the times. Throws where an answer has errors. */
async function timed<T>(server: TestServer, name: string, query: string): Promise<T> {
  const times: number[] = []
  const asks = query.startsWith('mutation') ? 1 : 20
  let data: T | undefined
  for (let ask = 0; ask < asks; ask++) {
    const begin = performance.now()
    const answer = await server.graphql<T>(query)
    times.push(performance.now() - begin)
    if (answer.errors !== undefined) throw new Error(JSON.stringify(answer.errors))
    data = answer.data
  }
  print(row(name, latencies(times)))
  return data as T
}

async function manyCallers(seconds: number, connections: number): Promise<void> {
  const server = await startWeir()
  const pool = await keyedPool(server)
  for (let number = 0; number < PAGE; number++) await server.createPool({ uniqueName: `pool ${number}` })
  const counter = `{ counter(input: { metric: { count: { dataPool: { id: "${pool.poolId}" } } } }) { value } }`
  const list = `{ dataPools(first: ${PAGE}) { nodes { id uniqueName status columns { nodes { columnName type } } } } }`
  await callers(server, pool.url, seconds, 'no caller', [])
  await callers(
    server,
    pool.url,
    seconds,
    `counter, ${connections} clients`,
    Array(connections).fill(counter),
  )
  await callers(server, pool.url, seconds, `dataPools, ${connections} clients`, Array(connections).fill(list))
  await server.stop()
}

/** Asks the documents for `seconds`, one client each, beside the steady ingest. */
async function callers(
  server: TestServer,
  url: string,
  seconds: number,
  name: string,
  documents: readonly string[],
): Promise<void> {
  const end = performance.now() + seconds * 1000
  const acks: number[] = []
  const answers: number[] = []
  const random = createRandom(BENCH_SEED)
  let sent = 0
  const post = async () => {
    const events = Array.from({ length: BATCH }, () => benchEvent(sent++, random))
    const begin = performance.now()
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `[${events.join(',')}]`,
    })
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`POST answered ${answer.status}`)
    acks.push(performance.now() - begin)
  }
  const ask = async (query: string) => {
    while (performance.now() < end) {
      const begin = performance.now()
      const { errors } = await server.graphql(query)
      if (errors !== undefined) throw new Error(JSON.stringify(errors))
      answers.push(performance.now() - begin)
    }
  }
  await Promise.all([everyMs(POST_EVERY_MS, end, post), ...documents.map(ask)])
  const rate =
    answers.length === 0 ? '' : `${short(answers.length / seconds)} requests/s, ${latencies(answers)}; `
  print(row(name, `${rate}ack ${latencies(acks)}`))
}
