/**
 * What a parse worker does with a job: inflate, cut, judge, and put the log record header in front of each accepted
 * body. Runs on the worker's thread (workers/parse.ts).
 *
 * The native kernel hands back what it cannot decide (DOCUMENT.judge): the js kernel cuts those requests, into a batch
 * of their own, and its outcome counts.
 */

import { align8 } from '../format/batch-layout.ts'
import { RECORD_HEADER_BYTES, RECORD_KIND, recordBytes, writeRecordHeader } from '../format/log-record.ts'
import type { PoolSchema } from '../format/schema.ts'
import { crc32 } from '../util/crc32.ts'
import type { KernelChoice } from '../util/native.ts'
import { takeFitting } from './batch-buffers.ts'
import { DOCUMENT } from './event-error.ts'
import { inflate } from './inflate.ts'
import {
  type Cut,
  FAULT_WORDS,
  FLAG_GZIP,
  type Kernel,
  OUTCOME_ACCEPTED,
  OUTCOME_DOCUMENT,
  OUTCOME_EVENTS,
  OUTCOME_WORDS,
  REQUEST_BYTES,
  REQUEST_FLAGS,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from './kernel.ts'
import { makeJsKernel } from './kernel-js.ts'
import { tryNativeKernel } from './kernel-native.ts'
import type { OwnRecord, ParsedBatch, ParseResult, ParseTask, ParseTaskGroup } from './parse-task.ts'

/** The two kernels of one group. The judge is made when it is first needed: 43 kB for each of thousands of pools. */
interface GroupKernels {
  readonly first: Kernel
  judge(): Kernel
}

interface Draft {
  readonly parts: ParsedBatch[]
  readonly outcomes: Int32Array
  readonly faults: number[]
  readonly recordBytes: Int32Array
  readonly own: Map<number, OwnRecord>
  readonly bits: { request: number; bytes: Uint8Array }[]
}

/** Schemas seen, by pool and version: kernels are made once. Bounded: the oldest goes. */
const SCHEMAS_MAX = 4096

/** Makes the function that a parse worker runs. */
export function createTaskRunner(kernel: KernelChoice): (task: ParseTask) => ParseResult {
  const makeNativeKernel = tryNativeKernel(kernel)
  const made = new Map<string, GroupKernels>()
  /** The running task's buffers that no batch stands in yet. */
  let given: SharedArrayBuffer[] = []
  // A batch without rows goes nowhere: memory that the garbage collector counts is enough for it.
  const allocate = (bytes: number, rows: number) =>
    rows === 0 ? Buffer.allocUnsafeSlow(bytes).buffer : takeFitting(given, bytes)
  const kernelsOf = (group: ParseTaskGroup): GroupKernels => {
    const name = `${group.pool}.${group.version}.${group.kind}`
    const known = made.get(name)
    if (known !== undefined) return known
    const schema = JSON.parse(Buffer.from(new Uint8Array(group.schema)).toString()) as PoolSchema
    const native = makeNativeKernel?.(schema, group.kind, allocate)
    let js = native === undefined ? makeJsKernel(schema, group.kind, allocate) : undefined
    const judge = () => {
      js ??= makeJsKernel(schema, group.kind, allocate)
      return js
    }
    const fresh = { first: native ?? judge(), judge }
    if (made.size >= SCHEMAS_MAX) made.delete(made.keys().next().value as string)
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
    parts: [],
    outcomes: new Int32Array(requests * OUTCOME_WORDS),
    faults: [],
    recordBytes: new Int32Array(requests),
    own: new Map(),
    bits: [],
  }
  const slab = new Uint8Array(task.slab)
  for (const group of task.groups) {
    const both = kernelsOf(group)
    forEachRun(task.table, group, (from, to) => cutRun(draft, both, slab, task.table, from, to))
    for (let request = group.from; request < group.to; request += 1)
      if (flagsOf(task.table, request) & FLAG_GZIP) cutInflated(draft, both, slab, task.table, request)
  }
  const faultRanges = orderFaults(draft.faults)
  for (const group of task.isReplay === true ? [] : task.groups)
    for (let request = group.from; request < group.to; request += 1)
      writeRecord(draft, task, group, request, faultRanges)
  return {
    parts: draft.parts,
    outcomes: draft.outcomes,
    faults: Int32Array.from(draft.faults),
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
    if (request < group.to && (flagsOf(table, request) & FLAG_GZIP) === 0) continue
    if (request > from) run(from, request)
    from = request + 1
  }
}

function flagsOf(table: Float64Array, request: number): number {
  return table[request * REQUEST_WORDS + REQUEST_FLAGS]!
}

/** Cuts rows [from, to) with the group's kernel, and what it cannot decide with the judge. */
function cutRun(
  draft: Draft,
  both: GroupKernels,
  slab: Uint8Array,
  table: Float64Array,
  from: number,
  to: number,
): void {
  const cut = both.first.cut(slab, table, from, to)
  keep(draft, cut, from, request => request)
  for (let request = from; request < to; request += 1)
    if (draft.outcomes[request * OUTCOME_WORDS + OUTCOME_DOCUMENT] === DOCUMENT.judge)
      judgeOne(draft, both.judge(), slab, table, request, request)
}

/** Cuts row `row` of `table`, which is request `request` of the job, into a batch of its own. */
function judgeOne(
  draft: Draft,
  kernel: Kernel,
  slab: Uint8Array,
  table: Float64Array,
  row: number,
  request: number,
): void {
  const cut = kernel.cut(slab, table, row, row + 1)
  keep(draft, cut, request, () => request)
}

/** Takes over the outcomes, faults and rows of a cut that began at `first`. */
function keep(draft: Draft, cut: Cut, first: number, requestOf: (request: number) => number): void {
  draft.outcomes.set(cut.outcomes, first * OUTCOME_WORDS)
  const kept: number[] = []
  for (let index = 0; index < cut.outcomes.length / OUTCOME_WORDS; index += 1)
    if (cut.outcomes[index * OUTCOME_WORDS + OUTCOME_ACCEPTED]! > 0) kept.push(requestOf(first + index))
  for (let at = 0; at < cut.faults.length; at += FAULT_WORDS)
    draft.faults.push(
      requestOf(first + cut.faults[at]!),
      cut.faults[at + 1]!,
      cut.faults[at + 2]!,
      cut.faults[at + 3]!,
    )
  if (kept.length > 0) draft.parts.push({ batch: cut.batch, requests: Int32Array.from(kept) })
}

/** Inflates one body into shared memory of its own, with room for its record header, and cuts it there. */
function cutInflated(
  draft: Draft,
  both: GroupKernels,
  slab: Uint8Array,
  table: Float64Array,
  request: number,
): void {
  const row = table.slice(request * REQUEST_WORDS, (request + 1) * REQUEST_WORDS)
  const inflated = inflate(slab.subarray(row[REQUEST_OFFSET]!, row[REQUEST_OFFSET]! + row[REQUEST_BYTES]!))
  if (typeof inflated === 'number') {
    draft.outcomes.set([0, 0, inflated, -1], request * OUTCOME_WORDS)
    return
  }
  const own = new SharedArrayBuffer(RECORD_HEADER_BYTES + align8(inflated.byteLength))
  const bytes = new Uint8Array(own)
  bytes.set(inflated, RECORD_HEADER_BYTES)
  row[REQUEST_OFFSET] = RECORD_HEADER_BYTES
  row[REQUEST_BYTES] = inflated.byteLength
  judgeOne(draft, both.first, bytes, row, 0, request)
  if (draft.outcomes[request * OUTCOME_WORDS + OUTCOME_DOCUMENT] === DOCUMENT.judge)
    judgeOne(draft, both.judge(), bytes, row, 0, request)
  draft.own.set(request, { request, slab: own, offset: 0 })
  // The record is as long as the inflated body: writeRecord reads it from the table.
  table[request * REQUEST_WORDS + REQUEST_BYTES] = inflated.byteLength
}

/** Writes the log record header of a request with accepted rows. */
function writeRecord(
  draft: Draft,
  task: ParseTask,
  group: ParseTaskGroup,
  request: number,
  faultRanges: FaultRanges,
): void {
  const at = request * OUTCOME_WORDS
  const accepted = draft.outcomes[at + OUTCOME_ACCEPTED]!
  if (accepted === 0) return
  const events = draft.outcomes[at + OUTCOME_EVENTS]!
  const row = request * REQUEST_WORDS
  const bodyBytes = task.table[row + REQUEST_BYTES]!
  const own = draft.own.get(request)
  const slab = own === undefined ? task.slab : own.slab
  const offset = own === undefined ? task.table[row + REQUEST_OFFSET]! - RECORD_HEADER_BYTES : own.offset
  const bits =
    accepted === events ? undefined : acceptedBits(draft.faults, faultRanges.get(request) ?? [0, 0], events)
  if (bits !== undefined) draft.bits.push({ request, bytes: bits })
  writeRecordHeader(new DataView(slab), offset, {
    kind: RECORD_KIND[group.kind],
    pool: group.pool,
    version: group.version,
    receivedAtUs: task.table[row + REQUEST_RECEIVED_AT]!,
    bodyBytes,
    bodyCrc: crc32(new Uint8Array(slab, offset + RECORD_HEADER_BYTES, bodyBytes)),
    events,
    accepted,
    hasBits: bits !== undefined,
    bitsCrc: bits === undefined ? 0 : crc32(bits),
  })
  const end = offset + RECORD_HEADER_BYTES + bodyBytes
  new Uint8Array(slab, end, align8(bodyBytes) - bodyBytes).fill(0) // a slab is used again: no stale bytes in the log
  draft.recordBytes[request] = recordBytes(bodyBytes)
}

/** Where each request's faults stand: [from, to) in the array. */
type FaultRanges = ReadonlyMap<number, readonly [number, number]>

/** One bit per event, set where it was accepted. */
function acceptedBits(
  faults: readonly number[],
  [from, to]: readonly [number, number],
  events: number,
): Uint8Array {
  const bits = new Uint8Array(Math.ceil(events / 8))
  for (let event = 0; event < events; event += 1) bits[event >> 3]! |= 1 << (event & 7)
  for (let at = from; at < to; at += FAULT_WORDS) {
    const event = faults[at + 1]!
    bits[event >> 3]! &= ~(1 << (event & 7))
  }
  return bits
}

/** Sorts by request (the faults of one request stand in the order of its events already) and finds the ranges. */
function orderFaults(faults: number[]): FaultRanges {
  let sorted = true
  for (let at = FAULT_WORDS; at < faults.length; at += FAULT_WORDS)
    sorted &&= faults[at]! >= faults[at - FAULT_WORDS]!
  if (!sorted) {
    const rows: number[][] = []
    for (let at = 0; at < faults.length; at += FAULT_WORDS) rows.push(faults.slice(at, at + FAULT_WORDS))
    rows.sort((a, b) => a[0]! - b[0]! || a[1]! - b[1]!)
    for (const [index, row] of rows.entries())
      for (const [word, value] of row.entries()) faults[index * FAULT_WORDS + word] = value
  }
  const ranges = new Map<number, [number, number]>()
  for (let at = 0; at < faults.length; at += FAULT_WORDS) {
    const range = ranges.get(faults[at]!)
    if (range === undefined) ranges.set(faults[at]!, [at, at + FAULT_WORDS])
    else range[1] = at + FAULT_WORDS
  }
  return ranges
}
