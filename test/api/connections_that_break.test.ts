/**
 * Connections that break behind a CONNECT, and large answers to bodies in chunks, whose connections
 * close behind them.
 */
import { expect, test } from 'vitest'
import { DRAIN_GRACE_MS } from '../../src/util/limits.ts'
import { head, Raw } from './client.ts'
import { Fake, start, until } from './fake.ts'

test('a connection that is reset behind a CONNECT ends alone', async () => {
  const api = await start(new Fake())
  const uncaught: unknown[] = []
  const onUncaught = (error: unknown) => uncaught.push(error)
  process.on('uncaughtException', onUncaught)
  for (let count = 0; count < 50; count += 1) {
    const raw = await Raw.open(api.port)
    const reset = () => raw.socket.resetAndDestroy()
    raw.socket.write(`CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n${'x'.repeat(count * 100)}`, reset)
    await raw.untilClosed()
  }
  await until(() => api.stats().connections === 0)
  process.off('uncaughtException', onUncaught)
  expect(uncaught).toEqual([])
  expect(await api.stop(1000)).toBe(true)
})

test('a large answer to a body in chunks arrives whole, however late its client reads', async () => {
  const body = 'x'.repeat(12 * 1024 * 1024)
  const api = await start(new Fake(), {}, { graphql: async () => ({ status: 200, body }) })
  const raw = await Raw.open(api.port)
  raw.socket.pause()
  raw.write(`${head('/graphql', ['Transfer-Encoding: chunked'])}2\r\n{}\r\n0\r\n\r\n`)
  // Twice the time that a small answer has.
  await new Promise(done => setTimeout(done, DRAIN_GRACE_MS + 1_000))
  raw.socket.resume()
  await raw.until(({ received }) => received.includes('\r\n\r\n') && received.length >= body.length)
  raw.socket.destroy()
  await until(() => api.stats().connections === 0)
  expect(await api.stop(1000)).toBe(true)
})
