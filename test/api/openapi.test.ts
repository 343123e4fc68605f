/**
 * The OpenAPI document: it is well-formed, has every route of the router and no other, agrees with
 * docs/contract.md, and describes what the front end itself refuses. test/path/openapi.test.ts asks
 * each operation of the real server.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test, vi } from 'vitest'
import type { Api, ApiDeps, ControlRoute } from '../../src/api/api-types.ts'
import { Control, controlRoutes, Router } from '../../src/api/control.ts'
import { createGraphql } from '../../src/api/graphql/endpoint.ts'
import { makeSchema } from '../../src/api/graphql/graphql-schema.ts'
import { senderOf } from '../../src/api/ingest/sender.ts'
import { OPENAPI } from '../../src/api/openapi/document.ts'
import { metricsAccess } from '../../src/api/probes.ts'
import { Sessions } from '../../src/api/sessions.ts'
import { apiRoutes } from '../../src/app/api-routes.ts'
import { GUESSES_FREE } from '../../src/catalog/access/guess-throttle.ts'
import { createTokens, type Tokens } from '../../src/catalog/access/token.ts'
import { SCOPES } from '../../src/catalog/documents/model.ts'
import { must, Unavailable } from '../../src/util/errors.ts'
import { GRAPHQL_BODY_BYTES_MAX, GUESSES_WAITING_MAX } from '../../src/util/limits.ts'
import { problemIn, resolve, type Schema } from '../util/json-schema.ts'
import { type Call, Documented, type Operation } from '../util/openapi.ts'
import { type Answer, ask, head, Raw } from './client.ts'
import { Fake, start, targetOf, until } from './fake.ts'

/** As clients get it. */
const DOCUMENT = JSON.parse(JSON.stringify(OPENAPI)) as Schema
const documented = new Documented(DOCUMENT)
const { operations } = documented
const page = readFileSync(fileURLToPath(new URL('../../../docs/contract.md', import.meta.url)), 'utf8')

/** The routes as app/server.ts wires them. They can only ask `tokens` who the caller is. */
function wired(tokens?: Tokens): Pick<ApiDeps, 'routes' | 'pages'> {
  const folder = fileURLToPath(new URL('../../console/', import.meta.url))
  const verify = tokens?.verify
  const graphql = tokens && createGraphql(tokens as never)
  const stages = { admin: { verify }, query: { graphql }, exported: { verify }, tail: { verify } }
  return apiRoutes({
    ...(stages as unknown as Parameters<typeof apiRoutes>[0]),
    schema: makeSchema(),
    console: { sessions: new Sessions({ tokens, publicUrl: () => '' } as never), folder },
  })
}

function everyObject(part: unknown): Schema[] {
  if (typeof part !== 'object' || part === null) return []
  const inner = Object.values(part).flatMap(everyObject)
  return Array.isArray(part) ? inner : [part as Schema, ...inner]
}

