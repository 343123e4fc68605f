/** Statements over HTTP: in the documents that clients send, and for readers with policies. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { STORE } from '../util/cluster-node.ts'
import { send, startServer, type TestPool, type TestServer } from '../util/server.ts'

const COLUMNS = [
  ['date', 'TIMESTAMP'],
  ['id', 'STRING'],
  ['restaurant_name', 'STRING'],
  ['price', 'DOUBLE'],
] as const
/** The React kit's. */
const UI_KIT =
  'query Sql($sqlInput: SqlV1Input!) { sqlV1(input: $sqlInput) { columns { columnName type } rows } }'
/** The fields of QueryInfo that the Grafana plugin selects. */
const GRAFANA = `query ($sqlInput: SqlV1Input!) { sqlV1(input: $sqlInput) {
  columns { columnName type isNullable } rows
  info { id bytesProcessed durationInMilliseconds recordsProcessed resultingBytes resultingRecords booster { id } type subtype status sql } } }`
const DESCRIBE =
  'query ($sqlInput: DescribeSqlV1Input!) { describeSqlV1(input: $sqlInput) { columns { columnName type isNullable } } }'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Data = any
interface Answer {
  readonly data: Data
  readonly errors?: { readonly message: string; readonly extensions: { readonly code: string } }[]
}

