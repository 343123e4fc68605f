/** The protocol of the index thread (index-client.ts, index-thread.ts). */
import type { KernelChoice } from '../util/native.ts'
import type { CompactionCommit, FlushCommit, FlushCommitted, IndexOpened, KeyIndex } from './index-types.ts'
import type { RebuildPool } from './rebuild.ts'
import type { Swept } from './sweep-orphans.ts'

/** The start-up data of the thread. */
export interface IndexThreadData {
  /** Absolute: data/index. */
  readonly folder: string
  /** Absolute: data/segment. */
  readonly segmentFolder: string
  /** `native` takes the native key loop where it is built. */
  readonly kernel: KernelChoice
  readonly crashAt: string
  /** Nice value of the thread; undefined: the process's. */
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
  /** Key runs are moved to the thread, deletion vectors back. */
  commit(flushes: readonly FlushCommit[]): readonly FlushCommitted[]
  commitCompaction(compaction: CompactionCommit): FlushCommitted
  readDeletionVectors(pool: number): Awaited<ReturnType<KeyIndex['readDeletionVectors']>>
  dropPool(pool: number): void
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
  /** Files of uncommitted flushes, which were removed. */
  readonly cleared: readonly string[]
  /** Folders of no known pool that the rebuild left alone. */
  readonly unknownFolders: readonly string[]
  /** Rows that may be missing after the rebuild, in words. */
  readonly possibleLosses: readonly string[]
}
