/**
 * Shared by the tests of compaction and retention: figures from /metrics, waits for them, pools
 * with many small flushes.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type ColumnSpec, type PoolSpec, send, type TestPool, type TestServer } from '../util/server.ts'

/** Compaction ticks often: flushes of a quiet pool are merged after a third of a second. */
export const OFTEN = { WEIR_COMPACT_TICK_MS: '5' }

/** Compaction never ticks while a test runs. */
export const NEVER = { WEIR_COMPACT_TICK_MS: '3600000' }

export const column = (name: string, type: string, nullable = false): ColumnSpec => ({
  name,
  jsonProperty: name,
  type,
  nullable,
})

export const KEYED: PoolSpec = {
  columns: [column('at', 'TIMESTAMP'), column('id', 'STRING'), column('n', 'INT64')],
  timestamp: 'at',
  uniqueId: 'id',
}

/** The pool at the address of a restarted server. */
export const at = (server: TestServer, pool: TestPool): TestPool => ({
  ...pool,
  url: server.base + new URL(pool.url).pathname,
})

export const AT = '2026-01-01'

/** Ids `from` to `to - 1` with the number `n`. */
export function events(from: number, to: number, n = 1, at = AT): { at: string; id: string; n: number }[] {
  return Array.from({ length: to - from }, (_, i) => ({ at, id: `e${from + i}`, n }))
}

export async function post(pool: TestPool, body: unknown, method: 'POST' | 'DELETE' = 'POST'): Promise<void> {
  expect((await send(pool.url, body, method)).status).toBe(200)
}

/** One value of /metrics without labels; 0 where it is missing. */
export async function metric(server: TestServer, name: string): Promise<number> {
  const text = await (await fetch(`${server.base}/metrics`)).text()
  const line = text.split('\n').find(one => one.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}

/** A busy machine takes half of this time. */
const WAIT_MS_MAX = 90_000
const POLL_MS = 20

/** Waits until `holds` is true. Fails with `what` after WAIT_MS_MAX. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`waited too long until ${what}`)
    await new Promise(resolve => setTimeout(resolve, POLL_MS))
  }
}

/** Waits until no merge is waiting or running, twice in a row with ticks in between. */
export async function untilRest(server: TestServer): Promise<void> {
  let still = 0
  await until('compaction rests', async () => {
    const waiting = await metric(server, 'weir_compaction_pools_waiting')
    const running = await metric(server, 'weir_compaction_running')
    still = waiting + running === 0 ? still + 1 : 0
    return still >= 5
  })
}

export const merges = (server: TestServer) => metric(server, 'weir_compaction_merges_total')

/** The file names in a pool's folder. */
export function filesOf(dataDir: string, poolId: string): string[] {
  return readdirSync(join(dataDir, 'segment', poolId)).sort()
}
