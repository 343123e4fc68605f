/** `path`, http: both HTTP libraries in turn, full batches and single events, where both run. */
import { chooseTransport } from '../src/api/http/choose-transport.ts'
import { BATCH_EVENTS } from './events.ts'
import { runLoad } from './load.ts'
import { cpuSeconds, median, print, row, short } from './measure.ts'
import type { PathSettings } from './path.ts'
import { agreed, errorsOf, onFreshWeir } from './path-runs.ts'

const SINGLE_CONNECTIONS = 64
/** Rate of full batches over node:http, as a part of the rate over uWebSockets.js. */
const GOAL = 0.85

type Library = 'uws' | 'node'

/** Runs the pairs: uws node, node uws, … */
export async function bothLibraries(settings: PathSettings): Promise<void> {
  const { note, transport } = await chooseTransport('', '')
  if (transport.name === 'node') {
    print(row('HTTP libraries', `only node:http runs here. ${note}`))
    return
  }
  print(`path, http: both HTTP libraries, ${settings.seconds} s each, ${settings.pairs} pairs`)
  await compare(settings, 'full batches', BATCH_EVENTS, GOAL)
  await compare(settings, 'single events', 1)
}

/** @param goal the ratio to reach, where there is one */
async function compare(settings: PathSettings, what: string, events: number, goal?: number): Promise<void> {
  const ratios: number[] = []
  for (let pair = 0; pair < settings.pairs; pair += 1) {
    const order: readonly Library[] = pair % 2 === 0 ? ['uws', 'node'] : ['node', 'uws']
    const reached = { uws: 0, node: 0 }
    for (const library of order)
      reached[library] = await run(settings, library, `${what} ${pair + 1}`, events)
    ratios.push(reached.node / reached.uws)
  }
  const ratio = median(ratios)
  const verdict = goal === undefined ? '' : ` (goal ${goal}: ${ratio >= goal ? 'met' : 'MISSED'})`
  print(row(`${what}, node:http against uws`, `${ratio.toFixed(2)} ×, median of the pairs${verdict}`))
}

/** Events a second over one library. */
function run(settings: PathSettings, library: Library, name: string, events: number): Promise<number> {
  return onFreshWeir({ ...settings, http: library }, async (server, pool) => {
    const pid = server.child.pid as number
    const before = cpuSeconds(pid)
    const isSingle = events === 1
    const load = await runLoad({
      url: pool.url,
      events,
      connections: isSingle ? SINGLE_CONNECTIONS : settings.connections,
      seconds: settings.seconds,
      producer: 0,
      form: 'array',
      generator: isSingle ? settings.generators.singles : settings.generators.batches,
    })
    const cpu = cpuSeconds(pid) - before
    await agreed(server, pool)
    const rate = (load.requests * events) / load.seconds
    const acks = `ack p50 ${load.p50Ms.toFixed(1)} ms, p99 ${load.p99Ms.toFixed(1)} ms`
    const perCpu = `${short((load.requests * events) / Math.max(0.01, cpu))} per CPU-second of the server`
    print(row(`${name}, ${library}`, `${short(rate)} events/s, ${perCpu}, ${acks}, ${errorsOf(load.errors)}`))
    return rate
  })
}
