/** The line about an internal error names the requests that got it, wherever it arose. */
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Api, ApiDeps, ControlRoute, StreamReply } from '../../src/api/api-types.ts'
import { senderOf } from '../../src/api/ingest/sender.ts'
import { tailRoute } from '../../src/api/tail-route.ts'
import { must } from '../../src/util/errors.ts'
import { joinRequestIds } from '../../src/util/request-id.ts'
import { startTracing } from '../../src/util/tracing.ts'
import { recordLog } from '../util/log-lines.ts'
import { type Ask, ask } from './client.ts'
import { Fake, good, start, targetOf, until } from './fake.ts'

const failing = (): never => {
  throw new Error('expected by this test')
}
const rejecting = () => Promise.reject(new Error('expected by this test'))

/** Asks a front end with an id, and expects 500 and one line that has it. */
async function expectNamed(api: Api, path: string, where: string, what: Ask = {}): Promise<void> {
  const lines = recordLog()
  const headers = { ...what.headers, 'x-request-id': 'r-1' }
  const answer = await ask(api.port, path, { ...what, headers })
  expect([answer.status, answer.json?.code, answer.headers['x-request-id']]).toEqual([500, 'internal', 'r-1'])
  expect(lines).toEqual([
    {
      time: expect.any(String),
      level: 'error',
      message: expect.stringMatching(new RegExp(`^${where} \\(request r-1\\): Error: expected by this test`)),
      requestId: 'r-1',
    },
  ])
  expect(await api.stop(1000)).toBe(true)
}

function serve(route: Pick<ControlRoute, 'methods' | 'path' | 'handle'>): Promise<Api> {
  return start(new Fake(), {}, { routes: [{ ...route, bodyBytesMax: 0 }] })
}

test('a batch of requests names those that have an id, each id once', async () => {
  const lines = recordLog()
  const fake = new Fake()
  const api = await start(fake, {}, { parse: rejecting })
  fake.hasParseRoom = false
  const asked = ['a', 'b', '', 'a'].map(id =>
    ask(api.port, '/v1/open', { body: good, headers: id === '' ? {} : { 'x-request-id': id } }),
  )
  await until(() => api.stats().open === asked.length)
  fake.openParse()
  for (const { status } of await Promise.all(asked)) expect(status).toBe(500)
  const [line] = lines
  expect([lines.length, line?.level]).toEqual([1, 'error'])
  // The connections may be read in any order.
  const ids = must(/^ingest \(request (.*)\): Error: expected/.exec(line?.message ?? '')?.[1], 'the ids')
  expect([ids.split(', ').sort(), line?.requestId]).toEqual([['a', 'b'], ids])
  expect(await api.stop(1000)).toBe(true)
})

test('a batch of requests names their traces, sampled or not', async () => {
  vi.stubEnv('OTEL_TRACES_SAMPLER', 'always_off')
  const tracing = startTracing({}, () => {})
  onTestFinished(async () => {
    vi.unstubAllEnvs()
    await tracing.stop()
  })
  const lines = recordLog()
  const fake = new Fake()
  const api = await start(fake, {}, { parse: rejecting, trace: tracing.begin })
  fake.hasParseRoom = false
  const traces = ['1', '2'].map(digit => digit.repeat(32))
  const asked = traces.map(trace =>
    ask(api.port, '/v1/open', { body: good, headers: { traceparent: `00-${trace}-${'3'.repeat(16)}-00` } }),
  )
  await until(() => api.stats().open === asked.length)
  fake.openParse()
  for (const { status } of await Promise.all(asked)) expect(status).toBe(500)
  const { message = '', trace_id: ids = '', requestId } = must(lines[0], 'a line')
  expect([lines.length, requestId, ids.split(', ').sort()]).toEqual([1, undefined, traces])
  expect(message.startsWith(`ingest (trace ${ids}): Error: expected`)).toBe(true)
  expect(await api.stop(1000)).toBe(true)
})

