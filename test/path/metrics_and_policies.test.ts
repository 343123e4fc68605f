/**
 * Predefined metrics, SQL of users, relative time and access policies over HTTP: made by the
 * management API, asked by an application with tokens of its own, by GraphQL and by the Arrow
 * route.
 */
import { tableFromIPC } from 'apache-arrow'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { send, startServer, type TestPool, type TestServer } from '../util/server.ts'

const COLUMNS = [
  ['ts', 'TIMESTAMP'],
  ['id', 'STRING'],
  ['tenant', 'STRING'],
  ['amount', 'INT64'],
  ['secret', 'STRING'],
] as const
const DAY = 86_400_000

interface Answer {
  readonly data: Record<string, never> | null
  readonly errors?: { readonly message: string; readonly extensions: { readonly code: string } }[]
}

let server: TestServer
let open: TestPool
let closed: TestPool
let reader: { readonly id: string; readonly secret: string }

beforeAll(async () => {
  server = await startServer()
  const columns = COLUMNS.map(([name, type]) => ({ name, type, jsonProperty: name, nullable: true }))
  const spec = { columns, timestamp: 'ts', uniqueId: 'id', tenant: 'tenant' }
  open = await server.createPool({ ...spec, uniqueName: 'open' })
  closed = await server.createPool({ ...spec, uniqueName: 'closed', accessControlEnabled: true })
  const events = Array.from({ length: 20 }, (_, i) => ({
    ts: new Date(Date.now() - i * DAY).toISOString(),
    id: `k${i}`,
    tenant: i % 2 === 0 ? 'a' : "b' OR 1=1 --",
    amount: i,
    secret: `s${i}`,
  }))
  for (const pool of [open, closed]) expect((await send(pool.url, events)).status).toBe(200)
  const made = await change<{ createApplication: { application: typeof reader } }>(
    `mutation { createApplication(input: {uniqueName: "reader"}) { ... on ApplicationResponse { application { id secret } } } }`,
  )
  reader = made.createApplication.application
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function change<T>(document: string, variables?: object): Promise<T> {
  const { data, errors } = await server.graphql<T>(document, variables)
  expect(errors).toBeUndefined()
  return data
}

async function tokenOf(policyValues?: object, scope?: string): Promise<string> {
  const form = new URLSearchParams({
    grant_type: 'client_credentials',
    client_id: reader.id,
    client_secret: reader.secret,
    ...(policyValues === undefined ? {} : { policy_values: JSON.stringify(policyValues) }),
    ...(scope === undefined ? {} : { scope }),
  })
  const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body: form })
  expect(answer.status).toBe(200)
  return ((await answer.json()) as { access_token: string }).access_token
}

async function ask(token: string, query: string, variables?: object): Promise<Answer> {
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  })
  return (await answer.json()) as Answer
}

const COUNTER =
  'query ($input: CounterInput!) { counter(input: $input) { value query { recordsProcessed } } }'

/** The value, or the code and message of the refusal. */
async function counter(token: string, input: object): Promise<string | null> {
  const { data, errors } = await ask(token, COUNTER, { input })
  if (errors !== undefined) return `${errors[0]?.extensions.code}: ${errors[0]?.message}`
  return (data as unknown as { counter: { value: string | null } }).counter.value
}

interface Statistics {
  readonly columnName: string
  readonly stats: object | null
}

/** A metric of the least amount, and what the statistics of `names` are for the token. */
async function statistics(token: string, pool: TestPool, names: readonly string[], filters: object = {}) {
  const { createMinMetric } = await change<{ createMinMetric: { metric: { id: string } } }>(
    `mutation ($input: CreateMinMetricInput) { createMinMetric(input: $input) { metric { id } } }`,
    {
      input: {
        dataPool: pool.poolId,
        measure: { columnName: 'amount' },
        dimensions: names.map(columnName => ({ columnName })),
        ...filters,
      },
    },
  )
  const { data, errors } = await ask(
    token,
    `{ metric(id: "${createMinMetric.metric.id}") { dimensions { columnName stats { min max average uniqueValues(limit: 3) query { type } } } } }`,
  )
  const metric = data?.['metric'] as unknown as { readonly dimensions: readonly Statistics[] }
  return { dimensions: metric.dimensions, errors }
}

