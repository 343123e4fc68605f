/**
 * The flusher on the main thread and the segment thread: the rows that move between them.
 *
 * The segment thread takes the batches of one pool's flush, picks the winning row of each key,
 * writes the Parquet file and the delete file, syncs and renames them (W-5), and answers with what
 * the index needs.
 */
import type { BatchBuffer } from '../../format/batch-layout.ts'
import type { KeyRun } from '../../format/key-run.ts'
import type { PoolSchema } from '../../format/schema.ts'
import type { SegmentMeta } from '../../format/segment-meta.ts'
import { Unavailable, type WireError } from '../../util/errors.ts'

/** A batch in a memtable, with the requests whose rows it holds. */
export interface MemtableEntry {
  readonly kind: 'post' | 'delete'
  readonly batch: BatchBuffer
  /** ENTRY_WORDS for each request, in the batch's row order: sequence, received-at in µs, rows. */
  readonly requests: Float64Array
}

export const ENTRY_WORDS = 3

/** The buffers that move with entries to another thread. */
export function buffersOf(entries: readonly MemtableEntry[]): ArrayBuffer[] {
  const buffers: ArrayBuffer[] = []
  for (const { batch, requests } of entries) {
    if (batch instanceof ArrayBuffer) buffers.push(batch)
    buffers.push(requests.buffer as ArrayBuffer)
  }
  return buffers
}

export interface FlushTask {
  readonly poolId: string
  readonly schema: PoolSchema
  /** Number of the new segment. */
  readonly segment: number
  /** Absolute folder of the pool's segments; it is created if missing. */
  readonly folder: string
  /** Moved to the thread. All were parsed with `schema`. */
  readonly entries: readonly MemtableEntry[]
  /** Segments whose rows are in `entries` too: the new segment replaces them. */
  readonly replaces: readonly number[]
  readonly sequenceFrom: number
  readonly sequenceTo: number
  /** True when the batches come back, so that the next flush can write them again. */
  readonly giveBack: boolean
}

export interface FlushDone {
  /** undefined when no row and no delete was left to write. */
  readonly meta: SegmentMeta | undefined
  readonly keys: KeyRun | undefined
  /** Moved back if `giveBack`, else empty. */
  readonly entries: readonly MemtableEntry[]
}

/** The segment thread as the main thread sees it. */
export interface SegmentWriter {
  /**
   * Resolves when the files are durable. Rejects with FlushFailed, which gives the entries back.
   */
  flush(task: FlushTask): Promise<FlushDone>
  /**
   * Removes the Parquet and delete files of segments that no transaction names and no query pins.
   * Resolves when they are gone for good, even after a power cut. Rejects with Node's error when
   * the disk refuses; the caller may ask again.
   */
  unlink(folder: string, segments: readonly number[]): Promise<void>
  stop(): Promise<void>
}

/** A flush that failed: no file of it counts, and its entries are back. */
export class FlushFailed extends Unavailable {
  readonly entries: readonly MemtableEntry[]

  constructor(what: string, entries: readonly MemtableEntry[]) {
    super('flush_failed', what)
    this.entries = entries
  }
}

/** To the thread. Batches are moved. */
export type SegmentRequest =
  | { readonly id: number; readonly do: 'flush'; readonly task: FlushTask }
  | {
      readonly id: number
      readonly do: 'unlink'
      readonly folder: string
      readonly segments: readonly number[]
    }
  | { readonly id: number; readonly do: 'stop' }

/** From the thread. Batches and keys are moved. */
export type SegmentAnswer =
  | { readonly id: number; readonly done?: FlushDone }
  | { readonly id: number; readonly error: WireError; readonly entries: readonly MemtableEntry[] }

/** The thread's settings at its start. */
export interface SegmentWorkerData {
  readonly crashAt: string
  /** Nice value of the thread, so that acks go first; 0 leaves it. */
  readonly nice: number
  /**
   * `js` selects the TypeScript routines and parquet-wasm even where the native module is built.
   */
  readonly assembler: 'native' | 'js'
}
