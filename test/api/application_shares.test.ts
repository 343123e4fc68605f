/** W-9: applications share tails and sessions, so that many of one leave room to others. */
import { expect, test } from 'vitest'
import type { ControlRequest } from '../../src/api/api-types.ts'
import { Sessions } from '../../src/api/sessions.ts'
import { tailRoute } from '../../src/api/tail-route.ts'
import type { Identity } from '../../src/catalog/access/token.ts'
import { Fake, start } from './fake.ts'

const HALF = 128

const identity = (applicationId: string): Identity => ({
  applicationId,
  scopes: new Set(['data_pool:query']),
  verifyAgain: () => {},
})

test('one application has half of the tails, and another one still gets some', async () => {
  const pool = { id: 'DPO1', number: 1, accessControlEnabled: false }
  const pools = { get: () => pool, has: () => true, find: () => pool }
  const deps = {
    catalog: {
      read: { pools, applications: new Map(), currentSchema: () => ({ pool: 1 }), policyOf: () => undefined },
    },
    verify: async (authorization: string) => identity(authorization),
    openTail: () => ({
      hasNews: () => false,
      step: async () => ({ columns: ['id'], rows: [], missed: 0 }),
    }),
  } as unknown as Parameters<typeof tailRoute>[0]
  const route = tailRoute(deps)
  const api = await start(new Fake(), {}, { routes: [route] })
  const tail = async (authorization: string) =>
    (await fetch(`http://127.0.0.1:${api.port}/v1/pools/DPO1/tail`, { headers: { authorization } })).status
  for (let count = 0; count < HALF; count += 1) expect(await tail('a')).toBe(200)
  expect([await tail('a'), await tail('b'), await tail('c')]).toEqual([429, 200, 200])
  route.stop?.()
  expect(await api.stop(1000)).toBe(true)
})

test('a session outlives those of many other applications that sign in again and again', async () => {
  const idOf = (authorization: string) =>
    Buffer.from(authorization.replace('Basic ', ''), 'base64').toString().split(':')[0]!
  const sessions = new Sessions({
    tokens: {
      verify: async authorization => identity(idOf(authorization ?? '')),
      identity,
      tokenFor: async () => 'a token',
    },
    applicationName: id => id,
    publicUrl: () => 'http://weir.test',
  })
  const [begin, renew] = sessions.routes()
  const asked = (body: object, cookie = '') =>
    ({
      body: Buffer.from(JSON.stringify(body)),
      contentType: 'application/json',
      query: '',
      headers: { host: 'weir.test', cookie },
    }) as unknown as ControlRequest
  const signIn = async (clientId: string) => {
    const reply = (await begin!.handle(asked({ clientId, clientSecret: 'x' }))) as {
      readonly headers: Readonly<Record<string, string>>
    }
    return reply.headers['set-cookie']!.split(';')[0]!
  }
  const person = await signIn('person')
  for (let count = 0; count < 17 * 64; count += 1) await signIn(`busy ${count % 17}`)
  expect(await renew!.handle(asked({}, person))).toMatchObject({ status: 200 })
})
