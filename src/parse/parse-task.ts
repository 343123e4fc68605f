/**
 * Main thread ↔ parse workers.
 *
 * A job is bodies in one slab, grouped by plan and meaning. The worker inflates, cuts, and writes each accepted
 * request's log record header (format/log-record.ts) in front of its body, all but sequence and checksum.
 */

import type { BatchBuffer } from '../format/batch-layout.ts'

/** Requests [from, to) of a job's table, all of one pool, plan and kind. */
export interface ParseTaskGroup {
  readonly kind: 'post' | 'delete'
  readonly pool: number
  readonly version: number
  /** The pool's PoolSchema as JSON in UTF-8, in shared memory: cheap to pass with every job, decoded once a worker. */
  readonly schema: SharedArrayBuffer
  readonly from: number
  readonly to: number
}

export interface ParseTask {
  readonly slab: SharedArrayBuffer
  /** REQUEST_WORDS per request (kernel.ts). */
  readonly table: Float64Array
  readonly groups: readonly ParseTaskGroup[]
  /** Memory for the batches that the task will probably make, in their order. The worker owns it now. */
  readonly buffers?: readonly SharedArrayBuffer[]
  /** The bodies come from the log: no record headers are written. */
  readonly isReplay?: boolean
}

/** Rows of some requests of one group, in the requests' order. */
export interface ParsedBatch {
  /** The receiver owns it. */
  readonly batch: BatchBuffer
  /** Rows of the job's table that have rows in this batch, ascending. */
  readonly requests: Int32Array
}

/** Where a request's log record stands, when not in the job's own slab (inflated bodies). */
export interface OwnRecord {
  readonly request: number
  readonly slab: SharedArrayBuffer
  /** Byte offset of the record header. */
  readonly offset: number
}

export interface ParseResult {
  readonly parts: readonly ParsedBatch[]
  /** OUTCOME_WORDS per request of the job. */
  readonly outcomes: Int32Array
  /** FAULT_WORDS per event not accepted; the request is a row of the job's table. Ordered by request, event. */
  readonly faults: Int32Array
  /** Bytes of each request's record in the log: header and body, without the bitmap. 0: not logged. */
  readonly recordBytes: Int32Array
  readonly ownRecords: readonly OwnRecord[]
  /** The bitmaps of requests that were accepted in part: they follow the record in the log. */
  readonly bits: readonly { readonly request: number; readonly bytes: Uint8Array }[]
  /** The task's buffers that no batch stands in; absent: none. The receiver owns them again. */
  readonly unusedBuffers?: readonly SharedArrayBuffer[]
}
