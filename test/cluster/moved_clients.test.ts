/** A page of the React kit, unmodified, before and after its data folder moves into a cluster. */
import { describe, expect, test, vi } from 'vitest'
import { answerOf, kit } from '../clients/ui-kit/page.ts'
import { weir } from '../tools/folder.ts'
import { fetchToken, freePort, send, startServer } from '../util/server.ts'
import { applicationOf, noModernCluster, startModernCluster } from './nodes.ts'

vi.setConfig({ testTimeout: 300_000 })

const ORDERS = Array.from({ length: 700 }, (_, n) => ({
  id: `o${n}`,
  at: new Date(Date.UTC(2024, 2, 29, 12) + n * 25_000_000).toISOString(),
  shop: ['north', 'south', null][n % 3]!,
  price: (n % 70) + 0.25,
}))
const TYPES = { id: 'STRING', at: 'TIMESTAMP', shop: 'STRING', price: 'DOUBLE' }
const DATA_POOL = { name: 'orders' }
const COUNT = { count: { dataPool: DATA_POOL } }
const WEEKS = { timeRange: { start: '2024-04-01', stop: '2024-06-01' }, timeZone: 'Europe/Berlin' }

/** What the page asks, by hook. */
const HOOKS = {
  useCounter: { metric: 'revenue', filterSql: `"shop" = 'north'` },
  useTimeSeries: { metric: COUNT, granularity: 'WEEK', groupBy: ['shop'], ...WEEKS },
  useLeaderboard: { metric: 'revenue', dimensions: [{ columnName: 'shop' }], sort: 'DESC', rowLimit: 10 },
  useDataGrid: { dataPool: DATA_POOL, columns: ['*'], first: 30 },
  useRecordsById: { dataPool: DATA_POOL, columns: ['id', 'price'], uniqueIds: ['o2', 'o699', 'none'] },
  useTopValues: { dataPool: DATA_POOL, columnName: 'price', maxValues: 30 },
  useSql: { query: 'SELECT shop, COUNT(*), SUM(price) FROM "orders" GROUP BY shop ORDER BY shop' },
}

/** All answers, without what is of one request only. */
async function pageOf(base: string, accessToken: string): Promise<unknown> {
  const common = { accessToken, propelApiUrl: `${base}/graphql`, retry: false }
  const shown: unknown[] = []
  for (const [hook, query] of Object.entries(HOOKS)) {
    const { data, error } = await answerOf(() => kit[hook]({ ...common, ...query }))
    expect([hook, error ?? null]).toEqual([hook, null])
    shown.push(data)
  }
  return JSON.parse(JSON.stringify(shown, (key, value) => (key === 'query' ? undefined : value)))
}

const noModern = noModernCluster()

describe.skipIf(noModern !== undefined)(`moved clients ${noModern ?? ''}`, () => {
  test('a page of the React kit shows the same', async () => {
    const server = await startServer({ args: ['--port', await freePort()] })
    const columns = Object.entries(TYPES).map(([name, type]) => ({
      name,
      type,
      jsonProperty: name,
      nullable: true,
    }))
    const pool = await server.createPool({ uniqueName: 'orders', columns, timestamp: 'at', uniqueId: 'id' })
    for (const from of [0, 500])
      expect((await send(pool.url, ORDERS.slice(from, from + 500))).status).toBe(200)
    expect((await send(pool.url, [ORDERS[5]], 'DELETE')).status).toBe(200)
    const measure = { columnName: 'price' }
    const { errors } = await server.graphql(
      'mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }',
      { input: { dataPool: pool.poolId, uniqueName: 'revenue', measure } },
    )
    expect(errors).toBeUndefined()
    const accessToken = await fetchToken(server.base, server.dataDir)
    const before = await pageOf(server.base, accessToken)
    expect(before).toMatchObject([
      { counter: { value: expect.stringMatching(/^\d+/) } },
      {},
      {},
      {},
      {},
      {},
      {},
    ])
    await server.stop()

    const { settings, node } = await startModernCluster()
    const { code, output } = await weir(['move', '--data-dir', server.dataDir], settings)
    expect([code, output]).toEqual([0, expect.stringContaining('with 699 rows')])
    const { base } = await node(['--port', new URL(server.base).port], applicationOf(server))
    expect(base).toBe(server.base)
    expect(await pageOf(base, accessToken)).toEqual(before)
  })
})
