/**
 * Headers of sample requests that are worth a column: the id of the delivery, and what kind of
 * event it is. Headers that hold a secret, a signature or a fact of the connection are not.
 */
import { headerIdWorth } from './choose-keys.ts'
import { Field } from './fields.ts'
import { wordsOf } from './words.ts'

/** Fields of headers; later ones are not read. */
const HEADERS_MAX = 100
/** Bytes of a value that is read: a signed request has no longer ones either. */
const VALUE_BYTES_MAX = 8_192
/** A header's name is a token (RFC 9110, section 5.6.2), here without upper-case letters. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,200}$/

/** The last word of headers that say what happened, and to what. */
const EVENT_ENDS = new Set(
  'event topic type resource action domain source subject environment time at'.split(' '),
)
/** Words of headers that senders, proxies and browsers add to every request. */
const ELSEWHERE = new Set(
  'content accept forwarded real cf amzn cloud trace correlation request sec access signature token secret auth'.split(
    ' ',
  ),
)

/** The fields of headers, in the order in which their names came. */
export class HeaderFields {
  readonly fields = new Map<string, Field>()

  /**
   * Reads the headers of one event.
   * @param text the number of the event's text (Fields.text)
   */
  read(headers: Readonly<Record<string, string>>, text: number): void {
    for (const [given, value] of Object.entries(headers)) {
      const name = given.toLowerCase()
      if (!HEADER_NAME.test(name) || !isWanted(name) || typeof value !== 'string') continue
      const bytes = Buffer.from(value)
      if (bytes.length > VALUE_BYTES_MAX) continue
      const field = this.#field(name)
      field?.facts.addText(bytes)
      field?.ids?.add(bytes, text)
    }
  }

  #field(name: string): Field | undefined {
    const known = this.fields.get(name)
    if (known !== undefined || this.fields.size === HEADERS_MAX) return known
    const shown = name.startsWith('x-') ? name.slice(2) : name
    const field = new Field(`$header.${name}`, [shown], headerIdWorth(name), false)
    this.fields.set(name, field)
    return field
  }
}

function isWanted(name: string): boolean {
  if (headerIdWorth(name) > 0) return true
  const words = wordsOf(name)
  if (words.length < 2 || words.some(word => ELSEWHERE.has(word))) return false
  return EVENT_ENDS.has(words.at(-1)!) || (words[0] === 'x' && words.at(-1) === 'id')
}
