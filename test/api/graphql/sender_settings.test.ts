/**
 * A webhook's sender settings over GraphQL: what is given is shown again, presets fill it, and a
 * client that knows none of it sends and reads what it did.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { GRAPHQL_SAMPLES_BYTES_MAX } from '../../../src/api/graphql/context.ts'
import { PRESET_NAMES } from '../../../src/catalog/presets.ts'
import { makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

const SIGNATURE = `signature { scheme secrets toleranceSeconds header algorithm encoding prefix signed
  timestampHeader idHeader }`
const SETTINGS = `id connectionSettings { ... on WebhookConnectionSettings { webhookUrl timestamp uniqueId
  accept preset verifyToken eventsPath ${SIGNATURE}
  columns { name jsonProperty type nullable coerce } tableSettings { orderBy } } }`
const CREATE = `mutation ($input: CreateWebhookDataSourceInput!) { createWebhookDataSource(input: $input) {
  dataSource { ${SETTINGS} } } }`
const MODIFY = `mutation ($input: ModifyWebhookDataSourceInput!) { modifyWebhookDataSource(input: $input) {
  dataSource { ${SETTINGS} } } }`
const READ = `query ($id: ID!) { dataSource(id: $id) { ${SETTINGS} } }`

const NO_GENERIC = {
  header: null,
  algorithm: null,
  encoding: null,
  prefix: null,
  signed: null,
  timestampHeader: null,
  idHeader: null,
}

/** The created source, as a later query shows it. */
async function create(connectionSettings: object) {
  const { data, errors } = await server.ask(CREATE, { input: { connectionSettings } })
  expect(errors).toBeUndefined()
  const { id } = data.createWebhookDataSource.dataSource
  const read = await server.ask(READ, { id })
  expect(read.data.dataSource).toEqual(data.createWebhookDataSource.dataSource)
  return { id, settings: read.data.dataSource.connectionSettings }
}

async function modify(id: string, connectionSettings: object) {
  const input = { idOrUniqueName: { id }, connectionSettings }
  const { data, errors } = await server.ask(MODIFY, { input })
  return errors?.[0] ?? data.modifyWebhookDataSource.dataSource.connectionSettings
}

test('what is given is shown again', async () => {
  const columns = [
    { name: 'shop', jsonProperty: '$header.x-shop', type: 'STRING', nullable: false, coerce: false },
    { name: 'price', jsonProperty: 'items[0].price', type: 'DOUBLE', nullable: true, coerce: true },
  ]
  const signature = {
    scheme: 'GENERIC_HMAC',
    secrets: ['a secret', 'the next one'],
    toleranceSeconds: 60,
    header: 'x-sig',
    algorithm: 'SHA512',
    encoding: 'BASE64',
    prefix: 'v1=',
    signed: '{timestamp}.{body}',
    timestampHeader: 'x-time',
    idHeader: null,
  }
  const given = {
    accept: ['FORM', 'PATH'],
    verifyToken: 'token',
    eventsPath: 'data.items',
    signature,
    columns,
  }
  const { id, settings } = await create(given)
  expect(settings).toMatchObject({ ...given, preset: null })
  expect(await modify(id, { signature: { secrets: ['only one'] }, accept: [] })).toMatchObject({
    signature: { ...signature, secrets: ['only one'] },
    accept: [],
    verifyToken: 'token',
  })
  expect(await modify(id, { signatureEnabled: false })).toMatchObject({ signature: null })
  expect(await modify(id, { eventsPath: 'data.items' })).toMatchObject({ eventsPath: 'data.items' })
  expect(await modify(id, { eventsPath: 'items' })).toMatchObject({
    message: expect.stringContaining('cannot be changed'),
    extensions: { code: 'BAD_REQUEST' },
  })
})

test('a preset fills what is not given', async () => {
  const { settings } = await create({ preset: 'GITHUB' })
  expect(settings).toMatchObject({
    accept: ['FORM'],
    preset: 'GITHUB',
    uniqueId: 'delivery_id',
    tableSettings: { orderBy: ['delivery_id'] },
    signature: { scheme: 'GITHUB', secrets: [expect.stringMatching(/^[\w-]{43}$/)], ...NO_GENERIC },
  })
  expect(settings.columns[0]).toEqual({
    name: 'delivery_id',
    jsonProperty: '$header.x-github-delivery',
    type: 'STRING',
    nullable: false,
    coerce: false,
  })
  const secrets = ['whsec_of_stripe']
  const { settings: stripe } = await create({ preset: 'STRIPE', signature: { secrets } })
  expect(stripe.signature).toMatchObject({ scheme: 'STRIPE', secrets })
})

