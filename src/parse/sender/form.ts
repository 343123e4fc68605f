/**
 * A form (application/x-www-form-urlencoded) becomes one JSON object. Its values are strings, and a
 * field that comes again becomes an array of strings. A name such as `a[b]` stays as it is.
 *
 * GitHub and Slack post their JSON in a form: where the one field is `payload` and its text begins
 * with a brace, the text is the document.
 *
 *   W-9  Control characters take six bytes in JSON and one in a form. A form has at most
 *        FORM_FIELDS_MAX fields, and no JSON above BODY_BYTES_MAX is made.
 */
import { isUtf8 } from 'node:buffer'
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { type BodyRefusal, bodyTooLarge, refuseBody } from './body-error.ts'

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

/** The JSON document of a form. @param body may stand in shared memory */
export function formToJson(body: Uint8Array): Uint8Array | BodyRefusal {
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
