/** Traces of requests, as a collector gets them from a real server. */
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { tracesEndpoint } from '../../src/database/config.ts'
import { ask } from '../api/client.ts'
import { weir } from '../tools/folder.ts'
import { STORE } from '../util/cluster-node.ts'
import { readLog } from '../util/log-lines.ts'
import { OtlpReceiver, type ReceivedSpan } from '../util/otlp-receiver.ts'
import {
  adminOf,
  fetchToken,
  freePort,
  startServer,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'
import { column, portOf, post } from './client.ts'

async function start(env: Record<string, string>, ...args: string[]): Promise<TestServer> {
  const server = await startServer({ args, env: { OTEL_BSP_SCHEDULE_DELAY: '20', ...env } })
  onTestFinished(() => stopped(server))
  return server
}

async function stopped(server: TestServer): Promise<void> {
  expect((await server.stop()).code).toBe(0)
}

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const traceparent = (trace: string, flags = '01') => `00-${trace}-${PARENT}-${flags}`
/** A trace id of a test's own. */
const traceOf = (number: number) => number.toString(16).padStart(32, '0')
const named = (spans: readonly ReceivedSpan[], name: string) => {
  const found = spans.filter(span => span.name === name)
  expect([name, found.length]).toEqual([name, 1])
  return found[0]!
}

/** Expects one span inside another, in time too. */
function expectInside(inner: ReceivedSpan, outer: ReceivedSpan): void {
  expect([inner.name, inner.parentId]).toEqual([inner.name, outer.spanId])
  expect(inner.startNs <= inner.endNs).toBe(true)
  expect([inner.name, inner.startNs >= outer.startNs, inner.endNs <= outer.endNs]).toEqual([
    inner.name,
    true,
    true,
  ])
}

describe.each(['uws', 'node'])('over %s', http => {
  let receiver: OtlpReceiver
  let server: TestServer
  beforeAll(async () => {
    receiver = await OtlpReceiver.start()
    const env = {
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.base,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-of-collector=a%20b',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    }
    server = await startServer({ args: ['--http', http], env })
  })
  afterAll(() => stopped(server))

  test('a POST goes on with the trace of its client, and has its stages', async () => {
    expect(server.output()).toContain(`traces are sent to ${receiver.base}\n`)
    const basicAuth = { username: 'user-secret', password: 'pass-secret' }
    const pool = await server.createPool({ columns: [column('name', 'STRING')], basicAuth })
    const answer = await post(server, pool, [{ name: 'body-secret' }, { name: 1 }], {
      query: '?api_key=query-secret',
      headers: {
        authorization: `Basic ${Buffer.from('user-secret:pass-secret').toString('base64')}`,
        'x-api-key': 'header-secret',
        traceparent: traceparent(TRACE),
        tracestate: ['a=1', 'b=2'],
      },
    })
    expect(answer.status).toBe(200)
    const spans = await receiver.trace(TRACE)
    const request = named(spans, 'POST /v1/{webhook_id}')
    expect(request).toMatchObject({
      parentId: PARENT,
      traceState: 'a=1,b=2',
      kind: 'server',
      isError: false,
      attributes: {
        'http.request.method': 'POST',
        'http.route': '/v1/{webhook_id}',
        'http.response.status_code': 200,
        'url.path': '/v1/REDACTED',
        'url.scheme': 'http',
        'server.address': '127.0.0.1',
      },
      resource: {
        'service.name': 'weir',
        'service.version': '0.1.0',
        'telemetry.sdk.language': 'nodejs',
        'deployment.environment.name': 'test',
      },
    })
    const names = STORE === 'local' ? ['parse', 'log', 'memtable'] : ['parse', 'insert']
    const stages = names.map(name => named(spans, name))
    for (const stage of stages) expectInside(stage, request)
    const [parse, log, memtable] = stages
    if (STORE === 'local') expect([parse?.endNs, log?.endNs]).toEqual([log?.startNs, memtable?.startNs])
    expect(parse?.attributes).toEqual({ 'weir.batch.requests': 1 })
    expect(spans.length).toBe(1 + names.length)
    expect(receiver.requests[0]).toMatchObject({
      url: '/v1/traces',
      headers: { 'content-type': 'application/x-protobuf', 'x-of-collector': 'a b' },
    })
    const webhook = new URL(pool.url).pathname.slice('/v1/'.length)
    const secrets = [...Object.values(basicAuth), webhook, 'body-secret', 'query-secret', 'header-secret']
    for (const body of receiver.bodies)
      for (const secret of secrets) expect([secret, body.includes(secret)]).toEqual([secret, false])
  })

  test('a query has its plan, its wait and its statement without values', async () => {
    const pool = await server.createPool({ uniqueName: 'orders', columns: [column('name', 'STRING')] })
    await post(server, pool, { name: 'value-secret' })
    const token = await fetchToken(server.base, server.dataDir)
    const questions = [
      [
        '/graphql',
        {
          query: 'query ($input: CounterInput!) { counter(input: $input) { value } }',
          variables: { input: {} },
        },
        'POST /graphql',
        'query METRIC',
      ],
      [
        '/v1/query?sql=',
        `SELECT count(*) FROM orders WHERE name = 'value-secret' AND name LIKE '%e-secret'`,
        'GET /v1/query',
        'query SQL',
      ],
    ] as const
    const filters = [{ column: 'name', operator: 'EQUALS', value: 'value-secret' }]
    const input = { filters, metric: { count: { dataPool: { id: pool.poolId } } } }
    for (const [index, [path, asked, name, query]] of questions.entries()) {
      const traceId = traceOf(index + 1)
      const isSql = typeof asked === 'string'
      const answer = await fetch(server.base + path + (isSql ? encodeURIComponent(asked) : ''), {
        method: isSql ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${token}`, traceparent: traceparent(traceId) },
        ...(isSql ? {} : { body: JSON.stringify({ ...asked, variables: { input } }) }),
      })
      expect([answer.status, (await answer.text()).includes('"1"')]).toEqual([200, true])
      const spans = await receiver.trace(traceId)
      const request = named(spans, name)
      expect(request.attributes).toMatchObject({
        'http.route': path.split('?')[0],
        'url.path': path.split('?')[0],
      })
      const question = named(spans, query)
      expectInside(question, request)
      for (const stage of ['plan', 'flush', 'wait', 'SELECT']) expectInside(named(spans, stage), question)
      expect(named(spans, 'SELECT')).toMatchObject({
        kind: 'client',
        attributes: {
          'db.system.name': STORE === 'local' ? 'duckdb' : 'clickhouse',
          'db.operation.name': 'SELECT',
          'db.query.text': expect.stringMatching(STORE === 'local' ? /^SELECT COUNT\(\*\)/i : /^SELECT /),
        },
      })
    }
    for (const body of receiver.bodies)
      for (const secret of ['e-secret', token])
        expect([secret, body.includes(secret)]).toEqual([secret, false])
  })

  test('a trace that its client does not sample is not sent, and a wrong parent is none', async () => {
    const request = (...parents: string[]) =>
      ask(portOf(server), '/livez', { method: 'GET', headers: { traceparent: parents } })
    const trace = traceOf(1 << 20)
    await request(traceparent(trace, '00'))
    const wrong = [
      [traceparent(traceOf(0))],
      [`00-${trace}-0000000000000000-01`],
      [`ff-${trace}-${PARENT}-01`],
      [`00-${TRACE.toUpperCase()}-${PARENT}-01`],
      [`00-${trace}-${PARENT}-01-more`],
      [`00-${trace.slice(1)}-${PARENT}-01`],
      [traceparent(trace), traceparent(trace)],
      ['constructor'],
    ]
    for (const parents of wrong) expect((await request(...parents)).status).toBe(200)
    const spans = await receiver.until(wrong.length, ({ name }) => name === 'GET /livez')
    expect(spans.map(({ parentId }) => parentId)).toEqual(wrong.map(() => ''))
    expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(wrong.length)
    expect(spans.filter(({ traceId }) => traceId === trace)).toEqual([])
    // One of a later version of the header may have more parts.
    await request(`01-${trace}-${PARENT}-01-more`)
    expect(await receiver.trace(trace)).toMatchObject([{ parentId: PARENT }])
  })

  test('refusals, unknown paths and methods have names that a client cannot choose', async () => {
    const asked: [string, string, string, string | undefined][] = [
      ['POST', '/v1/path-secret', 'POST /v1/{webhook_id}', '/v1/REDACTED'],
      ['POST', '/nothing/path-secret', 'POST', undefined],
      ['GET', '/v1/pools/a%20b/arrow', 'GET /v1/pools/{pool}/arrow', '/v1/pools/a%20b/arrow'],
    ]
    const of = (index: number) => traceOf((2 << 20) + index)
    for (const [index, [method, path]] of asked.entries()) {
      const headers = { traceparent: traceparent(of(index)) }
      expect((await fetch(server.base + path, { method, headers })).ok).toBe(false)
    }
    const spans = (await Promise.all(asked.map((_, index) => receiver.trace(of(index))))).flat()
    expect(spans.map(({ name, attributes }) => [name, attributes['url.path']])).toEqual(
      asked.map(([, , name, path]) => [name, path]),
    )
    // A refusal is the error of its client.
    expect(spans.filter(({ isError }) => isError)).toEqual([])
    for (const body of receiver.bodies) expect(body.includes('path-secret')).toBe(false)
  })
})

test('the sampler of the environment decides about requests without a parent', async () => {
  const receiver = await OtlpReceiver.start()
  const server = await start({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.base}/own`,
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0',
    OTEL_SERVICE_NAME: 'weir-of-test',
  })
  for (let round = 0; round < 20; round++) await fetch(`${server.base}/livez`)
  await fetch(`${server.base}/readyz`, { headers: { traceparent: traceparent(TRACE) } })
  expect(await receiver.trace(TRACE)).toMatchObject([{ resource: { 'service.name': 'weir-of-test' } }])
  expect(receiver.spans.length).toBe(1)
  expect(receiver.requests[0]?.url).toBe('/own')
})

test('a line of the log names the trace of its request', async () => {
  const receiver = await OtlpReceiver.start()
  const server = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.base }, '--log-format', 'json')
  await server.createPool({ uniqueName: 'rows', columns: [] })
  const { clientId, clientSecret } = adminOf(server.dataDir)
  // The folder that an import looks into at its end is a file: an error that nobody foresees.
  const [folder, aside] = [join(server.dataDir, 'tmp'), join(server.dataDir, 'aside')]
  renameSync(folder, aside)
  writeFileSync(folder, '')
  const answer = await fetch(`${server.base}/v1/pools/rows/import?format=ndjson`, {
    method: 'POST',
    headers: {
      authorization: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`,
      'x-request-id': 'import-7',
      traceparent: traceparent(TRACE),
    },
    body: '{}',
  })
  rmSync(folder)
  renameSync(aside, folder)
  expect(answer.status).toBe(500)
  const lines = () => readLog(server.output()).filter(({ level }) => level === 'error')
  await expect.poll(lines).toMatchObject([{ requestId: 'import-7', trace_id: TRACE }])
  expect(lines()[0]?.message).toMatch(RegExp(`^import \\(request import-7, trace ${TRACE}\\): Error: `))
  expect(await receiver.trace(TRACE)).toMatchObject([
    { name: 'POST /v1/pools/{pool}/import', isError: true, attributes: { 'error.type': '500' } },
  ])
})

/** `weir_trace_spans_total` by outcome. */
async function counted(server: TestServer): Promise<Record<string, number>> {
  const text = await (await fetch(`${server.base}/metrics`)).text()
  const lines = text.matchAll(/^weir_trace_spans_total\{outcome="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, outcome, count]) => [outcome, Number(count)]))
}
const lossesSaid = (server: TestServer) => server.output().match(/traces: spans are lost/g)?.length ?? 0

describe('a collector', () => {
  test.each([
    ['that is not there', undefined, /ECONNREFUSED/],
    ['that refuses', (answer: ServerResponse) => void answer.writeHead(400).end(), /400/],
  ] as const)('%s loses spans, which are counted and said once', async (_, refuse, why) => {
    const base =
      refuse === undefined ? `http://127.0.0.1:${await freePort()}` : (await OtlpReceiver.start(refuse)).base
    // A setting that the library does not know is said at the start.
    const server = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: base,
      OTEL_EXPORTER_OTLP_TIMEOUT: '300',
      OTEL_TRACES_SAMPLER: 'some',
    })
    expect(server.output()).toMatch(/traces: OTEL_TRACES_SAMPLER value "some" invalid/)
    const pool = await server.createPool({ columns: [] })
    for (const round of [1, 2]) {
      const before = (await counted(server))['export_failed'] ?? 0
      expect((await post(server, pool, { round })).status).toBe(200)
      await expect.poll(async () => (await counted(server))['export_failed']).toBeGreaterThan(before + 3)
    }
    expect((await counted(server))['exported']).toBeUndefined()
    await expect.poll(() => lossesSaid(server)).toBe(1)
    expect(server.output()).toMatch(why)
  })

  test('that never answers fills a queue with an end, and does not hold a stop', async () => {
    const receiver = await OtlpReceiver.start(() => {})
    const server = await startServer({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.base } })
    const pool = await server.createPool({ columns: [] })
    const agent = new Agent({ keepAlive: true, maxSockets: 64 })
    // Four spans each: 4,096 wait, and 512 are on their way.
    const answers = await Promise.all(
      Array.from({ length: 1_300 }, (_, id) => post(server, pool, { id }, { agent })),
    )
    agent.destroy()
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect((await counted(server))['queue_full']).toBeGreaterThan(500)
    expect(lossesSaid(server)).toBe(1)
    expect(await server.count(pool.poolId)).toBe('1300')
    const { code, output } = await server.stop()
    expect([code, output.includes('the last spans did not reach the collector')]).toEqual([0, true])
  })

  test('gets the last spans at a stop', async () => {
    const receiver = await OtlpReceiver.start()
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.base, OTEL_BSP_SCHEDULE_DELAY: '3600000' }
    const server = await startServer({ env })
    await fetch(`${server.base}/livez`)
    expect(receiver.spans).toEqual([])
    expect((await server.stop()).code).toBe(0)
    expect(receiver.spans.map(({ name }) => name)).toContain('GET /livez')
  })
})

