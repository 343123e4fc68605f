/** Statements of /v1/query that stream: a million rows, readers that stand still, broken ends. */
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ControlRequest, Reply } from '../../src/api/api-types.ts'
import { queryRoute } from '../../src/api/query-route.ts'
import { STREAM_ROWS_DEFAULT } from '../../src/util/limits.ts'
import { fetchToken, removeLeftovers, send, startServer, type TestServer } from '../util/server.ts'

const EVENTS = 1_001
const column = (name: string, type: string) => ({ name, jsonProperty: name, type, nullable: false })
/** Joined with itself the pool has a million rows. */
const MILLION = 'SELECT a.n, b.n AS N, a.s FROM items a CROSS JOIN items b WHERE a.n < 1000 AND b.n < 1000'
const TYPES = {
  csv: 'text/csv',
  arrow: 'application/vnd.apache.arrow.stream',
  parquet: 'application/vnd.apache.parquet',
}

let server: TestServer
let token: string

beforeAll(async () => {
  server = await startServer()
  token = await fetchToken(server.base, server.dataDir)
  const columns = [column('n', 'INT64'), column('s', 'STRING')]
  const { url, poolId } = await server.createPool({
    uniqueName: 'items',
    columns,
  })
  const events = Array.from({ length: EVENTS }, (_, n) => ({ n, s: `${n} ${'s'.repeat(60)}` }))
  for (let from = 0; from < EVENTS; from += 500)
    expect((await send(url, events.slice(from, from + 500))).status).toBe(200)
  expect(await server.count(poolId)).toBe(String(EVENTS))
})
afterAll(async () => {
  expect(copies()).toEqual([])
  expect((await server.stop()).code).toBe(0)
  removeLeftovers()
})

const folder = () => join(server.dataDir, 'tmp')
const copies = () => readdirSync(folder()).filter(name => name.startsWith('export-'))

async function withoutCopies(): Promise<void> {
  while (copies().length > 0) await new Promise(resolve => setTimeout(resolve, 10))
}

const pathOf = (parameters: Readonly<Record<string, string>>) =>
  `/v1/query?${new URLSearchParams(parameters)}`

function get(
  parameters: Readonly<Record<string, string>>,
  authorization = `Bearer ${token}`,
): Promise<Response> {
  return fetch(`${server.base}${pathOf(parameters)}`, { headers: { authorization } })
}

async function detailOf(answer: Response): Promise<readonly [number, string, string]> {
  const { code, detail } = (await answer.json()) as { readonly code: string; readonly detail: string }
  return [answer.status, code, detail]
}

describe('a million rows', () => {
  const bytesOf = async (format: keyof typeof TYPES) => {
    const answer = await get({ sql: MILLION, format })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toMatch(TYPES[format])
    expect([answer.headers.get('x-rows'), answer.headers.get('access-control-allow-origin')]).toEqual([
      '1000000',
      '*',
    ])
    return new Uint8Array(await answer.arrayBuffer())
  }
  const SUM = (999_000 * 1000) / 2

  test('are CSV', async () => {
    const [head, ...lines] = Buffer.from(await bytesOf('csv'))
      .toString()
      .split('\r\n')
    expect([head, lines.pop(), lines.length]).toEqual(['n,N_1,s', '', 1_000_000])
    let [first, second] = [0, 0]
    for (const line of lines) {
      const [n, m, s] = line.split(',')
      first += Number(n)
      second += Number(m)
      if (!s?.startsWith(`${n} s`)) throw new Error(`a row is torn: ${line}`)
    }
    expect([first, second]).toEqual([SUM, SUM])
  })

  test('are Arrow', async () => {
    const table = tableFromIPC(await bytesOf('arrow'))
    expect(table.schema.fields.map(String)).toEqual(['n: Int64', 'N_1: Int64', 's: Utf8'])
    let sum = 0n
    for (const value of table.getChild('N_1') ?? []) sum += value
    expect([table.numRows, sum]).toEqual([1_000_000, BigInt(SUM)])
  })

  test('are Parquet', async () => {
    const file = join(server.dataDir, 'answer.parquet')
    writeFileSync(file, await bytesOf('parquet'))
    const connection = await (await DuckDBInstance.create(':memory:')).connect()
    const read = await connection.run(
      'SELECT count(DISTINCT (n, N_1)), sum(N_1), any_value(typeof(n)) FROM read_parquet($1)',
      [file],
    )
    expect(await read.getRows()).toEqual([[1_000_000n, BigInt(SUM), 'BIGINT']])
    connection.closeSync()
  })
})

