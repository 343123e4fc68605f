/** Handshakes that stand in a body: the requests that the senders' documentation shows. */
import { expect, test } from 'vitest'
import type { HandshakeKind, HandshakeReply } from '../../../src/format/handshake.ts'
import { bodyHandshake, handshakeHeaders } from '../../../src/parse/sender/body-handshake.ts'
import { shared } from './reading.ts'

const SECRET = 'zoom-secret-token'

function answer(
  kind: HandshakeKind,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
  secret: string | undefined = SECRET,
): HandshakeReply | undefined {
  return bodyHandshake(
    kind,
    shared(typeof body === 'string' ? body : JSON.stringify(body)),
    () => secret,
    headers,
  )
}

const plain = (body: string) => ({ status: 200, contentType: 'text/plain', body })
const json = (body: object) => ({ status: 200, contentType: 'application/json', body: JSON.stringify(body) })

// api.slack.com/events/url_verification
const SLACK = {
  token: 'Jhj5dZrVaK7ZwHHjRyZWjbDl',
  challenge: '3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P',
  type: 'url_verification',
}
// developers.zoom.us/docs/api/webhooks: validate your webhook endpoint
const ZOOM = {
  payload: { plainToken: 'qgg8vlvZRS6UYooatFL8Aw' },
  event_ts: 1654503849680,
  event: 'endpoint.url_validation',
}
// dev.twitch.tv/docs/eventsub/handling-webhook-events: responding to a challenge request
const TWITCH = {
  challenge: 'pogchamp-kappa-360noscope-vohiyo',
  subscription: {
    id: 'f1c2a387-161a-49f9-a165-0f21d7a4e1c4',
    status: 'webhook_callback_verification_pending',
    type: 'channel.follow',
    version: '1',
    cost: 1,
    condition: { broadcaster_user_id: '12826' },
    transport: { method: 'webhook', callback: 'https://example.com/webhooks/callback' },
    created_at: '2019-11-16T10:11:12.634234626Z',
  },
}
const TWITCH_HEADERS = { 'twitch-eventsub-message-type': 'webhook_callback_verification' }
// docs.discord.com: receiving and responding to interactions; webhook events
const DISCORD_INTERACTION = {
  application_id: '1234560123453231555',
  id: '1297213244853583892',
  token: 'aW50ZXJhY3Rpb246MTI5',
  type: 1,
  user: { id: '53908232506183680', username: 'Mason', discriminator: '1337', avatar: null },
  version: 1,
}
const DISCORD_PING = { version: 1, application_id: '1234560123453231555', type: 0 }
const DISCORD_EVENT = {
  version: 1,
  application_id: '1234560123453231555',
  type: 1,
  event: {
    type: 'APPLICATION_AUTHORIZED',
    timestamp: '2024-10-18T14:42:53.064834',
    data: { integration_type: 1, scopes: ['applications.commands'] },
  },
}
// learn.microsoft.com: Event Grid, webhook event delivery
const EVENT_GRID = [
  {
    id: '2d1781af-3a4c-4d7c-bd0c-e34b19da4e66',
    topic: '/subscriptions/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx',
    subject: '',
    data: {
      validationCode: '512d38b6-c7b8-40c8-89fe-f46f9e9622b6',
      validationUrl:
        'https://rp-eastus2.eventgrid.azure.net:553/eventsubscriptions/estest/validate?id=512d38b6-c7b8-40c8-89fe-f46f9e9622b6&t=2018-04-26T20:30:54.4538837Z&apiVersion=2018-05-01-preview&token=1A1A1A1A',
    },
    eventType: 'Microsoft.EventGrid.SubscriptionValidationEvent',
    eventTime: '2018-01-25T22:12:19.4556811Z',
    metadataVersion: '1',
    dataVersion: '1',
  },
]

test('the published requests get the published answers', () => {
  expect(answer('SLACK', SLACK)).toEqual(plain(SLACK.challenge))
  expect(answer('TWITCH', TWITCH, TWITCH_HEADERS)).toEqual(plain('pogchamp-kappa-360noscope-vohiyo'))
  expect(answer('DISCORD', DISCORD_INTERACTION)).toEqual(json({ type: 1 }))
  expect(answer('DISCORD', DISCORD_PING)).toEqual({ status: 204, contentType: 'application/json', body: '' })
  expect(answer('EVENT_GRID', EVENT_GRID)).toEqual(
    json({ validationResponse: '512d38b6-c7b8-40c8-89fe-f46f9e9622b6' }),
  )
  // printf qgg8vlvZRS6UYooatFL8Aw | openssl dgst -sha256 -hmac zoom-secret-token
  expect(answer('ZOOM', ZOOM)).toEqual(
    json({
      plainToken: 'qgg8vlvZRS6UYooatFL8Aw',
      encryptedToken: 'd9e0d764a78494688ba3f2d5c0ed4ca311394b4834d959759213424d2df961e3',
    }),
  )
})

