/** What the scheduler is joined to, its time, and its figures. */
import type { Plan } from '../batch/plan.ts'
import type { GivenUpSegment, MarkDelta, SealCommitted, SegmentMeta, SwapCommit } from '../keys/protocol.ts'
import type { Debt, MergeDone, Merger, PoolSegment } from './protocol.ts'

/** A living pool. */
export interface CompactPool {
  readonly poolId: string
  /** Absolute folder of its segments. */
  readonly folder: string
  /** Days; 0 keeps for ever. */
  readonly retentionDays: number
  plan(version: number): Plan
}

/** One consistent state of a pool; its files stay until the release. */
export interface PinnedPool {
  /** Delete-only ones too. */
  readonly segments: readonly { readonly meta: SegmentMeta; readonly marks: readonly MarkDelta[] }[]
  release(): void
}

/** What else goes on. */
export interface Load {
  /** Since rows came last. */
  readonly ingestAgoMs: number
  /** Of the seals under way: what ingest waits for. */
  readonly tailBytes: number
  /** Seals are small, because the index takes long for their keys. */
  readonly sealsAreSlow: boolean
  /** A seal fails, the disk is full, or the log takes no writes: nothing is started. */
  readonly isRefusing: boolean
}

/** A merge that is done. */
export interface MergeFigures {
  readonly ms: number
  readonly rowsRead: number
  readonly bytesRead: number
  readonly rowsWritten: number
  readonly bytesWritten: number
}

/** Time; the wall clock is for retention alone. */
interface CompactClock {
  readonly nowMs: () => number
  readonly wallMs: () => number
  /** Calls once, `ms` later; the answer cancels it. */
  readonly after: (ms: number, call: () => void) => () => void
}

/** What the joins give. Pools are named by their number. */
export interface SchedulerCalls {
  readonly merger: Merger
  readonly clock: CompactClock
  /** COMPACT_TICK_MS, unless a test says less. */
  readonly tickMs: number
  livePools(): readonly number[]
  /** undefined: deleted, or left alone in this run. */
  pool(pool: number): CompactPool | undefined
  /** The manifest's segments now. */
  segments(pool: number): readonly PoolSegment[]
  /** Manifest.emptied: no segment of the pool any more, and a rebuild would still find them. */
  emptied(pool: number): readonly GivenUpSegment[]
  /** Sealer.heldSegments. */
  held(pool: number): ReadonlySet<number>
  /** Sealer.forgetKept. */
  forgetKept(pool: number): void
  /** Sealer.takeSegmentNumber. */
  takeSegmentNumber(pool: number): number
  /** Rejects with Unavailable. */
  pin(pool: number): Promise<PinnedPool>
  /** KeyIndex.swap. Rejects with Unavailable or SegmentsDisagree: nothing changed. */
  swap(swap: SwapCommit): Promise<SealCommitted>
  /** Brings a flushed swap into the manifest, which gives the replaced files up. */
  apply(swap: SwapCommit, committed: SealCommitted): void
  /** Removes the files of segments that nothing names, for good when it resolves; one that is not there is no error. */
  unlink(folder: string, segments: readonly number[]): Promise<void>
  load(): Load
  onMerged(figures: MergeFigures): void
  onFailed(): void
  /** Our own fault: the process must end. */
  onFatal(error: Error): void
  warn(text: string): void
}

/** Figures for `/metrics`. */
export interface SchedulerStats {
  readonly debt: Debt
  /** Pools that have something to merge. */
  readonly poolsWaiting: number
  readonly isMerging: boolean
}

export function figuresOf(done: MergeDone, ms: number): MergeFigures {
  const { rowsRead, bytesRead, meta } = done
  return { ms, rowsRead, bytesRead, rowsWritten: meta?.rows ?? 0, bytesWritten: meta?.bytes ?? 0 }
}
