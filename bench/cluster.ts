/**
 * A shard of three replicas of ClickHouse 26.9 with one node of Weir, all on this machine, beside
 * the same servers alone:
 *
 *   Weir         requests of 500 events to a webhook
 *   ClickHouse   the same events with their text as JSONEachRow, with the same quorum and syncs, a
 *                third of the requests to each replica
 *   pools        each posts one event after the other's answer: acks, and where 429 begins
 *
 * CPU is that of all processes of a kind over the run, with what they take when idle: nodes,
 * servers, Keeper.
 */
import { DURABLE_VALUES } from '../src/cluster/clickhouse/table.ts'
import { endAll } from '../test/cluster/at-end.ts'
import { noModernServers, startCluster, type TestCluster } from '../test/cluster/nodes.ts'
import { send, type TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS } from './events.ts'
import { generate } from './generator.ts'
import { cpuSeconds, latencies, median, print, row, short } from './measure.ts'
import { numberOf } from './options.ts'
import { Body, template } from './template.ts'
import { keyedPool } from './weir.ts'

interface ClusterOptions {
  readonly seconds?: string
  readonly connections?: string
  readonly pairs?: string
  readonly pools?: string
}

interface Settings {
  readonly seconds: number
  readonly connections: number
  readonly pairs: number
  readonly pools: number
}

export async function benchCluster(given: ClusterOptions): Promise<boolean> {
  if (noModernServers !== undefined) {
    print(`NOT MEASURED: ${noModernServers}`)
    return false
  }
  const settings = {
    seconds: numberOf('seconds', given.seconds, 10),
    connections: numberOf('connections', given.connections, 16),
    pairs: numberOf('pairs', given.pairs, 3),
    pools: numberOf('pools', given.pools, 400),
  }
  try {
    const cluster = await startCluster({ shards: 1, replicas: 3 })
    const node = await cluster.node()
    await idle(cluster, node, settings)
    await comparePaths(cluster, node, settings)
    await activePools(node, settings)
    await node.stop()
  } finally {
    await endAll()
  }
  return true
}

/** CPU seconds by kind of process. */
function cpuOf(
  cluster: TestCluster,
  node: TestServer,
): readonly [node: number, servers: number, keeper: number] {
  const of = (child: { readonly pid?: number | undefined }) => cpuSeconds(child.pid as number)
  return [
    of(node.child),
    cluster.servers.reduce((sum, { child }) => sum + of(child), 0),
    of(cluster.zookeeper.child),
  ]
}

/** What the processes take while nobody asks anything. */
async function idle(cluster: TestCluster, node: TestServer, { seconds }: Settings): Promise<void> {
  const before = cpuOf(cluster, node)
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
  const [own, servers, keeper] = cpuOf(cluster, node).map((cpu, index) =>
    (((cpu - before[index]!) / seconds) * 100).toFixed(1),
  )
  print(row('idle', `of one core: node ${own} %, servers ${servers} %, Keeper ${keeper} %`))
}

async function comparePaths(cluster: TestCluster, node: TestServer, settings: Settings): Promise<void> {
  const pool = await keyedPool(node)
  const urls = await peerTables(cluster)
  const ratios: number[] = []
  for (let pair = 0; pair < settings.pairs; pair += 1) {
    const weir = await measured('Weir', cluster, node, () => ingest(pool.url, pair, settings))
    const alone = await measured('ClickHouse', cluster, node, () => insertAlone(urls, pair, settings))
    ratios.push(weir / alone)
  }
  print(
    row(
      'CPU of Weir / alone',
      `${median(ratios).toFixed(2)} x (${ratios.map(each => each.toFixed(2)).join(', ')})`,
    ),
  )
}

interface Ingested {
  readonly events: number
  readonly seconds: number
  readonly text: string
}

/** µs of CPU an event, of all processes. */
async function measured(
  name: string,
  cluster: TestCluster,
  node: TestServer,
  run: () => Promise<Ingested>,
): Promise<number> {
  const before = cpuOf(cluster, node)
  const { events, seconds, text } = await run()
  const parts = cpuOf(cluster, node).map((cpu, index) => ((cpu - before[index]!) * 1e6) / events)
  const [own, servers, keeper] = parts.map(us => us.toFixed(1))
  const sum = parts.reduce((all, us) => all + us, 0)
  print(
    row(
      name,
      `${short(events / seconds)} events/s, ${sum.toFixed(1)} us of CPU an event (node ${own}, servers ${servers}, Keeper ${keeper}), ${text}`,
    ),
  )
  return sum
}

