/** The seven hooks of @propeldata/ui-kit, unmodified, over real events of a shop. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fetchToken, send, startServer, type TestPool, type TestServer } from '../../util/server.ts'
import { answerOf, kit, Page, type Result, type Wrapper } from './page.ts'

const HOUR_MS = 3_600_000
const SHOPS = ['north', 'south', null]

/** An order every 7 hours, across the night of 31 March in which Berlin's clocks go forward. */
const ORDERS = Array.from({ length: 60 }, (_, n) => ({
  id: `o${String(n).padStart(2, '0')}`,
  at: new Date(Date.UTC(2024, 2, 29, 12) + n * 7 * HOUR_MS).toISOString(),
  shop: SHOPS[n % 3]!,
  price: (n % 7) + 0.25,
  paid: n % 2 === 0,
  basket: { n },
}))
type Order = (typeof ORDERS)[number]

const revenueOf = (orders: readonly Order[]) => String(orders.reduce((sum, { price }) => sum + price, 0))

let server: TestServer
let pool: TestPool
let metricId = ''
/** What a page gives to each hook. */
let common: { readonly accessToken: string; readonly propelApiUrl: string; readonly retry: boolean }
beforeAll(async () => {
  server = await startServer()
  const types = { id: 'STRING', at: 'TIMESTAMP', shop: 'STRING', price: 'DOUBLE', paid: 'BOOLEAN' }
  const columns = Object.entries({ ...types, basket: 'JSON' }).map(([name, type]) => ({
    name,
    jsonProperty: name,
    type,
    nullable: true,
  }))
  pool = await server.createPool({ uniqueName: 'orders', columns, timestamp: 'at', uniqueId: 'id' })
  expect((await send(pool.url, ORDERS)).status).toBe(200)
  const { data } = await server.graphql<{ createSumMetric: { metric: { id: string } } }>(
    'mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }',
    { input: { dataPool: pool.poolId, uniqueName: 'revenue', measure: { columnName: 'price' } } },
  )
  metricId = data.createSumMetric.metric.id
  const accessToken = await fetchToken(server.base, server.dataDir)
  common = { accessToken, propelApiUrl: `${server.base}/graphql`, retry: false }
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const DATA_POOL = { name: 'orders' }
const COUNT = { count: { dataPool: DATA_POOL } }

/** The answer of a hook of this name. Its errors fail the test. */
async function ask(hook: string, query: object, wrappers: readonly Wrapper[] = []): Promise<Result['data']> {
  const { data, error } = await answerOf(() => kit[hook]({ ...common, ...query }), wrappers)
  expect(error ?? null).toBeNull()
  return data
}

/** The message that a page shows when a hook fails. */
async function failure(hook: string, query: object): Promise<string | undefined> {
  return (await answerOf(() => kit[hook]({ ...common, ...query }))).error?.message
}

test('the kit exports seven hooks that ask', () => {
  const hooks = ['Counter', 'DataGrid', 'Leaderboard', 'RecordsById', 'Sql', 'TimeSeries', 'TopValues']
  for (const name of hooks) expect(kit[`use${name}`]).toBeTypeOf('function')
})

describe('useCounter', () => {
  const value = async (query: object) => (await ask('useCounter', query)).counter.value

  test('asks metrics in the query, by name, and by id in the place of the name', async () => {
    expect(await value({ metric: COUNT })).toBe('60')
    for (const metric of ['revenue', metricId, { name: 'revenue' }, { id: metricId }])
      expect(await value({ metric })).toBe(revenueOf(ORDERS))
    const average = { average: { dataPool: { id: pool.poolId }, measure: { columnName: 'price' } } }
    expect(Number(await value({ metric: average }))).toBeCloseTo(Number(revenueOf(ORDERS)) / 60, 12)
    expect(
      await value({ metric: { countDistinct: { dataPool: DATA_POOL, dimension: { columnName: 'shop' } } } }),
    ).toBe('2')
    expect(
      await value({ metric: { custom: { dataPool: DATA_POOL, expression: 'MAX(price) - MIN(price)' } } }),
    ).toBe('6')
  })

  test('narrows by filters, by filterSql and by time', async () => {
    const filters = [{ column: 'shop', operator: 'EQUALS', value: 'north' }]
    const ofNorth = ORDERS.filter(({ shop }) => shop === 'north')
    expect(await value({ metric: 'revenue', filters })).toBe(revenueOf(ofNorth))
    const filterSql = `"shop" = 'north' AND "paid" = true`
    expect(await value({ metric: COUNT, filterSql })).toBe(String(ofNorth.filter(({ paid }) => paid).length))
    const timeRange = { start: '2024-03-31', stop: '2024-04-02T00:00:00.000Z' }
    const inRange = ORDERS.filter(({ at }) => at >= '2024-03-31' && at < '2024-04-02')
    expect(await value({ metric: COUNT, timeRange })).toBe(String(inRange.length))
    // Received when they were posted: today, unless midnight has passed since.
    const received = { timestamp: '_service_received_at', relative: 'LAST_N_DAYS', n: 2 }
    expect(await value({ metric: COUNT, timeRange: received })).toBe('60')
  })

  test('answers zero and null over no event', async () => {
    const timeRange = { relative: 'LAST_N_MINUTES', n: 5 }
    expect(await value({ metric: COUNT, timeRange })).toBe('0')
    expect(await value({ metric: 'revenue', timeRange })).toBeNull()
  })
})

describe('useLeaderboard', () => {
  const board = async (query: object) =>
    (await ask('useLeaderboard', { metric: COUNT, ...query })).leaderboard
  const countOf = (isMeant: (order: Order) => boolean) => String(ORDERS.filter(isMeant).length)

  test('ranks by one dimension and by two', async () => {
    const price = await board({ metric: 'revenue', dimensions: [{ columnName: 'shop' }], sort: 'DESC' })
    const byShop = SHOPS.map(shop => [shop, revenueOf(ORDERS.filter(order => order.shop === shop))])
    expect(price.headers).toEqual(['shop', 'revenue'])
    expect(price.rows).toEqual(byShop.sort(([, a], [, b]) => Number(b) - Number(a)))
    const dimensions = [{ columnName: 'shop' }, { columnName: 'paid' }]
    const filters = [{ column: 'price', operator: 'LESS_THAN', value: '3' }]
    const two = await board({ dimensions, filters, sort: 'ASC', rowLimit: 2 })
    const counts = SHOPS.flatMap(shop =>
      [true, false].map(paid => countOf(o => o.shop === shop && o.paid === paid && o.price < 3)),
    )
    const fewest = counts.map(Number).sort((a, b) => a - b)
    expect(two.rows.map((row: string[]) => Number(row[2]))).toEqual(fewest.slice(0, 2))
  })

  test('shows the counter where it has no dimension', async () => {
    const page = new Page<Result>(() => kit.useLeaderboard({ ...common, metric: COUNT, enabled: true }))
    const { data } = await page.until(({ isLoading }) => !isLoading)
    page.close()
    expect(data.leaderboard.rows).toEqual([['All', '60']])
  })
})

describe('useTimeSeries', () => {
  const timeRange = { start: '2024-03-30T00:00:00+01:00', stop: '2024-04-03T00:00:00+02:00' }
  const inRange = ORDERS.filter(({ at }) => at >= '2024-03-29T23' && at < '2024-04-02T22')
  const series = async (query: object) =>
    (await ask('useTimeSeries', { metric: COUNT, timeRange, ...query })).timeSeries

  test('has every day of Berlin, with 23 hours where the clocks go forward', async () => {
    const days = ['03-29T23', '03-30T23', '03-31T22', '04-01T22', '04-02T22']
    const { labels, values } = await series({ granularity: 'DAY', timeZone: 'Europe/Berlin' })
    expect(labels).toEqual(days.slice(0, 4).map(day => `2024-${day}:00:00.000Z`))
    expect(values).toEqual(
      days
        .slice(1)
        .map((day, n) => inRange.filter(({ at }) => at < `2024-${day}` && at >= `2024-${days[n]}`).length)
        .map(String),
    )
  })

  test('fills empty buckets with zeros', async () => {
    const { labels, values } = await series({ granularity: 'HOUR', timeZone: 'UTC' })
    expect(labels).toHaveLength(95)
    expect(values.filter((value: string) => value === '1')).toHaveLength(inRange.length)
    expect(values.filter((value: string) => value === '0')).toHaveLength(95 - inRange.length)
  })

  test('has the same buckets for every group', async () => {
    const { labels, values, groups } = await series({
      granularity: 'DAY',
      timeZone: 'UTC',
      groupBy: ['shop'],
    })
    expect(groups.map(({ group }: { group: unknown[] }) => group[0]).sort()).toEqual([...SHOPS].sort())
    for (const { group, labels: own, values: counts } of groups) {
      expect(own).toEqual(labels)
      const ofShop = inRange.filter(({ shop }) => shop === group[0])
      expect(counts).toEqual(
        labels.map((label: string) =>
          String(ofShop.filter(({ at }) => at.slice(0, 10) === label.slice(0, 10)).length),
        ),
      )
    }
    expect(values.reduce((sum: number, value: string) => sum + Number(value), 0)).toBe(inRange.length)
  })
})

describe('useDataGrid', () => {
  const newestFirst = ORDERS.toReversed()

  test('asks for all columns, and shows cells as text', async () => {
    const hook = () => kit.useDataGrid({ ...common, dataPool: DATA_POOL, columns: ['*'], first: 1 })
    const page = new Page<Result>(hook)
    const { data } = await page.until(({ data }) => data?.dataGrid?.headers.length > 0)
    page.close()
    const { headers, rows } = data.dataGrid
    const [{ id, at, shop, price, paid, basket }] = newestFirst as [Order]
    const own = { id, at, shop, price: String(price), paid: String(paid), basket: JSON.stringify(basket) }
    const row = Object.fromEntries(headers.map((header: string, n: number) => [header, rows[0][n]]))
    expect(row).toMatchObject({ ...own, _service_payload: JSON.stringify(newestFirst[0]) })
    expect(headers).toHaveLength(Object.keys(own).length + 2)
  })

  test('turns pages forward and back', async () => {
    const hook = (turn: object) => () =>
      kit.useDataGrid({ ...common, dataPool: DATA_POOL, columns: ['id', 'price'], ...turn })
    const page = new Page<Result>(hook({ first: 25 }))
    const shown = async () => {
      const { data } = await page.until(({ isLoading, data }) => !isLoading && data != null)
      return data.dataGrid
    }
    const ids = (rows: readonly string[][]) => rows.map(([id]) => id)
    const expected = newestFirst.map(({ id }) => id)
    const first = await shown()
    expect(ids(first.rows)).toEqual(expected.slice(0, 25))
    expect(first.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: false })
    page.show(hook({ first: 25, after: first.pageInfo.endCursor }))
    const second = await shown()
    expect(ids(second.rows)).toEqual(expected.slice(25, 50))
    page.show(hook({ first: 25, after: second.pageInfo.endCursor }))
    const third = await shown()
    expect(ids(third.rows)).toEqual(expected.slice(50))
    expect(third.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true })
    page.show(hook({ last: 25, before: third.pageInfo.startCursor }))
    expect(await shown()).toEqual(second)
    page.show(hook({ last: 25, before: second.pageInfo.startCursor }))
    expect(await shown()).toEqual(first)
    page.close()
  })

  test('orders by a column and narrows', async () => {
    const query = { dataPool: { id: pool.poolId }, columns: ['price', 'id'], orderByColumn: 1, sort: 'ASC' }
    const { dataGrid } = await ask('useDataGrid', { ...query, filterSql: `"shop" = 'south'` })
    const prices = ORDERS.filter(({ shop }) => shop === 'south').map(({ price }) => price)
    expect(dataGrid.rows.map(([price]: [string]) => Number(price))).toEqual(prices.sort((a, b) => a - b))
  })
})

