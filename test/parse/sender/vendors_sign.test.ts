/**
 * Requests that the vendors' own libraries sign or accept, and those that vendors publish. The
 * verifier takes them, and refuses each of them with another body.
 *
 * Libraries of more than 25 MB are no dependency: their values stand here, with the version that
 * made them. Zoom and Twitch have neither a library nor published values; their senders in
 * signing.ts follow the documentation.
 */
import { createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { sign as signAsGitHub } from '@octokit/webhooks-methods'
import { EventWebhook } from '@sendgrid/eventwebhook'
import { verifyKey } from 'discord-interactions'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { describe, expect, test } from 'vitest'
import { signatureProblem } from '../../../src/catalog/change/sender-settings.ts'
import type { SignatureSettings, SignedHead } from '../../../src/format/sender.ts'
import { signatureHeaders } from '../../../src/parse/sender/verify-signature.ts'
import { AT_MS, answer, ed25519Pair, genericOf, headOf, hmac, p256Pair, settingsOf } from './signing.ts'

const BODIES = [
  '{"a": 1.0}',
  '[{"name":"Zoë 🌊","text":"a+b&c=%41\\r\\n"}]',
  `{"long":"${'x'.repeat(100_000)}"}`,
]
/** The body of the values that were made with libraries that are no dependency. */
const BODY = '{"event_id":"evt_1","name":"Zoë 🌊","webhookTimestamp":1768478400000}'
const SECONDS = AT_MS / 1000

/** The request passes with its body, and with no other. */
function passes(settings: SignatureSettings, head: SignedHead, body: string | Buffer): void {
  expect(signatureProblem(settings)).toBeUndefined()
  expect(Object.keys(head.headers).sort()).toEqual([...signatureHeaders(settings)].sort())
  expect(answer(settings, head, Buffer.from(body))).toBe('ok')
  for (const other of [`${body} `, `${body}`.slice(0, -1), ''])
    expect(answer(settings, head, Buffer.from(other))).toBe('signature_mismatch')
}

describe('Standard Webhooks', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const headers = (signature: string, seconds = SECONDS, id = 'msg_1', name = 'webhook') => ({
    [`${name}-id`]: id,
    [`${name}-timestamp`]: String(seconds),
    [`${name}-signature`]: signature,
  })

  test.each(BODIES)('as its library signs %#', body => {
    const signature = new Webhook(secret).sign('msg_1', new Date(AT_MS), body)
    passes(settingsOf('STANDARD_WEBHOOKS', secret), headOf(headers(signature)), body)
    passes(settingsOf('GITLAB', secret), headOf(headers(signature)), body)
    const rotated = `v1,${Buffer.alloc(32).toString('base64')} v2,abc ${signature}`
    passes(settingsOf('STANDARD_WEBHOOKS', secret), headOf(headers(rotated)), body)
  })

  const ID = 'msg_p5jXN8AQM9LWM0D4loKWxJek'
  const PUBLISHED_SECONDS = 1_614_265_330
  const at = { receivedAtMs: 1000 * PUBLISHED_SECONDS + 250 }
  const PUBLISHED_BODY = '{"test": 2432232314}'

  test('as the library publishes it, under both names; svix 2.5.0 makes the same signature', () => {
    const signature = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    const standard = headers(signature, PUBLISHED_SECONDS, ID)
    passes(settingsOf('STANDARD_WEBHOOKS', secret), headOf(standard, at), PUBLISHED_BODY)
    const svix = headers(signature, PUBLISHED_SECONDS, ID, 'svix')
    passes(settingsOf('SVIX', secret), headOf(svix, at), PUBLISHED_BODY)
  })

  test("with the Ed25519 key and the signature of its Go library's tests", () => {
    const seed = Buffer.from('VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=', 'base64')
    const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed])
    const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    const raw = createPublicKey(privateKey).export({ format: 'jwk' }).x!
    const key = `whpk_${Buffer.from(raw, 'base64url').toString('base64')}`
    const signature =
      'v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=='
    for (const [scheme, name] of [
      ['STANDARD_WEBHOOKS', 'webhook'],
      ['SVIX', 'svix'],
    ] as const)
      passes(
        settingsOf(scheme, key),
        headOf(headers(signature, PUBLISHED_SECONDS, ID, name), at),
        PUBLISHED_BODY,
      )
  })
})

