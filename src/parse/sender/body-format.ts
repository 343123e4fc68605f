/**
 * The body of a request becomes the JSON document that a kernel parses and the log holds.
 *
 *   JSON     the body itself
 *   NDJSON   one object a line  ►  [line,line]
 *   FORM     form.ts
 *   TEXT     the text, which holds JSON
 *
 * The events are then taken out of the document (events-in.ts).
 *
 * The kernel validates what is returned. A body is scanned here only where the kernel does not see
 * all of it, or sees it in another form: lines that are no objects could be valid once they are
 * joined, such as `{"a":1` and `"b":2}`. JsonScan has the rules of the kernel.
 */
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { DOCUMENT, describeDocument, describeGrammar } from '../event-error.ts'
import { JsonScan } from '../json-scan.ts'
import { type BodyRefusal, bodyTooLarge, isBytes, refuseBody } from './body-error.ts'
import { type BodyEvents, type EventsSchema, eventsIn } from './events-in.ts'
import { formToJson } from './form.ts'

export type BodyFormat = 'JSON' | 'NDJSON' | 'FORM' | 'TEXT'

/**
 * The events of a body as a JSON document, a part of `body` or bytes of its own.
 * @param body decoded; at most BODY_BYTES_MAX bytes; may stand in shared memory
 * @param schema says where the events stand; null where the document itself is the events
 */
export function toJsonDocument(
  format: BodyFormat,
  body: Uint8Array,
  schema: EventsSchema | null,
): BodyEvents | BodyRefusal {
  const document = documentOf(format, body)
  if (!isBytes(document)) return document
  return schema === null ? { document } : eventsIn(document, schema)
}

function documentOf(format: BodyFormat, body: Uint8Array): Uint8Array | BodyRefusal {
  if (format === 'NDJSON') return joinLines(body)
  return format === 'FORM' ? formToJson(body) : body
}

const LF = 0x0a
const COMMA = 0x2c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b

/** The scans of a thread share this buffer. No call reads what an earlier call left in it. */
const scan = new JsonScan()

/**
 * The array of all lines. A comma stands in the place of a line break between two objects, and all
 * other bytes stay: copies of single lines took three times as long where they are short. Lines end
 * with LF or CRLF, the last one also with the body. Blank lines are white space.
 */
function joinLines(body: Uint8Array): Uint8Array | BodyRefusal {
  if (!scan.load(body, 0, body.length)) return describeDocument(scan.document)
  const { bytes, end } = scan
  // Byte n of the body is byte n + 1 of the array.
  const array = Buffer.allocUnsafe(end + 2)
  bytes.copy(array, 1, 0, end)
  let first = -1
  let last = 0
  let lineEnd = 0
  for (;;) {
    scan.skipSpace() // line breaks and blank lines too
    if (scan.pos === end) break
    if (first < 0) first = scan.pos
    else array[lineEnd + 1] = COMMA
    const from = scan.pos
    const found = bytes.indexOf(LF, from)
    lineEnd = found < 0 || found > end ? end : found
    last = endOfObject(lineEnd)
    if (last < 0) return describeLine(from, lineEnd)
  }
  first = Math.max(first, 0)
  array[first] = OPEN_ARRAY
  array[last + 1] = CLOSE_ARRAY
  const document = array.subarray(first, last + 2)
  return document.length > BODY_BYTES_MAX ? bodyTooLarge('NDJSON as an array') : document
}

/**
 * The byte behind the object at the scan's position; negative where the rest of its line is
 * anything but one object. The scan then stands where that shows.
 */
function endOfObject(lineEnd: number): number {
  if (scan.bytes[scan.pos] !== OPEN_OBJECT || !scan.skipValue() || scan.pos > lineEnd) return -1
  const to = scan.pos
  scan.skipSpace()
  return scan.pos < lineEnd ? -1 : to
}

/** Why a line was refused. @param from its first byte that is no space */
function describeLine(from: number, lineEnd: number): BodyRefusal {
  const { bytes, document, stoppedAt } = scan
  let line = 1
  let lineStart = 0
  for (let at = 0; at < from; at += 1)
    if (bytes[at] === LF) {
      line += 1
      lineStart = at + 1
    }
  if (bytes[from] !== OPEN_OBJECT) return notNdjson(line, 'is no object')
  if (document === DOCUMENT.ok ? scan.pos > lineEnd : stoppedAt >= lineEnd)
    return notNdjson(line, 'ends inside its object')
  if (document === DOCUMENT.ok) return notNdjson(line, 'goes on after its object')
  if (document !== DOCUMENT.not_json) {
    const { code, message } = describeDocument(document)
    return refuseBody(code, `line ${line}: ${message}`)
  }
  const grammar = describeGrammar(scan.refusalWord(), stoppedAt - lineStart)
  return refuseBody('not_json', `line ${line} is not JSON: ${grammar}`)
}

function notNdjson(line: number, what: string): BodyRefusal {
  return refuseBody('not_ndjson', `line ${line} ${what}: each line of NDJSON is one JSON object`)
}
