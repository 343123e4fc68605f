/**
 * Handshakes that stand in the body of a POST (format/handshake.ts). The worker asks here after the
 * signature was checked, with the inflated body, before an eventsPath is looked for.
 *
 *   SLACK       {"type": "url_verification", "challenge"}                    ►  the challenge
 *   ZOOM        {"event": "endpoint.url_validation", "payload": {plainToken}} ►  it and its HMAC
 *   TWITCH      a header, and {"challenge"}                                   ►  the challenge
 *   DISCORD     {"type": 1} of interactions                                   ►  {"type": 1}
 *               {"type": 0} of webhook events                                 ►  204
 *   EVENT_GRID  [{"eventType": "Microsoft.EventGrid.SubscriptionValidationEvent",
 *                 "data": {validationCode}}]                                  ►  the code
 *
 * A body that is no handshake, or is not valid, gives undefined: it goes the way of all events.
 */

import { createHmac } from 'node:crypto'
import { type HandshakeKind, type HandshakeReply, mayEcho } from '../../format/handshake.ts'
import { CLOSE_ARRAY, OPEN_ARRAY, OPEN_OBJECT } from '../characters.ts'
import { FOUND } from '../event-error.ts'
import { JsonScan } from '../json-scan.ts'
import { EventScan } from '../parse-event.ts'
import { makePaths } from '../path.ts'
import { unescapeInto } from '../unescape.ts'

/** Bytes of a body that may be a handshake. Those of the senders have up to some 3 kB. */
const HANDSHAKE_BYTES_MAX = 16 * 1024

/** The header that a Twitch handshake has, and only it, with this value. */
const TWITCH_TYPE = 'twitch-eventsub-message-type'

/** The headers, in lower case, that bodyHandshake reads for these kinds. */
export function handshakeHeaders(kinds: readonly HandshakeKind[]): readonly string[] {
  return kinds.includes('TWITCH') ? [TWITCH_TYPE] : []
}

/**
 * The answer to a handshake, or undefined where the body is none of this kind.
 * @param document the inflated body, whose signature was checked
 * @param secret the secret by which the request was signed; undefined where it was not signed.
 *   Only ZOOM asks for it
 * @param headers by lower-case name, at least those of handshakeHeaders()
 */
export function bodyHandshake(
  kind: HandshakeKind,
  document: Uint8Array,
  secret: () => string | undefined,
  headers: Readonly<Record<string, string>>,
): HandshakeReply | undefined {
  const answer = ANSWERS[kind]
  if (answer === undefined || document.length > HANDSHAKE_BYTES_MAX) return undefined
  if (kind === 'TWITCH' && headers[TWITCH_TYPE] !== 'webhook_callback_verification') return undefined
  return readProperties(document, kind === 'EVENT_GRID') ? answer(secret) : undefined
}

type Answer = (secret: () => string | undefined) => HandshakeReply | undefined

/** The handshakes that stand in bodies. */
export const BODY_HANDSHAKES: readonly HandshakeKind[] = ['SLACK', 'ZOOM', 'TWITCH', 'DISCORD', 'EVENT_GRID']

/** Each is called after readProperties. */
const ANSWERS: Readonly<Partial<Record<HandshakeKind, Answer>>> = {
  SLACK: () => (textAt('type') === 'url_verification' ? echo(textAt('challenge')) : undefined),
  TWITCH: () => echo(textAt('challenge')),
  ZOOM: secret => {
    const token = textAt('payload.plainToken')
    if (textAt('event') !== 'endpoint.url_validation') return undefined
    if (token === undefined || !ZOOM_TOKEN.test(token)) return undefined
    const signedBy = secret()
    return signedBy === undefined ? undefined : json(zoomTokens(token, signedBy))
  },
  DISCORD: () => {
    if (found('event') !== FOUND.nothing) return undefined // the type of a webhook event is 1 too
    const type = sourceAt('type')
    if (type === '0') return { status: 204, contentType: 'application/json', body: '' }
    return type === '1' ? json({ type: 1 }) : undefined
  },
  EVENT_GRID: () => {
    if (textAt('eventType') !== 'Microsoft.EventGrid.SubscriptionValidationEvent') return undefined
    const code = textAt('data.validationCode')
    return code === undefined ? undefined : json({ validationResponse: code })
  },
}

/**
 * IMPORTANT: Zoom signs its requests with the same HMAC, over texts such as `v0:1654503849:{…}`. A
 * token that could be such a text would have this server sign a request for somebody else.
 */
const ZOOM_TOKEN = /^[\w-]{1,256}$/

function zoomTokens(plainToken: string, secret: string) {
  return { plainToken, encryptedToken: createHmac('sha256', secret).update(plainToken).digest('hex') }
}

function json(value: object): HandshakeReply {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) }
}

function echo(text: string | undefined): HandshakeReply | undefined {
  return text === undefined ? undefined : { status: 200, contentType: 'text/plain', body: text }
}

// ── the properties of a body ────────────────────────────────────────────────────────────────────

const PROPERTIES = [
  'type',
  'challenge',
  'event',
  'payload.plainToken',
  'eventType',
  'data.validationCode',
] as const
type Property = (typeof PROPERTIES)[number]

const scan = new JsonScan()
const paths = makePaths(PROPERTIES.map(jsonProperty => ({ jsonProperty })))
const walk = new EventScan(scan, paths)

/**
 * Reads one object, in an array of one where `inArray` says so. True where the whole document is
 * valid, by the rules of the kernel.
 */
function readProperties(document: Uint8Array, inArray: boolean): boolean {
  if (!scan.load(document, 0, document.length)) return false
  if (inArray) {
    if (scan.skipSpace() !== OPEN_ARRAY || !scan.enter()) return false
  }
  if (scan.skipSpace() !== OPEN_OBJECT || !walk.walk()) return false
  if (inArray) {
    if (scan.skipSpace() !== CLOSE_ARRAY) return false
    scan.leave()
  }
  scan.skipSpace()
  return scan.pos === scan.end
}

function slotOf(property: Property): number {
  return paths.path[PROPERTIES.indexOf(property)]!
}

/** The kind of the value that was read, one of FOUND. */
function found(property: Property): number {
  return walk.found[slotOf(property)]!
}

/** The value as it stands in the body. */
function sourceAt(property: Property): string {
  const slot = slotOf(property)
  return found(property) === FOUND.nothing
    ? ''
    : scan.bytes.toString('utf8', walk.starts[slot], walk.ends[slot])
}

/** The string that was read; undefined where there is none, or none that an answer may repeat. */
function textAt(property: Property): string | undefined {
  const slot = slotOf(property)
  if (found(property) !== FOUND.string) return undefined
  const [from, to] = [walk.starts[slot]! + 1, walk.ends[slot]! - 1]
  const bytes = Buffer.alloc(to - from)
  const text = bytes.toString('utf8', 0, unescapeInto(bytes, 0, scan.bytes, from, to))
  return mayEcho(text) ? text : undefined
}
