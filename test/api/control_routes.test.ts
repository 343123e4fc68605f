/**
 * The routes beside ingest: GraphQL, tokens, CORS, ids of requests, health, metrics, files, unknown
 * paths; credentials and rates alone.
 */
import { Agent } from 'node:http'
import { expect, test } from 'vitest'
import type { RequestHead } from '../../src/api/http/transport.ts'
import { basicAuthMatches, RateLimit } from '../../src/api/ingest/admission.ts'
import { answerFile, servedFile } from '../../src/api/served-file.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { CONTROL_BYTES_MAX, CONTROL_REQUEST_BYTES, GRAPHQL_BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { ask, head, Raw } from './client.ts'
import { api, fake, gate, start, startForFile, until } from './fake.ts'

startForFile()

test('GraphQL and token bodies reach their handlers whole, and pages of any origin may read the answers', async () => {
  const body = 'x'.repeat(GRAPHQL_BODY_BYTES_MAX)
  const headers = { 'content-type': 'application/graphql-response+json' }
  const answer = await ask(api.port, '/graphql', { body, headers })
  expect([answer.status, answer.json.seen === body, answer.json.type]).toEqual([
    200,
    true,
    headers['content-type'],
  ])
  expect(answer.headers['access-control-allow-origin']).toBe('*')
  const chunked = await ask(api.port, '/graphql', { chunks: ['{"a"', ':1}'] })
  expect(chunked.json.seen).toBe('{"a":1}')
  const token = await ask(api.port, '/oauth2/token', {
    body: 'a=b',
    headers: { authorization: 'Basic eA==' },
  })
  expect([token.status, token.text, token.headers['access-control-allow-origin']]).toEqual([
    200,
    'Basic eA==',
    '*',
  ])
})

test('a control body over its limit is 413, declared or not', async () => {
  const body = 'x'.repeat(GRAPHQL_BODY_BYTES_MAX + 1)
  for (const what of [{ body }, { chunks: [body] }]) {
    const answer = await ask(api.port, '/graphql', what)
    expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([413, '*'])
  }
})

test('pages of any origin may read the tag of a file, the id of a request, and when to try again', async () => {
  const { headers } = await ask(api.port, '/graphql', { body: '{}' })
  expect(String(headers['access-control-expose-headers']).split(', ')).toEqual([
    'x-events-accepted',
    'x-events-rejected',
    'x-rows',
    'retry-after',
    'etag',
    'x-request-id',
  ])
})

test.each([
  ['an event', 'POST', '/v1/open', '{"id":"a"}', 200],
  ['an unknown webhook', 'POST', '/v1/none', '', 404],
  ['a page', 'GET', '/livez', '', 200],
  ['the head of a page', 'HEAD', '/livez', '', 200],
  ['a route', 'GET', '/v1/pools/a/arrow', '', 200],
  ['a body in chunks', 'POST', '/graphql', 'chunks', 200],
  ['a method without a route', 'PUT', '/livez', '', 405],
  ['a framing that is refused', 'GET', '/livez', 'chunks', 400],
])(
  '%s: the answer repeats the id of its request once, and none of several',
  async (_, method, path, body, status) => {
    const framing = body === 'chunks' ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
    for (const [ids, wanted] of [
      [['req-1.a'], 'x-request-id: req-1.a'],
      [['a', 'b'], undefined],
      [['a', 'a'], undefined],
      [['a b'], undefined],
      [[], undefined],
    ] as const) {
      const raw = await Raw.open(api.port)
      const lines = ids.map(id => `X-Request-Id: ${id}`)
      raw.write(head(path, [...lines, framing], method) + (body === 'chunks' ? '0\r\n\r\n' : body))
      await raw.until(({ received }) => received.includes('\r\n\r\n'))
      const [top = ''] = raw.received.split('\r\n\r\n')
      expect(top).toContain(`HTTP/1.1 ${status} `)
      const found = top.split('\r\n').filter(line => /^x-request-id:/i.test(line))
      expect([ids, found]).toEqual([ids, wanted === undefined ? [] : [wanted]])
      raw.socket.destroy()
    }
  },
)