test('useRecordsById has a row for each id that is there', async () => {
  const query = { dataPool: DATA_POOL, columns: ['id', 'price', 'shop'], uniqueIds: ['o02', 'o59', 'none'] }
  const { recordsByUniqueId } = await ask('useRecordsById', query)
  expect(recordsByUniqueId.columns).toEqual(query.columns)
  expect(recordsByUniqueId.values.toSorted()).toEqual([
    ['o02', '2.25', null],
    ['o59', '3.25', null],
  ])
})

test('useTopValues has the most frequent values', async () => {
  const query = { dataPool: DATA_POOL, columnName: 'price', maxValues: 4, timeZone: 'Europe/Berlin' }
  const { topValues } = await ask('useTopValues', query)
  // 60 orders over 7 prices: the first four come nine times, the others eight.
  expect(topValues.values.toSorted()).toEqual(['0.25', '1.25', '2.25', '3.25'])
  const timeRange = { start: ORDERS[8]!.at, stop: ORDERS[9]!.at }
  expect((await ask('useTopValues', { ...query, timeRange })).topValues.values).toEqual(['1.25'])
})

describe('useSql', () => {
  test('reads a pool by its name in quotes', async () => {
    const { sqlV1 } = await ask('useSql', {
      query:
        'SELECT shop, COUNT(*) AS orders, SUM(price) FROM "orders" GROUP BY shop ORDER BY shop NULLS LAST',
    })
    expect(sqlV1.columns.slice(0, 2)).toEqual([
      { columnName: 'shop', type: 'STRING' },
      { columnName: 'orders', type: 'INT64' },
    ])
    const ofShop = (name: string | null) => ORDERS.filter(({ shop }) => shop === name)
    expect(sqlV1.rows).toEqual(
      SHOPS.map(shop => [shop, String(ofShop(shop).length), revenueOf(ofShop(shop))]),
    )
  })
})

