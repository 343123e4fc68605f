/**
 * Grids, records by unique id and reports over HTTP against a model in memory: random columns,
 * orders, filters and page sizes over pools with and without a key, with and without an access
 * policy.
 * Every list is walked forward to its end, back to its begin, and from cursors in between.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PAYLOAD, RECEIVED_AT } from '../../src/format/schema.ts'
import { below, casesOf, newSeed, type Random, randomFrom } from '../util/random.ts'
import { startServer, type TestServer } from '../util/server.ts'
import { randomReport } from './report-model.ts'
import {
  compareCells,
  NAMES,
  PoolModel,
  pick,
  print,
  type Row,
  randomSelection,
  specOf,
  type View,
} from './rows-model.ts'
import { PAGE, type Page, walkPages } from './walk-pages.ts'

const PHASES = 2
const REQUESTS_A_PHASE = 3
const EVENTS_MAX = 60
const GRIDS_A_PHASE = casesOf(1, 3)
const RECORDS_A_PHASE = casesOf(10, 25)
const REPORTS_A_PHASE = casesOf(1, 3)

/** Who asks which part of which pool. */
interface Reader {
  readonly model: PoolModel
  readonly token: string
  /** The id of a predefined metric that the reader may ask for. */
  readonly metric: string | null
  readonly view: () => View
}

let server: TestServer
const readers: Reader[] = []
const models: PoolModel[] = []
/** The first pools have no access control. */
let open = 0

/** A pool without a timestamp whose `orderBy` makes the key. */
const ordered = (...orderBy: string[]) => ({ uniqueId: 'id', tableSettings: { orderBy } })

async function graphql<T>(token: string, query: string, variables: object = {}): Promise<T> {
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = (await answer.json()) as { readonly data: T; readonly errors?: unknown }
  expect(errors, JSON.stringify(variables)).toBeUndefined()
  return data
}

beforeAll(async () => {
  server = await startServer()
  const both = { timestamp: 'at', uniqueId: 'id' }
  const specs = [
    [both, ['at', 'id'], 'at', {}],
    [{ uniqueId: 'id' }, [RECEIVED_AT, 'id'], RECEIVED_AT, {}],
    [{ timestamp: 'at' }, null, 'at', {}],
    [{}, null, RECEIVED_AT, {}],
    [ordered('id'), ['id'], RECEIVED_AT, {}],
    [ordered('at', 'id'), ['at', 'id'], RECEIVED_AT, {}],
    [ordered(RECEIVED_AT, 'id'), [RECEIVED_AT, 'id'], RECEIVED_AT, {}],
    [
      { ...both, tenant: 'tenant' },
      ['at', 'id'],
      'at',
      { columns: ['*'], rows: [{ column: 'tenant', operator: 'EQUALS', value: 'a' }] },
    ],
    [both, ['at', 'id'], 'at', { columns: ['tenant', 'flag', 'i8', 'day'], filterSql: 'i8 <= 0' }],
    [{ timestamp: 'at' }, null, 'at', { columns: ['at', 'flag', RECEIVED_AT] }],
    [ordered('at', 'id'), ['at', 'id'], RECEIVED_AT, { columns: ['flag', 'at', 'i8'] }],
    [ordered('at', 'id'), ['at', 'id'], RECEIVED_AT, { columns: ['tenant', 'flag', RECEIVED_AT] }],
  ] as const
  open = specs.filter(([, , , policy]) => !('columns' in policy)).length
  for (const [settings, key, timestamp, policy] of specs) {
    const isClosed = 'columns' in policy
    const pool = await server.createPool(specOf({ ...settings, accessControlEnabled: isClosed }))
    const model = new PoolModel(pool, key, timestamp)
    models.push(model)
    const token = await tokenOfReader()
    const view = () => model.view()
    if (!isClosed) readers.push({ model, token: token.value, metric: await sumMetric(pool.poolId), view })
    else {
      await assign(pool.poolId, token.id, policy)
      readers.push({ model, token: token.value, metric: null, view: () => restricted(model, policy) })
    }
  }
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function sumMetric(dataPool: string): Promise<string> {
  const { data } = await server.graphql<{ createSumMetric: { metric: { id: string } } }>(
    'mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }',
    { input: { dataPool, measure: { columnName: 'i8' }, filterSql: "tenant = 'a'" } },
  )
  return data.createSumMetric.metric.id
}

async function tokenOfReader() {
  const { data } = await server.graphql<{
    createApplication: { application: { id: string; secret: string } }
  }>('mutation { createApplication(input: {}) { ... on ApplicationResponse { application { id secret } } } }')
  const { id, secret } = data.createApplication.application
  const body = new URLSearchParams({ grant_type: 'client_credentials', client_id: id, client_secret: secret })
  const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body })
  return { id, value: ((await answer.json()) as { access_token: string }).access_token }
}

