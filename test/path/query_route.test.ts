/** /v1/query over HTTP: each question as JSON, CSV and Arrow, and what it refuses. */
import { readFileSync } from 'node:fs'
import { RecordBatchReader, tableFromIPC, Vector } from 'apache-arrow'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ControlRequest, Reply } from '../../src/api/api-types.ts'
import { queryRoute } from '../../src/api/query-route.ts'
import { QUANTILES_MAX } from '../../src/util/limits.ts'
import {
  fetchToken,
  removeLeftovers,
  send,
  startServer,
  type TestPool,
  type TestServer,
} from '../util/server.ts'

let server: TestServer
let pool: TestPool
let token = ''
const COLUMNS = [
  ['at', 'TIMESTAMP'],
  ['id', 'STRING'],
  ['n', 'INT64'],
  ['x', 'DOUBLE'],
  ['b', 'BOOLEAN'],
  ['d', 'DATE'],
] as const
/** A number that JavaScript cannot hold. */
const LONG_MAX = '9223372036854775807'
const EVENTS = [
  { at: '2026-01-01T00:00:00.123456Z', id: 'a', n: 1, x: 0.5, b: true, d: '2026-01-01' },
  { at: '2026-01-01T12:00:00Z', id: 'say "hi",\nyou', n: 2, x: null, b: false, d: null },
  { at: '2026-01-03T00:00:00Z', id: '', n: LONG_MAX, x: -2.25, b: null, d: '1969-12-31' },
]

beforeAll(async () => {
  server = await startServer()
  pool = await server.createPool({
    uniqueName: 'parcels',
    columns: COLUMNS.map(([name, type]) => ({ name, jsonProperty: name, type, nullable: name !== 'at' })),
    timestamp: 'at',
  })
  const sent = await send(pool.url, JSON.stringify(EVENTS).replace(`"${LONG_MAX}"`, LONG_MAX))
  const taken = { statusCode: 200 }
  expect(sent).toMatchObject({ status: 200, body: [taken, taken, taken] })
  token = await fetchToken(server.base, server.dataDir)
})
afterAll(removeLeftovers)

const dataPool = { name: 'parcels' }
const GRID = { dataPool, columns: COLUMNS.map(([name]) => name), sort: 'ASC', timeRange: {}, first: 10 }

function post(body: unknown, format = '', authorization = `Bearer ${token}`) {
  return fetch(`${server.base}/v1/query${format === '' ? '' : `?format=${format}`}`, {
    method: 'POST',
    headers: { authorization },
    body: JSON.stringify(body),
  })
}

function get(parameters: Record<string, string>) {
  const query = new URLSearchParams(parameters)
  return fetch(`${server.base}/v1/query?${query}`, { headers: { authorization: `Bearer ${token}` } })
}

async function arrow(body: unknown) {
  return tableFromIPC(await arrowBytes(body))
}

async function arrowBytes(body: unknown) {
  const answer = await post(body, 'arrow')
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    200,
    'application/vnd.apache.arrow.stream',
  ])
  return new Uint8Array(await answer.arrayBuffer())
}

describe('a grid', () => {
  test('is CSV with nulls, quotes and line breaks', async () => {
    const answer = await post({ dataGrid: GRID }, 'csv')
    expect(answer.headers.get('content-type')).toMatch(/^text\/csv/)
    expect(await answer.text()).toBe(
      [
        'at,id,n,x,b,d',
        '2026-01-01T00:00:00.123456Z,a,1,0.5,true,2026-01-01',
        '2026-01-01T12:00:00.000Z,"say ""hi"",\nyou",2,,false,',
        '2026-01-03T00:00:00.000Z,"",9223372036854775807,-2.25,,1969-12-31',
        '',
      ].join('\r\n'),
    )
  })

  test('is Arrow with the types of its columns', async () => {
    const table = await arrow({ dataGrid: GRID })
    const types = table.schema.fields.map(({ name, type }) => `${name} ${type}`)
    expect(types).toEqual([
      'at Timestamp<MICROSECOND, UTC>',
      'id Utf8',
      'n Int64',
      'x Float64',
      'b Bool',
      'd Date32<DAY>',
    ])
    const column = (name: string) => [...(table.getChild(name) ?? [])]
    expect(column('n')).toEqual([1n, 2n, 9223372036854775807n])
    expect(column('x')).toEqual([0.5, null, -2.25])
    expect(column('b')).toEqual([true, false, null])
    expect(column('id')).toEqual(['a', 'say "hi",\nyou', ''])
    expect(column('d').map(day => (day === null ? null : new Date(day).toISOString()))).toEqual([
      '2026-01-01T00:00:00.000Z',
      null,
      '1969-12-31T00:00:00.000Z',
    ])
    const micros = table.getChild('at')?.data[0]?.values as BigInt64Array
    expect(micros[0]).toBe(1_767_225_600_123_456n)
  })

  test('is JSON with names and types', async () => {
    const answer = await post({ dataGrid: { ...GRID, columns: ['n', 'b'] } })
    expect(await answer.json()).toEqual({
      columns: [
        { name: 'n', type: 'INT64' },
        { name: 'b', type: 'BOOLEAN' },
      ],
      rows: [
        ['1', 'true'],
        ['2', 'false'],
        ['9223372036854775807', null],
      ],
    })
  })
})

