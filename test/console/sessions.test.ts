/** Sessions over HTTP: who gets a token, and what no page of another origin can do. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { adminOf, type Credentials, startServer, type TestServer } from '../util/server.ts'

let server: TestServer
let admin: Credentials

beforeAll(async () => {
  server = await startServer()
  admin = adminOf(server.dataDir)
})
afterAll(() => server.stop())

async function post(path: string, body: unknown, headers: Record<string, string> = {}, base = server.base) {
  const answer = await fetch(`${base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const cookie = answer.headers.get('set-cookie') ?? ''
  const read = (await answer.json()) as { readonly token: string; readonly code: string }
  return { status: answer.status, headers: answer.headers, body: read, cookie, pair: cookie.split(';')[0]! }
}

const signIn = (headers = {}) => post('/session', admin, headers)

/** The status of a question that needs a token. */
async function ask(token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  return (
    await fetch(`${server.base}/graphql`, { method: 'POST', headers, body: '{"query":"{ __typename }"}' })
  ).status
}

describe('a session', () => {
  test('begins with an id and a secret, and gives tokens', async () => {
    const { status, body, cookie, pair, headers } = await signIn()
    expect(status).toBe(200)
    const { port } = new URL(server.base)
    expect(cookie).toMatch(
      new RegExp(
        `^weir_session_${port}=[\\w-]{43}; Path=/session; Max-Age=43200; HttpOnly; SameSite=Strict$`,
      ),
    )
    expect(headers.get('cache-control')).toBe('no-store')
    expect(await ask(body.token)).toBe(200)
    const claims = JSON.parse(Buffer.from(body.token.split('.')[1]!, 'base64url').toString())
    expect(claims.exp - claims.iat).toBe(300)
    const again = await post('/session/token', {}, { cookie: `other=1; ${pair}` })
    expect(again.status).toBe(200)
    expect(again.cookie).toBe('')
    expect(await ask(again.body.token)).toBe(200)
  })

  test('ends with a sign-out, and its cookie with it', async () => {
    const { pair } = await signIn()
    const { status, cookie } = await post('/session/end', {}, { cookie: pair })
    expect(status).toBe(200)
    expect(cookie).toContain('Max-Age=0')
    expect(await post('/session/token', {}, { cookie: pair })).toMatchObject({
      status: 401,
      body: { code: 'signed_out' },
    })
  })

  test('ends with a sign-out beside a cookie that somebody planted', async () => {
    const { pair } = await signIn()
    const planted = `${pair.split('=')[0]}=planted`
    expect((await post('/session/end', {}, { cookie: `${planted}; ${pair}` })).status).toBe(200)
    expect((await post('/session/token', {}, { cookie: pair })).status).toBe(401)
  })

  test('outlives another application that signs in again and again', async () => {
    const { data } = await server.graphql<{
      readonly createApplication: {
        readonly application: { readonly clientId: string; readonly secret: string }
      }
    }>(`mutation { createApplication(input: { uniqueName: "busy", scopes: [DATA_POOL_QUERY] }) {
          ... on ApplicationResponse { application { clientId secret } } } }`)
    const { clientId, secret } = data.createApplication.application
    const { pair } = await signIn()
    const pairs: string[] = []
    for (let count = 0; count < 65; count += 1)
      pairs.push((await post('/session', { clientId, clientSecret: secret })).pair)
    const status = async (cookie: string) => (await post('/session/token', {}, { cookie })).status
    expect(await status(pair)).toBe(200)
    expect([await status(pairs[0]!), await status(pairs[1]!), await status(pairs[64]!)]).toEqual([
      401, 200, 200,
    ])
  })

  test.each([
    ['a secret of 4,000 characters', () => ({ ...admin, clientSecret: 'x'.repeat(3_900) }), 400],
    ['a wrong secret', () => ({ ...admin, clientSecret: 'x'.repeat(32) }), 401],
    ['an unknown id', () => ({ ...admin, clientId: 'APP00000000000000000000000000' }), 401],
    ['an id with a colon', () => ({ clientId: `${admin.clientId}:`, clientSecret: admin.clientSecret }), 401],
    ['no secret', () => ({ clientId: admin.clientId }), 400],
    ['a code that nobody made', () => ({ code: 'A'.repeat(43) }), 401],
    ['an empty code', () => ({ code: '' }), 401],
    ['a list', () => [], 400],
    ['no JSON', () => '{', 400],
  ])('does not begin with %s', async (_, body, expected) => {
    const { status, cookie } = await post('/session', body())
    expect(status).toBe(expected)
    expect(cookie).toBe('')
  })

  test.each(['', 'A'.repeat(43), '../..', '__proto__'])('does not go on by the cookie "%s"', async value => {
    const { port } = new URL(server.base)
    const { status } = await post('/session/token', {}, { cookie: `weir_session_${port}=${value}` })
    expect(status).toBe(401)
  })

  test('takes no id that somebody planted before the sign-in', async () => {
    const { port } = new URL(server.base)
    const planted = `weir_session_${port}=${'B'.repeat(43)}`
    const { pair } = await signIn({ cookie: planted })
    expect(pair).not.toBe(planted)
    expect((await post('/session/token', {}, { cookie: planted })).status).toBe(401)
  })

  test('is not taken where a second cookie of its name came', async () => {
    const [own, planted] = [await signIn(), await signIn()]
    const cookie = `${planted.pair}; ${own.pair}`
    expect(await post('/session/token', {}, { cookie })).toMatchObject({ status: 401 })
    expect((await post('/session/token', {}, { cookie: own.pair })).status).toBe(200)
  })

  test('ends where its browser signs in again', async () => {
    const { pair } = await signIn()
    expect((await signIn({ cookie: pair })).status).toBe(200)
    expect((await post('/session/token', {}, { cookie: pair })).status).toBe(401)
  })

  test('is of no use on any other route', async () => {
    const { pair } = await signIn()
    for (const path of ['/graphql', '/v1/query', '/v1/admin/jobs'])
      expect((await post(path, { sql: 'SELECT 1' }, { cookie: pair })).status, path).toBe(401)
  })
})

