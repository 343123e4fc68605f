/**
 * Every preset as its sender uses it, over both HTTP libraries. A source that is made by the preset
 * alone takes the requests that the sender's documentation publishes, signed by the scheme, and
 * refuses them unsigned. A retry stores nothing twice where the preset says so.
 */
import { createHash, createHmac, sign } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Preset } from '../../src/catalog/presets/preset.ts'
import { PRESET_NAMES, PRESETS, type PresetName } from '../../src/catalog/presets.ts'
import type { GenericHmac } from '../../src/format/sender.ts'
import { EXAMPLES, type Example } from '../catalog/preset-examples.ts'
import { ed25519Pair, p256Pair } from '../parse/sender/signing.ts'
import { createSource } from '../util/senders.ts'
import { startServer, type TestServer } from '../util/server.ts'

type Headers = Record<string, string>

/** A request before it is signed. */
interface Unsigned {
  readonly url: string
  readonly headers: Headers
  readonly body: string
}

const SECRET = 'a-secret-of-32-characters-or-so-'
const WHSEC = Buffer.from(SECRET).toString('base64')
const discord = ed25519Pair()
const sendgrid = p256Pair()
const SECRETS: Readonly<Record<string, string>> = {
  STANDARD_WEBHOOKS: `whsec_${WHSEC}`,
  SVIX: `whsec_${WHSEC}`,
  DISCORD: discord.raw.toString('hex'),
  SENDGRID: sendgrid.shown,
}

const seconds = () => String(Math.floor(Date.now() / 1000))
const mac = (text: string, encoding: 'hex' | 'base64' | 'base64url' = 'hex', algorithm = 'sha256') =>
  createHmac(algorithm, SECRET).update(text).digest(encoding)

function standard(name: string, { headers, body }: Unsigned): Headers {
  const [id, at] = [headers[`${name}-id`] ?? 'msg_1', seconds()]
  return {
    [`${name}-id`]: id,
    [`${name}-timestamp`]: at,
    [`${name}-signature`]: `v1,${mac(`${id}.${at}.${body}`, 'base64')}`,
  }
}

function slackLike(header: string, timeHeader: string, { body }: Unsigned): Headers {
  const at = seconds()
  return { [timeHeader]: at, [header]: `v0=${mac(`v0:${at}:${body}`)}` }
}

/** By scheme: the headers of the signature, as the vendor documents them. */
const SIGNERS: Readonly<Record<string, (request: Unsigned) => Headers>> = {
  STANDARD_WEBHOOKS: request => standard('webhook', request),
  SVIX: request => standard('svix', request),
  GITHUB: ({ body }) => ({ 'x-hub-signature-256': `sha256=${mac(body)}` }),
  META: ({ body }) => ({ 'x-hub-signature-256': `sha256=${mac(body)}` }),
  SHOPIFY: ({ body }) => ({ 'x-shopify-hmac-sha256': mac(body, 'base64') }),
  GITLAB: () => ({ 'x-gitlab-token': SECRET }),
  LINEAR: ({ body }) => ({ 'linear-signature': mac(body) }),
  STRIPE: ({ body }) => {
    const at = seconds()
    return { 'stripe-signature': `t=${at},v1=${mac(`${at}.${body}`)}` }
  },
  PADDLE: ({ body }) => {
    const at = seconds()
    return { 'paddle-signature': `ts=${at};h1=${mac(`${at}:${body}`)}` }
  },
  SLACK: request => slackLike('x-slack-signature', 'x-slack-request-timestamp', request),
  ZOOM: request => slackLike('x-zm-signature', 'x-zm-request-timestamp', request),
  HUBSPOT: ({ url, body }) => {
    const at = String(Date.now())
    return {
      'x-hubspot-request-timestamp': at,
      'x-hubspot-signature-v3': mac(`POST${url}${body}${at}`, 'base64'),
    }
  },
  TWITCH: ({ headers, body }) => {
    const [id, at] = [headers['twitch-eventsub-message-id'] ?? '', new Date().toISOString()]
    const signature = `sha256=${mac(`${id}${at}${body}`)}`
    return { 'twitch-eventsub-message-timestamp': at, 'twitch-eventsub-message-signature': signature }
  },
  TWILIO: ({ url, body }) => {
    const fields = [...new URLSearchParams(body)].sort(([a], [b]) => (a < b ? -1 : 1))
    return { 'x-twilio-signature': mac(url + fields.flat().join(''), 'base64', 'sha1') }
  },
  SENDGRID: ({ body }) => {
    const at = seconds()
    const signature = sign('sha256', Buffer.from(at + body), sendgrid.privateKey).toString('base64')
    return {
      'x-twilio-email-event-webhook-timestamp': at,
      'x-twilio-email-event-webhook-signature': signature,
    }
  },
  DISCORD: ({ body }) => {
    const at = seconds()
    const signature = sign(null, Buffer.from(at + body), discord.privateKey).toString('hex')
    return { 'x-signature-timestamp': at, 'x-signature-ed25519': signature }
  },
}

