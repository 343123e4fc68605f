/** The questions of `bench -- query`, each for Weir and in the SQL of each peer. */

export interface Question {
  readonly name: string
  /** A GraphQL document with one variable, `$input`. */
  readonly document: string
  /** The value of `$input` for the pool of this id. */
  readonly input: (poolId: string) => object
  /** Absent: the peer has no form of it. Those with a window are for DuckDB alone. */
  readonly sql: { readonly duckdb: string; readonly clickHouse?: string; readonly postgres?: string }
}

const START_MS = Date.UTC(2026, 0, 1)
const TENANT = 'tenant-0005'

/** The questions over `rows` events, a millisecond apart. */
export function QUESTIONS(rows: number): readonly Question[] {
  const at = (part: number) => new Date(START_MS + Math.floor(rows * part)).toISOString()
  const [start, stop] = [at(0.42), at(0.43)]
  const ofTenant = [{ column: 'tenant', operator: 'EQUALS', value: TENANT }]
  const pool = (id: string) => ({ id })
  const sum = (id: string) => ({ sum: { dataPool: pool(id), measure: { columnName: 'amount' } } })
  const inTime = `time >= '${start}' AND time < '${stop}'`
  const seconds = (iso: string) => Math.floor(Date.parse(iso) / 1000)
  const inSeconds = `time >= toDateTime(${seconds(start)}) AND time < toDateTime(${seconds(stop)})`
  const counter = '($input: CounterInput!) { counter(input: $input) { value } }'
  return [
    {
      name: 'count of all rows',
      document: `query ${counter}`,
      input: id => ({ metric: { count: { dataPool: pool(id) } } }),
      sql: same(from => `SELECT count(*) FROM ${from}`),
    },
    {
      name: 'sum of all rows',
      document: `query ${counter}`,
      input: id => ({ metric: sum(id) }),
      sql: same(from => `SELECT sum(amount) FROM ${from}`),
    },
    {
      name: 'sum of a tenant',
      document: `query ${counter}`,
      input: id => ({ metric: sum(id), filters: ofTenant }),
      sql: same(from => `SELECT sum(amount) FROM ${from} WHERE tenant = '${TENANT}'`),
    },
    {
      name: 'sum of a hundredth of the time',
      document: `query ${counter}`,
      input: id => ({ metric: sum(id), timeRange: { start, stop } }),
      sql: {
        ...same(from => `SELECT sum(amount) FROM ${from} WHERE ${inTime}`),
        clickHouse: `SELECT sum(amount) FROM latest FINAL WHERE ${inSeconds}`,
      },
    },
    {
      name: 'different tenants',
      document: `query ${counter}`,
      input: id => ({
        metric: { countDistinct: { dataPool: pool(id), dimension: { columnName: 'tenant' } } },
      }),
      sql: same(from => `SELECT count(DISTINCT tenant) FROM ${from}`),
    },
    {
      name: 'counter with filterSql',
      document: `query ${counter}`,
      input: id => ({ metric: sum(id), filterSql: `type = 'order.paid' AND quantity > 10` }),
      sql: same(from => `SELECT sum(amount) FROM ${from} WHERE type = 'order.paid' AND quantity > 10`),
    },
    {
      name: 'time series by minute',
      document: 'query ($input: TimeSeriesInput!) { timeSeries(input: $input) { labels values } }',
      input: id => ({ metric: sum(id), granularity: 'MINUTE' }),
      sql: {
        duckdb: 'SELECT epoch_us(time) // 60000000 AS at, sum(amount) FROM events GROUP BY 1 ORDER BY 1',
        clickHouse:
          'SELECT toStartOfMinute(time) AS at, sum(amount) FROM latest FINAL GROUP BY at ORDER BY at',
        postgres: `SELECT date_trunc('minute', time), sum(amount) FROM latest GROUP BY 1 ORDER BY 1`,
      },
    },
    {
      name: 'leaderboard of tenants',
      document: 'query ($input: LeaderboardInput!) { leaderboard(input: $input) { headers rows } }',
      input: id => ({ metric: sum(id), dimensions: [{ columnName: 'tenant' }], rowLimit: 10 }),
      sql: same(
        from => `SELECT tenant, sum(amount) AS v FROM ${from} GROUP BY tenant ORDER BY v DESC LIMIT 10`,
      ),
    },
    {
      name: 'report by type',
      document: 'query ($input: MetricReportInput!) { metricReport(input: $input) { headers rows } }',
      input: id => ({
        dimensions: [{ columnName: 'type' }],
        metrics: [{ metric: { count: { dataPool: pool(id) } } }, { metric: sum(id) }],
        timeRange: {},
        first: 100,
      }),
      sql: same(
        from => `SELECT type, count(*) AS c, sum(amount) AS s FROM ${from} GROUP BY type ORDER BY type`,
      ),
    },
    {
      name: 'values of a column',
      document: 'query ($input: TopValuesInput!) { topValues(input: $input) { values } }',
      input: id => ({ dataPool: pool(id), columnName: 'type', maxValues: 10, timeRange: {} }),
      sql: same(from => `SELECT type, count(*) AS c FROM ${from} GROUP BY type ORDER BY c DESC LIMIT 10`),
    },
    {
      name: 'newest 50 rows of a tenant',
      document: 'query ($input: DataGridInput!) { dataGrid(input: $input) { headers rows } }',
      input: id => ({
        dataPool: pool(id),
        columns: ['time', 'id', 'type', 'amount'],
        filters: ofTenant,
        timeRange: {},
        first: 50,
      }),
      sql: same(
        from =>
          `SELECT time, id, type, amount FROM ${from} WHERE tenant = '${TENANT}' ORDER BY time DESC, id LIMIT 50`,
      ),
    },
    {
      name: 'a record by its id',
      document:
        'query ($input: RecordsByUniqueIdInput!) { recordsByUniqueId(input: $input) { columns values } }',
      input: id => ({ dataPool: pool(id), columns: ['time', 'amount'], uniqueIds: [middleId(rows)] }),
      sql: same(from => `SELECT time, amount FROM ${from} WHERE id = '${middleId(rows)}'`),
    },
    {
      name: 'statement by type',
      document: 'query ($input: SqlV1Input!) { sqlV1(input: $input) { columns { columnName } rows } }',
      input: id => ({
        query: `SELECT type, count(*) AS c, avg(amount) AS a FROM "${id}" GROUP BY type ORDER BY c DESC`,
        dialect: 'POSTGRESQL',
      }),
      sql: same(
        from => `SELECT type, count(*) AS c, avg(amount) AS a FROM ${from} GROUP BY type ORDER BY c DESC`,
      ),
    },
    ...WINDOWED.map(([name, sqlOf]) => ({
      name: `window: ${name}`,
      document: 'query ($input: SqlV1Input!) { sqlV1(input: $input) { columns { columnName } rows } }',
      input: (id: string) => ({ query: sqlOf(`"${id}"`), dialect: 'POSTGRESQL' }),
      // ClickHouse 18.16 has no windows, and PostgreSQL no QUALIFY.
      sql: { duckdb: sqlOf('events') },
    })),
  ]
}

