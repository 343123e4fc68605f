/**
 * Requests that the HTTP library refuses by itself (docs/http.md). Each is answered with an error,
 * and the connection closes. No event is stored twice or answered wrongly. A library that takes
 * such a request answers 200.
 */
import { expect, test } from 'vitest'
import { head, Raw } from './client.ts'
import { api, fake, good, startForFile, until } from './fake.ts'

startForFile()

const length = `Content-Length: ${good.length}`
const chunked = 'Transfer-Encoding: chunked'
const whole = `${head('/v1/open', [length])}${good}`

const CASES: readonly (readonly [what: string, parts: readonly string[]])[] = [
  ['HTTP/1.0', [whole.replace('HTTP/1.1', 'HTTP/1.0')]],
  ['HTTP/2.0', [whole.replace('HTTP/1.1', 'HTTP/2.0')]],
  ['no Host', [whole.replace('Host: localhost\r\n', '')]],
  ['an absolute target', [whole.replace('/v1/open', 'http://localhost/v1/open')]],
  ['a request line in two pieces', [whole.slice(0, 12), whole.slice(12)]],
  ['a chunk extension', [`${head('/v1/open', [chunked])}a;x=y\r\n${good}\r\n0\r\n\r\n`]],
  ['both lengths', [`${head('/v1/open', [length, chunked])}a\r\n${good}\r\n0\r\n\r\n`]],
  ['a body without a length', [`${head('/v1/open', [])}${good}`]],
]

test.each(CASES)('%s', async (_, parts) => {
  fake.logged.length = 0
  const raw = await Raw.open(api.port)
  raw.write(parts[0]!)
  // The second piece is sent after the server has read the first one, which no event announces, or
  // has refused it.
  if (parts.length > 1) await Promise.race([raw.untilClosed(), new Promise(done => setTimeout(done, 50))])
  if (parts.length > 1 && !raw.closed) raw.write(parts[1]!)
  await raw.until(r => r.closed || /^HTTP\/1\.1 \d{3}[\s\S]*\r\n\r\n/.test(r.received))
  const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(raw.received) ?? []
  expect(status).toMatch(/^(200|400|505)$/)
  if (status !== '200') await raw.untilClosed()
  expect(fake.logged.length).toBe(status === '200' ? 1 : 0)
  raw.socket.destroy()
  await until(() => api.stats().open === 0 && api.stats().slabsInUse === 0)
})

test('trailers and a connection half closed: the event is stored at most once, and the connection closes', async () => {
  for (const bytes of [`${head('/v1/open', [chunked])}a\r\n${good}\r\n0\r\nX: y\r\n\r\n`, whole]) {
    fake.logged.length = 0
    const raw = await Raw.open(api.port)
    raw.socket.end(bytes)
    await raw.untilClosed()
    await until(() => api.stats().open === 0 && api.stats().slabsInUse === 0)
    expect(fake.logged.length).toBeLessThanOrEqual(1)
  }
})
