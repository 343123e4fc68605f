/** What the server tells people: in the answers of its routes, and in its log. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  fetchToken,
  removeLeftovers,
  spawnServer,
  startServer,
  type TestServer,
  temporaryFolder,
} from '../util/server.ts'

let server: TestServer
let headers: Record<string, string>
beforeAll(async () => {
  server = await startServer()
  headers = { authorization: `Bearer ${await fetchToken(server.base, server.dataDir)}` }
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
  removeLeftovers()
})

async function problemOf(path: string, body?: string) {
  const answer = await fetch(`${server.base}${path}`, {
    headers,
    ...(body === undefined ? {} : { method: 'POST', body }),
  })
  const { code, detail } = (await answer.json()) as { code?: string; detail?: string }
  return `${answer.status} ${code}: ${detail}`
}

test.each([
  [
    '/v1/query?sql=SELECT+1&fromat=csv',
    'fromat: there is no such parameter, format may be meant; this route takes format, ',
  ],
  ['/v1/pools/events/arrow?colums=a', 'colums: there is no such parameter, columns may be meant'],
  ['/v1/pools/events/export?format=csv&Start=2026', 'Start: there is no such parameter, start may be meant'],
  [
    '/v1/pools/events/import?lable=x',
    'lable: there is no such parameter, label may be meant; this route takes label',
  ],
])('a parameter that a route does not take is named: GET %s', async (path, says) => {
  expect(await problemOf(path)).toContain(`400 bad_parameter: ${says}`)
})

test.each(['applications', 'keys', 'jobs', 'backup'])('POST /v1/admin/%s takes no parameters', async name => {
  expect(await problemOf(`/v1/admin/${name}?dry-run=1`, '{}')).toBe(
    '400 bad_parameter: dry-run: there is no such parameter; this route takes none',
  )
})

test('routes that proxies, scrapers and clients add parameters to take them', async () => {
  for (const path of ['/livez', '/readyz', '/metrics'])
    expect([path, (await fetch(`${server.base}${path}?x=1`)).status]).toEqual([path, 200])
  const asked = { method: 'POST', headers, body: '{"query":"{ __typename }"}' }
  expect((await fetch(`${server.base}/graphql?x=1`, asked)).status).toBe(200)
})

test('what is not there is named', async () => {
  expect(await problemOf('/v1/pools/evnts/arrow')).toBe(
    '404 unknown_pool: no Data Pool has the id or unique name "evnts"',
  )
  expect(await problemOf('/v1/pools/evnts/import')).toContain('unique name "evnts"')
  expect(await problemOf(`/v2/${'x'.repeat(2000)}`)).toMatch(
    /^404 not_found: nothing is served at "\/v2\/x{96}…"/,
  )
})

async function messageOf(query: string, variables = {}): Promise<string | undefined> {
  return (await server.graphql(query, variables)).errors?.[0]?.message
}

test('an error of an enum lists its values, in the document and in a variable', async () => {
  const values = 'ColumnType is one of BOOLEAN, STRING, FLOAT, DOUBLE, '
  const input = '{ dataPool: "events", columnName: "a", columnType: FOO, jsonProperty: "a" }'
  const job = (given: string) => `{ createAddColumnToDataPoolJob(input: ${given}) { job { id } } }`
  expect(await messageOf(`mutation ${job(input)}`)).toContain(values)
  const document = `mutation ($input: CreateAddColumnToDataPoolJobInput!) ${job('$input')}`
  const variable = { dataPool: 'events', columnName: 'a', columnType: 'FOO', jsonProperty: 'a' }
  expect(await messageOf(document, { input: variable })).toContain(values)
  expect(await messageOf(`mutation ${job(input.replace('FOO', '"STRING"'))}`)).toContain(values)
})

test('a text in double quotes is a column that is not there, and the message says so', async () => {
  const ask =
    '{ counter(input: { metric: { count: { dataPool: { name: "events" } } }, filterSql: "_service_payload = \\"it\'s\\"" }) { value } }'
  expect(await messageOf(ask)).toBe(
    `filterSql: there is no column "it's"; a text is in single quotes: 'it''s'`,
  )
})

test('jobs take the unique name of a pool as its id', async () => {
  const jobs: [string, string][] = [
    ['createDeletionJob', 'filterSql: "false"'],
    ['createUpdateDataPoolRecordsJob', 'filterSql: "false", set: [{ column: "b", expression: "\'x\'" }]'],
    ['createAddColumnToDataPoolJob', 'columnName: "c", columnType: STRING, jsonProperty: "c"'],
  ]
  const column = { name: 'b', jsonProperty: 'b', type: 'STRING', nullable: true }
  await server.createPool({ uniqueName: 'named', columns: [column] })
  for (const [name, more] of jobs) {
    const job = `${name}(input: { dataPool: "named", ${more} }) { job { dataPool { uniqueName } } }`
    const { data, errors } = await server.graphql<Record<string, unknown>>(`mutation { ${job} }`)
    expect([errors, data[name]]).toEqual([undefined, { job: { dataPool: { uniqueName: 'named' } } }])
  }
})

/** Lines on standard error, each of which must have its time. */
function logOf(output: string): string[] {
  const own = output.split('\n').filter(line => !/^(weir: |\{|curl |TOKEN=|Paste |$)/.test(line))
  return own.map(line => {
    const [, text] = /^\d{4}-\d\d-\d\dT[\d:.]{12}Z (.*)$/.exec(line) ?? []
    expect(text, `the time of: ${line}`).toBeDefined()
    return text ?? ''
  })
}

test.each(['SIGTERM', 'SIGINT'] as const)(
  'the log says at the end that it stops because of %s',
  async signal => {
    const one = await startServer()
    one.child.kill(signal)
    expect(logOf((await one.ended).output)).toEqual([
      `stopping, because of ${signal}: requests under way are answered, events are flushed`,
      'stopped: everything is answered, synced and flushed',
    ])
  },
)

test('--host 0.0.0.0 is logged beside the address to paste, and a misspelt variable is named', async () => {
  const dataDir = `${temporaryFolder()}/data`
  const { child, ready, ended } = spawnServer({
    dataDir,
    args: ['--host', '0.0.0.0'],
    env: { WEIR_PROT: '1' },
  })
  expect(await ready).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
  child.kill()
  const { output } = await ended
  expect(output).toMatch(/listening on http:\/\/127\.0\.0\.1:\d+ \(bound to 0\.0\.0\.0: every IPv4 address/)
  expect(logOf(output)[0]).toBe('WEIR_PROT is no option and has no effect: WEIR_PORT may be meant')
})

test.each([
  [{ WEIR_CLIENT_ID: 'APP1', WEIR_CLIENT_SECRET: 'x'.repeat(32) }, 'WEIR_CLIENT_ID is set'],
  [{ INVOCATION_ID: 'x' }, 'a service manager started Weir'],
  [{ NOTIFY_SOCKET: '/run/x' }, 'a service manager started Weir'],
] as const)('a new folder where %j expects an old one is said loudly, once', async (env, sign) => {
  const first = await startServer({ env: { INVOCATION_ID: '', ...env } })
  expect(logOf((await first.stop()).output)[0]).toContain(`NEW DATA FOLDER: ${first.dataDir} had no data`)
  expect(first.output()).toContain(`(${sign})`)
  const again = await startServer({ dataDir: first.dataDir, env })
  expect((await again.stop()).output).not.toContain('NEW DATA FOLDER')
})

test('the log says at the start which header names uWebSockets.js refuses', async () => {
  const one = await startServer({ args: ['--http', 'uws'] })
  expect((await one.stop()).output).toContain('leaves a request with another name (x_id) without an answer')
})
