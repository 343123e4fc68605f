/**
 * A sender of each scheme, as its vendor documents it and written without the code under test.
 * vendors_sign.test.ts shows that the vendors' own libraries agree with these senders.
 */
import {
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
} from 'node:crypto'
import {
  type GenericHmac,
  REPEATED_HEADER,
  type SignatureError,
  type SignatureScheme,
  type SignatureSettings,
  type SignedHead,
} from '../../../src/format/sender.ts'
import { verifySignature } from '../../../src/parse/sender/verify-signature.ts'

const URL_SENT = 'https://weir.example.com/v1/WHK01?shop=a%3Ab%2Fc'
/** A body with what templates, forms and re-encoding might stumble over. */
export const BODY = Buffer.from(
  '{"id": "evt_1","text":"{timestamp}.{body} é 🌊 a+b&c=%41","n":1.0,\r\n"webhookTimestamp":1768478400000}',
)
/** 2026-01-15T12:00:00Z, the time in the body above. */
export const AT_MS = 1_768_478_400_000

/** Signs requests of one scheme with one secret. */
export interface Sender {
  readonly name: string
  readonly settings: SignatureSettings
  /** The header with the signature, and the signature without what stands before it. */
  readonly header: string
  readonly before: string
  /** The header with the signed time; undefined where there is none. */
  readonly timeHeader?: string
  /** Seconds that the time may differ; undefined where none is signed. */
  readonly tolerance?: number
  /** Signs a body at a time as the sender writes it. */
  send(body: Uint8Array, time?: string): SignedHead
}

/** The answer to a request: `ok`, or the failed part. */
export function answer(
  settings: SignatureSettings,
  head: SignedHead,
  body: Uint8Array = BODY,
): 'ok' | SignatureError {
  return verifySignature(settings, head, body) ?? 'ok'
}

export function settingsOf(
  scheme: SignatureScheme,
  secrets: string | readonly string[],
  more: Partial<SignatureSettings> = {},
): SignatureSettings {
  return {
    scheme,
    secrets: typeof secrets === 'string' ? [secrets] : secrets,
    toleranceSeconds: null,
    generic: null,
    ...more,
  }
}

export function genericOf(more: Partial<GenericHmac> = {}): GenericHmac {
  return {
    header: 'x-signature',
    algorithm: 'SHA256',
    encoding: 'HEX',
    prefix: '',
    signed: '{body}',
    timestampHeader: null,
    idHeader: null,
    ...more,
  }
}

export function headOf(headers: Record<string, string>, more: Partial<SignedHead> = {}): SignedHead {
  return { method: 'POST', url: URL_SENT, headers, receivedAtMs: AT_MS, ...more }
}

/** The head with other headers; undefined removes one. */
export function withHeaders(head: SignedHead, changed: Record<string, string | undefined>): SignedHead {
  const entries = Object.entries({ ...head.headers, ...changed })
  const headers = Object.fromEntries(entries.filter(([, value]) => value !== undefined))
  return { ...head, headers: headers as Record<string, string> }
}

export function repeated(head: SignedHead, header: string): SignedHead {
  return withHeaders(head, { [header]: REPEATED_HEADER })
}

type Text = string | Uint8Array

/** An HMAC over texts one after another, in an encoding of Buffer. */
export function hmac(
  algorithm: string,
  key: Text,
  encoding: 'hex' | 'base64' | 'base64url',
  ...texts: Text[]
): string {
  const made = createHmac(algorithm, key)
  for (const text of texts) made.update(text)
  return made.digest().toString(encoding)
}

const bytesOf = (...texts: Text[]) => Buffer.concat(texts.map(text => Buffer.from(text)))
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')

/** The Ed25519 key of a number, and its public half as raw bytes. */
export function ed25519Pair(number = 1): { readonly privateKey: KeyObject; readonly raw: Buffer } {
  const seed = Buffer.alloc(32, number)
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed])
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const { x } = createPublicKey(privateKey).export({ format: 'jwk' })
  return { privateKey, raw: Buffer.from(x!, 'base64url') }
}

/** The P-256 key of a number, and its public half as SendGrid shows it. Signatures are random. */
export function p256Pair(number = 1): { readonly privateKey: KeyObject; readonly shown: string } {
  const d = Buffer.alloc(32, number)
  const curve = createECDH('prime256v1')
  curve.setPrivateKey(d)
  const point = curve.getPublicKey()
  const [x, y] = [point.subarray(1, 33), point.subarray(33)].map(half => half.toString('base64url'))
  const jwk = { kty: 'EC', crv: 'P-256', d: d.toString('base64url'), x: x!, y: y! }
  const privateKey = createPrivateKey({ format: 'jwk', key: jwk })
  const shown = base64(createPublicKey(privateKey).export({ format: 'der', type: 'spki' }))
  return { privateKey, shown }
}

