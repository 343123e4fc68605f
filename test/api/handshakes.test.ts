/** Handshakes without a body: the requests that the senders' documentation shows, and near ones. */
import { expect, test } from 'vitest'
import {
  type HandshakeHead,
  type HandshakeSettings,
  handshakeReply,
  headHandshake,
} from '../../src/api/ingest/handshakes.ts'
import { presetNamed } from '../../src/catalog/presets.ts'
import { type HandshakeKind, handshakesOf } from '../../src/format/handshake.ts'

const NOW = 1_700_000_000_000
const NOSNIFF = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }

/** A request such as `GET ?a=b` with headers. An array is a header that was sent several times. */
function head(
  request: string,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
): HandshakeHead {
  const [method, query = ''] = request.split(' ?')
  const valuesOf = (name: string) => [headers[name] ?? []].flat()
  return {
    method: method!.toLowerCase(),
    query,
    header: name => valuesOf(name)[0] ?? '',
    headerCount: name => valuesOf(name).length,
  }
}

/** What a source with one kind of handshake answers. */
function answer(kind: HandshakeKind, request: HandshakeHead, more: Partial<HandshakeSettings> = {}) {
  return headHandshake(request, { kinds: [kind], verifyToken: null, secretUntilMs: () => 0, ...more }, NOW)
}

const plain = (body: string) => ({
  reply: { status: 200, headers: { ...NOSNIFF, 'content-type': 'text/plain' }, body },
  secret: null,
})

const TOKEN = { verifyToken: 'meatyhamhock' }

test('Meta: the challenge, for the right token', () => {
  // developers.facebook.com/docs/graph-api/webhooks/getting-started
  const query = '?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock'
  expect(answer('META', head(`GET ${query}`), TOKEN)).toEqual(plain('1158201444'))
  expect(answer('META', head(`GET ${query.replaceAll('.', '%2E')}`), TOKEN)).toEqual(plain('1158201444'))
  for (const wrong of ['meatyhamhocK', 'meatyhamhock%00', '', 'meaty', 'x'.repeat(2_000)]) {
    const sent = head(`GET ${query.replace('meatyhamhock', wrong)}`)
    const got = answer('META', sent, TOKEN)
    expect([got?.reply.status, got?.secret]).toEqual([403, null])
    expect(JSON.parse(String(got?.reply.body))).toMatchObject({ code: 'wrong_verify_token', status: 403 })
    expect(got?.reply.body).not.toContain('meatyhamhock')
  }
  const twice = head(`GET ${query}&hub.verify_token=meatyhamhock`)
  expect(answer('META', twice, TOKEN)?.reply.status).toBe(403)
})

test.each([
  'POST ?hub.mode=subscribe&hub.challenge=1&hub.verify_token=meatyhamhock',
  'GET ?hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=meatyhamhock',
  'GET ?hub.challenge=1&hub.verify_token=meatyhamhock',
  'GET ?hub.mode=subscribe&hub.verify_token=meatyhamhock',
  'GET ?hub.mode=subscribe&hub.challenge=&hub.verify_token=meatyhamhock',
  'GET ?hub.mode=subscribe&hub.challenge=1&hub.challenge=2&hub.verify_token=meatyhamhock',
  'GET ?hub.mode=subscribe&hub.challenge=%ff&hub.verify_token=meatyhamhock',
  'GET ?hub.mode=subscribe&hub.challenge=%4&hub.verify_token=meatyhamhock',
  `GET ?hub.mode=subscribe&hub.challenge=${'x'.repeat(1_025)}&hub.verify_token=meatyhamhock`,
  'GET ?',
  'GET',
])('%s is no handshake of Meta', request => {
  expect(answer('META', head(request), TOKEN)).toBe(undefined)
})

test('Meta: without a verify token nothing is answered', () => {
  expect(answer('META', head('GET ?hub.mode=subscribe&hub.challenge=1&hub.verify_token='))).toBe(undefined)
})

