/**
 * The types of compaction: what a merge reads and answers, what the scheduler needs of the server,
 * and its figures.
 *
 * The scheduler on the main thread sends one MergeTask at a time to the merge thread. The merge
 * thread reads adjacent segments of one pool without their deleted and expired rows, writes at most
 * one new segment, makes it durable (W-5), and answers with what the index needs for the compaction
 * commit.
 */
import type { KeyRun } from '../../format/key-run.ts'
import type { PoolSchema } from '../../format/schema.ts'
import type { SegmentMeta } from '../../format/segment-meta.ts'
import type {
  CompactionCommit,
  DeletionVector,
  FlushCommitted,
  ObsoleteSegment,
  PoolSegment,
} from '../../index/index-types.ts'
import type { Snapshot } from '../../index/manifest.ts'
import type { Clock } from '../../util/clock.ts'
import type { SegmentDamaged } from '../../util/errors.ts'

// ── the merge thread ─────────────────────────────────────────────────────────────────────────────

/** A segment to merge; pinned until the compaction commit succeeds or fails. */
export interface MergeInput {
  readonly meta: SegmentMeta
  /** Columns of its schema version: the first ones of the task's schema. Absent for all of them. */
  readonly columns?: number
  /** Rows that are not visible in the manifest that the merge began with. */
  readonly deletionVectors: readonly DeletionVector[]
}

/** The primary timestamps of a segment's rows in µs; null where they are not known. */
export interface TimeSpan {
  readonly fromUs: number | null
  readonly toUs: number | null
}

/** Changes of the rows of one segment, as a job found them (format/row-changes.ts). */
export interface MergeChanges {
  /** Absolute. */
  readonly file: string
  /** Indexes of the columns that are set. An empty list means that the rows are deleted. */
  readonly set: readonly number[]
}

/** One segment that a job rewrites. */
export interface Rewrite {
  readonly segment: number
  /** That of the new segment, at least: it may be newer than the segment's own. */
  readonly schemaVersion: number
  readonly changes: MergeChanges
}

/**
 * `gone`: the pool or the segment is not there any more, or compaction leaves the pool alone.
 * `refused`: a sentence why the changes cannot be applied. Nothing has changed then.
 */
export type RewriteOutcome = 'done' | 'gone' | { readonly refused: string }

export interface MergeTask {
  readonly poolId: string
  /** That of the newest input. Columns that an older one lacks are null in its rows. */
  readonly schema: PoolSchema
  /** Absolute folder of the pool's segments. */
  readonly folder: string
  readonly segment: number
  /** By rising sequence, with no segment between them. */
  readonly inputs: readonly MergeInput[]
  /** Rows with an older primary timestamp are left out. Undefined keeps rows of any age. */
  readonly expireBeforeUs: number | undefined
  /**
   * Everything that a rebuild would read before the inputs. A delete goes when none of it can hold
   * the key (W-6).
   */
  readonly older: readonly TimeSpan[]
  /**
   * Where no row and no delete is left, a segment stays that says so (W-6 of run-compaction.ts).
   */
  readonly leavesSegment: boolean
  /** Changes of the one input's rows. Where it is absent, the rows stay as they are. */
  readonly changes?: MergeChanges
}

export interface MergeDone {
  /** Undefined where no row and no delete is left and the task asks for no segment then. */
  readonly meta: SegmentMeta | undefined
  /**
   * Keys of the new segment's rows, and keys of expired and removed rows with row -1. undefined
   * without a unique id.
   */
  readonly keys: KeyRun | undefined
}

/**
 * `throttled` beside ingest: a share of a core and of the disk (merge-throttle.ts). `full`: no
 * limit.
 */
export type MergeSpeed = 'throttled' | 'full'

/** The merge thread as the scheduler sees it. It runs one merge at a time. */
export interface Merger {
  /**
   * Rejects with SegmentDamaged naming an unreadable input, or with Unavailable where the disk
   * refuses.
   */
  merge(task: MergeTask): Promise<MergeDone>
  /** A sentence why the changes cannot be applied: a value that its column does not take. */
  problemOf(changes: MergeChanges, schema: PoolSchema): Promise<string | undefined>
  /** A running merge follows from its next step on. */
  setSpeed(speed: MergeSpeed): void
  /** Cancels a running merge, and ends the thread. */
  stop(): Promise<void>
}

// ── the server around the scheduler ──────────────────────────────────────────────────────────────

