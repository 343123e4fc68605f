/**
 * The index as the main thread sees it: promises over the index thread.
 *
 *   W-4  A commit resolves after its sync. If the thread ends, every call rejects with Unavailable.
 */
import { Unavailable } from '../util/errors.ts'
import { startThread, type Thread } from '../util/thread-kit.ts'
import type { IndexCalls, IndexEvents, IndexNotes, IndexOwner, IndexThreadData } from './index-messages.ts'
import type { FlushCommit, IndexOpened, KeyIndex } from './index-types.ts'
import type { Swept } from './sweep-orphans.ts'

interface StartIndexOptions extends IndexThreadData {
  /** A rebuild has done `done` of `of` rows and deletes of all pools; `pool` is at hand. After each segment. */
  readonly onProgress?: (done: number, of: number, pool: number) => void
  /** The thread ended although nobody stopped it: nothing can be flushed until a restart. Called once. */
  readonly onFailed?: (error: Error) => void
}

/** A started index and whose it is. */
export interface OpenIndexOptions extends StartIndexOptions, IndexOwner {}

/** The index thread, which reads what is there until `open` tells it whose index it is. */
export interface StartedIndex {
  /** Rejects with Damaged or CannotRun; the thread ends then. */
  open(owner: IndexOwner): Promise<OpenedIndex>
  /** Ends the thread where `open` was not called. */
  leave(): Promise<void>
}

/** KeyIndex, and the sweep, which main.ts asks for after ready. */
interface IndexClient extends KeyIndex {
  /** Removes files that nothing names. `poolsByFolder`: pool number by folder name, of every living pool. */
  sweep(poolsByFolder: ReadonlyMap<string, number>): Promise<Swept>
}

export interface OpenedIndex {
  readonly opened: IndexOpened
  readonly notes: IndexNotes
  readonly index: IndexClient
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
  let isTaken = false
  const thread = startThread<IndexCalls, IndexEvents>({
    name: 'index',
    data,
    crashAt: data.crashAt,
    on: { progress: ({ done, of, pool }) => onProgress?.(done, of, pool) },
    lost,
    // Before it opened, the caller is told by the rejection.
    onCrash: error => isOpen && onFailed?.(lost(error)),
  })
  return {
    open: async owner => {
      isTaken = true
      try {
        const found = await thread.call('open', owner)
        isOpen = true
        return { ...found, index: clientOf(thread) }
      } catch (error) {
        await thread.stop().catch(() => {}) // the first error says more
        throw error
      }
    },
    leave: async () => {
      if (!isTaken) await thread.stop()
    },
  }
}

function clientOf(thread: Thread<IndexCalls, IndexEvents>): IndexClient {
  return {
    commit: flushes => thread.call('commit', flushes, keysOf(flushes)),
    commitCompaction: swap => thread.call('swap', swap, swap.keys === undefined ? [] : [swap.keys]),
    readDeletionVectors: pool => thread.call('readDeletionVectors', pool),
    dropPool: pool => thread.call('dropPool', pool),
    sweep: poolsByFolder => thread.call('sweep', poolsByFolder),
    stop: () => thread.stop(),
  }
}

/** Key runs are moved: the flusher has no use for them after the commit. Flushes may share one. */
function keysOf(flushes: readonly FlushCommit[]): ArrayBuffer[] {
  const runs = new Set<ArrayBuffer>()
  for (const { keys } of flushes) if (keys !== undefined) runs.add(keys)
  return [...runs]
}
