/**
 * The answer to an ingest request: the outcome and the event errors of a parse task become the
 * array of a 200, or a refusal.
 *
 *   W-11  One turn of the event loop words at most EVENT_ERRORS_PER_TURN event errors, plus those
 *         of one answer: 500 of them take about as long as 500 other requests.
 */

import { setImmediate as nextTurn } from 'node:timers/promises'
import { deleteSchema, type PoolSchema, type RequestKind } from '../../format/schema.ts'
import {
  type BrokenAt,
  DOCUMENT,
  describeDocument,
  describeEventError,
  type EventErrorText,
} from '../../parse/event-error.ts'
import { ERROR_WORDS, OUTCOME, OUTCOME_WORDS } from '../../parse/kernel.ts'
import type { ParseResult } from '../../parse/parse-task.ts'
import type { EarlyAnswer } from '../../parse/sender/received.ts'
import { assert, type EventError, must, type Refusal } from '../../util/errors.ts'
import { getOrMake } from '../../util/get-or-make.ts'
import { EVENTS_MAX } from '../../util/limits.ts'
import type { Reply } from '../api-types.ts'
import { keptHead } from '../http/responder.ts'
import { problemReply, refuse, rejectedHeaders } from '../problem.ts'
import type { Admission } from './admission.ts'
import { handshakeReply } from './handshakes.ts'

/** Bad events described in one turn of the main thread; the answers of further ones take turns. */
export const EVENT_ERRORS_PER_TURN = 1_000

export interface Answer {
  readonly reply: Reply
  readonly accepted: number
  readonly rejected: number
  readonly rejectedBy: ReadonlyMap<string, number>
  readonly refusal?: Refusal
  /** The first error of each rejected event of a 200. */
  readonly errors?: readonly EventError[]
}

/** @param errors the first and the end index of the row's event errors in the result */
export function answerOf(
  admission: Admission,
  schema: SharedArrayBuffer,
  result: ParseResult,
  row: number,
  errors: { readonly from: number; readonly to: number },
): Answer {
  const at = row * OUTCOME_WORDS
  const document = result.outcomes[at + OUTCOME.document]!
  if (document === DOCUMENT.early)
    return earlyAnswer(must(result.early.get(row), 'the answer to a body that the kernel did not see'))
  if (document !== 0)
    return refusedDocument(document, result.outcomes[at + OUTCOME.event]!, brokenAt(result, errors))
  const events = result.outcomes[at + OUTCOME.events]!
  const accepted = result.outcomes[at + OUTCOME.accepted]!
  assert(events <= EVENTS_MAX && accepted <= events, 'an outcome is within its limits')
  if (accepted === events)
    return { reply: success(events, admission.minimal), accepted, rejected: 0, rejectedBy: NONE }
  const words = eventErrorsOf(schemaOf(schema, admission.kind), result, errors.from, errors.to)
  if (accepted === 0) return refusedEvents(admission, events, words)
  const headers = headersOf(accepted, events - accepted, false)
  return {
    reply: { status: 200, headers, body: partialBody(events, words) },
    accepted,
    rejected: events - accepted,
    rejectedBy: countCodes(words),
    errors: words,
  }
}

const NONE: ReadonlyMap<string, number> = new Map()

function countCodes(errors: readonly EventError[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { code } of errors) counts.set(code, (counts.get(code) ?? 0) + 1)
  return counts
}

const OK = '{"statusCode":200,"statusMessage":"OK"}'
const successReplies: Reply[] = []
const minimalReplies: Reply[] = []

function success(events: number, minimal: boolean): Reply {
  const cache = minimal ? minimalReplies : successReplies
  let reply = cache[events]
  if (reply === undefined) {
    const body = Buffer.from(minimal ? '[]' : partialBody(events, []))
    const headers = headersOf(events, 0, minimal)
    reply = { status: 200, headers, body, head: keptHead(200, headers) }
    cache[events] = reply
  }
  return reply
}

function headersOf(accepted: number, rejected: number, minimal: boolean): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'x-events-accepted': String(accepted),
    'x-events-rejected': String(rejected),
  }
  if (minimal) headers['preference-applied'] = 'return=minimal'
  return headers
}

function partialBody(events: number, errors: readonly WordedError[]): string {
  const elements = new Array<string>(events).fill(OK)
  for (const error of errors) elements[error.index] = error.element
  return `[${elements.join()}]`
}

/** Event errors [from, to) with their messages. Only the first error of an event counts. */
function eventErrorsOf(schema: PoolSchema, result: ParseResult, from: number, to: number): WordedError[] {
  const words: WordedError[] = []
  let last = -1
  for (let at = from * ERROR_WORDS; at < to * ERROR_WORDS; at += ERROR_WORDS) {
    const index = result.errors[at + 1]!
    if (index === last) continue
    last = index
    words.push({ index, ...inWords(schema, result.errors[at + 2]!, result.errors[at + 3]!) })
  }
  return words
}

