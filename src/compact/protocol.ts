/**
 * Main thread ↔ merge thread.
 *
 * The merge thread reads adjacent segments of one pool without their marked and expired rows, writes one new
 * segment (or none), makes it durable (W-5), and answers with what the index needs for the swap.
 */
import type { Plan } from '../batch/plan.ts'
import type { KeyRun, MarkDelta, SegmentMeta } from '../keys/protocol.ts'

/** A segment as the manifest knows it. */
export interface PoolSegment extends SegmentMeta {
  /** Rows that are not visible. */
  readonly marked: number
}

/** A segment to merge; pinned until the swap is done or given up. */
export interface MergeInput {
  readonly meta: SegmentMeta
  /** Rows that are not visible, as of the manifest that the merge began with. */
  readonly marks: readonly MarkDelta[]
}

/** Primary timestamps of the rows of an older segment, µs; null: not known. */
export interface TimeSpan {
  readonly fromUs: number | null
  readonly toUs: number | null
}

export interface MergeJob {
  readonly poolId: string
  readonly plan: Plan
  /** Absolute folder of the pool's segments. */
  readonly folder: string
  /** Number of the new segment. */
  readonly segment: number
  /** By rising sequence, nothing between them, all of one plan version. */
  readonly inputs: readonly MergeInput[]
  /** Rows and deletes whose primary timestamp is below go; undefined: none. */
  readonly expireBeforeUs: number | undefined
  /** Of all that a rebuild would read before the inputs. A delete goes when none of them can hold its key (W-6). */
  readonly older: readonly TimeSpan[]
}

export interface MergeDone {
  /** undefined: neither rows nor deletes are left, and no file was written. */
  readonly meta: SegmentMeta | undefined
  /** Keys of the new segment's rows, and those of expired rows with row -1. undefined without a unique id. */
  readonly keys: KeyRun | undefined
  /** Of all inputs, marked ones included. */
  readonly rowsRead: number
  readonly bytesRead: number
}

/** How much of a core and of the disk a merge may take. */
export type Pace = 'beside' | 'alone'

/** The compaction stage's thread as the scheduler sees it. One merge at a time. */
export interface Merger {
  /** Rejects with SegmentDamaged naming an input that cannot be read, or Unavailable where the disk refuses. */
  merge(job: MergeJob): Promise<MergeDone>
  /** `beside` ingest: 30 % of a core and 50 MB/s; `alone`: what there is. Counts from the next step of a running merge. */
  setPace(pace: Pace): void
  /** Gives up a running merge, and ends the thread. */
  stop(): Promise<void>
}

/** What waits to be compacted; of one pool, or of all. */
export interface Debt {
  /** Segments that a merge would join to larger ones. */
  readonly smallSegments: number
  /** Rows that are marked and still on disk. */
  readonly markedRows: number
  /** Bytes of all segments that a merge would rewrite. */
  readonly bytesToMerge: number
  /** Segments that could not be read; merges leave them alone. */
  readonly quarantined: number
}