test('the handshake of one sender is an event for the others', () => {
  const bodies: [HandshakeKind, unknown][] = [
    ['SLACK', SLACK],
    ['ZOOM', ZOOM],
    ['DISCORD', DISCORD_INTERACTION],
    ['EVENT_GRID', EVENT_GRID],
  ]
  const kinds: HandshakeKind[] = [
    'SLACK',
    'ZOOM',
    'TWITCH',
    'DISCORD',
    'EVENT_GRID',
    'META',
    'ASANA',
    'HEAD',
    'OKTA',
  ]
  for (const [of, body] of bodies)
    for (const kind of kinds)
      expect([of, kind, answer(kind, body) !== undefined]).toEqual([of, kind, of === kind])
})

test.each<[string, HandshakeKind, unknown, Record<string, string>?]>([
  ['a message of Slack', 'SLACK', { type: 'event_callback', challenge: 'x' }],
  ['no challenge', 'SLACK', { type: 'url_verification' }],
  ['an empty challenge', 'SLACK', { type: 'url_verification', challenge: '' }],
  ['a challenge that is no string', 'SLACK', { type: 'url_verification', challenge: { a: 1 } }],
  ['a list', 'SLACK', [SLACK]],
  ['a nested one', 'SLACK', { event: SLACK }],
  ['two documents', 'SLACK', `${JSON.stringify(SLACK)}{}`],
  ['a later type', 'SLACK', `${JSON.stringify(SLACK).slice(0, -1)},"type":"event_callback"}`],
  ['half of a surrogate pair', 'SLACK', '{"type":"url_verification","challenge":"\\ud800"}'],
  ['a number beyond f64', 'SLACK', '{"type":"url_verification","challenge":"x","n":1e400}'],
  ['a byte order mark', 'SLACK', `\ufeff${JSON.stringify(SLACK)}`],
  ['an event of Zoom', 'ZOOM', { event: 'meeting.started', payload: ZOOM.payload }],
  ['a token under a key with a dot', 'ZOOM', { event: ZOOM.event, 'payload.plainToken': 'abc' }],
  ['a notification of Twitch', 'TWITCH', TWITCH, { 'twitch-eventsub-message-type': 'notification' }],
  ['no header', 'TWITCH', TWITCH],
  ['an event of Discord', 'DISCORD', DISCORD_EVENT],
  ['a ping with an event', 'DISCORD', { type: 0, event: {} }],
  ['a command', 'DISCORD', { type: 2 }],
  ['a text', 'DISCORD', { type: '1' }],
  [
    'an event of Event Grid',
    'EVENT_GRID',
    [{ ...EVENT_GRID[0], eventType: 'Microsoft.Storage.BlobCreated' }],
  ],
  ['one that is no list', 'EVENT_GRID', EVENT_GRID[0]],
  ['one with another event', 'EVENT_GRID', [...EVENT_GRID, ...EVENT_GRID]],
  ['no code', 'EVENT_GRID', [{ ...EVENT_GRID[0], data: {} }]],
  ['an empty list', 'EVENT_GRID', []],
])('%s is no handshake of %s', (_, kind, body, headers = {}) => {
  expect(answer(kind, body, headers)).toBe(undefined)
})

test('keys and values may be escaped, as in every JSON', () => {
  expect(
    answer('SLACK', String.raw`{"t\u0079pe":"url\u005fverification","challenge":"a\u00e9\n\ud834\udd1e"}`),
  ).toEqual(plain('aé\n𝄞'))
})

test('a challenge of 1 KiB is repeated, a longer one and a long body are not', () => {
  const slack = (challenge: string, more = '') => ({ type: 'url_verification', challenge, more })
  for (const unit of ['x', 'é', '\u0001'])
    expect(answer('SLACK', slack(unit.repeat(1_024 / Buffer.byteLength(unit))))).toEqual(
      plain(unit.repeat(1_024 / Buffer.byteLength(unit))),
    )
  expect(answer('SLACK', slack('x'.repeat(1_025)))).toBe(undefined)
  expect(answer('SLACK', slack('é'.repeat(513)))).toBe(undefined)
  expect(answer('SLACK', slack('x', 'y'.repeat(16_000)))).toEqual(plain('x'))
  expect(answer('SLACK', slack('x', 'y'.repeat(17_000)))).toBe(undefined)
})

test('a page in a challenge leaves as plain text', () => {
  const page = '<script>alert(1)</script>'
  expect(answer('SLACK', { type: 'url_verification', challenge: page })).toEqual(plain(page))
})

test('Zoom: nothing is signed without a secret, nor a text that could be a request', () => {
  expect(bodyHandshake('ZOOM', Buffer.from(JSON.stringify(ZOOM)), () => undefined, {})).toBe(undefined)
  for (const plainToken of [
    'v0:1654503849:{"event":"meeting.ended"}',
    'v0:1',
    'a b',
    '',
    'x'.repeat(257),
    'a\n',
    '{}',
  ])
    expect([plainToken, answer('ZOOM', { ...ZOOM, payload: { plainToken } })]).toEqual([
      plainToken,
      undefined,
    ])
})

test('only Twitch needs a header', () => {
  expect(handshakeHeaders(['SLACK', 'TWITCH'])).toEqual(['twitch-eventsub-message-type'])
  expect(handshakeHeaders(['SLACK', 'ZOOM', 'DISCORD', 'EVENT_GRID'])).toEqual([])
})
