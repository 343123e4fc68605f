/** The protocol of the index thread (index-client.ts, index-thread.ts). */
import type { CompactionCommit, FlushCommit, FlushCommitted, IndexOpened, KeyIndex } from './index-types.ts'
import type { RebuildPool } from './rebuild.ts'
import type { Swept } from './sweep-orphans.ts'

/** What the thread is started with. */
export interface IndexThreadData {
  /** Absolute: data/index. */
  readonly folder: string
  /** Absolute: data/segment. */
  readonly segmentFolder: string
  /** `native` takes the native key loop where it is built. */
  readonly kernel: 'native' | 'js'
  readonly crashAt: string
  /** Nice value of the thread; undefined: the process's. */
  readonly nice: number | undefined
}

/** What the catalog says of the index; the thread reads what is there until it comes. */
export interface IndexOwner {
  /** Random id of the data folder; an index with another one is foreign and rebuilt. */
  readonly identity: string
  /** Every pool that the catalog knows, with all plan versions: the rebuild needs them. */
  readonly pools: readonly RebuildPool[]
}

/**
 * What the main thread asks of the index thread. `open` comes first. Calls are answered in their order, except that `dropPool` and
 * `sweep` let others in between their steps.
 */
export interface IndexCalls {
  /** @throws Damaged or CannotRun */
  open(owner: IndexOwner): { readonly opened: IndexOpened; readonly notes: IndexNotes }
  /** Key runs are moved to the thread, deletion vectors back. */
  commit(flushes: readonly FlushCommit[]): readonly FlushCommitted[]
  swap(swap: CompactionCommit): FlushCommitted
  readDeletionVectors(pool: number): Awaited<ReturnType<KeyIndex['readDeletionVectors']>>
  dropPool(pool: number): void
  sweep(poolsByFolder: ReadonlyMap<string, number>): Swept
}

export interface IndexEvents {
  /** A rebuild has done `done` of `of` rows and deletes of all pools; `pool` is at hand. */
  progress(rebuild: { readonly done: number; readonly of: number; readonly pool: number }): void
}

/** Why an index was built that was never there: a new folder, a restored one, or one whose index was taken away. */
export const NEW_INDEX = 'it is new'

/** What opening found, for the operator. */
export interface IndexNotes {
  /** Why the index was rebuilt; undefined where it was whole. */
  readonly rebuiltBecause: string | undefined
  /** Files of flushes that were never committed; removed. */
  readonly cleared: readonly string[]
  /** Folders of no known pool that the rebuild left alone. */
  readonly unknownFolders: readonly string[]
  /** Rows that the rebuild did not find any more, in words. */
  readonly lost: readonly string[]
}
