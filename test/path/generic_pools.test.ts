/**
 * Generic data pools over HTTP: which of them are protected, the received-at column as their
 * timestamp, and the metrics of texts and booleans.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { send, startServer, type TestServer } from '../util/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function change<T>(document: string, input: object): Promise<T> {
  const { data, errors } = await server.graphql<Record<string, T>>(document, { input })
  expect(errors).toBeUndefined()
  return Object.values(data)[0] as T
}

async function makePool(input: object): Promise<{ readonly id: string; readonly webhookUrl: string }> {
  const document =
    'mutation ($input: CreateDataPoolInputV2!) { createDataPoolV2(input: $input) { dataPool { id webhookUrl } } }'
  return (await change<{ dataPool: { id: string; webhookUrl: string } }>(document, input)).dataPool
}

const JSON_TYPE = { 'content-type': 'application/json' }

const column = (columnName: string, type: string) => ({ columnName, type, isNullable: true })

test('a pool of an Http source takes the credentials of its source, one without a source takes none', async () => {
  const basicAuth = { username: 'shop', password: 'a-password' }
  const { dataSource } = await change<{ dataSource: { id: string } }>(
    'mutation ($input: CreateHttpDataSourceInput!) { createHttpDataSource(input: $input) { dataSource { id } } }',
    { connectionSettings: { basicAuth, tables: [] } },
  )
  const columns = [column('id', 'STRING')]
  const closed = await makePool({ dataSource: dataSource.id, columns })
  const open = await makePool({ columns })
  const statusOf = async (url: string, credentials?: string) => {
    const authorization = `Basic ${Buffer.from(credentials ?? '').toString('base64')}`
    const headers = credentials === undefined ? JSON_TYPE : { ...JSON_TYPE, authorization }
    return (await fetch(url, { method: 'POST', body: '{"id":"a"}', headers })).status
  }
  expect(await statusOf(closed.webhookUrl)).toBe(401)
  expect(await statusOf(closed.webhookUrl, 'shop:another')).toBe(401)
  expect(await statusOf(closed.webhookUrl, 'shop:a-password')).toBe(200)
  expect(await statusOf(open.webhookUrl)).toBe(200)
  expect([await server.count(closed.id), await server.count(open.id)]).toEqual(['1', '1'])
})

test('a pool whose timestamp is the received-at column keys by arrival, and answers time ranges', async () => {
  const pool = await makePool({
    columns: [column('id', 'STRING')],
    timestamp: { columnName: '_service_received_at' },
    uniqueId: { columnName: 'id' },
  })
  const before = new Date(Date.now() - 60_000).toISOString()
  for (let i = 0; i < 2; i++) expect((await send(pool.webhookUrl, [{ id: 'a' }])).status).toBe(200)
  expect(await server.count(pool.id)).toBe('2')
  expect(await server.count(pool.id, { timeRange: { start: before } })).toBe('2')
  expect(await server.count(pool.id, { timeRange: { stop: before } })).toBe('0')
})

test('MIN and MAX of texts are by their bytes, of booleans false and true, predefined as inline', async () => {
  const types = { text: 'STRING', flag: 'BOOLEAN', day: 'DATE', at: 'TIMESTAMP', number: 'INT64' }
  const pool = await makePool({ columns: Object.entries(types).map(([name, type]) => column(name, type)) })
  const events = [
    { text: 'a', flag: true, day: '2026-01-02', at: '2026-01-02', number: 2 },
    { text: 'Z', flag: false, day: '2025-12-31', at: '2025-12-31T00:00:00.000001Z', number: -1 },
    { text: '\u{1F600}', flag: null, day: null, at: null, number: 9007199254740993n },
    { text: '\uFFFD', flag: null, day: null, at: null, number: null },
    {},
  ]
  const body = JSON.stringify(events, (_, value: unknown) =>
    typeof value === 'bigint' ? `BIG${value}` : value,
  ).replaceAll(/"BIG(\d+)"/g, '$1')
  expect((await fetch(pool.webhookUrl, { method: 'POST', body, headers: JSON_TYPE })).status).toBe(200)
  const expected = {
    text: ['Z', '\u{1F600}'],
    flag: ['false', 'true'],
    day: ['2025-12-31', '2026-01-02'],
    at: ['2025-12-31T00:00:00.000001Z', '2026-01-02T00:00:00.000Z'],
    number: ['-1', '9007199254740993'],
  }
  for (const [columnName, values] of Object.entries(expected)) {
    for (const [index, kind] of (['min', 'max'] as const).entries()) {
      const inline = { metric: { [kind]: { dataPool: { id: pool.id }, measure: { columnName } } } }
      const name = kind === 'min' ? 'CreateMinMetric' : 'CreateMaxMetric'
      const { metric } = await change<{ metric: { id: string } }>(
        `mutation ($input: ${name}Input) { ${name.replace('C', 'c')}(input: $input) { metric { id } } }`,
        { dataPool: pool.id, measure: { columnName } },
      )
      for (const input of [inline, { metricId: metric.id }]) {
        const { data, errors } = await server.graphql<{ counter: { value: string } }>(
          'query ($input: CounterInput!) { counter(input: $input) { value } }',
          { input },
        )
        expect(errors).toBeUndefined()
        expect([columnName, kind, data.counter.value]).toEqual([columnName, kind, values[index]])
      }
    }
  }
})