test('a preflight is answered, and other methods are 405', async () => {
  for (const path of ['/graphql', '/oauth2/token']) {
    const preflight = await ask(api.port, path, { method: 'OPTIONS', headers: { origin: 'http://x' } })
    expect([preflight.status, preflight.text]).toEqual([204, ''])
    expect(preflight.headers['access-control-allow-origin']).toBe('*')
    expect(preflight.headers['access-control-allow-methods']).toBe('POST, OPTIONS')
    expect(preflight.headers['access-control-allow-headers']).toBe(
      'authorization, content-type, if-none-match, x-request-id, traceparent, tracestate',
    )
    for (const method of ['GET', 'PUT', 'HEAD']) {
      const answer = await ask(api.port, path, { method })
      expect([answer.status, answer.headers.allow]).toEqual([405, 'POST, OPTIONS'])
      expect(answer.headers['access-control-allow-origin']).toBe('*')
    }
  }
})

test('handlers that fail: 503 for Unavailable, 500 for any other error', async () => {
  const broken = await start(
    fake,
    {},
    {
      graphql: () => Promise.reject(new Unavailable('busy', 'later')),
      token: () => Promise.reject(new Error('expected by this test')),
    },
  )
  const busy = await ask(broken.port, '/graphql', { body: '{}' })
  expect([busy.status, busy.json.code, busy.headers['access-control-allow-origin']]).toEqual([
    503,
    'busy',
    '*',
  ])
  const failed = await ask(broken.port, '/oauth2/token', { body: '' })
  expect([failed.status, failed.json.code]).toEqual([500, 'internal'])
  expect(failed.text).not.toContain('expected by this test')
  await broken.stop(1000)
})

test('metrics that cannot be read are 500, and the server goes on', async () => {
  const metricsText = () => Promise.reject(new Error('expected by this test'))
  const broken = await start(fake, {}, { metricsText })
  const failed = await ask(broken.port, '/metrics', { method: 'GET' })
  expect([failed.status, failed.json.code]).toEqual([500, 'internal'])
  expect((await ask(broken.port, '/livez', { method: 'GET' })).status).toBe(200)
  await broken.stop(1000)
})

test('a file is not sent again to a client that has the same form of it, and a 304 declares no length', async () => {
  const file = servedFile(Buffer.from('x'.repeat(10_000)), { 'content-type': 'text/plain' })
  const pages = [{ path: '/file', read: (of: RequestHead) => answerFile(file, name => of.header(name)) }]
  const other = await start(fake, {}, { pages })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const gzip = { 'accept-encoding': 'gzip' }
  const get = async (known: string | undefined, more = {}, method = 'GET') => {
    const headers = { ...more, ...(known === undefined ? {} : { 'if-none-match': known }) }
    return await ask(other.port, '/file', { method, headers, agent })
  }
  const plain = String((await get(undefined)).headers.etag)
  const zipped = String((await get(undefined, gzip)).headers.etag)
  expect(zipped).not.toBe(plain)
  for (const [known, more, status, etag] of [
    [plain, {}, 304, plain],
    [`"x", W/${plain}`, {}, 304, plain],
    [zipped, gzip, 304, zipped],
    ['*', {}, 304, plain],
    [' * ', gzip, 304, zipped],
    [zipped, {}, 200, plain],
    [plain, gzip, 200, zipped],
    ['"x", *', {}, 200, plain],
  ] as const) {
    const answer = await get(known, more)
    expect([known, answer.status, answer.headers.etag]).toEqual([known, status, etag])
    if (status === 304) {
      const { 'content-length': length, 'transfer-encoding': coding, vary } = answer.headers
      expect([known, answer.text, length, coding, vary]).toEqual([
        known,
        '',
        undefined,
        undefined,
        'accept-encoding',
      ])
      const only = await get(known, more, 'HEAD')
      expect([only.status, only.headers['content-length']]).toEqual([304, undefined])
    }
  }
  agent.destroy()
  await other.stop(1000)
})

test('control requests beyond the memory are 503; those of disconnected clients count until they end', async () => {
  const held = gate()
  const reply = { status: 200, body: 'done' }
  let begun = 0
  const graphql = async () => {
    begun += 1
    await held.promise
    return reply
  }
  const slow = await start(fake, {}, { graphql })
  const agent = new Agent()
  const body = Buffer.alloc(GRAPHQL_BODY_BYTES_MAX)
  const count = Math.ceil(CONTROL_BYTES_MAX / (GRAPHQL_BODY_BYTES_MAX + CONTROL_REQUEST_BYTES))
  const running: ReturnType<typeof ask>[] = []
  while (running.length < count) {
    running.push(ask(slow.port, '/graphql', { body, agent }))
    await until(() => begun === running.length) // else too many bodies are incomplete
  }
  expect((await ask(slow.port, '/graphql', { body: '{}' })).status).toBe(503)
  held.open()
  for (const answer of await Promise.all(running)) expect(answer.text).toBe('done')
  const gone = await Raw.open(slow.port)
  gone.write(`${head('/graphql', ['Content-Length: 5'])}ab`)
  await until(() => slow.stats().open === 1)
  gone.socket.destroy()
  await until(() => slow.stats().open === 0)
  expect((await ask(slow.port, '/graphql', { body: '{}' })).text).toBe('done')
  await slow.stop(1000)
})

