/**
 * The body of a request becomes the JSON document that a kernel parses and the log holds.
 *
 *   JSON     the body itself
 *   NDJSON   one object a line  ►  [line,line]
 *   FORM     an object of its fields
 *   TEXT     the text, which holds JSON
 *
 * The events are then taken out of the document (events-in.ts).
 *
 * The kernel validates what is returned. A body is scanned here only where the kernel does not see
 * all of it, or sees it in another form: lines that are no objects could be valid once they are
 * joined, such as `{"a":1` and `"b":2}`. JsonScan has the rules of the kernel.
 */

import { isUtf8 } from 'node:buffer'
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { CLOSE_ARRAY, COMMA, LF, OPEN_ARRAY, OPEN_OBJECT } from '../characters.ts'
import { DOCUMENT, describeDocument, describeGrammar } from '../event-error.ts'
import { JsonScan } from '../json-scan.ts'
import { type BodyRefusal, bodyTooLarge, isBytes, refuseBody } from './body-error.ts'
import { type BodyEvents, type EventsSchema, eventsIn } from './events-in.ts'

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

/**
 * Fields of a form; more are 413. Web frameworks take 1,000 to 10,000 by default. This many take
 * the thread two milliseconds.
 */
export const FORM_FIELDS_MAX = 4_096

const SPACE = 0x20
const PERCENT = 0x25
const AMPERSAND = 0x26
const PLUS = 0x2b
const EQUALS = 0x3d

/** A field that holds the whole document, as GitHub names it. */
const PAYLOAD_FIELD = 'payload'

/** Bytes at the beginning of a body that may show JSON with a wrong Content-Type. */
const SNIFFED_BYTES = 16

/**
 * A form (application/x-www-form-urlencoded) becomes one JSON object. Its values are strings, and a
 * field that comes again becomes an array of strings. A name such as `a[b]` stays as it is.
 *
 * GitHub and Slack post their JSON in a form: where the one field is `payload` and its text begins
 * with a brace, the text is the document.
 *
 *   W-9  Control characters take six bytes in JSON and one in a form. A form has at most
 *        FORM_FIELDS_MAX fields, and no JSON above BODY_BYTES_MAX is made.
 *
 * @param body may stand in shared memory
 */
function formToJson(body: Uint8Array): Uint8Array | BodyRefusal {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  // An encoder of forms writes these brackets as %7B and %5B.
  if (/^[ \t\r\n]*[{[]/.test(bytes.toString('latin1', 0, SNIFFED_BYTES)))
    return refuseBody(
      'json_as_form',
      'the Content-Type says form, and the body is JSON: send application/json',
    )
  const texts = new FormTexts(bytes)
  const fields = new Map<string, string[]>()
  let count = 0
  while (texts.pos < bytes.length) {
    if (bytes[texts.pos] === AMPERSAND) {
      texts.pos += 1
      continue
    }
    count += 1
    if (count > FORM_FIELDS_MAX)
      return refuseBody('too_many_fields', `a form takes at most ${FORM_FIELDS_MAX} fields`, 413)
    const name = texts.read(EQUALS, count)
    if (bytes[texts.pos] === EQUALS) texts.pos += 1
    const value = texts.read(AMPERSAND, count)
    if (typeof name !== 'string') return name
    if (typeof value !== 'string') return value
    const values = fields.get(name)
    if (values === undefined) fields.set(name, [value])
    else values.push(value)
  }
  if (count === 0) return refuseBody('empty_form', 'the form has no fields')
  const payload = count === 1 ? fields.get(PAYLOAD_FIELD)?.[0] : undefined
  if (payload !== undefined && /^[ \t\r\n]*\{/.test(payload)) return Buffer.from(payload)
  const json = texts.jsonBytes > BODY_BYTES_MAX ? undefined : objectOf(fields)
  return json === undefined || json.length > BODY_BYTES_MAX ? bodyTooLarge('a form as JSON') : json
}

/** One object of all fields, each at its first place. */
function objectOf(fields: ReadonlyMap<string, readonly string[]>): Buffer {
  const members: string[] = []
  for (const [name, values] of fields)
    members.push(`${JSON.stringify(name)}:${JSON.stringify(values.length === 1 ? values[0] : values)}`)
  return Buffer.from(`{${members.join(',')}}`)
}

/** By byte: the bytes that stand for it in a string of JSON.stringify. */
const JSON_BYTES = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 0x80 ? JSON.stringify(String.fromCharCode(byte)).length - 2 : 1,
)

/** Decodes the names and values of a form, one after the other. */
class FormTexts {
  pos = 0
  /** Bytes of all texts so far as JSON, without their quotes. */
  jsonBytes = 0
  readonly #bytes: Buffer
  readonly #decoded: Buffer

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#decoded = Buffer.allocUnsafe(bytes.length)
  }

  /**
   * The text from `pos` to the byte `stop` or to the end of the field, where `pos` stands then.
   * @param field its number in the form, from 1
   */
  read(stop: number, field: number): string | BodyRefusal {
    const [bytes, decoded] = [this.#bytes, this.#decoded]
    let pos = this.pos
    let length = 0
    let allBits = 0
    for (; pos < bytes.length; pos += 1) {
      let byte = bytes[pos]!
      if (byte === AMPERSAND || byte === stop) break
      if (byte === PLUS) byte = SPACE
      else if (byte === PERCENT) {
        byte = (hexDigit(bytes[pos + 1]) << 4) | hexDigit(bytes[pos + 2])
        if (byte < 0) return refuseBody('bad_form_encoding', `field ${field} of the form ${BAD_PERCENT}`)
        pos += 2
      }
      decoded[length++] = byte
      allBits |= byte
      this.jsonBytes += JSON_BYTES[byte]!
    }
    this.pos = pos
    if (allBits < 0x80) return decoded.toString('latin1', 0, length)
    if (isUtf8(decoded.subarray(0, length))) return decoded.toString('utf8', 0, length)
    return refuseBody('invalid_utf8', `field ${field} of the form is not valid UTF-8`)
  }
}

const BAD_PERCENT = 'has a "%" without two hexadecimal digits'

/** The value of a hexadecimal digit, negative for another byte and for none. */
function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = (byte | 0x20) - 0x61
  return letter >= 0 && letter <= 5 ? 10 + letter : -1
}
