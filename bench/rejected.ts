/**
 * Question: what do refused events cost, those who send them and those beside them?
 *
 *   half      batches of 250 good events, alone and with 250 bad ones that are counted or kept
 *   garbage   a paced sender of good single events, alone and beside one that sends nothing but bad
 *             batches as fast as it can
 *
 * `rejected-rows` are rows of weir_rejected_events; what is beyond the limit is left out.
 */
import { join } from 'node:path'
import { createSource, type Source } from '../test/util/senders.ts'
import type { TestServer } from '../test/util/server.ts'
import { Connection, closedLoop, requestHead } from './connection.ts'
import { BENCH_COLUMNS, BENCH_SEED, benchEvent, createRandom } from './events.ts'
import { benchFolder } from './leftovers.ts'
import {
  cpuSeconds,
  everyMs,
  folderBytes,
  latencies,
  median,
  memory,
  print,
  row,
  short,
  sleep,
} from './measure.ts'
import { numberOf } from './options.ts'
import { scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface RejectedOptions {
  readonly seconds?: string | undefined
  readonly minutes?: string | undefined
  readonly pairs?: string | undefined
  readonly connections?: string | undefined
}

const EVENTS = 250
/** Distinct bodies. They come again, and update their records. */
const BODIES = 400
const COLUMNS = { columns: [...BENCH_COLUMNS], timestamp: 'time', uniqueId: 'id', tenant: 'tenant' }
/** The statuses of requests with bad events: 400 where all of them are bad. */
const REFUSES = [200, 400]
/** A good single event each: 500 a second. */
const PACE_MS = 2

/** Runs `half` for `seconds` (10) in `pairs` (3) rounds, and `garbage` for `minutes` (10). */
export async function benchRejected(options: RejectedOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 10)
  const minutes = numberOf('minutes', options.minutes, 10)
  const rounds = numberOf('pairs', options.pairs, 3)
  const connections = numberOf('connections', options.connections, 64)
  await half(seconds, rounds, connections)
  await garbage(minutes, connections)
}

const KINDS = ['good alone', 'half bad, counted', 'half bad, kept'] as const
type Kind = (typeof KINDS)[number]

async function half(seconds: number, rounds: number, connections: number): Promise<void> {
  print(
    `rejected, half: ${EVENTS} good events a request, ${connections} connections, ${seconds} s, ${rounds} rounds`,
  )
  const rates = new Map<Kind, number[]>(KINDS.map(kind => [kind, []]))
  for (let round = 0; round < rounds; round += 1)
    for (const kind of round % 2 === 0 ? KINDS : [...KINDS].reverse())
      rates.get(kind)?.push(await goodPerSecond(kind, seconds, connections))
  const alone = median(rates.get('good alone') ?? [])
  for (const kind of KINDS.slice(1)) {
    const counted = median(rates.get(kind) ?? [])
    print(row(`${kind}, against alone`, `${(counted / alone).toFixed(2)} × the good events`))
  }
  const [counted, kept] = [KINDS[1], KINDS[2]].map(kind => median(rates.get(kind) ?? []))
  print(row('kept, against counted', `${(kept! / counted!).toFixed(2)} × the good events`))
}

async function goodPerSecond(kind: Kind, seconds: number, connections: number): Promise<number> {
  const server = await startWeir({ dataDir: join(benchFolder('weir-rejected-'), 'data') })
  try {
    const source = await createSource(server.graphql, {
      ...COLUMNS,
      rejectedEvents: kind === 'half bad, counted' ? 'COUNT' : 'KEEP',
    })
    const bodies = bodiesOf(source, EVENTS, kind === 'good alone' ? 0 : EVENTS)
    await closedLoop(source.url, bodies, 1, connections, REFUSES)
    const pid = server.child.pid as number
    const before = cpuSeconds(pid)
    const ms = await closedLoop(source.url, bodies, seconds, connections, REFUSES)
    const rate = (ms.length * EVENTS) / seconds
    const cpu = ((cpuSeconds(pid) - before) * 1e6) / ms.length
    print(row(kind, `${short(rate)} good events/s, ${latencies(ms)}, ${cpu.toFixed(0)} µs of CPU a request`))
    if (kind !== 'good alone') print(row('', await rejectedRows(server)))
    return rate
  } finally {
    await server.stop()
  }
}

async function garbage(minutes: number, connections: number): Promise<void> {
  print(
    `rejected, garbage: 500 good events/s beside bad batches from ${connections} connections, ${minutes} min`,
  )
  const dataDir = join(benchFolder('weir-rejected-'), 'data')
  const server = await startWeir({ dataDir })
  try {
    const good = await createSource(server.graphql, COLUMNS)
    const bad = await createSource(server.graphql, COLUMNS)
    const paced = (seconds: number) => pacedLoop(good.url, bodiesOf(good, 1, 0), seconds)
    await paced(1)
    print(row('good alone', latencies(await paced(Math.min(60, minutes * 60)))))
    const bodies = bodiesOf(bad, 0, 2 * EVENTS)
    const [ms, sent] = await Promise.all([
      paced(minutes * 60),
      closedLoop(bad.url, bodies, minutes * 60, connections, REFUSES),
    ])
    print(row('good beside garbage', latencies(ms)))
    const { anonymous, shared } = memory(server.child.pid as number)
    print(row('garbage', `${short((sent.length * 2 * EVENTS) / (minutes * 60))} bad events/s refused`))
    await sleep(1_000) // the last ones reach their pool
    print(row('', await rejectedRows(server)))
    const bytes = (name: string) => short(folderBytes(join(dataDir, name)))
    print(
      row(
        'at the end',
        `memory ${short(anonymous + shared)}B, log ${bytes('log')}B, segments ${bytes('segment')}B, index ${bytes('index')}B`,
      ),
    )
  } finally {
    const { output } = await server.stop()
    const told = output.split('\n').filter(line => line.includes('refused in a minute'))
    print(row('told in the log', `${told.length} lines; the last: ${told.at(-1) ?? 'none'}`))
  }
}

async function rejectedRows(server: TestServer): Promise<string> {
  const page = await scrape(server.base)
  const kept = page.sum('weir_rejected_rows_total', 'kept')
  return `rejected-rows: ${kept} kept, ${page.sum('weir_rejected_rows_total', 'left_out')} left out by workers`
}

/** Requests of `good` events and `bad` ones, whose measure is a text. */
function bodiesOf({ url }: Source, good: number, bad: number): readonly Buffer[] {
  const random = createRandom(BENCH_SEED)
  return Array.from({ length: BODIES }, (_, body) => {
    const events = Array.from({ length: good + bad }, (_event, index) => {
      const event = benchEvent(body * (good + bad) + index, random)
      return index < good ? event : JSON.stringify({ ...(JSON.parse(event) as object), time: 'no time' })
    })
    const text = `[${events.join()}]`
    return Buffer.from(requestHead('POST', url, Buffer.byteLength(text)) + text)
  })
}

async function pacedLoop(url: string, requests: readonly Buffer[], seconds: number): Promise<number[]> {
  const ms: number[] = []
  const free = Array.from({ length: 32 }, () => new Connection(url))
  const all = [...free]
  let sent = 0
  await everyMs(PACE_MS, performance.now() + seconds * 1000, async () => {
    const connection = free.pop()
    if (connection === undefined) throw new Error('32 good events wait for their answers')
    const begin = performance.now()
    const status = await connection.send(requests[sent++ % requests.length]!)
    if (status !== 200) throw new Error(`the server answers ${status}`)
    ms.push(performance.now() - begin)
    free.push(connection)
  })
  for (const connection of all) connection.close()
  return ms
}