const SECONDS = String(AT_MS / 1000)
const KEY_BYTES = Buffer.from('a key of 24 bytes, or so')

/** `id.timestamp.body` under the names of Standard Webhooks or of Svix. */
function standard(scheme: 'STANDARD_WEBHOOKS' | 'SVIX' | 'GITLAB', name: string): Sender {
  return {
    name: `${scheme} v1`,
    settings: settingsOf(scheme, `whsec_${base64(KEY_BYTES)}`),
    header: `${name}-signature`,
    before: 'v1,',
    timeHeader: `${name}-timestamp`,
    tolerance: 300,
    send: (body, time = SECONDS) =>
      headOf({
        [`${name}-id`]: 'msg_1',
        [`${name}-timestamp`]: time,
        [`${name}-signature`]: `v1,${hmac('sha256', KEY_BYTES, 'base64', `msg_1.${time}.`, body)}`,
      }),
  }
}

function asymmetric(scheme: 'STANDARD_WEBHOOKS' | 'SVIX', name: string): Sender {
  const { privateKey, raw } = ed25519Pair()
  return {
    ...standard(scheme, name),
    name: `${scheme} v1a`,
    settings: settingsOf(scheme, `whpk_${base64(raw)}`),
    before: 'v1a,',
    send: (body, time = SECONDS) =>
      headOf({
        [`${name}-id`]: 'msg_1',
        [`${name}-timestamp`]: time,
        [`${name}-signature`]: `v1a,${base64(sign(null, bytesOf(`msg_1.${time}.`, body), privateKey))}`,
      }),
  }
}

/** A scheme that signs the body alone with a secret's text. */
function plain(
  scheme: SignatureScheme,
  header: string,
  before: string,
  encoding: 'hex' | 'base64',
  more: Partial<SignatureSettings> = {},
): Sender {
  return {
    name: scheme,
    settings: settingsOf(scheme, SECRET, more),
    header,
    before,
    send: body => headOf({ [header]: before + hmac('sha256', SECRET, encoding, body) }),
  }
}

const SECRET = 'shared ßecret 🔑'

/** A scheme with a time in a header of its own. */
function timed(
  scheme: SignatureScheme,
  [header, timeHeader]: readonly [string, string],
  tolerance: number,
  before: string,
  signature: (body: Uint8Array, time: string) => string,
  more: { readonly time?: string; readonly settings?: SignatureSettings } = {},
): Sender {
  return {
    name: scheme,
    settings: more.settings ?? settingsOf(scheme, SECRET),
    header,
    before,
    timeHeader,
    tolerance,
    send: (body, time = more.time ?? SECONDS) =>
      headOf({ [header]: before + signature(body, time), [timeHeader]: time }),
  }
}

/** Both in one header, as Stripe and Paddle do. */
function joined(
  scheme: 'STRIPE' | 'PADDLE' | 'GENERIC_HMAC',
  header: string,
  [separator, timeName, name, between]: readonly [string, string, string, string],
  tolerance: number,
  more: Partial<SignatureSettings> = {},
): Sender {
  return {
    name: `${scheme} ${header}`,
    settings: settingsOf(scheme, SECRET, more),
    header,
    before: `${name}=`,
    tolerance,
    send: (body, time = SECONDS) =>
      headOf({
        [header]: `${timeName}=${time}${separator}${name}=${hmac('sha256', SECRET, 'hex', `${time}${between}`, body)}`,
      }),
  }
}

const DISCORD_KEYS = ed25519Pair()
const SENDGRID_KEYS = p256Pair()

const slackLike = (body: Uint8Array, time: string) => hmac('sha256', SECRET, 'hex', `v0:${time}:`, body)

/** The body's SHA-256 stands in Twilio's URL. */
const twilioUrl = (body: Uint8Array) =>
  `${URL_SENT}&bodySHA256=${createHash('sha256').update(body).digest('hex')}`

