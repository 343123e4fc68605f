/**
 * Question: what does the whole path sustain on this machine, load generator included?
 *
 *   batches   full 500-event bodies, every key distinct, 6 unpacked columns, durable, sealing as it goes; then how long
 *             until a counter equals what was acknowledged. Against ClickHouse with the same events, in turn.
 *   singles   one event a request, 64 connections. Against uWebSockets.js that drops the body.
 *
 * Non-goals: several machines, TLS. Server and generator share the cores; the generator's CPU is reported apart.
 */
import { join } from 'node:path'
import { startServer, type TestPool, type TestServer } from '../test/util/server.ts'
import { BATCH_EVENTS, BENCH_COLUMNS } from './events.ts'
import { type LoadResult, runLoad } from './load.ts'
import { cpuByThread, cpuSeconds, folderBytes, median, memory, row, short } from './measure.ts'
import { type ClickHouse, hasClickHouse, startClickHouse } from './peers/clickhouse.ts'
import { startDropServer } from './peers/drop.ts'

/** Options of the command line, as text. */
export interface PathOptions {
  readonly seconds?: string | undefined
  readonly pairs?: string | undefined
  readonly connections?: string | undefined
  readonly kernel?: string | undefined
  readonly 'no-peers'?: boolean | undefined
  readonly only?: string | undefined
}

const print = (line: string) => void process.stdout.write(`${line}\n`)

interface Run {
  readonly eventsPerSecond: number
  readonly eventsPerCpuSecond: number
}

/** Runs both parts and prints figures and ratios. */
export async function benchPath(options: PathOptions): Promise<void> {
  const seconds = Number(options.seconds ?? 60)
  const pairs = Number(options.pairs ?? 3)
  const connections = Number(options.connections ?? 64)
  const peer = options['no-peers'] !== true && hasClickHouse()
  if (options.only !== 'singles') await batches(seconds, pairs, connections, peer, options.kernel)
  if (options.only !== 'batches') await singles(Math.min(seconds, 20), pairs, options)
}

async function batches(
  seconds: number,
  pairs: number,
  connections: number,
  peer: boolean,
  kernel: string | undefined,
) {
  print(
    `path, batches: ${BATCH_EVENTS} events a request, ${connections} connections, ${seconds} s, ${pairs} pairs`,
  )
  if (!peer) print('  no peer: clickhouse-server is not installed, or --no-peers')
  const ours: Run[] = []
  const theirs: Run[] = []
  for (let pair = 0; pair < pairs; pair += 1) {
    ours.push(await weirBatches(seconds, connections, pair, kernel))
    if (peer) theirs.push(await clickHouseBatches(seconds, connections, pair))
  }
  const rate = median(ours.map(one => one.eventsPerSecond))
  print(
    row(
      'Weir, median',
      `${short(rate)} events/s, ${short(median(ours.map(one => one.eventsPerCpuSecond)))} per CPU-second`,
    ),
  )
  if (theirs.length === 0) return
  print(row('ClickHouse, median', `${short(median(theirs.map(one => one.eventsPerSecond)))} events/s`))
  const ratio = (of: (run: Run) => number) =>
    median(ours.map((one, index) => of(one) / of(theirs[index]!))).toFixed(2)
  print(
    row(
      'ratio, median of the pairs',
      `${ratio(one => one.eventsPerSecond)} × in events/s, ${ratio(one => one.eventsPerCpuSecond)} × per CPU-second`,
    ),
  )
}

async function withServer<T>(
  kernel: string | undefined,
  work: (server: TestServer, pool: TestPool) => Promise<T>,
): Promise<T> {
  const server = await startServer({ args: kernel === undefined ? [] : ['--kernel', kernel] })
  try {
    const pool = await server.createPool({
      columns: [...BENCH_COLUMNS],
      timestamp: 'time',
      uniqueId: 'id',
      tenant: 'tenant',
    })
    return await work(server, pool)
  } finally {
    const end = await server.stop()
    if (end.code !== 0) print(`  the server ended with ${end.code ?? end.signal}:\n${end.output}`)
  }
}

function weirBatches(
  seconds: number,
  connections: number,
  producer: number,
  kernel: string | undefined,
): Promise<Run> {
  return withServer(kernel, async (server, pool) => {
    const pid = server.child.pid as number
    const memories = watchMemory(pid)
    const cpuBefore = cpuSeconds(pid)
    const load = await runLoad({
      url: pool.url,
      events: BATCH_EVENTS,
      connections,
      seconds,
      producer,
      form: 'array',
    })
    const cpu = cpuSeconds(pid) - cpuBefore
    const threads = cpuByThread(pid).slice(0, 8)
    const loadEnd = performance.now()
    const { accepted, counted } = await agreed(server, pool)
    const countMs = performance.now() - loadEnd
    report(`Weir ${producer + 1}`, load, cpu, memories.stop())
    print(
      row(
        '',
        `counter ${counted} ${counted === String(accepted) ? 'equals' : 'DIFFERS FROM'} ${accepted} acknowledged after ${countMs.toFixed(0)} ms`,
      ),
    )
    if (counted !== String(accepted)) print(server.output())
    const bytes = ['segment', 'index', 'log'].map(
      name => `${name} ${short(folderBytes(join(server.dataDir, name)))}B`,
    )
    print(row('', `on disk: ${bytes.join(', ')}`))
    print(
      row('', `CPU by thread: ${threads.map(one => `${one.name} ${one.seconds.toFixed(1)}s`).join(', ')}`),
    )
    return {
      eventsPerSecond: (load.requests * BATCH_EVENTS) / load.seconds,
      eventsPerCpuSecond: accepted / cpu,
    }
  })
}

