/**
 * Makes a parse task of the ready requests of one slab, and one commit of the result.
 *
 *   takeBatch      a table with a row per request, grouped by pool and kind
 *   commitBatchOf  spans for the log and parts for the memtable
 *
 * Log records are numbered in the order in which their bodies were complete, whatever group they
 * are in. This is mostly their order in the slab, so the log writes neighbours in one piece. Within
 * a group this is the order of the rows.
 */
import { batchBytesMax } from '../../format/batch-layout.ts'
import { RECORD_HEADER_BYTES } from '../../format/log-record.ts'
import type { Span } from '../../log/log-types.ts'
import { FLAG, OUTCOME, OUTCOME_WORDS, REQUEST, REQUEST_WORDS } from '../../parse/kernel.ts'
import type { ParseResult, ParseTask, ParseTaskGroup } from '../../parse/parse-task.ts'
import type { RejectedGrant } from '../../parse/rejected-rows.ts'
import type { Received } from '../../parse/sender/received.ts'
import { ENTRY_WORDS } from '../../store/flush/memtable.ts'
import { stepUsOf, wallMs } from '../../util/clock.ts'
import {
  BATCH_BYTES_MAX,
  BODY_BYTES_MAX,
  EVENTS_MAX,
  PARSE_TASK_BYTES_MAX,
  PARSE_TASK_REQUESTS_MAX,
} from '../../util/limits.ts'
import type { CommitBatch, CommitPart, IngestTarget } from '../api-types.ts'
import { contextBytesOf, type IngestRequest, type Slab } from './body-memory.ts'
import type { IngestPool } from './ingest-pool.ts'

/**
 * DEFLATE makes at most 1,032 bytes of one (RFC 1951: 258 bytes from two bits). A block of zstd of
 * four bytes makes 128 KiB.
 */
const DECODED_RATIO_MAX = { gzip: 1032, zstd: 32_768 }

/** Whether the refused events of a pool are kept (rejected-events.ts). */
type Grant = (target: IngestTarget) => RejectedGrant | undefined

export interface Batch {
  readonly task: ParseTask
  readonly requests: readonly IngestRequest[]
  readonly groupOf: Uint16Array
  readonly pools: readonly IngestPool[]
  /** Rows in the order in which their bodies were complete, mostly their order in the slab. */
  readonly order: Uint16Array
  /** Upper bound of the bytes of its Arrow batches. */
  readonly parsedBytesMax: number
  readonly isSmall: boolean
}

/**
 * Takes the oldest ready requests of a slab: at least one, at most PARSE_TASK_REQUESTS_MAX, within
 * PARSE_TASK_BYTES_MAX and BATCH_BYTES_MAX. Requests of paused pools stay (ingest-pool.ts);
 * undefined where there are no others.
 *
 * The batch of a body can be much larger than the body. A row has the width of all columns,
 * whatever its event holds: 1.5 kB of `{}` become 2 MB with 500 nullable DOUBLE columns. And 500
 * STRING columns of one property make 500 MB of a body of 1 MB: such a request is parsed alone.
 *
 * A batch has one schema version of each pool: the one that is current at this moment.
 */
export function takeBatch(slab: Slab<IngestRequest>, grant: Grant): Batch | undefined {
  const paused = slab.ready.filter(isPaused)
  const ready = slab.ready.filter(request => !isPaused(request))
  if (ready.length === 0) return undefined
  let count = 0
  let bytes = 0
  let parsedBytesMax = 0
  while (count < ready.length && count < PARSE_TASK_REQUESTS_MAX) {
    const request = ready[count]!
    weighAgain(slab, request)
    const isOver =
      bytes + request.bytesMax > PARSE_TASK_BYTES_MAX ||
      parsedBytesMax + request.parsedBytesMax > BATCH_BYTES_MAX
    if (count > 0 && isOver) break
    bytes += request.bytesMax
    parsedBytesMax += request.parsedBytesMax
    count += 1
  }
  slab.readyBytes -= bytes
  slab.readyParsedBytes -= parsedBytesMax
  slab.ready = [...paused, ...ready.splice(count)]
  const { task, requests, groupOf, pools, order } = tableOf(slab.memory, ready, grant)
  return { task, requests, groupOf, pools, order, parsedBytesMax, isSmall: !slab.large }
}

function isPaused({ admission }: IngestRequest): boolean {
  return admission.target.pool.isPaused
}

