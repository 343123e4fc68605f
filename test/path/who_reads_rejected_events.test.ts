/**
 * Rejected events hold texts of all pools. Every kind of question is asked over them by
 * applications with each scope, with and without a policy.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SCOPES } from '../../src/catalog/documents/model.ts'
import { REJECTED_EVENTS } from '../../src/catalog/rejected-pool.ts'
import { rejectedOf } from '../util/rejected.ts'
import { removeLeftovers, send, startServer, type TestPool, type TestServer } from '../util/server.ts'
import { column } from './client.ts'

afterAll(removeLeftovers)

const SECRETS = ['secret-of-first', 'secret-of-second'] as const
const dataPool = { name: REJECTED_EVENTS }
const COUNT = { count: { dataPool } }

let server: TestServer
let pools: TestPool[]
let ids: string[]

async function change<T>(document: string, variables: object = {}): Promise<T> {
  const { data, errors } = await server.graphql<T>(document, variables)
  expect(errors).toBeUndefined()
  return data
}

beforeAll(async () => {
  server = await startServer()
  pools = [
    await server.createPool({ uniqueName: 'first', columns: [column('n', 'INT64')] }),
    await server.createPool({ uniqueName: 'second', columns: [column('n', 'INT64')] }),
  ]
  for (const [index, secret] of SECRETS.entries())
    expect((await send(pools[index]!.url, [{ n: secret }])).status).toBe(400)
  ids = []
  for (const { poolId } of pools) ids.push((await rejectedOf(server, poolId, 1))[0]!.id!)
  const dimensions = ['code', 'text', 'data_pool_id', 'element_index'].map(columnName => ({ columnName }))
  for (const [name, more] of [
    ['Count', {}],
    ['Min', { measure: { columnName: 'element_index' } }],
  ] as const)
    await change(
      `mutation ($input: Create${name}MetricInput) { create${name}Metric(input: $input) { metric { id } } }`,
      { input: { uniqueName: `over ${name}`, dataPool: REJECTED_EVENTS, dimensions, ...more } },
    )
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

const NAMES = {
  admin: 'ADMIN',
  'application:admin': 'APPLICATION_ADMIN',
  'environment:admin': 'ENVIRONMENT_ADMIN',
  'data_pool:query': 'DATA_POOL_QUERY',
  'data_pool:read': 'DATA_POOL_READ',
  'data_pool:stats': 'DATA_POOL_STATS',
  'data_pool:write': 'DATA_POOL_WRITE',
  'metric:query': 'METRIC_QUERY',
  'metric:read': 'METRIC_READ',
  'metric:stats': 'METRIC_STATS',
} as const satisfies Record<(typeof SCOPES)[number], string>

interface Reader {
  readonly id: string
  readonly authorization: string
}

let readers = 0
async function reader(...scopes: readonly (typeof SCOPES)[number][]): Promise<Reader> {
  readers += 1
  const { createApplication } = await change<{
    createApplication: { application: { id: string; secret: string } }
  }>(
    `mutation ($input: createApplicationInput!) { createApplication(input: $input) {
      ... on ApplicationResponse { application { id secret } } } }`,
    { input: { uniqueName: `reader ${readers}`, scopes: scopes.map(scope => NAMES[scope]) } },
  )
  const { id, secret } = createApplication.application
  return { id, authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }
}

/** Gives a reader a policy: some columns of the rows of one pool. */
async function limit({ id }: Reader, columns: readonly string[], poolId: string): Promise<void> {
  const { createDataPoolAccessPolicy: made } = await change<{
    createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } }
  }>(
    `mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) {
      dataPoolAccessPolicy { id } } }`,
    {
      input: {
        dataPool: (
          await change<{ dataPoolByName: { id: string } }>(
            `{ dataPoolByName(uniqueName: "${REJECTED_EVENTS}") { id } }`,
          )
        ).dataPoolByName.id,
        columns,
        rows: [{ column: 'data_pool_id', operator: 'EQUALS', value: poolId }],
      },
    },
  )
  await change(
    `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${made.dataPoolAccessPolicy.id}", application: "${id}") }`,
  )
}

