/**
 * The messages between the main thread and the parse workers.
 *
 * A task is the bodies in one slab, grouped by schema and kind. The worker inflates and parses
 * them. It writes the log record header (format/log-record.ts) of each accepted request in front of
 * its body, all but sequence and checksum.
 */

import type { BatchBuffer } from '../format/batch-layout.ts'
import type { RejectedGrant, RejectedRows } from './rejected-rows.ts'
import type { EarlyAnswer, Received } from './sender/received.ts'

/** Requests [from, to) of a task's table, all of one pool, schema version and kind. */
export interface ParseTaskGroup {
  readonly kind: 'post' | 'delete'
  readonly pool: number
  readonly version: number
  /** The PoolSchema as JSON in UTF-8, in shared memory. A worker decodes it once. */
  readonly schema: SharedArrayBuffer
  readonly from: number
  readonly to: number
  /**
   * The shared clock of the pool (util/clock.ts), where the requests have FLAG.rises: the worker
   * reserves a value for each accepted event. Absent in a replay: the log has the values.
   */
  readonly clock?: SharedArrayBuffer | undefined
  /** Absent where the refused events of the group are not kept. */
  readonly rejected?: RejectedGrant | undefined
}

/** A task for a parse worker. */
export interface ParseTask {
  readonly slab: SharedArrayBuffer
  /** REQUEST_WORDS per request (kernel.ts). */
  readonly table: Float64Array
  readonly groups: readonly ParseTaskGroup[]
  /** By request, for those with FLAG.received: how the bytes of its body become a document. */
  readonly received?: ReadonlyMap<number, Received> | undefined
  /** Memory for the batches that the task will probably make. The worker owns it now. */
  readonly buffers?: readonly SharedArrayBuffer[]
  /** The bodies come from the log: no record headers are written. */
  readonly isReplay?: boolean | undefined
}

/** Rows of some requests of one group, in the requests' order. */
export interface ParsedBatch {
  /** The receiver owns it. */
  readonly batch: BatchBuffer
  /** The requests that have rows in this batch, as rows of the task's table, ascending. */
  readonly requests: Int32Array
  /**
   * Received-at in µs of the first event of each of `requests`, where the worker reserved it; each
   * later event has one step of the clock more.
   */
  readonly receivedAtUs?: Float64Array | undefined
}

/** The answer to a task. */
export interface ParseResult {
  readonly batches: readonly ParsedBatch[]
  /** OUTCOME_WORDS per request of the task. */
  readonly outcomes: Int32Array
  /** ERROR_WORDS per event error, by request of the task's table, then event. */
  readonly errors: Int32Array
  /** Bytes of each request's log record without its bitmap; 0 where it is not logged. */
  readonly recordBytes: Int32Array
  /** By request: the memory of a log record outside the task's slab, that of a prepared body. */
  readonly ownRecords: ReadonlyMap<number, SharedArrayBuffer>
  /** By request: the bitmap of one that was accepted in part. It follows the record in the log. */
  readonly bits: ReadonlyMap<number, Uint8Array>
  /** By request: the answer to a body that the kernel did not see. */
  readonly early: ReadonlyMap<number, EarlyAnswer>
  /** By group with a grant: the rows of what was refused; absent where nothing was. */
  readonly rejected: ReadonlyMap<number, RejectedRows>
  /** The task's buffers that hold no batch, if there are any. The receiver owns them again. */
  readonly unusedBuffers?: readonly SharedArrayBuffer[]
}