/** Sets the upper bounds of a complete body: batches stay small whatever a compressed one holds. */
export function weigh(request: IngestRequest): void {
  const { received, target } = request.admission
  const { schema } = target.pool
  const contextBytes = contextBytesOf(request.admission)
  const documentBytes = documentBytesMax(request.bytes, received)
  // Each event gets the values of the context, and takes at least three bytes: `{},`.
  const events = Math.min(EVENTS_MAX, Math.floor(documentBytes / 3) + 1)
  const repeatsEnvelope = target.sender?.repeatsEnvelope === true && received !== undefined
  const envelopeBytes = repeatsEnvelope ? Math.min(BODY_BYTES_MAX, events * documentBytes) : 0
  request.bytesMax = contextBytes + Math.min(BODY_BYTES_MAX, documentBytes + envelopeBytes)
  const repeatedBytes = events * contextBytes + envelopeBytes
  request.parsedBytesMax = batchBytesMax(schema.cost, documentBytes + repeatedBytes, events)
  request.weighedBy = schema
}

/** Upper bound of the bytes of the document that is made of a body. */
function documentBytesMax(bytes: number, received: Received | undefined): number {
  if (received === undefined) return bytes
  const { encoding, format } = received
  // A form grows at most sixfold: `%01` and a raw control character become `\u0001`.
  const ratio = (encoding === 'identity' ? 1 : DECODED_RATIO_MAX[encoding]) * (format === 'FORM' ? 6 : 1)
  return Math.min(BODY_BYTES_MAX, bytes * ratio + FRAME_BYTES)
}

/**
 * `{"":""}` around the one name or value of a form, `{"data":}` around the data of a CloudEvent,
 * and the brackets around NDJSON.
 */
const FRAME_BYTES = 9

/** Sets the bounds of a ready body again after its pool's schema was replaced. */
function weighAgain(slab: Slab<IngestRequest>, request: IngestRequest): void {
  if (request.weighedBy === request.admission.target.pool.schema) return
  slab.readyBytes -= request.bytesMax
  slab.readyParsedBytes -= request.parsedBytesMax
  weigh(request)
  slab.readyBytes += request.bytesMax
  slab.readyParsedBytes += request.parsedBytesMax
}

function tableOf(slab: SharedArrayBuffer, taken: readonly IngestRequest[], grant: Grant) {
  const lists = group(taken)
  const requests: IngestRequest[] = []
  const order = new Uint16Array(taken.length)
  const groupOf = new Uint16Array(taken.length)
  const table = new Float64Array(taken.length * REQUEST_WORDS)
  const received = new Map<number, Received>()
  const groups: ParseTaskGroup[] = []
  const pools: IngestPool[] = []
  for (const list of lists) {
    const from = requests.length
    for (const arrival of list) {
      const request = taken[arrival]!
      writeRow(table, requests.length * REQUEST_WORDS, request)
      if (request.admission.received !== undefined)
        received.set(requests.length, completed(request.admission.received))
      groupOf[requests.length] = groups.length
      order[arrival] = requests.length
      requests.push(request)
    }
    groups.push(groupFor(requests[from]!, from, requests.length, grant))
    pools.push(requests[from]!.admission.target.pool)
  }
  const task = { slab, table, groups, received: received.size === 0 ? undefined : received }
  return { task, requests, groupOf, pools, order }
}

/** Indexes into `taken`, by pool and kind. Most batches have one group. */
function group(taken: readonly IngestRequest[]): number[][] {
  const lists = new Map<string, number[]>()
  let lastPool: IngestPool | undefined
  let lastKind = ''
  let list: number[] = []
  for (let index = 0; index < taken.length; index += 1) {
    const { target, kind } = taken[index]!.admission
    if (target.pool !== lastPool || kind !== lastKind) {
      lastPool = target.pool
      lastKind = kind
      const key = `${target.pool.number} ${kind}`
      list = lists.get(key) ?? []
      lists.set(key, list)
    }
    list.push(index)
  }
  return [...lists.values()]
}

function groupFor(request: IngestRequest, from: number, to: number, grant: Grant): ParseTaskGroup {
  const { target, kind } = request.admission
  const { version, bytes } = target.pool.schema
  return {
    kind,
    pool: target.pool.number,
    version,
    schema: bytes,
    from,
    to,
    clock: eventClockOf(request),
    // A DELETE that was refused deletes nothing later either: nobody would take it in again.
    rejected: kind === 'post' ? grant(target) : undefined,
  }
}

/** Gives each accepted event of a POST a received-at. A DELETE brings the one that it means. */
function eventClockOf({ admission: { kind, target } }: IngestRequest): SharedArrayBuffer | undefined {
  return kind === 'post' ? target.eventClock : undefined
}

/** With the time at which the task is made, by the clock that senders have too. */
function completed(received: Received): Received {
  const { signature } = received
  if (signature === undefined) return received
  return { ...received, signature: { ...signature, head: { ...signature.head, receivedAtMs: wallMs() } } }
}

