/**
 * `path`, singles (P-2): one event per request with 1, 64 and 1,024 connections: acks against one
 * sync of the device, and the rate with the most connections against uWebSockets.js in a process of
 * its own that reads bodies, drops them and answers 200.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { benchFolder, removeFolder, tracked } from './leftovers.ts'
import { type LoadResult, runLoad } from './load.ts'
import { cpuByThread, cpuSeconds, median, print, row, short, threadTimes } from './measure.ts'
import type { PathSettings } from './path.ts'
import { agreed, errorsOf, onFreshWeir, settled } from './path-runs.ts'

const CONNECTIONS = [1, 64, 1024] as const
const MOST = 1024
/** Of P-2: part of the dropping server's rate; syncs, and ms above one sync, of ack p50. */
const GOALS = { ratio: 0.5, syncs: 3, idleMs: 0.3 }
const SYNCS = 500
/** About what one event takes in the log. */
const SYNC_BYTES = 512

/** Runs the pairs: A B, B A, … */
export async function singles(settings: PathSettings): Promise<void> {
  const { seconds, pairs } = settings
  const counts = CONNECTIONS.map(String).join(', ')
  print(`path, singles: 1 event a request, ${counts} connections, ${seconds} s each, ${pairs} pairs`)
  const ratios: number[] = []
  const p50s = CONNECTIONS.map((): number[] => [])
  const syncs: number[] = []
  for (let pair = 0; pair < pairs; pair += 1) {
    syncs.push(await syncMs(settings))
    let [ours, theirs] = [0, 0]
    if (pair % 2 === 1) theirs = await dropped(settings, pair)
    for (const [index, connections] of CONNECTIONS.entries()) {
      const load = await weirSingles(settings, pair, connections)
      p50s[index]?.push(load.p50Ms)
      ours = load.requests / load.seconds
    }
    if (pair % 2 === 0) theirs = await dropped(settings, pair)
    ratios.push(ours / theirs)
    print(row(`pair ${pair + 1}, Weir against it`, `${(ours / theirs).toFixed(2)} ×`))
  }
  verdicts(median(ratios), median(syncs), p50s.map(median))
}

function verdicts(ratio: number, sync: number, [idle = 0, few = 0]: readonly number[]): void {
  const said = (isMet: boolean) => (isMet ? 'met' : 'MISSED')
  print(row('medians of the pairs', `one sync of the device ${sync.toFixed(2)} ms`))
  print(
    row(
      'ack p50, 1 connection',
      `${(idle - sync).toFixed(2)} ms above one sync (goal ${GOALS.idleMs}: ${said(idle - sync <= GOALS.idleMs)})`,
    ),
  )
  print(
    row(
      'ack p50, 64 connections',
      `${(few / sync).toFixed(1)} syncs (goal ${GOALS.syncs}: ${said(few / sync <= GOALS.syncs)})`,
    ),
  )
  print(
    row(
      `ratio, ${MOST} connections`,
      `${ratio.toFixed(2)} × (goal of P-2: ${GOALS.ratio}: ${said(ratio >= GOALS.ratio)})`,
    ),
  )
}

/** Median time of a small write and its sync, on the quiet disk. */
async function syncMs(settings: PathSettings): Promise<number> {
  await settled(settings)
  const folder = benchFolder('weir-sync-')
  const file = openSync(join(folder, 'file'), 'w')
  try {
    const bytes = Buffer.alloc(SYNC_BYTES)
    const times = Array.from({ length: SYNCS }, () => {
      const began = performance.now()
      writeSync(file, bytes)
      fdatasyncSync(file)
      return performance.now() - began
    })
    return median(times)
  } finally {
    closeSync(file)
    removeFolder(folder)
  }
}

function single(
  settings: PathSettings,
  url: string,
  producer: number,
  connections: number,
): Promise<LoadResult> {
  const { seconds, generators } = settings
  const generator = generators.singles
  return runLoad({ url, events: 1, connections, seconds, producer, form: 'array', generator })
}

function report(name: string, load: LoadResult): void {
  print(
    row(
      name,
      `${short(load.requests / load.seconds)} req/s, p50 ${load.p50Ms.toFixed(2)} ms, p99 ${load.p99Ms.toFixed(2)} ms, ${errorsOf(load.errors)}, generator (${load.generator}) CPU ${load.cpuSeconds.toFixed(1)} s`,
    ),
  )
}

function weirSingles(settings: PathSettings, pair: number, connections: number): Promise<LoadResult> {
  return onFreshWeir(settings, async (server, pool) => {
    const pid = server.child.pid as number
    const before = { cpu: cpuSeconds(pid), threads: threadTimes(pid) }
    const load = await single(settings, pool.url, pair, connections)
    const cpuUs = ((cpuSeconds(pid) - before.cpu) * 1e6) / Math.max(1, load.requests)
    const threads = cpuByThread(pid, before.threads)
    await agreed(server, pool)
    report(`Weir ${pair + 1}, ${connections} connections`, load)
    print(row('', `${cpuUs.toFixed(0)} µs of the server's CPU a request: ${threads}`))
    return load
  })
}

async function dropped(settings: PathSettings, pair: number): Promise<number> {
  await settled(settings)
  const drop = await startDropServer()
  try {
    const load = await single(settings, drop.url, pair, MOST)
    report(`uWebSockets.js dropping the body ${pair + 1}`, load)
    return load.requests / load.seconds
  } finally {
    drop.stop()
  }
}

const DROP_PROGRAM = `
const uWS = require('uWebSockets.js')
const body = '[{"statusCode":200,"statusMessage":"OK"}]'
uWS.App().post('/*', res => {
  res.onAborted(() => {})
  res.onData((chunk, last) => { if (last) res.cork(() => { res.writeHeader('content-type', 'application/json'); res.end(body) }) })
}).listen('127.0.0.1', 0, socket => console.log(uWS.us_socket_local_port(socket)))
`

/** Starts the dropping server. Its `url` takes any POST. */
async function startDropServer(): Promise<{ readonly url: string; stop(): void }> {
  const child = tracked(
    spawn(process.execPath, ['-e', DROP_PROGRAM], { stdio: ['ignore', 'pipe', 'inherit'] }),
  )
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { url: `http://127.0.0.1:${Number(line.toString())}/v1/x`, stop: () => void child.kill('SIGKILL') }
}