test('Dropbox: the challenge as plain text that is not sniffed', () => {
  // dropbox.com/developers/reference/webhooks
  expect(answer('DROPBOX', head('GET ?challenge=abc123'))).toEqual(plain('abc123'))
  expect(answer('DROPBOX', head('GET ?a=b&challenge=%3Cscript%3Ealert(1)%3C/script%3E'))).toEqual(
    plain('<script>alert(1)</script>'),
  )
  for (const request of ['GET', 'GET ?challenge', 'GET ?challenge=', 'GET ?Challenge=a', 'POST ?challenge=a'])
    expect([request, answer('DROPBOX', head(request))]).toEqual([request, undefined])
})

test('Okta: the header as JSON', () => {
  // developer.okta.com/docs/concepts/event-hooks: one-time verification request
  const name = 'x-okta-verification-challenge'
  expect(answer('OKTA', head('GET', { [name]: 'my verification challenge "1"' }))).toEqual({
    reply: {
      status: 200,
      headers: { ...NOSNIFF, 'content-type': 'application/json' },
      body: '{"verification":"my verification challenge \\"1\\""}',
    },
    secret: null,
  })
  expect(answer('OKTA', head('GET'))).toBe(undefined)
  expect(answer('OKTA', head('POST', { [name]: 'a' }))).toBe(undefined)
  expect(answer('OKTA', head('GET', { [name]: ['a', 'a'] }))).toBe(undefined)
  expect(answer('OKTA', head('GET', { [name]: 'x'.repeat(1_025) }))).toBe(undefined)
})

test('Microsoft Graph: the decoded token', () => {
  // learn.microsoft.com/graph/change-notifications-delivery-webhooks: notificationUrl validation
  const token =
    'Validation%3a+Testing+client+application+reachability+for+subscription+Request-Id%3a+522a8e7e-096a'
  expect(answer('MICROSOFT_GRAPH', head(`POST ?validationToken=${token}`))).toEqual(
    plain('Validation: Testing client application reachability for subscription Request-Id: 522a8e7e-096a'),
  )
  for (const request of [
    'POST',
    'POST ?validationToken=',
    'POST ?validationToken=%E9',
    'POST ?validationtoken=a',
    'POST ?validationToken=a&validationToken=a',
    `POST ?validationToken=${'%C3%A9'.repeat(513)}`,
    'GET ?validationToken=a',
    'DELETE ?validationToken=a',
  ])
    expect([request, answer('MICROSOFT_GRAPH', head(request))]).toEqual([request, undefined])
})

test('CloudEvents: the origin and the rate that were asked for', () => {
  // github.com/cloudevents/spec, http-webhook.md, 4.1
  const asked = (headers: Readonly<Record<string, string | readonly string[]>>, method = 'OPTIONS') =>
    answer('CLOUDEVENTS', head(method, headers))
  const allowed = (rate: string) => ({
    reply: {
      status: 200,
      headers: {
        ...NOSNIFF,
        allow: 'POST',
        'webhook-allowed-origin': 'eventemitter.example.com',
        'webhook-allowed-rate': rate,
      },
      body: '',
    },
    secret: null,
  })
  const origin = { 'webhook-request-origin': 'eventemitter.example.com' }
  expect(asked({ ...origin, 'webhook-request-rate': '120' })).toEqual(allowed('120'))
  expect(asked(origin)).toEqual(allowed('*'))
  expect(asked({ ...origin, 'webhook-request-callback': 'https://example.com/confirm?id=12345' })).toEqual(
    allowed('*'),
  )
  for (const rate of ['0', '-1', '1.5', 'many', '1'.repeat(20), '01', '1\r\nx: y'])
    expect([rate, asked({ ...origin, 'webhook-request-rate': rate })]).toEqual([rate, allowed('*')])
  expect(asked({})).toBe(undefined)
  expect(asked(origin, 'POST')).toBe(undefined)
  expect(asked({ 'webhook-request-origin': ['a.example.com', 'b.example.com'] })).toBe(undefined)
  for (const name of ['https://a.example.com', 'a b', 'a\r\nx: y', 'é.example.com', 'a'.repeat(254)])
    expect([name, asked({ 'webhook-request-origin': name })]).toEqual([name, undefined])
})

test('Trello: a HEAD is answered with 200 and without a body', () => {
  expect(answer('HEAD', head('HEAD ?memberID=14&mainModel=true'))).toEqual(plain(''))
  expect(answer('HEAD', head('GET'))).toBe(undefined)
  expect(answer('HEAD', head('POST'))).toBe(undefined)
})

