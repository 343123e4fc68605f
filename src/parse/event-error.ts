/**
 * Faults of documents and events: the numbers that kernels report, and the words that clients read.
 */

import type { PoolSchema } from '../format/schema.ts'
import { DEPTH_MAX, EVENTS_MAX } from '../util/limits.ts'

/** Why a whole document was refused. `judge` never leaves the worker: the js kernel cuts such a request again. */
export const DOCUMENT = {
  ok: 0,
  judge: 1,
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
} as const

/** Why one event was not accepted. The low byte of a fault word. */
export const FAULT = {
  not_object: 1,
  missing: 2,
  wrong_type: 3,
  out_of_range: 4,
  not_integral: 5,
  bad_timestamp: 6,
  bad_date: 7,
} as const

/** What stood in the event's place of a value. The second byte of a fault word. */
export const FOUND = { nothing: 0, null: 1, boolean: 2, number: 3, string: 4, object: 5, array: 6 } as const

const FOUND_WORDS = ['nothing', 'null', 'a boolean', 'a number', 'a string', 'an object', 'an array'] as const

/** A fault word from its parts. */
export function faultWord(fault: number, found: number): number {
  return fault | (found << 8)
}

/** A refused document in words. `status` is 400, or 413 where a limit was passed. */
export function describeDocument(document: number): { status: number; code: string; message: string } {
  switch (document) {
    case DOCUMENT.bom:
      return refused('byte_order_mark', 'the body begins with a byte order mark; send plain UTF-8')
    case DOCUMENT.invalid_utf8:
      return refused('invalid_utf8', 'the body is not valid UTF-8')
    case DOCUMENT.too_deep:
      return refused('too_deep', `the body nests more than ${DEPTH_MAX} objects and arrays`)
    case DOCUMENT.unpaired_surrogate:
      return refused('unpaired_surrogate', 'a string holds one half of a surrogate pair')
    case DOCUMENT.number_out_of_range:
      return refused('number_out_of_range', 'a number is beyond the range of a 64-bit float')
    case DOCUMENT.not_object_or_array:
      return refused('not_object_or_array', 'the body is neither a JSON object nor an array of objects')
    case DOCUMENT.broken_gzip:
      return refused('broken_gzip', 'the body is not a complete gzip stream')
    case DOCUMENT.too_many_events:
      return { status: 413, code: 'too_many_events', message: `a request takes at most ${EVENTS_MAX} events` }
    case DOCUMENT.body_too_large:
      return { status: 413, code: 'body_too_large', message: 'the decoded body is over 1048320 bytes' }
    default:
      return refused('not_json', 'the body is not JSON')
  }
}

function refused(code: string, message: string) {
  return { status: 400, code, message }
}

/** An event's fault in words: names the column, its property, and what was wrong. */
export function describeFault(schema: PoolSchema, word: number, columnIndex: number): FaultWords {
  const fault = word & 0xff
  const found = FOUND_WORDS[(word >> 8) & 0xff] ?? 'nothing'
  const column = schema.columns[columnIndex]
  if (fault === FAULT.not_object || column === undefined)
    return { code: 'not_object', column: null, message: `an event is a JSON object, this is ${found}` }
  const where = `column "${column.name}" (property "${column.jsonProperty}")`
  switch (fault) {
    case FAULT.missing:
      return { code: 'missing_value', column: column.name, message: `${where} is required, found ${found}` }
    case FAULT.wrong_type:
      return {
        code: 'wrong_type',
        column: column.name,
        message: `${where} takes ${column.type}, found ${found}`,
      }
    case FAULT.out_of_range:
      return {
        code: 'out_of_range',
        column: column.name,
        message: `${where}: the value is out of range for ${column.type}`,
      }
    case FAULT.not_integral:
      return {
        code: 'not_integral',
        column: column.name,
        message: `${where} takes ${column.type}, found a number that is not exactly an integer`,
      }
    case FAULT.bad_timestamp:
      return {
        code: 'bad_timestamp',
        column: column.name,
        message: `${where}: not a timestamp (YYYY-MM-DDTHH:MM:SSZ or an epoch number)`,
      }
    default:
      return { code: 'bad_date', column: column.name, message: `${where}: not a date (YYYY-MM-DD)` }
  }
}

/** What a client reads of one event that was not accepted. */
export interface FaultWords {
  readonly code: string
  readonly column: string | null
  readonly message: string
}
