/** Questions about metrics over HTTP, in the documents and with the variables that clients send. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { UI_KIT } from '../api/graphql/documents.ts'
import { STORE } from '../util/cluster-node.ts'
import { send, startServer, type TestServer } from '../util/server.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Data = any

let server: TestServer
let metricId = ''
let poolId = ''
beforeAll(async () => {
  server = await startServer()
  const names = { id: 'STRING', at: 'TIMESTAMP', shop: 'STRING', price: 'DOUBLE', day: 'DATE' } as const
  const pool = await server.createPool({
    uniqueName: 'sales',
    columns: Object.entries(names).map(([name, type]) => ({
      name,
      jsonProperty: name,
      type,
      nullable: !['id', 'at'].includes(name),
    })),
    timestamp: 'at',
    uniqueId: 'id',
  })
  poolId = pool.poolId
  const rows = [
    ['1', '2024-03-30T22:59:59.999Z', 'north', 10],
    ['2', '2024-03-30T23:00:00Z', 'north', 0.5],
    ['3', '2024-03-31T21:59:59Z', 'south', 4],
    ['4', '2024-03-31T22:00:00Z', null, 3],
    ['5', '2024-04-02T12:00:00Z', 'south', null],
  ] as const
  const events = rows.map(([id, at, shop, price]) => ({ id, at, shop, price, day: at.slice(0, 10) }))
  expect((await send(pool.url, events)).status).toBe(200)
  const made = await graphql(
    'mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }',
    { input: { dataPool: poolId, uniqueName: 'revenue', measure: { columnName: 'price' } } },
  )
  metricId = made.data.createSumMetric.metric.id
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/** Rows that a question reads: a cluster tells what its servers read. */
const FIVE: unknown = STORE === 'local' ? '5' : expect.any(String)
const COUNT = { count: { dataPool: { name: 'sales' } } }

async function graphql(document: string, variables: object) {
  const { data, errors } = await server.graphql(document, variables)
  return { data: data as Data, errors }
}

async function refused(document: string, variables: object, message: RegExp) {
  const { errors } = await server.graphql(document, variables)
  expect(errors?.[0]).toMatchObject({ message: expect.stringMatching(message) })
  expect(errors?.[0]?.extensions?.code).toBe('BAD_REQUEST')
}

describe('a leaderboard', () => {
  const ask = async (leaderboardInput: object) =>
    (await graphql(UI_KIT.leaderboard, { leaderboardInput })).data?.leaderboard

  test('as the React kit asks', async () => {
    const dimensions = [{ columnName: 'shop' }]
    const common = { timeZone: 'Europe/Berlin', filterSql: null, rowLimit: 100, dimensions }
    expect(await ask({ ...common, metricName: 'revenue' })).toEqual({
      headers: ['shop', 'revenue'],
      rows: [
        ['north', '10.5'],
        ['south', '4'],
        [null, '3'],
      ],
    })
    const rows = [
      [null, '1'],
      ['north', '2'],
    ]
    const sorted = { ...common, metric: COUNT, sort: 'ASC', rowLimit: 2 }
    expect(await ask(sorted)).toEqual({ headers: ['shop', 'value'], rows })
    const timeRange = { start: '2024-03-31T00:00:00+01:00', stop: '2024-04-01T00:00:00+02:00' }
    expect(await ask({ ...common, metric: COUNT, timeRange })).toMatchObject({
      rows: [
        ['north', '1'],
        ['south', '1'],
      ],
    })
  })

  test('of times and dates, and without dimensions', async () => {
    const dimensions = [{ columnName: 'at' }, { columnName: 'day' }]
    const filterSql = "id = '2'"
    expect(await ask({ metric: COUNT, dimensions, rowLimit: 1, filterSql })).toEqual({
      headers: ['at', 'day', 'value'],
      rows: [['2024-03-30T23:00:00.000Z', '2024-03-30', '1']],
    })
    expect(await ask({ metricId, dimensions: [], rowLimit: 1 })).toEqual({
      headers: ['revenue'],
      rows: [['17.5']],
    })
    expect(await ask({ metricId, dimensions: [], rowLimit: 1, filterSql: 'false' })).toMatchObject({
      rows: [],
    })
  })

  test('of a metric, in the document of older clients', async () => {
    const { data, errors } = await graphql(
      `query ($id: ID!, $input: LeaderboardInput!) { metric(id: $id) { leaderboard(input: $input) { headers rows
        query { id bytesProcessed recordsProcessed resultingRecords booster { id } type subtype status } } } }`,
      { id: metricId, input: { dimensions: [{ columnName: 'shop' }], rowLimit: 1 } },
    )
    expect(errors).toBeUndefined()
    expect(data.metric.leaderboard).toMatchObject({
      headers: ['shop', 'value'],
      rows: [['north', '10.5']],
      query: { recordsProcessed: FIVE, resultingRecords: 1, booster: null, type: 'METRIC' },
    })
    expect(data.metric.leaderboard.query).toMatchObject({ subtype: 'LEADERBOARD', status: 'COMPLETED' })
  })

  test('is refused with what is wrong', async () => {
    const input = { metric: COUNT, dimensions: [{ columnName: 'shop' }] }
    const bad = async (more: object, message: RegExp) =>
      refused(UI_KIT.leaderboard, { leaderboardInput: { ...input, rowLimit: 1, ...more } }, message)
    for (const rowLimit of [0, -1, 1_001]) await bad({ rowLimit }, /^rowLimit: it is between 1 and 1000/)
    await bad({ dimensions: [{ columnName: 'Shop' }] }, /^dimensions: there is no column "Shop"/)
    const many = Array.from({ length: 33 }, () => ({ columnName: 'shop' }))
    await bad({ dimensions: many }, /^dimensions: there are at most 32/)
  })
})

