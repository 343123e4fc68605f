/**
 * What a source takes from senders that were not written for Weir, as admission needs it: request
 * forms, handshakes, signatures, and the columns that read the request.
 *
 * A source that asks for none of it has no Sender, and its requests cost nothing more.
 *
 *   W-9   A context is at most CONTEXT_BYTES_MAX, and counts as a part of the body.
 *   W-11  The headers of a request are walked once, whatever is read of them.
 */
import { presetNamed } from '../../catalog/presets.ts'
import { type HandshakeKind, handshakesOf } from '../../format/handshake.ts'
import { type RequestPart, requestPart } from '../../format/json-property.ts'
import { keyIsOfRequest, type PoolSchema, type RequestKind } from '../../format/schema.ts'
import { type Accept, REPEATED_HEADER, type SenderSettings, type SignedHead } from '../../format/sender.ts'
import type { BodyFormat } from '../../parse/sender/body-format.ts'
import { BODY_HANDSHAKES, handshakeHeaders } from '../../parse/sender/body-handshake.ts'
import type { BodyEncoding, Received } from '../../parse/sender/received.ts'
import { signatureHeaders } from '../../parse/sender/verify-signature.ts'
import type { Refusal } from '../../util/errors.ts'
import { KiB } from '../../util/limits.ts'
import { type RequestHead, tryDecode } from '../http/transport.ts'
import { shown } from '../parameters.ts'
import { refuse } from '../problem.ts'
import type { HandshakeSettings } from './handshakes.ts'

/**
 * Bytes of a request's context. Headers and parameters that are worth a column are short, and
 * waiting requests keep theirs: 40 MB of WAITING_REQUESTS_MAX.
 */
const CONTEXT_BYTES_MAX = 4 * KiB

export interface Sender extends HandshakeSettings {
  readonly accept: ReadonlySet<Accept>
  /** SignatureSettings as JSON; null where unsigned requests are taken. */
  readonly signature: string | null
  /** False where somebody who captured a signed POST could send it again as a DELETE. */
  readonly takesDelete: boolean
  readonly bodyHandshakes: readonly HandshakeKind[]
  /** Columns that read the request. */
  readonly columns: readonly { readonly jsonProperty: string; readonly part: RequestPart }[]
  /** The parse worker takes the events out of a body, or sees that there is one (events-in.ts). */
  readonly wrapsEvents: boolean
  /** Each event may repeat parts of the body around it. */
  readonly repeatsEnvelope: boolean
  /** Columns read the head of the request or its body around the events. */
  readonly readsRequest: boolean
  /** Lower-case names of the headers that columns, signatures and handshakes of bodies read. */
  readonly headers: ReadonlySet<string>
  readonly signatureHeaders: readonly string[]
  readonly handshakeHeaders: readonly string[]
  /** The webhook's public URL, as signatures cover it. */
  readonly url: () => string
}

/** Facts of a source that change without its settings. */
type SenderFacts = Pick<Sender, 'secretUntilMs' | 'url'>

/** The sender of a source; undefined where its settings and its columns ask for nothing. */
export function senderOf(
  settings: SenderSettings | null,
  schema: Pick<PoolSchema, 'columns' | 'key' | 'eventsPath' | 'keepEnvelope'>,
  facts: SenderFacts,
): Sender | undefined {
  const { columns, eventsPath, keepEnvelope } = schema
  const read = columns.filter(({ from }) => from === 'request')
  if (settings === null && read.length === 0 && eventsPath === undefined) return undefined
  const { accept = [], signature = null, preset = null, verifyToken = null } = settings ?? {}
  const kinds = handshakesOf(presetNamed(preset)?.handshakes ?? [], signature?.scheme ?? null, verifyToken)
  const bodyHandshakes = kinds.filter(kind => BODY_HANDSHAKES.includes(kind))
  const parts = read.map(({ jsonProperty }) => ({ jsonProperty, part: requestPart(jsonProperty) }))
  const ofSignature = signature === null ? [] : signatureHeaders(signature)
  const ofHandshakes = handshakeHeaders(kinds)
  const ofColumns = parts.flatMap(({ part }) => (part.in === 'header' ? [part.name] : []))
  return {
    accept: new Set(accept.includes('BROWSER') ? [...accept, 'TEXT'] : accept),
    signature: signature === null ? null : JSON.stringify(signature),
    takesDelete:
      signature === null ||
      signature.scheme === 'HUBSPOT' ||
      signature.generic?.signed.includes('{method}') === true,
    kinds,
    bodyHandshakes,
    verifyToken,
    columns: parts,
    wrapsEvents: eventsPath !== undefined || keyIsOfRequest(schema),
    repeatsEnvelope: keepEnvelope === true || columns.some(({ from }) => from === 'body'),
    readsRequest: columns.some(({ from }) => from !== undefined),
    headers: new Set([...ofColumns, ...ofSignature, ...ofHandshakes]),
    signatureHeaders: ofSignature,
    handshakeHeaders: ofHandshakes,
    ...facts,
  }
}

/** What of a request's head goes to the parse worker, or into the log with the body. */
interface ReadHead {
  readonly received?: Received
  readonly context?: Uint8Array
}

/** Plain JSON of which nothing is read but the body. */
const NOTHING: ReadHead = {}

/**
 * Reads the head of an admitted request.
 * @param subpath the path behind the webhook's id, as sent; "" without one
 */
