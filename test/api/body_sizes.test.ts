/**
 * Sizes: declared, streamed, chunked; the 413 that clients see; lies, aborts and slow bodies (W-9).
 */

import { execFile } from 'node:child_process'
import { Agent } from 'node:http'
import { beforeEach, expect, test } from 'vitest'
import { DRAIN_BYTES_MAX } from '../../src/api/http/connections.ts'
import { BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { ask, head, Raw } from './client.ts'
import { api, fake, good, start, startForFile, until } from './fake.ts'

startForFile()
beforeEach(() => {
  fake.logged.length = 0
})

const sized = (bytes: number) => good + ' '.repeat(bytes - good.length)
const chunksOf = (text: string, bytes: number) =>
  Array.from({ length: Math.ceil(text.length / bytes) }, (_, index) =>
    text.slice(index * bytes, (index + 1) * bytes),
  )

/** The output of curl for an answer; undefined if curl is not installed. */
function curl(args: string[], input: string): Promise<string | undefined> {
  return new Promise(resolve => {
    const child = execFile(
      'curl',
      ['-s', '-S', '-w', ' %{http_code} %{exitcode}', ...args],
      (error, out, err) => {
        if (error !== null && (error as NodeJS.ErrnoException).code === 'ENOENT') resolve(undefined)
        else resolve(out + err)
      },
    )
    child.stdin!.on('error', () => {}) // curl stops reading when it has its answer
    child.stdin!.end(input)
  })
}

test('1,048,320 bytes are accepted, one more is 413: declared and in chunks', async () => {
  for (const size of [BODY_BYTES_MAX, BODY_BYTES_MAX - 1, 65_536, 65_537, 300_000]) {
    const body = sized(size)
    expect((await ask(api.port, '/v1/open', { body })).status).toBe(200)
    expect((await ask(api.port, '/v1/open', { chunks: chunksOf(body, 100_001) })).status).toBe(200)
    expect(fake.logged.map(record => record.body === body)).toEqual([true, true])
    fake.logged.length = 0
  }
  const over = sized(BODY_BYTES_MAX + 1)
  for (const what of [{ body: over }, { chunks: chunksOf(over, 50_000) }]) {
    const answer = await ask(api.port, '/v1/open', what)
    expect([answer.status, answer.json.code, answer.json.retryable]).toEqual([413, 'body_too_large', false])
    expect([answer.headers['x-events-accepted'], answer.headers['x-events-rejected']]).toEqual(['0', '0'])
  }
  expect(fake.logged).toEqual([])
  await until(() => api.stats().slabsInUse === 0)
})

test('small chunks are taken, also many in one packet', async () => {
  const raw = await Raw.open(api.port)
  const body = sized(3000)
  const pieces = chunksOf(body, 7).map(piece => `${piece.length.toString(16)}\r\n${piece}\r\n`)
  raw.write(`${head('/v1/open', ['Transfer-Encoding: chunked'])}${pieces.join('')}0\r\n\r\n`)
  await raw.until(r => r.received.includes('"OK"}]'))
  expect(fake.logged[0]!.body).toBe(body)
  raw.socket.destroy()
})

test('a 413 is sent at once, before the body, and the connection closes after it', async () => {
  const raw = await Raw.open(api.port)
  raw.write(head('/v1/open', ['Content-Length: 2000000']))
  await raw.until(r => r.received.includes('"code":"body_too_large"'))
  expect(raw.received).toMatch(/^HTTP\/1\.1 413 /)
  expect(raw.received.toLowerCase()).toContain('connection: close')
  expect(raw.closed).toBe(false)
  raw.write('x'.repeat(2_000_000))
  await raw.untilClosed()
  expect(raw.failed).toBe('')
})

test('a drained connection closes beyond its limit', async () => {
  const raw = await Raw.open(api.port)
  raw.write(head('/v1/open', ['Content-Length: 900000000']))
  await raw.until(r => r.received.includes('413'))
  let sent = 0
  const megabyte = Buffer.alloc(1 << 20, 'x')
  const full = async () => {
    for (; !raw.closed && sent < 64; sent += 1)
      await new Promise(resolve => raw.socket.write(megabyte, resolve))
  }
  await Promise.all([full(), raw.untilClosed()])
  sent *= megabyte.length
  expect(sent).toBeGreaterThan(DRAIN_BYTES_MAX)
})

test('fetch and node:http see the 413 of a large upload', async () => {
  const body = sized(6_000_000)
  const fetched = await fetch(`http://127.0.0.1:${api.port}/v1/open`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  expect([fetched.status, ((await fetched.json()) as { code: string }).code]).toEqual([413, 'body_too_large'])
  for (const what of [{ body }, { chunks: chunksOf(body, 60_000) }])
    expect((await ask(api.port, '/v1/open', what)).status).toBe(413)
})

test('curl sees the 413, and its Expect: 100-continue works', async context => {
  const url = `http://127.0.0.1:${api.port}/v1/open`
  const json = ['-H', 'Content-Type: application/json']
  const tooLarge = await curl([...json, '--data-binary', '@-', url], sized(4_000_000))
  if (tooLarge === undefined) return context.skip()
  expect(tooLarge).toMatch(/body_too_large[\s\S]* 413 0$/)
  const chunked = await curl(
    [...json, '-H', 'Transfer-Encoding: chunked', '--data-binary', '@-', url],
    sized(4_000_000),
  )
  expect(chunked).toMatch(/body_too_large[\s\S]* 413 0$/)
  const expecting = [...json, '-H', 'Expect: 100-continue', '--data-binary', '@-', url]
  expect(await curl(expecting, sized(BODY_BYTES_MAX))).toMatch(/"OK"}\] 200 0$/)
  expect(await curl(expecting, sized(3_000_000))).toMatch(/body_too_large[\s\S]* 413 0$/)
})