async function assign(dataPool: string, application: string, policy: object): Promise<void> {
  const { data } = await server.graphql<{
    createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } }
  }>(
    `mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) {
       dataPoolAccessPolicy { id } } }`,
    { input: { dataPool, ...policy } },
  )
  const { id } = data.createDataPoolAccessPolicy.dataPoolAccessPolicy
  const { errors } = await server.graphql(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${id}", application: "${application}") }`,
  )
  expect(errors).toBeUndefined()
}

/** What is left by the policies above. */
function restricted(model: PoolModel, policy: { readonly columns: readonly string[] } & object): View {
  const view = model.view()
  const rows = view.rows.filter(({ cells }) => {
    if ('rows' in policy) return cells.get('tenant') === 'a'
    const i8 = cells.get('i8') ?? null
    return !('filterSql' in policy) || (i8 !== null && (i8 as bigint) <= 0n)
  })
  return policy.columns[0] === '*' ? { ...view, rows } : { ...view, rows, columns: policy.columns }
}

/** Asks the server for what the model cannot know. The policies' pools are asked without them. */
async function learn(model: PoolModel): Promise<void> {
  const access = async (isOn: boolean) =>
    server.graphql(
      `mutation { modifyDataPool(input: {idOrUniqueName: {id: "${model.pool.poolId}"}, accessControlEnabled: ${isOn}}) { __typename } }`,
    )
  await access(false)
  const { data } = await server.graphql<{ dataGrid: Page }>(
    `{ dataGrid(input: { dataPool: { id: "${model.pool.poolId}" }, columns: ["${RECEIVED_AT}", "${PAYLOAD}"], first: 1000 }) { rows } }`,
  )
  expect(data.dataGrid.rows.length).toBe(model.rows.size)
  model.learn(data.dataGrid.rows)
  const isClosed = readers.some(reader => reader.model === model && models.indexOf(model) >= open)
  if (isClosed) await access(true)
}

type Direction = 'ASC' | 'DESC'

type Order = readonly (readonly [string, Direction])[]

/** The order of a grid that names no column, by the rule of docs/contract.md. */
function defaultOrderOf(view: View, sort: Direction | null): Order {
  const { key, timestamp, columns } = view
  const isByKey = timestamp === RECEIVED_AT && key !== null && key[0] !== RECEIVED_AT
  const seen = isByKey ? key.filter(name => columns.includes(name)) : []
  if (seen.length === 0) return orderOf(view, undefined, sort ?? 'DESC')
  return [...seen.map(name => [name, sort ?? 'ASC'] as const), ...orderOf(view, undefined, 'DESC')]
}

/** The order of records, or of a grid by a chosen column. */
function orderOf({ key, timestamp, columns }: View, chosen: string | undefined, sort: Direction): Order {
  const time = [timestamp, chosen === undefined ? sort : 'DESC'] as const
  const ties = (key ?? [RECEIVED_AT]).map(name => [name, 'ASC'] as const)
  const all = [...(chosen === undefined ? [] : [[chosen, sort] as const]), time, ...ties]
  return all.filter(([name]) => columns.includes(name))
}

/** The rows as JSON in order, in groups of rows that the order does not tell apart. */
function groupsOf(rows: readonly Row[], order: Order, columns: readonly string[]): string[][] {
  const compare = (a: Row, b: Row) => {
    for (const [name, direction] of order) {
      const found = compareCells(a.cells.get(name) ?? null, b.cells.get(name) ?? null, direction)
      if (found !== 0) return found
    }
    return 0
  }
  const groups: string[][] = []
  let last: Row | undefined
  for (const row of [...rows].sort(compare)) {
    if (last === undefined || compare(last, row) !== 0) groups.push([])
    groups.at(-1)?.push(JSON.stringify(columns.map(name => print(name, row.cells.get(name) ?? null))))
    last = row
  }
  return groups
}

const GRID = `query ($input: DataGridInput!) { dataGrid(input: $input) { ${PAGE} } }`

