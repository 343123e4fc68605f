/**
 * Imports into the real server: every row is there with its columns and its payload, whatever the
 * format and the encoding, or is in the report.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Answer, ask, head, Raw } from '../api/client.ts'
import { addColumn } from '../jobs/add-column.ts'
import { integersFrom, newSeed } from '../util/random.ts'
import { fetchToken, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column, expectProblem, portOf } from './client.ts'
import { until } from './compaction.ts'

const COLUMNS = [
  column('at', 'TIMESTAMP'),
  column('id', 'STRING'),
  column('n', 'INT64', true),
  column('x', 'DOUBLE', true),
  column('b', 'BOOLEAN', true),
  column('city', 'STRING', true, 'address.city'),
  column('j', 'JSON', true),
]

let server: TestServer
let token: string
beforeAll(async () => {
  server = await startServer()
  token = await fetchToken(server.base, server.dataDir)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

function createPool(uniqueName: string): Promise<TestPool> {
  return server.createPool({ uniqueName, columns: COLUMNS, timestamp: 'at', uniqueId: 'id' })
}

function send(
  pool: TestPool,
  format: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const authorization = `Bearer ${token}`
  const path = `/v1/pools/${pool.poolId}/import?format=${format}`
  return ask(portOf(server), path, { body, headers: { authorization, ...headers } })
}

/** The live rows by id: the payload, and the columns as text. */
async function rowsOf(pool: TestPool): Promise<Map<string, Record<string, unknown>>> {
  const answer = await fetch(`${server.base}/v1/pools/${pool.poolId}/arrow`, {
    headers: { authorization: `Bearer ${token}` },
  })
  const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
  const rows = new Map<string, Record<string, unknown>>()
  for (const row of table) {
    const { _service_payload: payload, n, x, b, city, j, id } = row.toJSON()
    const columns = { n: n === null ? null : String(n), x, b, city, j }
    rows.set(id as string, { payload: JSON.parse(payload as string), ...columns })
  }
  return rows
}

const EVENTS = [
  { n: 1, x: 1.5, b: true, address: { city: 'Amsterdam' }, j: { a: [1, 2] } },
  { n: -9007199254740991, b: false, address: { city: 'a "quoted", text\nof two lines' } },
  { x: 1e300, address: { city: '\\ é€😀' }, j: 'text' },
  {},
]

/** Random events, some of them of one key: the later one counts. */
function eventsOf(seed: number, count: number): Record<string, unknown>[] {
  const next = integersFrom(seed)
  return Array.from({ length: count }, (_, at) => ({
    at: '2026-01-02T03:04:05Z',
    id: `k${next(4) === 0 ? next(at + 1) : at}`,
    ...EVENTS[next(EVENTS.length)],
  }))
}

function modelOf(events: readonly Record<string, unknown>[]) {
  return new Map(
    events.map(event => {
      const { n, x, b, address, j } = event as {
        n?: number
        x?: number
        b?: boolean
        address?: { city: string }
        j?: unknown
      }
      const columns = {
        n: n === undefined ? null : String(n),
        x: x ?? null,
        b: b ?? null,
        city: address?.city ?? null,
      }
      return [
        event['id'] as string,
        { payload: event, ...columns, j: j === undefined ? null : JSON.stringify(j) },
      ]
    }),
  )
}

