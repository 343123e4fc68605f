/**
 * A parse task on its worker's thread (workers/parse.ts): inflates and parses bodies, and writes
 * the log record header in front of each accepted body.
 *
 * The native kernel hands back what it cannot decide (DOCUMENT.undecided). The reference parser,
 * the TypeScript kernel, parses such a request into a batch of its own, and its outcome counts.
 */

import { constants, gunzipSync } from 'node:zlib'
import { align8 } from '../format/batch-layout.ts'
import { RECORD_HEADER_BYTES, RECORD_KIND, recordBytes, writeRecordHeader } from '../format/log-record.ts'
import type { ColumnType, PoolSchema } from '../format/schema.ts'
import { reserveUs } from '../util/clock.ts'
import { crc32 } from '../util/crc32.ts'
import { BODY_BYTES_MAX } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'
import { takeFitting } from './batch-buffers.ts'
import { DOCUMENT } from './event-error.ts'
import { partsBeforeReceivedAt, setReceivedAt } from './event-times.ts'
import {
  ERROR_WORDS,
  FLAG,
  type Kernel,
  OUTCOME,
  OUTCOME_WORDS,
  type Parsed,
  REQUEST,
  REQUEST_WORDS,
} from './kernel.ts'
import { makeJsKernel } from './kernel-js.ts'
import { tryNativeKernel } from './kernel-native.ts'
import type { OwnRecord, ParsedBatch, ParseResult, ParseTask, ParseTaskGroup } from './parse-task.ts'

/**
 * The two kernels of one group. The reference parser is made when it is first needed: it takes 43
 * kB, and there may be thousands of pools.
 */
interface GroupKernels {
  readonly first: Kernel
  /** As `partsBeforeReceivedAt`. */
  readonly partsBefore: readonly ColumnType[] | undefined
  reference(): Kernel
}

/** The result of a task while it grows. */
interface Draft {
  readonly batches: ParsedBatch[]
  readonly outcomes: Int32Array
  readonly errors: number[]
  readonly recordBytes: Int32Array
  readonly own: Map<number, OwnRecord>
  readonly bits: { request: number; bytes: Uint8Array }[]
}

/** Kernels in the cache, by pool, version and kind. Beyond it the oldest is dropped. */
const KERNELS_MAX = 4096

/** Makes the function that runs a worker's tasks. The function caches its kernels. */
export function createTaskRunner(kernel: KernelChoice): (task: ParseTask) => ParseResult {
  const makeNativeKernel = tryNativeKernel(kernel)
  const made = new Map<string, GroupKernels>()
  /** The buffers of the running task that hold no batch yet. */
  let given: SharedArrayBuffer[] = []
  // A batch without rows is dropped at once, so it takes memory that the garbage collector counts.
  const allocate = (bytes: number, rows: number) =>
    rows === 0 ? Buffer.allocUnsafeSlow(bytes).buffer : takeFitting(given, bytes)
  const kernelsOf = (group: ParseTaskGroup): GroupKernels => {
    const name = `${group.pool}.${group.version}.${group.kind}`
    const known = made.get(name)
    if (known !== undefined) return known
    const schema = JSON.parse(Buffer.from(new Uint8Array(group.schema)).toString()) as PoolSchema
    const native = makeNativeKernel?.(schema, group.kind, allocate)
    let js = native === undefined ? makeJsKernel(schema, group.kind, allocate) : undefined
    const reference = () => {
      js ??= makeJsKernel(schema, group.kind, allocate)
      return js
    }
    const partsBefore = partsBeforeReceivedAt(schema)
    const fresh = { first: native ?? reference(), reference, partsBefore }
    if (made.size >= KERNELS_MAX) made.delete(made.keys().next().value as string)
    made.set(name, fresh)
    return fresh
  }
  return task => {
    given = [...(task.buffers ?? [])]
    return runTask(task, kernelsOf, given)
  }
}

