/**
 * A backup: what is pinned on the main thread in one turn, and what the backup thread says while it copies.
 *
 * One backup has a thread of its own, from its first check to its end.
 */
import type { Entry } from '../../catalog/catalog-types.ts'
import type { SegmentMeta } from '../../format/segment-meta.ts'
import type { LogSpan } from '../../log/log-types.ts'

/** What a backup is doing. `bytesTotal` is 0 where it is not known before. */
export interface Progress {
  readonly phase: 'flush' | 'log' | 'catalog' | 'segments' | 'sync' | 'verify' | 'copy'
  readonly bytesDone: number
  readonly bytesTotal: number
}

/** One pool as it was pinned. */
export interface BackupPool {
  readonly pool: number
  readonly poolId: string
  readonly flushedSequence: number
  /** Those with rows and those with deletes only. */
  readonly segments: readonly SegmentMeta[]
}

/** The whole server at one moment: everything up to `log.lastSequence`, nothing above. */
export interface BackupState {
  readonly pools: readonly BackupPool[]
  /** Every document of the catalog. */
  readonly documents: readonly Entry[]
  /** Numbers of deleted pools: their log records are left out. */
  readonly deletedPools: readonly number[]
  readonly log: LogSpan
}

/** Where it goes, and how fast. */
export interface BackupTarget {
  /** Absolute root of the data folder. */
  readonly dataDir: string
  /** As the caller gave it. */
  readonly folder: string
  /** 0: as fast as it goes. */
  readonly bytesPerSecond: number
}

/** workerData of the backup thread. */
export interface BackupThreadData extends BackupTarget {
  readonly crashAt: string
}

/** A file of a backup that was not as the index says when it was copied. */
export interface DamagedFile {
  /** From the backup's folder, and from the data folder, with slashes. */
  readonly path: string
  readonly what: string
}

/** What a backup holds. */
export interface BackupSummary {
  readonly sequence: number
  readonly pools: number
  readonly segments: number
  readonly files: number
  readonly bytes: number
  /** None: it is whole. */
  readonly damaged: readonly DamagedFile[]
}

/** What the main thread asks of the backup thread. A stop cancels the copy, which removes what it wrote. */
export interface BackupCalls {
  /** undefined: the destination can be used. Else one sentence for the caller that says why it cannot. */
  check(): string | undefined
  /** Writes and syncs the whole backup. */
  copy(state: BackupState): BackupSummary
}

export interface BackupEvents {
  progress(progress: Progress): void
  /** The log's files are not needed any more. */
  logCopied(): void
}
