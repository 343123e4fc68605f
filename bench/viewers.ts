/**
 * Question: how many viewers of dashboards does a server bear, over rows that change meanwhile?
 *
 *   pages    1,000 clients, each a page of six questions every 5 s (viewers-page.ts). Each asks as
 *            one of 20 applications, each of which sees one tenant's rows by its policy
 *   events   5,000 a second in batches of 100; a tenth are updates of rows of the last hour, or of
 *            any row, or none (`--pattern recent`, `even`, `new`)
 *   counter  64 clients that ask one counter without a pause, beside an event each 10 ms
 *
 * `--server` names the folder of another checkout that was set up, such as an older commit's. The
 * time of an answer begins when its page is due. A question has failed if its answer is not 200 or
 * has errors; 429 is counted alone. The clients share the cores with the server.
 *
 * Goals: none refused, p99 of answers at most 500 ms, p99 of acks at most 25 ms; for the counter
 * 1,500 answers a second, p99 at most 80 ms.
 */
import { join } from 'node:path'
import { must } from '../src/util/errors.ts'
import { endAll } from '../test/cluster/at-end.ts'
import { noModernCluster, startModernCluster } from '../test/cluster/nodes.ts'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { Connection, requestHead } from './connection.ts'
import { createRandom } from './events.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import {
  cpuByThread,
  everyMs,
  latencies,
  memory,
  print,
  quantileOf,
  row,
  short,
  sleep,
  threadTimes,
  watchMemory,
} from './measure.ts'
import { numberOf, oneOf } from './options.ts'
import { application, mainOf } from './readers.ts'
import { post, settled } from './rows.ts'
import { PAGE_COLUMNS, pageOf, TENANTS, tenantName, viewerEvents } from './viewers-page.ts'
import { askPeers } from './viewers-peers.ts'
import { scrape, startWeir } from './weir.ts'

interface ViewersOptions {
  readonly server?: string | undefined
  readonly rows?: string | undefined
  readonly seconds?: string | undefined
  readonly readers?: string | undefined
  readonly rate?: string | undefined
  readonly pattern?: string | undefined
  readonly only?: string | undefined
  readonly 'no-peers'?: boolean | undefined
}

const PAGE_MS = 5_000
/** Events before the third look: then the pool changes as it does later. */
const WARM_MS = 5_000
const BATCH = 100
const UPDATES_SHARE = 1 / 10
const COUNTER_CLIENTS = 64
const TRICKLE_MS = 10
const PATTERNS = ['recent', 'even', 'new'] as const
type Pattern = (typeof PATTERNS)[number]

/** Runs `seconds` (30) of each part over `rows` (10M), `readers` (1,000), `rate` (5,000). */
export async function benchViewers(options: ViewersOptions): Promise<void> {
  const rows = numberOf('rows', options.rows, 10_000_000)
  const seconds = numberOf('seconds', options.seconds, 30)
  const viewers = numberOf('readers', options.readers, 1_000)
  const rate = numberOf('rate', options.rate, 5_000)
  const pattern = oneOf('pattern', options.pattern, PATTERNS) ?? 'recent'
  const main = mainOf(options.server)
  const folder = benchFolder('weir-viewers-')
  // The cache of answers is on, as it is for users.
  const env = { WEIR_ANSWER_CACHE_MIB: process.env.WEIR_ANSWER_CACHE_MIB ?? '64' }
  const server = await startWeir({
    dataDir: join(folder, 'data'),
    env,
    ...(main === undefined ? {} : { main }),
  })
  try {
    const load = await filled(server, { rows, seconds, rate, pattern })
    if (options.only === undefined || 'pages'.includes(options.only)) await pages(load, viewers)
    if (options.only === undefined || 'counter'.includes(options.only)) await counter(load)
  } finally {
    await server.kill()
    removeFolder(folder)
  }
  if (options['no-peers'] === true) return
  await askPeers(rows, seconds)
  await askNode({ rows, seconds, rate, pattern }, viewers)
}

/** The same pages on Weir as a node of ClickHouse 26.9 (chdb). */
async function askNode(wanted: Wanted, viewers: number): Promise<void> {
  const without = noModernCluster()
  if (without !== undefined) {
    print(row('node', without))
    return
  }
  const node = await (await startModernCluster()).node()
  print('\nWeir as a node of a cluster')
  await pages(await filled(node, wanted), viewers)
  await node.stop()
  await endAll()
}