async function ingest(url: string, pair: number, { seconds, connections }: Settings): Promise<Ingested> {
  const producer = 1 + pair
  const target = { kind: 'http', url } as const
  const done = await generate({ target, events: BATCH_EVENTS, connections, seconds, producer, form: 'array' })
  const { p50Ms, p99Ms } = done.sent
  const errors = JSON.stringify(done.errors)
  return {
    events: done.requests * BATCH_EVENTS,
    seconds: done.seconds,
    text: `acks p50 ${p50Ms.toFixed(0)} ms, p99 ${p99Ms.toFixed(0)} ms${errors === '{}' ? '' : `, errors ${errors}`}`,
  }
}

/** The same columns and the text, in tables that are replicated and synced as Weir's are. */
async function peerTables({ servers }: TestCluster): Promise<readonly string[]> {
  for (const server of servers)
    await server.query(
      `CREATE TABLE alone (id String, time String, tenant String, type String, amount Float64, quantity Int64, payload String)
       ENGINE = ReplicatedReplacingMergeTree('/alone', '{replica}') ORDER BY (time, id)
       SETTINGS ${DURABLE_VALUES}`,
    )
  const insert = encodeURIComponent('INSERT INTO alone FORMAT JSONEachRow')
  const settings = 'input_format_skip_unknown_fields=1&insert_quorum=2&insert_quorum_parallel=1'
  return servers.map(({ httpPort }) => `http://127.0.0.1:${httpPort}/?query=${insert}&${settings}`)
}

async function insertAlone(
  urls: readonly string[],
  pair: number,
  { seconds, connections }: Settings,
): Promise<Ingested> {
  const text = template(BATCH_EVENTS, 'payload')
  const beganMs = performance.now()
  const endMs = beganMs + seconds * 1000
  const times: number[] = []
  await Promise.all(
    Array.from({ length: connections }, async (_, connection) => {
      const url = urls[connection % urls.length]!
      const body = new Body(text, 1_000 * (1 + pair) + connection, '')
      for (let request = 1; performance.now() < endMs; request += 1) {
        body.set(request, Date.now())
        const sentMs = performance.now()
        const answer = await fetch(url, { method: 'POST', body: new Uint8Array(body.bytes) })
        const said = await answer.text()
        if (!answer.ok) throw new Error(said)
        times.push(performance.now() - sentMs)
      }
    }),
  )
  const took = (performance.now() - beganMs) / 1000
  return { events: times.length * BATCH_EVENTS, seconds: took, text: `acks ${latencies(times)}` }
}

/** More and more pools, each with one event under way. */
async function activePools(node: TestServer, { pools, seconds }: Settings): Promise<void> {
  const made: string[] = []
  for (let count = 25; count <= pools; count *= 2) {
    while (made.length < count)
      made.push((await node.createPool({ ...POOL, uniqueName: `active ${made.length}` })).url)
    const times: number[] = []
    const refused = { count: 0 }
    const endMs = performance.now() + seconds * 1000
    await Promise.all(
      made.map(async (url, index) => {
        for (let n = 0; performance.now() < endMs; n += 1) {
          const sentMs = performance.now()
          const event = { id: `${index}-${n}-${sentMs}`, at: '2026-01-01T00:00:00Z' }
          const { status } = await send(url, event)
          if (status === 200) times.push(performance.now() - sentMs)
          else refused.count += 1
        }
      }),
    )
    print(
      row(
        `${count} active pools`,
        `${short(times.length / seconds)} events/s, acks ${latencies(times)}, ${refused.count} refused`,
      ),
    )
  }
}

const POOL = {
  timestamp: 'at',
  uniqueId: 'id',
  columns: [
    { name: 'at', type: 'TIMESTAMP', jsonProperty: 'at', nullable: false },
    { name: 'id', type: 'STRING', jsonProperty: 'id', nullable: false },
  ],
} as const
