/**
 * Main thread ↔ segment worker.
 *
 * The worker takes the batches of one pool's seal, picks the winning row of each key, writes the Parquet file
 * and the delete file, syncs and renames them (W-5), and answers with what the index needs.
 */
import type { BatchBuffer } from '../batch/layout.ts'
import type { Plan } from '../batch/plan.ts'
import { Unavailable, type WireError } from '../errors.ts'
import type { KeyRun, SegmentMeta } from '../keys/protocol.ts'

/** A batch in a tail, with the requests whose rows it holds. */
export interface TailEntry {
  readonly kind: 'post' | 'delete'
  readonly batch: BatchBuffer
  /** ENTRY_WORDS per request, in the batch's row order: sequence, received-at in ms, rows. */
  readonly requests: Float64Array
}

export const ENTRY_WORDS = 3

export interface SealJob {
  readonly poolId: string
  readonly plan: Plan
  /** Number of the new segment. */
  readonly segment: number
  /** Absolute folder of the pool's segments; made if missing. */
  readonly folder: string
  /** Moved. All were cut with `plan`. */
  readonly entries: readonly TailEntry[]
  /** Segments whose rows stand in `entries` too: the new segment replaces them. */
  readonly replaces: readonly number[]
  readonly sequenceFrom: number
  readonly sequenceTo: number
  /** Give the batches back, so that the next seal can take them along. */
  readonly giveBack: boolean
}

export interface SealDone {
  /** undefined where nothing was left to write. */
  readonly meta: SegmentMeta | undefined
  readonly keys: KeyRun | undefined
  /** Moved back if `giveBack`, else empty. */
  readonly entries: readonly TailEntry[]
}

/** The segment stage as main.ts sees it (segment/writer-client.ts implements it over the worker). */
export interface SegmentWriter {
  /** Resolves when the files are durable. Rejects with SealFailed, which gives the entries back. */
  seal(job: SealJob): Promise<SealDone>
  /**
   * Removes the Parquet and delete files of segments that no transaction names and no query pins. Resolves when they are
   * gone for good, whatever power cut comes; rejects with Node's error where the disk refuses, and can be asked again.
   */
  unlink(folder: string, segments: readonly number[]): Promise<void>
  stop(): Promise<void>
}

/** A seal that did not come about: nothing of it is on disk that counts, and its entries are back. */
export class SealFailed extends Unavailable {
  readonly entries: readonly TailEntry[]

  constructor(what: string, entries: readonly TailEntry[]) {
    super('seal_failed', what)
    this.entries = entries
  }
}

/** To the worker. Batches are moved. */
export type SegmentRequest =
  | { readonly id: number; readonly do: 'seal'; readonly job: SealJob }
  | {
      readonly id: number
      readonly do: 'unlink'
      readonly folder: string
      readonly segments: readonly number[]
    }
  | { readonly id: number; readonly do: 'stop' }

/** From the worker. Batches and keys are moved. */
export type SegmentAnswer =
  | { readonly id: number; readonly done?: SealDone }
  | { readonly id: number; readonly error: WireError; readonly entries: readonly TailEntry[] }

/** What the worker is started with. */
export interface SegmentWorkerData {
  readonly crashAt: string
  /** Nice value of the thread, so that acks go first; 0 leaves it. */
  readonly nice: number
  /** `js`: the TypeScript passes and parquet-wasm even where the native module is there. */
  readonly assembler: 'native' | 'js'
}