describe('a FilterProvider', () => {
  const within = (properties: object): Wrapper[] => [{ component: 'FilterProvider', properties }]

  test('gives its pool, filters and time range to the hooks inside', async () => {
    const filters = [{ column: 'paid', operator: 'EQUALS', value: 'true' }]
    const timeRange = { start: '2024-04-01', stop: '2024-04-04' }
    const wrapper = within({ defaultDataPool: DATA_POOL, baseFilters: filters, defaultTimeRange: timeRange })
    const { counter } = await ask('useCounter', { metric: { count: {} } }, wrapper)
    const meant = ORDERS.filter(({ at, paid }) => paid && at >= '2024-04-01' && at < '2024-04-04')
    expect(counter.value).toBe(String(meant.length))
  })

  test('asks again when the visitor picks a value and another time', async () => {
    const hook = () => ({ filter: kit.useFilters(), result: kit.useCounter({ ...common, metric: COUNT }) })
    const page = new Page(hook, within({}))
    const shown = async (isMeant: (value: string) => boolean) =>
      (await page.until(({ result }) => isMeant(result.data?.counter.value))).filter
    const filter = await shown(value => value === '60')
    // The SQL of the kit's SimpleFilter.
    filter.setFilterSqlList([{ id: Symbol('shop'), filterSql: `"shop" = 'north'` }])
    await shown(value => value === '20')
    filter.setTimeRange({ start: ORDERS[0]!.at, stop: ORDERS[6]!.at })
    await shown(value => value === '2')
    filter.setFilterSqlList([])
    await shown(value => value === '6')
    page.close()
  })
})