test('settings that cannot work are refused, with the way to take', async () => {
  const refusals: readonly [object, string][] = [
    [{ preset: 'STRIPE' }, 'signatureEnabled: false'],
    [{ preset: 'Stripe' }, 'STRIPE may be meant'],
    [{ signature: { secrets: ['s'] } }, 'signature.scheme is missing'],
    [{ signature: { scheme: 'GITHUB', secrets: [''] } }, 'signature.secrets[0] is empty'],
    [{ eventsPath: 'a[0]' }, 'eventsPath'],
    [{ columns: [{ name: 'a', jsonProperty: '$.a', type: 'STRING', nullable: true }] }, 'write "a"'],
  ]
  for (const [connectionSettings, message] of refusals) {
    const { errors } = await server.ask(CREATE, { input: { connectionSettings } })
    expect(errors?.[0]).toMatchObject({
      message: expect.stringContaining(message),
      extensions: { code: 'BAD_REQUEST' },
    })
  }
})

test('a client that does not know the settings reads and changes the rest', async () => {
  const { id, settings } = await create({})
  expect(settings).toMatchObject({ accept: [], signature: null, preset: null, eventsPath: null, columns: [] })
  const signed = await create({ preset: 'GITHUB' })
  const basicAuth = { username: 'u', password: 'p' }
  expect(await modify(signed.id, { basicAuth })).toEqual(signed.settings)
  expect(await modify(id, { basicAuth })).toEqual(settings)
})

test('a secret is written to no audit entry', async () => {
  server.audited.splice(0)
  const secrets = ['a-secret-of-the-sender']
  const { id } = await create({ signature: { scheme: 'GITHUB', secrets }, verifyToken: secrets[0] })
  await modify(id, { signature: { secrets } })
  expect(server.audited).toMatchObject([
    { mutation: 'createWebhookDataSource', object: id, outcome: 'done' },
    { mutation: 'modifyWebhookDataSource', object: id, outcome: 'done' },
  ])
  expect(JSON.stringify(server.audited)).not.toContain(secrets[0])
})

test('the presets are listed', async () => {
  const { data, errors } =
    await server.ask(`{ webhookPresets { name title scheme needsSecret accept eventsPath
    timestamp uniqueId orderBy delivery steps columns { name jsonProperty type nullable coerce } } }`)
  expect(errors).toBeUndefined()
  expect(data.webhookPresets.map(({ name }: { name: string }) => name)).toEqual(PRESET_NAMES)
  expect(data.webhookPresets[0]).toMatchObject({ name: 'GITHUB', scheme: 'GITHUB', needsSecret: false })
})

const INFER = `query ($samples: String!) { inferColumns(samples: $samples) { events orderBy
  columns { name jsonProperty type nullable coerce reason } uniqueId { column reason }
  timestamp { column reason } leftOut { jsonProperty reason } } }`

test('columns are proposed from samples, and a webhook takes them', async () => {
  const event = (n: number) => ({ id: `evt_${n}`, created_at: `2026-11-0${n}T00:00:00Z`, price: '1.50' })
  const samples = [1, 2, 3].map(n => JSON.stringify(event(n))).join('\n')
  const { data, errors } = await server.ask(INFER, { samples })
  expect(errors).toBeUndefined()
  const { events, columns, uniqueId, timestamp } = data.inferColumns
  expect([events, uniqueId.column, timestamp.column]).toEqual([3, 'id', 'created_at'])
  const given = columns.map(({ reason: _, ...column }: { reason: string }) => column)
  const { settings } = await create({
    columns: given,
    uniqueId: uniqueId.column,
    timestamp: timestamp.column,
  })
  expect(settings.columns).toEqual(given)
})

test('samples are bounded for a whole request', async () => {
  const samples = JSON.stringify({ text: 'x'.repeat(GRAPHQL_SAMPLES_BYTES_MAX / 2) })
  expect((await server.ask(INFER, { samples })).errors).toBeUndefined()
  const twice = `query ($samples: String!) {
    a: inferColumns(samples: $samples) { events } b: inferColumns(samples: $samples) { events } }`
  const { errors } = await server.ask(twice, { samples })
  expect(errors?.[0]?.message).toMatch(/more than 131072 bytes/)
  for (const bad of ['', '[', '1', '{} x'])
    expect((await server.ask(INFER, { samples: bad })).errors?.[0]?.extensions.code).toBe('BAD_REQUEST')
})

test('many small samples in one text are read', async () => {
  const samples = Array.from({ length: 1_000 }, (_, n) => `{"id":${n},"a":[1,2,3],"b":{"c":{}}}`).join('\n')
  const { data, errors } = await server.ask(INFER, { samples })
  expect(errors).toBeUndefined()
  expect(data.inferColumns.events).toBe(1_000)
})

test('only admin may ask', async () => {
  for (const document of ['{ webhookPresets { name } }', '{ inferColumns(samples: "{}") { events } }']) {
    const { errors } = await server.ask(document, null, { scope: ['data_pool:query'] })
    expect(errors?.[0]?.extensions.code).toBe('FORBIDDEN')
  }
})
