/**
 * The documents of the Grafana plugin and of older sample applications, sent as they send them,
 * over real rows. Their relative time ranges count from today: the server's clock begins at a fixed
 * noon, so that no midnight comes between the rows and the questions.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { must } from '../../src/util/errors.ts'
import { fetchToken, send, startServer, type TestServer } from '../util/server.ts'
import { clockEnv } from '../util/set-clock.ts'
import { operationsOf } from './client-documents.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Json = any

const DAY_MS = 86_400_000
/** A Wednesday. */
const midnightMs = Date.UTC(2026, 2, 11)
const mondayMs = midnightMs - 2 * DAY_MS

/** Noon of days in every range that the applications ask for, and outside of them. */
const NOONS = [0, 3, 10, 29, 30, 400]
  .map(days => midnightMs - days * DAY_MS)
  .concat(mondayMs - 4 * DAY_MS, mondayMs - 7 * DAY_MS, mondayMs - 9 * DAY_MS)
  .map(ms => ms + DAY_MS / 2)

const DISHES = ['taco', 'soup', null]
const ROWS = NOONS.flatMap((ms, day) =>
  Array.from({ length: 6 }, (_, n) => ({
    id: `${day}-${n}`,
    ordered_at: new Date(ms + n * 60_000).toISOString(),
    restaurant_name: n < 4 ? 'X' : 'Y',
    dish: DISHES[n % 3]!,
    price: n / 2 + day,
    FSM: n % 2,
  })),
)
type Row = (typeof ROWS)[number]

const msOf = (row: Row) => Date.parse(row.ordered_at)
const isThisYear = (row: Row) => new Date(row.ordered_at).getUTCFullYear() === 2026
const isInLast30Days = (row: Row) => msOf(row) >= midnightMs - 29 * DAY_MS
const isInPreviousWeek = (row: Row) => msOf(row) < mondayMs && msOf(row) >= mondayMs - 7 * DAY_MS
const sumOf = (rows: readonly Row[]) => String(rows.reduce((sum, { price }) => sum + price, 0))