function runTask(
  task: ParseTask,
  kernelsOf: (group: ParseTaskGroup) => GroupKernels,
  unusedBuffers: SharedArrayBuffer[],
): ParseResult {
  const requests = task.table.length / REQUEST_WORDS
  const draft: Draft = {
    batches: [],
    outcomes: new Int32Array(requests * OUTCOME_WORDS),
    errors: [],
    recordBytes: new Int32Array(requests),
    own: new Map(),
    bits: [],
  }
  const slab = new Uint8Array(task.slab)
  for (const group of task.groups) {
    const both = kernelsOf(group)
    const batchesBefore = draft.batches.length
    forEachRun(task.table, group, (from, to) => parseRun(draft, both, slab, task.table, from, to))
    for (let request = group.from; request < group.to; request += 1)
      if (flagsOf(task.table, request) & FLAG.gzip) parseInflated(draft, both, slab, task.table, request)
    for (let index = batchesBefore; index < draft.batches.length; index += 1)
      draft.batches[index] = withEventTimes(draft, draft.batches[index]!, task.table, group, both)
  }
  const errorRanges = orderErrors(draft.errors)
  for (const group of task.isReplay === true ? [] : task.groups)
    for (let request = group.from; request < group.to; request += 1)
      writeRecord(draft, task, group, request, errorRanges)
  return {
    batches: draft.batches,
    outcomes: draft.outcomes,
    errors: Int32Array.from(draft.errors),
    recordBytes: draft.recordBytes,
    ownRecords: [...draft.own.values()],
    bits: draft.bits,
    unusedBuffers,
  }
}

/** Runs of requests that stand in the slab as they are, in the group's order. */
function forEachRun(
  table: Float64Array,
  group: ParseTaskGroup,
  run: (from: number, to: number) => void,
): void {
  let from = group.from
  for (let request = group.from; request <= group.to; request += 1) {
    if (request < group.to && (flagsOf(table, request) & FLAG.gzip) === 0) continue
    if (request > from) run(from, request)
    from = request + 1
  }
}

function flagsOf(table: Float64Array, request: number): number {
  return table[request * REQUEST_WORDS + REQUEST.flags]!
}

/**
 * Parses rows [from, to) with the group's kernel, and undecided requests with the reference parser.
 */
function parseRun(
  draft: Draft,
  both: GroupKernels,
  slab: Uint8Array,
  table: Float64Array,
  from: number,
  to: number,
): void {
  const parsed = both.first.parse(slab, table, from, to)
  take(draft, parsed, from, request => request)
  for (let request = from; request < to; request += 1)
    if (draft.outcomes[request * OUTCOME_WORDS + OUTCOME.document] === DOCUMENT.undecided)
      parseAlone(draft, both.reference(), slab, table, request, request)
}

/** Parses row `row` of `table`, which is request `request` of the task, into a batch of its own. */
function parseAlone(
  draft: Draft,
  kernel: Kernel,
  slab: Uint8Array,
  table: Float64Array,
  row: number,
  request: number,
): void {
  const parsed = kernel.parse(slab, table, row, row + 1)
  take(draft, parsed, request, () => request)
}

/** Takes over the outcomes, errors and rows of a kernel's call that began at request `first`. */
function take(draft: Draft, parsed: Parsed, first: number, requestOf: (request: number) => number): void {
  draft.outcomes.set(parsed.outcomes, first * OUTCOME_WORDS)
  const accepted: number[] = []
  for (let index = 0; index < parsed.outcomes.length / OUTCOME_WORDS; index += 1)
    if (parsed.outcomes[index * OUTCOME_WORDS + OUTCOME.accepted]! > 0)
      accepted.push(requestOf(first + index))
  for (let at = 0; at < parsed.errors.length; at += ERROR_WORDS)
    draft.errors.push(
      requestOf(first + parsed.errors[at]!),
      parsed.errors[at + 1]!,
      parsed.errors[at + 2]!,
      parsed.errors[at + 3]!,
    )
  if (accepted.length > 0) draft.batches.push({ batch: parsed.batch, requests: Int32Array.from(accepted) })
}

