/**
 * Bodies of control requests, and bodies in tiny chunks on every route, are bounded before their
 * sender is known.
 */

import { expect, test } from 'vitest'
import { CONTROL_INCOMPLETE_BYTES_MAX, CONTROL_INCOMPLETE_MAX } from '../../src/api/control.ts'
import { TINY_CHUNK_BYTES, TINY_CHUNKS_MAX } from '../../src/api/http/responder.ts'
import { GRAPHQL_BODY_BYTES_MAX, TOKEN_BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { ask, head, Raw } from './client.ts'
import { api, startForFile, until } from './fake.ts'

startForFile()

const CHUNKED = 'Transfer-Encoding: chunked'

test('a token request takes at most 16 KiB, declared or not; GraphQL more', async () => {
  const body = 'x'.repeat(TOKEN_BODY_BYTES_MAX)
  const statusOf = async (what: { body?: string; chunks?: string[] }) =>
    (await ask(api.port, '/oauth2/token', what)).status
  expect([await statusOf({ body }), await statusOf({ chunks: [body] })]).toEqual([200, 200])
  expect([await statusOf({ body: `${body}x` }), await statusOf({ chunks: [body, 'x'] })]).toEqual([413, 413])
})

test('a body in many pieces arrives whole', async () => {
  const pieces = Array.from({ length: 1000 }, (_, index) => `${index},`.repeat(1 + (index % 50)))
  const answer = await ask(api.port, '/graphql', { chunks: pieces })
  expect([answer.status, answer.json.seen]).toEqual([200, pieces.join('')])
})

test.each([
  ['POST', '/oauth2/token', 400],
  ['POST', '/graphql', 400],
  ['POST', '/v1/open', 400],
  ['POST', '/nothing', 404],
  ['PUT', '/v1/open', 405],
  ['PUT', '/graphql', 405],
] as const)(
  '%s %s: a body in chunks of a byte is closed after a few thousand',
  async (method, path, status) => {
    const raw = await Raw.open(api.port)
    raw.write(head(path, [CHUNKED], method))
    // 12 MB in chunks of a byte: all of it would hold the main thread for seconds.
    for (let count = 0; count < 200 && !raw.closed; count += 1) {
      raw.socket.write('1\r\na\r\n'.repeat(10_000))
      await new Promise(resolve => setImmediate(resolve))
    }
    await raw.untilClosed()
    if (raw.received !== '') expect(raw.received).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(api.stats().open).toBe(0)
  },
)

test('a client that sends tiny chunks and reads is told why', async () => {
  const raw = await Raw.open(api.port)
  raw.write(head('/v1/open', [CHUNKED]))
  raw.write('1\r\n \r\n'.repeat(TINY_CHUNKS_MAX + 100))
  await raw.until(({ received }) => received.includes('tiny_chunks'))
  raw.socket.destroy()
})

test.each(['/graphql', '/v1/open'])('%s: small chunks of honest senders are taken', async path => {
  const each = async (chunks: readonly string[]) =>
    (await ask(api.port, path, { chunks: [...chunks] })).status
  const event = '{"id":"a"}'
  // A write for each event and each comma, and lines of a pipe.
  const events = Array.from({ length: 500 }, (_, index) => (index === 0 ? [event] : [',', event])).flat()
  expect(await each(['[', ...events, ']'])).toBe(200)
  expect(await each([event, ...Array.from({ length: 20_000 }, () => ' '.repeat(TINY_CHUNK_BYTES))])).toBe(200)
})

test('half-sent requests do not block other clients', async () => {
  const half = await opened(300, 'Content-Length: 1000', '{')
  expect((await ask(api.port, '/oauth2/token', { body: 'a=b' })).status).toBe(200)
  expect((await ask(api.port, '/graphql', { body: '{}' })).status).toBe(200)
  await closed(half)
})

test('beyond the limit of half-sent requests the oldest gets 408', async () => {
  const half = await opened(CONTROL_INCOMPLETE_MAX, 'Content-Length: 1000', '{')
  const [oldest, next] = half
  const last = await opened(1, 'Content-Length: 1000', '{', CONTROL_INCOMPLETE_MAX)
  await oldest!.until(({ received }) => received.startsWith('HTTP/1.1 408 '))
  expect(next!.received).toBe('')
  expect((await ask(api.port, '/graphql', { body: '{}' })).status).toBe(200)
  await closed([...half, ...last])
})

test('beyond the memory of half-sent requests the oldest gets 408 too', async () => {
  const bytes = GRAPHQL_BODY_BYTES_MAX - 1
  const count = Math.floor(CONTROL_INCOMPLETE_BYTES_MAX / bytes) + 2
  const half = await opened(count, `Content-Length: ${GRAPHQL_BODY_BYTES_MAX}`, ' '.repeat(bytes), 0)
  await until(() => half.some(({ received }) => received.startsWith('HTTP/1.1 408 ')))
  expect(half.filter(({ received }) => received === '').length).toBeGreaterThan(count / 2)
  await closed(half)
})

/**
 * So many requests to GraphQL whose bodies begin. `open` is known after them, unless 0 says that
 * some may go.
 */
async function opened(count: number, length: string, body: string, already?: number): Promise<Raw[]> {
  const raws: Raw[] = []
  for (let index = 0; index < count; index += 1) {
    const raw = await Raw.open(api.port)
    raw.write(`${head('/graphql', [length])}${body}`)
    raws.push(raw)
    if (already === undefined) await until(() => api.stats().open === index + 1)
  }
  return raws
}

async function closed(raws: readonly Raw[]): Promise<void> {
  for (const raw of raws) raw.socket.destroy()
  await until(() => api.stats().open === 0)
}
