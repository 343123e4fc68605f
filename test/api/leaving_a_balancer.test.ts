/** A server with --stop-delay: what a balancer sends until it has seen /readyz is answered. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { type PoolSpec, startServer } from '../util/server.ts'
import { head, Raw } from './client.ts'

const DELAY_SECONDS = 4
const POOL: PoolSpec = { columns: [{ name: 'n', type: 'INT64', jsonProperty: 'n', nullable: true }] }

describe.each(['uws', 'node'] as const)('over %s', library => {
  test('after SIGTERM everything is answered, as the last of its connection, then nothing is lost', async () => {
    const server = await startServer({ args: ['--http', library, '--stop-delay', String(DELAY_SECONDS)] })
    const port = Number(new URL(server.base).port)
    const { url, poolId } = await server.createPool(POOL)
    const event = '{"n":1}'
    const types = [`Content-Length: ${event.length}`, 'Content-Type: application/json']
    const post = head(new URL(url).pathname, types) + event
    const ready = head('/readyz', [], 'HEAD')
    const answered = async (raw: Raw, request: string) => {
      raw.received = ''
      raw.write(request)
      await raw.until(({ received }) => received.includes('\r\n\r\n'))
      return raw.received.toLowerCase()
    }
    const [kept, idle, asked] = [await Raw.open(port), await Raw.open(port), await Raw.open(port)]
    for (const one of [kept, idle]) expect(await answered(one, post)).toMatch(/^http\/1.1 200/)

    server.child.kill('SIGTERM')
    const signalledMs = performance.now()
    await expect.poll(async () => (await fetch(`${server.base}/readyz`)).status).toBe(503)
    for (const [raw, request, status] of [
      [kept, post, 200],
      [asked, ready, 503],
      [await Raw.open(port), post, 200],
    ] as const) {
      const answer = await answered(raw, request)
      expect(answer).toMatch(new RegExp(`^http/1.1 ${status}`))
      expect(answer).toContain('connection: close')
      expect(answer).not.toContain('keep-alive')
      if (request === post) await raw.untilClosed()
    }
    // Who listens no more refuses. What was open before is answered all the same.
    const late = await Raw.open(port)
    await expect.poll(() => isRefused(port), { interval: 20 }).toBe(true)
    expect(performance.now() - signalledMs).toBeGreaterThan(DELAY_SECONDS * 1_000 - 500)
    for (const raw of [idle, late]) expect(await answered(raw, post)).toMatch(/^http\/1.1 200/)
    expect(await server.ended).toMatchObject({ code: 0 })
    const again = await startServer({ dataDir: server.dataDir })

    expect(await again.count(poolId)).toBe('6')
    await again.stop()
  })
})

async function isRefused(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return false
  } catch {
    return true
  } finally {
    socket.destroy()
  }
}