describe('the document is well-formed', () => {
  test('every reference leads somewhere, and every component is used', () => {
    const pointers = everyObject(DOCUMENT).flatMap(part =>
      part['$ref'] === undefined ? [] : String(part['$ref']),
    )
    expect(pointers.length).toBeGreaterThan(300)
    for (const pointer of pointers) expect(resolve(pointer, DOCUMENT)).toBeTypeOf('object')
    const components = DOCUMENT['components'] as Readonly<Record<string, Schema>>
    const unused = Object.entries(components)
      .filter(([kind]) => kind !== 'securitySchemes')
      .flatMap(([kind, parts]) => Object.keys(parts).map(name => `#/components/${kind}/${name}`))
      .filter(pointer => !pointers.includes(pointer))
    expect(unused).toEqual([])
  })

  test('operations have ids, tags, answers with descriptions, and the parameters of their paths', () => {
    expect(new Set(operations.map(({ id }) => id)).size).toBe(operations.length)
    for (const { id } of operations) expect(id).toMatch(/^[a-z][A-Za-z]+$/)
    const tags = (DOCUMENT['tags'] as readonly { readonly name: string }[]).map(({ name }) => name)
    expect([...new Set(operations.map(({ tag }) => tag))].sort()).toEqual([...tags].sort())
    for (const { id, path, method, responses } of operations) {
      for (const response of Object.values(responses))
        expect([id, typeof resolvedOf(response)['description']]).toEqual([id, 'string'])
      const described = (DOCUMENT['paths'] as never)[path][method.toLowerCase()] as Schema
      const parameters = ((described['parameters'] ?? []) as readonly Schema[]).map(resolvedOf)
      const inPath = parameters.filter(one => one['in'] === 'path' && one['required'] === true)
      const isPreflight = method === 'OPTIONS' && !path.includes('{')
      if (!isPreflight)
        expect([id, inPath.map(({ name }) => name)]).toEqual([
          id,
          [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
        ])
      const names = parameters.map(one => `${one['in']} ${one['name']}`)
      expect([id, new Set(names).size]).toEqual([id, names.length])
    }
  })

  test('credentials are those of the components, with scopes that there are', () => {
    const { securitySchemes } = DOCUMENT['components'] as { readonly securitySchemes: Schema }
    const used = everyObject(DOCUMENT['paths']).flatMap(
      part => (part['security'] ?? []) as readonly Record<string, string[]>[],
    )
    for (const one of used)
      for (const [name, scopes] of Object.entries(one)) {
        expect(securitySchemes).toHaveProperty(name)
        expect(scopes.filter(scope => !(SCOPES as readonly string[]).includes(scope))).toEqual([])
      }
    expect([...new Set(used.flatMap(Object.keys))].sort()).toEqual(Object.keys(securitySchemes).sort())
  })

  test('schemas have only words that the check of answers knows', () => {
    const schemas = everyObject(DOCUMENT).flatMap(part => {
      const { schema } = part
      return typeof schema === 'object' ? [schema as Schema] : []
    })
    const named = Object.values(
      (DOCUMENT['components'] as { readonly schemas: Record<string, Schema> }).schemas,
    )
    for (const schema of [...schemas, ...named].flatMap(schemasIn))
      expect(problemIn(schema, undefined, DOCUMENT)).not.toContain('unknown')
  })
})

/** A schema and those inside it. */
function schemasIn(schema: Schema): Schema[] {
  const { properties = {}, items, anyOf = [], additionalProperties } = schema
  const inner = [...Object.values(properties as Schema), items, additionalProperties, ...(anyOf as Schema[])]
  return [schema, ...inner.filter(one => typeof one === 'object').flatMap(one => schemasIn(one as Schema))]
}

function resolvedOf(part: Schema): Schema {
  return part['$ref'] === undefined ? part : resolve(String(part['$ref']), DOCUMENT)
}

const isWebhook = ({ tag }: Operation) => tag === 'webhooks'

test('the document has every route of the router but the pages, and no other', () => {
  const adding = vi.spyOn(Router.prototype, 'add')
  const fake = new Fake()
  const unused = {} as never
  controlRoutes({ ...fake.deps(), ...wired(), pages: [] }, unused, new Control(unused), unused)
  const added = adding.mock.calls.map(([path, , handlers]) => ({
    path: path.replaceAll(/:(\w+)/g, '{$1}'),
    methods: Object.keys(handlers).map(method => method.toUpperCase()),
  }))
  adding.mockRestore()
  const routed = added.flatMap(({ path, methods }) =>
    // A path with GET takes HEAD, which the document says once for all.
    methods.filter(method => method !== 'HEAD').map(method => `${method} ${path}`),
  )
  expect(routed.length).toBeGreaterThan(25)
  expect(new Set(routed).size).toBe(routed.length)
  const described = operations.filter(one => !isWebhook(one)).map(({ method, path }) => `${method} ${path}`)
  expect(described.sort()).toEqual(routed.sort())
  for (const { path, methods } of added)
    expect([path, methods.includes('HEAD')]).toEqual([path, methods.includes('GET')])
})

test('docs/contract.md has the same routes', () => {
  const section = must(page.split('\n## 1. Routes\n')[1]?.split('\n## ')[0], 'the routes')
  const rows = section.split('\n').filter(line => /^\| `/.test(line))
  const named = rows.flatMap(row => {
    const cell = must(row.split(' | ')[0], 'a cell')
    let methods: string[] = []
    const pending: string[] = []
    const found: string[] = []
    for (const [, quoted = ''] of cell.matchAll(/`([^`]+)`/g)) {
      const [method = '', path = ''] = quoted.startsWith('/') ? ['', quoted] : quoted.split(/ (.*)/)
      if (path === '') pending.push(method)
      else {
        // A path without a method has those of the path before it.
        if (method !== '') methods = [...pending.splice(0), method]
        found.push(...methods.map(each => `${each} ${path.replace('{id or unique name}', '{pool}')}`))
      }
    }
    return found
  })
  // The page speaks of preflights and other methods of webhooks in words, the document of no pages.
  const described = operations
    .filter(({ method, tag, id }) =>
      isWebhook({ tag } as Operation) ? ['postEvents', 'deleteRecords'].includes(id) : method !== 'OPTIONS',
    )
    .map(({ method, path }) => `${method} ${path}`)
  const routes = named.filter(name => !name.startsWith('OPTIONS ') && name !== 'GET /')
  expect(routes.sort()).toEqual(described.sort())
  const preflights = operations.filter(({ method, tag }) => method === 'OPTIONS' && tag !== 'webhooks')
  const text = must(/\| `OPTIONS[^\n]*/.exec(section)?.[0], 'the row of preflights')
  for (const { path } of preflights) expect(text).toContain(`${path}\``)
})

