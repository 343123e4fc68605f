/**
 * The signature schemes as a table. A scheme has one or two forms; a form says where its signatures
 * and its time stand, what is signed, with which algorithm, and how its secrets are written.
 * verify-signature.ts follows the table, so a scheme that fits in it takes no code.
 *
 * Tolerances are those that the vendor documents, or that its own library has. Where it names none,
 * its longest time for repeating a delivery is taken: a repeated request may have its first time,
 * and a source that refused it would lose its event.
 */
import type { GenericHmac, HmacAlgorithm, SignatureScheme, SignatureSettings } from '../../format/sender.ts'
import { ED25519_HEX, type KeyKind, P256_SPKI, TEXT, TOKEN, WHPK, WHSEC } from './signature-keys.ts'
import { type Template, templateOf } from './signed-text.ts'

/** The items of a header: those between separators that begin with a prefix, without it. */
export interface Place {
  readonly header: string
  /** Between two items; absent where the whole header is one. */
  readonly separator?: string | RegExp
  /** Absent where an item is the value itself. */
  readonly prefix?: string
}

/**
 * How a signature is written. HEX has lower-case digits. BASE64 has its padding, and BASE64URL may
 * have it. DER is BASE64 of no fixed length. TOKEN is text.
 */
export type Encoding = 'HEX' | 'HEX_ANY_CASE' | 'BASE64' | 'BASE64URL' | 'DER' | 'TOKEN'

export interface Form {
  readonly signature: Place
  readonly encoding: Encoding
  /** TOKEN compares the secret itself. */
  readonly algorithm: HmacAlgorithm | 'ED25519' | 'P256' | 'TOKEN'
  /** Where more than one is given, any of them may be what was signed. */
  readonly signed: readonly Template[]
  /** The header with the id of the delivery. */
  readonly idHeader?: string
  /**
   * Where the time stands: in a header, or in the body as a number under this name. It must be
   * signed. Absent where the scheme has none.
   */
  readonly timestamp?: Place | { readonly property: string }
  /** Where the settings give none. */
  readonly toleranceSeconds?: number
  readonly key: KeyKind
  /** The form takes the secrets that begin so. One without a prefix takes all that are left. */
  readonly secretPrefix?: string
}

const MINUTE = 60
const FIVE_MINUTES = 5 * MINUTE

/** Standard Webhooks under its own header names, and under those of Svix, which it comes from. */
function standardWebhooks(name: 'webhook' | 'svix'): { readonly shared: Form; readonly asymmetric: Form } {
  const header = `${name}-signature`
  const both = {
    encoding: 'BASE64',
    signed: [templateOf('{id}.{timestamp}.{body}')],
    idHeader: `${name}-id`,
    timestamp: { header: `${name}-timestamp` },
    toleranceSeconds: FIVE_MINUTES,
  } as const
  const place = (prefix: string): Place => ({ header, separator: ' ', prefix })
  return {
    shared: { ...both, signature: place('v1,'), algorithm: 'SHA256', key: WHSEC },
    asymmetric: {
      ...both,
      signature: place('v1a,'),
      algorithm: 'ED25519',
      key: WHPK,
      secretPrefix: 'whpk_',
    },
  }
}

const STANDARD = standardWebhooks('webhook')
const SVIX = standardWebhooks('svix')

/** GitHub's scheme, which Meta uses under the same name. */
const HUB_SIGNATURE: Form = {
  signature: { header: 'x-hub-signature-256', prefix: 'sha256=' },
  encoding: 'HEX',
  algorithm: 'SHA256',
  signed: [templateOf('{body}')],
  key: TEXT,
}