test('every other question is a table too', async () => {
  const sum = { sum: { dataPool, measure: { columnName: 'x' } } }
  const count = { count: { dataPool } }
  const rowsOf = async (body: unknown) => (await (await post(body)).json()) as unknown
  expect(await rowsOf({ counter: { metric: sum } })).toEqual({
    columns: [{ name: 'value', type: 'DOUBLE' }],
    rows: [['-1.75']],
  })
  expect(await rowsOf({ counter: { metric: { sum: { dataPool, measure: { columnName: 'n' } } } } })).toEqual({
    // Beyond 64 bits.
    columns: [{ name: 'value', type: 'STRING' }],
    rows: [['9223372036854775810']],
  })
  expect(await rowsOf({ topValues: { dataPool, columnName: 'b', timeRange: {} } })).toEqual({
    columns: [{ name: 'value', type: 'BOOLEAN' }],
    rows: [['false'], ['true']],
  })
  expect(await rowsOf({ percentile: { dataPool, columnName: 'x', fractions: [0.5] } })).toEqual({
    columns: [
      { name: 'fraction', type: 'DOUBLE' },
      { name: 'value', type: 'DOUBLE' },
    ],
    rows: [['0.5', '-0.875']],
  })
  expect(await rowsOf({ timeSeries: { metric: count, granularity: 'DAY', groupBy: ['b'] } })).toMatchObject({
    columns: [
      { name: 'b', type: 'BOOLEAN' },
      { name: 'time', type: 'TIMESTAMP' },
      { name: 'value', type: 'INT64' },
    ],
    rows: [
      ['false', '2026-01-01T00:00:00.000Z', '1'],
      ['false', '2026-01-02T00:00:00.000Z', '0'],
      ['false', '2026-01-03T00:00:00.000Z', '0'],
      ['true', '2026-01-01T00:00:00.000Z', '1'],
      ['true', '2026-01-02T00:00:00.000Z', '0'],
      ['true', '2026-01-03T00:00:00.000Z', '0'],
      [null, '2026-01-01T00:00:00.000Z', '0'],
      [null, '2026-01-02T00:00:00.000Z', '0'],
      [null, '2026-01-03T00:00:00.000Z', '1'],
    ],
  })
  const board = { leaderboard: { metric: count, dimensions: [{ columnName: 'd' }], rowLimit: 5 } }
  const table = await arrow(board)
  expect(table.schema.fields.map(({ type }) => String(type))).toEqual(['Date32<DAY>', 'Int64'])
  expect([...(table.getChildAt(1) ?? [])]).toEqual([1n, 1n, 1n])
})