function csvOf(events: readonly Record<string, unknown>[]): string {
  const cell = (value: unknown) => {
    if (value === undefined) return ''
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  const lines = events.map(({ at, id, n, x, b, address, j }) =>
    [
      at,
      id,
      n,
      x,
      b,
      (address as { city?: string } | undefined)?.city,
      j === undefined ? j : JSON.stringify(j),
    ]
      .map(cell)
      .join(),
  )
  return ['at,id,n,x,b,address.city,j', ...lines].join('\r\n')
}

test.each(['ndjson', 'csv'])('%s: random rows agree with the model', async format => {
  const seed = newSeed()
  const events = eventsOf(seed, 6_000)
  const pool = await createPool(`random-${format}`)
  const text = format === 'csv' ? csvOf(events) : events.map(event => JSON.stringify(event)).join('\n')
  const { status, json } = await send(pool, format, gzipSync(text), { 'content-encoding': 'gzip' })
  expect({ seed, status, json }).toMatchObject({
    status: 200,
    json: { rows: 6_000, accepted: 6_000, rejected: 0 },
  })
  const [rows, model] = [await rowsOf(pool), modelOf(events)]
  expect(rows.size).toBe(model.size)
  for (const [id, row] of model) expect({ seed, id, ...rows.get(id) }).toEqual({ seed, id, ...row })
})

test('the report has the messages of POST for values, with rows and lines', async () => {
  const pool = await createPool('report')
  const text =
    'at,id,n\n2026-01-01,a,1\n2026-01-01,b,many\n\n2026-01-01,,3\nx,d,4\n2026-01-01,e,5,6\n2026-01-01,f,6\n'
  const { status, json } = await send(pool, 'csv', text)
  expect([status, json.accepted, json.rejected, json.durableRows]).toEqual([200, 2, 4, 6])
  expect(json.refused).toEqual([
    {
      row: 2,
      line: 3,
      code: 'wrong_type',
      column: 'n',
      message: 'column "n" (property "n") takes INT64, found a string',
    },
    { row: 3, line: 5, code: 'missing_value', column: 'id', message: expect.stringContaining('is required') },
    { row: 4, line: 6, code: 'bad_timestamp', column: 'at', message: expect.stringContaining('timestamp') },
    { row: 5, line: 7, code: 'too_many_fields', column: null, message: expect.stringContaining('header') },
  ])
  expect([...(await rowsOf(pool)).keys()].sort()).toEqual(['a', 'f'])
})

/** A new application, and its credentials. */
async function application(scopes: string[]): Promise<{ id: string; authorization: string }> {
  const { data } = await server.graphql<{
    createApplication: { application: { clientId: string; secret: string } }
  }>(
    `mutation ($input: createApplicationInput!) { createApplication(input: $input) {
      ... on ApplicationResponse { application { clientId secret } } } }`,
    { input: { scopes } },
  )
  const { clientId, secret } = data.createApplication.application
  const authorization = `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}`
  return { id: clientId, authorization }
}

test('scopes decide, and Basic credentials of the application are taken', async () => {
  const pool = await createPool('scopes')
  const line = '{"at":"2026-01-01","id":"a"}\n'
  const [writer, reader] = [await application(['DATA_POOL_WRITE']), await application(['DATA_POOL_QUERY'])]
  expect((await send(pool, 'ndjson', line, { authorization: writer.authorization })).status).toBe(200)
  expectProblem(await send(pool, 'ndjson', line, { authorization: reader.authorization }), 403, 'forbidden')
  expectProblem(await send(pool, 'ndjson', line, { authorization: '' }), 401, 'token_missing')
})

/** Calls `end` during an import that does not end by itself. Resolves with its status and code. */
async function endedBy(pool: TestPool, authorization: string, end: () => Promise<unknown>) {
  const line = Buffer.from(`{"at":"2026-01-01","id":"a","x":1}\n`.repeat(2_000))
  let isOver = false
  const answering = fetch(`${server.base}/v1/pools/${pool.poolId}/import?format=ndjson`, {
    method: 'POST',
    headers: { authorization },
    duplex: 'half',
    body: new ReadableStream({
      pull: controller => {
        if (isOver) controller.close()
        else controller.enqueue(line)
      },
    }),
  } as unknown as RequestInit).then(async answer => ({
    status: answer.status,
    json: (await answer.json()) as { code: string },
  }))
  while ((await server.count(pool.poolId)) === '0') await new Promise(resolve => setImmediate(resolve))
  await end()
  const answer = await answering.finally(() => {
    isOver = true
  })
  return [answer.status, answer.json.code]
}

test('a pool that is deleted during an import ends it with 404', async () => {
  const pool = await createPool('doomed')
  const remove = () => server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool.poolId })
  expect(await endedBy(pool, `Bearer ${token}`, remove)).toEqual([404, 'pool_deleted'])
})