/** Samples the server's memory each second and keeps the largest. */
function watchMemory(pid: number) {
  let largest = 0
  const look = () => {
    const now = memory(pid)
    largest = Math.max(largest, now.anonymous + now.shared)
  }
  const timer = setInterval(look, 1000)
  return {
    stop() {
      clearInterval(timer)
      look()
      return largest
    },
  }
}

/** Bodies in flight when the generator cut its connections are still accepted: both sides are asked until they agree. */
async function agreed(server: TestServer, pool: TestPool): Promise<{ accepted: number; counted: string }> {
  let accepted = await acceptedEvents(server)
  let counted = ''
  for (let tries = 0; tries < 100 && counted !== String(accepted); tries += 1) {
    counted = (await server.count(pool.poolId)) ?? ''
    accepted = await acceptedEvents(server)
  }
  return { accepted, counted }
}

/** What the server says it accepted. */
async function acceptedEvents(server: TestServer): Promise<number> {
  const text = await (await fetch(`${server.base}/metrics`)).text()
  const lines = text.matchAll(/^weir_events_total\{[^}]*result="accepted"[^}]*\} (\d+)/gm)
  return [...lines].reduce((sum, match) => sum + Number(match[1]), 0)
}

function report(name: string, load: LoadResult, cpu: number, memoryBytes: number): void {
  const events = load.requests * BATCH_EVENTS
  print(
    row(
      name,
      `${short(events / load.seconds)} events/s, ack p50 ${load.p50Ms.toFixed(1)} ms, p99 ${load.p99Ms.toFixed(1)} ms, max ${load.maxMs.toFixed(0)} ms, ${load.errors} errors`,
    ),
  )
  print(
    row(
      '',
      `server CPU ${cpu.toFixed(1)} s (${short(events / cpu)} events per CPU-second), generator CPU ${load.cpuSeconds.toFixed(1)} s, memory ${short(memoryBytes)}B`,
    ),
  )
}

async function clickHouseBatches(seconds: number, connections: number, producer: number): Promise<Run> {
  const peer: ClickHouse = await startClickHouse()
  try {
    const cpuBefore = cpuSeconds(peer.pid)
    const load = await runLoad({
      url: peer.url,
      events: BATCH_EVENTS,
      connections: Math.min(connections, 64),
      seconds,
      producer,
      form: 'lines',
    })
    const cpu = cpuSeconds(peer.pid) - cpuBefore
    const memories = memory(peer.pid)
    report(`ClickHouse ${producer + 1}`, load, cpu, memories.anonymous + memories.shared)
    const events = load.requests * BATCH_EVENTS
    return { eventsPerSecond: events / load.seconds, eventsPerCpuSecond: events / cpu }
  } finally {
    await peer.stop()
  }
}

async function singles(seconds: number, pairs: number, options: PathOptions) {
  print(`path, singles: 1 event a request, 64 connections, ${seconds} s, ${pairs} pairs`)
  const ours: number[] = []
  const theirs: number[] = []
  const single = { events: 1, connections: 64, seconds, form: 'array' as const }
  for (let pair = 0; pair < pairs; pair += 1) {
    const load = await withServer(options.kernel, async (server, pool) => {
      const result = await runLoad({ ...single, url: pool.url, producer: pair })
      const { accepted, counted } = await agreed(server, pool)
      if (String(accepted) !== counted) print(`  counter ${counted} DIFFERS FROM ${accepted} acknowledged`)
      return result
    })
    ours.push(load.requests / load.seconds)
    print(
      row(
        `Weir ${pair + 1}`,
        `${short(ours.at(-1)!)} req/s, p50 ${load.p50Ms.toFixed(2)} ms, p99 ${load.p99Ms.toFixed(2)} ms, ${load.errors} errors`,
      ),
    )
    const drop = await startDropServer()
    const bare = await runLoad({ ...single, url: drop.url, producer: pair })
    drop.stop()
    theirs.push(bare.requests / bare.seconds)
    print(
      row(
        `uWebSockets.js dropping the body ${pair + 1}`,
        `${short(theirs.at(-1)!)} req/s, p50 ${bare.p50Ms.toFixed(2)} ms, p99 ${bare.p99Ms.toFixed(2)} ms`,
      ),
    )
  }
  print(
    row(
      'ratio, median of the pairs',
      `${median(ours.map((one, index) => one / theirs[index]!)).toFixed(2)} ×`,
    ),
  )
}