test('clients see an early 404 or 401 for a body of unknown length', async () => {
  const answer = await ask(api.port, '/v1/unknown', { chunks: chunksOf(sized(3_000_000), 50_000) })
  expect(answer.status).toBe(404)
  const whole = await ask(api.port, '/v1/closed', { chunks: [good] })
  expect(whole.status).toBe(401)
})

test('after an early refusal of a short body the connection serves the next request', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const ports = new Set<number>()
  agent.on('free', socket => ports.add(socket.localPort))
  for (const path of ['/v1/unknown', '/v1/open', '/v1/closed', '/v1/open']) {
    const answer = await ask(api.port, path, { body: sized(200_000), agent })
    expect(answer.status).toBe(path === '/v1/open' ? 200 : path === '/v1/closed' ? 401 : 404)
  }
  expect(ports.size).toBe(1)
  agent.destroy()
})

test('wrong chunk sizes and malformed lengths: 400 or a closed connection, nothing stored', async () => {
  const chunked = head('/v1/open', ['Transfer-Encoding: chunked'])
  const cases = [
    `${chunked}zz\r\n${good}\r\n0\r\n\r\n`,
    `${chunked}-1\r\n${good}\r\n0\r\n\r\n`,
    `${chunked}ffffffffffffffffff\r\n${good}\r\n0\r\n\r\n`,
    `${head('/v1/open', ['Content-Length: -5'])}${good}`,
    `${head('/v1/open', ['Content-Length: 1e1'])}${good}`,
    `${head('/v1/open', ['Content-Length: 99999999999999999999'])}${good}`,
    `${head('/v1/open', ['Content-Length: 10', 'Transfer-Encoding: chunked'])}a\r\n${good}\r\n0\r\n\r\n`,
  ]
  for (const bytes of cases) {
    const raw = await Raw.open(api.port)
    raw.write(bytes)
    await raw.untilClosed()
    expect([bytes, raw.received]).toEqual([bytes, expect.stringMatching(/^$|^HTTP\/1\.1 4\d\d /)])
  }
  expect(fake.logged).toEqual([])
  await until(() => api.stats().open === 0 && api.stats().slabsInUse === 0)
})

test('an abort in the middle of a body frees its slab', async () => {
  for (const headers of [['Content-Length: 900000'], ['Transfer-Encoding: chunked']]) {
    const raw = await Raw.open(api.port)
    raw.write(`${head('/v1/open', headers)}5\r\nabcde\r\n`)
    await until(() => api.stats().slabsInUse === 1)
    raw.socket.destroy()
    await until(() => api.stats().slabsInUse === 0 && api.stats().open === 0)
  }
})

