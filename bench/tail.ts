/**
 * Question: what do readers of a live tail cost full ingest, and do they hear of every event?
 *
 * Full batches of distinct keys, alone and with `readers` tails of the pool, of which a fifth reads
 * nothing. What a reader saw and what it was told that it missed must be what was acknowledged.
 */
import { spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { fetchToken, type TestPool, type TestServer } from '../test/util/server.ts'
import { benchFolder, tracked } from './leftovers.ts'
import { type LoadResult, runLoad } from './load.ts'
import { cpuSeconds, print, row, short, sleep, watchMemory } from './measure.ts'
import { numberOf } from './options.ts'
import { errorsOf } from './path-runs.ts'
import { keyedPool, scrape, startWeir } from './weir.ts'

/** Options of the command line, as text. */
interface TailOptions {
  readonly seconds?: string | undefined
  readonly readers?: string | undefined
  readonly connections?: string | undefined
}

/** Runs each load for `seconds` (20) with `readers` (50) and `connections` (64) of producers. */
export async function benchTail(options: TailOptions): Promise<void> {
  const seconds = numberOf('seconds', options.seconds, 20)
  const readers = numberOf('readers', options.readers, 50)
  const connections = numberOf('connections', options.connections, 64)
  print(`tail: 500 events a request, ${connections} connections, ${seconds} s, ${readers} readers`)
  const server = await startWeir({ dataDir: join(benchFolder('weir-tail-'), 'data') })
  try {
    const pool = await keyedPool(server)
    const load = (producer: number) =>
      runLoad({
        url: pool.url,
        events: 500,
        connections,
        seconds,
        producer,
        form: 'array',
        generator: 'node',
      })
    await measured(server, 'no reader', () => load(1))
    const before = await acceptedEvents(server)
    const all = await openReaders(server, pool, readers)
    await measured(server, `${readers} readers, ${all.silent.length} read nothing`, () => load(2))
    const accepted = (await acceptedEvents(server)) - before
    await untilTold(all.reading, accepted)
    let [seen, told, wrong] = [0, 0, 0]
    for (const reader of all.reading) {
      seen += reader.seen
      told += reader.told
      if (reader.seen + reader.told !== accepted) wrong += 1
    }
    const of = all.reading.length
    print(
      row(
        'a reader',
        `saw ${short(seen / of)} and was told of ${short(told / of)} more, of ${short(accepted)}`,
      ),
    )
    if (wrong > 0) {
      print(row('', `${wrong} of ${of} readers DIFFER from the acknowledged events`))
      process.exitCode = 1
    }
    for (const socket of all.silent) socket.destroy()
    for (const reader of all.reading) reader.stop()
  } finally {
    await server.stop()
  }
}

async function measured(server: TestServer, name: string, load: () => Promise<LoadResult>): Promise<void> {
  const pid = server.child.pid as number
  const cpu = cpuSeconds(pid)
  const peak = watchMemory(pid, 500, ({ anonymous, shared }) => anonymous + shared)
  const { requests, seconds, p50Ms, p99Ms, errors } = await load()
  const bytes = peak()
  const rate = (requests * 500) / seconds
  const used = cpuSeconds(pid) - cpu
  print(
    row(
      name,
      `${short(rate)} events/s, ack p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms, ${errorsOf(errors)}, server CPU ${used.toFixed(1)} s, memory ${short(bytes)}B`,
    ),
  )
}

async function acceptedEvents(server: TestServer): Promise<number> {
  await sleep(1_000) // bodies in flight when the generator closed its connections
  return (await scrape(server.base)).sum('weir_events_total', 'result="accepted"')
}

interface Reading {
  seen: number
  told: number
  stop(): void
}

/** Readers run in a process of their own; those that read nothing are sockets of this one. */
async function openReaders(server: TestServer, pool: TestPool, readers: number) {
  const { hostname, port } = new URL(server.base)
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const silentCount = Math.floor(readers / 5)
  const silent: Socket[] = []
  for (let index = 0; index < silentCount; index += 1) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => undefined)
    socket.write(
      `GET /v1/pools/${pool.poolId}/tail HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n\r\n`,
    )
    await new Promise<void>(resolve => socket.once('data', () => resolve()))
    socket.pause()
    silent.push(socket)
  }
  const url = `${server.base}/v1/pools/${pool.poolId}/tail`
  const reading = await startReaders(url, authorization, readers - silentCount)
  return { silent, reading }
}

const READERS_PROGRAM = `
const [url, authorization, count] = process.argv.slice(1)
const found = Array.from({ length: Number(count) }, () => ({ seen: 0, told: 0 }))
let connected = 0
for (const one of found) fetch(url, { headers: { authorization } }).then(async ({ status, body }) => {
  if (status !== 200) throw new Error('a tail is refused with ' + status)
  let rest = ''
  connected += 1
  if (connected === found.length) console.log('connected')
  for await (const chunk of body) {
    const events = (rest + Buffer.from(chunk).toString('latin1')).split('\\n\\n')
    rest = events.pop()
    for (const event of events) {
      if (event.startsWith('data: ')) one.seen += 1
      else if (event.startsWith('event: missed')) one.told += JSON.parse(event.slice(event.indexOf('data: ') + 6)).count
    }
  }
})
setInterval(() => console.log(JSON.stringify(found)), 500)
`

async function startReaders(url: string, authorization: string, count: number): Promise<Reading[]> {
  const child = tracked(
    spawn(process.execPath, ['-e', READERS_PROGRAM, url, authorization, String(count)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }),
  )
  const readings: Reading[] = Array.from({ length: count }, () => ({
    seen: 0,
    told: 0,
    stop: () => child.kill(),
  }))
  let rest = ''
  return new Promise(resolve => {
    child.stdout.on('data', (data: Buffer) => {
      const lines = (rest + data.toString()).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line === 'connected') resolve(readings)
        else
          for (const [index, one] of (JSON.parse(line) as { seen: number; told: number }[]).entries())
            Object.assign(readings[index]!, one)
      }
    })
  })
}

/** Waits until every reader has heard of all events, or for 10 s. */
async function untilTold(readings: readonly Reading[], accepted: number): Promise<void> {
  for (let tries = 0; tries < 20; tries += 1) {
    if (readings.every(({ seen, told }) => seen + told >= accepted)) return
    await sleep(500)
  }
}
