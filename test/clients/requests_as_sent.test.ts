/**
 * The requests of existing clients, header by header, to a real server. Each goes from its token to
 * a count and to its deletions. Seen from the Go client, from Terraform with the provider's webhook
 * source, and from the React kit in a page.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GO_CLIENT, TERRAFORM, UI_KIT } from '../api/graphql/documents.ts'
import { startServer, type TestServer } from '../util/server.ts'

const FORM = 'application/x-www-form-urlencoded'

// biome-ignore lint/suspicious/noExplicitAny: answers have the shape their documents ask for
type Json = any

let server: TestServer
let id = ''
let secret = ''
beforeAll(async () => {
  server = await startServer()
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as Record<string, string>
  id = admin['clientId']!
  secret = admin['clientSecret']!
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function request(path: string, headers: Record<string, string>, body: string, method = 'POST') {
  const url = path.startsWith('http') ? path : server.base + path
  const answer = await fetch(url, { method, headers, body })
  return { status: answer.status, headers: answer.headers, json: (await answer.json()) as Json }
}

const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

/** A client's GraphQL: its content type, its token, its keys of the body. */
function graphqlOf(token: string, contentType = 'application/json') {
  return async (query: string, variables: object, operationName?: string) => {
    const body = JSON.stringify({ query, variables, operationName })
    const headers = { authorization: `Bearer ${token}`, 'content-type': contentType }
    const { status, json } = await request('/graphql', headers, body)
    expect(status).toBe(200)
    return json
  }
}

const column = (name: string, type: string, nullable = true) => ({ name, type, nullable, jsonProperty: name })

describe('the Go client', () => {
  test('gets a token by Basic, makes a source, posts, deletes, counts, and removes it twice', async () => {
    const asked = { 'content-type': FORM, authorization: basic(id, secret) }
    const token = await request('/oauth2/token', asked, 'grant_type=client_credentials')
    expect([token.status, token.json.expires_in]).toEqual([200, 3600])
    const wrong = { ...asked, authorization: basic(id, 'wrong') }
    expect((await request('/oauth2/token', wrong, 'grant_type=client_credentials')).status).toBe(401)

    const graphql = graphqlOf(token.json.access_token)
    const columns = [
      column('_airbyte_raw_id', 'STRING', false),
      column('_airbyte_extracted_at', 'TIMESTAMP', false),
      column('id', 'INT64'),
      column('object', 'JSON'),
    ]
    const connectionSettings = {
      basicAuth: { username: '', password: 'pw' },
      columns,
      timestamp: '_airbyte_extracted_at',
      uniqueId: '_airbyte_raw_id',
      tableSettings: { primaryKey: [], partitionBy: [], orderBy: [] },
    }
    const input = { uniqueName: 'go_ds', description: 'Fivetran Propel destination', connectionSettings }
    const made = await graphql(GO_CLIENT.create, { input })
    const { basicAuth, webhookUrl } = made.data.createWebhookDataSource.dataSource.connectionSettings
    const source = await graphql(GO_CLIENT.source, { dataSourceUniqueName: 'go_ds' })
    expect(source.data.dataSourceByName).toEqual(made.data.createWebhookDataSource.dataSource)
    expect(Date.parse(source.data.dataSourceByName.createdAt)).toBeGreaterThan(0)
    const pool = (await graphql(GO_CLIENT.pool, { dataPoolUniqueName: 'go_ds' })).data.dataPoolByName
    expect([pool.timestamp, pool.uniqueId]).toEqual([
      { columnName: '_airbyte_extracted_at' },
      { columnName: '_airbyte_raw_id' },
    ])

    const auth = basic(basicAuth.username, basicAuth.password)
    const headers = { authorization: auth, 'content-type': 'application/json' }
    const at = Date.now()
    const events = Array.from({ length: 500 }, (_, n) => ({
      _airbyte_raw_id: String(n),
      _airbyte_extracted_at: at,
      id: n,
      object: { n },
    }))
    const posted = await request(webhookUrl, headers, JSON.stringify(events))
    expect([posted.status, posted.json.length, posted.json[499].statusCode]).toEqual([200, 500, 200])
    const deleted = await request(webhookUrl, headers, JSON.stringify(events.slice(0, 10)), 'DELETE')
    expect([deleted.status, deleted.json.length]).toEqual([200, 10])
    expect(await server.count(pool.id)).toBe('490')
    const filters = [
      { column: '_airbyte_extracted_at', operator: 'EQUALS', value: new Date(at).toISOString() },
    ]
    expect(await server.sum(pool.id, 'id', { filters })).toBe(String((499 * 500) / 2 - 45))

    for (const answer of [expect.stringMatching(/^DPO/), null])
      expect(await graphql(GO_CLIENT.deletePool, { n: 'go_ds' })).toEqual({
        data: { deleteDataPoolByName: answer },
      })
    expect((await graphql(GO_CLIENT.pool, { dataPoolUniqueName: 'go_ds' })).errors).toMatchObject([
      { message: 'Data Pool not found', extensions: { code: 'NOT_FOUND' } },
    ])
    expect((await request(webhookUrl, headers, '[]')).status).toBe(404)
    expect(await graphql(GO_CLIENT.deleteSource, { n: 'go_ds' })).toEqual({
      data: { deleteDataSourceByName: null },
    })
  })
})