describe('maxRows', () => {
  test('ends an answer as LIMIT does', async () => {
    const answer = await get({ sql: `${MILLION} ORDER BY 1, 2`, format: 'csv', maxRows: '20001' })
    const lines = (await answer.text()).split('\r\n')
    expect([answer.headers.get('x-rows'), lines.length, lines[20_001]?.slice(0, 5)]).toEqual([
      '20001',
      20_003,
      '20,0,',
    ])
    const whole = await get({ sql: MILLION, format: 'arrow', maxRows: '2000000' })
    expect(whole.headers.get('x-rows')).toBe('1000000')
    await whole.body?.cancel()
    await withoutCopies()
  })

  test('without it an answer that is too long is refused', async () => {
    const answer = await get({ sql: 'SELECT a.n FROM items a CROSS JOIN items b', format: 'parquet' })
    const words = `the answer has more than ${STREAM_ROWS_DEFAULT} rows: give maxRows`
    expect(await detailOf(answer)).toEqual([400, 'bad_request', expect.stringContaining(words)])
    expect(copies()).toEqual([])
  })

  test.each([
    ['0', 'csv', 'sql', /^maxRows: it is a number from 1 to 10000000$/],
    ['10000001', 'csv', 'sql', /^maxRows: /],
    ['1e3', 'arrow', 'sql', /^maxRows: /],
    ['5', 'json', 'sql', /end a statement with LIMIT$/],
    ['5', 'csv', 'counter', /^format=parquet and maxRows are for statements/],
    ['', 'parquet', 'counter', /^format=parquet and maxRows are for statements/],
  ])('of %j with %s of %s is refused', async (maxRows, format, name, message) => {
    const question = name === 'sql' ? MILLION : '{"metric":{"count":{"dataPool":{"name":"items"}}}}'
    const answer = await get({ [name]: question, format, ...(maxRows === '' ? {} : { maxRows }) })
    expect(await detailOf(answer)).toEqual([400, 'bad_parameter', expect.stringMatching(message)])
  })
})

test('JSON keeps its limit, and what is wrong comes before any byte', async () => {
  expect(await detailOf(await get({ sql: MILLION }))).toEqual([
    400,
    'bad_request',
    expect.stringContaining('10000 rows'),
  ])
  const wrong = await get({ sql: 'SELECT nothing FROM items', format: 'arrow' })
  expect(await detailOf(wrong)).toEqual([400, 'bad_request', expect.stringContaining('nothing')])
  expect((await get({ sql: MILLION, format: 'csv' }, 'Bearer x')).status).toBe(401)
})

test.each([{ format: 'parquet' }, { format: 'csv', maxRows: '5' }])(
  'a cluster refuses %j',
  async parameters => {
    const never = () => Promise.reject(new Error('it is not asked'))
    const graphql = async () => ({ status: 400, headers: {}, body: '{}' })
    const { handle } = queryRoute({
      graphql,
      exportThread: { part: never, table: never },
      copyStatement: undefined,
    })
    const query = `${new URLSearchParams({ sql: 'SELECT 1', ...parameters })}`
    const request = { query, body: new Uint8Array(), address: '', authorization: '' }
    const reply = (await handle(request as unknown as ControlRequest)) as Reply
    expect(JSON.parse(`${reply.body}`)).toMatchObject({
      status: 400,
      code: 'bad_parameter',
      detail: expect.stringMatching(/^a node of a cluster has no format=parquet and no maxRows/),
    })
  },
)

