/**
 * The page of `bench -- viewers`: its six questions, for Weir and in the SQL of each peer, and the
 * events that they are about, which are spread over the last 30 days.
 */
import { createRandom, eventId } from './events.ts'

export const TENANTS = 20
const DAYS = 30
const SPAN_MS = DAYS * 86_400_000
const HOUR_MS = 3_600_000

/** One of the six: a GraphQL document with `$input`. */
export interface PageQuestion {
  readonly document: string
  readonly input: object
  /** For peers, whose table is `events`. Times are literals of `time`. */
  readonly sql: (time: (ms: number) => string, hourOf: (column: string) => string) => string
}

/** The questions of a tenant's page. */
export function pageOf(poolId: string, tenant: string, nowMs: number): readonly PageQuestion[] {
  const dataPool = { id: poolId }
  const sum = { sum: { dataPool, measure: { columnName: 'amount' } } }
  const days = { relative: 'LAST_N_DAYS', n: DAYS }
  const since = (time: (ms: number) => string, ms: number) => `time >= ${time(nowMs - ms)}`
  const own = `tenant = '${tenant}'`
  const counter = 'query ($input: CounterInput!) { counter(input: $input) { value } }'
  return [
    {
      document: counter,
      input: {
        metric: { count: { dataPool } },
        timeRange: { relative: 'LAST_24_HOURS' },
        filters: [{ column: 'type', operator: 'EQUALS', value: 'order.paid' }],
      },
      sql: time =>
        `SELECT count(*) FROM events WHERE ${own} AND type = 'order.paid' AND ${since(time, 24 * HOUR_MS)}`,
    },
    {
      document: counter,
      input: { metric: { average: { dataPool, measure: { columnName: 'amount' } } }, timeRange: days },
      sql: time => `SELECT avg(amount) FROM events WHERE ${own} AND ${since(time, SPAN_MS)}`,
    },
    {
      document: 'query ($input: TimeSeriesInput!) { timeSeries(input: $input) { labels values } }',
      input: { metric: sum, timeRange: days, granularity: 'HOUR' },
      sql: (time, hourOf) =>
        `SELECT ${hourOf('time')} AS h, sum(amount) FROM events WHERE ${own} AND ${since(time, SPAN_MS)} GROUP BY 1 ORDER BY 1`,
    },
    {
      document: 'query ($input: LeaderboardInput!) { leaderboard(input: $input) { headers rows } }',
      input: { metric: sum, timeRange: days, dimensions: [{ columnName: 'customer' }], rowLimit: 10 },
      sql: time =>
        `SELECT customer, sum(amount) AS v FROM events WHERE ${own} AND ${since(time, SPAN_MS)} GROUP BY 1 ORDER BY 2 DESC LIMIT 10`,
    },
    {
      document: 'query ($input: MetricReportInput!) { metricReport(input: $input) { headers rows } }',
      input: {
        dimensions: [{ columnName: 'type' }],
        metrics: [{ metric: { count: { dataPool } } }, { metric: sum }],
        timeRange: days,
        first: 100,
      },
      sql: time =>
        `SELECT type, count(*), sum(amount) FROM events WHERE ${own} AND ${since(time, SPAN_MS)} GROUP BY 1 ORDER BY 1`,
    },
    {
      document: counter,
      input: { metric: sum, filters: [{ column: 'tenant', operator: 'EQUALS', value: tenant }] },
      sql: () => `SELECT sum(amount) FROM events WHERE ${own}`,
    },
  ]
}

export function tenantName(number: number): string {
  return `tenant-${String(number).padStart(2, '0')}`
}

/** Makes event number `index` of `rows`: the last one is now, and later ones follow. */
export function viewerEvents(rows: number, nowMs: number): (index: number, round: number) => string {
  const stepMs = SPAN_MS / rows
  return (index, round) => {
    const random = createRandom(index)
    const time = new Date(nowMs + (index - rows) * stepMs).toISOString()
    const type = TYPES[Math.floor(random() * TYPES.length)]
    const amount = (Math.floor(random() * 100_000) + round) / 100
    const customer = Math.floor(random() * CUSTOMERS)
    return `{"id":"${eventId(0, index)}","time":"${time}","tenant":"${tenantName(index % TENANTS)}","type":"${type}","amount":${amount},"customer":"customer-${customer}"}`
  }
}

const TYPES = ['order.created', 'order.paid', 'order.shipped', 'order.refunded', 'cart.updated']
const CUSTOMERS = 1_000

export const PAGE_COLUMNS = [
  { name: 'id', jsonProperty: 'id', type: 'STRING', nullable: false },
  { name: 'time', jsonProperty: 'time', type: 'TIMESTAMP', nullable: false },
  { name: 'tenant', jsonProperty: 'tenant', type: 'STRING', nullable: false },
  { name: 'type', jsonProperty: 'type', type: 'STRING', nullable: true },
  { name: 'amount', jsonProperty: 'amount', type: 'DOUBLE', nullable: true },
  { name: 'customer', jsonProperty: 'customer', type: 'STRING', nullable: true },
] as const
