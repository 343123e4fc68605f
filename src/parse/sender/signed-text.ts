/**
 * The text that a sender signs: a template such as `{timestamp}.{body}`, filled in with the parts
 * of a request.
 *
 * A template is split once, when it is written. A value is never searched for placeholders, so a
 * body that holds `{timestamp}` stays what it is.
 */
import { createHash } from 'node:crypto'
import type { SignedHead } from '../../format/sender.ts'

/** The parts of a signed request. */
export interface SignedRequest {
  readonly head: SignedHead
  /** The body's bytes as received. They may be in shared memory. */
  readonly body: Uint8Array
  /** The time as the sender wrote it; empty where the scheme signs none. */
  readonly timestamp: string
  /** The id of the delivery; empty where the scheme signs none. */
  readonly id: string
}

/** Text and bytes, one after another: the signed text of a request. Text is UTF-8. */
export type Pieces = readonly (string | Uint8Array)[]

/** Gives a part of the signed text; undefined where the request cannot have been signed so. */
type Piece = (request: SignedRequest) => string | Uint8Array | undefined

/** A template, split at its placeholders. */
export type Template = readonly Piece[]

/** Placeholders of GENERIC_HMAC. */
export const PLACEHOLDERS = ['body', 'timestamp', 'id', 'url', 'method']

/**
 * Fields of a form that Twilio signs; one with more is not sorted, so it has no right signature.
 * Twilio sends some 20 to 60.
 */
const SIGNED_FIELDS_MAX = 1_000

const PIECES: Readonly<Record<string, Piece>> = {
  body: ({ body }) => body,
  timestamp: ({ timestamp }) => timestamp,
  id: ({ id }) => id,
  url: ({ head }) => head.url,
  method: ({ head }) => head.method,
  hubSpotUrl: ({ head }) => hubSpotUrl(head.url),
  twilioUrl: ({ head }) => twilioUrl(head.url, false),
  twilioUrlWithPort: ({ head }) => twilioUrl(head.url, true),
  twilioFields: twilioFields,
}

const PLACEHOLDER = /\{(body|timestamp|id|url|method|hubSpotUrl|twilioUrl|twilioUrlWithPort|twilioFields)\}/

/** Splits a text at its placeholders: every second part is a name. */
export function splitTemplate(text: string): string[] {
  return text.split(PLACEHOLDER)
}

/** The template of a text. */
export function templateOf(text: string): Template {
  return splitTemplate(text).map((part, index) => (index % 2 === 0 ? () => part : PIECES[part]!))
}

/** Fills a template in; undefined where the request cannot have been signed so. */
export function fillIn(template: Template, request: SignedRequest): Pieces | undefined {
  const pieces: (string | Uint8Array)[] = []
  for (const piece of template) {
    const value = piece(request)
    if (value === undefined) return undefined
    pieces.push(value)
  }
  return pieces
}

const HUBSPOT_ENCODED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

/** HubSpot signs its URL with these characters decoded: `:/?@!$'()*,;`. */
function hubSpotUrl(url: string): string {
  return url.replace(HUBSPOT_ENCODED, encoded => decodeURIComponent(encoded))
}

/** Twilio signs its URL with the port of some requests, and without that of others. */
function twilioUrl(url: string, withPort: boolean): string {
  const begin = url.indexOf('://') + '://'.length
  const end = begin + url.slice(begin).search(/[/?#]|$/)
  const host = url.slice(begin, end)
  const colon = host.lastIndexOf(':')
  const hostEnd = colon > host.lastIndexOf(']') ? colon : host.length // an IPv6 address has colons
  const port = host.slice(hostEnd) || (url.startsWith('https:') ? ':443' : ':80')
  return url.slice(0, begin) + host.slice(0, hostEnd) + (withPort ? port : '') + url.slice(end)
}

const BODY_HASH = /[?&]bodySHA256=([^&#]*)/

/**
 * The fields of a form as Twilio signs them: sorted by name, then by value, each value once, all
 * joined. Another body has its SHA-256 in the URL, which is signed.
 */
function twilioFields({ head, body }: SignedRequest): string | undefined {
  const hash = BODY_HASH.exec(head.url)?.[1]
  if (hash !== undefined) return hash === createHash('sha256').update(body).digest('hex') ? '' : undefined
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString()
  let fields = 1
  for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1)) fields += 1
  if (fields > SIGNED_FIELDS_MAX) return undefined
  const values = new Map<string, Set<string>>()
  for (const [name, value] of new URLSearchParams(text)) {
    const known = values.get(name)
    if (known === undefined) values.set(name, new Set([value]))
    else known.add(value)
  }
  let signed = ''
  for (const name of [...values.keys()].sort())
    for (const value of [...values.get(name)!].sort()) signed += name + value
  return signed
}