test('an application that loses the scope during its import ends it with 403', async () => {
  const { id, authorization } = await application(['DATA_POOL_WRITE', 'METRIC_QUERY'])
  const give = (scopes: string[]) =>
    server.graphql(
      'mutation ($input: modifyApplicationInput!) { modifyApplication(input: $input) { __typename } }',
      { input: { idOrUniqueName: { id }, scopes } },
    )
  const losesIt = () => give(['METRIC_QUERY'])
  expect(await endedBy(await createPool('no scope'), authorization, losesIt)).toEqual([403, 'forbidden'])
  // Another scope of the application is not the import's.
  await give(['DATA_POOL_WRITE', 'METRIC_QUERY'])
  const pool = await createPool('other scope')
  const durableRows = async () => {
    const url = `${server.base}/v1/pools/${pool.poolId}/import`
    const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
    return ((await answer.json()) as { imports: { durableRows: number }[] }).imports[0]?.durableRows
  }
  const losesAnother = async () => {
    await give(['DATA_POOL_WRITE'])
    const before = await durableRows()
    while ((await durableRows()) === before) await new Promise(resolve => setImmediate(resolve))
    await server.graphql('mutation ($id: ID!) { deleteDataPool(id: $id) }', { id: pool.poolId })
  }
  expect(await endedBy(pool, authorization, losesAnother)).toEqual([404, 'pool_deleted'])
})

test.each(['parquet', 'ndjson'])(
  '%s: the job of a body that brings no batch yet shows its progress, and can be cancelled',
  async format => {
    const pool = await createPool(`slow-${format}`)
    const authorization = `Bearer ${token}`
    const [path, total] = [`/v1/pools/${pool.poolId}/import`, 4_000_000]
    const newest = async () =>
      (await ask(portOf(server), path, { method: 'GET', headers: { authorization } })).json.imports[0]
    const spooled = () =>
      readdirSync(join(server.dataDir, 'tmp')).filter(name => name.startsWith('import-')).length
    const raw = await Raw.open(portOf(server))
    const headers = [`Authorization: ${authorization}`, `Content-Length: ${total}`]
    raw.write(head(`${path}?format=${format}`, headers))
    // No piece ends a line of NDJSON, and Parquet is read from its end.
    for (const progress of [0.1, 0.2]) {
      raw.write(Buffer.alloc(total / 10, 'x'))
      await until(`the progress is ${progress}`, async () => (await newest())?.progress === progress)
    }
    const { id, status, rows, durableRows } = await newest()
    expect([status, rows, durableRows]).toEqual(['IN_PROGRESS', 0, 0])
    // The thread of the import may begin later than its job.
    await until(
      'the body of a Parquet file is in data/tmp',
      () => spooled() === (format === 'parquet' ? 1 : 0),
    )
    const cancel = 'mutation ($id: ID!) { cancelJob(id: $id) { status } }'
    expect((await server.graphql(cancel, { id })).data).toEqual({ cancelJob: { status: 'IN_PROGRESS' } })
    await raw.until(({ received }) => received.includes('refusedOmitted'))
    expect(raw.received).toMatch(/^HTTP\/1.1 409 /)
    expect(raw.received).toContain('"code":"cancelled"')
    expect(await newest()).toMatchObject({ status: 'FAILED', error: 'The job was cancelled.' })
    raw.socket.destroy()
    await until('no file is left in data/tmp', () => spooled() === 0)
    expect(await server.count(pool.poolId)).toBe('0')
  },
)

test('a column that is added during a CSV import ends it, and the rest is read by the new columns', async () => {
  const pool = await server.createPool({ uniqueName: 'grows', columns: [column('id', 'STRING')] })
  const path = `/v1/pools/${pool.poolId}/import?format=csv`
  const rows = Array.from({ length: 1_200 }, (_, row) => `${row},${row}\n`)
  const raw = await Raw.open(portOf(server))
  const text = ['id,extra\n', ...rows].join('')
  const before = ['id,extra\n', ...rows.slice(0, 600)].join('')
  raw.write(head(path, [`Authorization: Bearer ${token}`, `Content-Length: ${text.length}`]) + before)
  await until('the first batch is stored', async () => (await server.count(pool.poolId)) === '500')
  await addColumn(server, pool.poolId, 'extra', 'INT64')
  raw.write(text.slice(before.length))
  await raw.until(({ received }) => received.includes('refusedOmitted'))
  expect(raw.received).toMatch(/^HTTP\/1.1 503 /)
  expect(raw.received).toContain('"code":"columns_changed"')
  expect(raw.received).toContain('"durableRows":500')
  raw.socket.destroy()
  const rest = await send(pool, 'csv&skipRows=500', text)
  expect([rest.status, rest.json.accepted, rest.json.rejected]).toEqual([200, 700, 0])
  expect(await server.count(pool.poolId)).toBe('1200')
})