const FORMS: Readonly<Record<Exclude<SignatureScheme, 'GENERIC_HMAC'>, readonly Form[]>> = {
  STANDARD_WEBHOOKS: [STANDARD.asymmetric, STANDARD.shared],
  SVIX: [SVIX.asymmetric, SVIX.shared],
  GITHUB: [HUB_SIGNATURE],
  META: [HUB_SIGNATURE],
  STRIPE: [
    {
      signature: { header: 'stripe-signature', separator: ',', prefix: 'v1=' },
      encoding: 'HEX',
      algorithm: 'SHA256',
      signed: [templateOf('{timestamp}.{body}')],
      timestamp: { header: 'stripe-signature', separator: ',', prefix: 't=' },
      toleranceSeconds: FIVE_MINUTES,
      key: TEXT, // with its `whsec_`, which is no base64
    },
  ],
  SHOPIFY: [
    {
      signature: { header: 'x-shopify-hmac-sha256' },
      encoding: 'BASE64',
      algorithm: 'SHA256',
      signed: [templateOf('{body}')],
      key: TEXT,
    },
  ],
  SLACK: [
    {
      signature: { header: 'x-slack-signature', prefix: 'v0=' },
      encoding: 'HEX',
      algorithm: 'SHA256',
      signed: [templateOf('v0:{timestamp}:{body}')],
      timestamp: { header: 'x-slack-request-timestamp' },
      toleranceSeconds: FIVE_MINUTES,
      key: TEXT,
    },
  ],
  // A signing token signs as Standard Webhooks says; a secret token is sent as it is. A webhook of
  // GitLab may have both, and then sends both.
  GITLAB: [
    { ...STANDARD.shared, secretPrefix: 'whsec_' },
    {
      signature: { header: 'x-gitlab-token' },
      encoding: 'TOKEN',
      algorithm: 'TOKEN',
      signed: [],
      key: TOKEN,
    },
  ],
  ZOOM: [
    {
      signature: { header: 'x-zm-signature', prefix: 'v0=' },
      encoding: 'HEX',
      algorithm: 'SHA256',
      signed: [templateOf('v0:{timestamp}:{body}')],
      timestamp: { header: 'x-zm-request-timestamp' },
      toleranceSeconds: 180 * MINUTE, // it tries again after 5, 30 and 90 minutes
      key: TEXT,
    },
  ],
  TWILIO: [
    {
      signature: { header: 'x-twilio-signature' },
      encoding: 'BASE64',
      algorithm: 'SHA1',
      signed: [templateOf('{twilioUrl}{twilioFields}'), templateOf('{twilioUrlWithPort}{twilioFields}')],
      key: TEXT,
    },
  ],
  SENDGRID: [
    {
      signature: { header: 'x-twilio-email-event-webhook-signature' },
      encoding: 'DER',
      algorithm: 'P256',
      signed: [templateOf('{timestamp}{body}')],
      timestamp: { header: 'x-twilio-email-event-webhook-timestamp' },
      toleranceSeconds: 25 * 60 * MINUTE, // it tries again for 24 hours
      key: P256_SPKI,
    },
  ],
  // The header linear-timestamp is not signed, so whoever repeats a request can change it.
  LINEAR: [
    {
      signature: { header: 'linear-signature' },
      encoding: 'HEX',
      algorithm: 'SHA256',
      signed: [templateOf('{body}')],
      timestamp: { property: 'webhookTimestamp' },
      toleranceSeconds: MINUTE,
      key: TEXT,
    },
  ],
  PADDLE: [
    {
      signature: { header: 'paddle-signature', separator: ';', prefix: 'h1=' },
      encoding: 'HEX',
      algorithm: 'SHA256',
      signed: [templateOf('{timestamp}:{body}')],
      timestamp: { header: 'paddle-signature', separator: ';', prefix: 'ts=' },
      // Paddle's library has 5 s, as long as a request may wait here for room.
      toleranceSeconds: MINUTE,
      key: TEXT,
    },
  ],
  HUBSPOT: [
    {
      signature: { header: 'x-hubspot-signature-v3' },
      encoding: 'BASE64',
      algorithm: 'SHA256',
      signed: [templateOf('{method}{hubSpotUrl}{body}{timestamp}')],
      timestamp: { header: 'x-hubspot-request-timestamp' },
      toleranceSeconds: FIVE_MINUTES,
      key: TEXT,
    },
  ],
  DISCORD: [
    {
      signature: { header: 'x-signature-ed25519' },
      encoding: 'HEX',
      algorithm: 'ED25519',
      signed: [templateOf('{timestamp}{body}')],
      timestamp: { header: 'x-signature-timestamp' },
      toleranceSeconds: 15 * MINUTE, // it tries again for 10 minutes
      key: ED25519_HEX,
    },
  ],
  TWITCH: [
    {
      signature: { header: 'twitch-eventsub-message-signature', prefix: 'sha256=' },
      encoding: 'HEX',
      algorithm: 'SHA256',
      signed: [templateOf('{id}{timestamp}{body}')],
      idHeader: 'twitch-eventsub-message-id',
      timestamp: { header: 'twitch-eventsub-message-timestamp' },
      toleranceSeconds: 10 * MINUTE,
      key: TEXT,
    },
  ],
}

/** The forms of a scheme, in the order in which they take secrets. */
export function formsOf({ scheme, generic }: SignatureSettings): readonly Form[] {
  if (scheme !== 'GENERIC_HMAC') return FORMS[scheme]
  return generic === null ? [] : [genericForm(generic)]
}

/** The form that takes a secret. */
export function formOf(forms: readonly Form[], secret: string): Form | undefined {
  return forms.find(({ secretPrefix }) => secretPrefix === undefined || secret.startsWith(secretPrefix))
}

function genericForm(generic: GenericHmac): Form {
  const { header, algorithm, encoding, prefix, signed, timestampHeader, idHeader } = generic
  const items = /[,;]/.test(prefix) ? { header } : { header, separator: GENERIC_SEPARATOR }
  return {
    signature: { ...items, prefix },
    encoding: encoding === 'HEX' ? 'HEX_ANY_CASE' : encoding,
    algorithm,
    signed: [templateOf(signed)],
    ...(idHeader === null ? {} : { idHeader }),
    ...(timestampHeader === null ? {} : { timestamp: genericTime(header, timestampHeader) }),
    toleranceSeconds: FIVE_MINUTES,
    key: TEXT,
  }
}

/** Neither stands in hexadecimal digits or in base64. */
const GENERIC_SEPARATOR = /[,;] */

function genericTime(header: string, timestampHeader: string): Place {
  if (timestampHeader !== header) return { header: timestampHeader }
  return { header, separator: GENERIC_SEPARATOR, prefix: 't=' }
}