/** Its time for a body is one that a test can set. */
function hasOwnTime(operation: Operation): boolean {
  return isWebhook(operation) || operation.id === 'importRows'
}

/** The answer that a connection received, with a body in JSON. */
async function answerOf(raw: Raw): Promise<Answer> {
  await raw.until(({ received }) => /\r\n\r\n\{.*\}\s*$/s.test(received))
  const [top = '', body = ''] = raw.received.split(/\r\n\r\n(?=\{)/)
  const [line = '', ...lines] = top.split('\r\n')
  const headers = Object.fromEntries(lines.map(each => each.toLowerCase().split(': ')))
  return { status: Number(line.split(' ')[1]), headers, text: body, json: undefined }
}

/** Stages with the webhook `all`, whose source accepts more than JSON by POST. */
function fakeOfAll(): Fake {
  const fake = new Fake()
  const settings = {
    accept: ['PUT', 'PATH', 'BROWSER'],
    signature: null,
    preset: null,
    verifyToken: null,
  } as const
  const facts = { secretUntilMs: () => 0, url: () => '' }
  const sender = must(
    senderOf(settings, { columns: [], key: null }, facts),
    'the sender of a source that accepts more',
  )
  fake.targets.set('all', targetOf(9, { sender }))
  return fake
}

describe('the front end refuses as documented', () => {
  let fake: Fake
  /** What handlers and parsers fail with. */
  let failure: Error
  let api: Api

  beforeAll(async () => {
    fake = fakeOfAll()
    const failing = () => Promise.reject(failure)
    const { routes, pages } = wired()
    api = await start(
      fake,
      {},
      {
        pages,
        routes: routes.map((route): ControlRoute => ({ ...route, handle: failing })),
        graphql: failing,
        token: failing,
        parse: failing,
        metricsText: failing,
        imports: { ...fake.deps().imports, verify: failing },
      },
    )
    return async () => {
      await api.stop(1000)
    }
  })

  const names = { webhook_id: 'all', path: 'p', pool: 'open' }
  const handled = operations.filter(one => one.statuses.includes(500))
  /** Its body is complete, and nothing is wrong before the handler. */
  const whole = ({ id, hasBody }: Operation) => ({
    in: names,
    ...(hasBody ? { body: '{"id":"a"}' } : {}),
    headers: id === 'importRows' ? { 'content-type': 'text/csv' } : {},
  })

  test.each(handled.map(one => [one.id, one] as const))('%s: 500 and 503', async (id, operation) => {
    failure = new Error('expected by this test')
    await documented.call(api.port, id, 500, whole(operation))
    failure = new Unavailable('busy', 'later')
    const answer = await documented.call(api.port, id, 503, whole(operation))
    expect(answer.headers['retry-after']).toBe('1')
  })

  test('a server that takes no events: 503 for every method of a webhook, and for /readyz', async () => {
    fake.health = { ready: false, refuse: { code: 'disk_full', message: 'the disk is full' } }
    for (const { id } of operations.filter(isWebhook)) await documented.call(api.port, id, 503, { in: names })
    await documented.call(api.port, 'readyz', 503)
    fake.health = { ready: true }
  })

  test('bodies that do not arrive: 408', async () => {
    const times = { bodyMsMax: 300, uploadStallMs: 300 }
    const slow = await start(fake, times, { ...wired(), pages: [] })
    const sockets: Raw[] = []
    const begin = async (line: string, method: string, bytes: number, type = 'application/json') => {
      const raw = await Raw.open(slow.port)
      sockets.push(raw)
      raw.write(head(line, [`Content-Length: ${bytes}`, `Content-Type: ${type}`], method))
      raw.write(' '.repeat(bytes - 1))
      return raw
    }
    const askFor = ({ id, method, path }: Operation) => {
      const line = path.replaceAll(/\{(\w+)\}/g, (_, name: keyof typeof names) => names[name])
      return { id, raw: begin(line, method, 20, id === 'importRows' ? 'text/csv' : undefined) }
    }
    const wanted = operations.filter(({ statuses }) => statuses.includes(408))
    const [own, others] = [wanted.filter(one => !hasOwnTime(one)), wanted.filter(hasOwnTime)]
    const asked = own.map(askFor)
    await until(() => slow.stats().open === own.length)
    // Bodies of routes wait for 60 s, and the oldest end where more come than there is memory for.
    for (let count = 0; count < 60; count++) await begin('/graphql', 'POST', GRAPHQL_BODY_BYTES_MAX)
    for (const { id, raw } of [...asked, ...others.map(askFor)]) {
      documented.check(id, await answerOf(await raw))
      expect(documented.seen).toContain(`${id} 408`)
    }
    for (const { socket } of sockets) socket.destroy()
    await slow.stop(1000)
  })

  test('a pool over its rate: 429 for all that stores or deletes', async () => {
    const slow = await start(fakeOfAll(), { rateLimit: 1 })
    const events = Array.from({ length: 500 }, (_, index) => ({ id: String(index) }))
    expect((await ask(slow.port, '/v1/all', { body: JSON.stringify(events) })).status).toBe(200)
    const limited = operations.filter(one => isWebhook(one) && one.statuses.includes(429))
    expect(limited.length).toBe(8)
    // The limit of one event a second lasts for minutes.
    for (const { id } of limited) {
      const { headers } = await documented.call(slow.port, id, 429, { in: names, body: '{"id":"a"}' })
      expect(headers['retry-after']).toMatch(/^[1-9]\d\d$/)
    }
    await slow.stop(1000)
  })

  test('too many wrong secrets: 429 for all that checks one', async () => {
    const application = () => undefined
    const tokens = createTokens({ application, signingKeys: () => [], monotonicMs: () => 0 })
    const guess = { authorization: `Basic ${Buffer.from('APPGUESSED:wrong').toString('base64')}` }
    // Their checks wait up to five seconds for their turn. The clock of the limit stands still.
    for (let guesses = 0; guesses <= GUESSES_FREE + GUESSES_WAITING_MAX; guesses += 1)
      void tokens.verify(guess.authorization, '127.0.0.1')
    const other = await start(
      fake,
      {},
      {
        ...wired(tokens),
        graphql: createGraphql(tokens as never),
        token: request => tokens.token(request),
        imports: { ...fake.deps().imports, verify: tokens.verify },
      },
    )
    const credentials = JSON.stringify({ clientId: 'APPGUESSED', clientSecret: 'wrong' })
    const json = { 'content-type': 'application/json' }
    const special: Readonly<Record<string, Call>> = {
      getToken: {
        headers: { ...guess, 'content-type': 'application/x-www-form-urlencoded' },
        body: 'grant_type=client_credentials',
      },
      beginSession: { headers: json, body: credentials },
      queryByParameters: { headers: guess, query: 'sql=1' },
      query: { headers: { ...guess, ...json }, body: '{"sql":"SELECT 1"}' },
      exportRows: { headers: guess, query: 'format=csv' },
      importRows: { headers: guess, query: 'format=csv', body: '' },
    }
    const checked = operations.filter(one => !isWebhook(one) && one.statuses.includes(429))
    expect(checked.length).toBeGreaterThan(12)
    for (const { id, hasBody } of checked) {
      const what = special[id] ?? { headers: guess, ...(hasBody ? { body: '{}' } : {}) }
      await documented.call(other.port, id, 429, { ...what, in: names })
    }
    await other.stop(1000)
  })

  test('/metrics: 401 and 403', async () => {
    for (const [host, token, status] of [
      ['0.0.0.0', '', 403],
      ['127.0.0.1', 'secret', 401],
    ] as const) {
      const other = await start(fake, {}, { metricsAccess: metricsAccess(host, token) })
      await documented.call(other.port, 'metrics', status)
      await other.stop(1000)
    }
  })

  test('without a console its paths are 404', async () => {
    const other = await start(fake, {}, { routes: [], pages: [] })
    for (const { id, hasBody } of operations.filter(({ tag }) => tag === 'console'))
      await documented.call(other.port, id, 404, { in: names, ...(hasBody ? { body: '{}' } : {}) })
    await other.stop(1000)
  })

  test('a method that a path does not document is 405, and Allow has those that it does', async () => {
    failure = new Error('expected by this test')
    for (const path of new Set(operations.filter(one => !isWebhook(one)).map(one => one.path))) {
      const known = operations.filter(one => one.path === path).map(({ method }) => method)
      const allowed = known.includes('GET') ? [...known, 'HEAD'] : known
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
        if (allowed.includes(method)) continue
        const answer = await ask(api.port, path.replaceAll(/[{}]/g, ''), { method })
        expect([path, method, answer.status]).toEqual([path, method, 405])
        expect(String(answer.headers.allow).split(', ').sort()).toEqual([...allowed].sort())
      }
    }
    const { headers } = await ask(api.port, '/v1/all/p', { method: 'PROPFIND' })
    const described = operations
      .filter(({ path }) => path === '/v1/{webhook_id}/{path}')
      .map(one => one.method)
    for (const method of String(headers.allow).split(', ')) expect(described).toContain(method)
  })

  test('each of these refusals came', () => {
    const isOurs = ({ tag, id }: Operation, status: number) =>
      [408, 429, 500, 503].includes(status) ||
      (tag === 'console' && status === 404) ||
      (id === 'metrics' && status >= 400)
    expect(documented.missing(isOurs)).toEqual([])
  })
})
