/**
 * The settings of a source for senders that were not written for Weir: request forms beyond a POST
 * of JSON, and signatures. The catalog keeps them, the API shows them, the parse workers follow
 * them.
 */

/**
 * Request forms that a source takes only where it asks for them.
 *
 *   FORM     application/x-www-form-urlencoded
 *   TEXT     text/plain that holds JSON
 *   PUT      PUT and PATCH, with the meaning of POST
 *   PATH     a path after the webhook's id, and a trailing slash
 *   BROWSER  pages in a browser: CORS and `navigator.sendBeacon`
 */
export const ACCEPTS = ['FORM', 'TEXT', 'PUT', 'PATH', 'BROWSER'] as const
export type Accept = (typeof ACCEPTS)[number]

/** How senders sign; parse/sender/signature-schemes.ts says what each scheme is. */
export const SIGNATURE_SCHEMES = [
  'STANDARD_WEBHOOKS',
  'GITHUB',
  'STRIPE',
  'SHOPIFY',
  'SLACK',
  'GITLAB',
  'SVIX',
  'ZOOM',
  'META',
  'TWILIO',
  'SENDGRID',
  'LINEAR',
  'PADDLE',
  'HUBSPOT',
  'DISCORD',
  'TWITCH',
  'GENERIC_HMAC',
] as const
export type SignatureScheme = (typeof SIGNATURE_SCHEMES)[number]

/** How the requests of a source are signed. `signatureProblem` says whether they can be used. */
export interface SignatureSettings {
  readonly scheme: SignatureScheme
  /**
   * Secrets, or public keys where the scheme has them: `whpk_…` of STANDARD_WEBHOOKS and SVIX,
   * SENDGRID, DISCORD. A request that is signed with any of them passes, so a secret is rotated by
   * adding the new one first. 1 to SIGNATURE_SECRETS_MAX.
   */
  readonly secrets: readonly string[]
  /**
   * Seconds that a signed timestamp may differ from this server's clock, before or after it. The
   * scheme's own tolerance applies where it is null.
   */
  readonly toleranceSeconds: number | null
  /** Given for GENERIC_HMAC, and null for every other scheme. */
  readonly generic: GenericHmac | null
}

export type HmacAlgorithm = 'SHA1' | 'SHA256' | 'SHA384' | 'SHA512'

/** An HMAC in a header, as most senders without a scheme of their own have it. */
export interface GenericHmac {
  /**
   * Lower-case name of the header with the signature. The header may hold several items with a
   * comma or a semicolon between them.
   */
  readonly header: string
  readonly algorithm: HmacAlgorithm
  /** Hexadecimal digits may have either case. BASE64 has its padding; BASE64URL may have it. */
  readonly encoding: 'HEX' | 'BASE64' | 'BASE64URL'
  /**
   * Text before the signature in its item, such as `sha256=` or `v1=`; empty where there is none.
   * Items that do not begin with it are ignored.
   */
  readonly prefix: string
  /**
   * The signed text, with `{body}`, `{timestamp}`, `{id}`, `{url}` and `{method}` in it; most
   * senders have `{body}` alone. The values are signed as they were sent: braces in them mean
   * nothing.
   */
  readonly signed: string
  /**
   * Lower-case name of the header with the time of the signature: epoch seconds, epoch milliseconds
   * or RFC 3339. If it is `header` itself, the time is the item that begins with `t=`.
   */
  readonly timestampHeader: string | null
  /** Lower-case name of the header with the id of the delivery. */
  readonly idHeader: string | null
}

/**
 * What a source takes besides JSON events by POST and DELETE. Each part is off by default. The
 * place of its events in a body belongs to the pool's schema (`PoolSchema.eventsPath`).
 */
export interface SenderSettings {
  readonly accept: readonly Accept[]
  readonly signature: SignatureSettings | null
  /** The name of the preset that filled the settings. It decides which handshakes are answered. */
  readonly preset: string | null
  /** The token by which Meta asks whether a webhook wants its events. */
  readonly verifyToken: string | null
}

/** Those of a source without any. */
export const NO_SENDER: SenderSettings = { accept: [], signature: null, preset: null, verifyToken: null }

/** The parts of a request's head that a parse worker needs of a signed request. */
export interface SignedHead {
  /** In upper case, as on the request line. */
  readonly method: string
  /** The public URL of the webhook, with path and query as the sender wrote them. */
  readonly url: string
  /**
   * Lower-case name → value, one character for each byte, without spaces around it. It has only
   * headers that `signatureHeaders(settings)` names, and lacks those that were not sent. A header
   * that was sent more than once has the value REPEATED_HEADER.
   */
  readonly headers: Readonly<Record<string, string>>
  /** Wall clock in milliseconds since 1970 when the body was complete. */
  readonly receivedAtMs: number
}

/** Stands for the value of a header that was sent more than once. No header can have it. */
export const REPEATED_HEADER = '\n'

/**
 * The failed part of a signature's check, the code of a 401.
 *
 *   signature_missing    a header of the scheme is absent or empty
 *   signature_malformed  a header was sent twice, is too long, or is not in the scheme's form
 *   signature_expired    the signed time differs too much from this server's clock
 *   signature_mismatch   no secret makes one of the request's signatures
 */
export type SignatureError =
  | 'signature_missing'
  | 'signature_malformed'
  | 'signature_expired'
  | 'signature_mismatch'

/**
 * Secrets of a source at once: the current one, the next one, and those of a few senders that share
 * the source. Each costs one HMAC over the body.
 */
export const SIGNATURE_SECRETS_MAX = 5
