/** `path`, singles (P-2): one event a request, against uWebSockets.js that drops the body. */
import { type LoadResult, runLoad } from './load.ts'
import { median, print, row, short } from './measure.ts'
import type { PathPlan } from './path.ts'
import { agreed, errorsOf, onFreshWeir, settled } from './path-runs.ts'
import { startDropServer } from './peers/drop.ts'

const CONNECTIONS = 64
const GOAL = 0.5

/** Runs the pairs, A B, B A, … */
export async function singles(plan: PathPlan): Promise<void> {
  print(
    `path, singles: 1 event a request, ${CONNECTIONS} connections, ${plan.seconds} s, ${plan.pairs} pairs`,
  )
  const ratios: number[] = []
  for (let pair = 0; pair < plan.pairs; pair += 1) {
    let [ours, theirs] = [0, 0]
    if (pair % 2 === 0) ours = await weirSingles(plan, pair)
    theirs = await dropped(plan, pair)
    if (pair % 2 === 1) ours = await weirSingles(plan, pair)
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

function single(plan: PathPlan, url: string, producer: number): Promise<LoadResult> {
  const { seconds, generators } = plan
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

function weirSingles(plan: PathPlan, pair: number): Promise<number> {
  return onFreshWeir(plan, async (server, pool) => {
    const load = await single(plan, pool.url, pair)
    await agreed(server, pool)
    return report(`Weir ${pair + 1}`, load)
  })
}

async function dropped(plan: PathPlan, pair: number): Promise<number> {
  await settled(plan)
  const drop = await startDropServer()
  try {
    return report(`uWebSockets.js dropping the body ${pair + 1}`, await single(plan, drop.url, pair))
  } finally {
    drop.stop()
  }
}
