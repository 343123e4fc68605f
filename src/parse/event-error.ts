/** Errors of documents and events: the numbers of the kernels, and the text that clients read. */

import type { ColumnType, PoolSchema } from '../format/schema.ts'
import { BODY_BYTES_MAX, DEPTH_MAX, EVENTS_MAX } from '../util/limits.ts'
import { OPEN_OBJECT } from './characters.ts'

/** The outcome of a whole document. `undecided` never leaves the worker (run-task.ts). */
export const DOCUMENT = {
  ok: 0,
  undecided: 1,
  not_json: 2,
  bom: 3,
  invalid_utf8: 4,
  too_deep: 5,
  unpaired_surrogate: 6,
  number_out_of_range: 7,
  not_object_or_array: 8,
  too_many_events: 9,
  broken_gzip: 10,
  body_too_large: 11,
  /** The kernel did not see the body: ParseResult.early has the answer. */
  early: 12,
} as const

/** The reason why one event was not accepted: the low byte of an error word. */
export const EVENT_ERROR = {
  not_object: 1,
  missing: 2,
  wrong_type: 3,
  out_of_range: 4,
  not_integral: 5,
  bad_timestamp: 6,
  bad_date: 7,
} as const

/** The kind of value that was found: the second byte of an error word. */
export const FOUND = { nothing: 0, null: 1, boolean: 2, number: 3, string: 4, object: 5, array: 6 } as const

const FOUND_WORDS = ['nothing', 'null', 'a boolean', 'a number', 'a string', 'an object', 'an array'] as const

/** Makes an error word of a value of EVENT_ERROR and one of FOUND. */
export function errorWord(error: number, found: number): number {
  return error | (found << 8)
}

/** What JSON would have had at the place where a document broke, in words. */
const EXPECTED_WORDS = {
  nothing: '',
  value: 'a value',
  word: 'true, false or null',
  digit: 'a digit',
  key: 'a key in double quotes',
  colon: 'a colon after the key',
  brace: '"," or "}"',
  bracket: '"," or "]"',
  quote: 'the double quote that ends the string',
  escape: String.raw`an escape such as \n or \u00e9 after the backslash`,
  hex: String.raw`four hexadecimal digits after \u`,
  plain: String.raw`a string without control characters (write \n, \t or \u0001)`,
  end: 'nothing more',
}

/** The same as numbers. */
export const EXPECTED = Object.fromEntries(
  Object.keys(EXPECTED_WORDS).map((name, index) => [name, index]),
) as { readonly [Name in keyof typeof EXPECTED_WORDS]: number }

/** In the place of a byte: the document ended. */
const END_OF_DOCUMENT = 256
const SINGLE_QUOTE = 0x27

/**
 * Makes the word of a refused document, which stands in the place of an error word; the byte where
 * it broke stands in that of the column. `byte` is undefined at the end of the document.
 */
export function refusalWord(expected: number, byte: number | undefined): number {
  return expected | ((byte ?? END_OF_DOCUMENT) << 8)
}

/** Why a text is not JSON: what was due at byte `at`, and what stands there. */
export function describeGrammar(word: number, at: number, where = ''): string {
  const expected = word & 0xff
  const byte = word >> 8
  let found = byte < 0x80 ? JSON.stringify(String.fromCharCode(byte)) : 'a character beyond ASCII'
  if (byte === END_OF_DOCUMENT) found = 'the end'
  let hint = ''
  if (byte === SINGLE_QUOTE) hint = '; JSON takes double quotes'
  if (expected === EXPECTED.end && byte === OPEN_OBJECT) hint = '; several objects go into one array'
  return `expected ${Object.values(EXPECTED_WORDS)[expected]} at byte ${at}${where}, found ${found}${hint}`
}

/** Where a document broke, as far as the kernel knows. */
export interface BrokenAt {
  /** Index of the event; -1 outside of all. */
  readonly event: number
  readonly word: number
  readonly byte: number
}

