/**
 * An application that is deleted, or whose secret or token is replaced, stops at once: its queries
 * that wait are refused, its Arrow streams break off, and the changes of its request end. So do
 * questions and streams when what the application sees of the pool changes.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { weir } from '../tools/folder.ts'
import { fetchToken, removeLeftovers, send, startServer, type TestServer } from '../util/server.ts'
import { column } from './client.ts'

afterAll(removeLeftovers)

const QUERIES = 150
const EVENTS = 10_000
/** 20 MB in all: more than sockets and buffers hold. */
const EVENT_BYTES = 2_000

/** A text that Parquet does not make shorter. */
function padOf(n: number): string {
  const outputLength = (EVENT_BYTES * 3) / 4
  return createHash('shake256', { outputLength }).update(String(n)).digest('base64')
}

interface Made {
  readonly id: string
  readonly secret: string
  readonly authorization: string
}

let server: TestServer
let administrator: string
/** The id of the pool of this name. */
let large: string

beforeAll(async () => {
  server = await startServer()
  administrator = `Bearer ${await fetchToken(server.base, server.dataDir)}`
  const pool = await server.createPool({ uniqueName: 'large', columns: [column('n', 'INT64')] })
  large = pool.poolId
  for (let from = 0; from < EVENTS; from += 500) {
    const events = Array.from({ length: 500 }, (_, n) => ({ n: from + n, pad: padOf(from + n) }))
    expect((await send(pool.url, events)).status).toBe(200)
  }
  expect(await server.count(pool.poolId)).toBe(String(EVENTS))
})
afterAll(async () => {
  expect((await server.stop()).code).toBe(0)
})