const countOf = (pool: TestPool) => ({ metric: { count: { dataPool: { id: pool.poolId } } } })

describe('metrics', () => {
  test("'s statistics are those of the rows that its own filters leave", async () => {
    const filters = [{ column: 'amount', operator: 'GREATER_THAN', value: '3' }]
    const { dimensions } = await statistics(await tokenOf(), open, ['amount', 'tenant'], {
      filters,
      filterSql: "tenant = 'a'",
    })
    expect(dimensions.map(({ stats }) => stats)).toEqual([
      { min: '4', max: '18', average: '11', uniqueValues: ['4', '6', '8'], query: { type: 'STATS' } },
      { min: 'a', max: 'a', average: null, uniqueValues: ['a'], query: { type: 'STATS' } },
    ])
  })

  test('of every type are answered by id, by name and inline, with filters of both', async () => {
    const token = await tokenOf()
    const dataPool = { id: open.poolId }
    const measure = { columnName: 'amount' }
    const inline: readonly (readonly [object, string])[] = [
      [{ count: { dataPool } }, '20'],
      [{ sum: { dataPool, measure } }, '190'],
      [{ average: { dataPool, measure } }, '9.5'],
      [{ min: { dataPool, measure } }, '0'],
      [{ max: { dataPool, measure } }, '19'],
      [{ countDistinct: { dataPool, dimension: { columnName: 'tenant' } } }, '2'],
      [{ custom: { dataPool, expression: 'SUM(amount) / COUNT_DISTINCT(tenant)' } }, '95'],
    ]
    for (const [metric, value] of inline) {
      expect([metric, await counter(token, { metric })]).toEqual([metric, value])
      const none = await counter(token, { metric, filterSql: "tenant = 'nobody'" })
      const isCount = 'count' in metric || 'countDistinct' in metric
      expect([metric, none]).toEqual([metric, isCount ? '0' : null])
    }
    const { createSumMetric } = await change<{ createSumMetric: { metric: { id: string } } }>(
      `mutation ($input: CreateSumMetricInput) { createSumMetric(input: $input) { metric { id } } }`,
      {
        input: {
          dataPool: open.poolId,
          uniqueName: 'revenue',
          measure,
          filters: [{ column: 'tenant', operator: 'EQUALS', value: 'a' }],
          filterSql: 'amount < 10 OR amount = 18',
        },
      },
    )
    const { id } = createSumMetric.metric
    const forms = [
      { metricId: id },
      { metricName: 'revenue' },
      { metricName: id },
      { metric: { id } },
      { metric: { name: 'revenue' } },
    ]
    for (const form of forms) expect(await counter(token, form)).toBe('38')
    expect(await counter(token, { ...forms[0], filterSql: 'amount > 4 OR amount < 0' })).toBe('32')
    expect(
      await counter(token, { ...forms[0], filters: [{ column: 'amount', operator: 'EQUALS', value: '18' }] }),
    ).toBe('18')
    const inlineOnly = await tokenOf(undefined, 'data_pool:query')
    const metricsOnly = await tokenOf(undefined, 'metric:query')
    expect(await counter(inlineOnly, { metricId: id })).toMatch(/^FORBIDDEN: .*metric/)
    expect(await counter(metricsOnly, { metricId: id })).toBe('38')
    expect(await counter(metricsOnly, countOf(open))).toMatch(/^FORBIDDEN: /)
  })

  test('are refused when they are made, where a text does not fit', async () => {
    const make = async (input: object) =>
      (
        await server.graphql(
          'mutation ($input: CreateCustomMetricInput) { createCustomMetric(input: $input) { metric { id } } }',
          { input: { dataPool: open.poolId, ...input } },
        )
      ).errors?.[0]?.message
    expect(await make({ expression: 'COUNT_DISTINCT(tenant) / COUNT()' })).toBeUndefined()
    expect(await make({ expression: 'SUM(nothing)' })).toBe(
      `expression: there is no column "nothing"; a text is in single quotes: 'nothing'`,
    )
    expect(await make({ expression: 'COUNT()', filterSql: '1; DROP TABLE rows' })).toMatch(/^filterSql: /)
    const { data } = await server.graphql<{ dataPool: Record<string, object> }>(
      `{ dataPool(id: "${open.poolId}") { good: validateExpression(expression: "SUM(amount)") { valid reason }
           bad: validateExpression(expression: "amount") { valid reason } } }`,
    )
    expect(data.dataPool).toEqual({
      good: { valid: true, reason: null },
      bad: { valid: false, reason: expect.stringMatching(/outside of an aggregate/) },
    })
  })

  test('are asked in relative ranges', async () => {
    const token = await tokenOf()
    const count = (timeRange: object, timeZone = 'UTC') =>
      counter(token, { ...countOf(open), timeRange, timeZone })
    expect(await count({ relative: 'LAST_N_DAYS', n: 3, start: '0001-01-01T00:00:00Z' })).toBe('3')
    expect(await count({ relative: 'LAST_7_DAYS' }, 'UTC')).toBe('7')
    expect(await count({ relative: 'NEXT_YEAR' })).toBe('0')
    expect(await count({ relative: 'LAST_N_DAYS' })).toMatch(/^BAD_REQUEST: timeRange.n/)
    expect(await count({ relative: 'LAST_N_YEARS', n: 2_147_483_647 })).toBe('20')
    for (const zone of ['Asia/Kathmandu', 'Pacific/Apia', 'America/New_York'])
      expect(Number(await count({ relative: 'LAST_N_DAYS', n: 5 }, zone))).toBeGreaterThanOrEqual(4)
  })
})