/** A pool that is not deleted. */
export interface CompactPool {
  readonly poolId: string
  /** Absolute folder of its segments. */
  readonly folder: string
  /** Days; 0 keeps rows for ever. */
  readonly retentionDays: number
  schema(version: number): PoolSchema
}

/** One consistent state of a pool; its files stay until the release. */
export type PinnedPool = Pick<Snapshot, 'all' | 'release'>

export interface ServerLoad {
  /** Time since the last ingested rows. */
  readonly ingestAgoMs: number
  /** Memory of the running flushes: ingest waits for it. */
  readonly flushingBytes: number
  /** Flushes are small, because the index takes long for their keys. */
  readonly flushesAreSlow: boolean
  /** A flush fails, the disk is full, or the log takes no writes: no merge starts. */
  readonly isRefusing: boolean
}

/** The functions of the server that a compaction calls. A pool is named by its number. */
export interface RunnerDeps {
  readonly merger: Merger
  /** The wall clock is for retention alone. */
  readonly clock: Clock & { readonly wallMs: () => number }
  /** Returns undefined for a pool that is deleted, or excluded from compaction in this run. */
  pool(pool: number): CompactPool | undefined
  /** Segments that no manifest names any more and that a rebuild would still read. */
  obsolete(pool: number): readonly ObsoleteSegment[]
  /** Flusher.takeSegmentNumber. */
  takeSegmentNumber(pool: number): number
  /** See Manifest.snapshot. */
  pin(pool: number): Promise<PinnedPool>
  /**
   * One transaction of the index. Rejects with Unavailable or SegmentsDisagree: nothing changed.
   */
  commit(commit: CompactionCommit): Promise<FlushCommitted>
  /** Brings a synced commit into the manifest, which makes the replaced segments obsolete. */
  apply(commit: CompactionCommit, committed: FlushCommitted): void
  /**
   * Removes the files of unnamed segments, durably when it resolves; a missing file is no error.
   */
  unlink(folder: string, segments: readonly number[]): Promise<void>
  onMerged(figures: MergeFigures): void
}

export interface SchedulerDeps extends RunnerDeps {
  /** COMPACT_TICK_MS, unless a test sets a shorter tick. */
  readonly tickMs: number
  livePools(): readonly number[]
  segments(pool: number): readonly PoolSegment[]
  /** Segments whose rows the flusher keeps in memory. */
  replaceableSegments(pool: number): ReadonlySet<number>
  /**
   * Makes the flusher drop its recent flushes of the pool, but not the segments of a running flush.
   */
  forgetRecentFlushes(pool: number): void
  load(): ServerLoad
  onFailed(): void
  /** A merge has found a damaged file, and merges leave its segment out from now on. */
  onDamaged(error: SegmentDamaged): void
  /** A failed assertion: the process must end. */
  onFatal(error: Error): void
  /** Writes a line about segments that merges leave out for good. */
  fail(text: string): void
  /** Writes a line about a merge that is tried again. */
  warn(text: string): void
}

// ── figures ──────────────────────────────────────────────────────────────────────────────────────

/** Work that waits for compaction, of one pool or of all. */
export interface Debt {
  /** Segments that a merge would join to larger ones. */
  readonly smallSegments: number
  /** Deleted rows that are still on disk. */
  readonly rowsDeleted: number
  /** Bytes of all segments that a merge would rewrite. */
  readonly bytesToMerge: number
  /** Unreadable segments, which merges leave out. */
  readonly quarantined: number
}

export interface MergeFigures {
  readonly ms: number
  /** Rows of all inputs, deleted ones included. */
  readonly rowsRead: number
  readonly bytesRead: number
  readonly rowsWritten: number
  readonly bytesWritten: number
}

/** Figures for `/metrics`. */
export interface SchedulerStats {
  readonly debt: Debt
  readonly poolsWaiting: number
  readonly isMerging: boolean
}

/**
 * The calls of the merge thread, one merge at a time. A stop ends a running merge with Unavailable
 * (`stopping`).
 */
export interface MergeCalls {
  /** Keys are moved back. */
  merge(task: MergeTask): MergeDone
  problemOf(of: { readonly changes: MergeChanges; readonly schema: PoolSchema }): string | undefined
  /** Counts from the next rest of a running merge. */
  speed(speed: MergeSpeed): void
}

export interface MergeThreadData {
  readonly crashAt: string
  /** Nice value of the thread; 0 leaves it. */
  readonly nice: number
  readonly speed: MergeSpeed
  /** Absolute folder for data that is not durable yet. The thread empties it at its start. */
  readonly temporary: string
}
