/**
 * Starts the threads of catalog, index and log. They read their files while the main thread loads
 * the rest of the program. An existing data folder is not changed yet.
 */

import { openStoreClient, type StoreClient } from '../catalog/store-client.ts'
import { type StartedIndex, startIndex } from '../index/index-client.ts'
import { type StartedLog, startLog } from '../log/open-log.ts'
import { must } from '../util/assert.ts'
import { BACKGROUND_NICE } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'
import type { Paths } from '../util/paths.ts'
import type { Config } from './config.ts'

export interface BeginOptions {
  readonly config: Config
  readonly paths: Paths
  readonly kernel: KernelChoice
  /** Called when a thread has crashed: the process must end, and the next start recovers. */
  readonly onFatal: (error: Error) => void
  /**
   * Called while the index is rebuilt: `done` of `of` rows and deletes are read, `pool` is the
   * current one.
   */
  readonly onRebuild: (done: number, of: number, pool: number) => void
}

/** Threads that run and are not opened yet. */
export interface StartedThreads {
  /** Takes the catalog's store; the caller stops it. Rejects with CannotRun or Damaged. */
  takeStore(): Promise<StoreClient>
  readonly index: StartedIndex
  readonly log: StartedLog
  /** Ends the threads that were not taken or opened. */
  leave(): Promise<void>
}

/** Starts the threads. The folder is locked. */
export function begin(options: BeginOptions): StartedThreads {
  const { config, paths } = options
  let store: Promise<StoreClient> | undefined = openStoreClient({
    path: paths.catalog,
    crashAt: config.crashAt,
  })
  store.catch(() => undefined) // takeStore() reports it
  const index = beginIndex(options)
  const log = startLog({
    folder: paths.log,
    durability: config.durability,
    crashAt: config.crashAt,
    fileBytesMax: config.logFileBytes,
  })
  const takeStore = () => {
    const taken = must(store, 'a store is taken once')
    store = undefined
    return taken
  }
  const leaveStore = async () => {
    const left = await store?.catch(() => undefined)
    await left?.stop()
  }
  return {
    takeStore,
    index,
    log,
    leave: async () => {
      await Promise.all([leaveStore(), index.leave(), log.leave()])
    },
  }
}

/** Starts the thread of the index alone. */
export function beginIndex({ config, paths, kernel, onFatal, onRebuild }: BeginOptions): StartedIndex {
  return startIndex({
    folder: paths.index,
    segmentFolder: paths.segment,
    kernel,
    crashAt: config.crashAt,
    nice: BACKGROUND_NICE,
    onFailed: onFatal,
    onProgress: onRebuild,
  })
}
