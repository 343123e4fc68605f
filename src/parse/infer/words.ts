/**
 * What the name of a field says about its values, and names of columns that the catalog accepts.
 */
import { COLUMN_NAME_BYTES_MAX } from '../../util/limits.ts'

/** The words of a name in lower case: `createdAt`, `created_at` and `created-at` have the same. */
export function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]/u)
    .filter(word => word !== '')
}

/** Words behind the one that says what a number is. */
const UNIT_WORDS = new Set('ms millis milliseconds s sec secs seconds us micros ns nanos utc'.split(' '))
const TIME_WORDS = new Set(
  'at on time timestamp ts date datetime day start end since until expiry expiration published'.split(' '),
)

/** True where the name says that a number is a moment: `created`, `event_ts`, `timeMs`. */
export function saysTime(words: readonly string[]): boolean {
  if (words.includes('epoch') || words.includes('unix')) return true
  let last = words.length - 1
  while (last > 0 && UNIT_WORDS.has(words[last]!)) last--
  const word = words[last] ?? ''
  if (word === 'at' || word === 'on') return last > 0
  return TIME_WORDS.has(word) || /[a-z]ed$/.test(word)
}

const ID_WORDS = new Set(
  'id ids uuid guid ulid sid key code number no nr ref sku ean isbn iban bic'.split(' '),
)
const LABEL_WORDS = new Set(
  'phone mobile fax zip postcode postal from to version hash sha md5 etag token secret handle'.split(' '),
)

/** True where digits are a label and no quantity: `order_number`, `zip`, `phone`. */
export function saysLabel(words: readonly string[]): boolean {
  return words.some(word => LABEL_WORDS.has(word)) || ID_WORDS.has(words.at(-1) ?? '')
}

const MONEY_WORDS = new Set(
  'price amount total subtotal tax cost fee discount balance rate ratio percent score weight'.split(' '),
)

/** True where a number in a string is a decimal one, even if every sample is whole: a price. */
export function saysDecimal(words: readonly string[]): boolean {
  return words.some(word => MONEY_WORDS.has(word))
}

const LINK_WORDS = new Set('url urls uri href link links avatar icon image gravatar html node'.split(' '))
const SECRET_WORDS = new Set('token secret password signature authorization credential'.split(' '))
const USEFUL_WORDS = new Set(
  (
    'id type event action status state name title email amount total price currency quantity count country city ' +
    'user customer account login topic reason source method kind key number code'
  ).split(' '),
)

/** How much a field of this name is asked for: 20 for `status`, −80 for `avatar_url`. */
export function nameWorth(words: readonly string[]): number {
  if (words.some(word => SECRET_WORDS.has(word))) return -120
  if (words.some(word => LINK_WORDS.has(word))) return -80
  return USEFUL_WORDS.has(words.at(-1) ?? '') ? 20 : 0
}

/** Names that a column cannot have, and the start of others (catalog/change/rules.ts). */
const RESERVED = new Set(['file_row_number', 'filename', 'file_index', 'rowid'])
/** Bytes of a name before the number that makes it unique. */
const NAME_BYTES_MAX = COLUMN_NAME_BYTES_MAX - 8

/** Gives each column a name that is valid and unlike all others that it gave, ignoring case. */
export class ColumnNames {
  readonly #taken = new Set<string>()

  /** A name for the value at the end of a path of names. */
  name(path: readonly string[]): string {
    const plain = path.map(plainName).filter(part => part !== '')
    const joined = cutToBytes(plain.join('_'), NAME_BYTES_MAX)
    const name = joined === '' || RESERVED.has(joined.toLowerCase()) ? `event_${joined || 'field'}` : joined
    let unique = name
    for (let number = 2; this.#taken.has(unique.toLowerCase()); number++) unique = `${name}_${number}`
    this.#taken.add(unique.toLowerCase())
    return unique
  }
}

/**
 * Letters, digits and underscores, none of these at the ends: SQL takes most such names without
 * quotes, and none begins with `_service_`.
 */
function plainName(name: string): string {
  return name
    .split(/[^\p{L}\p{N}_]/u)
    .map(withoutUnderscores)
    .filter(part => part !== '')
    .join('_')
}

function withoutUnderscores(text: string): string {
  let [from, to] = [0, text.length]
  while (from < to && text[from] === '_') from++
  while (to > from && text[to - 1] === '_') to--
  return text.slice(from, to)
}

function cutToBytes(text: string, bytesMax: number): string {
  if (Buffer.byteLength(text) <= bytesMax) return text
  let [bytes, cut] = [0, '']
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > bytesMax) break
    cut += character
  }
  return cut
}
