/**
 * The routes beside ingest: GraphQL, tokens, CORS, health, metrics, unknown paths; credentials and
 * rates alone.
 */
import { Agent } from 'node:http'
import { expect, test } from 'vitest'
import { basicAuthMatches, RateLimit } from '../../src/api/ingest/admission.ts'
import { Unavailable } from '../../src/util/errors.ts'
import { CONTROL_REQUESTS_MAX, GRAPHQL_BODY_BYTES_MAX } from '../../src/util/limits.ts'
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

test('a preflight is answered, and other methods are 405', async () => {
  for (const path of ['/graphql', '/oauth2/token']) {
    const preflight = await ask(api.port, path, { method: 'OPTIONS', headers: { origin: 'http://x' } })
    expect([preflight.status, preflight.text]).toEqual([204, ''])
    expect(preflight.headers['access-control-allow-origin']).toBe('*')
    expect(preflight.headers['access-control-allow-methods']).toBe('POST, OPTIONS')
    expect(preflight.headers['access-control-allow-headers']).toBe('authorization, content-type')
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

test('control requests beyond the limit are 503; those of disconnected clients count until they end', async () => {
  const held = gate()
  const reply = { status: 200, body: 'done' }
  const slow = await start(fake, {}, { graphql: () => held.promise.then(() => reply) })
  const agent = new Agent()
  const running = Array.from({ length: CONTROL_REQUESTS_MAX }, () =>
    ask(slow.port, '/graphql', { body: '{}', agent }),
  )
  await until(() => slow.stats().open === CONTROL_REQUESTS_MAX)
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