/** Scripts that a server loaded, by V8's own list. */
async function scriptsOf(env: Record<string, string>): Promise<readonly string[]> {
  const folder = temporaryFolder()
  const server = await startServer({ env: { ...env, NODE_V8_COVERAGE: folder } })
  await fetch(`${server.base}/livez`, { headers: { traceparent: traceparent(TRACE) } })
  expect((await server.stop()).code).toBe(0)
  return readdirSync(folder).flatMap(name => {
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as { result: { url: string }[] }
    return result.map(({ url }) => url)
  })
}

const OF_TRACES = /@opentelemetry|\/bundle\/shared-tracing-/

test.each<[string, Record<string, string>]>([
  ['an empty name', { OTEL_EXPORTER_OTLP_ENDPOINT: ' ' }],
  ['a disabled SDK', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_SDK_DISABLED: 'True' }],
  ['no exporter', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_TRACES_EXPORTER: 'none' }],
])('%s is no collector', (_, env) => {
  expect(tracesEndpoint(env)).toBeUndefined()
})

test('without a collector nothing of traces is loaded', async () => {
  const scripts = await scriptsOf({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    OTEL_SDK_DISABLED: 'True',
  })
  expect(scripts.some(url => url.endsWith('/bundle/run-command.js'))).toBe(true)
  expect(scripts.filter(url => OF_TRACES.test(url))).toEqual([])
})

test('the list of scripts would have them', async () => {
  const receiver = await OtlpReceiver.start()
  const scripts = await scriptsOf({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.base })
  expect(scripts.filter(url => OF_TRACES.test(url)).length).toBeGreaterThan(10)
  expect(scripts.some(url => /\/bundle\/shared-tracing-/.test(url))).toBe(true)
})

test('a server does not start with a wrong collector, and does not repeat it', async () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector-secret:4318' }
  const { code, output } = await weir(['start', '--port', '0', '--data-dir', temporaryFolder()], env)
  expect([code, output.includes('collector-secret')]).toEqual([2, false])
  expect(output).toMatch(/OTEL_EXPORTER_OTLP_ENDPOINT takes a URL that begins/)
})

test('another protocol is refused', () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }
  expect(() => tracesEndpoint(env)).toThrow(/is http\/protobuf alone/)
})
