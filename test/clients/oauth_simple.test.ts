/** Tokens as simple-oauth2 gets them, the OAuth library of the documented JavaScript snippets. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClientCredentials, type ModuleOptions } from 'simple-oauth2'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeLeftovers, startServer, type TestServer } from '../util/server.ts'

let server: TestServer
let client: { readonly id: string; readonly secret: string }
beforeAll(async () => {
  server = await startServer()
  const admin = JSON.parse(readFileSync(join(server.dataDir, 'admin.json'), 'utf8')) as {
    readonly clientId: string
    readonly clientSecret: string
  }
  client = { id: admin.clientId, secret: admin.clientSecret }
})
afterAll(removeLeftovers)

function clientOf(options: ModuleOptions['options'], given = client): ClientCredentials {
  return new ClientCredentials({
    client: given,
    auth: { tokenHost: server.base, tokenPath: '/oauth2/token' },
    ...(options === undefined ? {} : { options }),
  })
}

async function graphql(token: unknown, query: string) {
  const answer = await fetch(`${server.base}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${String(token)}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query }),
  })
  return {
    status: answer.status,
    body: (await answer.json()) as { errors?: readonly { extensions?: { code?: string } }[] },
  }
}

const claimsOf = (token: unknown) =>
  JSON.parse(Buffer.from(String(token).split('.')[1]!, 'base64url').toString()) as Record<string, unknown>

test.each([
  ['by HTTP Basic, its default', undefined],
  ['by HTTP Basic, credentials as they are', { credentialsEncodingMode: 'loose' as const }],
  ['in the form', { authorizationMethod: 'body' as const }],
])('a token is given %s', async (_, options) => {
  const given = await clientOf(options).getToken({})
  expect(given.token).toMatchObject({ token_type: 'Bearer', expires_in: 3600 })
  expect(given.expired()).toBe(false)
  expect(given.expired(3601)).toBe(true)
  const { status, body } = await graphql(given.token['access_token'], '{ dataPools { nodes { id } } }')
  expect([status, body.errors]).toEqual([200, undefined])
})

test('a token has the scopes and the policy values that were asked for', async () => {
  const asked = { scope: ['metric:query', 'data_pool:query'], policy_values: '{"tenant_id":"123"}' }
  const { token } = await clientOf(undefined).getToken(asked)
  expect(token['scope']).toBe('metric:query data_pool:query')
  expect(claimsOf(token['access_token'])['policy_values']).toEqual({ tenant_id: '123' })
  const { status, body } = await graphql(token['access_token'], 'mutation { deleteDataPool(id: "DPO1") }')
  expect([status, body.errors?.[0]?.extensions?.code]).toEqual([200, 'FORBIDDEN'])
})

test('a refusal has the error of RFC 6749', async () => {
  const refused = (given: Promise<unknown>) =>
    given.then(
      () => undefined,
      (error: { output?: { statusCode?: number }; data?: { payload?: { error?: string } } }) => [
        error.output?.statusCode,
        error.data?.payload?.error,
      ],
    )
  const wrong = { id: client.id, secret: `${client.secret}x` }
  expect(await refused(clientOf(undefined, wrong).getToken({}))).toEqual([401, 'invalid_client'])
  expect(await refused(clientOf({ authorizationMethod: 'body' }, wrong).getToken({}))).toEqual([
    401,
    'invalid_client',
  ])
  expect(await refused(clientOf(undefined).getToken({ scope: 'root' }))).toEqual([400, 'invalid_scope'])
  expect(await refused(clientOf(undefined).getToken({ policy_values: '[]' }))).toEqual([
    400,
    'invalid_request',
  ])
})