describe('GitHub and Meta', () => {
  test.each(BODIES)("as GitHub's library signs %#", async body => {
    const head = headOf({ 'x-hub-signature-256': await signAsGitHub('sécret', body) })
    passes(settingsOf('GITHUB', 'sécret'), head, body)
    passes(settingsOf('META', 'sécret'), head, body)
  })

  test("GitHub's documented example", () => {
    const signature = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
    const settings = settingsOf('GITHUB', "It's a Secret to Everybody")
    passes(settings, headOf({ 'x-hub-signature-256': signature }), 'Hello, World!')
  })
})

describe('Stripe', () => {
  test.each(BODIES)('as its library signs %#, and as it accepts', body => {
    const secret = 'whsec_test_secret'
    const header = Stripe.webhooks.generateTestHeaderString({ payload: body, secret, timestamp: SECONDS })
    const settings = settingsOf('STRIPE', secret)
    passes(settings, headOf({ 'stripe-signature': header }), body)
    // Two secrets sign while one is rolled.
    const rolled = header.replace(',v1=', `,v1=${'0'.repeat(64)},v1=`)
    passes(settings, headOf({ 'stripe-signature': `${rolled},v0=6ffbb59b2300aae63f272406069a9788` }), body)
    // The scheme v0 of test events is made with the same secret and is no proof.
    const v0 = header.replace('v1=', 'v0=')
    expect(answer(settings, headOf({ 'stripe-signature': v0 }), Buffer.from(body))).toBe(
      'signature_malformed',
    )
  })

  test('a vendor with a header of the same form has a generic scheme', () => {
    const header = Stripe.webhooks.generateTestHeaderString({
      payload: BODY,
      secret: 's',
      timestamp: SECONDS,
    })
    const generic = genericOf({
      header: 'calendly-webhook-signature',
      prefix: 'v1=',
      signed: '{timestamp}.{body}',
      timestampHeader: 'calendly-webhook-signature',
    })
    const head = headOf({ 'calendly-webhook-signature': header })
    passes(settingsOf('GENERIC_HMAC', 's', { generic }), head, BODY)
  })
})

test('Shopify, as @shopify/shopify-api 15.0.0 accepts', () => {
  const head = headOf({ 'x-shopify-hmac-sha256': 'd/4WLI/WVpr8QtIhsDHiLvNAGerUan7zTuoscDHUr9g=' })
  passes(settingsOf('SHOPIFY', 'shpss_secret'), head, BODY)
})

test("Slack's documented example", () => {
  const head = headOf(
    {
      'x-slack-request-timestamp': '1531420618',
      'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
    },
    { receivedAtMs: 1_531_420_620_000 },
  )
  const body =
    'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V' +
    '&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=' +
    '&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN' +
    '&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
  passes(settingsOf('SLACK', '8f742231b10e8888abcd99yyyzzz85a5'), head, body)
})

