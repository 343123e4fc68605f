/**
 * Before a run with WEIR_TEST_STORE: starts the servers that all of its tests share, and ends them
 * after it. Each server that a test starts is a node of a cluster of its own on them (see
 * util/cluster-node.ts).
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const SERVERS = fileURLToPath(new URL('./suites-servers.js', import.meta.url))

/** @returns what ends them */
export async function setup(): Promise<() => Promise<void>> {
  // They belong to the run, not to a test.
  const { VITEST: _, ...env } = process.env
  const child = spawn(process.execPath, [SERVERS], { stdio: ['pipe', 'pipe', 'inherit'], env })
  const ended = once(child, 'exit')
  const [line] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer | number]
  if (typeof line === 'number') throw new Error(`the servers of the tests ended with ${line}`)
  process.env['WEIR_TEST_CLUSTER'] = String(line)
  return async () => {
    child.stdin.end()
    await ended
  }
}