/** Statements with window functions. */
const WINDOWED: readonly (readonly [name: string, sql: (from: string) => string])[] = [
  [
    'running sum of a tenant',
    from =>
      `SELECT h, sum(s) OVER (ORDER BY h) AS running FROM (SELECT date_trunc('hour', time) AS h, sum(amount) AS s FROM ${from} WHERE tenant = '${TENANT}' GROUP BY 1) ORDER BY h`,
  ],
  [
    'newest event of each tenant',
    from =>
      `SELECT tenant, id, amount FROM ${from} QUALIFY row_number() OVER (PARTITION BY tenant ORDER BY time DESC) = 1 ORDER BY tenant LIMIT 1000`,
  ],
  [
    'first three types of each tenant',
    from =>
      `SELECT tenant, type, n FROM (SELECT tenant, type, count(*) AS n FROM ${from} GROUP BY ALL) QUALIFY rank() OVER (PARTITION BY tenant ORDER BY n DESC) <= 3 ORDER BY ALL LIMIT 5000`,
  ],
  [
    'longest pauses of a tenant',
    from =>
      `SELECT time, epoch_us(time) - lag(epoch_us(time)) OVER (ORDER BY time) AS pause FROM ${from} WHERE tenant = '${TENANT}' ORDER BY pause DESC NULLS LAST LIMIT 10`,
  ],
  [
    'moving average of an hour by minute',
    from =>
      `SELECT m, avg(s) OVER (ORDER BY m ROWS 59 PRECEDING) AS a FROM (SELECT time_bucket(INTERVAL 1 MINUTE, time) AS m, sum(amount) AS s FROM ${from} GROUP BY 1) ORDER BY m LIMIT 10000`,
  ],
]

function middleId(rows: number): string {
  return `evt-00000000${String(Math.floor(rows / 2)).padStart(12, '0')}`
}

/** A statement that all engines understand. */
function same(sql: (from: string) => string): Question['sql'] {
  return { duckdb: sql('events'), clickHouse: sql('latest FINAL'), postgres: sql('latest') }
}