/** A client that reads the head and nothing after it. */
async function stalled(format: string, authorization = `Bearer ${token}`): Promise<Socket> {
  const socket = connect(Number(new URL(server.base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  const path = pathOf({ sql: MILLION, format })
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`,
  )
  const [head] = await once(socket, 'data')
  expect(String(head)).toMatch(/^HTTP\/1.1 200 /)
  socket.pause()
  return socket
}

/** Reads to the end; true where that is the end of a whole answer. */
async function endsWhole(socket: Socket): Promise<boolean> {
  let last = Buffer.alloc(0)
  socket.on('data', part => {
    last = Buffer.concat([last, part]).subarray(-5)
  })
  const closed = once(socket, 'close')
  socket.resume()
  await closed
  return last.toString('latin1') === '0\r\n\r\n'
}

test('readers that stand still keep no place of a query, and their files go with them', async () => {
  const sockets = await Promise.all(['csv', 'arrow', 'csv', 'arrow'].map(format => stalled(format)))
  expect(copies()).toHaveLength(4)
  const answer = await get({ sql: 'SELECT count(*) AS rows FROM items', format: 'csv' })
  expect(await answer.text()).toBe(`rows\r\n${EVENTS}\r\n`)
  expect(await endsWhole(sockets.pop()!)).toBe(true)
  for (const socket of sockets) socket.destroy()
  await withoutCopies()
})

test.each(['csv', 'arrow'])('%s breaks off where its file is damaged', async format => {
  const socket = await stalled(format)
  for (const name of copies()) writeFileSync(join(folder(), name), 'no Parquet')
  expect(await endsWhole(socket)).toBe(false)
  await withoutCopies()
})

/** An application whose policy shows all rows below a number. */
async function reader(name: string, below: number) {
  const made = await fetch(`${server.base}/v1/admin/applications`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ action: 'create', application: name, scopes: ['data_pool:query'] }),
  })
  const [{ id, secret }] = (await made.json()) as [{ id: string; secret: string }]
  const input = `{ dataPool: "${await poolOf('items')}", columns: ["*"], filterSql: "n < ${below}" }`
  const { data } = await server.graphql<{ made: { dataPoolAccessPolicy: { id: string } } }>(
    `mutation { made: createDataPoolAccessPolicy(input: ${input}) { dataPoolAccessPolicy { id } } }`,
  )
  const policy = data.made.dataPoolAccessPolicy.id
  await server.graphql(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "${id}") }`,
  )
  return { policy, authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }
}

async function poolOf(uniqueName: string): Promise<string> {
  const { data } = await server.graphql<{ dataPoolByName: { id: string } }>(
    `{ dataPoolByName(uniqueName: "${uniqueName}") { id } }`,
  )
  return data.dataPoolByName.id
}

test('the rows are those of the policy, and a stream breaks off when the policy changes', async () => {
  await server.graphql(
    'mutation { modifyDataPool(input: { idOrUniqueName: { uniqueName: "items" }, accessControlEnabled: true }) { __typename } }',
  )
  const narrow = await reader('narrow', 7)
  const answer = await get({ sql: 'SELECT n FROM items ORDER BY n', format: 'csv' }, narrow.authorization)
  expect(await answer.text()).toBe(['n', 0, 1, 2, 3, 4, 5, 6, ''].join('\r\n'))
  const wide = await reader('wide', 1_000)
  const socket = await stalled('arrow', wide.authorization)
  const change = `modifyDataPoolAccessPolicy(input: { id: "${wide.policy}", filterSql: "n < 5" }) { __typename }`
  expect((await server.graphql(`mutation { ${change} }`)).errors).toBeUndefined()
  expect(await endsWhole(socket)).toBe(false)
  await withoutCopies()
})

test('an application without the scope is refused', async () => {
  const made = await fetch(`${server.base}/v1/admin/applications`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ action: 'create', application: 'metrics', scopes: ['metric:query'] }),
  })
  const [{ id, secret }] = (await made.json()) as [{ id: string; secret: string }]
  const basic = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
  expect((await get({ sql: MILLION, format: 'parquet' }, basic)).status).toBe(403)
})