test('a line names so many ids at most, and says how many there are more', () => {
  const ids = Array.from({ length: 32 }, (_, index) => `${index}`)
  expect(joinRequestIds([])).toBe('')
  expect(joinRequestIds(['', ''])).toBe('')
  expect(joinRequestIds(ids)).toBe(ids.join(', '))
  expect(joinRequestIds([...ids, ...ids, 'x', 'y', ''])).toBe(`${ids.join(', ')} and 2 more`)
})

test('a request without an id has a line without one', async () => {
  const lines = recordLog()
  const api = await start(new Fake(), {}, { parse: rejecting })
  expect((await ask(api.port, '/v1/open', { body: good })).status).toBe(500)
  expect(lines).toEqual([
    { time: expect.any(String), level: 'error', message: expect.stringMatching(/^ingest: Error: expected/) },
  ])
  expect(await api.stop(1000)).toBe(true)
})

test('a handshake whose secret cannot be stored', async () => {
  const fake = new Fake()
  const settings = { accept: [], signature: null, preset: 'ASANA', verifyToken: null } as const
  const facts = { secretUntilMs: () => Number.MAX_SAFE_INTEGER, url: () => '' }
  const sender = must(
    senderOf(settings, { columns: [], key: null }, facts),
    'the sender of a source with a preset',
  )
  fake.targets.set('asana', targetOf(9, { sender }))
  const api = await start(fake, {}, { storeSecret: rejecting })
  await expectNamed(api, '/v1/asana', 'handshake', { headers: { 'x-hook-secret': 'a'.repeat(32) } })
})

const CSV = { body: 'id\na\n', headers: { 'content-type': 'text/csv' } }

test('an import before its first row', async () => {
  const fake = new Fake()
  const api = await start(fake, {}, { imports: { ...fake.deps().imports, verify: rejecting } })
  await expectNamed(api, '/v1/pools/open/import', 'import', CSV)
})

test('an import whose caller cannot be verified again', async () => {
  const fake = new Fake()
  fake.verifyAgain = failing
  await expectNamed(await start(fake), '/v1/pools/open/import', 'import', CSV)
})

test('a batch of an import', async () => {
  const api = await start(new Fake(), {}, { parse: rejecting })
  await expectNamed(api, '/v1/pools/open/import', 'ingest', CSV)
})

test('a route', async () => {
  const api = await serve({ methods: ['GET'], path: '/failing', handle: rejecting })
  await expectNamed(api, '/failing', 'other', { method: 'GET' })
})

test('a stream before its first chunk, and one that ends early', async () => {
  const owner = { applicationId: 'a', isAdmin: true }
  const stream = (before: readonly Uint8Array[]): ControlRoute['handle'] => {
    const chunks = async function* () {
      yield* before
      failing()
    }
    const reply: StreamReply = { status: 200, headers: {}, chunks: chunks() }
    return async () => ({ owner, begin: async () => reply })
  }
  const path = '/streamed'
  const at = (handle: ControlRoute['handle']) => serve({ methods: ['GET'], path, handle })
  await expectNamed(await at(stream([])), path, 'other', { method: 'GET' })
  const lines = recordLog()
  const api = await at(stream([Buffer.from('one')]))
  const asked = fetch(`http://127.0.0.1:${api.port}${path}`, { headers: { 'x-request-id': 'r-2' } })
  await expect(asked.then(answer => answer.arrayBuffer())).rejects.toThrow()
  await until(() => lines.length > 0)
  const message =
    'other (request r-2): a stream ended early, its client sees no end mark: expected by this test'
  expect(lines).toMatchObject([{ level: 'error', message, requestId: 'r-2' }])
  expect(await api.stop(1000)).toBe(true)
})

test('a tail that its first step fails', async () => {
  const fake = new Fake()
  const caller = {
    applicationId: 'APP1',
    scopes: new Set(['data_pool:query']),
    verifyAgain: () => {},
  } as unknown as Awaited<ReturnType<ApiDeps['imports']['verify']>>
  const deps = {
    catalog: fake.catalog,
    verify: async () => caller,
    openTail: failing,
  } as unknown as Parameters<typeof tailRoute>[0]
  const api = await start(fake, {}, { routes: [tailRoute(deps)] })
  await expectNamed(api, '/v1/pools/open/tail', 'tail', { method: 'GET' })
})
