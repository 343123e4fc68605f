/**
 * `path`, batches (P-1): acknowledged events/s and events per CPU-second of the server, for Weir,
 * ClickHouse and PostgreSQL.
 *
 * Weir's CPU counts until all rows are flushed and a counter equals the acknowledged events. Its
 * peers' CPU counts until the load ends, without their later merges, vacuum and write-back.
 * ClickHouse neither syncs nor checks keys.
 */
import { join } from 'node:path'
import { BATCH_EVENTS } from './events.ts'
import { type LoadResult, runLoad, runNode } from './load.ts'
import {
  cpuByThread,
  cpuSeconds,
  folderBytes,
  median,
  memory,
  print,
  row,
  short,
  threadTimes,
} from './measure.ts'
import type { PathSettings } from './path.ts'
import { agreed, errorsOf, onFreshWeir, settled, watchServerMemory } from './path-runs.ts'
import { hasClickHouse, startClickHouse } from './peers/clickhouse.ts'
import { hasPostgres, startPostgres } from './peers/postgres.ts'

export interface Run {
  readonly eventsPerSecond: number
  readonly eventsPerCpuSecond: number
}

interface Participant {
  readonly name: string
  readonly runs: Run[]
  run(settings: PathSettings, pair: number): Promise<Run>
}

/** Backends on few cores wait for each other: 8, 16 and 32 were equally fast, 4 slower. */
const POSTGRES_CONNECTIONS = 16
const CLICKHOUSE_CONNECTIONS = 64
const GOAL = 4

/** Runs the pairs and prints figures and ratios. Resolves with Weir's median rate. */
export async function batches(settings: PathSettings): Promise<number> {
  print(
    `path, batches: ${BATCH_EVENTS} events a request, ${settings.connections} connections, ${settings.seconds} s, ${settings.pairs} pairs`,
  )
  const weir: Participant = { name: 'Weir', runs: [], run: weirBatches }
  const peers = settings.isWithPeers ? installedPeers() : []
  if (peers.length === 0) print(row('no peer', settings.isWithPeers ? 'none is installed' : '--no-peers'))
  else print(row('order', orderOf(settings.pairs, [weir, ...peers])))
  for (let pair = 0; pair < settings.pairs; pair += 1) {
    for (const one of inTurn(pair, [weir, ...peers])) one.runs.push(await one.run(settings, pair))
    if (peers.length > 0)
      print(row(`pair ${pair + 1}, Weir against`, peers.map(peer => ratioOf(weir, peer, pair)).join('; ')))
  }
  for (const one of [weir, ...peers]) print(row(`${one.name}, median`, figures(medianOf(one.runs))))
  if (peers.length > 0) printRatio(weir, peers)
  return medianOf(weir.runs).eventsPerSecond
}

function installedPeers(): Participant[] {
  const peers: Participant[] = []
  if (hasClickHouse()) peers.push({ name: 'ClickHouse', runs: [], run: clickHouseBatches })
  else print(row('no ClickHouse', 'clickhouse-server is not installed (apt-get install clickhouse-server)'))
  if (hasPostgres()) peers.push({ name: 'PostgreSQL', runs: [], run: postgresBatches })
  else print(row('no PostgreSQL', 'it is not installed (apt-get install postgresql)'))
  return peers
}

/** A B C, then C B A, and so on. */
function inTurn<T>(pair: number, all: readonly T[]): T[] {
  return pair % 2 === 0 ? [...all] : [...all].reverse()
}

function orderOf(pairs: number, all: readonly Participant[]): string {
  return Array.from({ length: pairs }, (_, pair) =>
    inTurn(
      pair,
      all.map(one => one.name),
    ).join(' '),
  ).join(', ')
}

function medianOf(runs: readonly Run[]): Run {
  return {
    eventsPerSecond: median(runs.map(one => one.eventsPerSecond)),
    eventsPerCpuSecond: median(runs.map(one => one.eventsPerCpuSecond)),
  }
}

function figures(run: Run): string {
  return `${short(run.eventsPerSecond)} events/s, ${short(run.eventsPerCpuSecond)} per CPU-second of the server`
}

function ratioOf(weir: Participant, peer: Participant, pair: number): string {
  const [ours, theirs] = [weir.runs[pair]!, peer.runs[pair]!]
  const rate = (ours.eventsPerSecond / theirs.eventsPerSecond).toFixed(2)
  const perCpu = (ours.eventsPerCpuSecond / theirs.eventsPerCpuSecond).toFixed(2)
  return `${peer.name} ${rate} × (${perCpu} × per CPU-second)`
}