describe('Twilio', () => {
  const settings = settingsOf('TWILIO', '12345')
  const DOCUMENTED = 'https://mycompany.com/myapp.php?foo=1&bar=2'
  const signed = (signature: string, url: string) => headOf({ 'x-twilio-signature': signature }, { url })
  const form =
    'Digits=1234&CallSid=CA1234567890ABCDE&To=%2B18005551212&Caller=%2B14158675309&From=%2B14158675309'

  test("the values of its libraries' tests, with ports added and removed", () => {
    passes(settings, signed('RSOYDt4T1cUTdK1PDd93/VVr8B8=', DOCUMENTED), form)
    const withPort = DOCUMENTED.replace('.com', '.com:1234')
    passes(settings, signed('RSOYDt4T1cUTdK1PDd93/VVr8B8=', withPort), form)
    passes(settings, signed('kvajT1Ptam85bY51eRf/AJRuM3w=', DOCUMENTED), form)
    const http = DOCUMENTED.replace('https', 'http')
    passes(settings, signed('0ZXoZLH/DfblKGATFgpif+LLRf4=', http), form)
    passes(settings, signed('Zmvh+3yNM1Phv2jhDCwEM3q5ebU=', withPort.replace('https', 'http')), form)
    const twice = 'Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234'
    passes(settings, signed('IK+Dwps556ElfBT0I3Rgjkr1wJU=', DOCUMENTED), twice)
  })

  test.each([
    ['HudR8WPmkxPAHszV9AQZf9WOG6o=', 'https://weir.example.com/v1/WHK01'],
    ['WHxPCuXC36ghEzoApvoGWVPxW4Q=', 'https://weir.example.com/v1/WHK01'],
    ['qPFxl7OhO7IOHQ9Hs/SC7XmFENI=', 'https://weir.example.com:8443/v1/WHK01?a=1'],
    ['Yq5c8iofwgkYRIodUXmHpxGyjxs=', 'http://weir.example.com/v1/WHK01'],
    ['4hP9gnvqaIfBvs6sBdwQzJxF3mo=', 'http://weir.example.com/v1/WHK01'],
  ])('a form as twilio 6.2.0 signs it: %s', (signature, url) => {
    const body =
      'SmsSid=SM1&Body=Gr%C3%BC%C3%9Fe+%F0%9F%8C%8A+a%26b%3Dc&From=%2B14158675309&Empty=' +
      '&MediaUrl=b&MediaUrl=a&MediaUrl=b&a=1&B=2'
    passes(settings, signed(signature, url), body)
    // The same fields in another order are the same message.
    const sorted = body.split('&').reverse().join('&')
    expect(answer(settings, signed(signature, url), Buffer.from(sorted))).toBe('ok')
    for (const other of [url.replace('https', 'http').replace('WHK01', 'WHK02'), `${url}?`, `${url}/`])
      expect(answer(settings, signed(signature, other), Buffer.from(body))).toBe('signature_mismatch')
  })

  test('the port of an IPv6 address is not a part of the address', () => {
    const body = 'a=1'
    const made = (url: string) => hmac('sha1', '12345', 'base64', `${url}a1`)
    const [bare, standard, other] = ['', ':443', ':8443'].map(port => `https://[2001:db8::1]${port}/v1/WHK01`)
    for (const [from, to] of [
      [bare, bare],
      [standard, bare],
      [bare, other],
      [other, other],
    ] as const)
      passes(settings, signed(made(from!), to!), body)
    expect(answer(settings, signed(made(other!), bare!), Buffer.from(body))).toBe('signature_mismatch')
  })

  test('a body of JSON by its SHA-256 in the URL', () => {
    const hash = '0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620'
    const url = `${DOCUMENTED}&bodySHA256=${hash}`
    const body = '{"property": "value", "boolean": true}'
    const signature = 'a9nBmqA0ju/hNViExpshrM61xv4='
    passes(settings, signed(signature, url), body)
    // Another body with its own hash, and the body without a hash in the URL.
    for (const other of [url.replace(hash, hash.replace('0', '1')), DOCUMENTED, `${url}&bodySHA256=`])
      expect(answer(settings, signed(signature, other), Buffer.from(body))).toBe('signature_mismatch')
  })

  test('a form of thousands of fields is not sorted', () => {
    const body = 'a=1&'.repeat(250_000)
    const signature = hmac('sha1', '12345', 'base64', `${DOCUMENTED}a1`)
    const asked = (text: string) => answer(settings, signed(signature, DOCUMENTED), Buffer.from(text))
    expect(asked('a=1&'.repeat(999))).toBe('ok')
    expect(asked('a=1&'.repeat(1_000))).toBe('signature_mismatch')
    expect(asked(body)).toBe('signature_mismatch')
  })
})

