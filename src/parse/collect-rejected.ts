/**
 * Finds what a parse task refused, with its reasons and its texts (rejected-rows.ts). It looks only
 * at requests with a refusal, so accepted ones cost nothing more.
 */
import type { PoolSchema } from '../format/schema.ts'
import { DOCUMENT, describeDocument, describeEventError } from './event-error.ts'
import { ERROR_WORDS, FLAG, OUTCOME, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from './kernel.ts'
import type { ParseTask, ParseTaskGroup } from './parse-task.ts'
import { elementsOf, type RejectedRows, RejectedWriter } from './rejected-rows.ts'
import type { BodyFormat } from './sender/body-format.ts'
import { decodeBody } from './sender/prepare-body.ts'
import type { EarlyAnswer, Received } from './sender/received.ts'
import type { Unzstd } from './sender/unzstd.ts'

/** The result of a task, and its memory. */
interface TaskMemory {
  readonly outcomes: Int32Array
  /** Sorted by request, then event. */
  readonly errors: Int32Array
  readonly early: ReadonlyMap<number, EarlyAnswer>
  readonly table: Float64Array
  readonly received: ParseTask['received']
  readonly unzstd: Unzstd | undefined
  /** The JSON document of a request; its body as it came where no document was made of it. */
  documentOf(request: number): Uint8Array
  contextOf(request: number): Uint8Array
}

/** How the texts of documents are written, whatever their requests were. */
const JSON_TYPE = 'application/json'
const TYPES: Readonly<Record<BodyFormat, string>> = {
  JSON: JSON_TYPE,
  NDJSON: 'application/x-ndjson',
  FORM: 'application/x-www-form-urlencoded',
  TEXT: 'text/plain',
}

/** A valid event that was refused because another one of its request was not. */
const REFUSED_WITH_OTHERS = {
  code: 'refused_with_others',
  column: null,
  message: 'another event of the request is invalid, and the request asked for all or none',
}

/** The rows of a group with a grant; undefined where nothing was refused. */
export function collectRejected(
  { from, to, rejected: grant }: ParseTaskGroup,
  schema: PoolSchema,
  memory: TaskMemory,
): RejectedRows | undefined {
  if (grant === undefined) return undefined
  let writer: RejectedWriter | undefined
  let error = 0
  const { errors, outcomes, table } = memory
  while (error < errors.length && errors[error]! < from) error += ERROR_WORDS
  for (let request = from; request < to; request += 1) {
    const first = error
    while (errors[error] === request) error += ERROR_WORDS
    const document = outcomes[request * OUTCOME_WORDS + OUTCOME.document]!
    if (document === DOCUMENT.ok && first === error) continue
    const flags = table[request * REQUEST_WORDS + REQUEST.flags]!
    if ((flags & FLAG.keeps) === 0) continue
    writer ??= new RejectedWriter(grant)
    const own = errors.subarray(first, error)
    if (document === DOCUMENT.ok) addEvents(writer, request, own, schema, memory)
    else addRequest(writer, request, document, own, memory)
  }
  return writer?.end()
}

/** The row of a request that was refused as a whole. */
function addRequest(
  writer: RejectedWriter,
  request: number,
  document: number,
  errors: Int32Array,
  memory: TaskMemory,
): void {
  const early = memory.early.get(request)
  // A handshake is not refused, and nobody knows who sent a request with a wrong signature.
  if (early !== undefined && ('contentType' in early || early.status === 401)) return
  if (!writer.hasRoom) {
    writer.leaveOut(1)
    return
  }
  const [, event, word, byte] = errors
  const broken = word === undefined ? undefined : { event: event!, word, byte: byte! }
  const { code, message } = early ?? describeDocument(document, broken)
  const received = memory.received?.get(request)
  const body = memory.documentOf(request)
  const decoded = early && received ? decodeBody(body, received.encoding, memory.unzstd) : body
  writer.add({
    request,
    context: memory.contextOf(request),
    index: null,
    code,
    column: null,
    message,
    contentType: early && received ? typeOf(received) : JSON_TYPE,
    text: decoded instanceof Uint8Array ? decoded : undefined,
  })
}

function typeOf({ format, refused }: Received): string | null {
  return refused === undefined ? TYPES[format] : refused.contentType
}

/** The rows of the refused events of a request. */
function addEvents(
  writer: RejectedWriter,
  request: number,
  errors: Int32Array,
  schema: PoolSchema,
  memory: TaskMemory,
): void {
  const { outcomes, table } = memory
  const at = request * OUTCOME_WORDS
  const isWhole = (table[request * REQUEST_WORDS + REQUEST.flags]! & FLAG.all_or_nothing) !== 0
  const allOf = isWhole ? outcomes[at + OUTCOME.events]! : undefined
  let rows = allOf ?? refusedEvents(errors)
  if (!writer.hasRoom) {
    writer.leaveOut(rows)
    return
  }
  const context = memory.contextOf(request)
  let index = -1
  let error = 0
  for (const text of elementsOf(memory.documentOf(request))) {
    index += 1
    const isRefused = errors[error + 1] === index
    if (!isRefused && !isWhole) continue
    const { code, column, message } = isRefused
      ? describeEventError(schema, errors[error + 2]!, errors[error + 3]!)
      : REFUSED_WITH_OTHERS
    // One literal: objects that are spread took a third of the time.
    writer.add({ request, index, allOf, code, column, message, contentType: JSON_TYPE, text, context })
    rows -= 1
    if (!writer.hasRoom) break
    // Only the first error of an event counts.
    while (errors[error + 1] === index) error += ERROR_WORDS
  }
  writer.leaveOut(rows)
}

/** The number of events that errors are about. Those of one event stand together. */
function refusedEvents(errors: Int32Array): number {
  let count = 0
  for (let at = 0; at < errors.length; at += ERROR_WORDS)
    if (at === 0 || errors[at + 1] !== errors[at + 1 - ERROR_WORDS]) count += 1
  return count
}