describe('a time series', () => {
  const ask = async (timeSeriesInput: object) =>
    (await graphql(UI_KIT.timeSeries, { timeSeriesInput })).data?.timeSeries
  const labels = ['2024-03-29T23:00:00.000Z', '2024-03-30T23:00:00.000Z', '2024-03-31T22:00:00.000Z']
  const DAYS = { timeZone: 'Europe/Berlin', granularity: 'DAY', filterSql: null }

  test('as the React kit asks, over a day of 23 hours', async () => {
    const timeRange = { start: '2024-03-30T12:00:00Z', stop: '2024-04-01T12:00:00Z' }
    expect(await ask({ ...DAYS, metricName: 'revenue', timeRange })).toEqual({
      labels,
      values: ['10', '4.5', '3'],
      groups: [],
    })
    const grouped = { ...DAYS, metric: COUNT, timeRange, groupBy: ['shop'] }
    expect(await ask(grouped)).toEqual({
      labels,
      values: ['1', '2', '1'],
      groups: [
        { group: ['north'], labels, values: ['1', '1', '0'] },
        { group: ['south'], labels, values: ['0', '1', '0'] },
        { group: [null], labels, values: ['0', '0', '1'] },
      ],
    })
  })

  test('from the first row to the last one, with a value for each interval', async () => {
    const more = ['2024-04-01T22:00:00.000Z']
    const average = { average: { dataPool: { id: poolId }, measure: { columnName: 'price' } } }
    expect(await ask({ ...DAYS, metric: COUNT, groupBy: null })).toMatchObject({
      labels: [...labels, ...more],
      values: ['1', '2', '1', '1'],
    })
    expect(await ask({ ...DAYS, metric: average, timeZone: null })).toEqual({
      labels: [30, 31, 32, 33].map(day => new Date(Date.UTC(2024, 2, day)).toISOString()),
      values: ['5.25', '3.5', null, null],
      groups: [],
    })
    const byDay = { ...DAYS, metric: COUNT, timeZone: 'UTC', granularity: 'MONTH' }
    expect(await ask({ ...byDay, timeRange: { timestamp: 'day' } })).toMatchObject({
      labels: ['2024-03-01T00:00:00.000Z', '2024-04-01T00:00:00.000Z'],
      values: ['4', '1'],
    })
    const none = { labels: [], values: [], groups: [] }
    expect(await ask({ ...DAYS, metric: COUNT, filterSql: 'false', groupBy: ['shop'] })).toEqual(none)
  })

  test('of a relative range has all of its intervals, those to come too', async () => {
    const timeRange = { relative: 'LAST_N_DAYS', n: 30, start: '0001-01-01T00:00:00Z' }
    const { labels: days, values } = await ask({ ...DAYS, metric: COUNT, timeRange })
    expect([days.length, values]).toEqual([30, Array(30).fill('0')])
  })

  test('of a metric, in the document of older clients', async () => {
    const { data, errors } = await graphql(
      `query ($id: ID!, $input: TimeSeriesInput!) { metric(id: $id) { timeSeries(input: $input) { labels values
        query { id bytesProcessed recordsProcessed resultingRecords booster { id } type subtype status } } } }`,
      { id: metricId, input: { granularity: 'YEAR' } },
    )
    expect(errors).toBeUndefined()
    expect(data.metric.timeSeries).toMatchObject({
      labels: ['2024-01-01T00:00:00.000Z'],
      values: ['17.5'],
      query: { recordsProcessed: FIVE, resultingRecords: 1, booster: null, type: 'METRIC' },
    })
    expect(data.metric.timeSeries.query).toMatchObject({ subtype: 'TIME_SERIES', status: 'COMPLETED' })
  })

  test('is refused with what is wrong', async () => {
    const bad = async (more: object, message: RegExp) =>
      refused(UI_KIT.timeSeries, { timeSeriesInput: { ...DAYS, metric: COUNT, ...more } }, message)
    await bad(
      { granularity: 'MINUTE', timeRange: { start: '2024-01-01', stop: '2024-01-10' } },
      /at most 12000/,
    )
    await bad(
      { granularity: 'MINUTE', timeRange: { timestamp: 'day', start: '2023-01-01' } },
      /at most 12000/,
    )
    for (const timeZone of ['Europe/Atlantis', 'IST', '+05:00'])
      await bad({ timeZone, timeRange: { relative: 'TODAY' } }, /is not an IANA time zone/)
    await bad(
      { timeRange: { timestamp: 'shop' } },
      /^timeRange.timestamp: "shop" is neither TIMESTAMP nor DATE/,
    )
    await bad({ groupBy: ['x'] }, /^groupBy: there is no column "x"/)
    await bad(
      { granularity: 'YEAR', timeRange: { start: '2024-01-01', stop: '9999-01-01' } },
      /known until 2100/,
    )
    const timeRange = { start: '2024-01-01T00:00:00+05:45', stop: '9999-01-01' }
    const far = { metric: COUNT, granularity: 'YEAR', timeZone: 'Asia/Kathmandu', timeRange }
    expect((await ask(far)).labels).toHaveLength(9_999 - 2_024 + 1)
  })
})

