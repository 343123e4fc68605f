/**
 * Every operation of `/openapi.json` on a real server: its success, and each refusal that can be
 * provoked there. An answer that the document does not describe fails. test/api/openapi.test.ts has
 * the refusals of a server that fails, stops, or limits what comes.
 */
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { buildClientSchema, buildSchema, getIntrospectionQuery, printSchema } from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BODY_BYTES_MAX, GRAPHQL_BODY_BYTES_MAX } from '../../src/util/limits.ts'
import { ask, head, Raw } from '../api/client.ts'
import { type Call, Documented } from '../util/openapi.ts'
import { createSource } from '../util/senders.ts'
import { adminOf, fetchToken, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { portOf } from './client.ts'

const VERIFY_TOKEN = 'meatyhamhock'

let server: TestServer
let port = 0
let documented: Documented
/** Headers of callers: all scopes, none that opens anything, the scope to query alone. */
let admin: Record<string, string>
let nobody: Record<string, string>
let reader: Record<string, string>
/** Ids of webhooks by what their sources take. */
const webhooks: Record<string, string> = {}

const basic = (id: string, secret: string) => ({
  authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
})

const call = (id: string, status: number, what: Call = {}) => documented.call(port, id, status, what)
const withJson = (body: unknown, headers: Record<string, string> = admin): Call => ({
  body: typeof body === 'string' ? body : JSON.stringify(body),
  headers: { 'content-type': 'application/json', ...headers },
})

async function application(scopes: readonly string[]): Promise<Record<string, string>> {
  const { json } = await call('manageApplications', 200, withJson({ action: 'create', scopes }))
  const [{ id, secret }] = json as [{ id: string; secret: string }]
  return basic(id, secret)
}

const COLUMNS = [
  { name: 'at', jsonProperty: 'at', type: 'TIMESTAMP', nullable: false },
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
]
const KEYED = { columns: COLUMNS, timestamp: 'at', uniqueId: 'id' }
const EVENT = { at: '2026-01-01T00:00:00Z', id: 'a' }

beforeAll(async () => {
  server = await startServer()
  port = portOf(server)
  const { status, json } = await ask(port, '/openapi.json', { method: 'GET' })
  expect(status).toBe(200)
  documented = new Documented(json)
  const { clientId, clientSecret } = adminOf(server.dataDir)
  admin = basic(clientId, clientSecret)
  nobody = await application(['metric:read'])
  reader = await application(['data_pool:query'])
  await server.createPool({ uniqueName: 'parcels', ...KEYED })
  await server.createPool({ uniqueName: 'secret', ...KEYED, accessControlEnabled: true })
  const unsigned = { signatureEnabled: false }
  const sources = {
    plain: KEYED,
    all: { ...KEYED, accept: ['FORM', 'TEXT', 'PUT', 'PATH', 'BROWSER'], verifyToken: VERIFY_TOKEN },
    other: { ...KEYED, accept: ['PUT', 'PATH'] },
    guarded: { ...KEYED, accept: ['PUT', 'PATH'], basicAuth: { username: 'u', password: 'p' } },
    signed: { accept: ['PATH'], signature: { scheme: 'GITHUB', secrets: ['a secret of the sender'] } },
    discord: { preset: 'DISCORD', accept: ['PUT', 'PATH'], ...unsigned },
    trello: { preset: 'TRELLO', accept: ['PATH'], ...unsigned },
    cloud: { preset: 'CLOUDEVENTS', accept: ['PATH'] },
  }
  for (const [name, settings] of Object.entries(sources)) {
    const { url } = await createSource(server.graphql, settings)
    webhooks[name] = url.slice(url.lastIndexOf('/') + 1)
  }
})
afterAll(() => server.stop())

describe.each(['', 'AtPath'])('webhooks%s', suffix => {
  const at = (name: string, what: Call = {}): Call => ({
    ...what,
    in: { webhook_id: webhooks[name] ?? name, path: 'orders/new' },
  })
  const stores = ['postEvents', 'putEvents', 'patchEvents'].map(id => `${id}${suffix}`)
  const writes = [...stores, `deleteRecords${suffix}`]

  test('events are stored, and records deleted', async () => {
    for (const id of writes) {
      const stored = await call(id, 200, at('all', withJson([EVENT, EVENT])))
      expect(stored.json).toHaveLength(2)
      expect(stored.headers['x-events-accepted']).toBe('2')
      await call(id, 200, at('all', withJson([EVENT, {}, 7])))
      const minimal = { ...withJson(EVENT, { prefer: 'return=minimal' }), query: 'disable_partial_success=1' }
      expect((await call(id, 200, at('all', minimal))).text).toBe('[]')
      const lines = { headers: { 'content-type': 'application/x-ndjson', 'content-encoding': 'gzip' } }
      await call(id, 200, at('all', { ...lines, body: gzipSync(`${JSON.stringify(EVENT)}\n`) }))
    }
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    await call(stores[0]!, 200, at('all', { body: 'at=2026-01-01&id=form', headers: form }))
    await call(
      stores[0]!,
      200,
      at('all', { body: JSON.stringify(EVENT), headers: { 'content-type': 'text/plain' } }),
    )
  })

  test('what is wrong with a request', async () => {
    for (const id of writes) {
      await call(id, 400, at('all', withJson('x')))
      await call(id, 400, at('all', withJson({})))
      await call(id, 400, at('all', { ...withJson(EVENT), query: 'disable_partial_success=maybe' }))
      await call(id, 401, at('guarded', withJson(EVENT, {})))
      await call(id, 401, at('guarded', withJson(EVENT, basic('u', 'wrong'))))
      await call(id, 404, at('WHK00000000000000000000000000', withJson(EVENT)))
      await call(id, 413, at('all', withJson(' '.repeat(BODY_BYTES_MAX + 1))))
      await call(id, 413, at('all', withJson(Array.from({ length: 501 }, () => EVENT))))
      await call(id, 415, at('all', { body: '<xml/>', headers: { 'content-type': 'text/xml' } }))
      const brotli = { 'content-encoding': 'br' }
      await call(id, 415, at('all', { body: brotliCompressSync('{}'), headers: brotli }))
    }
    await call(stores[0]!, 401, at('signed', withJson(EVENT, {})))
  })

  test('handshakes and preflights', async () => {
    for (const id of stores) await call(id, 204, at('discord', withJson({ type: 0 })))
    for (const id of stores)
      expect((await call(id, 200, at('discord', withJson({ type: 1 })))).json).toEqual({ type: 1 })
    const subscribe = (token: string) => ({
      query: `hub.mode=subscribe&hub.challenge=123&hub.verify_token=${token}`,
    })
    expect((await call(`getWebhook${suffix}`, 200, at('all', subscribe(VERIFY_TOKEN)))).text).toBe('123')
    await call(`getWebhook${suffix}`, 403, at('all', subscribe('wrong')))
    await call(`headWebhook${suffix}`, 200, at('trello'))
    const cloud = { headers: { 'webhook-request-origin': 'events.example.com' } }
    await call(`optionsWebhook${suffix}`, 200, at('cloud', cloud))
    const page = { headers: { origin: 'https://example.com', 'access-control-request-method': 'POST' } }
    await call(`optionsWebhook${suffix}`, 204, at('all', page))
  })

  test('methods that a source does not take, and webhooks that are not there', async () => {
    for (const id of [...stores.slice(1), `deleteRecords${suffix}`])
      await call(id, 405, at('signed', withJson(EVENT)))
    for (const id of ['getWebhook', 'headWebhook', 'optionsWebhook']) {
      const { headers } = await call(`${id}${suffix}`, 405, at('other'))
      expect(headers.allow).toBe('POST, PUT, PATCH, DELETE')
      await call(`${id}${suffix}`, 404, at('WHK00000000000000000000000000'))
    }
  })
})

describe('pools', () => {
  const of = (pool: string, query = '', headers = admin): Call => ({ in: { pool }, query, headers })
  const filters = encodeURIComponent(JSON.stringify([{ column: 'id', operator: 'EQUALS', value: 'a' }]))
  const rows = '{"at":"2026-01-01","id":"a"}\n{"at":"x","id":"b"}\nno JSON\n'
  const IMPORT = (headers: Record<string, string>, body: string | Uint8Array = rows): Partial<Call> => ({
    body,
    headers: { 'content-type': 'application/x-ndjson', ...headers },
  })

  test('rows come in by an import, and are listed', async () => {
    for (const [pool, headers] of [
      ['parcels', admin],
      ['secret', admin],
    ] as const)
      expect(
        (await call('importRows', 200, { ...of(pool, 'label=first'), ...IMPORT(headers) })).json,
      ).toMatchObject({
        accepted: 1,
        rejected: 2,
      })
    const { json } = await call('listImports', 200, of('parcels', 'label=first'))
    expect(json.imports).toHaveLength(1)
  })

  test('an import that cannot be taken, or ends early', async () => {
    const wrong = (query: string, what: Partial<Call>) => ({ ...of('parcels', query), ...what })
    await call('importRows', 400, wrong('skipRows=x', IMPORT(admin)))
    const broken = IMPORT({ ...admin, 'content-encoding': 'gzip' }, gzipSync(rows).subarray(0, 30))
    expect((await call('importRows', 400, wrong('', broken))).json).toHaveProperty('durableRows')
    await call('importRows', 401, wrong('', IMPORT({})))
    await call('importRows', 403, wrong('', IMPORT(reader)))
    await call('importRows', 404, { ...of('none'), ...IMPORT(admin) })
    await call('importRows', 404, { ...of('%'), ...IMPORT(admin) })
    await call('importRows', 415, wrong('', IMPORT({ ...admin, 'content-type': 'text/xml' })))
    await call('importRows', 415, wrong('', IMPORT({ ...admin, 'content-encoding': 'br' })))
    await call('listImports', 400, of('parcels', 'labels=x'))
  })

  test('an import that somebody cancels is 409', async () => {
    const raw = await Raw.open(port)
    const lines = ['Content-Type: application/x-ndjson', `Authorization: ${admin['authorization']}`]
    raw.write(head('/v1/pools/parcels/import?label=slow', [...lines, 'Content-Length: 1000000']))
    raw.write(rows)
    const running = async () => {
      const { json } = await call('listImports', 200, of('parcels', 'label=slow'))
      return (json.imports as { readonly id: string }[])[0]?.id
    }
    await expect.poll(running).toBeDefined()
    await call('manageJobs', 200, withJson({ action: 'cancel', job: await running() }))
    await raw.until(({ received }) => received.includes('"refusedOmitted"'))
    const [top = '', text = ''] = raw.received.split('\r\n\r\n{')
    expect(top).toContain(' 409 ')
    const headers = { 'content-type': 'application/problem+json' }
    documented.check('importRows', { status: 409, headers, text: `{${text.trimEnd()}`, json: undefined })
    raw.socket.destroy()
  })

  test('rows leave as Arrow, NDJSON, CSV and Parquet', async () => {
    const chosen = `columns=id,at&filters=${filters}&start=2025-01-01&stop=2027-01-01`
    await call('readArrow', 200, of('parcels', chosen, reader))
    for (const format of ['ndjson', 'csv', 'parquet'])
      await call('exportRows', 200, of('parcels', `format=${format}&${chosen}`, reader))
  })

  test('a tail sends what is acknowledged', async () => {
    const raw = await Raw.open(port)
    raw.write(head(`/v1/pools/parcels/tail?columns=id`, [`Authorization: ${reader['authorization']}`], 'GET'))
    await raw.until(({ received }) => received.includes(': connected'))
    const [top = ''] = raw.received.split('\r\n\r\n')
    expect(top).toContain('200 OK')
    const headers = { 'content-type': /content-type: ([^\r]+)/i.exec(top)?.[1] ?? '' }
    documented.check('tailEvents', { status: 200, headers, text: ': connected', json: undefined })
    raw.socket.destroy()
  })

  test.each(['readArrow', 'exportRows', 'tailEvents'])('%s is refused', async id => {
    const format = id === 'exportRows' ? 'format=csv&' : ''
    await call(id, 400, of('parcels', `${format}columns=none`))
    await call(id, 400, of('parcels', `${format}color=red`))
    await call(id, 401, of('parcels', format, {}))
    await call(id, 403, of('parcels', format, nobody))
    await call(id, 403, of('secret', format, reader)) // access control without a policy
    await call(id, 404, of('none', format))
  })

  test('listing imports is refused', async () => {
    await call('listImports', 401, of('parcels', '', {}))
    await call('listImports', 403, of('parcels', '', reader))
    await call('listImports', 404, of('none'))
  })
})

describe('questions', () => {
  const counter = (name: string) => ({ metric: { count: { dataPool: { name } } } })
  const asked = (query: string, headers = admin): Call => ({ query, headers })

  test('/v1/query answers tables, and refuses', async () => {
    const sql = `sql=${encodeURIComponent('SELECT id, count(*) AS n FROM parcels GROUP BY 1')}`
    for (const format of ['json', 'csv', 'arrow']) {
      await call('queryByParameters', 200, asked(`${sql}&format=${format}`))
      await call('query', 200, { ...withJson({ counter: counter('parcels') }), query: `format=${format}` })
    }
    for (const id of ['queryByParameters', 'query']) {
      const question = (name: string, headers = admin) =>
        id === 'query'
          ? withJson({ counter: counter(name) }, headers)
          : asked(`counter=${encodeURIComponent(JSON.stringify(counter(name)))}`, headers)
      await call(id, 200, question('parcels'))
      await call(id, 400, { headers: admin })
      await call(id, 401, question('parcels', {}))
      await call(id, 403, question('parcels', nobody))
      await call(id, 403, question('secret', reader))
      await call(id, 404, question('none'))
    }
    await call('query', 413, withJson(' '.repeat(GRAPHQL_BODY_BYTES_MAX + 1)))
  })

  test('/graphql answers data and errors', async () => {
    const query = 'query ($i: CounterInput!) { counter(input: $i) { value } }'
    await call('graphql', 200, withJson({ query, variables: { i: counter('parcels') }, operationName: null }))
    const failed = await call('graphql', 200, withJson({ query, variables: { i: counter('none') } }))
    expect(failed.json.errors[0].extensions.code).toBe('NOT_FOUND')
    await call('graphql', 200, withJson({ query: '{ nothing }' }))
    await call('graphql', 400, withJson('[]'))
    await call('graphql', 401, withJson({ query: '{ __typename }' }, {}))
    await call('graphql', 413, withJson(' '.repeat(GRAPHQL_BODY_BYTES_MAX + 1)))
  })

  test('/graphql/schema is what introspection answers, for the same callers', async () => {
    const { text, headers } = await call('graphqlSchema', 200, { headers: nobody })
    const introspected = await ask(
      port,
      '/graphql',
      withJson({ query: getIntrospectionQuery({ inputValueDeprecation: true }) }, nobody),
    )
    // Introspection leaves out the order of types, so both are printed anew.
    expect(sorted(text)).toEqual(sorted(printSchema(buildClientSchema(introspected.json.data))))
    expect(printSchema(buildSchema(text))).toBe(text.trimEnd())
    expect(headers['cache-control']).toBe('private, no-cache')
    const known = { ...admin, 'if-none-match': `W/"x", ${headers.etag}` }
    await call('graphqlSchema', 304, { headers: known })
    await call('graphqlSchema', 401)
    await call('graphqlSchema', 401, { headers: { 'if-none-match': String(headers.etag) } })
    await call('graphqlSchema', 400, { query: 'pretty=1', headers: admin })
    const bearer = await fetchToken(server.base, server.dataDir)
    await call('graphqlSchema', 200, { headers: { authorization: `Bearer ${bearer}` } })
  })
})

/** The definitions of a schema in the order of their names. */
function sorted(sdl: string): string[] {
  return sdl
    .trimEnd()
    .split(/\n\n(?=\S)/)
    .sort()
}

test('tokens', async () => {
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const body = 'grant_type=client_credentials'
  await call('getToken', 200, { body, headers: { ...form, ...admin } })
  await call('getToken', 400, { body: 'grant_type=password', headers: { ...form, ...admin } })
  await call('getToken', 400, { body: `${body}&scope=none`, headers: { ...form, ...admin } })
  await call('getToken', 401, { body, headers: { ...form, ...basic('APP', 'wrong') } })
  await call('getToken', 413, { body: `${body}&x=${'x'.repeat(20_000)}`, headers: form })
})

test('preflights are answered to any origin', async () => {
  for (const { id } of documented.operations.filter(
    one => one.method === 'OPTIONS' && one.tag !== 'webhooks',
  )) {
    const { headers } = await call(id, 204, { headers: { origin: 'https://example.com' } })
    expect(headers['access-control-allow-origin']).toBe('*')
  }
})

describe('administration', () => {
  const folder = () => join(mkdtempSync(join(temporaryFolder(), 'b-')), 'new')

  test('what the commands ask', async () => {
    await call('backUp', 200, withJson({ folder: folder() }))
    const [made] = (
      await call('manageApplications', 200, withJson({ action: 'create', application: 'short' }))
    ).json
    expect(made.secret).toBeTypeOf('string')
    for (const action of ['list', 'rotate', 'delete'])
      await call(
        'manageApplications',
        200,
        withJson({ action, ...(action === 'list' ? {} : { application: 'short' }) }),
      )
    await call('manageKeys', 200, withJson({ action: 'rotate', endTokens: false }))
    await call('manageJobs', 200, withJson({ action: 'list', pool: 'parcels', status: ['SUCCEEDED'] }))
    const settings = { columns: COLUMNS, timestamp: 'at', uniqueId: 'id', accept: ['FORM'] }
    await call('manageSources', 200, withJson({ action: 'create', name: 'made', ...settings }))
    await call(
      'manageSources',
      200,
      withJson({ action: 'create', name: 'asana', preset: 'ASANA', unsigned: true }),
    )
    for (const request of [
      { action: 'list' },
      { action: 'show', source: 'made' },
      { action: 'modify', source: 'made', description: 'x' },
      { action: 'handshake', source: 'asana' },
    ])
      await call('manageSources', 200, withJson(request))
  })

  test('a second backup is 409', async () => {
    // The first one has flushed nothing yet when the second one comes.
    const both = await Promise.all(
      Array.from({ length: 8 }, () => ask(port, '/v1/admin/backup', withJson({ folder: folder() }))),
    )
    for (const answer of both) documented.check('backUp', answer)
    expect(both.map(({ status }) => status)).toContain(409)
  })

  test.each(['backUp', 'manageApplications', 'manageKeys', 'manageJobs', 'manageSources'])(
    '%s is refused',
    async id => {
      await call(id, 400, withJson('x'))
      await call(id, 400, { ...withJson({}), query: 'force=1' })
      await call(id, 401, withJson({}, {}))
      await call(id, 403, withJson({ folder: '/x' }, nobody))
      await call(id, 413, withJson(' '.repeat(GRAPHQL_BODY_BYTES_MAX + 1)))
    },
  )
})

test('sessions of the console', async () => {
  const began = await call('beginSession', 200, withJson(adminOf(server.dataDir), {}))
  const cookie = String(began.headers['set-cookie']).split(';')[0]!
  await call('renewSession', 200, withJson({}, { cookie }))
  await call('beginSession', 401, withJson({ code: 'used' }, {}))
  for (const id of ['beginSession', 'renewSession', 'endSession']) {
    await call(id, 400, { ...withJson({}, { cookie }), query: 'x=1' })
    await call(id, 403, withJson({}, { cookie, origin: 'https://example.com' }))
    await call(id, 413, withJson(' '.repeat(5_000), { cookie }))
    await call(id, 415, { body: '{}', headers: { cookie, 'content-type': 'text/plain' } })
  }
  await call('endSession', 200, withJson({}, { cookie }))
  await call('renewSession', 401, withJson({}, { cookie }))
})

test('probes and metrics', async () => {
  for (const id of ['livez', 'readyz', 'metrics']) await call(id, 200)
})

test('HEAD is answered as GET, without a body', async () => {
  const reads = documented.operations.filter(one => one.method === 'GET' && one.tag !== 'webhooks')
  for (const { id, path } of reads) {
    const query =
      { exportRows: 'format=csv', queryByParameters: 'sql=SELECT%201%20AS%20n%20FROM%20parcels' }[id] ?? ''
    const target = path.replaceAll(/\{\w+\}/g, 'parcels')
    const { status, text } = await ask(port, `${target}?${query}`, { method: 'HEAD', headers: admin })
    expect([id, status, text]).toEqual([id, 200, ''])
  }
})

describe('the descriptions as files', () => {
  const both = () => [['/openapi.json', {}] as const, ['/graphql/schema', admin] as const]

  test('they are compressed, revalidated, and read by pages of any origin', async () => {
    for (const [path, headers] of both()) {
      const get = (more = {}, method = 'GET') => ask(port, path, { method, headers: { ...headers, ...more } })
      const plain = await get()
      expect([plain.status, plain.headers['access-control-allow-origin']]).toEqual([200, '*'])
      expect(plain.headers['x-content-type-options']).toBe('nosniff')
      const answer = await fetch(`${server.base}${path}`, { headers })
      expect([answer.headers.get('content-encoding'), await answer.text()]).toEqual(['gzip', plain.text])
      const zipped = await get({ 'accept-encoding': 'br, gzip;q=0.5' })
      expect([zipped.headers['content-encoding'], zipped.headers.vary]).toEqual(['gzip', 'accept-encoding'])
      const never = await get({ 'accept-encoding': 'gzip;q=0, identity' })
      expect([never.headers['content-encoding'], never.text]).toEqual([undefined, plain.text])
      const etag = String(plain.headers.etag)
      const same = await get({ 'if-none-match': etag })
      expect([same.status, same.text, same.headers.etag]).toEqual([304, '', etag])
      expect((await get({ 'if-none-match': '"other"' })).status).toBe(200)
      const only = await get({}, 'HEAD')
      expect([only.status, only.text, only.headers.etag]).toEqual([200, '', etag])
      expect(only.headers['content-length']).toBe(String(Buffer.byteLength(plain.text)))
    }
    await call('openapi', 200)
    const { headers } = await call('openapi', 200)
    await call('openapi', 304, { headers: { 'if-none-match': String(headers.etag) } })
    await call('openapi', 400, { query: 'pretty=1' })
    expect(headers['content-type']).toBe('application/json')
  })

  test('other paths, methods and heads are refused, and long ones harm nothing', async () => {
    for (const [path, headers] of both()) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const answer = await ask(port, path, { method, headers, body: '{}' })
        expect([path, method, answer.status, answer.headers.allow]).toEqual([
          path,
          method,
          405,
          'GET, HEAD, OPTIONS',
        ])
      }
      for (const near of [`${path}/`, `/${path}`, `${path}.`, path.toUpperCase(), `${path}%2f`, `${path}%00`])
        expect([near, (await ask(port, near, { method: 'GET', headers })).status]).toEqual([near, 404])
      const long = { ...headers, accept: 'text/html, '.repeat(250) }
      expect((await ask(port, path, { method: 'GET', headers: long })).status).toBe(200)
      const tags = { ...headers, 'if-none-match': '"x", '.repeat(500) }
      expect((await ask(port, path, { method: 'GET', headers: tags })).status).toBe(200)
      const body = await ask(port, path, { method: 'GET', headers, body: 'x'.repeat(17_000) })
      expect(body.status).toBe(413)
    }
    // For uWebSockets.js it depends on the pieces in which a longer head arrives.
    if (process.env['WEIR_HTTP'] !== 'node') return
    const large = { ...admin, accept: 'x'.repeat(40_000) }
    expect((await ask(port, '/openapi.json', { method: 'GET', headers: large })).status).toBe(431)
    await call('livez', 200)
  })
})

test('every documented answer came, but those of a server that fails, stops or limits', () => {
  const isOurs = (status: number) => ![408, 429, 500, 503].includes(status)
  const elsewhere = /^(metrics 40[13]|(begin|renew|end)\w+ 404)$/
  expect(documented.missing((_, status) => isOurs(status)).filter(name => !elsewhere.test(name))).toEqual([])
})