describe('errors', () => {
  test('say what was wrong', async () => {
    expect(await failure('useCounter', { metric: 'unknown' })).toBe('Metric not found')
    const dataPool = { name: 'unknown' }
    expect(await failure('useDataGrid', { dataPool, columns: ['id'] })).toBe('Data Pool not found')
    const column = 'there is no column "no"'
    expect(await failure('useTopValues', { dataPool: DATA_POOL, columnName: 'no' })).toBe(column)
    const filterSql = '"no" = 1'
    expect(await failure('useCounter', { metric: COUNT, filterSql })).toBe(
      `filterSql: ${column}; a text is in single quotes: 'no'`,
    )
    const timeRange = { relative: 'LAST_N_DAYS' }
    expect(await failure('useCounter', { metric: COUNT, timeRange })).toBe(
      'timeRange.n: LAST_N_DAYS needs an n of 1 or more',
    )
  })

  test('of a token that does not hold are sentences too', async () => {
    const wrong = { metric: COUNT, accessToken: 'wrong' }
    expect(await failure('useCounter', wrong)).toBe('The token is not valid or has expired.')
    const accessToken = await fetchToken(server.base, server.dataDir, 'metric:query')
    expect(await failure('useCounter', { metric: COUNT, accessToken })).toMatch(
      /is not allowed to query Data Pool orders, because it lacks the "data-pool:query" scope/,
    )
  })
})