const QUESTIONS: Readonly<Record<string, object>> = {
  counter: { counter: { metric: COUNT } },
  'counter with a filter': {
    counter: { metric: COUNT, filters: [{ column: 'text', operator: 'LIKE', value: '%secret%' }] },
  },
  'counter with SQL': { counter: { metric: COUNT, filterSql: "text LIKE '%secret%'" } },
  'custom metric': { counter: { metric: { custom: { dataPool, expression: 'MAX(length(text))' } } } },
  'predefined metric': { counter: { metric: { name: 'over Count' } } },
  timeSeries: { timeSeries: { metric: COUNT, granularity: 'DAY', groupBy: ['text'] } },
  leaderboard: { leaderboard: { metric: COUNT, dimensions: [{ columnName: 'text' }], rowLimit: 10 } },
  'leaderboard of a metric': {
    leaderboard: { metric: { name: 'over Count' }, dimensions: [{ columnName: 'text' }], rowLimit: 10 },
  },
  dataGrid: { dataGrid: { dataPool, columns: ['text', 'message'], first: 10 } },
  'dataGrid of payloads': { dataGrid: { dataPool, columns: ['_service_payload'], first: 10 } },
  metricReport: { metricReport: { dimensions: [{ columnName: 'text' }], metrics: [{ metric: COUNT }] } },
  sql: { sql: `SELECT text, message FROM ${REJECTED_EVENTS}` },
  'sql with a condition': { sql: `SELECT count(*) FROM ${REJECTED_EVENTS} WHERE text LIKE '%secret%'` },
  topValues: { topValues: { dataPool, columnName: 'text', timeRange: {} } },
  percentile: { percentile: { dataPool, columnName: 'element_index', fractions: [0.5] } },
}

const GRAPHQL: Readonly<Record<string, string>> = {
  counter: `{ counter(input: {metric: {count: {dataPool: {name: "${REJECTED_EVENTS}"}}}}) { value } }`,
  sqlV1: `{ sqlV1(input: {query: "SELECT text FROM ${REJECTED_EVENTS}"}) { rows } }`,
  dataGrid: `{ dataGrid(input: {dataPool: {name: "${REJECTED_EVENTS}"}, columns: ["text"], first: 9}) { rows } }`,
  inferColumns: `{ inferColumns(dataPool: {name: "${REJECTED_EVENTS}"}) { events columns { name } } }`,
  statistics:
    '{ metricByName(uniqueName: "over Min") { dimensions { columnName stats { min max uniqueValues(limit: 9) } } } }',
  'counter of a metric': '{ metricByName(uniqueName: "over Count") { counter(input: {}) { value } } }',
  size: `{ dataPoolByName(uniqueName: "${REJECTED_EVENTS}") { recordCount sizeInTerabytes } }`,
}

/** What a reader gets for each question, by its name. */
async function answers({ authorization }: Reader): Promise<Record<string, string>> {
  const all: Record<string, string> = {}
  const headers = { authorization, 'content-type': 'application/json' }
  const text = async (path: string, body?: object) => {
    const more = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const answer = await fetch(`${server.base}${path}`, { headers, ...more })
    return `${answer.status} ${await answer.text()}`
  }
  for (const [name, question] of Object.entries(QUESTIONS)) all[name] = await text('/v1/query', question)
  for (const format of ['csv', 'arrow'])
    all[`query as ${format}`] = await text(`/v1/query?format=${format}`, QUESTIONS['dataGrid'])
  for (const [name, query] of Object.entries(GRAPHQL))
    all[`GraphQL ${name}`] = await text('/graphql', { query })
  const byId = `{ recordsByUniqueId(input: {dataPool: {name: "${REJECTED_EVENTS}"}, columns: ["text"], uniqueIds: ${JSON.stringify(ids)}}) { values } }`
  all['recordsByUniqueId'] = await text('/graphql', { query: byId })
  for (const path of ['arrow', 'export?format=ndjson', 'export?format=csv', 'export?format=parquet'])
    all[path] = await text(`/v1/pools/${REJECTED_EVENTS}/${path}`)
  all['imports'] = await text(`/v1/pools/${REJECTED_EVENTS}/import`)
  return all
}