/**
 * Inflates one body into shared memory of its own, with room for its record header, and parses it
 * there.
 */
function parseInflated(
  draft: Draft,
  both: GroupKernels,
  slab: Uint8Array,
  table: Float64Array,
  request: number,
): void {
  const row = table.slice(request * REQUEST_WORDS, (request + 1) * REQUEST_WORDS)
  const inflated = inflate(slab.subarray(row[REQUEST.offset]!, row[REQUEST.offset]! + row[REQUEST.bytes]!))
  if (typeof inflated === 'number') {
    draft.outcomes.set([0, 0, inflated, -1], request * OUTCOME_WORDS)
    return
  }
  const own = new SharedArrayBuffer(RECORD_HEADER_BYTES + align8(inflated.byteLength))
  const bytes = new Uint8Array(own)
  bytes.set(inflated, RECORD_HEADER_BYTES)
  row[REQUEST.offset] = RECORD_HEADER_BYTES
  row[REQUEST.bytes] = inflated.byteLength
  parseAlone(draft, both.first, bytes, row, 0, request)
  if (draft.outcomes[request * OUTCOME_WORDS + OUTCOME.document] === DOCUMENT.undecided)
    parseAlone(draft, both.reference(), bytes, row, 0, request)
  draft.own.set(request, { request, slab: own, offset: 0 })
  // The record is as long as the inflated body: writeRecord reads it from the table.
  table[request * REQUEST_WORDS + REQUEST.bytes] = inflated.byteLength
}

/**
 * Gives the events of requests with FLAG.rises their received-at: reserved from the group's clock,
 * or counted from the log record's in a replay. The table gets that of each request's first event.
 */
function withEventTimes(
  draft: Draft,
  parsed: ParsedBatch,
  table: Float64Array,
  { clock }: ParseTaskGroup,
  { partsBefore }: GroupKernels,
): ParsedBatch {
  if (partsBefore === undefined) return parsed
  let from = 0
  for (const request of parsed.requests) {
    const rows = draft.outcomes[request * OUTCOME_WORDS + OUTCOME.accepted]!
    if ((flagsOf(table, request) & FLAG.rises) !== 0) {
      const at = request * REQUEST_WORDS + REQUEST.receivedAtUs
      if (clock !== undefined) table[at] = reserveUs(clock, table[at]!, rows)
      setReceivedAt(parsed.batch, partsBefore, from, rows, table[at]!)
    }
    from += rows
  }
  if (clock === undefined) return parsed
  const receivedAtUs = Float64Array.from(
    parsed.requests,
    request => table[request * REQUEST_WORDS + REQUEST.receivedAtUs]!,
  )
  return { ...parsed, receivedAtUs }
}

/** Writes the log record header of a request with accepted rows. */
function writeRecord(
  draft: Draft,
  task: ParseTask,
  group: ParseTaskGroup,
  request: number,
  errorRanges: ErrorRanges,
): void {
  const at = request * OUTCOME_WORDS
  const accepted = draft.outcomes[at + OUTCOME.accepted]!
  if (accepted === 0) return
  const events = draft.outcomes[at + OUTCOME.events]!
  const row = request * REQUEST_WORDS
  const bodyBytes = task.table[row + REQUEST.bytes]!
  const own = draft.own.get(request)
  const slab = own === undefined ? task.slab : own.slab
  const offset = own === undefined ? task.table[row + REQUEST.offset]! - RECORD_HEADER_BYTES : own.offset
  const bits =
    accepted === events ? undefined : acceptedBits(draft.errors, errorRanges.get(request) ?? [0, 0], events)
  if (bits !== undefined) draft.bits.push({ request, bytes: bits })
  writeRecordHeader(new DataView(slab), offset, {
    kind: RECORD_KIND[group.kind],
    pool: group.pool,
    version: group.version,
    receivedAtUs: task.table[row + REQUEST.receivedAtUs]!,
    receivedAtStepUs: (task.table[row + REQUEST.flags]! & FLAG.rises) === 0 ? 0 : 1,
    bodyBytes,
    bodyCrc: crc32(new Uint8Array(slab, offset + RECORD_HEADER_BYTES, bodyBytes)),
    events,
    accepted,
    hasBits: bits !== undefined,
    bitsCrc: bits === undefined ? 0 : crc32(bits),
  })
  const end = offset + RECORD_HEADER_BYTES + bodyBytes
  // A slab is used again: its old bytes must not enter the log as padding.
  new Uint8Array(slab, end, align8(bodyBytes) - bodyBytes).fill(0)
  draft.recordBytes[request] = recordBytes(bodyBytes)
}