describe('columns that share a name but not a type are there in Arrow too', () => {
  const [count, average] = [{ count: { dataPool } }, { average: { dataPool, measure: { columnName: 'x' } } }]
  const report = { dimensions: [{ columnName: 'b' }], metrics: [{ metric: count }, { metric: average }] }
  const names = ['value', 'time']

  beforeAll(async () => {
    const columns = names.map(name => ({ name, jsonProperty: name, type: 'STRING' as const, nullable: true }))
    const twins = await server.createPool({ uniqueName: 'twins', columns })
    await send(twins.url, [{ value: 'a', time: 'noon' }])
  })

  const ofTwins = { metric: { count: { dataPool: { name: 'twins' } } } }
  test.each([
    ['unnamed metrics', { metricReport: report }, ['Bool', 'Int64', 'Float64']],
    [
      'aliases',
      { sql: 'SELECT b AS x, count(*) AS x, min(d) AS x FROM parcels GROUP BY 1 ORDER BY 2, 3' },
      ['Bool', 'Int64', 'Date32<DAY>'],
    ],
    ['no rows', { sql: 'SELECT id AS x, x FROM parcels WHERE n < 0' }, ['Utf8', 'Float64']],
    [
      'a dimension with the name of the value',
      { leaderboard: { ...ofTwins, dimensions: [{ columnName: 'value' }], rowLimit: 5 } },
      ['Utf8', 'Int64'],
    ],
    [
      'groups with the names of value and time',
      { timeSeries: { ...ofTwins, granularity: 'YEAR', groupBy: names } },
      ['Utf8', 'Utf8', 'Timestamp<MICROSECOND, UTC>', 'Int64'],
    ],
  ])('%s', async (_, body, types) => {
    const answer = await (await post(body)).json()
    const { columns, rows } = answer as { columns: { name: string }[]; rows: (string | null)[][] }
    const reader = RecordBatchReader.from(await arrowBytes(body)).open()
    // As the stream has it. The schema of apache-arrow's batch has one type for a name.
    const { fields } = reader.schema
    // Names of a statement's stream differ: `x_1`.
    const names = fields.map(({ name }) => ('sql' in body ? name.replace(/_\d$/, '') : name))
    expect(names).toEqual(columns.map(({ name }) => name))
    expect(fields.map(({ type }) => String(type))).toEqual(types)
    const [batch] = [...reader]
    const cells = (batch?.data.children ?? []).map(data => [...new Vector([data])])
    expect(cells.map(column => column.map(printed))).toEqual(
      columns.map((_, index) => rows.map(row => printed(row[index] ?? null))),
    )
  })

  /** Times and dates as their milliseconds, numbers as their digits. */
  const printed = (cell: unknown) => {
    if (cell === null) return null
    const text = String(cell)
    return /^\d{4}-/.test(text) ? String(Date.parse(text)) : text
  }
})

test('a statement is asked as text or as sqlV1', async () => {
  const sql =
    'SELECT b, count(*) AS rows, avg(x) AS x FROM parcels GROUP BY b ORDER BY rows DESC, b NULLS LAST'
  const csv = 'b,rows,x\r\nfalse,1,\r\ntrue,1,0.5\r\n,1,-2.25\r\n'
  expect(await (await get({ sql, format: 'csv' })).text()).toBe(csv)
  expect(await (await post({ sql }, 'csv')).text()).toBe(csv)
  expect(await (await post({ sqlV1: { query: sql, dialect: 'CLICKHOUSE' } }, 'csv')).text()).toBe(csv)
  const table = await arrow({ sql })
  expect(table.schema.fields.map(({ name, type }) => `${name} ${type}`)).toEqual([
    'b Bool',
    'rows Int64',
    'x Float64',
  ])
  expect((await get({ sql: 'SELECT 1; DROP TABLE parcels' })).status).toBe(400)
})