describe('top values', () => {
  const ask = async (topValuesInput: object) =>
    (await graphql(UI_KIT.topValues, { topValuesInput })).data?.topValues.values

  test('as the React kit asks', async () => {
    const input = { dataPool: { name: 'sales' }, columnName: 'shop', timeZone: 'Europe/Berlin' }
    expect(await ask(input)).toEqual(['north', 'south'])
    expect(await ask({ ...input, maxValues: 1 })).toEqual(['north'])
    const timeRange = { timestamp: 'day', start: '2024-03-31', stop: null }
    expect(await ask({ ...input, timeRange, maxValues: null })).toEqual(['south'])
    expect(await ask({ dataPool: { id: poolId }, columnName: 'day', maxValues: 2 })).toEqual([
      '2024-03-30',
      '2024-03-31',
    ])
  })

  test('are refused with what is wrong', async () => {
    const input = { dataPool: { id: poolId }, columnName: 'shop' }
    for (const maxValues of [0, 1_001])
      await refused(
        UI_KIT.topValues,
        { topValuesInput: { ...input, maxValues } },
        /^maxValues: it is between/,
      )
    const unknown = { topValuesInput: { ...input, columnName: 'x' } }
    await refused(UI_KIT.topValues, unknown, /there is no column "x"/)
  })
})

describe('percentiles', () => {
  const PERCENTILE = `query ($input: PercentileInput!) {
    percentile(input: $input) { values query { type subtype recordsProcessed } }
  }`
  const input = { dataPool: { name: 'sales' }, columnName: 'price', fractions: [0, 0.5, 0.75, 1] }

  test('are interpolated, in the order of the fractions', async () => {
    const { data } = await graphql(PERCENTILE, { input })
    expect(data.percentile).toEqual({
      values: ['0.5', '3.5', '5.5', '10'],
      query: { type: 'STATS', subtype: null, recordsProcessed: FIVE },
    })
    const south = { ...input, fractions: [1, 0], filterSql: "shop = 'south'" }
    expect((await graphql(PERCENTILE, { input: south })).data.percentile.values).toEqual(['4', '4'])
    const none = { ...input, filters: [{ column: 'shop', operator: 'EQUALS', value: 'west' }] }
    expect((await graphql(PERCENTILE, { input: none })).data.percentile.values).toEqual(Array(4).fill(null))
  })

  test('are refused with what is wrong', async () => {
    await refused(PERCENTILE, { input: { ...input, fractions: [] } }, /^fractions: there are 1 to 20$/)
    await refused(
      PERCENTILE,
      { input: { ...input, fractions: [50] } },
      /^fractions: 50 is not between 0 and 1$/,
    )
    await refused(
      PERCENTILE,
      { input: { ...input, columnName: 'shop' } },
      /STRING: only numbers have percentiles/,
    )
  })
})