let server: TestServer
let token = ''
let metricId = ''
beforeAll(async () => {
  server = await startServer({ env: clockEnv({ aheadMs: midnightMs + DAY_MS / 2 - Date.now() }) })
  const columns = ['id:STRING', 'ordered_at:TIMESTAMP', 'restaurant_name:STRING', 'dish:STRING', 'FSM:INT8']
    .concat('price:DOUBLE')
    .map(text => text.split(':') as [string, string])
    .map(([name, type]) => ({ name, type, jsonProperty: name, nullable: true }))
  const keys = { columns, timestamp: 'ordered_at', uniqueId: 'id' }
  for (const uniqueName of ['restaurants', 'TacoSoft Demo Data']) {
    const pool = await server.createPool({ uniqueName, ...keys })
    expect((await send(pool.url, ROWS)).status).toBe(200)
    if (metricId !== '') continue
    const dimensions = [{ columnName: 'dish' }, { columnName: 'price' }, { columnName: 'ordered_at' }]
    const { data } = await server.graphql<Json>(
      'mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }',
      {
        input: {
          dataPool: pool.poolId,
          uniqueName: 'revenue',
          measure: { columnName: 'price' },
          dimensions,
        },
      },
    )
    metricId = data.createSumMetric.metric.id
  }
  token = await fetchToken(server.base, server.dataDir)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

/** The data of an operation of a file, sent by its text and variables alone. */
async function replay(file: string, name: string, variables: object = {}): Promise<Json> {
  const query = must(
    operationsOf(file).find(operation => operation.name === name),
    name,
  ).text
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = (await answer.json()) as Json
  expect([answer.status, errors]).toEqual([200, undefined])
  return data
}

/** Rows of a group, the most expensive group first. */
function ranked(rows: readonly Row[]): (string | null)[][] {
  const sums = DISHES.map(dish => [dish, sumOf(rows.filter(row => row.dish === dish))] as const)
  return sums.toSorted(([, a], [, b]) => Number(b) - Number(a)).map(row => [...row])
}

/** The buckets of days in [fromMs, toMs), and the revenue of each. */
function daily(rows: readonly Row[], fromMs: number, toMs: number) {
  const days = Array.from({ length: (toMs - fromMs) / DAY_MS }, (_, n) => fromMs + n * DAY_MS)
  return {
    labels: days.map(ms => new Date(ms).toISOString()),
    values: days.map(ms => sumOf(rows.filter(row => msOf(row) >= ms && msOf(row) < ms + DAY_MS))),
  }
}

describe('the Grafana plugin', () => {
  /** The dashboard's range, as the plugin puts it into each query. */
  const [fromMs, toMs] = [midnightMs - 12 * DAY_MS, midnightMs + DAY_MS]
  const timeRange = { start: new Date(fromMs).toISOString(), stop: new Date(toMs).toISOString() }
  const inRange = ROWS.filter(row => msOf(row) >= fromMs && msOf(row) < toMs)
  const ask = async (name: string, input: object) =>
    (await replay('grafana.graphql', name, { id: metricId, input: { timeRange, ...input } })).metric
  const cost = (resultingRecords: number) => ({
    id: expect.stringMatching(/./),
    bytesProcessed: expect.stringMatching(/^\d+$/),
    durationInMilliseconds: expect.any(Number),
    recordsProcessed: expect.stringMatching(/^\d+$/),
    resultingBytes: expect.any(Number),
    resultingRecords,
    booster: null,
  })

  test('finds a metric in its health check, with what its panel editor offers', async () => {
    const { metrics } = await replay('grafana.graphql', 'Metrics')
    const columnOf = (columnName: string, type: string) => ({ columnName, type, isNullable: true })
    expect(metrics.nodes).toMatchObject([
      {
        id: metricId,
        uniqueName: 'revenue',
        type: 'SUM',
        dimensions: [
          columnOf('dish', 'STRING'),
          columnOf('price', 'DOUBLE'),
          columnOf('ordered_at', 'TIMESTAMP'),
        ],
        timestamp: { columnName: 'ordered_at' },
        measure: columnOf('price', 'DOUBLE'),
      },
    ])
  })

  test('shows a counter', async () => {
    const filters = [{ column: 'restaurant_name', operator: 'EQUALS', value: 'X' }]
    expect((await ask('Counter', { filters })).counter).toEqual({
      value: sumOf(inRange.filter(({ restaurant_name }) => restaurant_name === 'X')),
      query: cost(1),
    })
  })

  test('shows a time series', async () => {
    const { labels, values } = daily(inRange, fromMs, toMs)
    // The zeros of empty days are no records.
    const filled = values.filter(value => value !== '0').length
    expect((await ask('TimeSeries', { granularity: 'DAY' })).timeSeries).toEqual({
      labels,
      values,
      query: cost(filled),
    })
  })

  test('shows a leaderboard', async () => {
    const input = { dimensions: [{ columnName: 'dish' }], rowLimit: 5, sort: 'DESC' }
    const { headers, rows, query } = (await ask('Leaderboard', input)).leaderboard
    expect(headers).toEqual(['dish', 'value'])
    expect(rows).toEqual(ranked(inRange))
    expect(query).toEqual(cost(3))
  })
})

describe('sample applications', () => {
  const ask = (name: string, variables?: object) => replay('sample-apps.graphql', name, variables)

  test('show a metric by its name: series, counter and leaderboard at once', async () => {
    const range = { timeRange: { relative: 'LAST_30_DAYS' } }
    const { metricByName } = await ask('MetricByName', {
      uniqueName: 'revenue',
      input: { ...range, granularity: 'DAY' },
      counter: { timeRange: { relative: 'PREVIOUS_WEEK' } },
      leaderboard: { ...range, dimensions: [{ columnName: 'dish' }], rowLimit: 10 },
    })
    const buckets = daily(ROWS, midnightMs - 29 * DAY_MS, midnightMs + DAY_MS)
    expect(metricByName.timeSeries).toEqual(buckets)
    expect(metricByName.counter.value).toBe(sumOf(ROWS.filter(isInPreviousWeek)))
    expect(metricByName.leaderboard.rows).toEqual(ranked(ROWS.filter(isInLast30Days)))
  })

  test('show the statistics of dimensions', async () => {
    const { metric } = await ask('Dimensions', { id: metricId })
    const prices = ROWS.map(({ price }) => price)
    const [dish, price, at] = metric.dimensions
    expect(dish).toMatchObject({ columnName: 'dish', stats: { min: 'soup', max: 'taco', average: null } })
    expect(dish.stats.uniqueValues.toSorted()).toEqual(['soup', 'taco'])
    expect(price.stats).toMatchObject({ min: '0', max: String(Math.max(...prices)) })
    expect(Number(price.stats.average)).toBeCloseTo(Number(sumOf(ROWS)) / ROWS.length, 10)
    const instants = ROWS.map(({ ordered_at }) => ordered_at).toSorted()
    expect([at.stats.min, at.stats.max]).toEqual([instants[0], instants.at(-1)])
  })

  test('show a dashboard of aliases, with the defaults of its variables', async () => {
    const orders = (isMeant: (row: Row) => boolean) => String(ROWS.filter(isMeant).length)
    const answer = await ask('Dashboard')
    expect(answer.orders.value).toBe(orders(row => row.FSM === 1 && isThisYear(row)))
    const ofX = ROWS.filter(row => row.restaurant_name === 'X' && row.price > 1 && isInPreviousWeek(row))
    expect(answer.revenue.value).toBe(sumOf(ofX))
    expect(answer.dishes.headers).toEqual(['dish', 'value'])
    expect(answer.dishes.rows.toSorted()).toEqual([
      [null, '0'],
      ['soup', '1'],
      ['taco', '1'],
    ])
    expect(Number(answer.custom.value)).toBeCloseTo(Number(sumOf(ROWS)) / ROWS.length, 10)
    const filterSql = "restaurant_name = 'Y'"
    const other = await ask('Dashboard', { filterSql, timeRange: { relative: 'LAST_N_DAYS', n: 4 } })
    const in4Days = (row: Row) => msOf(row) >= midnightMs - 3 * DAY_MS
    expect(other.orders.value).toBe(orders(row => row.restaurant_name === 'Y' && in4Days(row)))
  })

  test('ask many counters at once', async () => {
    const dataPool = { name: 'restaurants' }
    const { counters } = await ask('Counters', {
      input: [
        { metric: { count: { dataPool } }, filterSql: 'FSM = 0' },
        { metricName: 'revenue' },
        { metricId, timeRange: { relative: 'LAST_N_DAYS', n: 30 } },
      ],
    })
    expect(counters.map(({ value }: Json) => value)).toEqual([
      String(ROWS.filter(({ FSM }) => FSM === 0).length),
      sumOf(ROWS),
      sumOf(ROWS.filter(isInLast30Days)),
    ])
    for (const { query } of counters)
      expect(query).toMatchObject({ status: 'COMPLETED', type: 'METRIC', subtype: 'COUNTER' })
  })

  test('read the first rows of a pool by SQL', async () => {
    const { sqlV1 } = await ask('Sql')
    const names = sqlV1.columns.map(({ columnName }: Json) => columnName)
    expect(names.slice(-6)).toEqual(['id', 'ordered_at', 'restaurant_name', 'dish', 'FSM', 'price'])
    expect(sqlV1.rows).toHaveLength(5)
    const byId = new Map(ROWS.map(row => [row.id, row]))
    for (const cells of sqlV1.rows) {
      const [id, at, restaurant, dish, fsm, price] = cells.slice(-6)
      const row = must(byId.get(id), `the order ${id}`)
      expect([at, restaurant, dish, Number(fsm), Number(price)]).toEqual([
        row.ordered_at,
        row.restaurant_name,
        row.dish,
        row.FSM,
        row.price,
      ])
    }
  })

  test('page through a report of metrics', async () => {
    const input = {
      dimensions: [{ columnName: 'restaurant_name', displayName: 'Restaurant' }, { columnName: 'FSM' }],
      metrics: [
        { uniqueName: 'revenue', displayName: 'Revenue', sort: 'DESC' },
        { metric: { count: { dataPool: { name: 'restaurants' } } }, displayName: 'Orders' },
      ],
      timeRange: { relative: 'LAST_30_DAYS' },
      orderByColumn: 3,
    }
    const groups = ['X', 'Y'].flatMap(name =>
      [0, 1].map(FSM => {
        const rows = ROWS.filter(
          row => row.restaurant_name === name && row.FSM === FSM && isInLast30Days(row),
        )
        return [name, String(FSM), sumOf(rows), String(rows.length)]
      }),
    )
    const expected = groups.toSorted((a, b) => Number(b[2]) - Number(a[2]))
    const first = (await ask('Report', { input: { ...input, first: 3 } })).metricReport
    expect(first.headers).toEqual(['Restaurant', 'FSM', 'Revenue', 'Orders'])
    expect([first.rows, first.pageInfo]).toEqual([expected.slice(0, 3), { hasNextPage: true }])
    const after = first.edges.at(-1).cursor
    const second = (await ask('Report', { input: { ...input, first: 3, after } })).metricReport
    expect([second.rows, second.pageInfo]).toEqual([expected.slice(3), { hasNextPage: false }])
  })
})
