/** Random events of every type of column, and random questions about the pools that have them. */
import { type ColumnType, RECEIVED_AT } from '../../src/format/schema.ts'
import { randomReport } from '../clients/report-model.ts'
import { pick, randomSelection } from '../clients/rows-model.ts'
import { randomValue as randomCell, randomInstant, spellInstant } from '../clients/values.ts'
import { AGGREGATES, randomValue } from '../query/expression/random-expressions.ts'
import { RandomStatements } from '../query/sql/random-statements.ts'
import { below, type Random } from '../util/random.ts'
import type { PoolSpec } from '../util/server.ts'

/** A required column has a mark. */
const COLUMNS = [
  'id STRING!|at TIMESTAMP!|i32 INT32!|f64 DOUBLE!|day DATE!|payload JSON!|name STRING!|tenant STRING',
  'secret STRING|flag BOOLEAN|f32 FLOAT|huge DOUBLE|i8 INT8|i16 INT16|i64 INT64|seen TIMESTAMP|ts TIMESTAMP',
  'constructor JSON|na"me; -- STRING|say "hi"; -- STRING|Größe INT32|__proto__ STRING',
].flatMap(line => line.split('|').map(columnOf))

function columnOf(text: string) {
  const [, name = '', type, mark] = /^(.*) (\w+)(!?)$/.exec(text)!
  return { name, jsonProperty: name, type: type as ColumnType, nullable: mark === '' }
}

const NAMES = COLUMNS.map(({ name }) => name)
const NUMBERS = COLUMNS.filter(({ type }) => /^(FLOAT|DOUBLE|INT)/.test(type)).map(({ name }) => name)
const GRID_COLUMNS = [RECEIVED_AT, '_service_payload', ...NAMES]
const IDS = 60