test('a body whose client aborts during the parse is stored, and its slab is freed', async () => {
  let open = () => {}
  fake.commitGate = new Promise<void>(resolve => {
    open = resolve
  })
  const raw = await Raw.open(api.port)
  raw.write(`${head('/v1/open', [`Content-Length: ${good.length}`])}${good}`)
  await until(() => api.stats().tasksRunning === 1)
  raw.socket.destroy()
  await until(() => api.stats().open === 0)
  expect(api.stats().slabsInUse).toBe(1)
  open()
  fake.commitGate = undefined
  await until(() => api.stats().slabsInUse === 0)
  expect(fake.logged.length).toBe(1)
})

test('a slow body does not hold the slab that small bodies share', async () => {
  const slow = await Raw.open(api.port)
  slow.write(`${head('/v1/open', ['Content-Length: 100'])}{"id":`)
  await until(() => api.stats().slabsInUse === 1)
  const first = fake.tasks.length
  for (let index = 0; index < 3; index += 1)
    expect((await ask(api.port, '/v1/open', { body: good })).status).toBe(200)
  expect(api.stats().slabsInUse).toBe(1)
  slow.write(`"slow"}${' '.repeat(100 - 13)}`)
  await slow.until(r => r.received.includes('"OK"}]'))
  slow.socket.destroy()
  const slabs = fake.tasks.slice(first).map(task => task.slab)
  expect(new Set(slabs.slice(0, 3)).size).toBe(1)
  expect(slabs[3]).not.toBe(slabs[0])
})

test('a body that does not arrive is 408', async () => {
  const other = await start(fake, { bodyMsMax: 200 })
  const raw = await Raw.open(other.port)
  raw.write(`${head('/v1/open', ['Content-Length: 100'])}{"id":`)
  await raw.until(r => r.received.includes('"code":"body_too_slow"'))
  expect(raw.received).toMatch(/^HTTP\/1\.1 408 /)
  expect(other.stats().slabsInUse).toBe(0)
  raw.socket.destroy()
  await other.stop(1000)
})

test('a body that comes slowly, byte by byte, is taken: the library would close its connection after 12 s', async () => {
  const raw = await Raw.open(api.port)
  const body = sized(40)
  raw.write(head('/v1/open', ['Content-Length: 40']))
  for (const byte of body) {
    raw.write(byte)
    await new Promise(resolve => setTimeout(resolve, 340)) // the test is about a slow body
    expect(raw.closed).toBe(false)
  }
  await raw.until(r => r.received.includes('"OK"}]'))
  raw.socket.destroy()
})

test('slow uploads give their places to bodies that arrive; an upload that goes on keeps its place', async () => {
  const other = await start(fake, { bodyWindowMs: 400 })
  const begin = async (declared: number) => {
    const raw = await Raw.open(other.port)
    raw.write(`${head('/v1/open', [`Content-Length: ${declared}`])}{`)
    return raw
  }
  const going = await begin(BODY_BYTES_MAX)
  let sent = 1
  const stalled: Raw[] = []
  const began = performance.now()
  const timer = setInterval(() => {
    // 40 kB/s, also where a busy machine calls this less often.
    const due = Math.ceil(40 * (performance.now() - began))
    going.write(' '.repeat(due - sent))
    sent = due
    for (const raw of stalled) raw.write(' ') // a byte now and then
  }, 50)
  while (other.stats().waitingRequests === 0) {
    const open = other.stats().open
    stalled.push(await begin(BODY_BYTES_MAX))
    await until(() => other.stats().open > open)
  }
  // Another pool has places left, the same one has not.
  expect((await ask(other.port, '/v1/second', { body: sized(300_000) })).status).toBe(200)
  const answers = Array.from({ length: 4 }, () => ask(other.port, '/v1/open', { body: sized(300_000) }))
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200)
  await stalled[0]!.until(r => r.received.includes('"code":"body_too_slow"'))
  expect(stalled[0]!.received).toMatch(/^HTTP\/1\.1 408 /)
  expect(stalled.filter(raw => raw.received === '').length).toBeGreaterThan(stalled.length / 2)
  expect([going.received, going.closed]).toEqual(['', false])
  clearInterval(timer)
  going.write(`"id":"a"}`.padEnd(BODY_BYTES_MAX - sent))
  await going.until(r => r.received.includes('"OK"}]'))
  for (const raw of [going, ...stalled]) raw.socket.destroy()
  await until(() => other.stats().slabsInUse === 0)
  await other.stop(1000)
})
