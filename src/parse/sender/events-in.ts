/**
 * Takes the events out of the JSON document of a body, as the schema of its pool says, and what is
 * kept of the envelope, which is the body around them (docs/decisions/0099).
 *
 *   eventsPath      the array or the object at that path is the events
 *   $.… columns     the values around the events go into the context, before the document
 *   keepEnvelope    each event becomes the whole body, with this event in the place of all
 *   a key of the request's head   one event a request (docs/decisions/0100)
 *
 *   W-9  What each event repeats takes at most BODY_BYTES_MAX in all.
 */

import { bodyProperty } from '../../format/json-property.ts'
import { isCloudEvent, keyIsOfRequest, type PoolSchema } from '../../format/schema.ts'
import { BODY_BYTES_MAX, EVENTS_MAX, KiB } from '../../util/limits.ts'
import { CLOSE_ARRAY, COMMA, OPEN_ARRAY, OPEN_OBJECT } from '../characters.ts'
import { describeDocument, EXPECTED, FOUND } from '../event-error.ts'
import { JsonScan } from '../json-scan.ts'
import { EventScan } from '../parse-event.ts'
import { makePaths } from '../path.ts'
import { elementsOf } from '../rejected-rows.ts'
import { type BodyRefusal, bodyTooLarge, refuseBody } from './body-error.ts'

/** What of a schema decides where its events stand. */
export type EventsSchema = Pick<PoolSchema, 'columns' | 'key' | 'eventsPath' | 'keepEnvelope'>

/** The events of a body, and the values around them as a JSON object by `jsonProperty`. */
export interface BodyEvents {
  readonly document: Uint8Array
  readonly envelope?: Uint8Array
}

/**
 * Bytes of the values that columns read of an envelope. With those of the request's head they fit
 * into the 16 bits that a log record has for the length of a context.
 */
const ENVELOPE_BYTES_MAX = 60 * KiB

/** The calls of a thread share this buffer. No call reads what an earlier call left in it. */
const scan = new JsonScan()

/** The events of a document. @param document JSON, or not: what is returned may still be invalid */
export function eventsIn(document: Uint8Array, schema: EventsSchema): BodyEvents | BodyRefusal {
  const found = schema.eventsPath === undefined ? { document } : eventsAt(document, schema)
  if (!('document' in found) || !keyIsOfRequest(schema)) return found
  if (schema.eventsPath === undefined && isCloudEvent(schema)) return cloudEvent(document)
  return hasSeveral(found.document) ? SEVERAL_EVENTS : found
}

const SEVERAL_EVENTS = refuseBody(
  'one_event_a_request',
  'the key of this pool is read from the head of the request, so a request brings one event: send each in a request of its own',
)

/** The first byte that is no white space, undefined where there is none. Bodies are not copied. */
function firstByte(document: Uint8Array): number | undefined {
  return document.find(byte => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)
}

/** True for an array with a second element. The kernel says what else is wrong with a document. */
function hasSeveral(document: Uint8Array): boolean {
  if (firstByte(document) !== OPEN_ARRAY) return false
  if (!scan.load(document, 0, document.length) || scan.skipSpace() !== OPEN_ARRAY) return false
  scan.enter()
  return scan.skipSpace() !== CLOSE_ARRAY && scan.skipValue() && scan.skipSpace() === COMMA
}

const NO_DATA = Buffer.from('{}')
const [BEFORE_DATA, AFTER_DATA] = [Buffer.from('{"data":'), Buffer.from('}')]

/**
 * The data of a CloudEvent in binary mode are one JSON value, or none. An object is the event, any
 * other value its property `data`.
 */
function cloudEvent(document: Uint8Array): BodyEvents | BodyRefusal {
  const first = firstByte(document)
  if (first === undefined) return { document: NO_DATA }
  if (first === OPEN_OBJECT || !scan.load(document, 0, document.length)) return { document }
  // Valid by itself, or braces could make another document of it: `1,"b":2`.
  scan.skipSpace()
  if (!scan.skipValue()) return { document }
  scan.skipSpace()
  if (scan.pos !== scan.end) return { document }
  const event = Buffer.concat([BEFORE_DATA, document, AFTER_DATA])
  return event.length > BODY_BYTES_MAX ? bodyTooLarge('data as a property of an event') : { document: event }
}

/** The walk over a document to the values at an eventsPath and around it. */
interface EnvelopeWalk {
  readonly walk: EventScan
  readonly eventsSlot: number
  /** For each column that reads the envelope: its key in the context, and its slots in the walk. */
  readonly columns: readonly { readonly key: string; readonly whole: number; readonly path: number }[]
}

/** A worker has one object for each schema that it knows. */
const walks = new WeakMap<EventsSchema, EnvelopeWalk>()