async function manage<T>(path: string, body: object): Promise<T> {
  const headers = { authorization: administrator }
  const answer = await fetch(`${server.base}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  expect(answer.status).toBe(200)
  return (await answer.json()) as T
}

/** A new application, with HTTP Basic or with a token. */
async function application(name: string, scopes: readonly string[], by: 'basic' | 'token'): Promise<Made> {
  const create = { action: 'create', application: name, scopes }
  const [made] = await manage<Omit<Made, 'authorization'>[]>('/v1/admin/applications', create)
  const { id, secret } = made!
  const basic = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`
  if (by === 'basic') return { id, secret, authorization: basic }
  const body = new URLSearchParams({ grant_type: 'client_credentials', client_id: id, client_secret: secret })
  const answer = await fetch(`${server.base}/oauth2/token`, { method: 'POST', body })
  const { access_token } = (await answer.json()) as { readonly access_token: string }
  return { id, secret, authorization: `Bearer ${access_token}` }
}

/** The ways in which access ends, and what a caller uses until then. */
const ENDS = [
  [
    'its deletion',
    'basic',
    'a',
    (id: string) => manage('/v1/admin/applications', { action: 'delete', application: id }),
  ],
  [
    'a new secret',
    'token',
    'b',
    (id: string) => manage('/v1/admin/applications', { action: 'rotate', application: id }),
  ],
  [
    'a new secret',
    'basic',
    'c',
    (id: string) => manage('/v1/admin/applications', { action: 'rotate', application: id }),
  ],
  [
    'a new signing key',
    'token',
    'd',
    async () => {
      await manage('/v1/admin/keys', { action: 'rotate', endTokens: true })
      administrator = `Bearer ${await fetchToken(server.base, server.dataDir)}`
    },
  ],
] as const

interface Asked {
  readonly data: Readonly<Record<string, unknown>> | null
  readonly errors?: readonly {
    readonly path: readonly string[]
    readonly extensions: { readonly code: string }
  }[]
}

async function graphql(authorization: string, query: string): Promise<{ status: number; body: Asked }> {
  const headers = { authorization, 'content-type': 'application/json' }
  const body = JSON.stringify({ query })
  const answer = await fetch(`${server.base}/graphql`, { method: 'POST', headers, body })
  return { status: answer.status, body: (await answer.json()) as Asked }
}

/** A document of questions that are all different: equal ones would share a run. */
function counters(): string {
  const metric =
    '{ countDistinct: { dataPool: { name: "large" }, dimension: { columnName: "_service_payload" } } }'
  const one = (_: unknown, i: number) =>
    `c${i}: counter(input: { metric: ${metric}, filterSql: "n > ${-1 - i}" }) { value }`
  return `{ ${Array.from({ length: QUERIES }, one).join('\n')} }`
}

/** Resolves when queries of the application wait. /metrics names it by its unique name. */
async function waiting(name: string): Promise<void> {
  const line = `weir_application_queries_waiting{application="${name}"}`
  for (;;) {
    const page = await (await fetch(`${server.base}/metrics`)).text()
    const found = page.split('\n').find(each => each.startsWith(line))
    if (Number(found?.slice(line.length)) > 0) return
  }
}

test.each(ENDS)(
  'after %s (%s) the queries that wait are refused',
  async (_, by, name, end) => {
    const { id, authorization } = await application(`queries ${name}`, ['data_pool:query'], by)
    const asked = graphql(authorization, counters())
    await waiting(`queries ${name}`)
    await end(id)
    const { status, body } = await asked
    expect(status).toBe(200)
    expect(body.data?.[`c${QUERIES - 1}`]).toBe(null)
    expect(new Set(body.errors?.map(({ extensions }) => extensions.code))).toEqual(
      new Set(['UNAUTHENTICATED']),
    )
    // The code of its next request.
    const next = await graphql(authorization, '{ __typename }')
    expect([next.status, next.body.errors?.[0]?.extensions.code]).toEqual([401, 'UNAUTHENTICATED'])
  },
  60_000,
)

/** A client of the Arrow route that has read the first bytes and then nothing. */
async function stalledStream(authorization: string, path = '/v1/pools/large/arrow'): Promise<Socket> {
  const socket = connect(Number(new URL(server.base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nConnection: close\r\n\r\n`,
  )
  await once(socket, 'data')
  socket.pause()
  return socket
}

/**
 * Reads a stream to its end: the bytes from now on, and whether they end as a whole answer does.
 */
async function rest(socket: Socket): Promise<{ readonly bytes: number; readonly isWhole: boolean }> {
  let [bytes, last] = [0, Buffer.alloc(0)]
  socket.on('data', part => {
    bytes += part.byteLength
    last = Buffer.concat([last, part]).subarray(-5)
  })
  const closed = once(socket, 'close')
  socket.resume()
  await closed
  return { bytes, isWhole: last.toString('latin1') === '0\r\n\r\n' }
}

test.each(ENDS)(
  'after %s (%s) an Arrow stream breaks off',
  async (_, by, name, end) => {
    const { id, authorization } = await application(`stream ${name}`, ['data_pool:query'], by)
    const other = await application(`other ${name}`, ['data_pool:query'], 'basic')
    const [socket, untouched] = [await stalledStream(authorization), await stalledStream(other.authorization)]
    await end(id)
    expect((await rest(socket)).isWhole).toBe(false)
    const whole = await rest(untouched)
    expect([whole.isWhole, whole.bytes > EVENTS * EVENT_BYTES * 0.9]).toEqual([true, true])
  },
  60_000,
)

test.each(['arrow', 'export?format=csv', 'export?format=ndjson', 'export?format=parquet'])(
  'without the scope %s breaks off',
  async path => {
    const { id, authorization } = await application(`scope ${path}`, ['data_pool:query'], 'token')
    const socket = await stalledStream(authorization, `/v1/pools/large/${path}`)
    const change = `{ idOrUniqueName: { id: "${id}" }, scopes: [METRIC_QUERY] }`
    const { body } = await graphql(
      administrator,
      `mutation { modifyApplication(input: ${change}) { __typename } }`,
    )
    expect(body.data?.['modifyApplication']).toEqual({ __typename: 'ApplicationResponse' })
    expect((await rest(socket)).isWhole).toBe(false)
  },
  60_000,
)

test('an Arrow stream whose first query waits is refused as the next request is', async () => {
  const { id, authorization } = await application('early stream', ['data_pool:query'], 'basic')
  const asked = graphql(authorization, counters())
  await waiting('early stream')
  const stream = fetch(`${server.base}/v1/pools/large/arrow`, { headers: { authorization } })
  await waiting('early stream')
  await weir(['applications', 'delete', id, '--data-dir', server.dataDir, '--url', server.base])
  expect((await stream).status).toBe(401)
  await asked
}, 60_000)

/** A new application with a policy of its own on the pool, which shows all. */
async function reader(name: string): Promise<Made & { readonly policy: string }> {
  const made = await application(name, ['data_pool:query'], 'basic')
  const input = `{ dataPool: "${large}", columns: ["*"] }`
  const { body } = await graphql(
    administrator,
    `mutation { createDataPoolAccessPolicy(input: ${input}) { dataPoolAccessPolicy { id } } }`,
  )
  const created = body.data?.['createDataPoolAccessPolicy'] as {
    readonly dataPoolAccessPolicy: { readonly id: string }
  }
  const policy = created.dataPoolAccessPolicy.id
  await change(
    `assignDataPoolAccessPolicyToApplication(dataPoolAccessPolicy: "${policy}", application: "${made.id}")`,
  )
  return { ...made, policy }
}

async function change(mutation: string): Promise<void> {
  const { body } = await graphql(administrator, `mutation { ${mutation} }`)
  expect(body.errors).toBeUndefined()
}

const narrowed = (policy: string) =>
  `modifyDataPoolAccessPolicy(input: { id: "${policy}", filterSql: "n < 5" }) { __typename }`

/** The ways in which what an application sees changes. */
const VIEWS: readonly (readonly [string, (policy: string, application: string) => string])[] = [
  ['narrowed', narrowed],
  [
    'taken away',
    (policy, id) =>
      `unAssignDataPoolAccessPolicyFromApplication(dataPoolAccessPolicy: "${policy}", application: "${id}")`,
  ],
  ['deleted', policy => `deleteDataPoolAccessPolicy(id: "${policy}")`],
]

describe('what an application sees of a pool', () => {
  test('a stream of an open pool breaks off when the pool gets access control', async () => {
    const { authorization } = await application('open', ['data_pool:query'], 'basic')
    const socket = await stalledStream(authorization)
    await change(
      'modifyDataPool(input: { idOrUniqueName: { uniqueName: "large" }, accessControlEnabled: true }) { __typename }',
    )
    expect((await rest(socket)).isWhole).toBe(false)
  }, 60_000)

  test.each(['export?format=csv', 'export?format=ndjson', 'export?format=parquet'])(
    '%s breaks off after its policy was narrowed',
    async path => {
      const { authorization, policy } = await reader(`view ${path}`)
      const socket = await stalledStream(authorization, `/v1/pools/large/${path}`)
      await change(narrowed(policy))
      expect((await rest(socket)).isWhole).toBe(false)
    },
    60_000,
  )

  test.each(VIEWS)(
    'an Arrow stream breaks off after its policy was %s, and no other one',
    async (way, mutation) => {
      const [one, other] = [await reader(`one ${way}`), await reader(`other ${way}`)]
      const [socket, untouched] = [
        await stalledStream(one.authorization),
        await stalledStream(other.authorization),
      ]
      await change(mutation(one.policy, one.id))
      // The same view under another name.
      await change(
        `modifyDataPoolAccessPolicy(input: { id: "${other.policy}", description: "x" }) { __typename }`,
      )
      expect((await rest(socket)).isWhole).toBe(false)
      expect((await rest(untouched)).isWhole).toBe(true)
    },
    60_000,
  )

  test('questions that wait are not answered by the policy before', async () => {
    const { authorization, policy } = await reader('waits')
    const asked = graphql(authorization, counters())
    await waiting('waits')
    await change(narrowed(policy))
    const { body } = await asked
    expect(body.data?.[`c${QUERIES - 1}`]).toBe(null)
    expect(new Set(body.errors?.map(({ extensions }) => extensions.code))).toEqual(new Set(['UNAVAILABLE']))
  }, 60_000)
})