/** A pool with its rows. */
async function filled(server: TestServer, wanted: Wanted): Promise<Load> {
  const { rows } = wanted
  const events = viewerEvents(rows, Date.now())
  const pool = await server.createPool({ columns: [...PAGE_COLUMNS], timestamp: 'time', uniqueId: 'id' })
  await post(pool.url, 0, rows, 1, 0, events)
  await settled(server, pool, rows)
  return { ...wanted, server, pool, events }
}

interface Wanted {
  readonly rows: number
  readonly seconds: number
  readonly rate: number
  readonly pattern: Pattern
}

interface Load extends Wanted {
  readonly server: TestServer
  readonly pool: TestPool
  readonly events: (index: number, round: number) => string
}

interface Seen {
  readonly ms: number[]
  refused: number
  readonly failures: Map<string, number>
}

const nothing = (): Seen => ({ ms: [], refused: 0, failures: new Map() })

/** Connections that are kept open, as behind a proxy: a request takes a free one. */
class Connections {
  readonly #free: Connection[] = []
  readonly #url: string

  constructor(url: string) {
    this.#url = url
  }

  async send(request: Uint8Array, seen: Seen, dueMs: number): Promise<void> {
    const connection = this.#free.pop() ?? new Connection(this.#url)
    const status = await connection.send(request)
    this.#free.push(connection)
    const { body } = connection
    if (status === 429) seen.refused += 1
    else if (status !== 200 || body.includes('"errors"')) {
      const what = `${status} ${body.slice(0, 160)}`
      seen.failures.set(what, (seen.failures.get(what) ?? 0) + 1)
    } else seen.ms.push(performance.now() - dueMs)
  }