async function walkGrid(random: Random, { model, token, view: viewNow }: Reader, seed: string) {
  const view = viewNow()
  const count = 1 + below(random, random() < 0.5 ? 2 : 6)
  const columns = Array.from({ length: count }, () => pick(random, view.columns))
  const isChosen = random() < 0.6
  const orderByColumn = isChosen ? 1 + below(random, count) : null
  const sort = pick(random, ['ASC', 'DESC', null] as const)
  // Filters name columns that some readers do not see.
  const { input, has } =
    view.columns.length > NAMES.length ? randomSelection(random) : { input: {}, has: () => true }
  const grid = { dataPool: { id: model.pool.poolId }, columns, orderByColumn, sort, ...input }
  const order = isChosen
    ? orderOf(view, columns[orderByColumn! - 1], sort ?? 'DESC')
    : defaultOrderOf(view, sort)
  const want = groupsOf(view.rows.filter(has), order, columns)
  const ask = async (page: object) => {
    const { dataGrid } = await graphql<{ dataGrid: Page }>(token, GRID, { input: { ...grid, ...page } })
    expect(dataGrid.headers).toEqual(columns)
    return dataGrid
  }
  return await walkPages(random, ask, want, `seed ${seed}: ${JSON.stringify(grid)}`)
}

const RECORDS =
  'query ($input: RecordsByUniqueIdInput!) { recordsByUniqueId(input: $input) { columns values } }'

async function askRecords(random: Random, { model, token, view: viewNow }: Reader, seed: string) {
  const view = viewNow()
  const columns = Array.from({ length: below(random, 4) }, () => pick(random, view.columns))
  const uniqueIds = Array.from({ length: below(random, 9) }, () => `k${below(random, 160)}`)
  const want = [...new Set(uniqueIds)].flatMap(id =>
    groupsOf(
      view.rows.filter(({ cells }) => cells.get('id') === id),
      orderOf(view, undefined, 'DESC'),
      columns,
    ).flat(),
  )
  const input = { dataPool: { id: model.pool.poolId }, columns, uniqueIds }
  const { recordsByUniqueId } = await graphql<{
    recordsByUniqueId: { readonly columns: string[]; readonly values: Page['rows'] }
  }>(token, RECORDS, { input })
  const where = `seed ${seed}: ${JSON.stringify(input)}`
  expect(recordsByUniqueId.columns, where).toEqual(columns)
  expect(
    recordsByUniqueId.values.map(row => JSON.stringify(row)),
    where,
  ).toEqual(want)
}

const REPORT = `query ($input: MetricReportInput!) { metricReport(input: $input) { ${PAGE} } }`

async function walkReport(random: Random, { model, token, metric, view }: Reader, seed: string) {
  const { input, headers, want } = randomReport(random, view(), model.pool.poolId, metric)
  const where = `seed ${seed}: ${JSON.stringify(input)}`
  const ask = async (page: object) => {
    const { metricReport } = await graphql<{ metricReport: Page }>(token, REPORT, {
      input: { ...input, ...page },
    })
    expect(metricReport.headers, where).toEqual(headers)
    return metricReport
  }
  return await walkPages(random, ask, want, where)
}

test('random grids, records and reports answer what the model answers, page by page', async () => {
  const seed = newSeed()
  const random = randomFrom(seed)
  let pages = 0
  for (const reader of readers) {
    // Empty pools first.
    pages += await walkGrid(random, reader, String(seed))
    pages += await walkReport(random, reader, String(seed))
  }
  for (let phase = 0; phase < PHASES; phase++) {
    for (const model of models) {
      for (let i = 0; i < REQUESTS_A_PHASE; i++) await model.change(random, EVENTS_MAX)
      await learn(model)
    }
    const name = `${seed}, phase ${phase}`
    const walks = readers.flatMap(reader => {
      const seeds = (count: number) => Array.from({ length: count }, () => randomFrom(below(random, 2 ** 31)))
      return [
        ...seeds(GRIDS_A_PHASE).map(each => walkGrid(each, reader, name)),
        ...seeds(REPORTS_A_PHASE).map(each => walkReport(each, reader, name)),
      ]
    })
    for (const walked of await Promise.all(walks)) pages += walked
    for (const reader of [readers[0]!, readers[1]!, readers[5]!, readers[open]!]) {
      const asked = Array.from({ length: RECORDS_A_PHASE }, () => askRecords(random, reader, name))
      await Promise.all(asked)
    }
  }
  expect(pages, `seed ${seed}`).toBeGreaterThan(casesOf(150, 600))
}, 240_000)
