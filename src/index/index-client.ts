/**
 * The index as the main thread sees it: promises over the index thread.
 *
 *   W-4  A commit resolves after its sync. If the thread ends, every call rejects with Unavailable.
 */
import type { ResultOf } from '../util/callee.ts'
import { Unavailable } from '../util/errors.ts'
import { startThread, type Thread } from '../util/thread-kit.ts'
import type {
  CompactionCommit,
  FlushCommit,
  IndexCalls,
  IndexEvents,
  IndexOwner,
  IndexThreadData,
} from './index-types.ts'

interface StartIndexOptions extends IndexThreadData {
  /**
   * Called after each segment of a rebuild: it has read `done` of the `of` rows and deletes, and
   * reads `pool` now.
   */
  readonly onProgress?: (done: number, of: number, pool: number) => void
  /**
   * Called once when the thread ends without a stop. Nothing can be flushed any more, so the caller
   * ends the process.
   */
  readonly onFailed?: (error: Error) => void
}

/** The options of an index that is opened and given its owner in one step. */
export interface OpenIndexOptions extends StartIndexOptions, IndexOwner {}

/** The started index thread. It reads the folder until `open` names the owner. */
export interface StartedIndex {
  /** Rejects with Damaged or CannotRun after the thread has ended. */
  open(owner: IndexOwner): Promise<OpenedIndex>
  /** Closes the index, open or not, and ends the thread. It may be called again. */
  stop(): Promise<void>
}

/** An open index. See IndexCalls for its calls. */
export interface OpenedIndex extends ResultOf<IndexCalls['open']> {
  readonly index: ReturnType<typeof clientOf>
}

/** Starts the thread and opens the index. Rejects with Damaged or CannotRun. */
export function openIndex({ identity, pools, ...options }: OpenIndexOptions): Promise<OpenedIndex> {
  return startIndex(options).open({ identity, pools })
}

/** Starts the thread. */
export function startIndex(options: StartIndexOptions): StartedIndex {
  const { onProgress, onFailed, ...data } = options
  const lost = (error: Error) => new Unavailable('index_failed', `the index thread failed: ${error.message}`)
  let isOpen = false
  const thread = startThread<IndexCalls, IndexEvents>({
    name: 'index',
    data,
    crashAt: data.crashAt,
    on: { progress: ({ done, of, pool }) => onProgress?.(done, of, pool) },
    lost,
    // Until it is open, the caller hears of a crash by the rejection of `open`.
    onCrash: error => isOpen && onFailed?.(lost(error)),
  })
  return {
    open: async owner => {
      try {
        const found = await thread.call('open', owner)
        isOpen = true
        return { ...found, index: clientOf(thread) }
      } catch (error) {
        await thread.stop().catch(() => {}) // the first error says more
        throw error
      }
    },
    stop: () => thread.stop(),
  }
}

function clientOf(thread: Thread<IndexCalls, IndexEvents>) {
  return {
    commit: (flushes: readonly FlushCommit[]) => thread.call('commit', flushes, keysOf(flushes)),
    commitCompaction: (compaction: CompactionCommit) =>
      thread.call('commitCompaction', compaction, keysOf([compaction])),
    readDeletionVectors: (pool: number) => thread.call('readDeletionVectors', pool),
    dropPool: (pool: number) => thread.call('dropPool', pool),
    sweep: (poolsByFolder: ReadonlyMap<string, number>) => thread.call('sweep', poolsByFolder),
    stop: () => thread.stop(),
  }
}

/** Key runs are moved: nobody has a use for them after the commit. Flushes may share one. */
function keysOf(commits: readonly Pick<FlushCommit, 'keys'>[]): ArrayBuffer[] {
  return [...new Set(commits.flatMap(({ keys }) => keys ?? []))]
}