test('health, metrics and unknown paths answer; HEAD has no body and keeps its connection', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const get = (path: string, method = 'GET') => ask(api.port, path, { method, agent })
  for (const path of ['/livez', '/readyz', '/metrics']) {
    const full = await get(path)
    const empty = await get(path, 'HEAD')
    expect([full.status, empty.status, empty.text]).toEqual([200, 200, ''])
    expect(empty.headers['content-length']).toBe(String(full.text.length))
    const posted = await get(path, 'POST')
    expect([posted.status, posted.headers.allow]).toEqual([405, 'GET, HEAD'])
  }
  expect((await get('/metrics')).headers['content-type']).toMatch(/^text\/plain; version=0\.0\.4/)
  for (const path of ['/', '/v1', '/v1/', '/v1/open/more', '/graphql/', '/nothing']) {
    const answer = await get(path)
    expect([path, answer.status, typeof answer.json.code]).toEqual([path, 404, 'string'])
  }
  agent.destroy()
})

test('/readyz gives the reason; ingest refuses with 503 only if events cannot be taken', async () => {
  fake.health = { ready: false, why: 'the last flush failed' }
  const ready = await ask(api.port, '/readyz', { method: 'GET' })
  expect([ready.status, ready.json.code, ready.json.errors]).toEqual([
    503,
    'not_ready',
    'the last flush failed',
  ])
  expect((await ask(api.port, '/livez', { method: 'GET' })).status).toBe(200)
  expect((await ask(api.port, '/v1/open', { body: '{"id":"a"}' })).status).toBe(200)
  fake.health = { ready: true, refuse: { code: 'disk_full', message: 'the disk is full' } }
  expect((await ask(api.port, '/readyz', { method: 'GET' })).json.code).toBe('disk_full')
  expect((await ask(api.port, '/v1/open', { body: '{"id":"a"}' })).status).toBe(503)
  fake.health = { ready: true }
  expect((await ask(api.port, '/readyz', { method: 'GET' })).status).toBe(200)
})

test('further routes get their decoded path and query', async () => {
  const answer = await ask(api.port, '/v1/pools/a%20b/arrow?x=%31', { method: 'GET' })
  expect([answer.status, answer.text]).toEqual([200, 'a b?x=%31'])
  expect((await ask(api.port, '/v1/pools/%zz/arrow', { method: 'GET' })).status).toBe(404)
  expect((await ask(api.port, '/v1/pools/a/arrow', { method: 'POST' })).headers.allow).toBe('GET, HEAD')
})

test('an address in use is refused', async () => {
  await expect(start(fake, { port: api.port })).rejects.toThrow(/in use/)
})

test('Basic credentials match as a whole, and their scheme in any case', () => {
  const wanted = { username: 'a', password: 'b:c' }
  const header = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  for (const good of [header('a:b:c'), `BASIC  ${header('a:b:c').slice(6)} `])
    expect(basicAuthMatches(good, wanted)).toBe(true)
  for (const bad of [
    '',
    'Basic',
    'Basic ',
    header('a:b'),
    header('A:b:c'),
    header(''),
    `Bearer ${header('a:b:c').slice(6)}`,
  ])
    expect([bad, basicAuthMatches(bad, wanted)]).toEqual([bad, false])
  expect(basicAuthMatches(header(':'), { username: '', password: '' })).toBe(true)
})

test('the rate bucket: one second of burst, debt delays, pools apart', () => {
  let now = 0
  const rate = new RateLimit(10, () => now)
  expect(rate.retryAfterSeconds(1)).toBe(0)
  rate.pay(1, 45)
  expect([rate.retryAfterSeconds(1), rate.retryAfterSeconds(2)]).toEqual([4, 0])
  now = 3400
  expect(rate.retryAfterSeconds(1)).toBe(1)
  now = 3600
  expect(rate.retryAfterSeconds(1)).toBe(0)
  now = 1e9
  rate.pay(1, 10)
  expect(rate.retryAfterSeconds(1)).toBe(1)
  expect(new RateLimit(0).retryAfterSeconds(1)).toBe(0)
})
