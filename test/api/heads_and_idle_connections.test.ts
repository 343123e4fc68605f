/** Heads as networks and senders bring them, and connections that wait, over both libraries. */
import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startServer, type TestServer } from '../util/server.ts'
import { head, Raw } from './client.ts'

/** What a network puts into a packet. */
const PIECE_BYTES = 1_400

describe.each(['uws', 'node'] as const)('over %s', library => {
  let server: TestServer
  let port: number
  beforeAll(async () => {
    server = await startServer({ args: ['--http', library, '--keep-alive', '1'] })
    port = Number(new URL(server.base).port)
  })
  afterAll(async () => {
    expect((await server.stop()).code).toBe(0)
  })

  test('a time for idle connections is no time over a library that cannot be told', () => {
    const told = server.output().includes('--keep-alive 1 has no effect over uWebSockets.js')
    expect(told).toBe(library === 'uws')
  })

  /** Sends a text in pieces, each as a packet of its own. Returns the first line of the answer. */
  async function inPieces(text: string): Promise<string> {
    const raw = await Raw.open(port)
    raw.socket.setNoDelay(true)
    for (let at = 0; at < text.length; at += PIECE_BYTES) {
      raw.write(text.slice(at, at + PIECE_BYTES))
      await setTimeout(5) // else the kernel joins them
    }
    await raw.until(({ received }) => received.includes('\r\n\r\n'))
    raw.socket.destroy()
    return raw.received.split('\r\n', 1)[0]!
  }

  test.each([
    [3_000, 'HTTP/1.1 200 OK'],
    [4_200, 'HTTP/1.1 200 OK'],
    [8_000, 'HTTP/1.1 200 OK'],
    [15_900, 'HTTP/1.1 200 OK'],
    [20_000, 'HTTP/1.1 431 Request Header Fields Too Large'],
  ])('a head of %i bytes in packets', async (bytes, line) => {
    const name = 'x-signatures: '
    const rest = head('/livez', [name], 'GET').length
    expect(await inPieces(head('/livez', [name + 's'.repeat(bytes - rest)], 'GET'))).toBe(line)
  })

  test('an answer says how long the connection stays, and the connection stays that long', async () => {
    const raw = await Raw.open(port)
    raw.write(head('/livez', [], 'GET'))
    await raw.until(({ received }) => received.includes('\r\n\r\n'))
    expect(raw.received.toLowerCase()).toContain(`keep-alive: timeout=${library === 'uws' ? 5 : 1}\r\n`)
    const answeredMs = performance.now()
    await raw.untilClosed()
    if (library === 'uws') expect(performance.now() - answeredMs).toBeGreaterThan(5_000)
  })

  test('connections without a request are counted, and those whose client waits are told', async () => {
    const page = async () => await (await fetch(`${server.base}/metrics`)).text()
    const counted = async () => Number(/^weir_connections_without_request (\d+)$/m.exec(await page())?.[1])
    const before = await counted()
    // A check of a balancer.
    const check = await Raw.open(port)
    check.socket.destroy()
    await expect.poll(counted).toBe(before + 1)
    expect(server.output()).not.toContain('without a request')
    const sender = await Raw.open(port)
    sender.write(head('/livez', ['x_id: 1'], 'GET'))
    if (library === 'node') {
      await sender.until(({ received }) => received.startsWith('HTTP/1.1 200'))
      sender.socket.destroy()
      expect(await counted()).toBe(before + 1)
      return
    }
    await setTimeout(1_100) // a sender waits before it gives up
    sender.socket.destroy()
    await expect.poll(counted).toBe(before + 2)
    await expect
      .poll(() => server.output())
      .toMatch(/closed without a request which uWebSockets\.js answers: 1\. .*--http node/)
  })
})
