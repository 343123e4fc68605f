/** What the parts of `path` share: a run on a fresh server, and what is asked of it afterwards. */

import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { settleDisk } from './machine.ts'
import { memory, print, row } from './measure.ts'
import type { PathPlan } from './path.ts'
import { scrape } from './scrape.ts'
import { keyedPool, startWeir } from './weir.ts'

const AGREE_TRIES = 100

/** Waits until what came before a run costs it nothing any more. */
export async function settled({ pauseSeconds }: PathPlan): Promise<void> {
  const busy = await settleDisk(pauseSeconds)
  if (busy !== undefined) print(row('', `${busy}: the next figures may be too low`))
}

/** Runs `work` on a server with one pool on an empty folder; both are gone afterwards. */
export async function onFreshWeir<T>(
  plan: PathPlan,
  work: (server: TestServer, pool: TestPool) => Promise<T>,
): Promise<T> {
  await settled(plan)
  const folder = benchFolder('weir-path-')
  const args = plan.kernel === undefined ? [] : ['--kernel', plan.kernel]
  if (plan.http !== undefined) args.push('--http', plan.http)
  const server = await startWeir({ dataDir: join(folder, 'data'), args })
  try {
    return await work(server, await keyedPool(server))
  } finally {
    const end = await server.stop()
    if (end.code !== 0) print(`  the server ended with ${end.code ?? end.signal}:\n${end.output}`)
    removeFolder(folder)
  }
}

/** Samples a server's memory each second and keeps the largest. */
export function watchMemory(pid: number) {
  let largest = 0
  const look = () => {
    try {
      const now = memory(pid)
      largest = Math.max(largest, now.anonymous + now.shared)
    } catch {} // it has ended: who waits for it says so
  }
  const timer = setInterval(look, 1000).unref()
  return {
    stop() {
      clearInterval(timer)
      look()
      return largest
    },
  }
}

/**
 * Bodies in flight when the generator cut its connections are still accepted: both sides are asked until they agree.
 * Prints where they do not.
 */
export async function agreed(server: TestServer, pool: TestPool): Promise<number> {
  let accepted = await acceptedEvents(server)
  let counted = ''
  for (let tries = 0; tries < AGREE_TRIES && counted !== String(accepted); tries += 1) {
    counted = (await server.count(pool.poolId)) ?? ''
    accepted = await acceptedEvents(server)
  }
  if (counted !== String(accepted)) {
    print(row('', `counter ${counted} DIFFERS FROM ${accepted} acknowledged\n${server.output()}`))
    process.exitCode = 1
  }
  return accepted
}

/** What the server says it accepted. */
async function acceptedEvents(server: TestServer): Promise<number> {
  return (await scrape(server.base)).sum('weir_events_total', 'result="accepted"')
}

/** Errors of a load are no figures: they are said, and the bench fails. */
export function errorsOf(errors: number): string {
  if (errors > 0) process.exitCode = 1
  return errors === 0 ? 'no errors' : `${errors} ERRORS`
}