/** Prints the ratio to the better peer of each pair, in events/s and per CPU-second (P-1). */
function printRatio(weir: Participant, peers: readonly Participant[]): void {
  const ratio = (of: (run: Run) => number) =>
    median(weir.runs.map((ours, pair) => of(ours) / Math.max(...peers.map(peer => of(peer.runs[pair]!)))))
  const [rate, perCpu] = [ratio(one => one.eventsPerSecond), ratio(one => one.eventsPerCpuSecond)]
  const verdict = Math.min(rate, perCpu) >= GOAL ? 'met' : 'MISSED'
  print(
    row(
      'ratio to the better peer, median of the pairs',
      `${rate.toFixed(2)} × in events/s, ${perCpu.toFixed(2)} × per CPU-second (goal of P-1: ${GOAL} in both: ${verdict})`,
    ),
  )
}

/** One run of Weir; `pair` is part of every id. */
export function weirBatches(settings: PathSettings, pair: number): Promise<Run> {
  return onFreshWeir(settings, async (server, pool) => {
    const pid = server.child.pid as number
    const stopMemory = watchServerMemory(pid)
    const before = { cpu: cpuSeconds(pid), threads: threadTimes(pid) }
    const load = await runLoad({
      url: pool.url,
      events: BATCH_EVENTS,
      connections: settings.connections,
      seconds: settings.seconds,
      producer: pair,
      form: 'array',
      generator: settings.generators.batches,
    })
    const loadEnd = performance.now()
    const accepted = await agreed(server, pool)
    const countMs = performance.now() - loadEnd
    const cpu = cpuSeconds(pid) - before.cpu
    const run = report(`Weir ${pair + 1}`, load, cpu, stopMemory(), accepted)
    print(row('', `a counter equals ${accepted} acknowledged ${countMs.toFixed(0)} ms after the load`))
    const bytes = ['segment', 'index', 'log'].map(
      name => `${name} ${short(folderBytes(join(server.dataDir, name)))}B`,
    )
    print(row('', `on disk: ${bytes.join(', ')}`))
    print(row('', `CPU by thread: ${cpuByThread(pid, before.threads)}`))
    return run
  })
}

function report(
  name: string,
  load: LoadResult,
  cpu: number,
  memoryBytes: number,
  events = load.requests * BATCH_EVENTS,
): Run {
  const run = {
    eventsPerSecond: (load.requests * BATCH_EVENTS) / load.seconds,
    eventsPerCpuSecond: events / Math.max(0.01, cpu),
  }
  const acks = `ack p50 ${load.p50Ms.toFixed(1)} ms, p99 ${load.p99Ms.toFixed(1)} ms, max ${load.maxMs.toFixed(0)} ms`
  print(row(name, `${short(run.eventsPerSecond)} events/s, ${acks}, ${errorsOf(load.errors)}`))
  print(
    row(
      '',
      `server CPU ${cpu.toFixed(1)} s (${short(run.eventsPerCpuSecond)} events per CPU-second), generator (${load.generator}) CPU ${load.cpuSeconds.toFixed(1)} s, memory ${short(memoryBytes)}B`,
    ),
  )
  return run
}

async function clickHouseBatches(settings: PathSettings, pair: number): Promise<Run> {
  await settled(settings)
  const peer = await startClickHouse()
  try {
    const cpuBefore = cpuSeconds(peer.pid)
    const load = await runLoad({
      url: peer.url,
      events: BATCH_EVENTS,
      connections: Math.min(settings.connections, CLICKHOUSE_CONNECTIONS),
      seconds: settings.seconds,
      producer: pair,
      form: 'lines',
      generator: settings.generators.batches,
    })
    const { anonymous, shared } = memory(peer.pid)
    const cpu = cpuSeconds(peer.pid) - cpuBefore
    await peer.checkRows(load.requests * BATCH_EVENTS)
    return report(`ClickHouse ${pair + 1}`, load, cpu, anonymous + shared)
  } finally {
    await peer.stop()
  }
}

async function postgresBatches(settings: PathSettings, pair: number): Promise<Run> {
  await settled(settings)
  const peer = await startPostgres()
  try {
    const cpuBefore = cpuSeconds(peer.pid)
    const load = await runNode(peer.target, {
      events: BATCH_EVENTS,
      connections: Math.min(settings.connections, POSTGRES_CONNECTIONS),
      seconds: settings.seconds,
      producer: pair,
      form: 'array',
      generator: 'node',
    })
    const { anonymous, shared } = memory(peer.pid)
    const cpu = cpuSeconds(peer.pid) - cpuBefore
    await peer.checkRows(load.requests * BATCH_EVENTS)
    return report(`PostgreSQL ${pair + 1}`, load, cpu, anonymous + shared)
  } finally {
    await peer.stop()
  }
}
