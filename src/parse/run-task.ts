/**
 * A parse task on its worker's thread (workers/parse.ts): prepares and parses bodies, and writes
 * the log record header in front of each accepted body. The reference parser parses what the native
 * kernel hands back (DOCUMENT.undecided) into a batch of its own, and its outcome counts.
 */

import { align8 } from '../format/batch-layout.ts'
import { RECORD_HEADER_BYTES, RECORD_KIND, recordBytes, writeRecordHeader } from '../format/log-record.ts'
import type { PoolSchema } from '../format/schema.ts'
import { reserveUs, stepUsOf } from '../util/clock.ts'
import { crc32 } from '../util/crc32.ts'
import { must } from '../util/errors.ts'
import type { KernelChoice } from '../util/native.ts'
import { takeFitting } from './batch-buffers.ts'
import { collectRejected } from './collect-rejected.ts'
import { DOCUMENT } from './event-error.ts'
import { setReceivedAt } from './event-times.ts'
import { withoutMark } from './json-scan.ts'
import {
  type BatchOptions,
  ERROR_WORDS,
  exactly,
  FLAG,
  OUTCOME,
  OUTCOME_WORDS,
  type Parsed,
  REQUEST,
  REQUEST_WORDS,
} from './kernel.ts'
import { type GroupKernels, KernelCache } from './kernel-cache.ts'
import type { ParsedBatch, ParseResult, ParseTask, ParseTaskGroup } from './parse-task.ts'
import type { RejectedRows } from './rejected-rows.ts'
import type { BodyEvents } from './sender/events-in.ts'
import { prepareBody } from './sender/prepare-body.ts'
import type { EarlyAnswer } from './sender/received.ts'
import type { Unzstd } from './sender/unzstd.ts'

/** The first byte of a byte order mark. No JSON begins with it. */
const MARK_BEGIN = 0xef

/** Runs a task. A task with a body of zstd needs the decoder (`needsZstd`). */
type TaskRunner = (task: ParseTask, unzstd?: Unzstd) => ParseResult

/** Makes the function that runs a worker's tasks. The function caches its kernels. */
export function createTaskRunner(kernel: KernelChoice, options: BatchOptions = {}): TaskRunner {
  /** The buffers of the running task that hold no batch yet. */
  let given: SharedArrayBuffer[] = []
  // A batch without rows is dropped at once, so it takes memory that the garbage collector counts.
  const allocate = (bytes: number, rows: number) => (rows === 0 ? exactly(bytes) : takeFitting(given, bytes))
  const kernels = new KernelCache(kernel, { ...options, allocate })
  const kernelsOf = (group: ParseTaskGroup) => kernels.of(group)
  return (task, unzstd) => {
    given = [...(task.buffers ?? [])]
    return new TaskRun(task, unzstd).run(kernelsOf, given)
  }
}

/** True for a task with a body of zstd. */
export function needsZstd({ received }: ParseTask): boolean {
  for (const { encoding } of received?.values() ?? []) if (encoding === 'zstd') return true
  return false
}

class TaskRun {
  readonly #task: ParseTask
  readonly #table: Float64Array
  readonly #slab: Uint8Array
  readonly #batches: ParsedBatch[] = []
  readonly #outcomes: Int32Array
  readonly #errors: number[] = []
  readonly #recordBytes: Int32Array
  readonly #ownRecords = new Map<number, SharedArrayBuffer>()
  readonly #early = new Map<number, EarlyAnswer>()
  readonly #unzstd: Unzstd | undefined

  constructor(task: ParseTask, unzstd: Unzstd | undefined) {
    this.#unzstd = unzstd
    const requests = task.table.length / REQUEST_WORDS
    this.#task = task
    this.#table = task.table
    this.#slab = new Uint8Array(task.slab)
    this.#outcomes = new Int32Array(requests * OUTCOME_WORDS)
    this.#recordBytes = new Int32Array(requests)
  }

