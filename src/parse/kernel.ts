/**
 * The kernel's one signature, with two implementations: kernel-js.ts, which is the specification, the
 * fallback, the oracle of the fuzzer and the judge; and kernel-native.ts (C++ on simdjson).
 *
 *   in    a slab, a table with a row per request, the plan, what the bodies mean
 *   out   one batch of the accepted rows, an outcome per request, and every event that was not accepted
 *
 * Rows stand in the batch in the order of the requests and of the events in them. A kernel never throws for
 * what a client sent.
 */
import type { BatchBuffer } from '../format/batch-layout.ts'
import type { PoolSchema, RequestKind } from '../format/schema.ts'

/** Float64 words of a request's row in the table. */
export const REQUEST_WORDS = 5
/** Byte offset of the decoded body in the slab. */
export const REQUEST_OFFSET = 0
/** Bytes of the decoded body. */
export const REQUEST_BYTES = 1
/** Bits of FLAG_…. */
export const REQUEST_FLAGS = 2
/** Received-at, whole microseconds since 1970 UTC. */
export const REQUEST_RECEIVED_AT = 3
/** Byte offset in the slab of a bitmap, one bit per event, least significant first: only events with a set
 *  bit are cut, the others are neither judged nor reported. -1: all. Used by recovery. */
export const REQUEST_BITS = 4

/** `disable_partial_success`: one invalid event, and no row of the request is cut. */
export const FLAG_ALL_OR_NOTHING = 1
/** The bytes are gzip; the worker inflates them before the kernel sees them. */
export const FLAG_GZIP = 2

/** Int32 words of a request's outcome. */
export const OUTCOME_WORDS = 4
/** Events in the body; 0 where the document was refused. */
export const OUTCOME_EVENTS = 0
/** Rows of the request in the batch. 0 where it is refused as a whole. */
export const OUTCOME_ACCEPTED = 1
/** 0, or DOCUMENT.…: the document was refused and nothing of it cut. */
export const OUTCOME_DOCUMENT = 2
/** The index of the event in which the document broke, -1 where that is not known. */
export const OUTCOME_EVENT = 3

/** Int32 words of an event that was not accepted: request (row in the table), event, fault, column. */
export const FAULT_WORDS = 4

export interface Cut {
  /** Its length is in its header; the memory may be longer. */
  readonly batch: BatchBuffer
  /** OUTCOME_WORDS per request of the call, in the table's order. */
  readonly outcomes: Int32Array
  /** FAULT_WORDS per event that was not accepted, in order. The request is counted from the call's first row. */
  readonly faults: Int32Array
}

/** A kernel bound to one plan and one meaning of bodies; made once per plan and worker. */
export interface Kernel {
  /**
   * Cuts the requests of rows [from, to) of `table`.
   * @param slab the bytes; may stand in shared memory
   */
  cut(slab: Uint8Array, table: Float64Array, from: number, to: number): Cut
}

/** Memory for a batch of `rows` rows: at least `bytes` bytes, with anything in them. */
export type Allocate = (bytes: number, rows: number) => BatchBuffer

/** `allocate`: by default a new ArrayBuffer of exactly that length. */
export type MakeKernel = (schema: PoolSchema, kind: RequestKind, allocate?: Allocate) => Kernel