/** True where an answer refuses, or says nothing. */
function isRefused(answer: string): boolean {
  const [status] = answer.split(' ', 1)
  if (status === '400' || status === '403') return true
  const { data, errors } = JSON.parse(answer.slice(4)) as {
    data?: Record<string, unknown>
    errors?: unknown[]
  }
  return (
    errors !== undefined ||
    JSON.stringify(data ?? null)
      .replace(/"over \w+"/g, '')
      .match(/:(?!null|\{|\[)/) === null
  )
}

const isMade = (name: string) => !['imports', 'GraphQL inferColumns', 'recordsByUniqueId'].includes(name)

describe('without a policy', () => {
  test.each(SCOPES.map(scope => [scope]))('the scope %s alone shows nothing', async scope => {
    for (const [name, answer] of Object.entries(await answers(await reader(scope)))) {
      for (const hidden of [...SECRETS, ...ids, 'INT64, found']) expect([name, answer]).not.toContain(hidden)
      expect(answer, name).not.toMatch(/secret-of/)
      // The scopes of imports and of the size of pools tell nothing of rows to others.
      if (name === 'imports') expect(answer, name).toMatch(/^403|^200 \{"imports":\[\]\}$/)
      else if (name === 'GraphQL size' && scope === 'admin') expect(answer).toMatch(/"recordCount":"?\d/)
      else expect([name, answer, isRefused(answer)]).toEqual([name, answer, true])
    }
  })

  test('all scopes but admin show nothing', async () => {
    const others = SCOPES.filter(scope => scope !== 'admin')
    for (const [name, answer] of Object.entries(await answers(await reader(...others)))) {
      expect(answer, name).not.toMatch(/secret-of/)
      if (name !== 'imports') expect([name, answer, isRefused(answer)]).toEqual([name, answer, true])
    }
  })

  test('admin, with the scopes to query, sees all', async () => {
    const seen = await answers(await reader('admin', 'data_pool:query', 'metric:query'))
    const texts = [
      'timeSeries',
      'leaderboard',
      'dataGrid',
      'metricReport',
      'sql',
      'topValues',
      'GraphQL sqlV1',
    ]
    for (const name of [...texts, 'export?format=ndjson', 'arrow', 'GraphQL statistics', 'query as csv'])
      for (const secret of SECRETS) expect([name, seen[name]?.includes(secret)]).toEqual([name, true])
    for (const [name, answer] of Object.entries(seen)) if (isMade(name)) expect(answer, name).toMatch(/^200 /)
    expect(seen['counter']).toContain('"2"')
  })

  test('an application that loses the scope admin sees nothing any more', async () => {
    const one = await reader('admin', 'data_pool:query')
    expect((await answers(one))['counter']).toContain('"2"')
    await change(
      `mutation { modifyApplication(input: {idOrUniqueName: {id: "${one.id}"}, scopes: [DATA_POOL_QUERY]}) { __typename } }`,
    )
    for (const [name, answer] of Object.entries(await answers(one)))
      expect([name, isRefused(answer)]).toEqual([name, true])
  })
})

describe('with a policy', () => {
  test('a reader sees its columns of its rows, and a question about others is refused', async () => {
    const one = await reader('data_pool:query', 'data_pool:read', 'metric:query', 'metric:stats')
    await limit(one, ['id', 'code', 'data_pool_id'], pools[0]!.poolId)
    const seen = await answers(one)
    for (const [name, answer] of Object.entries(seen)) {
      expect([name, answer]).not.toContain(ids[1])
      expect(answer, name).not.toMatch(/secret-of/)
      if (/text|sql$|SQL|filter|metricReport|topValues|Grid|custom/.test(name))
        expect([name, isRefused(answer)]).toEqual([name, true])
    }
    expect(seen['counter']).toContain('"1"')
    expect(seen['export?format=ndjson']).toContain(ids[0])
    expect(seen['export?format=ndjson']).not.toContain(pools[1]!.poolId)
    expect(seen['GraphQL size']).toContain('"recordCount":null')
  })

  test('all columns of one pool are those of its rows alone, in every question', async () => {
    const one = await reader('data_pool:query', 'data_pool:read', 'data_pool:stats', 'metric:query')
    await limit(one, ['*'], pools[1]!.poolId)
    for (const [name, answer] of Object.entries(await answers(one))) {
      expect(answer.includes(SECRETS[0]), name).toBe(false)
      if (/^(counter|predefined|sql with)/.test(name)) expect(answer, name).toContain('"1"')
      if (
        /^(timeSeries|leaderboard|dataGrid|metricReport|sql|topValues|export\?format=(ndjson|csv))$/.test(
          name,
        )
      )
        expect([name, answer.includes(SECRETS[1])]).toEqual([name, true])
    }
  })

  test('a policy limits admin too, and one without an own scope is no use', async () => {
    const admin = await reader('admin', 'data_pool:query')
    await limit(admin, ['*'], pools[1]!.poolId)
    const seen = await answers(admin)
    expect(seen['counter']).toContain('"1"')
    for (const [name, answer] of Object.entries(seen)) expect(answer, name).not.toContain(SECRETS[0])
    const none = await reader('data_pool:read')
    await limit(none, ['*'], pools[1]!.poolId)
    for (const [name, answer] of Object.entries(await answers(none)))
      expect(answer, name).not.toMatch(/secret-of/)
  })
})
