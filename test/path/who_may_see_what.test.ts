/** Other users of the machine, the network, and tokens without a scope learn nothing. */
import { lstatSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../api/client.ts'
import { fetchToken, startServer, type TestServer, temporaryFolder } from '../util/server.ts'
import { column, post } from './client.ts'

/** Files and folders that the group or others may read, write or enter. */
function openToOthers(folder: string): string[] {
  const names = ['.', ...(readdirSync(folder, { recursive: true }) as string[])]
  return names.filter(name => {
    const path = join(folder, name)
    return !lstatSync(path).isSymbolicLink() && (statSync(path).mode & 0o077) !== 0
  })
}

let server: TestServer
const umaskBefore = process.umask(0)
beforeAll(async () => {
  server = await startServer()
})
afterAll(async () => {
  process.umask(umaskBefore)
  expect((await server.stop()).code).toBe(0)
})

test('files of the data folder, and of a backup, belong to their user alone', async () => {
  const pool = await server.createPool({
    uniqueName: 'private',
    columns: [column('id', 'STRING')],
    uniqueId: 'id',
  })
  for (let round = 0; round < 3; round += 1) {
    expect((await post(server, pool, [{ id: `${round}` }, { id: 'same' }])).status).toBe(200)
    expect(Number(await server.count(pool.poolId))).toBeGreaterThan(0)
  }
  const authorization = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const arrow = await fetch(`${server.base}/v1/pools/private/arrow`, { headers: { authorization } })
  expect((await arrow.arrayBuffer()).byteLength).toBeGreaterThan(0)
  const folder = join(temporaryFolder(), 'deep', 'backup')
  const backup = await fetch(`${server.base}/v1/admin/backup`, {
    method: 'POST',
    headers: { authorization },
    body: JSON.stringify({ folder }),
  })
  expect((await backup.text()).trim().split('\n').at(-1)).toMatch(/"done":true/)
  expect(readdirSync(join(server.dataDir, 'catalog'))).toContain('data.mdb')
  expect(openToOthers(server.dataDir)).toEqual([])
  expect(openToOthers(folder)).toEqual([])
})

test('a token without scope learns nothing of which pools there are', async () => {
  await server.createPool({ uniqueName: 'hidden', columns: [column('id', 'STRING')] })
  const token = await fetchToken(server.base, server.dataDir, 'metric:read')
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const answers = async (name: string) => {
    const arrow = await fetch(`${server.base}/v1/pools/${name}/arrow`, { headers })
    const input = JSON.stringify({ metric: { count: { dataPool: { name } } } }).replaceAll(/"(\w+)":/g, '$1:')
    const byName = [
      `{ counter(input: ${input}) { value } }`,
      `{ dataPool(id: "${name}") { id } }`,
      `{ dataPoolByName(uniqueName: "${name}") { id columns { nodes { columnName } } } }`,
      `{ dataSourceByName(uniqueName: "${name}") { id } }`,
      `mutation { deleteDataPoolByName(uniqueName: "${name}") }`,
      `mutation { modifyDataPool(input: { idOrUniqueName: { uniqueName: "${name}" }, description: "x" }) { ... on DataPoolResponse { dataPool { id } } } }`,
    ]
    const graphql = byName.map(async query => {
      const answer = await fetch(`${server.base}/graphql`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ query }),
      })
      return answer.text()
    })
    const all = [String(arrow.status), await arrow.text(), ...(await Promise.all(graphql))]
    return all.map(text => text.replaceAll(name, 'NAME'))
  }
  const [known, unknown] = [await answers('hidden'), await answers('absent')]
  expect(known).toEqual(unknown)
  expect(known[0]).toBe('403')
  for (const text of known.slice(2)) expect(text).toMatch(/FORBIDDEN/)
})

