/** What the sealer is joined to, its time, and its figures. */
import type { SealCommit, SealCommitted } from '../keys/protocol.ts'
import { monotonicMs } from '../util/clock.ts'
import type { SealedSegment } from './pipeline.ts'
import type { SegmentWriter, TailEntry } from './protocol.ts'
import type { TakeLimits } from './tail.ts'

/** Time, as the sealer needs it. */
export interface SealClock {
  readonly nowMs: () => number
  /** Calls once, `ms` later; the answer cancels it. */
  readonly after: (ms: number, call: () => void) => () => void
}

/** What main.ts joins the sealer to. */
export interface SealerCalls {
  readonly writer: SegmentWriter
  /** KeyIndex.commit. */
  readonly commit: (seals: readonly SealCommit[]) => Promise<readonly SealCommitted[]>
  /** Commit.syncAll (W-13). */
  readonly syncLog: () => Promise<void>
  /** Seals that are flushed, in each pool's order: the manifest must know them when this returns. */
  readonly onCommitted: (seals: readonly SealedSegment[]) => void
  /** A seal failed; its entries are back and it is tried again after DISK_RETRY_MS. */
  readonly onFailed: (pool: number, error: Error) => void
  /** Entries are lost from memory: the process must end, the log has them. */
  readonly onFatal: (error: Error) => void
  /** Entries whose rows are sealed and that no seal will take along: their batches' memory is free. */
  readonly onFreed?: (entries: readonly TailEntry[]) => void
  /** Bytes written to the log since the start: how much of it a tail holds back. */
  readonly logBytes?: () => number
  readonly clock?: SealClock
  /** Other limits, for tests. */
  readonly limits?: TakeLimits
}

/** Figures for `/metrics`. */
export interface SealerStats {
  /** Rows and deletes that are not sealed, those of seals under way included. */
  readonly tailRows: number
  readonly tailBytes: number
  /** Of them, those of seals under way: high under load. The rest may just wait for its age. */
  readonly sealingBytes: number
  readonly keptBytes: number
  readonly poolsUnsealed: number
  readonly sealsUnderWay: number
  /** They are made small, because the index takes long for their keys. */
  readonly sealsAreSlow: boolean
  /** Pools whose last seal failed. */
  readonly poolsFailing: number
}

/** Monotonic, with Node's timers. */
export const realClock: SealClock = {
  nowMs: monotonicMs,
  after: (ms, call) => {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
}
