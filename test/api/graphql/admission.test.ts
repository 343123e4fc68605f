/**
 * W-9: GraphQL requests are bounded by the memory that they hold, in shares of applications. Two
 * applications never keep out a third one.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { GRAPHQL_BYTES_PER_CHARACTER } from '../../../src/api/graphql/endpoint.ts'
import { createApplication } from '../../../src/catalog/change/change-application.ts'
import { Unavailable } from '../../../src/util/errors.ts'
import {
  GRAPHQL_BYTES_MAX,
  GRAPHQL_BYTES_PER_BODY_BYTE,
  GRAPHQL_REQUEST_BYTES,
  KiB,
  MiB,
} from '../../../src/util/limits.ts'
import { gate, until } from '../fake.ts'
import { BASIC, COUNTED, makeServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await makeServer()
})
afterAll(() => server.stop())

async function application(uniqueName: string): Promise<string> {
  const scopes = ['data_pool:query', 'data_pool:read'] as const
  const made = await server.catalog.change(createApplication({ uniqueName, scopes }, 'app'))
  if ('badRequest' in made) throw new Error(made.badRequest)
  return `Basic ${Buffer.from(`${made.id}:${made.secret}`).toString('base64')}`
}

const COUNTERS = `{ ${Array.from(
  { length: 6 },
  (_, i) => `c${i}: counter(input: { metric: { count: { dataPool: { name: "events" } } } }) { value }`,
).join(' ')} }`

test('400 requests of dashboards wait for the engine, and none is refused', async () => {
  const authorization = await application('dashboards')
  const engine = gate()
  server.answer = async () => {
    await engine.promise
    return COUNTED
  }
  const body = JSON.stringify({ query: COUNTERS })
  const replies = Array.from({ length: 400 }, () => server.send(authorization, body))
  engine.open()
  for (const { status, body: answer } of await Promise.all(replies)) {
    expect(status).toBe(200)
    expect(JSON.parse(answer).data.c5).toEqual({ value: '42' })
  }
})

test('two applications fill their shares, and a third one is answered', async () => {
  const [one, two, three] = [await application('one'), await application('two'), await application('three')]
  const engine = gate()
  let asked = 0
  server.answer = async () => {
    asked += 1
    await engine.promise
    return COUNTED
  }
  // Long bodies, so that few fill the memory.
  const body = JSON.stringify({ query: COUNTERS, variables: { long: ' '.repeat(500 * KiB) } })
  const document = GRAPHQL_BYTES_PER_CHARACTER * COUNTERS.length
  const held = GRAPHQL_REQUEST_BYTES + GRAPHQL_BYTES_PER_BODY_BYTE * body.length + document
  const half = Math.floor(GRAPHQL_BYTES_MAX / 2 / held)
  const fill = async (authorization: string) => {
    asked = 0
    let refused = 0
    const replies = Array.from({ length: half + 20 }, async () => {
      const reply = await server.send(authorization, body)
      if (reply.status === 429) refused += 1
      return reply
    })
    await until(() => asked / 6 + refused === replies.length)
    return replies
  }
  const replies = [...(await fill(one)), ...(await fill(two))]
  const quick = await server.send(three, JSON.stringify({ query: '{ dataPools { nodes { id } } }' }))
  expect(quick.status).toBe(200)
  engine.open()
  const statuses = (await Promise.all(replies)).map(({ status }) => status)
  const answered = statuses.slice(0, half + 20).filter(status => status === 200)
  // What is refused of the first one is beyond half of the memory, and no more.
  expect(answered.length).toBeGreaterThanOrEqual(half - 1)
  expect(answered.length).toBeLessThanOrEqual(half + 1)
  expect(statuses.slice(half + 20).filter(status => status === 200).length).toBeGreaterThan(half / 3)
  expect((await server.send(one, body)).status).toBe(200)
})

test('rows that wait for the other questions of their requests count too', async () => {
  const authorization = await application('rows')
  const engine = gate()
  const all = gate()
  let asked = 0
  server.answer = async () => {
    asked += 1
    if (asked === 80) all.open()
    if (asked % 2 === 0) await engine.promise
    return { ...COUNTED, rows: [['x'.repeat(8 * MiB)]] }
  }
  const two = '{ a: c b: c }'.replaceAll(
    'c',
    'counter(input: {metric: {count: {dataPool: {name: "events"}}}}) { value }',
  )
  const replies = Array.from({ length: 40 }, () => server.send(authorization, JSON.stringify({ query: two })))
  const other = await server.send(await application('other'), JSON.stringify({ query: '{ __typename }' }))
  expect(other.status).toBe(200)
  // A request whose first rows are refused may not ask again: it is answered at once.
  await Promise.race([all.promise, ...replies])
  engine.open()
  const failed = (await Promise.all(replies)).filter(({ body }) => JSON.parse(body).errors !== undefined)
  expect(failed.length).toBeGreaterThan(0)
  expect(JSON.parse(failed[0]!.body).errors[0]).toMatchObject({
    message: expect.stringMatching(/hold too many rows/),
    extensions: { code: 'UNAVAILABLE' },
  })
  server.answer = async () => COUNTED
  expect(JSON.parse((await server.send(authorization, JSON.stringify({ query: two }))).body).errors).toBe(
    undefined,
  )
})

test('a question whose client has gone gets no further slice, and changes go on', async () => {
  const authorization = BASIC
  const gone = new AbortController()
  server.answer = async () => {
    gone.abort()
    return COUNTED
  }
  const schemas = Array.from({ length: 20 }, (_, i) => `s${i}: __schema { types { name fields { name } } }`)
  const query = `${COUNTERS.slice(0, -1)} ${schemas.join(' ')} }`
  const { body } = await server.send(authorization, JSON.stringify({ query }), gone.signal)
  expect(JSON.parse(body).errors[0]).toMatchObject({ message: 'the client has disconnected' })

  // All of it is given up in that moment: 16 such requests made a change wait for more than 10 s.
  const going = new AbortController()
  let counted = 0
  server.answer = async () => {
    counted += 1
    return COUNTED
  }
  const text = JSON.stringify({ query })
  const all = Array.from({ length: 20 }, () => server.send(authorization, text, going.signal))
  await until(() => counted > 6) // two have begun, and make their lists
  going.abort()
  const turns = async () => {
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
  }
  const replies = await Promise.race([Promise.all(all), turns()])
  const messages = replies?.map(reply => JSON.parse(reply.body).errors?.[0].message as string | undefined)
  expect(messages?.filter(message => message === 'the client has disconnected').length).toBeGreaterThan(0)
  expect(messages?.filter(message => message?.includes('has no room')).length).toBeGreaterThan(0)
  expect(messages).toHaveLength(20)

  const names = Array.from({ length: 50 }, (_, i) => `gone_${i}`)
  const change = (name: string) =>
    `${name}: createApplication(input: {uniqueName: "${name}", scopes: []}) { __typename }`
  const leaving = new AbortController()
  const made = server.send(
    authorization,
    JSON.stringify({ query: `mutation { ${names.map(change).join(' ')} }` }),
    leaving.signal,
  )
  const before = server.audited.length
  await Promise.race([made, until(() => server.audited.length > before)])
  leaving.abort()
  expect(JSON.parse((await made).body).errors).toBe(undefined)
})

describe('a long list of counters', () => {
  const values = Array.from({ length: 140 }, (_, i) => `v${i}: value`).join(' ')
  const query = `query ($input: [CounterInput!]!) { counters(input: $input) { ${values} } }`
  const of = (name: string) => ({ metric: { count: { dataPool: { name } } } })
  const bodyOf = (...names: string[]) => JSON.stringify({ query, variables: { input: names.map(of) } })

  test('has one that fails while the one before it runs, and each has its own error', async () => {
    const engine = gate()
    let asked = 0
    server.answer = async () => {
      asked += 1
      await engine.promise
      if (asked > 2) throw new Unavailable('queue_full', 'too many queries')
      return COUNTED
    }
    const reply = server.send(BASIC, bodyOf('events', 'nothing', 'events'))
    await until(() => asked === 2)
    await new Promise(setImmediate) // an error that nobody hears of would end the process
    engine.open()
    const { errors } = JSON.parse((await reply).body)
    expect(errors).toMatchObject([{ message: 'Data Pool not found' }])
    expect(errors).toHaveLength(1)
  })

  test('ends with its client, whose counters fail then', async () => {
    const gone = new AbortController()
    const engine = gate()
    let asked = 0
    server.answer = async () => {
      asked += 1
      await engine.promise
      throw new Unavailable('client_gone', 'the client has disconnected')
    }
    const reply = server.send(BASIC, bodyOf('events', 'events', 'events'), gone.signal)
    await until(() => asked === 3)
    gone.abort()
    engine.open()
    expect(JSON.parse((await reply).body).errors).toMatchObject([{ message: 'the client has disconnected' }])
    await new Promise(setImmediate)
  })
})