function writeRow(table: Float64Array, at: number, request: IngestRequest): void {
  const { allOrNothing, received, reservedUs } = request.admission
  table[at + REQUEST.offset] = request.offset
  table[at + REQUEST.bytes] = request.bytes
  table[at + REQUEST.flags] =
    (allOrNothing ? FLAG.all_or_nothing : 0) |
    (received === undefined ? 0 : FLAG.received) |
    // Whoever gives a batch hears of its refused rows, and a replay keeps what it has.
    (request.sink === undefined ? FLAG.keeps : 0) |
    (eventClockOf(request) === undefined ? 0 : FLAG.rises) |
    (reservedUs === undefined ? 0 : FLAG.reserved)
  table[at + REQUEST.receivedAtUs] = request.receivedAtUs
  table[at + REQUEST.contextBytes] = contextBytesOf(request.admission)
  table[at + REQUEST.bits] = -1
}

/** True for a request that has events to store, of a pool that is live. */
export function isCommitted(
  batch: Batch,
  result: ParseResult,
  live: readonly boolean[],
  row: number,
): boolean {
  return result.recordBytes[row] !== 0 && live[batch.groupOf[row]!] === true
}

export function commitBatchOf(batch: Batch, result: ParseResult, live: readonly boolean[]): CommitBatch {
  const indices = new Int32Array(batch.requests.length).fill(-1)
  const run = new Runs(batch.task.slab)
  const { ownRecords, bits } = result
  let records = 0
  for (const row of batch.order) {
    if (!isCommitted(batch, result, live, row)) continue
    const bytes = result.recordBytes[row]!
    indices[row] = records
    records += 1
    const own = ownRecords.get(row)
    const at = row * REQUEST_WORDS
    const contextBytes = batch.task.table[at + REQUEST.contextBytes]!
    const offset = batch.task.table[at + REQUEST.offset]! - contextBytes - RECORD_HEADER_BYTES
    if (own !== undefined) run.addAlone(own, bytes, bits.get(row))
    else run.add(offset, bytes, bits.get(row))
  }
  run.end()
  return { spans: run.spans, records, bytes: run.bytes, parts: partsOf(batch, result, indices) }
}

/** Collects spans; neighbouring log records share one. */
class Runs {
  readonly spans: Span[] = []
  bytes = 0
  readonly #slab: SharedArrayBuffer
  #from = 0
  #to = -1
  #records = 0

  constructor(slab: SharedArrayBuffer) {
    this.#slab = slab
  }

  add(offset: number, bytes: number, bits: Uint8Array | undefined): void {
    if (offset !== this.#to) {
      this.end()
      this.#from = offset
    }
    this.#to = offset + bytes
    this.#records += 1
    this.bytes += bytes
    if (bits !== undefined) this.end(bits)
  }

  addAlone(slab: SharedArrayBuffer, bytes: number, bits: Uint8Array | undefined): void {
    this.end()
    this.bytes += bytes
    this.spans.push(withBits({ slab, offset: 0, bytes, records: 1 }, bits))
  }

  end(bits?: Uint8Array): void {
    if (this.#records > 0) {
      const bytes = this.#to - this.#from
      this.spans.push(withBits({ slab: this.#slab, offset: this.#from, bytes, records: this.#records }, bits))
    }
    this.#records = 0
    this.#to = -1
  }
}

function withBits(span: Span, bits: Uint8Array | undefined): Span {
  return bits === undefined ? span : { ...span, bits }
}

/** The parts that are logged. A part belongs to one group, so it is logged as a whole. */
function partsOf(batch: Batch, result: ParseResult, indices: Int32Array): CommitPart[] {
  const parts: CommitPart[] = []
  const { table } = batch.task
  for (const part of result.batches) {
    const first = part.requests[0]
    if (first === undefined || indices[first]! < 0) continue
    const { kind, pool, version, clock } = batch.task.groups[batch.groupOf[first]!]!
    const stepUs = clock === undefined ? 0 : stepUsOf(clock)
    const requests = new Float64Array(part.requests.length * ENTRY_WORDS)
    for (let index = 0; index < part.requests.length; index += 1) {
      const row = part.requests[index]!
      requests[index * ENTRY_WORDS] = indices[row]!
      const firstUs = part.receivedAtUs?.[index]
      requests[index * ENTRY_WORDS + 1] = firstUs ?? table[row * REQUEST_WORDS + REQUEST.receivedAtUs]!
      requests[index * ENTRY_WORDS + 2] = result.outcomes[row * OUTCOME_WORDS + OUTCOME.accepted]!
      requests[index * ENTRY_WORDS + 3] = firstUs === undefined ? 0 : stepUs
    }
    parts.push({ kind, pool, version, batch: part.batch, requests, rows: part.requests })
  }
  return parts
}
