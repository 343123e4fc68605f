/**
 * A parse task on its worker's thread (workers/parse.ts): prepares and parses bodies, and writes
 * the log record header in front of each accepted body. The reference parser parses what the native
 * kernel hands back (DOCUMENT.undecided) into a batch of its own, and its outcome counts.
 */

import { align8 } from '../format/batch-layout.ts'
import { RECORD_HEADER_BYTES, RECORD_KIND, recordBytes, writeRecordHeader } from '../format/log-record.ts'
import type { PoolSchema } from '../format/schema.ts'
import { must } from '../util/assert.ts'
import { reserveUs, stepUsOf } from '../util/clock.ts'
import { crc32 } from '../util/crc32.ts'
import type { KernelChoice } from '../util/native.ts'
import { takeFitting } from './batch-buffers.ts'
import { collectRejected } from './collect-rejected.ts'
import { DOCUMENT } from './event-error.ts'
import { setReceivedAt } from './event-times.ts'
import {
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
import { prepareBody } from './sender/prepare-body.ts'
import type { EarlyAnswer } from './sender/received.ts'
import type { Unzstd } from './sender/unzstd.ts'

/** Runs a task. A task with a body of zstd needs the decoder (`needsZstd`). */
type TaskRunner = (task: ParseTask, unzstd?: Unzstd) => ParseResult

/**
 * Makes the function that runs a worker's tasks. The function caches its kernels.
 * @param deletesHaveColumns see MakeKernel
 */
export function createTaskRunner(kernel: KernelChoice, deletesHaveColumns = false): TaskRunner {
  /** The buffers of the running task that hold no batch yet. */
  let given: SharedArrayBuffer[] = []
  // A batch without rows is dropped at once, so it takes memory that the garbage collector counts.
  const allocate = (bytes: number, rows: number) => (rows === 0 ? exactly(bytes) : takeFitting(given, bytes))
  const kernels = new KernelCache(kernel, allocate, deletesHaveColumns)
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

/** A task while it runs. */
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
      for (const [request, document] of longer) this.#parseOwn(request, document, kernels)
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
   * Makes the documents of a group's received bodies. A document that fits into the space of its
   * body replaces it there, because memory that threads share is freed late. The others get memory
   * of their own.
   * @returns the other documents, by request
   */
  #prepare({ kind, from, to }: ParseTaskGroup, { schema }: GroupKernels): Map<number, Uint8Array> {
    const longer = new Map<number, Uint8Array>()
    const eventsPath = kind === 'post' ? (schema.eventsPath ?? null) : null
    for (let request = from; request < to; request += 1) {
      if (!this.#has(request, FLAG.received)) continue
      const at = request * REQUEST_WORDS
      const [offset, bytes] = [this.#table[at + REQUEST.offset]!, this.#table[at + REQUEST.bytes]!]
      const contextBytes = this.#table[at + REQUEST.contextBytes]!
      const received = must(this.#task.received?.get(request), 'the description of a received body')
      const body = this.#slab.subarray(offset, offset + bytes)
      const document = prepareBody(body, received, eventsPath, this.#unzstd)
      if (!(document instanceof Uint8Array)) {
        this.#early.set(request, document)
        this.#outcomes.set([0, 0, DOCUMENT.early, -1], request * OUTCOME_WORDS)
      } else if (document.byteLength > align8(contextBytes + bytes) - contextBytes)
        longer.set(request, document)
      else {
        if (document !== body) this.#slab.set(document, offset)
        this.#table[at + REQUEST.bytes] = document.byteLength
      }
    }
    return longer
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

  /** Parses one document in shared memory of its own, behind its record header and its context. */
  #parseOwn(request: number, document: Uint8Array, kernels: GroupKernels): void {
    const at = request * REQUEST_WORDS
    const contextBytes = this.#table[at + REQUEST.contextBytes]!
    const contextAt = this.#table[at + REQUEST.offset]! - contextBytes
    const own = new SharedArrayBuffer(RECORD_HEADER_BYTES + align8(contextBytes + document.byteLength))
    const bytes = new Uint8Array(own)
    const offset = RECORD_HEADER_BYTES + contextBytes
    bytes.set(this.#slab.subarray(contextAt, contextAt + contextBytes), RECORD_HEADER_BYTES)
    bytes.set(document, offset)
    // The log record is as long as the document: #writeRecord reads it from the table.
    this.#table[at + REQUEST.bytes] = document.byteLength
    const row = this.#table.slice(at, at + REQUEST_WORDS)
    row[REQUEST.offset] = offset
    this.#parse(kernels, bytes, row, 0, 1, request)
    this.#ownRecords.set(request, own)
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
        const own = this.#ownRecords.get(request)
        const at = request * REQUEST_WORDS
        const offset =
          own === undefined
            ? this.#table[at + REQUEST.offset]!
            : RECORD_HEADER_BYTES + this.#table[at + REQUEST.contextBytes]!
        const memory = own === undefined ? this.#slab : new Uint8Array(own)
        return memory.subarray(offset, offset + this.#table[at + REQUEST.bytes]!)
      },
      contextOf: request => {
        const end = this.#table[request * REQUEST_WORDS + REQUEST.offset]!
        return this.#slab.subarray(end - this.#table[request * REQUEST_WORDS + REQUEST.contextBytes]!, end)
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
        if (clock !== undefined) table[at] = reserveUs(clock, table[at]!, rows)
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
