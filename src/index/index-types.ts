/**
 * The types of the key index that other layers use: commits, their results, and the index and its
 * segments as a query sees them. At the end the protocol of its thread.
 *
 * The index thread owns `data/index`, and no other thread opens it. One `commit` is one LMDB
 * transaction over any number of pools. Its answer is sent after the sync (W-4).
 */

import type { KeyRun } from '../format/key-run.ts'
import type { SegmentMeta } from '../format/segment-meta.ts'
import type { KernelChoice } from '../util/native.ts'
import type { RebuildPool } from './rebuild-index.ts'
import type { Swept } from './sweep-orphans.ts'

/** The changes of one flush. */
export interface FlushCommit {
  readonly pool: number
  /** The new segment; undefined where the flush left neither rows nor deletes. */
  readonly add: SegmentMeta | undefined
  /** Segments that the new one replaces. They go with their deletion vectors. */
  readonly remove: readonly number[]
  /** undefined in a pool without a key. In a pool with a version column the run has versions. */
  readonly keys: KeyRun | undefined
  /** Every log record of the pool up to this sequence is flushed. */
  readonly flushedSequence: number
}

/**
 * The changes of a compaction or of retention: segments that go, and the one segment, or none, that
 * holds their rows now.
 *
 * Every key of the run is looked up again inside the transaction. A key that points into a segment
 * of `remove` is moved to its row in `add`, or removed where that row is -1 (expired). A key that
 * points elsewhere or is gone was updated or deleted meanwhile: its copy in `add` joins the
 * deletion vector of `add`. No other segment's deletion vector changes.
 *
 * Every visible row of `remove` must be found that way, by a key that points into its segment.
 * Otherwise keys are lost or a deletion vector is wrong, and moving the rest would hide it: the
 * commit is refused with SegmentsDisagree.
 */
export interface CompactionCommit {
  readonly pool: number
  /**
   * undefined where no row and no delete is left. Its `sequenceFrom` to `sequenceTo` covers those
   * of `remove`.
   */
  readonly add: SegmentMeta | undefined
  /**
   * Adjacent in sequence, with none missing between them. All are in the index, or the pool is
   * being dropped.
   */
  readonly remove: readonly number[]
  /** undefined in a pool without a key. Versions stay as they are: the run needs none. */
  readonly keys: KeyRun | undefined
}

/**
 * A segment that no manifest names any more, that no other segment covers, and whose file a rebuild
 * would still find.
 */
export type ObsoleteSegment = Pick<SegmentMeta, 'rows' | 'sequenceFrom' | 'timestampFromUs' | 'timestampToUs'>

/** The rows of a segment that were updated or deleted since: sorted row numbers. */
export interface DeletionVector {
  readonly segment: number
  readonly rows: Uint32Array
}

/** The result of a commit, for the manifest on the main thread. */
export interface FlushCommitted {
  readonly pool: number
  /**
   * Number of the transaction. Numbers rise. The deletion vectors count for manifests from this
   * commit on.
   */
  readonly commit: number
  readonly deletionVectors: readonly DeletionVector[]
  /** ms that its keys took, with their share of the sync; undefined where it has none. */
  readonly keysMs?: number
  /** µs that each of its keys took; undefined where it has too few to tell. */
  readonly usPerKey?: number
}

/** A segment of a pool, and the number of its rows that are no longer visible. */
export interface PoolSegment extends SegmentMeta {
  readonly deletedRows: number
}

/** One pool's state when the index is opened. Deleted rows are counted, not loaded (W-10). */
export interface PoolState {
  readonly pool: number
  readonly flushedSequence: number
  readonly nextSegment: number
  /**
   * The latest received-at, in µs, of all rows that ever were in a segment of the pool; 0 where
   * there was none.
   */
  readonly receivedToUs: number
  readonly segments: readonly PoolSegment[]
}

/** The state of a pool of which nothing is flushed. */
export function emptyPool(pool: number): PoolState {
  return { pool, flushedSequence: 0, nextSegment: 1, receivedToUs: 0, segments: [] }
}

interface IndexOpened {
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  /** The index was missing or foreign and has been rebuilt from the segments. */
  readonly rebuilt: boolean
  readonly keyLoop: KernelChoice
}

/** One segment of a query's manifest, pinned until the query ends (W-8). */
export interface QuerySegment {
  readonly file: string
  readonly meta: SegmentMeta
  /**
   * Sorted row numbers that are not visible as of the query's manifest. Two parts never name the
   * same row.
   */
  readonly deletionVectors: readonly DeletionVector[]
}

// ── the protocol of the index thread (index-client.ts, index-thread.ts) ─────────────────────────

/** The start-up data of the thread. */
export interface IndexThreadData {
  /** Absolute: data/index. */
  readonly folder: string
  /** Absolute: data/segment. */
  readonly segmentFolder: string
  /** `native` takes the native key loop where it is built. */
  readonly kernel: KernelChoice
  readonly crashAt: string
  /** Nice value of the thread. Undefined leaves it at the process's. */
  readonly nice: number | undefined
}

/**
 * The owner of the index, from the catalog. The thread reads the folder before it knows the owner.
 */
export interface IndexOwner {
  /** Random id of the data folder; an index with another one is foreign and rebuilt. */
  readonly identity: string
  /** Every pool that the catalog knows, with all its schema versions: the rebuild needs them. */
  readonly pools: readonly RebuildPool[]
}

/**
 * The calls of the main thread to the index thread. `open` comes first. Calls are answered in their
 * order, except that other calls run between the steps of `dropPool` and `sweep`.
 */
export interface IndexCalls {
  /** @throws Damaged or CannotRun */
  open(owner: IndexOwner): { readonly opened: IndexOpened; readonly notes: IndexNotes }
  /**
   * One transaction for all flushes, answered after the sync. Key runs are moved to the thread,
   * deletion vectors back. After a rejection with Unavailable nothing changed.
   */
  commit(flushes: readonly FlushCommit[]): readonly FlushCommitted[]
  /**
   * As `commit`. The result holds the deletion vector of the new segment alone. After a rejection
   * with SegmentsDisagree nothing changed either.
   */
  commitCompaction(compaction: CompactionCommit): FlushCommitted
  /** The deletion vectors of all segments of a pool as of the last commit. */
  readDeletionVectors(pool: number): {
    readonly commit: number
    readonly deletionVectors: readonly DeletionVector[]
  }
  /** Removes everything of a deleted pool, in bounded steps. */
  dropPool(pool: number): void
  /**
   * Removes files that no transaction names. `poolsByFolder` maps the folder name of each live pool
   * to its number.
   */
  sweep(poolsByFolder: ReadonlyMap<string, number>): Swept
}

export interface IndexEvents {
  /** A rebuild has read `done` of the `of` rows and deletes of all pools. It reads `pool` now. */
  progress(rebuild: { readonly done: number; readonly of: number; readonly pool: number }): void
}

/**
 * The reason for building an index where there was none: a new or restored folder, or a removed
 * index.
 */
export const NEW_INDEX = 'it is new'

/** The findings of opening the index, for the operator. */
export interface IndexNotes {
  /** The reason for the rebuild; undefined where the index was whole. */
  readonly rebuiltBecause: string | undefined
  /** Files of flushes and merges that never committed. They were removed. */
  readonly cleared: readonly string[]
  /** Folders of no known pool that the rebuild left alone. */
  readonly unknownFolders: readonly string[]
  /** Rows that may be missing after the rebuild, in words. */
  readonly possibleLosses: readonly string[]
}