function walkOf(schema: EventsSchema, eventsPath: string): EnvelopeWalk {
  const known = walks.get(schema)
  if (known !== undefined) return known
  const read = schema.columns.filter(({ from }) => from === 'body')
  const paths = makePaths([
    ...read.map(({ jsonProperty }) => bodyProperty(jsonProperty)),
    { jsonProperty: eventsPath },
  ])
  const made = {
    walk: new EventScan(scan, paths),
    // The path through objects alone: a key with the whole text is no path.
    eventsSlot: paths.path[read.length]!,
    columns: read.map(({ jsonProperty }, index) => ({
      key: JSON.stringify(jsonProperty),
      whole: paths.whole[index]!,
      path: paths.path[index]!,
    })),
  }
  walks.set(schema, made)
  return made
}

/** The bytes of the array or object at the path. The whole document is validated. */
function eventsAt(document: Uint8Array, schema: EventsSchema): BodyEvents | BodyRefusal {
  const eventsPath = schema.eventsPath ?? ''
  const envelope = walkOf(schema, eventsPath)
  const { walk, eventsSlot } = envelope
  if (!scan.load(document, 0, document.length)) return describeDocument(scan.document)
  const isObject = scan.skipSpace() === OPEN_OBJECT
  const from = scan.pos
  let isValid = isObject ? walk.walk() : scan.skipValue()
  const to = scan.pos
  if (isValid) {
    scan.skipSpace()
    isValid = scan.pos === scan.end || scan.refuseGrammar(EXPECTED.end)
  }
  if (!isValid) {
    const broken = { event: -1, word: scan.refusalWord(), byte: scan.stoppedAt }
    return describeDocument(scan.document, broken.byte < 0 ? undefined : broken)
  }
  const found = isObject ? walk.found[eventsSlot] : FOUND.nothing
  if (found !== FOUND.array && found !== FOUND.object) {
    const what = found === FOUND.nothing ? 'nothing' : 'neither an array nor an object'
    return refuseBody(
      'no_events_at_path',
      `the body has ${what} at "${eventsPath}", the eventsPath of this source`,
    )
  }
  const [start, end] = [walk.starts[eventsSlot]!, walk.ends[eventsSlot]!]
  const events = document.subarray(start, end)
  if (schema.keepEnvelope !== true) return besideValues(document, events, envelope)
  if (found === FOUND.object) return { document: document.subarray(from, to) }
  return eachInEnvelope(document.subarray(from, start), events, document.subarray(end, to))
}

/** The events, and beside them the values that columns read of the envelope, as they were sent. */
function besideValues(
  document: Uint8Array,
  events: Uint8Array,
  { walk, columns }: EnvelopeWalk,
): BodyEvents | BodyRefusal {
  const parts: Uint8Array[] = []
  for (const { key, whole, path } of columns) {
    const slot = walk.found[whole] === FOUND.nothing ? path : whole
    if (walk.found[slot] === FOUND.nothing) continue
    parts.push(Buffer.from(`${parts.length === 0 ? '{' : ','}${key}:`))
    parts.push(document.subarray(walk.starts[slot], walk.ends[slot]))
  }
  if (parts.length === 0) return { document: events }
  const envelope = Buffer.concat([...parts, Buffer.from('}')])
  const isLong = envelope.length > ENVELOPE_BYTES_MAX || envelope.length + events.length > BODY_BYTES_MAX
  if (isLong || repeated(envelope.length, events) > BODY_BYTES_MAX) return TOO_LARGE
  return { document: events, envelope }
}

const TOO_LARGE = refuseBody(
  'envelope_too_large',
  `what each event repeats of the body around it takes at most ${BODY_BYTES_MAX} bytes in all, and the values that columns read there ${ENVELOPE_BYTES_MAX}: send fewer events in a body`,
  413,
)

/** Bytes of `bytes` for each event. The events are counted where it matters. */
function repeated(bytes: number, events: Uint8Array): number {
  const most = bytes * Math.min(EVENTS_MAX, Math.ceil(events.length / 2))
  if (most <= BODY_BYTES_MAX || events[0] !== OPEN_ARRAY) return most <= BODY_BYTES_MAX ? most : bytes
  let count = 0
  for (const _ of elementsOf(events)) count += 1
  return bytes * Math.min(EVENTS_MAX, count)
}

/**
 * An array of bodies, each with one event in the place of all. What is no object stays as it is,
 * so that the kernel refuses it.
 */
function eachInEnvelope(before: Uint8Array, events: Uint8Array, after: Uint8Array): BodyEvents | BodyRefusal {
  const parts: Uint8Array[] = []
  let bytes = 1
  let count = 0
  for (const event of elementsOf(events)) {
    count += 1
    // The kernel refuses that many as it does elsewhere.
    if (count > EVENTS_MAX) return { document: events }
    const one = event[0] === OPEN_OBJECT ? [before, event, after] : [event]
    parts.push(count === 1 ? ARRAY_BEGIN : NEXT_ELEMENT, ...one)
    for (const part of one) bytes += part.length
    bytes += 1
    if (bytes > BODY_BYTES_MAX) return TOO_LARGE
  }
  return { document: count === 0 ? events : Buffer.concat([...parts, ARRAY_END], bytes) }
}

const ARRAY_BEGIN = Buffer.from('[')
const NEXT_ELEMENT = Buffer.from(',')
const ARRAY_END = Buffer.from(']')
