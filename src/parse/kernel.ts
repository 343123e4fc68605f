/**
 * The signature of the two kernels, which turn bodies into batches. kernel-js.ts is the
 * specification, the fallback, the oracle of the fuzzer and the reference parser of what the native
 * kernel cannot decide. kernel-native.ts binds native/ (C++ on simdjson).
 *
 *   in    a slab, a table with a row for each request, the schema, and the kind of the requests
 *   out   one batch of the accepted rows, an outcome for each request, and every event error
 *
 * Rows stand in the batch in the order of the requests and of their events. A kernel never throws
 * for bytes that a client sent. native/schema.h has the same numbers.
 */
import type { BatchBuffer } from '../format/batch-layout.ts'
import type { PoolSchema, RequestKind } from '../format/schema.ts'

/** Float64 words of a request's row in the table, at the positions of REQUEST. */
export const REQUEST_WORDS = 6
export const REQUEST = {
  /** Byte offset of the decoded body in the slab. */
  offset: 0,
  /** Bytes of the decoded body. */
  bytes: 1,
  /** Bits of FLAG. */
  flags: 2,
  /** Received-at, whole microseconds since 1970 UTC. */
  receivedAtUs: 3,
  /**
   * Byte offset in the slab of a bitmap with one bit for each event, least significant first; -1
   * where there is none. Only events whose bit is set are parsed. Recovery uses it.
   */
  bits: 4,
  /**
   * Bytes of the request's context, which stands directly before the body; 0 where there is none.
   * Only the TypeScript kernel reads it. The context is a JSON object by jsonProperty: the headers,
   * parameters and path that columns read, and values of the body around its events. It is null
   * where the events bring these values as properties, as the rows of an import do.
   */
  contextBytes: 5,
} as const

export const FLAG = {
  /** `disable_partial_success`: an invalid event leaves the request without rows. */
  all_or_nothing: 1,
  /** The worker prepares the bytes before the kernel sees them (sender/prepare-body.ts). */
  received: 2,
  /** Each accepted event gets a received-at of its own, after the kernel (event-times.ts). */
  rises: 4,
  /** What is refused of it is kept, where its group has a grant (collect-rejected.ts). */
  keeps: 8,
  /** The values of its events that rise were reserved before. */
  reserved: 16,
} as const

/** Int32 words of a request's outcome, at the positions of OUTCOME. */
export const OUTCOME_WORDS = 4
export const OUTCOME = {
  /** Events in the body; 0 where the document was refused. */
  events: 0,
  /** Rows of the request in the batch. 0 where it is refused as a whole. */
  accepted: 1,
  /** A value of DOCUMENT; all but `ok` leave the request without rows. */
  document: 2,
  /** The index of the event in which the document broke, -1 where that is not known. */
  event: 3,
} as const

/**
 * Int32 words of an event error: request (row in the table), event, error word, column. A document
 * that broke at a known byte has one: its event or -1, the refusal's word, the byte.
 */
export const ERROR_WORDS = 4

/** The result of a kernel's call. */
export interface Parsed {
  /** The accepted rows (format/batch.md). The memory may be longer. */
  readonly batch: BatchBuffer
  /** OUTCOME_WORDS per request of the call, in the table's order. */
  readonly outcomes: Int32Array
  /** ERROR_WORDS per event error, in order. The request is counted from the call's first row. */
  readonly errors: Int32Array
}

/** A kernel bound to one schema and one kind of request. A worker makes it once. */
export interface Kernel {
  /**
   * Parses the requests of rows [from, to) of `table`.
   * @param slab the bodies; may stand in shared memory
   * @param table REQUEST_WORDS per request
   */
  parse(slab: Uint8Array, table: Float64Array, from: number, to: number): Parsed
  /** Frees what the garbage collector may never free. The kernel parses nothing afterwards. */
  free?(): void
}

/** Returns memory for a batch of `rows` rows: at least `bytes` bytes, with any content. */
export type Allocate = (bytes: number, rows: number) => BatchBuffer

/** Memory of exactly the batch's length. It is not zeroed: kernels write every byte of a batch. */
export function exactly(bytes: number): ArrayBuffer {
  return Buffer.allocUnsafeSlow(bytes).buffer
}

/** What the batches of all kernels of a thread are like. */
export interface KernelOptions {
  /** By default `exactly`. */
  readonly allocate?: Allocate
  /**
   * Batches of deletes have the columns of the key and the payload, as a cluster needs them; else
   * only the key in the form of the index.
   */
  readonly deletesHaveColumns?: boolean
}

/** Options that a thread is given: memory is its own. */
export type BatchOptions = Omit<KernelOptions, 'allocate'>

export type MakeKernel = (schema: PoolSchema, kind: RequestKind, options?: KernelOptions) => Kernel