describe('SendGrid', () => {
  const library = new EventWebhook()
  const head = (signature: string, time: string, receivedAtMs = 1000 * Number(time)) =>
    headOf(
      {
        'x-twilio-email-event-webhook-signature': signature,
        'x-twilio-email-event-webhook-timestamp': time,
      },
      { receivedAtMs },
    )

  test("the values of its library's tests", () => {
    const key =
      'MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g=='
    const signature =
      'MEUCIGHQVtGj+Y3LkG9fLcxf3qfI10QysgDWmMOVmxG0u6ZUAiEAyBiXDWzM+uOe5W0JuG+luQAbPIqHh89M15TluLtEZtM='
    const event = {
      email: 'hello@world.com',
      event: 'dropped',
      reason: 'Bounced Address',
      sg_event_id: 'ZHJvcC0xMDk5NDkxOS1MUnpYbF9OSFN0T0doUTRrb2ZTbV9BLTA',
      sg_message_id: 'LRzXl_NHStOGhQ4kofSm_A.filterdrecv-p3mdw1-756b745b58-kmzbl-18-5F5FC76C-9.0',
      'smtp-id': '<LRzXl_NHStOGhQ4kofSm_A@ismtpd0039p1iad1.sendgrid.net>',
      timestamp: 1600112492,
    }
    passes(settingsOf('SENDGRID', key), head(signature, '1600112502'), `${JSON.stringify([event])}\r\n`)
  })

  test.each(BODIES)('what its library accepts: %#', body => {
    const { privateKey, shown } = p256Pair()
    const time = String(SECONDS)
    const signature = sign('sha256', Buffer.from(time + body), privateKey).toString('base64')
    const key = library.convertPublicKeyToECDSA(shown)
    expect(library.verifySignature(key, body, signature, time)).toBe(true)
    passes(settingsOf('SENDGRID', shown), head(signature, time), body)
  })
})

test.each(BODIES)('Discord, what its library accepts: %#', async body => {
  const { privateKey, raw } = ed25519Pair()
  const time = String(SECONDS)
  const key = raw.toString('hex')
  const signature = sign(null, Buffer.from(time + body), privateKey).toString('hex')
  expect(await verifyKey(body, signature, time, key)).toBe(true)
  const head = headOf({ 'x-signature-ed25519': signature, 'x-signature-timestamp': time })
  passes(settingsOf('DISCORD', key), head, body)
})

test('Linear, as @linear/sdk 98.0.0 accepts', () => {
  const signature = '37f2499c4fc40f8dc92286f5431926dba3c3244193abf530d2b4019df0b2d119'
  passes(settingsOf('LINEAR', 'lin_wh_secret'), headOf({ 'linear-signature': signature }), BODY)
})

test('Paddle, as @paddle/paddle-node-sdk 3.10.0 accepts', () => {
  const h1 = '73bc2fe413c00d0f46854e0106c91993a80c5662703a1994a4ee1e193be926da'
  const settings = settingsOf('PADDLE', 'pdl_ntfset_secret')
  passes(settings, headOf({ 'paddle-signature': `ts=1768478400;h1=${h1}` }), BODY)
  const rotated = `ts=1768478400;h1=${'0'.repeat(64)};h1=${h1}`
  passes(settings, headOf({ 'paddle-signature': rotated }), BODY)
})

describe('HubSpot v3', () => {
  const settings = settingsOf('HUBSPOT', 'yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy')
  const head = (url: string) =>
    headOf(
      {
        'x-hubspot-signature-v3': 'oJpH8E9qL8QT8Fu/ldgPUW7wm5D7F0WRYwAJ4+X2Keg=',
        'x-hubspot-request-timestamp': String(AT_MS),
      },
      { url },
    )

  test('as @hubspot/api-client 14.0.1 signs, with the characters that HubSpot signs decoded', () => {
    const encoded = 'https://www.example.com/webhook_uri?a=x%3Ay%2fz%40%21%24%27%28%29%2A%2C%3B&b=%20%25'
    passes(settings, head(encoded), BODY)
    passes(settings, head("https://www.example.com/webhook_uri?a=x:y/z@!$'()*,;&b=%20%25"), BODY)
    for (const other of [
      encoded.replace('%20', ' '),
      encoded.replace('%25', '%'),
      encoded.replace('%3A', '%253A'),
    ])
      expect(answer(settings, head(other), Buffer.from(BODY))).toBe('signature_mismatch')
    expect(answer(settings, { ...head(encoded), method: 'PUT' }, Buffer.from(BODY))).toBe(
      'signature_mismatch',
    )
  })
})