test('Asana: the secret, only within the time that an operator gave', () => {
  // developers.asana.com/reference/createwebhook
  const secret = 'b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81'
  const sent = head('POST', { 'x-hook-secret': secret })
  const taken = {
    reply: { status: 200, headers: { ...NOSNIFF, 'x-hook-secret': secret }, body: '' },
    secret,
  }
  expect(answer('ASANA', sent, { secretUntilMs: () => NOW + 1 })).toEqual(taken)
  for (const until of [0, NOW - 1, NOW])
    expect([until, answer('ASANA', sent, { secretUntilMs: () => until })]).toEqual([until, undefined])
  const open = { secretUntilMs: () => NOW + 60_000 }
  expect(answer('ASANA', head('POST'), open)).toBe(undefined)
  expect(answer('ASANA', head('GET', { 'x-hook-secret': secret }), open)).toBe(undefined)
  expect(answer('ASANA', head('POST', { 'x-hook-secret': [secret, secret] }), open)).toBe(undefined)
  for (const bad of [
    'short',
    'x'.repeat(257),
    'a secret with a space in it',
    `${secret}\r\nx: y`,
    `${secret}é`,
  ])
    expect([bad, answer('ASANA', head('POST', { 'x-hook-secret': bad }), open)]).toEqual([bad, undefined])
})

test('a source answers no handshakes but its own', () => {
  const requests = [
    head('GET ?hub.mode=subscribe&hub.challenge=1&hub.verify_token=meatyhamhock'),
    head('GET ?challenge=a'),
    head('GET', { 'x-okta-verification-challenge': 'a' }),
    head('POST ?validationToken=a'),
    head('OPTIONS', { 'webhook-request-origin': 'a.example.com' }),
    head('HEAD'),
    head('POST', { 'x-hook-secret': 'b537207f20cbfa02357cf448134da559' }),
  ]
  const kinds: HandshakeKind[] = [
    'META',
    'DROPBOX',
    'OKTA',
    'MICROSOFT_GRAPH',
    'CLOUDEVENTS',
    'HEAD',
    'ASANA',
  ]
  const settings = { ...TOKEN, secretUntilMs: () => NOW + 1 }
  for (const [index, request] of requests.entries()) {
    expect(headHandshake(request, { ...settings, kinds }, NOW)?.reply.status).toBe(200)
    expect(headHandshake(request, { ...settings, kinds: [] }, NOW)).toBe(undefined)
    for (const [other, kind] of kinds.entries())
      expect([index, kind, answer(kind, request, settings) !== undefined]).toEqual([
        index,
        kind,
        index === other,
      ])
  }
})

test('a handshake that stood in a body is not sniffed either', () => {
  expect(handshakeReply({ status: 200, contentType: 'text/plain', body: 'a' })).toEqual(plain('a').reply)
  expect(handshakeReply({ status: 204, contentType: 'application/json', body: '' })).toMatchObject({
    status: 204,
    body: '',
  })
})

test.each<[string | null, Parameters<typeof handshakesOf>[1], string | null, HandshakeKind[]]>([
  [null, null, null, []],
  ['GITHUB', 'GITHUB', null, []],
  ['SLACK', 'SLACK', null, ['SLACK']],
  [null, 'SLACK', null, ['SLACK']],
  [null, 'ZOOM', null, ['ZOOM']],
  [null, 'GENERIC_HMAC', null, []],
  ['EVENT_GRID', null, null, ['EVENT_GRID', 'CLOUDEVENTS']],
  ['TRELLO', 'GENERIC_HMAC', null, ['HEAD']],
  ['META', 'META', null, ['META']], // no token is right
  ['META', 'META', 'token', ['META']],
  [null, null, 'token', ['META']],
  [null, null, '', []],
  ['ASANA', 'SLACK', 'token', ['ASANA', 'SLACK', 'META']],
  ['constructor', null, null, []],
  ['__proto__', null, null, []],
])('preset %s, scheme %s and token %s turn on %j', (preset, scheme, token, kinds) => {
  expect(handshakesOf(presetNamed(preset)?.handshakes ?? [], scheme, token)).toEqual(kinds)
})