/** The text of a refused document, a value of DOCUMENT. `status` is 400, or 413 at a limit. */
export function describeDocument(
  document: number,
  broken?: BrokenAt,
): { status: number; code: string; message: string } {
  const inEvent = broken === undefined || broken.event < 0 ? '' : ` (event ${broken.event})`
  const where = broken === undefined ? '' : ` at byte ${broken.byte}${inEvent}`
  switch (document) {
    case DOCUMENT.bom:
      return refused('byte_order_mark', 'a byte order mark stands behind another one; send plain UTF-8')
    case DOCUMENT.invalid_utf8:
      return refused('invalid_utf8', 'the body is not valid UTF-8')
    case DOCUMENT.too_deep:
      return refused('too_deep', `the body nests more than ${DEPTH_MAX} objects and arrays${where}`)
    case DOCUMENT.unpaired_surrogate:
      return refused('unpaired_surrogate', `a string holds one half of a surrogate pair${where}`)
    case DOCUMENT.number_out_of_range:
      return refused('number_out_of_range', `a number is beyond the range of a 64-bit float${where}`)
    case DOCUMENT.not_object_or_array:
      return refused('not_object_or_array', 'the body is neither a JSON object nor an array of objects')
    case DOCUMENT.broken_gzip:
      return refused('broken_gzip', 'the body is not a complete gzip stream')
    case DOCUMENT.too_many_events:
      return refused('too_many_events', `a request takes at most ${EVENTS_MAX} events`, 413)
    case DOCUMENT.body_too_large:
      return refused('body_too_large', `a decoded body takes at most ${BODY_BYTES_MAX} bytes`, 413)
    default:
      return refused('not_json', notJson(broken, inEvent))
  }
}

const EMPTY = refusalWord(EXPECTED.value, undefined)

function notJson(broken: BrokenAt | undefined, where: string): string {
  if (broken === undefined) return 'the body is not JSON'
  if (broken.byte === 0 && broken.word === EMPTY)
    return 'the body is empty: send a JSON object or an array of objects'
  return `the body is not JSON: ${describeGrammar(broken.word, broken.byte, where)}`
}

function refused(code: string, message: string, status = 400) {
  return { status, code, message }
}

/** The text of an event error: names the column, its property and the reason. */
export function describeEventError(schema: PoolSchema, word: number, columnIndex: number): EventErrorText {
  const error = word & 0xff
  const found = FOUND_WORDS[(word >> 8) & 0xff] ?? 'nothing'
  const column = schema.columns[columnIndex]
  if (error === EVENT_ERROR.not_object || column === undefined)
    return { code: 'not_object', column: null, message: `an event is a JSON object, this is ${found}` }
  const [code, why] = reasonOf(error, column.type, found)
  const { name, jsonProperty } = column
  return { code, column: name, message: `column "${name}" (property "${jsonProperty}")${why}` }
}

/** The code of an error of a column, and the words behind the column's names. */
function reasonOf(error: number, type: ColumnType, found: string): readonly [code: string, why: string] {
  switch (error) {
    case EVENT_ERROR.missing:
      return ['missing_value', ` is required, found ${found}`]
    case EVENT_ERROR.wrong_type:
      return ['wrong_type', ` takes ${type}, found ${found}`]
    case EVENT_ERROR.out_of_range:
      return ['out_of_range', `: the value is out of range for ${type}`]
    case EVENT_ERROR.not_integral:
      return ['not_integral', ` takes ${type}, found a number that is not exactly an integer`]
    case EVENT_ERROR.bad_timestamp:
      return ['bad_timestamp', ': not a timestamp (YYYY-MM-DDTHH:MM:SSZ or an epoch number)']
    default:
      return ['bad_date', ': not a date (YYYY-MM-DD)']
  }
}

/** An event error as a client reads it. `column` is null where the event is no object. */
export interface EventErrorText {
  readonly code: string
  readonly column: string | null
  readonly message: string
}
