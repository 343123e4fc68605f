import { expect, test } from 'vitest'
import { FLUSH_ROWS } from '../../src/util/limits.ts'
import { send, spawnServer, startServer } from '../util/server.ts'
import { events, KEYED } from './damage.ts'

const CLIENTS = 8
const ROWS = 500

test('a replay of more rows than one flush takes: the first query after it is answered, and counts all', async () => {
  const server = await startServer()
  const { dataDir } = server
  const pool = await server.createPool(KEYED)
  await server.stop()
  let acknowledged = 0
  let sent = 0
  // Each server dies in its first flush, so nothing is ever flushed and the log grows.
  while (acknowledged < FLUSH_ROWS + 10_000) {
    const { ready, ended } = spawnServer({ dataDir, args: ['--crash-at', 'index.before-commit:1'] })
    const base = await ready.catch(() => undefined)
    const url = `${base}${new URL(pool.url).pathname}`
    const client = async () => {
      for (;;) {
        const from = sent
        sent += ROWS
        const answer = await send(url, events(from, from + ROWS)).catch(() => undefined)
        if (answer === undefined) return
        expect(answer.status).toBe(200)
        acknowledged += ROWS
      }
    }
    if (base !== undefined) await Promise.all(Array.from({ length: CLIENTS }, client))
    expect((await ended).signal).toBe('SIGKILL')
    if (base === undefined) break // the replay alone filled a flush, as the test needs
  }
  const last = await startServer({ dataDir })
  const counted = Number(await last.count(pool.poolId))
  expect(counted).toBeGreaterThanOrEqual(acknowledged)
  expect(counted).toBeLessThanOrEqual(sent)
  expect(counted % ROWS).toBe(0)
  expect(last.output()).not.toContain('failed')
  expect((await last.stop()).code).toBe(0)
})
