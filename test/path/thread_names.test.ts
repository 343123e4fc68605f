/**
 * The kernel knows Weir's threads and its query process by name (`top -H`, `perf`), with the native
 * module and without.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { fetchToken, queryProcess, send, startServer } from '../util/server.ts'

/**
 * The threads of every server, and that of exports. Threads of merges and backups start when they
 * are needed.
 */
const NAMES = [
  'weir-catalog',
  'weir-export',
  'weir-index',
  'weir-lines',
  'weir-log',
  'weir-parse-1',
  'weir-segment',
  'weir-spare',
]

function namesOf(pid: number): string[] {
  const names = new Set<string>()
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      names.add(readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8').trim())
    } catch {} // the thread has ended
  }
  return [...names].filter(name => name.startsWith('weir-')).sort()
}

describe('a server', () => {
  test.each(['native', 'js'])('names its threads (%s kernel where it is built)', async kernel => {
    const server = await startServer({ args: kernel === 'js' ? ['--kernel', 'js'] : [] })
    const pid = server.child.pid as number
    const pool = await server.createPool({})
    expect((await send(pool.url, { n: 1 })).status).toBe(200)
    expect(await server.count(pool.poolId)).toBe('1')
    const token = await fetchToken(server.base, server.dataDir)
    const headers = { authorization: `Bearer ${token}` }
    const rows = await fetch(`${server.base}/v1/pools/${pool.poolId}/arrow`, { headers })
    expect((await rows.arrayBuffer()).byteLength).toBeGreaterThan(0)
    await expect.poll(() => namesOf(pid), { timeout: 30_000 }).toEqual(expect.arrayContaining(NAMES))
    expect(readFileSync(`/proc/${pid}/comm`, 'utf8').trim()).toBe('node')
    expect(namesOf(queryProcess(server) as number)).toContain('weir-query')
    await server.stop()
  })
})