/** One sender of every form of every scheme. */
export const SENDERS: readonly Sender[] = [
  standard('STANDARD_WEBHOOKS', 'webhook'),
  asymmetric('STANDARD_WEBHOOKS', 'webhook'),
  standard('SVIX', 'svix'),
  asymmetric('SVIX', 'svix'),
  { ...standard('GITLAB', 'webhook'), name: 'GITLAB signing token' },
  plain('GITHUB', 'x-hub-signature-256', 'sha256=', 'hex'),
  plain('META', 'x-hub-signature-256', 'sha256=', 'hex'),
  plain('SHOPIFY', 'x-shopify-hmac-sha256', '', 'base64'),
  plain('LINEAR', 'linear-signature', '', 'hex'),
  joined('STRIPE', 'stripe-signature', [',', 't', 'v1', '.'], 300),
  joined('PADDLE', 'paddle-signature', [';', 'ts', 'h1', ':'], 60),
  timed('SLACK', ['x-slack-signature', 'x-slack-request-timestamp'], 300, 'v0=', slackLike),
  timed('ZOOM', ['x-zm-signature', 'x-zm-request-timestamp'], 10_800, 'v0=', slackLike),
  timed(
    'HUBSPOT',
    ['x-hubspot-signature-v3', 'x-hubspot-request-timestamp'],
    300,
    '',
    (body, time) =>
      hmac('sha256', SECRET, 'base64', 'POSThttps://weir.example.com/v1/WHK01?shop=a:b/c', body, time),
    { time: String(AT_MS) },
  ),
  timed(
    'SENDGRID',
    ['x-twilio-email-event-webhook-signature', 'x-twilio-email-event-webhook-timestamp'],
    90_000,
    '',
    (body, time) => base64(sign('sha256', bytesOf(time, body), SENDGRID_KEYS.privateKey)),
    { settings: settingsOf('SENDGRID', SENDGRID_KEYS.shown) },
  ),
  timed(
    'DISCORD',
    ['x-signature-ed25519', 'x-signature-timestamp'],
    900,
    '',
    (body, time) => sign(null, bytesOf(time, body), DISCORD_KEYS.privateKey).toString('hex'),
    { settings: settingsOf('DISCORD', DISCORD_KEYS.raw.toString('hex')) },
  ),
  {
    name: 'TWITCH',
    settings: settingsOf('TWITCH', SECRET),
    header: 'twitch-eventsub-message-signature',
    before: 'sha256=',
    timeHeader: 'twitch-eventsub-message-timestamp',
    tolerance: 600,
    send: (body, time = '2026-01-15T12:00:00.123456789Z') =>
      headOf({
        'twitch-eventsub-message-id': 'e76c6bd4-55c9-4987-8304-da1588d8988b',
        'twitch-eventsub-message-timestamp': time,
        'twitch-eventsub-message-signature': `sha256=${hmac('sha256', SECRET, 'hex', `e76c6bd4-55c9-4987-8304-da1588d8988b${time}`, body)}`,
      }),
  },
  {
    name: 'TWILIO JSON',
    settings: settingsOf('TWILIO', SECRET),
    header: 'x-twilio-signature',
    before: '',
    send: body =>
      headOf(
        { 'x-twilio-signature': hmac('sha1', SECRET, 'base64', twilioUrl(body)) },
        { url: twilioUrl(body) },
      ),
  },
  {
    name: 'GITLAB secret token',
    settings: settingsOf('GITLAB', 'a-token-of-gitlab'),
    header: 'x-gitlab-token',
    before: '',
    send: () => headOf({ 'x-gitlab-token': 'a-token-of-gitlab' }),
  },
  plain('GENERIC_HMAC', 'x-signature', '', 'hex', { generic: genericOf() }),
  joined('GENERIC_HMAC', 'calendly-webhook-signature', [',', 't', 'v1', '.'], 300, {
    generic: genericOf({
      header: 'calendly-webhook-signature',
      prefix: 'v1=',
      signed: '{timestamp}.{body}',
      timestampHeader: 'calendly-webhook-signature',
    }),
  }),
  {
    name: 'GENERIC_HMAC of everything',
    settings: settingsOf('GENERIC_HMAC', SECRET, {
      generic: genericOf({
        header: 'x-sig',
        algorithm: 'SHA512',
        encoding: 'BASE64URL',
        prefix: 'HMAC ',
        signed: '{method} {url}\n{id}|{timestamp}|{body}!',
        timestampHeader: 'x-time',
        idHeader: 'x-id',
      }),
    }),
    header: 'x-sig',
    before: 'HMAC ',
    timeHeader: 'x-time',
    tolerance: 300,
    send: (body, time = SECONDS) =>
      headOf({
        'x-id': 'id-1',
        'x-time': time,
        'x-sig': `HMAC ${hmac('sha512', SECRET, 'base64url', `POST ${URL_SENT}\nid-1|${time}|`, body, '!')}`,
      }),
  },
]