/** The places of each request's errors: [from, to) in the array. */
type ErrorRanges = ReadonlyMap<number, readonly [number, number]>

/** One bit per event, set where it was accepted. */
function acceptedBits(
  errors: readonly number[],
  [from, to]: readonly [number, number],
  events: number,
): Uint8Array {
  const bits = new Uint8Array(Math.ceil(events / 8))
  for (let event = 0; event < events; event += 1) bits[event >> 3]! |= 1 << (event & 7)
  for (let at = from; at < to; at += ERROR_WORDS) {
    const event = errors[at + 1]!
    bits[event >> 3]! &= ~(1 << (event & 7))
  }
  return bits
}

/**
 * Sorts errors by request and finds the range of each. The errors of one request are in the order
 * of its events already.
 */
function orderErrors(errors: number[]): ErrorRanges {
  let sorted = true
  for (let at = ERROR_WORDS; at < errors.length; at += ERROR_WORDS)
    sorted &&= errors[at]! >= errors[at - ERROR_WORDS]!
  if (!sorted) {
    const rows: number[][] = []
    for (let at = 0; at < errors.length; at += ERROR_WORDS) rows.push(errors.slice(at, at + ERROR_WORDS))
    rows.sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!)
    for (const [index, row] of rows.entries())
      for (const [word, value] of row.entries()) errors[index * ERROR_WORDS + word] = value
  }
  const ranges = new Map<number, [number, number]>()
  for (let at = 0; at < errors.length; at += ERROR_WORDS) {
    const range = ranges.get(errors[at]!)
    if (range === undefined) ranges.set(errors[at]!, [at, at + ERROR_WORDS])
    else range[1] = at + ERROR_WORDS
  }
  return ranges
}

const GUNZIP_OPTIONS = { maxOutputLength: BODY_BYTES_MAX, finishFlush: constants.Z_FINISH, info: true }

/**
 * The answer of gunzipSync with `info`, which its types leave out. `bytesWritten` counts the bytes
 * read.
 */
interface Inflated {
  readonly buffer: Buffer
  readonly engine: { readonly bytesWritten: number }
}

/**
 * Inflates a gzip body. Stops at one byte over BODY_BYTES_MAX. Several members make one body, and
 * zeros may follow them as padding. Returns a value of DOCUMENT where the bytes are refused.
 *
 * NOTE: zlib's wrapper stops at a zero byte behind a member and ignores all that follows it, even
 * another member.
 */
function inflate(bytes: Uint8Array): Uint8Array | number {
  try {
    const { buffer, engine } = gunzipSync(bytes, GUNZIP_OPTIONS) as unknown as Inflated
    const padding = bytes.subarray(engine.bytesWritten)
    return padding.every(byte => byte === 0) ? buffer : DOCUMENT.broken_gzip
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'ERR_BUFFER_TOO_LARGE' ? DOCUMENT.body_too_large : DOCUMENT.broken_gzip
  }
}