/** JSON of values at the ends of types, and of what stores could spell differently. */
const EXTREMES: Readonly<Partial<Record<ColumnType, readonly string[]>>> = {
  STRING: ['""', '"\\u0000"', '"\\ufeffx"', '"👨‍👩‍👧 ß İ \\r\\n"', '"null"', `"${'ä€𝄞'.repeat(90)}"`],
  FLOAT: ['3.4028234e38', '-3.4028234e38', '1.4e-45', '16777217', '-0.0'],
  DOUBLE: ['5e-324', '-0.0', '123456789012345680', '-1e21', '0.1', '1e-7'],
  DATE: ['"0001-01-01"', '"9999-12-31"', '"1969-12-31"'],
  TIMESTAMP: ['"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '"1969-12-31T23:59:59.999999Z"'],
  JSON: [
    '{"a":{"b":[1,"é"]},"n":5,"s":"x","t":true,"a/b~c":"deep","empty":null}',
    ...['[1,[2,{"c":[]}],null]', '{"n":1e308}', '{"n":1, "n":2}', '9007199254740993', '"text"'],
  ],
}
const HUGE = ['1.7976931348623157e308', '-1e308', '1e16', '-1e16', '1', '0.1', '-1e-300']

function jsonOf(random: Random, name: string, type: ColumnType): string {
  if (name === 'tenant') return pick(random, ['"a"', '"b"'])
  if (name === 'huge') return pick(random, HUGE)
  if (name === 'seen') return spellInstant(random, randomInstant(random)).json
  const roll = random()
  if (roll < 0.2 && EXTREMES[type] !== undefined) return pick(random, EXTREMES[type])
  if (roll < 0.5 && type === 'DOUBLE') return String((random() - 0.5) * 10 ** below(random, 7))
  return randomCell(random, type).json
}

/** @param marker the id of an event that is not rejected */
export function randomEvent(random: Random, marker?: string): string {
  const us = 1_700_000_000_000_000n + BigInt(below(random, 3)) * 1_000_001n
  const parts = [`"id":"${marker ?? `k${below(random, IDS)}`}"`, `"at":${spellInstant(random, us).json}`]
  for (const { name, type, nullable } of COLUMNS.slice(2))
    if (!nullable || random() > 0.2) parts.push(`${JSON.stringify(name)}:${jsonOf(random, name, type)}`)
  const isWrong = marker === undefined && random() < 0.02
  return `{${isWrong ? '"i16":"no number",' : ''}${parts.join()}}`
}

export interface PoolOfBoth {
  readonly spec: PoolSpec & { readonly uniqueName: string }
  /** What orders the rows of its grids, beside a chosen column. */
  readonly order: readonly string[]
}

/** The key of a pool, and its timestamp, decide about orders and about what replaces what. */
export const POOLS: readonly PoolOfBoth[] = [
  { spec: { uniqueName: 'everything', timestamp: 'at', uniqueId: 'id' }, order: ['at', 'id'] },
  { spec: { uniqueName: 'appended', timestamp: 'at' }, order: ['at', RECEIVED_AT] },
  {
    spec: { uniqueName: 'by_id', uniqueId: 'id', tableSettings: { orderBy: ['id'] } },
    order: [RECEIVED_AT, 'id'],
  },
  { spec: { uniqueName: 'received', uniqueId: 'id' }, order: [RECEIVED_AT, 'id'] },
  { spec: { uniqueName: 'plain' }, order: [RECEIVED_AT] },
].map(({ spec, order }) => ({ spec: { ...spec, columns: COLUMNS }, order }))

const FIELDS = {
  Counter: 'counter(input: $input) { value }',
  TimeSeries: 'timeSeries(input: $input) { labels values groups { group labels values } }',
  Leaderboard: 'leaderboard(input: $input) { headers rows }',
  Percentile: 'percentile(input: $input) { values }',
  TopValues: 'topValues(input: $input) { values }',
  RecordsByUniqueId: 'recordsByUniqueId(input: $input) { columns values }',
  DataGrid: 'dataGrid(input: $input) { rows }',
  MetricReport: 'metricReport(input: $input) { headers rows }',
  SqlV1: 'sqlV1(input: $input) { columns { columnName type isNullable } rows }',
  DescribeSqlV1: 'describeSqlV1(input: $input) { columns { columnName type isNullable } }',
}
type Kind = keyof typeof FIELDS

export interface Ask {
  readonly kind: Kind
  readonly input: object
  /** Places of the columns that order the rows: rows that are equal in them are in any order. */
  readonly order?: readonly number[]
  /** The same of magnitudes, where the last digits may differ by a part of them. */
  readonly scale?: object
}

/** @param fields of the answer, instead of those that all have */
export const queryOf = (kind: Kind, fields = FIELDS[kind]) =>
  `query ($input: ${kind}Input!) { answer: ${fields} }`

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const some = <T>(random: Random, least: number, most: number, list: readonly T[]): T[] =>
  Array.from({ length: least + below(random, most - least + 1) }, () => pick(random, list))
const ZONES = ['UTC', 'Europe/Berlin', 'America/St_Johns', 'Australia/Lord_Howe', 'Asia/Kathmandu']
const UNITS = 'MINUTE FIVE_MINUTES TEN_MINUTES FIFTEEN_MINUTES HOUR DAY WEEK MONTH YEAR'.split(' ')
const FEW = ['tenant', 'flag', 'i8', 'day', 'name']

function selectionOf(random: Random): object {
  const { input } = randomSelection(random)
  const relative = { timestamp: 'seen', relative: 'LAST_N_YEARS', n: 1 + below(random, 5) }
  return {
    ...input,
    ...(random() < 0.2 ? { filterSql: conditionOf(random) } : {}),
    ...(random() < 0.05 ? { timeRange: relative } : {}),
  }
}

function conditionOf(random: Random): string {
  const value = () => randomValue(random, 1 + below(random, 2))
  return pick(random, [`${value()} IS NOT NULL`, `${value()} > ${value()}`, `${value()} = ${value()}`])
}

/** An aggregate, and the same of magnitudes, where it has last digits. */
function metricOf(random: Random, pool: string): { readonly metric: object; readonly scale?: object } {
  const dataPool = { name: pool }
  const custom = (expression: string) => ({ custom: { dataPool, expression } })
  const kind = pick(random, ['count', 'sum', 'average', 'min', 'max', 'countDistinct', 'custom'] as const)
  if (kind === 'count') return { metric: { count: { dataPool } } }
  if (kind === 'custom') {
    const aggregate = pick(random, AGGREGATES)
    const value = randomValue(random, 1 + below(random, 3))
    const scale = scaleOf(aggregate, value)
    const metric = custom(aggregate === 'count_star' ? 'COUNT(*)' : `${aggregate}(${value})`)
    return scale === undefined ? { metric } : { metric, scale: custom(scale) }
  }
  const columnName = pick(random, kind === 'sum' || kind === 'average' ? NUMBERS : NAMES)
  const scale = scaleOf(kind, quoted(columnName))
  const named = { [kind === 'countDistinct' ? 'dimension' : 'measure']: { columnName } }
  const metric = { [kind]: { dataPool, ...named } }
  return scale === undefined ? { metric } : { metric, scale: custom(scale) }
}

function scaleOf(aggregate: string, value: string): string | undefined {
  const size = `ABS(CAST(${value} AS DOUBLE))`
  if (/^(sum|avg|average|mean)/i.test(aggregate)) return `${aggregate}(${size})`
  if (/^stddev/i.test(aggregate)) return `MAX(${size})`
  return /^var/i.test(aggregate) ? `MAX(${size}) * MAX(${size})` : undefined
}

/** How many of each kind come. */
const SHARES: Readonly<Record<Kind, number>> = {
  ...{ Counter: 4, TimeSeries: 3, Leaderboard: 2, Percentile: 1, TopValues: 1, RecordsByUniqueId: 1 },
  ...{ DataGrid: 1, MetricReport: 1, SqlV1: 7, DescribeSqlV1: 1 },
}
const WEIGHTED = (Object.keys(SHARES) as Kind[]).flatMap(kind =>
  Array.from({ length: SHARES[kind] }, () => kind),
)

export function randomAsk(random: Random): Ask {
  const kind = pick(random, WEIGHTED)
  const { spec, order } = pick(random, POOLS)
  const dataPool = { name: spec.uniqueName }
  const selection = selectionOf(random)
  const { metric, scale } = metricOf(random, spec.uniqueName)
  /** With the metric, and with its scale in the place of the metric. */
  const ofMetric = (withMetric: (metric: object) => object): Ask => ({
    ...{ kind, input: withMetric(metric) },
    ...(scale && { scale: withMetric(scale) }),
  })
  switch (kind) {
    case 'Counter':
      return ofMetric(each => ({ ...selection, metric: each }))
    case 'TimeSeries': {
      const ends = [0, 1].map(() => Number(randomInstant(random) / 1_000n)).sort()
      const [start, stop] = ends.map(ms => new Date(ms).toISOString())
      const timeRange = { timestamp: pick(random, ['at', 'seen', 'day']), start, stop }
      const granularity = pick(random, UNITS.slice(random() < 0.5 ? 5 : 0))
      const more = { timeRange, granularity, timeZone: pick(random, ZONES), groupBy: some(random, 0, 2, FEW) }
      return ofMetric(each => ({ ...selection, ...more, metric: each }))
    }
    case 'Leaderboard': {
      const names = some(random, 0, 2, scale === undefined ? NAMES : FEW)
      const dimensions = names.map(columnName => ({ columnName }))
      const rowLimit = scale === undefined ? pick(random, [1, 3, 50]) : 1_000
      const more = { dimensions, rowLimit, sort: pick(random, ['ASC', 'DESC']) }
      return ofMetric(each => ({ ...selection, ...more, metric: each }))
    }
    case 'Percentile': {
      const columnName = pick(random, random() < 0.9 ? NUMBERS : NAMES)
      const fractions = [random(), pick(random, [0, 0.5, 0.95, 1, 1e-7])]
      return { kind, input: { ...selection, dataPool, columnName, fractions } }
    }
    case 'TopValues':
      return {
        kind,
        input: { dataPool, columnName: pick(random, NAMES), maxValues: pick(random, [1, 5, 1_000]) },
      }
    case 'RecordsByUniqueId': {
      const uniqueIds = Array.from({ length: below(random, 9) }, () => `k${below(random, IDS + 5)}`)
      return { kind, input: { dataPool, columns: some(random, 1, 4, GRID_COLUMNS), uniqueIds } }
    }
    case 'DataGrid': {
      const chosen = some(random, 1, 4, GRID_COLUMNS)
      const orderByColumn = random() < 0.6 ? 1 + below(random, chosen.length) : null
      const sort = pick(random, ['ASC', 'DESC', null])
      const places = order.map((_, at) => chosen.length + at)
      return {
        ...{ kind, input: { ...selection, dataPool, columns: [...chosen, ...order], orderByColumn, sort } },
        order: orderByColumn === null ? places : [orderByColumn - 1, ...places],
      }
    }
    case 'MetricReport': {
      const view = { rows: [], columns: GRID_COLUMNS, key: null, timestamp: 'at' }
      const text = JSON.stringify(randomReport(random, view, 'POOL', null).input)
      const input = JSON.parse(text.replaceAll('{"id":"POOL"}', JSON.stringify(dataPool)))
      return ofMetric(each => ({ ...input, metrics: [...input.metrics, { metric: each }] }))
    }
    case 'SqlV1':
      return { kind, ...statementOf(random, spec.uniqueName) }
    default:
      return { kind, input: { query: `SELECT ${randomValue(random, 3)} AS x FROM ${spec.uniqueName}` } }
  }
}

function statementOf(random: Random, pool: string): Omit<Ask, 'kind'> {
  const roll = random()
  if (roll < 0.4) return { input: { query: new RandomStatements(random).statement() } }
  if (roll < 0.8) {
    const values = [0, 1].map(() => randomValue(random, 1 + below(random, 3)))
    const where = random() < 0.3 ? ` WHERE ${conditionOf(random)}` : ''
    const order = `at, id, ${RECEIVED_AT}, _service_payload`
    return { input: { query: `SELECT at, id, ${values.join(', ')} FROM ${pool}${where} ORDER BY ${order}` } }
  }
  const names = ['SUM', 'AVG', 'STDDEV_SAMP', 'STDDEV_POP', 'VAR_SAMP', 'VAR_POP', 'MEDIAN']
  const list = some(random, 1, 4, names).map(aggregate => {
    // Squares beyond a DOUBLE are an error or 0 where DuckDB answers a statement itself.
    const column = quoted(
      pick(
        random,
        NUMBERS.filter(name => name !== 'huge'),
      ),
    )
    const value = `${aggregate}(${column})`
    return [value, scaleOf(aggregate, column) ?? value] as const
  })
  const keys = some(random, 2, 2, FEW).join(', ')
  const where = pick(random, ['true', 'flag', 'i8 > 0'])
  const textOf = (at: 0 | 1) =>
    `SELECT ${keys}, ${list.map(each => each[at]).join(', ')}, COUNT(*) FROM ${pool} WHERE ${where} GROUP BY 1, 2 ORDER BY 1, 2`
  return { input: { query: textOf(0) }, scale: { query: textOf(1) } }
}

/** What was answered otherwise once. */
export const KNOWN: readonly Ask[] = [
  {
    // A required column is the time, and groups.
    kind: 'TimeSeries',
    input: {
      timeRange: { timestamp: 'day', start: '2023-11-01T00:00:00Z', stop: '2023-12-01T00:00:00Z' },
      ...{ granularity: 'DAY', groupBy: ['day'], metric: { count: { dataPool: { name: 'everything' } } } },
    },
  },
  // A FLOAT that arithmetic made is no DOUBLE.
  ...['DISTINCT x', 'MIN(x)', 'MAX(x)'].map((select): Ask => {
    const from = '(SELECT CAST(i64 * 0.3 AS FLOAT) AS x FROM everything) AS t'
    return { kind: 'SqlV1', input: { query: `SELECT ${select} FROM ${from} ORDER BY 1` } }
  }),
  ...['DISTINCT ', 'MIN', 'MAX'].map((select): Ask => {
    const query = `SELECT ${select}(CAST(i64 * 0.3 AS FLOAT)) FROM everything ORDER BY 1`
    return { kind: 'SqlV1', input: { query } }
  }),
]

/**
 * The parameters of an export or a tail: some columns, some rows.
 * @param marker the id of an event that is among them
 */
export function randomRows(random: Random, marker?: string): string {
  const isTail = marker !== undefined
  const names = [...some(random, 3, 3, GRID_COLUMNS), ...(isTail ? ['id'] : [])]
  const value = pick(random, ['true', 'false'])
  const or = isTail ? [{ column: 'id', operator: 'EQUALS', value: marker }] : []
  const filters = [{ column: 'flag', operator: 'EQUALS', value, or }]
  return String(
    new URLSearchParams({
      ...(random() < 0.6 ? { columns: JSON.stringify([...new Set(names)]) } : {}),
      ...(random() < 0.5 ? { filters: JSON.stringify(filters) } : {}),
    }),
  )
}