function generic(settings: GenericHmac, { url, headers, body }: Unsigned): Headers {
  const [at, id] = [seconds(), settings.idHeader === null ? '' : (headers[settings.idHeader] ?? 'id-1')]
  const values: Readonly<Record<string, string>> = { body, timestamp: at, id, url, method: 'POST' }
  const text = settings.signed.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '')
  const encoding = settings.encoding.toLowerCase() as 'hex' | 'base64' | 'base64url'
  const signature = settings.prefix + mac(text, encoding, settings.algorithm.toLowerCase())
  const { header, timestampHeader, idHeader } = settings
  return {
    ...(idHeader === null ? {} : { [idHeader]: id }),
    ...(timestampHeader === null || timestampHeader === header ? {} : { [timestampHeader]: at }),
    [header]: timestampHeader === header ? `t=${at},${signature}` : signature,
  }
}

function signed({ signature }: Preset, request: Unsigned): Unsigned {
  if (signature === null) return request
  const made =
    signature.generic === null ? SIGNERS[signature.scheme]!(request) : generic(signature.generic, request)
  return { ...request, headers: { ...request.headers, ...made } }
}

/** The request of an example. A form's fields are `accept`ed as one. */
function requestOf(name: PresetName, url: string, { headers = {}, body }: Example): Unsigned {
  const isForm = PRESETS[name].accept.includes('FORM') && name !== 'GITHUB'
  const isText = name === 'SNS'
  const type = isForm
    ? 'application/x-www-form-urlencoded'
    : isText
      ? 'text/plain; charset=UTF-8'
      : 'application/json'
  // A signed time in the body is that of the delivery.
  const now = name === 'LINEAR' ? { ...(body as object), webhookTimestamp: Date.now() } : body
  return {
    url,
    headers: { 'content-type': type, ...headers },
    body: isForm ? new URLSearchParams(now as Headers).toString() : JSON.stringify(now),
  }
}

async function post({ url, headers, body }: Unsigned) {
  const answer = await fetch(url, { method: 'POST', headers, body })
  return {
    status: answer.status,
    accepted: answer.headers.get('x-events-accepted'),
    text: await answer.text(),
  }
}

describe.each(['uws', 'node'])('over %s', http => {
  let server: TestServer
  beforeAll(async () => {
    server = await startServer({ args: ['--http', http] })
  })
  afterAll(async () => {
    await server.stop()
  })

  test.each(PRESET_NAMES)('%s', async name => {
    const preset: Preset = PRESETS[name]
    const { signature } = preset
    const secrets = signature === null ? [] : [SECRETS[signature.scheme] ?? SECRET]
    const source = await createSource(server.graphql, {
      preset: name,
      ...(signature === null ? {} : { signature: { secrets } }),
    })
    const firstColumn = preset.columns[0]!.name
    let stored = 0
    for (const example of EXAMPLES[name]) {
      const request = requestOf(name, source.url, example)
      if (signature !== null) expect(await post(request), 'unsigned').toMatchObject({ status: 401 })
      const answer = await post(signed(preset, request))
      expect(answer, answer.text).toMatchObject({ status: 200 })
      stored += Number(answer.accepted)
    }
    expect(stored).toBeGreaterThan(0)
    expect((await source.rows([firstColumn])).length).toBe(stored)
    const isKeyed = preset.orderBy !== null || (preset.uniqueId !== null && preset.timestamp !== null)
    if (!isKeyed) return
    for (const example of EXAMPLES[name])
      expect(await post(signed(preset, requestOf(name, source.url, example)))).toMatchObject({ status: 200 })
    expect((await source.rows([firstColumn])).length, 'after a retry').toBe(stored)
  })

  test('Twilio with a JSON body signs its digest in the query', async () => {
    const source = await createSource(server.graphql, { signature: { scheme: 'TWILIO', secrets: [SECRET] } })
    const body = '{"id":1}'
    const url = `${source.url}?bodySHA256=${createHash('sha256').update(body).digest('hex')}`
    const headers = { 'content-type': 'application/json', 'x-twilio-signature': mac(url, 'base64', 'sha1') }
    expect(await post({ url, headers, body })).toMatchObject({ status: 200 })
    expect(await post({ url, headers, body: '{"id":2}' })).toMatchObject({ status: 401 })
  })
})