describe('an AccessTokenProvider', () => {
  test('fetches a token, and the next one after 55 minutes', async () => {
    const { accessToken: _, ...query } = { ...common, metric: COUNT, filterSql: "id < 'p'" }
    // Two tokens of the same second with the same scopes are equal, and an equal one changes
    // nothing.
    const scopes = ['data_pool:query metric:query', 'data_pool:query']
    const fetchNext = () => fetchToken(server.base, server.dataDir, scopes.shift())
    const clock = holdIntervals(55 * 60_000)
    const properties = { fetchToken: fetchNext }
    const page = new Page<Result>(
      () => kit.useCounter(query),
      [{ component: 'AccessTokenProvider', properties }],
    )
    await page.until(({ data }) => data?.counter.value === '60')
    expect(scopes).toHaveLength(1)
    // Another token makes the kit ask again, so it sees an order that came meanwhile.
    expect((await send(pool.url, { ...ORDERS[0], id: 'o60' })).status).toBe(200)
    clock.pass()
    await page.until(({ data }) => data?.counter.value === '61')
    expect(scopes).toHaveLength(0)
    page.close()
    clock.release()
    expect((await send(pool.url, { ...ORDERS[0], id: 'o60' }, 'DELETE')).status).toBe(200)
  })

  test('says that it got none', async () => {
    const { accessToken: _, ...query } = { ...common, metric: COUNT }
    const refused = async () => {
      const form = { grant_type: 'client_credentials', client_id: 'APP0', client_secret: 'wrong' }
      const body = new URLSearchParams(form)
      const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body })
      throw new Error(((await answer.json()) as { readonly error: string }).error)
    }
    const properties = { fetchToken: refused }
    const page = new Page<Result>(
      () => kit.useCounter(query),
      [{ component: 'AccessTokenProvider', properties }],
    )
    const { error } = await page.until(({ error }) => error != null)
    expect(error?.message).toBe('Failed to fetch access token: invalid_client')
    page.close()
  })
})

/** Holds back the timers of one interval. `pass` lets it pass once. */
function holdIntervals(intervalMs: number) {
  const { setInterval } = globalThis
  const held: (() => void)[] = []
  globalThis.setInterval = ((work: () => void, ms: number) => {
    if (ms !== intervalMs) return setInterval(work, ms)
    held.push(work)
    return undefined
  }) as typeof setInterval
  return {
    pass: () => {
      for (const work of held) work()
    },
    release: () => {
      globalThis.setInterval = setInterval
    },
  }
}