test('the statement that docs/sql.md begins with is answered', async () => {
  const [, sql = ''] = /```sql\n([^`]*)```/.exec(readFileSync('docs/sql.md', 'utf8')) ?? []
  const columns = (text: string) =>
    text.split(' ').map(name => {
      const type = name === 'sold_at' ? 'TIMESTAMP' : name === 'price' ? 'DOUBLE' : 'STRING'
      return { name, jsonProperty: name, type, nullable: true }
    })
  const orders = await server.createPool({ uniqueName: 'orders', columns: columns('sold_at shop price') })
  const shops = await server.createPool({ uniqueName: 'shops', columns: columns('id city') })
  await send(shops.url, [{ id: 'a', city: 'Oslo' }])
  await send(orders.url, [
    { sold_at: '2024-03-01T08:00:00Z', shop: 'a', price: 10 },
    { sold_at: '2024-03-01T09:00:00Z', shop: 'a', price: 5 },
  ])
  const answer = await (await post({ sql }, 'csv')).text()
  expect(answer).toBe('day,city,total\r\n2024-03-01T00:00:00.000Z,Oslo,15\r\n')
})

test('pages of any origin may ask', async () => {
  const preflight = await fetch(`${server.base}/v1/query`, {
    method: 'OPTIONS',
    headers: { origin: 'https://notebook.test', 'access-control-request-method': 'POST' },
  })
  expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([204, '*'])
  const answer = await post({ counter: { metric: { count: { dataPool } } } })
  expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, '*'])
})

test('a report has as many different medians as a query may have, on each page', async () => {
  const report = (count: number, more: object) => ({
    dimensions: [{ columnName: 'id' }],
    metrics: Array.from({ length: count }, (_, index) => ({
      metric: { custom: { dataPool, expression: `median(n + ${index}) FILTER (WHERE n < 9)` } },
      filterSql: 'n > 0',
    })),
    timeRange: {},
    ...more,
  })
  const query = `query ($input: MetricReportInput!) {
    metricReport(input: $input) { rows pageInfo { endCursor } } }`
  const turn = async (more: object) => {
    const { data, errors } = await server.graphql<{
      metricReport: { rows: string[][]; pageInfo: { endCursor: string } }
    }>(query, { input: report(QUANTILES_MAX, more) })
    expect(errors).toBeUndefined()
    return data.metricReport
  }
  const medians = (n: number) => Array.from({ length: QUANTILES_MAX }, (_, index) => String(n + index))
  for (const orderByColumn of [1, 2]) {
    const ids: (string | undefined)[] = []
    let after: string | null = null
    for (let page = 0; page < 3; page++) {
      const { rows, pageInfo } = await turn({ orderByColumn, first: 1, after })
      ids.push(rows[0]?.[0])
      if (rows[0]?.[0] === 'a') expect(rows).toEqual([['a', ...medians(1)]])
      after = pageInfo.endCursor
    }
    expect(ids.toSorted()).toEqual(['', 'a', 'say "hi",\nyou'])
  }
  const refused = await post({ metricReport: report(QUANTILES_MAX + 1, {}) })
  expect([refused.status, await refused.text()]).toEqual([
    400,
    expect.stringContaining(`at most ${QUANTILES_MAX} different medians and quantiles`),
  ])
})

describe('times and dates beyond the years of events, 1 to 9999', () => {
  const TIMES = ['0001-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999999Z']

  beforeAll(async () => {
    const ends = await server.createPool({
      uniqueName: 'ends',
      columns: [{ name: 't', jsonProperty: 't', type: 'TIMESTAMP', nullable: false }],
      timestamp: 't',
    })
    const events = TIMES.map(t => ({ t }))
    const sent = await send(ends.url, events)
    expect(sent).toMatchObject({ status: 200, body: [{ statusCode: 200 }, { statusCode: 200 }] })
  })

  test.each([
    [
      'SELECT t + INTERVAL 1 DAY AS x FROM ends ORDER BY 1',
      ['0001-01-02T00:00:00.000Z', '+010000-01-01T23:59:59.999999Z'],
    ],
    [
      'SELECT t - INTERVAL 10 YEAR AS x FROM ends ORDER BY 1',
      ['-000009-01-01T00:00:00.000Z', '9989-12-31T23:59:59.999999Z'],
    ],
    ['SELECT CAST(t + INTERVAL 1 DAY AS DATE) AS x FROM ends ORDER BY 1', ['0001-01-02', '+010000-01-01']],
    ['SELECT CAST(t - INTERVAL 1 DAY AS DATE) AS x FROM ends ORDER BY 1', ['0000-12-31', '9999-12-30']],
    ['SELECT CAST(t - INTERVAL 10 YEAR AS DATE) AS x FROM ends ORDER BY 1', ['-000009-01-01', '9989-12-31']],
  ])('%s', async (sql, cells) => {
    expect(await (await post({ sql })).json()).toMatchObject({ rows: cells.map(cell => [cell]) })
    expect(await (await post({ sql }, 'csv')).text()).toBe(['x', ...cells, ''].join('\r\n'))
    const [batch] = (await arrow({ sql })).batches
    const stored = [...(batch?.data.children[0]?.values ?? [])]
    expect(stored).toEqual(
      cells.map(cell =>
        cell.includes('T')
          ? BigInt(Date.parse(`${cell.slice(0, cell.indexOf('.') + 4)}Z`)) * 1000n +
            BigInt(cell.slice(cell.indexOf('.') + 4, -1))
          : Date.parse(cell) / 86_400_000,
      ),
    )
  })

  test('a time series whose first interval begins in the year 0', async () => {
    const timeSeries = {
      metric: { count: { dataPool: { name: 'ends' } } },
      granularity: 'DAY',
      timeZone: 'Asia/Tokyo',
      timeRange: { stop: '0001-01-05' },
    }
    const { rows } = (await (await post({ timeSeries })).json()) as { rows: string[][] }
    expect(rows[0]).toEqual(['0000-12-31T14:41:01.000Z', '1'])
    const table = await arrow({ timeSeries })
    expect(table.numRows).toBe(rows.length)
    expect(table.batches[0]?.data.children[0]?.values[0]).toBe(
      BigInt(Date.parse('0000-12-31T14:41:01.000Z')) * 1000n,
    )
  })

  test('a page begins behind a date of the year 10000', async () => {
    const expression = 'MAX(CAST(t + INTERVAL 1 DAY AS DATE))'
    const metricReport = {
      dimensions: [{ columnName: 't' }],
      metrics: [{ metric: { custom: { dataPool: { name: 'ends' }, expression } }, sort: 'DESC' }],
      orderByColumn: 2,
      timeRange: {},
      first: 1,
    }
    const query = `query ($input: MetricReportInput!) {
      metricReport(input: $input) { rows pageInfo { endCursor } } }`
    const turn = async (after: string | null) => {
      const { data } = await server.graphql<{
        metricReport: { rows: string[][]; pageInfo: { endCursor: string } }
      }>(query, { input: { ...metricReport, after } })
      return data.metricReport
    }
    const first = await turn(null)
    expect(first.rows).toEqual([[TIMES[1], '+010000-01-01']])
    expect((await turn(first.pageInfo.endCursor)).rows).toEqual([[TIMES[0], '0001-01-02']])
  })
})

test('GET asks too: the question is a parameter with JSON', async () => {
  const answer = await get({ counter: JSON.stringify({ metric: { count: { dataPool } } }), format: 'csv' })
  expect(await answer.text()).toBe('value\r\n3\r\n')
})

describe('is refused, as the API refuses it', () => {
  const counter = { metric: { count: { dataPool } } }

  test.each([
    ['no question', {}, '', 400, /exactly one question/],
    ['two questions', { counter, topValues: {} }, '', 400, /exactly one question/],
    ['an unknown question', { counters: [counter] }, '', 400, /exactly one question/],
    ['a list', [counter], '', 400, /one JSON object/],
    ['an unknown format', { counter }, 'xml', 400, /format: it is one of json, csv, arrow/],
    ['a wrong input', { counter: { metric: { count: {} }, x: 1 } }, '', 400, /got invalid value/],
    [
      'an unknown pool',
      { counter: { metric: { count: { dataPool: { name: 'no' } } } } },
      'csv',
      404,
      /not found/,
    ],
    ['a wrong filter', { counter: { ...counter, filterSql: 'no = 1' } }, '', 400, /no column/],
  ])('%s', async (_, body, format, status, message) => {
    const answer = await post(body, format)
    const problem = (await answer.json()) as { readonly detail: string; readonly status: number }
    expect([answer.status, problem.status]).toEqual([status, status])
    expect(problem.detail).toMatch(message)
  })

  const raw = (body: string | Uint8Array<ArrayBuffer>, parameters: string) =>
    fetch(`${server.base}/v1/query${parameters}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body,
    })

  test.each([
    ['deep nesting', `{"counter":${'['.repeat(9_000)}${']'.repeat(9_000)}}`, '', /nests deeper than 256/],
    ['thousands of objects', `{"counter":[${'{},'.repeat(9_000)}{}]}`, '', /more than 10000 objects/],
    [
      'a body that is not UTF-8',
      Uint8Array.from(Buffer.from('{"sql":"SELECT \xff"}', 'latin1')),
      '',
      /not JSON in UTF-8/,
    ],
    [
      'a question in a parameter and in the body',
      '{"sql":"SELECT 1 FROM parcels"}',
      '?sql=SELECT',
      /more than once/,
    ],
    [
      'an unknown parameter',
      '',
      '?foo=1',
      /^foo: there is no such parameter; this route takes format, maxRows, sql, parameters, counter, /,
    ],
    ['a parameter in another case', '', '?Sql=x', /^Sql: there is no such parameter/],
    ['a parameter that is not JSON', '', '?counter={', /The parameter counter is not JSON/],
  ])('%s', async (_, body, parameters, message) => {
    const answer = await raw(body, parameters)
    expect(answer.status).toBe(400)
    expect(((await answer.json()) as { readonly detail: string }).detail).toMatch(message)
  })

  test('a series whose intervals would repeat long groups', async () => {
    const id = 'x'.repeat(9_000)
    const at = '2026-02-01T00:00:00Z'
    expect((await send(pool.url, [{ at, id }])).status).toBe(200)
    const timeRange = { start: '2026-02-01', stop: '2026-02-02' }
    const series = { ...counter, granularity: 'MINUTE', groupBy: ['id'], timeRange }
    for (const format of ['json', 'csv', 'arrow']) {
      const answer = await post({ timeSeries: series }, format)
      expect(answer.status).toBe(400)
      expect(((await answer.json()) as { readonly detail: string }).detail).toMatch(/each interval repeats/)
    }
    expect((await post({ timeSeries: { ...series, granularity: 'DAY' } }, 'csv')).status).toBe(200)
  })

  test('a GraphQL answer whose aliases repeat a long text', async () => {
    const at = '2026-03-01T00:00:00Z'
    expect((await send(pool.url, [{ at, id: 'y'.repeat(900_000) }])).status).toBe(200)
    const timeRange = '{start: "2026-03-01"}'
    const input = `{dataPool: {name: "parcels"}, columnName: "id", timeRange: ${timeRange}}`
    const ask = (fields: string) => server.graphql(`{ topValues(input: ${input}) { ${fields} } }`)
    const many = Array.from({ length: 10 }, (_, index) => `a${index}: values`).join(' ')
    expect(await ask(many)).toMatchObject({
      errors: [
        {
          message: expect.stringContaining('more than 8388608 characters') as string,
          extensions: { code: 'BAD_REQUEST' },
        },
      ],
    })
    expect((await ask('values a: values')).errors).toBeUndefined()
  })

  test('a bad token, and a token without the scope', async () => {
    expect((await post({ counter }, '', 'Bearer x')).status).toBe(401)
    const other = await fetchToken(server.base, server.dataDir, 'metric:query')
    expect((await post({ counter }, '', `Bearer ${other}`)).status).toBe(403)
  })
})