/** An event error with its message, and its element in the array of a 200 as JSON. */
interface Worded extends EventErrorText {
  readonly element: string
}

type WordedError = Worded & EventError

/** Messages by error and column, which are few in a schema. At WORDED_MAX the cache starts anew. */
const worded = new WeakMap<PoolSchema, Map<number, Worded>>()
const WORDED_MAX = 1024

function inWords(schema: PoolSchema, word: number, column: number): Worded {
  let known = worded.get(schema)
  if (known === undefined || known.size >= WORDED_MAX) {
    known = new Map()
    worded.set(schema, known)
  }
  const key = column * 65_536 + word
  return getOrMake(known, key, () => {
    const described = describeEventError(schema, word, column)
    const element = JSON.stringify({ statusCode: 400, statusMessage: described.message })
    return { ...described, element }
  })
}

function refusedEvents(admission: Admission, events: number, errors: readonly EventError[]): Answer {
  const some = admission.allOrNothing && errors.length < events
  const first = errors[0]
  const nothing = admission.kind === 'delete' ? 'nothing was deleted' : 'nothing was stored'
  const where = first === undefined ? '' : `: event ${first.index}: ${first.message}`
  const refusal = some
    ? refuse(400, 'invalid_events', `${errors.length} of ${events} events are invalid, ${nothing}${where}`)
    : refuse(400, 'no_valid_event', `no event is valid, ${nothing}${where}`)
  const rejectedBy = countCodes(errors)
  // Valid events that were refused because of the others.
  if (some) rejectedBy.set(refusal.code, events - errors.length)
  const plain = errors.map(({ index, code, column, message }) => ({ index, code, column, message }))
  return answerRefusal({ ...refusal, headers: rejectedHeaders(events), events: plain }, rejectedBy)
}

/** Where a refused document broke; undefined where the kernel does not know. */
function brokenAt({ errors }: ParseResult, { from, to }: { from: number; to: number }): BrokenAt | undefined {
  if (from === to) return undefined
  const [, event, word, byte] = errors.subarray(from * ERROR_WORDS)
  return { event: event!, word: word!, byte: byte! }
}

function refusedDocument(document: number, event: number, broken: BrokenAt | undefined): Answer {
  const { status, code, message } = describeDocument(document, broken)
  const events = event < 0 ? [] : [{ index: event, code, column: null, message }]
  return answerRefusal({ ...refuse(status, code, message), headers: rejectedHeaders(0), events })
}

function earlyAnswer(early: EarlyAnswer): Answer {
  if ('contentType' in early)
    return { reply: handshakeReply(early), accepted: 0, rejected: 0, rejectedBy: NONE }
  const { status, code, message } = early
  const headers = { ...rejectedHeaders(0), ...(status === 401 ? CHALLENGE : {}) }
  return answerRefusal({ ...refuse(status, code, message), headers, events: [] })
}

/** A 401 names a scheme (RFC 9110, 11.6.1). None is registered for the signatures of senders. */
const CHALLENGE = { 'www-authenticate': 'Signature realm="weir"' }

export function answerRefusal(refusal: Refusal, rejectedBy = NONE): Answer {
  let rejected = 0
  for (const count of rejectedBy.values()) rejected += count
  return { reply: problemReply(refusal), accepted: 0, rejected, rejectedBy, refusal }
}

const schemas = {
  post: new WeakMap<SharedArrayBuffer, PoolSchema>(),
  delete: new WeakMap<SharedArrayBuffer, PoolSchema>(),
} satisfies Record<RequestKind, unknown>

/** The schema that bodies of this kind were parsed with. Each schema is decoded once. */
function schemaOf(bytes: SharedArrayBuffer, kind: RequestKind): PoolSchema {
  let schema = schemas[kind].get(bytes)
  if (schema === undefined) {
    const posted = JSON.parse(Buffer.from(new Uint8Array(bytes)).toString()) as PoolSchema
    schema = kind === 'post' ? posted : deleteSchema(posted)
    schemas[kind].set(bytes, schema)
  }
  return schema
}

/** Turns of the event loop for answers with event errors (W-11). */
export class Turns {
  #spent = 0
  #waiting = 0
  #last: Promise<void> = Promise.resolve()

  /**
   * Returns undefined where the request may be answered now. Otherwise the caller awaits the
   * promise and checks again whatever may have changed meanwhile. Requests are served in
   * their order.
   */
  take(errors: number): Promise<void> | undefined {
    if (errors === 0) return undefined
    if (this.#waiting === 0 && this.#spent < EVENT_ERRORS_PER_TURN) {
      if (this.#spent === 0)
        setImmediate(() => {
          this.#spent = 0
        })
      this.#spent += errors
      return undefined
    }
    this.#waiting += 1
    // Each waiting answer has a turn of its own.
    this.#last = this.#last.then(nextTurn).then(() => {
      this.#waiting -= 1
    })
    return this.#last
  }
}