describe('a page of another origin', () => {
  const foreign: readonly Record<string, string>[] = [
    { origin: 'http://evil.example' },
    { origin: 'null' },
    { origin: 'http://127.0.0.1:1' },
    { origin: 'https://127.0.0.1.evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ]
  test.each(foreign)('gets nothing: %j', async headers => {
    const { pair } = await signIn()
    for (const path of ['/session', '/session/token', '/session/end']) {
      const answer = await post(path, admin, { ...headers, cookie: pair })
      expect(answer).toMatchObject({ status: 403, body: { code: 'other_origin' }, cookie: '' })
      expect(answer.headers.get('access-control-allow-origin')).toBe(null)
    }
    expect((await post('/session/token', {}, { cookie: pair })).status).toBe(200)
  })

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', ''])(
    'cannot send a form of the type "%s"',
    async type => {
      const { pair } = await signIn()
      const answer = await post('/session/token', '{}', { 'content-type': type, cookie: pair })
      expect(answer).toMatchObject({ status: 415 })
    },
  )

  test('is not asked whether it may', async () => {
    const answer = await fetch(`${server.base}/session`, { method: 'OPTIONS' })
    expect(answer.status).toBe(405)
    expect(answer.headers.get('access-control-allow-origin')).toBe(null)
    expect((await fetch(`${server.base}/session`)).status).toBe(405)
  })

  test('is this one where Origin and Host agree', async () => {
    const { port } = new URL(server.base)
    expect((await signIn({ origin: server.base })).status).toBe(200)
    expect(
      (await signIn({ origin: `https://127.0.0.1:${port}`, 'sec-fetch-site': 'same-origin' })).status,
    ).toBe(200)
  })
})

test('a session ends with the secret of its application', async () => {
  const created = await server.graphql<{
    createApplication: { application: { id: string; secret: string; clientId: string } }
  }>(
    `mutation { createApplication(input: { uniqueName: "reader", scopes: [DATA_POOL_QUERY] }) {
       ... on ApplicationResponse { application { id clientId secret } } } }`,
  )
  const { id, clientId, secret } = created.data.createApplication.application
  const { body, pair } = await post('/session', { clientId, clientSecret: secret })
  expect(body).toMatchObject({ scopes: ['data_pool:query'], application: { id, uniqueName: 'reader' } })
  expect((await post('/session/token', {}, { cookie: pair })).status).toBe(200)
  await server.graphql(`mutation { deleteApplication(id: "${id}") }`)
  expect(await post('/session/token', {}, { cookie: pair })).toMatchObject({
    status: 401,
    body: { code: 'signed_out' },
  })
  expect(await ask(body.token)).toBe(401)
})

describe('the link of a first start', () => {
  test('signs in once', async () => {
    const code = /#code=([\w-]{43}) /.exec(server.output())?.[1]
    expect(code).toBeDefined()
    const first = await post('/session', { code })
    expect(first).toMatchObject({ status: 200, body: { application: { id: admin.clientId } } })
    expect(await ask(first.body.token)).toBe(200)
    expect(await post('/session', { code })).toMatchObject({ status: 401, body: { code: 'code_used' } })
  })

  test('is printed by no later start, nor where others can reach the server', async () => {
    const other = await startServer({ args: ['--host', '0.0.0.0'] })
    await expect.poll(() => other.output()).toContain('first application')
    expect(other.output()).not.toContain('#code=')
    await other.stop()
    const later = await startServer({ dataDir: other.dataDir })
    expect(later.output()).not.toContain('#code=')
    await later.stop()
  })
})

test('behind https the cookie is sent by https alone', async () => {
  const other = await startServer({ args: ['--public-url', 'https://weir.example'] })
  const given = adminOf(other.dataDir)
  const origin = { origin: 'https://weir.example' }
  expect((await post('/session', given, origin, other.base)).cookie).toMatch(/; Secure$/)
  expect((await post('/session', given, { origin: 'https://weir.example:8443' }, other.base)).status).toBe(
    403,
  )
  await other.stop()
})