test.each([
  ['GET', '/v1/query?format=xml'],
  ['GET', '/v1/query?sql=SELECT%201&color=red'],
  ['GET', '/v1/pools/parcels/export?format=xml'],
  ['POST', '/v1/pools/parcels/import?format=xml'],
])('%s %s: only a known caller hears what is wrong', async (method, path) => {
  const ask = (authorization: string) =>
    fetch(`${server.base}${path}`, {
      method,
      headers: { authorization },
      ...(method === 'POST' ? { body: 'x' } : {}),
    })
  const unknown = await ask('Bearer x')
  expect([unknown.status, unknown.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="weir"'])
  expect((await ask(`Bearer ${token}`)).status).toBe(400)
})

test.each([
  ['SEGMENT_DAMAGED', 500, false, undefined],
  ['INTERNAL', 500, true, undefined],
  ['UNAVAILABLE', 503, true, '1'],
])('%s of GraphQL is %i, retryable: %s', async (code, status, retryable, retryAfter) => {
  const errors = [{ message: 'expected by this test', extensions: { code } }]
  const graphql = async () => ({ status: 200, headers: {}, body: JSON.stringify({ errors }) })
  const never = () => Promise.reject(new Error('it is not asked'))
  const exportThread = { part: never, table: never }
  const { handle } = queryRoute({ graphql, exportThread, copyStatement: undefined })
  const request = { query: 'sql=SELECT%201', body: new Uint8Array(), address: '', authorization: '' }
  const reply = (await handle(request as unknown as ControlRequest)) as Reply
  expect(JSON.parse(`${reply.body}`)).toMatchObject({ status, code: code.toLowerCase(), retryable })
  expect(reply.headers?.['retry-after']).toBe(retryAfter)
})
