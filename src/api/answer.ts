/** What a client reads of its request: a job's outcome and faults become the 200's array, or a refusal. */
import { describeDocument, describeFault, type FaultWords } from '../batch/fault.ts'
import {
  FAULT_WORDS,
  OUTCOME_ACCEPTED,
  OUTCOME_DOCUMENT,
  OUTCOME_EVENT,
  OUTCOME_EVENTS,
  OUTCOME_WORDS,
} from '../batch/kernel.ts'
import { type CutKind, deletePlan, type Plan } from '../batch/plan.ts'
import type { JobResult } from '../batch/protocol.ts'
import type { EventFault, Refusal } from '../errors.ts'
import { EVENTS_MAX } from '../limits.ts'
import { assert } from '../util/assert.ts'
import type { Admission } from './admit.ts'
import { problemReply, refuse, rejectedHeaders } from './problem.ts'
import type { Reply } from './protocol.ts'
import { headText } from './reply.ts'

/** One request's answer, and what counts of it. */
export interface Answer {
  readonly reply: Reply
  readonly accepted: number
  readonly rejected: number
  /** The rejected events by fault code. */
  readonly rejectedBy: ReadonlyMap<string, number>
  /** The problem's code, undefined for a 200. */
  readonly code?: string
}

/**
 * The answer to row `row` of a job.
 * @param faults the row's first and end index in the result's faults, in events
 */
export function answerOf(
  admission: Admission,
  result: JobResult,
  row: number,
  faults: { readonly from: number; readonly to: number },
): Answer {
  const at = row * OUTCOME_WORDS
  const document = result.outcomes[at + OUTCOME_DOCUMENT]!
  if (document !== 0) return refusedDocument(document, result.outcomes[at + OUTCOME_EVENT]!)
  const events = result.outcomes[at + OUTCOME_EVENTS]!
  const accepted = result.outcomes[at + OUTCOME_ACCEPTED]!
  assert(events <= EVENTS_MAX && accepted <= events, 'an outcome is within its limits')
  if (accepted === events)
    return { reply: success(events, admission.minimal), accepted, rejected: 0, rejectedBy: NONE }
  const words = faultsOf(admission, result, faults.from, faults.to)
  if (accepted === 0) return refusedEvents(admission, events, words)
  const headers = headersOf(accepted, events - accepted, false)
  return {
    reply: { status: 200, headers, body: partialBody(events, words) },
    accepted,
    rejected: events - accepted,
    rejectedBy: countCodes(words),
  }
}

const NONE: ReadonlyMap<string, number> = new Map()

function countCodes(faults: readonly EventFault[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { code } of faults) counts.set(code, (counts.get(code) ?? 0) + 1)
  return counts
}

const OK = '{"statusCode":200,"statusMessage":"OK"}'
const successBodies: Uint8Array[] = []
const successReplies: Reply[] = []
const minimalReplies: Reply[] = []

/** 200 for so many events, all accepted. */
function success(events: number, minimal: boolean): Reply {
  const cache = minimal ? minimalReplies : successReplies
  let reply = cache[events]
  if (reply === undefined) {
    const body = minimal ? successBody(0) : successBody(events)
    const headers = headersOf(events, 0, minimal)
    reply = { status: 200, headers, body, head: headText(200, headers) }
    cache[events] = reply
  }
  return reply
}

function successBody(events: number): Uint8Array {
  let body = successBodies[events]
  if (body === undefined) {
    body = Buffer.from(`[${new Array<string>(events).fill(OK).join()}]`)
    successBodies[events] = body
  }
  return body
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

function partialBody(events: number, faults: readonly WordedFault[]): string {
  const elements = new Array<string>(events).fill(OK)
  for (const fault of faults) elements[fault.index] = fault.element
  return `[${elements.join()}]`
}

/** Faults [from, to) in words; of several faults of one event the first counts. */
function faultsOf(admission: Admission, result: JobResult, from: number, to: number): WordedFault[] {
  const plan = planOf(admission.target.plan, admission.kind)
  const words: WordedFault[] = []
  let last = -1
  for (let at = from * FAULT_WORDS; at < to * FAULT_WORDS; at += FAULT_WORDS) {
    const index = result.faults[at + 1]!
    if (index === last) continue
    last = index
    words.push({ index, ...inWords(plan, result.faults[at + 2]!, result.faults[at + 3]!) })
  }
  return words
}

/** A fault's words, and its element of a 200's array as JSON. */
interface Worded extends FaultWords {
  readonly element: string
}

type WordedFault = Worded & EventFault

/** Words by fault and column. A plan has few faults that happen; beyond the maximum its words are made again. */
const worded = new WeakMap<Plan, Map<number, Worded>>()
const WORDED_MAX = 1024

function inWords(plan: Plan, word: number, column: number): Worded {
  let known = worded.get(plan)
  if (known === undefined || known.size >= WORDED_MAX) {
    known = new Map()
    worded.set(plan, known)
  }
  const key = column * 65_536 + word
  let words = known.get(key)
  if (words === undefined) {
    const { code, column: name, message } = describeFault(plan, word, column)
    words = {
      code,
      column: name,
      message,
      element: JSON.stringify({ statusCode: 400, statusMessage: message }),
    }
    known.set(key, words)
  }
  return words
}

function refusedEvents(admission: Admission, events: number, faults: readonly EventFault[]): Answer {
  const some = admission.allOrNothing && faults.length < events
  const first = faults[0]
  const where = first === undefined ? '' : `: event ${first.index}: ${first.message}`
  const refusal = some
    ? refuse(
        400,
        'invalid_events',
        `${faults.length} of ${events} events are invalid, nothing was stored${where}`,
      )
    : refuse(400, 'no_valid_event', `no event is valid, nothing was stored${where}`)
  const rejectedBy = countCodes(faults)
  // Events that are valid themselves and went down with the others.
  if (some) rejectedBy.set(refusal.code, events - faults.length)
  const plain = faults.map(({ index, code, column, message }) => ({ index, code, column, message }))
  return answerRefusal({ ...refusal, headers: rejectedHeaders(events), events: plain }, rejectedBy)
}

function refusedDocument(document: number, event: number): Answer {
  const { status, code, message } = describeDocument(document)
  const events = event < 0 ? [] : [{ index: event, code, column: null, message }]
  return answerRefusal({ ...refuse(status, code, message), headers: rejectedHeaders(0), events })
}

/** The answer that says a refusal. */
export function answerRefusal(refusal: Refusal, rejectedBy = NONE): Answer {
  let rejected = 0
  for (const count of rejectedBy.values()) rejected += count
  return { reply: problemReply(refusal), accepted: 0, rejected, rejectedBy, code: refusal.code }
}

const plans = new WeakMap<SharedArrayBuffer, Plan>()
const deletePlans = new WeakMap<SharedArrayBuffer, Plan>()

/** The plan that a kind of body was cut with; decoded once a plan. */
function planOf(bytes: SharedArrayBuffer, kind: CutKind): Plan {
  let plan = plans.get(bytes)
  if (plan === undefined) {
    plan = JSON.parse(Buffer.from(new Uint8Array(bytes)).toString()) as Plan
    plans.set(bytes, plan)
  }
  if (kind === 'post') return plan
  let forDelete = deletePlans.get(bytes)
  if (forDelete === undefined) {
    forDelete = deletePlan(plan)
    deletePlans.set(bytes, forDelete)
  }
  return forDelete
}