export function readHead(
  head: RequestHead,
  kind: RequestKind,
  sender: Sender | undefined,
  subpath: string,
  format: BodyFormat,
  encoding: BodyEncoding,
): ReadHead | Refusal {
  const isPlain = format === 'JSON' && encoding === 'identity'
  if (sender === undefined) return isPlain ? NOTHING : { received: { format, encoding } }
  const found = headersOf(head, sender.headers)
  // The keys of a DELETE stand in its body.
  const context = kind === 'post' ? contextOf(head, sender, found, subpath) : undefined
  if (context !== undefined && 'status' in context) return context
  const { signature, bodyHandshakes, wrapsEvents } = sender
  const withContext = context === undefined ? NOTHING : { context }
  if (isPlain && signature === null && bodyHandshakes.length === 0 && !wrapsEvents) return withContext
  const received = {
    format,
    encoding,
    ...(signature === null
      ? {}
      : { signature: { settings: signature, head: signedHead(head, sender, found, subpath) } }),
    ...(bodyHandshakes.length === 0
      ? {}
      : { handshakes: { kinds: bodyHandshakes, headers: firstOf(found, sender.handshakeHeaders) } }),
  }
  return { ...withContext, received }
}

/** The context of a request to a source; undefined where no column reads it, or it is too large. */
export function readContext(head: RequestHead, sender: Sender, subpath: string): Uint8Array | undefined {
  const context = contextOf(head, sender, headersOf(head, sender.headers), subpath)
  return context instanceof Uint8Array ? context : undefined
}

interface FoundHeader {
  readonly first: string
  isRepeated: boolean
}

/** The wanted headers that were sent, without spaces around their values. */
function headersOf(head: RequestHead, wanted: ReadonlySet<string>): ReadonlyMap<string, FoundHeader> {
  const found = new Map<string, FoundHeader>()
  if (wanted.size === 0) return found
  head.eachHeader((name, value) => {
    if (!wanted.has(name)) return
    const known = found.get(name)
    if (known === undefined) found.set(name, { first: value.trim(), isRepeated: false })
    else known.isRepeated = true
  })
  return found
}

function firstOf(found: ReadonlyMap<string, FoundHeader>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap(name => (found.has(name) ? [[name, found.get(name)!.first]] : [])))
}

function signedHead(
  head: RequestHead,
  { signatureHeaders: names, url }: Sender,
  found: ReadonlyMap<string, FoundHeader>,
  subpath: string,
): SignedHead {
  const headers = firstOf(found, names)
  for (const name of names) if (found.get(name)?.isRepeated === true) headers[name] = REPEATED_HEADER
  const query = head.query === '' ? '' : `?${head.query}`
  const receivedAtMs = 0 // set when the task is made
  return { method: head.method.toUpperCase(), url: `${url()}${subpath}${query}`, headers, receivedAtMs }
}

/** The context of a request (parse/kernel.ts); undefined where no column reads it. */
function contextOf(
  head: RequestHead,
  { columns }: Sender,
  found: ReadonlyMap<string, FoundHeader>,
  subpath: string,
): Uint8Array | Refusal | undefined {
  if (columns.length === 0) return undefined
  const query = head.query === '' ? undefined : new URLSearchParams(head.query)
  const values: [string, string][] = []
  for (const { jsonProperty, part } of columns) {
    const value =
      part.in === 'header'
        ? found.get(part.name)?.first
        : part.in === 'query'
          ? query?.get(part.name)
          : subpath && (tryDecode(subpath) ?? subpath)
    if (value !== undefined && value !== null && (value !== '' || part.in !== 'path'))
      values.push([jsonProperty, value])
  }
  const context = new TextEncoder().encode(JSON.stringify(Object.fromEntries(values)))
  if (context.byteLength <= CONTEXT_BYTES_MAX) return context
  const message = `the headers, parameters and path that columns read take at most ${CONTEXT_BYTES_MAX} bytes`
  return refuse(400, 'context_too_large', message)
}

const NDJSON_TYPES = new Set([
  'application/x-ndjson',
  'application/ndjson',
  'application/jsonl',
  'application/x-jsonlines',
  'application/json-lines',
])
const JSON_SUFFIX = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+\+json$/

/** How a body of this Content-Type is written, or why it is refused. @param text the header */
export function formatOf(text: string, kind: RequestKind, sender: Sender | undefined): BodyFormat | Refusal {
  if (text === '' || text === 'application/json') return 'JSON'
  const media = text.split(';', 1)[0]!.trim().toLowerCase()
  if (media === '' || media === 'application/json' || JSON_SUFFIX.test(media)) return 'JSON'
  if (NDJSON_TYPES.has(media)) return 'NDJSON'
  if (kind === 'post' && media === 'application/x-www-form-urlencoded')
    return sender?.accept.has('FORM') === true ? 'FORM' : refuseMedia(text, 'FORM')
  if (kind === 'post' && media === 'text/plain')
    return sender?.accept.has('TEXT') === true ? 'TEXT' : refuseMedia(text, 'TEXT')
  return refuseMedia(text, undefined)
}

function refuseMedia(text: string, setting: Accept | undefined): Refusal {
  let way = 'send JSON as application/json, or NDJSON as application/x-ndjson'
  if (setting !== undefined) way += `; a data source takes it where its accept has ${setting}`
  if (/^multipart\//i.test(text)) way = 'multipart is never taken: send JSON, NDJSON or a form without files'
  const message = `the Content-Type is "${shown(text)}": ${way}`
  return refuse(415, 'unsupported_media_type', message, { accept: 'application/json, application/x-ndjson' })
}