describe('Terraform', () => {
  test('gets a token by form, creates with explicit nulls, reads the same again and again, deletes in its order', async () => {
    const form = new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: id,
      client_secret: secret,
    })
    const token = await request('/oauth2/token', { 'content-type': FORM }, form.toString())
    expect(token.status).toBe(200)
    const graphql = graphqlOf(token.json.access_token)
    const connectionSettings = {
      accessControlEnabled: null,
      columns: [column('id', 'STRING', false), column('ts', 'TIMESTAMP', false)],
      tenant: null,
      timestamp: 'ts',
      uniqueId: null,
    }
    const input = { connectionSettings, description: null, uniqueName: null }
    const made = await graphql(TERRAFORM.create, { input }, 'CreateWebhookDataSource')
    const source = made.data.createWebhookDataSource.dataSource
    expect(source).toMatchObject({ uniqueName: source.id, description: '', status: 'CONNECTED' })
    for (let poll = 0; poll < 3; poll++)
      expect((await graphql(TERRAFORM.source, { id: source.id }, 'DataSource')).data.dataSource).toEqual(
        source,
      )

    const poolId = source.dataPools.nodes[0].id
    const which = { idOrUniqueName: { id: poolId, uniqueName: null } }
    const modify =
      'mutation ModifyDataPool($input: modifyDataPoolInput!) { modifyDataPool(input: $input) { __typename } }'
    for (const change of [{}, { timestamp: { columnName: '' } }, { accessControlEnabled: true }]) {
      const modified = await graphql(modify, { input: { ...which, ...change } }, 'ModifyDataPool')
      expect(modified.data).toEqual({ modifyDataPool: { __typename: 'DataPoolResponse' } })
    }
    const after = (await graphql(TERRAFORM.source, { id: source.id }, 'DataSource')).data.dataSource
    expect(after.dataPools.nodes[0]).toMatchObject({
      accessControlEnabled: true,
      timestamp: { columnName: 'ts' },
    })

    expect((await graphql(TERRAFORM.deletePool, { id: poolId }, 'DeleteDataPool')).errors).toBeUndefined()
    expect((await graphql(TERRAFORM.pool, { id: poolId }, 'DataPool')).errors[0].message).toContain(
      'not found',
    )
    for (let time = 0; time < 2; time++)
      expect((await graphql(TERRAFORM.deleteSource, { id: source.id })).errors).toBeUndefined()
    expect((await graphql(TERRAFORM.source, { id: source.id })).errors[0].message).toContain('not found')
  })
})

describe('the React kit', () => {
  test('asks from a page: a preflight, its own content type, a null filterSql', async () => {
    const pool = await server.createPool({ columns: [column('amount', 'INT64')] })
    await request(
      pool.url,
      { 'content-type': 'application/json' },
      '[{"amount":1},{"amount":2},{"amount":3}]',
    )
    for (const path of ['/graphql', '/oauth2/token']) {
      const preflight = await fetch(server.base + path, {
        method: 'OPTIONS',
        headers: {
          origin: 'http://app.example',
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization,content-type',
        },
      })
      expect(preflight.status).toBe(204)
      expect(preflight.headers.get('access-control-allow-origin')).toBe('*')
      expect(preflight.headers.get('access-control-allow-headers')).toContain('authorization, content-type')
    }
    const asked = { 'content-type': FORM, authorization: basic(id, secret), origin: 'http://app.example' }
    const form = 'grant_type=client_credentials&scope=data_pool%3Aquery'
    const token = await request('/oauth2/token', asked, form)
    expect(token.headers.get('access-control-allow-origin')).toBe('*')
    const graphql = graphqlOf(token.json.access_token, 'application/graphql-response+json')
    const { data } = await graphql(UI_KIT.columns, { dataPoolId: pool.poolId })
    expect(data.dataPool.columns.nodes.at(-1)).toEqual({ columnName: 'amount', type: 'INT64' })
    const metric = { sum: { dataPool: { id: pool.poolId }, measure: { columnName: 'amount' } } }
    const filters = [{ column: 'amount', operator: 'GREATER_THAN', value: '1' }]
    for (const [more, value] of [
      [{ timeZone: 'UTC', filterSql: null }, '6'],
      [{ filterSql: '' }, '6'],
      [{ timeZone: 'Europe/Berlin', filterSql: null, filters }, '5'],
      [{ filterSql: null, timeRange: { start: '2020-01-01', stop: '2020-01-03T00:00:00.000Z' } }, null],
    ] as const)
      expect(await graphql(UI_KIT.counter, { counterInput: { metric, ...more } })).toEqual({
        data: { counter: { value } },
      })
  })
})
