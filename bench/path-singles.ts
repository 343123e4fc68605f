/**
 * `path`, singles (P-2): one event per request, against uWebSockets.js in a process of its own that
 * reads bodies, drops them and answers 200.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tracked } from './leftovers.ts'
import { type LoadResult, runLoad } from './load.ts'
import { median, print, row, short } from './measure.ts'
import type { PathSettings } from './path.ts'
import { agreed, errorsOf, onFreshWeir, settled } from './path-runs.ts'

const CONNECTIONS = 64
const GOAL = 0.5

/** Runs the pairs: A B, B A, … */
export async function singles(settings: PathSettings): Promise<void> {
  print(
    `path, singles: 1 event a request, ${CONNECTIONS} connections, ${settings.seconds} s, ${settings.pairs} pairs`,
  )
  const ratios: number[] = []
  for (let pair = 0; pair < settings.pairs; pair += 1) {
    let [ours, theirs] = [0, 0]
    if (pair % 2 === 0) ours = await weirSingles(settings, pair)
    theirs = await dropped(settings, pair)
    if (pair % 2 === 1) ours = await weirSingles(settings, pair)
    ratios.push(ours / theirs)
    print(row(`pair ${pair + 1}, Weir against it`, `${(ours / theirs).toFixed(2)} ×`))
  }
  const ratio = median(ratios)
  print(
    row(
      'ratio, median of the pairs',
      `${ratio.toFixed(2)} × (goal of P-2: ${GOAL}: ${ratio >= GOAL ? 'met' : 'MISSED'})`,
    ),
  )
}

function single(settings: PathSettings, url: string, producer: number): Promise<LoadResult> {
  const { seconds, generators } = settings
  const generator = generators.singles
  return runLoad({ url, events: 1, connections: CONNECTIONS, seconds, producer, form: 'array', generator })
}

function report(name: string, load: LoadResult): number {
  const rate = load.requests / load.seconds
  print(
    row(
      name,
      `${short(rate)} req/s, p50 ${load.p50Ms.toFixed(2)} ms, p99 ${load.p99Ms.toFixed(2)} ms, ${errorsOf(load.errors)}, generator (${load.generator}) CPU ${load.cpuSeconds.toFixed(1)} s`,
    ),
  )
  return rate
}

function weirSingles(settings: PathSettings, pair: number): Promise<number> {
  return onFreshWeir(settings, async (server, pool) => {
    const load = await single(settings, pool.url, pair)
    await agreed(server, pool)
    return report(`Weir ${pair + 1}`, load)
  })
}

async function dropped(settings: PathSettings, pair: number): Promise<number> {
  await settled(settings)
  const drop = await startDropServer()
  try {
    return report(`uWebSockets.js dropping the body ${pair + 1}`, await single(settings, drop.url, pair))
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
