/** Shared by the parts of `path`: a run on a fresh server, and its checks afterwards. */
import { join } from 'node:path'
import type { TestPool, TestServer } from '../test/util/server.ts'
import type { Errors } from './generator.ts'
import { benchFolder, removeFolder } from './leftovers.ts'
import { settleDisk } from './machine.ts'
import { print, row, watchMemory } from './measure.ts'
import type { PathSettings } from './path.ts'
import { keyedPool, scrape, startWeir } from './weir.ts'

const AGREE_TRIES = 100
const MEMORY_INTERVAL_MS = 1000

/** Waits until the disk has finished the work of earlier runs. */
export async function settled({ pauseSeconds }: PathSettings): Promise<void> {
  const busy = await settleDisk(pauseSeconds)
  if (busy !== undefined) print(row('', `${busy}: the next figures may be too low`))
}

/** Runs `work` on a server with one pool on an empty folder, then removes both. */
export async function onFreshWeir<T>(
  settings: PathSettings,
  work: (server: TestServer, pool: TestPool) => Promise<T>,
): Promise<T> {
  await settled(settings)
  const folder = benchFolder('weir-path-')
  const args = settings.kernel === undefined ? [] : ['--kernel', settings.kernel]
  if (settings.http !== undefined) args.push('--http', settings.http)
  const server = await startWeir({ dataDir: join(folder, 'data'), args })
  try {
    return await work(server, await keyedPool(server))
  } finally {
    const end = await server.stop()
    if (end.code !== 0) print(`  the server ended with ${end.code ?? end.signal}:\n${end.output}`)
    removeFolder(folder)
  }
}

/** Watches a server's memory; the function that it returns stops and gives the largest. */
export function watchServerMemory(pid: number): () => number {
  return watchMemory(pid, MEMORY_INTERVAL_MS, ({ anonymous, shared }) => anonymous + shared)
}

/**
 * Returns the number of accepted events once a counter equals it, and prints both where they never
 * agree. It asks for both repeatedly, because the server still accepts bodies that were in flight
 * when the generator closed its connections.
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

/** Accepted events by /metrics. */
async function acceptedEvents(server: TestServer): Promise<number> {
  return (await scrape(server.base)).sum('weir_events_total', 'result="accepted"')
}

/** The errors of a load in words. Any error makes the bench fail. */
export function errorsOf(errors: Errors): string {
  const kinds = Object.entries(errors).filter(([, count]) => count > 0)
  if (kinds.length === 0) return 'no errors'
  process.exitCode = 1
  return `ERRORS: ${kinds.map(([kind, count]) => `${count} ${kind}`).join(', ')}`
}