  close(): void {
    for (const connection of this.#free) connection.close()
  }
}

async function pages(load: Load, viewers: number): Promise<void> {
  const { server, pool, seconds, rate, pattern } = load
  await setAccessControl(load, true)
  await setAccessControl(load, true)
  const tenants: (readonly Uint8Array[])[] = []
  for (let number = 0; number < TENANTS; number++) {
    const token = await viewerOf(server, pool.poolId, tenantName(number))
    tenants.push(
      pageOf(pool.poolId, tenantName(number), Date.now()).map(({ document, input }) =>
        graphqlRequest(server, token, document, input),
      ),
    )
  }
  print(`\n${viewers} viewers, a page of six questions each 5 s, beside ${rate} events/s (${pattern})`)
  const connections = new Connections(server.base)
  // Dashboards are looked at all day. The first looks are told apart.
  for (const look of ['first', 'second', 'third']) {
    if (look === 'third') await postEvents(load, performance.now() + WARM_MS, [])
    const begin = performance.now()
    const looked = nothing()
    for (const request of tenants.flat()) await connections.send(request, looked, 0)
    for (const [what, count] of looked.failures) print(row('', `${count} × ${what}`))
    print(
      row(
        `the ${look} look at each page, one after the other`,
        `${((performance.now() - begin) / 1000).toFixed(1)} s`,
      ),
    )
  }
  const seen = nothing()
  const end = performance.now() + seconds * 1000
  const view = async (viewer: number) => {
    const page = must(tenants[viewer % TENANTS], 'a tenant')
    for (let due = performance.now() + (PAGE_MS * viewer) / viewers; due < end; due += PAGE_MS) {
      await sleep(due - performance.now())
      await Promise.all(page.map(request => connections.send(request, seen, due)))
      // Who waited longer than a page's time looks again at once.
      while (due + PAGE_MS < performance.now()) due += PAGE_MS
    }
  }
  await measured(load, seen, () => Promise.all(Array.from({ length: viewers }, (_, one) => view(one))))
  connections.close()
  await setAccessControl(load, false)
}

/** Policies hide rows only where access is controlled. */
async function setAccessControl({ server, pool }: Load, isOn: boolean): Promise<void> {
  const { errors } = await server.graphql(`mutation { modifyDataPool(input: {
    idOrUniqueName: { id: "${pool.poolId}" }, accessControlEnabled: ${isOn} }) { __typename } }`)
  if (errors !== undefined) throw new Error(JSON.stringify(errors))
}

/** The token of a new application that sees one tenant's rows. */
async function viewerOf(server: TestServer, poolId: string, tenant: string): Promise<string> {
  const { data } = await server.graphql<{
    createApplication: { application: { id: string; clientId: string; secret: string } }
    createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } }
  }>(`mutation {
    createApplication(input: { propeller: P1_X_LARGE, scopes: [DATA_POOL_QUERY] }) {
      ... on ApplicationResponse { application { id clientId secret } } }
    createDataPoolAccessPolicy(input: { dataPool: "${poolId}", columns: ["*"],
      filterSql: "tenant = '${tenant}'" }) { dataPoolAccessPolicy { id } } }`)
  const { id, clientId, secret } = data.createApplication.application
  const policy = data.createDataPoolAccessPolicy.dataPoolAccessPolicy.id
  await server.graphql(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "${id}") }`,
  )
  const form = { grant_type: 'client_credentials', client_id: clientId, client_secret: secret }
  const body = new URLSearchParams(form)
  const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body })
  return ((await answer.json()) as { access_token: string }).access_token
}

function graphqlRequest(server: TestServer, token: string, query: string, input: object): Uint8Array {
  const body = JSON.stringify({ query, variables: { input } })
  const head = requestHead(
    'POST',
    `${server.base}/graphql`,
    Buffer.byteLength(body),
    `Authorization: Bearer ${token}\r\n`,
  )
  return Buffer.from(head + body)
}

async function counter(load: Load): Promise<void> {
  const { server, pool, seconds } = load
  const filters = [{ column: 'type', operator: 'EQUALS', value: 'order.paid' }]
  const sum = { sum: { dataPool: { id: pool.poolId }, measure: { columnName: 'amount' } } }
  const document = 'query ($input: CounterInput!) { counter(input: $input) { value } }'
  const request = graphqlRequest(server, await application(server, 'P1_X_LARGE'), document, {
    metric: sum,
    filters,
  })
  print(`\n${COUNTER_CLIENTS} clients of one counter, beside an event each ${TRICKLE_MS} ms`)
  const connections = new Connections(server.base)
  const seen = nothing()
  const end = performance.now() + seconds * 1000
  const ask = async () => {
    while (performance.now() < end) await connections.send(request, seen, performance.now())
  }
  const trickle = { ...load, rate: 1000 / TRICKLE_MS, pattern: 'new' as const }
  await measured(trickle, seen, () => Promise.all(Array.from({ length: COUNTER_CLIENTS }, ask)))
  connections.close()
}

/** Runs the questions beside the events, and prints what was seen. */
async function measured(load: Load, seen: Seen, ask: () => Promise<unknown>): Promise<void> {
  const { server, seconds } = load
  const pid = must(server.child.pid, 'a process')
  const acks: number[] = []
  const end = performance.now() + seconds * 1000
  const before = threadTimes(pid)
  const pageBefore = await scrape(server.base)
  const memoryMax = watchMemory(pid, 250, ({ anonymous, shared }) => anonymous + shared)
  const begin = performance.now()
  const posting = postEvents(load, end, acks)
  await ask()
  await posting
  const took = (performance.now() - begin) / 1000
  const page = await scrape(server.base)
  const counted = (name: string) => short(page.sum(name) - pageBefore.sum(name))
  const failed = [...seen.failures.values()].reduce((sum, one) => sum + one, 0)
  print(row('answers a second', (seen.ms.length / took).toFixed(0)))
  print(row('answers', `${seen.ms.length}, ${latencies(seen.ms)}`))
  print(row('refused (429), failed', `${seen.refused}, ${failed}`))
  for (const [what, count] of seen.failures) print(row('', `${count} × ${what}`))
  print(row('acks', `${acks.length}, ${latencies(acks)}, p99.9 ${quantileOf(acks, 0.999).toFixed(0)} ms`))
  print(
    row(
      'runs of the engine, kept answers given',
      `${counted('weir_query_runs')}, ${counted('weir_answer_cache_hits')}`,
    ),
  )
  print(row('CPU', cpuByThread(pid, before)))
  const now = memory(pid)
  print(row('memory', `${short(memoryMax())}B at most, ${short(now.anonymous + now.shared)}B at the end`))
  print(row('segments', `${page.value('weir_segments')}`))
}

let posted = 0

async function postEvents({ pool, rows, events, rate, pattern }: Load, end: number, acks: number[]) {
  const random = createRandom(posted + 1)
  const perHour = Math.ceil(rows / (30 * 24))
  const batch = Math.max(1, Math.min(BATCH, rate / 50))
  const updated = () => Math.floor(rows + posted - 1 - random() * (pattern === 'recent' ? perHour : rows))
  await everyMs((1000 * batch) / rate, end, async () => {
    const bodies = Array.from({ length: batch }, (_, at) => {
      const isUpdate = pattern !== 'new' && batch > 1 && at < batch * UPDATES_SHARE
      return isUpdate ? events(Math.max(0, updated()), 1) : events(rows + posted++, 0)
    })
    const begin = performance.now()
    const answer = await fetch(pool.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `[${bodies.join(',')}]`,
    })
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`POST answered ${answer.status}`)
    acks.push(performance.now() - begin)
  })
}
