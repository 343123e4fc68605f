/**
 * The segment thread as the flusher sees it: the calls, and the client that makes them.
 *
 * The thread takes the batches of one pool's flush, picks the winning row of each key, writes the
 * Parquet file and the delete file, syncs and renames them (W-5), and answers with what the index
 * needs. Calls are posted as they come and served in order, so the next flush waits in the thread's
 * port while one is written.
 */

import type { KeyRun } from '../../format/key-run.ts'
import type { PoolSchema } from '../../format/schema.ts'
import type { SegmentMeta } from '../../format/segment-meta.ts'
import { fromWire, Unavailable, type WireError } from '../../util/errors.ts'
import type { KernelChoice } from '../../util/native.ts'
import { startThread, type Thread } from '../../util/thread-kit.ts'
import type { MemtableEntry } from './memtable.ts'

export interface FlushTask {
  readonly poolId: string
  readonly schema: PoolSchema
  /** Number of the new segment. */
  readonly segment: number
  /** Absolute folder of the pool's segments; it is created if missing. */
  readonly folder: string
  /**
   * All were parsed with `schema`. Their batches stand in shared memory, which nobody changes until
   * the answer.
   */
  readonly entries: readonly MemtableEntry[]
  /** Segments whose rows are in `entries` too: the new segment replaces them. */
  readonly replaces: readonly number[]
  readonly sequenceFrom: number
  readonly sequenceTo: number
}

export interface FlushDone {
  /** undefined when no row and no delete was left to write. */
  readonly meta: SegmentMeta | undefined
  readonly keys: KeyRun | undefined
}

/** A flush that the disk refused. It is an answer: an error of the call means a lost thread. */
export interface FlushRefused {
  readonly failed: WireError
}

/** Segments of one folder whose files are to be removed. */
export interface Removal {
  readonly folder: string
  readonly segments: readonly number[]
}

/** The calls of the segment thread. Keys are moved. */
export interface SegmentCalls {
  flush(task: FlushTask): FlushDone | FlushRefused
  unlink(removal: Removal): void
}

/** The thread's settings at its start. */
export interface SegmentThreadData {
  /**
   * `js` selects the TypeScript routines and parquet-wasm even where the native module is built.
   */
  readonly kernel: KernelChoice
}

interface SegmentThreadOptions extends SegmentThreadData {
  /** Hidden option of tests; see util/fault-injection.ts. */
  readonly crashAt: string
  /** Nice value of the thread, so that acks go first; 0 leaves it. */
  readonly nice: number
}

/** A flush that failed: no file of it counts. */
export class FlushFailed extends Unavailable {
  constructor(reason: string) {
    super('flush_failed', reason)
  }
}

/** What the flusher calls: the segment thread, or a test in its place. */
export type SegmentWriter = Pick<SegmentThread, 'flush' | 'unlink'>

/** Starts the segment thread. */
export class SegmentThread {
  readonly #thread: Thread<SegmentCalls>

  /**
   * @param onCrash called when the thread has crashed: nobody knows which files it left, so the
   *   process must end and recover from the log
   */
  constructor({ crashAt, nice, kernel }: SegmentThreadOptions, onCrash: (error: Error) => void) {
    const data: SegmentThreadData = { kernel }
    const lost = (error: Error) => new Unavailable('segment_thread_lost', error.message)
    this.#thread = startThread<SegmentCalls>({ name: 'segment', data, crashAt, nice, lost, onCrash })
  }

  /**
   * Resolves when the files are durable. Rejects with FlushFailed.
   */
  async flush(task: FlushTask): Promise<FlushDone> {
    const done = await this.#thread.call('flush', task)
    if (!('failed' in done)) return done
    const cause = fromWire(done.failed)
    throw Object.assign(new FlushFailed(cause.message), { cause })
  }

  /**
   * Removes the Parquet and delete files of segments that no transaction names and no query pins.
   * Resolves when they are gone for good, even after a power cut. Rejects with Node's error when
   * the disk refuses; the caller may ask again.
   */
  unlink(folder: string, segments: readonly number[]): Promise<void> {
    return this.#thread.call('unlink', { folder, segments })
  }

  /** Resolves when all earlier calls are served and the thread has ended. */
  stop(): Promise<void> {
    return this.#thread.stop()
  }
}