  /** @param given the task's buffers, without those that become batches */
  run(kernelsOf: (group: ParseTaskGroup) => GroupKernels, given: readonly SharedArrayBuffer[]): ParseResult {
    const { groups, isReplay } = this.#task
    for (const group of groups) {
      const kernels = kernelsOf(group)
      const batchesBefore = this.#batches.length
      const longer = this.#prepare(group, kernels)
      this.#parseSlab(group, kernels, longer)
      for (const [request, content] of longer) this.#parseOwn(request, content, kernels)
      for (let index = batchesBefore; index < this.#batches.length; index += 1)
        this.#batches[index] = this.#withEventTimes(this.#batches[index]!, group, kernels)
    }
    const errors = byRequest(this.#errors)
    const rejected = new Map<number, RejectedRows>()
    for (const [index, group] of groups.entries()) {
      const rows = group.rejected && this.#collectRejected(group, errors, kernelsOf(group).schema)
      if (rows !== undefined) rejected.set(index, rows)
    }
    const bits = isReplay === true ? new Map<number, Uint8Array>() : this.#acceptedBits()
    for (const group of isReplay === true ? [] : groups)
      for (let request = group.from; request < group.to; request += 1)
        if (this.#outcome(request, OUTCOME.accepted) > 0) this.#writeRecord(group, request, bits.get(request))
    return {
      batches: this.#batches,
      outcomes: this.#outcomes,
      errors,
      rejected,
      recordBytes: this.#recordBytes,
      ownRecords: this.#ownRecords,
      bits,
      early: this.#early,
      unusedBuffers: given,
    }
  }

  #has(request: number, flag: number): boolean {
    return (this.#table[request * REQUEST_WORDS + REQUEST.flags]! & flag) !== 0
  }

  #outcome(request: number, word: number): number {
    return this.#outcomes[request * OUTCOME_WORDS + word]!
  }

  /**
   * Makes the documents of a group's bodies: of received ones, and of those with a byte order mark.
   * A document that fits into the space of its body replaces it there, because memory that threads
   * share is freed late. The others get memory of their own.
   * @returns the others, each behind its context, by request
   */
  #prepare({ kind, from, to }: ParseTaskGroup, { schema }: GroupKernels): Map<number, Uint8Array> {
    const longer = new Map<number, Uint8Array>()
    const eventsSchema = kind === 'post' ? schema : null
    for (let request = from; request < to; request += 1) {
      const at = request * REQUEST_WORDS
      const [offset, bytes] = [this.#table[at + REQUEST.offset]!, this.#table[at + REQUEST.bytes]!]
      if (!this.#has(request, FLAG.received) && this.#slab[offset] !== MARK_BEGIN) continue
      const contextBytes = this.#table[at + REQUEST.contextBytes]!
      const body = this.#slab.subarray(offset, offset + bytes)
      const events = this.#eventsOf(request, body, eventsSchema)
      if (!('document' in events)) {
        this.#early.set(request, events)
        this.#outcomes.set([0, 0, DOCUMENT.early, -1], request * OUTCOME_WORDS)
        continue
      }
      const { document, envelope } = events
      const contextAt = offset - contextBytes
      const head = this.#slab.subarray(contextAt, offset)
      const context = envelope === undefined ? head : joined(head, envelope)
      const documentAt = contextAt + context.byteLength
      if (documentAt + document.byteLength > contextAt + align8(contextBytes + bytes))
        longer.set(request, Buffer.concat([context, document]))
      else {
        if (document !== body) this.#slab.set(document, documentAt)
        if (context !== head) this.#slab.set(context, contextAt)
      }
      this.#table[at + REQUEST.offset] = documentAt
      this.#table[at + REQUEST.contextBytes] = documentAt - contextAt
      this.#table[at + REQUEST.bytes] = document.byteLength
    }
    return longer
  }

  #eventsOf(request: number, body: Uint8Array, schema: PoolSchema | null): BodyEvents | EarlyAnswer {
    if (!this.#has(request, FLAG.received)) return { document: withoutMark(body) }
    const received = must(this.#task.received?.get(request), 'the description of a received body')
    return prepareBody(body, received, schema, this.#unzstd)
  }

  /** Parses the runs of requests whose documents stand in the slab, in the group's order. */
  #parseSlab(group: ParseTaskGroup, kernels: GroupKernels, longer: ReadonlyMap<number, Uint8Array>): void {
    let from = group.from
    for (let request = group.from; request <= group.to; request += 1) {
      if (request < group.to && !this.#early.has(request) && !longer.has(request)) continue
      if (request > from) this.#parse(kernels, this.#slab, this.#table, from, request, from)
      from = request + 1
    }
  }

  /** Parses a context and the document behind it in shared memory, behind their record header. */
  #parseOwn(request: number, content: Uint8Array, kernels: GroupKernels): void {
    const at = request * REQUEST_WORDS
    const own = new SharedArrayBuffer(RECORD_HEADER_BYTES + align8(content.byteLength))
    const bytes = new Uint8Array(own)
    bytes.set(content, RECORD_HEADER_BYTES)
    this.#ownRecords.set(request, own)
    const row = this.#table.slice(at, at + REQUEST_WORDS)
    row[REQUEST.offset] = this.#memoryOf(request).offset
    this.#parse(kernels, bytes, row, 0, 1, request)
  }

  /** Where the document of a request stands; its context ends there. */
  #memoryOf(request: number): { readonly memory: Uint8Array; readonly offset: number } {
    const at = request * REQUEST_WORDS
    const own = this.#ownRecords.get(request)
    return own === undefined
      ? { memory: this.#slab, offset: this.#table[at + REQUEST.offset]! }
      : { memory: new Uint8Array(own), offset: RECORD_HEADER_BYTES + this.#table[at + REQUEST.contextBytes]! }
  }

  /**
   * Parses rows [from, to) of `table`, which are the task's requests from `first` on. The reference
   * parser then parses the undecided ones, each into a batch of its own.
   */
  #parse(
    kernels: GroupKernels,
    slab: Uint8Array,
    table: Float64Array,
    from: number,
    to: number,
    first: number,
  ): void {
    this.#take(kernels.first.parse(slab, table, from, to), first)
    for (let row = from; row < to; row += 1) {
      const request = first + row - from
      if (this.#outcome(request, OUTCOME.document) === DOCUMENT.undecided)
        this.#take(kernels.reference().parse(slab, table, row, row + 1), request)
    }
  }

  /** Takes over the outcomes, errors and rows of a kernel's call that began at request `first`. */
  #take({ batch, outcomes, errors }: Parsed, first: number): void {
    this.#outcomes.set(outcomes, first * OUTCOME_WORDS)
    const accepted: number[] = []
    for (let index = 0; index < outcomes.length / OUTCOME_WORDS; index += 1)
      if (outcomes[index * OUTCOME_WORDS + OUTCOME.accepted]! > 0) accepted.push(first + index)
    for (let at = 0; at < errors.length; at += ERROR_WORDS)
      this.#errors.push(first + errors[at]!, errors[at + 1]!, errors[at + 2]!, errors[at + 3]!)
    if (accepted.length > 0)
      this.#batches.push({ batch, requests: Int32Array.from(accepted), receivedAtUs: undefined })
  }

  #collectRejected(group: ParseTaskGroup, errors: Int32Array, schema: PoolSchema): RejectedRows | undefined {
    return collectRejected(group, schema, {
      outcomes: this.#outcomes,
      errors,
      early: this.#early,
      table: this.#table,
      received: this.#task.received,
      documentOf: request => {
        const { memory, offset } = this.#memoryOf(request)
        return memory.subarray(offset, offset + this.#table[request * REQUEST_WORDS + REQUEST.bytes]!)
      },
      contextOf: request => {
        const { memory, offset } = this.#memoryOf(request)
        const bytes = this.#table[request * REQUEST_WORDS + REQUEST.contextBytes]!
        return memory.subarray(offset - bytes, offset)
      },
      unzstd: this.#unzstd,
    })
  }

  /**
   * Gives the events of requests with FLAG.rises their received-at: reserved from the group's
   * clock, or counted from the log record's in a replay. The table gets that of the first event.
   */
  #withEventTimes(
    parsed: ParsedBatch,
    { clock }: ParseTaskGroup,
    { partsBefore }: GroupKernels,
  ): ParsedBatch {
    if (partsBefore === undefined) return parsed
    const table = this.#table
    const receivedAt = (request: number) => request * REQUEST_WORDS + REQUEST.receivedAtUs
    const stepUs = clock === undefined ? 1 : stepUsOf(clock)
    let from = 0
    for (const request of parsed.requests) {
      const rows = this.#outcome(request, OUTCOME.accepted)
      if (this.#has(request, FLAG.rises)) {
        const at = receivedAt(request)
        if (clock !== undefined && !this.#has(request, FLAG.reserved))
          table[at] = reserveUs(clock, table[at]!, rows)
        setReceivedAt(parsed.batch, partsBefore, from, rows, table[at]!, stepUs)
      }
      from += rows
    }
    if (clock === undefined) return parsed
    const { batch, requests } = parsed
    return {
      batch,
      requests,
      receivedAtUs: Float64Array.from(requests, request => table[receivedAt(request)]!),
    }
  }

  /** The bitmap of each request that was accepted in part: a bit per event, set where accepted. */
  #acceptedBits(): Map<number, Uint8Array> {
    const all = new Map<number, Uint8Array>()
    for (let at = 0; at < this.#errors.length; at += ERROR_WORDS) {
      const [request, event] = [this.#errors[at]!, this.#errors[at + 1]!]
      if (this.#outcome(request, OUTCOME.accepted) === 0) continue
      const bits = all.get(request) ?? allBits(this.#outcome(request, OUTCOME.events))
      bits[event >> 3]! &= ~(1 << (event & 7))
      all.set(request, bits)
    }
    return all
  }

  /** Writes the log record header of a request with accepted rows. */
  #writeRecord(group: ParseTaskGroup, request: number, bits: Uint8Array | undefined): void {
    const row = request * REQUEST_WORDS
    const contextBytes = this.#table[row + REQUEST.contextBytes]!
    const bodyBytes = contextBytes + this.#table[row + REQUEST.bytes]!
    const own = this.#ownRecords.get(request)
    const slab = own ?? this.#task.slab
    const before = RECORD_HEADER_BYTES + contextBytes
    const offset = own === undefined ? this.#table[row + REQUEST.offset]! - before : 0
    writeRecordHeader(new DataView(slab), offset, {
      kind: RECORD_KIND[group.kind],
      pool: group.pool,
      version: group.version,
      receivedAtUs: this.#table[row + REQUEST.receivedAtUs]!,
      receivedAtStepUs: this.#has(request, FLAG.rises) ? 1 : 0,
      bodyBytes,
      contextBytes,
      bodyCrc: crc32(new Uint8Array(slab, offset + RECORD_HEADER_BYTES, bodyBytes)),
      events: this.#outcome(request, OUTCOME.events),
      accepted: this.#outcome(request, OUTCOME.accepted),
      hasBits: bits !== undefined,
      bitsCrc: bits === undefined ? 0 : crc32(bits),
    })
    const end = offset + RECORD_HEADER_BYTES + bodyBytes
    // A slab is used again: its old bytes must not enter the log as padding.
    new Uint8Array(slab, end, align8(bodyBytes) - bodyBytes).fill(0)
    this.#recordBytes[request] = recordBytes(bodyBytes)
  }
}

/** A context of the request's head with the members of the envelope. Either is a JSON object. */
function joined(head: Uint8Array, envelope: Uint8Array): Uint8Array {
  if (head.byteLength <= 2) return envelope // none, or `{}`
  return Buffer.concat([head.subarray(0, -1), COMMA, envelope.subarray(1)])
}

const COMMA = Buffer.from(',')

/** A bitmap with the first `count` bits set. */
function allBits(count: number): Uint8Array {
  const bits = new Uint8Array(Math.ceil(count / 8)).fill(0xff)
  if (count % 8 !== 0) bits[bits.length - 1] = (1 << (count % 8)) - 1
  return bits
}

/** Errors sorted by request. Those of one request are in the order of its events already. */
function byRequest(errors: readonly number[]): Int32Array {
  let isSorted = true
  for (let at = ERROR_WORDS; at < errors.length; at += ERROR_WORDS)
    isSorted &&= errors[at]! >= errors[at - ERROR_WORDS]!
  if (isSorted) return Int32Array.from(errors)
  const rows = Array.from({ length: errors.length / ERROR_WORDS }, (_, index) =>
    errors.slice(index * ERROR_WORDS, (index + 1) * ERROR_WORDS),
  )
  return Int32Array.from(rows.sort((a, b) => a[0]! - b[0]!).flat())
}