let server: TestServer
let tacos: TestPool
let shops: TestPool
let closed: TestPool
beforeAll(async () => {
  server = await startServer()
  const columns = COLUMNS.map(([name, type]) => ({ name, type, jsonProperty: name, nullable: name !== 'id' }))
  const spec = { columns, timestamp: 'date', uniqueId: 'id' }
  tacos = await server.createPool({ ...spec, uniqueName: 'TacoSoft Demo Data' })
  const column = (name: string) => ({ name, type: 'STRING', jsonProperty: name, nullable: true })
  const shop = { columns: ['id', 'city', 'owner'].map(column), uniqueId: 'id', accessControlEnabled: true }
  shops = await server.createPool({ ...shop, uniqueName: 'shops' })
  closed = await server.createPool({ ...shop, uniqueName: 'closed' })
  const events = Array.from({ length: 12 }, (_, i) => ({
    date: new Date(Date.UTC(2024, 2, 1 + i)).toISOString(),
    id: `t${i}`,
    restaurant_name: ['El Buen Sabor', "La O'Taqueria", null][i % 3],
    price: i / 2,
  }))
  expect((await send(tacos.url, events)).status).toBe(200)
  const owners = [
    { id: 'El Buen Sabor', city: 'Berlin', owner: 'secret-1' },
    { id: "La O'Taqueria", city: 'Paris', owner: 'secret-2' },
  ]
  for (const pool of [shops, closed]) expect((await send(pool.url, owners)).status).toBe(200)
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function ask(document: string, query: string, dialect?: string): Promise<Answer> {
  const sqlInput = { query, ...(dialect === undefined ? {} : { dialect }) }
  return (await server.graphql<Data>(document, { sqlInput })) as Answer
}

test("the React kit's hook gets columns and rows", async () => {
  const { data, errors } = await ask(UI_KIT, 'SELECT * FROM "TacoSoft Demo Data" LIMIT 5')
  expect(errors).toBeUndefined()
  expect(data.sqlV1.columns).toEqual([
    { columnName: '_service_received_at', type: 'TIMESTAMP' },
    { columnName: '_service_payload', type: 'JSON' },
    { columnName: 'date', type: 'TIMESTAMP' },
    { columnName: 'id', type: 'STRING' },
    { columnName: 'restaurant_name', type: 'STRING' },
    { columnName: 'price', type: 'DOUBLE' },
  ])
  expect(data.sqlV1.rows).toHaveLength(5)
})

test('a statement sees what was acknowledged before it, in all of its pools', async () => {
  const count = `SELECT (SELECT COUNT(*) FROM ${tacos.poolId}) AS a, COUNT(*) AS b FROM "TacoSoft Demo Data"`
  for (let i = 0; i < 5; i++) {
    expect((await send(tacos.url, { id: `more ${i}`, date: '2024-05-01' })).status).toBe(200)
    expect((await ask(UI_KIT, count)).data.sqlV1.rows).toEqual([[`${13 + i}`, `${13 + i}`]])
  }
  expect(
    (
      await send(
        tacos.url,
        Array.from({ length: 5 }, (_, i) => ({ id: `more ${i}`, date: '2024-05-01' })),
        'DELETE',
      )
    ).status,
  ).toBe(200)
  expect((await ask(UI_KIT, count)).data.sqlV1.rows).toEqual([['12', '12']])
})

test('the costs are told in the fields that Grafana selects', async () => {
  const statement = `SELECT restaurant_name AS name, COUNT(*) AS n, SUM(price) FROM "TacoSoft Demo Data"
    WHERE date >= '2024-03-02' GROUP BY 1 ORDER BY n DESC, name NULLS LAST;`
  const { data } = await ask(GRAFANA, statement)
  expect(data.sqlV1).toMatchObject({
    columns: [
      { columnName: 'name', type: 'STRING', isNullable: true },
      { columnName: 'n', type: 'INT64', isNullable: STORE === 'local' },
      { columnName: 'sum', type: 'DOUBLE', isNullable: true },
    ],
    rows: [
      ["La O'Taqueria", '4', '11'],
      [null, '4', '13'],
      ['El Buen Sabor', '3', '9'],
    ],
    info: {
      type: 'SQL',
      subtype: null,
      status: 'COMPLETED',
      // A cluster tells what its servers read.
      recordsProcessed: STORE === 'local' ? '12' : expect.any(String),
      resultingRecords: 3,
      booster: null,
    },
  })
})

test('the SQL that ran is told with its tables, and without values', async () => {
  const statement =
    'WITH a AS (SELECT id FROM "TacoSoft Demo Data" WHERE price > 5.25) SELECT COUNT(*) AS "n" FROM a'
  expect((await ask(GRAFANA, statement)).data.sqlV1).toMatchObject({
    rows: [['1']],
    info: {
      sql:
        STORE === 'local'
          ? 'WITH a AS (SELECT id FROM "TacoSoft Demo Data" WHERE price > ?) SELECT COUNT(*) AS "n" FROM a'
          : 'WITH _service_q1 AS NOT MATERIALIZED (SELECT _service_s1."id" AS "_service_c1" FROM rows AS _service_s1 WHERE (_service_s1."price" > $1)) SELECT COUNT(*) AS "n" FROM _service_q1 AS _service_s2',
    },
  })
})

test('columns are described without an answer', async () => {
  const { data } = await ask(
    DESCRIBE,
    'SELECT toStartOfDay(`date`) AS d, count() AS n FROM `TacoSoft Demo Data` GROUP BY d',
    'CLICKHOUSE',
  )
  expect(data.describeSqlV1.columns).toEqual([
    { columnName: 'd', type: 'TIMESTAMP', isNullable: true },
    { columnName: 'n', type: 'INT64', isNullable: STORE === 'local' },
  ])
  expect((await ask(DESCRIBE, 'SELECT x FROM "TacoSoft Demo Data"')).errors?.[0]?.message).toBe(
    `there is no column "x"; a text is in single quotes: 'x'${STORE === 'local' ? ' (line 1, column 8)' : ''}`,
  )
})

describe('a reader', () => {
  let reader: { readonly id: string; readonly secret: string }
  beforeAll(async () => {
    const made = await server.graphql<Data>(
      'mutation { createApplication(input: { uniqueName: "reader" }) { ... on ApplicationResponse { application { id secret } } } }',
    )
    reader = made.data.createApplication.application
    const policy = await server.graphql<Data>(
      'mutation ($input: CreateDataPoolAccessPolicyInput!) { createDataPoolAccessPolicy(input: $input) { dataPoolAccessPolicy { id } } }',
      { input: { dataPool: shops.poolId, columns: ['id', 'city'], filterSql: `city = \${{ city }}` } },
    )
    const { id } = policy.data.createDataPoolAccessPolicy.dataPoolAccessPolicy
    const assigned = await server.graphql(
      `mutation { assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${id}", application: "${reader.id}") }`,
    )
    expect(assigned.errors).toBeUndefined()
  })

  async function asReader(query: string, values?: object, scope?: string): Promise<string> {
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: reader.id,
      client_secret: reader.secret,
      ...(values === undefined ? {} : { policy_values: JSON.stringify(values) }),
      ...(scope === undefined ? {} : { scope }),
    })
    const token = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body: form })
    const { access_token } = (await token.json()) as { access_token: string }
    const answer = await fetch(`${server.base}/graphql`, {
      method: 'POST',
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: GRAFANA, variables: { sqlInput: { query } } }),
    })
    const { data, errors } = (await answer.json()) as Answer
    if (errors !== undefined) return `${errors[0]?.extensions.code}: ${errors[0]?.message}`
    const { rows, info } = data.sqlV1
    return `${JSON.stringify(rows)} of ${info.recordsProcessed}`
  }

  test('sees the rows and columns of its policy in a join', async () => {
    const join = `SELECT s.*, COUNT(*) AS n FROM "TacoSoft Demo Data" t JOIN shops s ON t.restaurant_name = s.id GROUP BY s.id, s.city`
    expect(await asReader(join, { city: 'Berlin' })).toBe('[["El Buen Sabor","Berlin","4"]] of 0')
    expect(await asReader(join, { city: "' OR true --" })).toBe('[] of 0')
    expect(await asReader('SELECT owner FROM shops', { city: 'Berlin' })).toBe(
      `BAD_REQUEST: there is no column "owner"; a text is in single quotes: 'owner'${STORE === 'local' ? ' (line 1, column 8)' : ''}`,
    )
    expect(await asReader('SELECT COUNT(*) FROM shops')).toMatch(/^FORBIDDEN: .*no policy value "city"/)
  })

  test('cannot tell a pool that it may not read from one that does not exist', async () => {
    const values = { city: 'Berlin' }
    for (const statement of [
      'SELECT * FROM $',
      'SELECT * FROM shops WHERE id IN (SELECT id FROM $)',
      'WITH a AS (SELECT nothing FROM $) SELECT * FROM a',
    ]) {
      const existing = await asReader(statement.replace('$', 'closed'), values)
      expect(existing).toBe('NOT_FOUND: Data Pool "closed" not found')
      expect(await asReader(statement.replace('$', 'absent'), values)).toBe(
        existing.replace('closed', 'absent'),
      )
    }
    expect(await asReader(`SELECT * FROM ${closed.poolId}`, values)).toMatch(/^NOT_FOUND: /)
  })

  test('needs the scope of queries before it learns of a pool', async () => {
    for (const name of ['shops', 'absent'])
      expect(await asReader(`SELECT * FROM ${name}`, undefined, 'metric:query')).toMatch(
        /^FORBIDDEN: .*lacks the "data-pool:query" scope|^FORBIDDEN: .*lacks/,
      )
  })
})

test('a statement that is refused leaves the server well', async () => {
  for (const statement of ["COPY rows TO '/tmp/x'", "SELECT * FROM read_text('/etc/passwd')", ''])
    expect((await ask(UI_KIT, statement)).errors?.[0]?.extensions.code).toBe('BAD_REQUEST')
  expect((await ask(UI_KIT, 'SELECT COUNT(*) FROM "TacoSoft Demo Data"')).data.sqlV1.rows).toEqual([['12']])
})