test('/metrics is open on loopback, takes its token alone where there is one, and is closed elsewhere', async () => {
  const get = (base: string, authorization?: string) =>
    ask(Number(new URL(base).port), '/metrics', {
      method: 'GET',
      headers: authorization === undefined ? {} : { authorization },
    })
  expect((await get(server.base)).status).toBe(200)

  const token = 'a-token-of-the-metrics'
  const withToken = await startServer({ env: { WEIR_METRICS_TOKEN: token } })
  for (const wrong of [undefined, 'Bearer', `Bearer ${token}x`, `Basic ${btoa(`:${token}`)}`]) {
    const { status, headers, json } = await get(withToken.base, wrong)
    expect([wrong, status, json.code]).toEqual([wrong, 401, 'metrics_token'])
    expect(headers['www-authenticate']).toMatch(/^Bearer/)
  }
  const { status, text } = await get(withToken.base, `Bearer ${token}`)
  expect([status, text.includes('weir_')]).toEqual([200, true])
  expect((await withToken.stop()).output).not.toContain(token)

  const open = await startServer({ args: ['--host', '0.0.0.0'] })
  const refused = await get(open.base)
  expect([refused.status, refused.json.code]).toEqual([403, 'metrics_closed'])
  expect(refused.json.detail).toMatch(/WEIR_METRICS_TOKEN/)
  expect((await fetch(`${open.base}/livez`)).status).toBe(200)
  await open.stop()
})

interface Asked {
  readonly data: Record<string, unknown> | null
  readonly errors?: readonly { readonly extensions: { readonly code: string } }[]
}

/** Makes an application and returns what asks as it. */
async function application(uniqueName: string, scopes: readonly string[]) {
  const made = await server.graphql<{ createApplication: { application: { id: string; secret: string } } }>(
    `mutation ($input: createApplicationInput!) {
      createApplication(input: $input) { ... on ApplicationResponse { application { id secret } } }
    }`,
    { input: { uniqueName, scopes } },
  )
  const { id, secret } = made.data.createApplication.application
  const authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
  return async (query: string): Promise<Asked> => {
    const headers = { authorization, 'content-type': 'application/json' }
    const body = JSON.stringify({ query })
    return (await fetch(`${server.base}/graphql`, { method: 'POST', headers, body })).json() as Promise<Asked>
  }
}

test('the size of a pool with access control is for those who manage it', async () => {
  const columns = [column('id', 'STRING')]
  const closed = { uniqueName: 'closed_size', columns, accessControlEnabled: true }
  const pools = [
    await server.createPool(closed),
    await server.createPool({ uniqueName: 'open_size', columns }),
  ]
  for (const pool of pools) {
    expect((await post(server, pool, [{ id: 'a' }, { id: 'b' }])).status).toBe(200)
    await server.graphql(
      `{ counter(input: {metric: {count: {dataPool: {id: "${pool.poolId}"}}}}) { value } }`,
    )
  }
  const reader = await application('size reader', ['DATA_POOL_QUERY', 'DATA_POOL_READ', 'METRIC_QUERY'])
  const sizeOf = (name: string) => `{ dataPoolByName(uniqueName: "${name}") { recordCount sizeInTerabytes } }`
  expect((await reader(sizeOf('closed_size'))).data?.['dataPoolByName']).toEqual({
    recordCount: null,
    sizeInTerabytes: null,
  })
  expect((await reader(sizeOf('open_size'))).data?.['dataPoolByName']).not.toMatchObject({
    recordCount: null,
  })
  const manager = await application('size manager', ['ADMIN'])
  expect((await manager(sizeOf('closed_size'))).data?.['dataPoolByName']).not.toMatchObject({
    recordCount: null,
  })
})

test('an application that a change of its own request deletes makes no further change', async () => {
  const gone = await application('goes', ['APPLICATION_ADMIN'])
  const { data, errors } = await gone(`mutation {
    first: deleteApplicationByName(uniqueName: "goes")
    then: createApplication(input: {uniqueName: "stays"}) { __typename }
  }`)
  expect([typeof data?.['first'], data?.['then'], errors?.[0]?.extensions.code]).toEqual([
    'string',
    null,
    'UNAUTHENTICATED',
  ])
  const { data: after } = await server.graphql<Record<string, unknown>>(
    '{ applicationByName(uniqueName: "stays") { id } }',
  )
  expect(after).not.toMatchObject({ applicationByName: { id: expect.anything() } })
})

test('a change that takes a scope from its own application ends it for the rest of the request', async () => {
  const less = await application('less', ['APPLICATION_ADMIN', 'ADMIN'])
  const { errors } = await less(`mutation {
    first: modifyApplication(input: {idOrUniqueName: {uniqueName: "less"}, scopes: [METRIC_READ]}) { __typename }
    then: createWebhookDataSource(input: {uniqueName: "stays too", connectionSettings: {}}) { __typename }
  }`)
  expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['FORBIDDEN'])
})