describe('a pool with access control', () => {
  const placeholder = '${' + '{ tenant }}'

  async function assign(input: object): Promise<string> {
    const { createDataPoolAccessPolicy } = await change<{
      createDataPoolAccessPolicy: { dataPoolAccessPolicy: { id: string } }
    }>(
      `mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) {
         dataPoolAccessPolicy { id } } }`,
      { input: { dataPool: closed.poolId, ...input } },
    )
    const { id } = createDataPoolAccessPolicy.dataPoolAccessPolicy
    await change(
      `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${id}", application: "${reader.id}") }`,
    )
    return id
  }

  async function arrow(
    token: string,
    query = '',
  ): Promise<{ status: number; names: string[]; rows: unknown[] }> {
    const answer = await fetch(`${server.base}/v1/pools/closed/arrow${query}`, {
      headers: { authorization: `Bearer ${token}` },
    })
    if (answer.status !== 200) return { status: answer.status, names: [], rows: [] }
    const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()))
    return {
      status: 200,
      names: table.schema.fields.map(({ name }) => name),
      rows: table.toArray().map(row => row.toJSON()),
    }
  }

  test('shows nothing to an application without a policy, the first one included', async () => {
    const token = await tokenOf({ tenant: 'a' })
    expect(await counter(token, countOf(closed))).toMatch(
      /^FORBIDDEN: .*no Data Pool Access Policy is assigned/,
    )
    expect((await arrow(token)).status).toBe(403)
    await expect(server.count(closed.poolId)).rejects.toThrow(/no Data Pool Access Policy/)
  })

  test('shows the rows and columns of the policy in every path', async () => {
    await assign({ columns: ['ts', 'id', 'amount'], filterSql: `tenant = ${placeholder}` })
    const [a, b, none] = await Promise.all([
      tokenOf({ tenant: 'a' }),
      tokenOf({ tenant: "b' OR 1=1 --" }),
      tokenOf(),
    ])
    const sum = { metric: { sum: { dataPool: { id: closed.poolId }, measure: { columnName: 'amount' } } } }
    expect([await counter(a, countOf(closed)), await counter(a, sum)]).toEqual(['10', '90'])
    expect([await counter(b, countOf(closed)), await counter(b, sum)]).toEqual(['10', '100'])
    expect(await counter(none, countOf(closed))).toMatch(/^FORBIDDEN: .*"tenant"/)
    expect((await arrow(none)).status).toBe(403)
    expect(await counter(a, { ...countOf(closed), filterSql: 'true OR true' })).toBe('10')
    for (const [input, column] of [
      [{ filterSql: "secret = 's1'" }, 'secret'],
      [{ filterSql: "tenant = 'a'" }, 'tenant'],
      [{ filters: [{ column: 'secret', operator: 'IS_NOT_NULL' }] }, 'secret'],
      [{ metric: { max: { dataPool: { id: closed.poolId }, measure: { columnName: 'secret' } } } }, 'secret'],
      [{ metric: { custom: { dataPool: { id: closed.poolId }, expression: 'MAX(secret)' } } }, 'secret'],
      [{ timeRange: { timestamp: '_service_received_at', start: '2020-01-01' } }, '_service_received_at'],
    ] as const)
      expect(await counter(a, { ...countOf(closed), ...input })).toMatch(
        new RegExp(
          `^BAD_REQUEST: .*there is no column "${column}"(; a text is in single quotes: '${column}')?$`,
        ),
      )
    const all = await arrow(a)
    expect(all.names).toEqual(['ts', 'id', 'amount'])
    expect(all.rows).toHaveLength(10)
    expect((await arrow(b)).rows).toHaveLength(10)
    expect((await arrow(a, '?columns=id,secret')).status).toBe(400)
    expect((await arrow(a, '?columns=id')).rows).toHaveLength(10)
    const { data } = await ask(a, COUNTER, { input: countOf(closed) })
    expect(data).toMatchObject({ counter: { query: { recordsProcessed: '0' } } })
  })

  test('is limited by the newest policy, and by none after access control ends', async () => {
    await assign({
      columns: ['*'],
      rows: [{ column: 'tenant', operator: 'EQUALS', value: `'${placeholder}'` }],
    })
    const token = await tokenOf({ tenant: 'a' })
    expect(await counter(token, { ...countOf(closed), filterSql: "secret <> '' AND tenant LIKE '%'" })).toBe(
      '10',
    )
    const { errors } = await server.graphql(
      `mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { id } } }`,
      { input: { dataPool: closed.poolId, columns: ['*'], filterSql: `tenant LIKE '%${placeholder}%'` } },
    )
    expect(errors?.[0]?.extensions?.code).toBe('BAD_REQUEST')
    await change(
      `mutation { modifyDataPool(input: {idOrUniqueName: {id: "${closed.poolId}"}, accessControlEnabled: false}) { __typename } }`,
    )
    expect(await counter(token, countOf(closed))).toBe('20')
    await change(
      `mutation { modifyDataPool(input: {idOrUniqueName: {id: "${closed.poolId}"}, accessControlEnabled: true}) { __typename } }`,
    )
    expect(await counter(token, countOf(closed))).toBe('10')
  })

  test('says of a range in time that the timestamp is hidden, in the words of the route', async () => {
    await assign({ columns: ['amount'] })
    for (const side of ['start', 'stop']) {
      const answer = await fetch(`${server.base}/v1/pools/closed/arrow?${side}=2024-01-01`, {
        headers: { authorization: `Bearer ${await tokenOf()}` },
      })
      expect(await answer.json()).toMatchObject({
        status: 400,
        detail:
          'start and stop: the application may read no primary timestamp; give filters on another column',
      })
    }
  })

  test('shows the statistics of what is visible', async () => {
    await assign({ columns: ['amount'], filterSql: `tenant = ${placeholder}` })
    const token = await tokenOf({ tenant: 'a' })
    const { dimensions, errors } = await statistics(token, closed, ['amount', 'secret'])
    const [amount, secret] = dimensions
    expect(amount).toEqual({
      columnName: 'amount',
      stats: { min: '0', max: '18', average: '9', uniqueValues: ['0', '2', '4'], query: { type: 'STATS' } },
    })
    expect(secret).toEqual({ columnName: 'secret', stats: null })
    expect(errors?.every(({ message }) => message === 'there is no column "secret"')).toBe(true)
    const filters = [{ column: 'amount', operator: 'GREATER_THAN', value: '3' }]
    const some = await statistics(token, closed, ['amount'], { filters, filterSql: 'amount < 9' })
    expect(some.dimensions[0]?.stats).toEqual({
      min: '4',
      max: '8',
      average: '6',
      uniqueValues: ['4', '6', '8'],
      query: { type: 'STATS' },
    })
    // A reader who may not see a column of the metric's own condition gets no statistics of it.
    const hidden = await statistics(token, closed, ['amount'], { filterSql: "secret = 's4'" })
    expect(hidden.dimensions[0]?.stats).toBe(null)
    expect(hidden.errors?.[0]?.extensions.code).toBe('BAD_REQUEST')
  })
})
