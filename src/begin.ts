/**
 * What a start begins with: the threads of catalog, index and log, which read while the main thread loads the rest of the
 * program and while they wait for each other. Where there is a data folder they change nothing of it yet.
 */
import { openStoreClient, type StoreClient } from './catalog/store-client.ts'
import { type StartedLog, startLog } from './commit/open.ts'
import type { Config } from './config.ts'
import { type StartedIndex, startIndex } from './keys/index-client.ts'
import { BACKGROUND_NICE } from './limits.ts'
import type { Paths } from './paths.ts'
import { must } from './util/assert.ts'

export interface BeginOptions {
  readonly config: Config
  readonly paths: Paths
  readonly kernel: 'native' | 'js'
  /** A thread died: the process must end; recovery makes it whole. */
  readonly onFault: (error: Error) => void
  /** A rebuild of the index has done `done` of `of` rows and deletes; `pool` is at hand. */
  readonly onRebuild: (done: number, of: number, pool: number) => void
}

/** Threads that run, and that nobody has opened yet. */
export interface Begun {
  /** The catalog's documents, and who changes them. Its taker stops it. Rejects with CannotRun or Damaged. */
  takeStore(): Promise<StoreClient>
  readonly index: StartedIndex
  readonly log: StartedLog
  /** Ends those that were not taken or opened. */
  leave(): Promise<void>
}

/** Starts the threads. The folder is locked. */
export function begin(options: BeginOptions): Begun {
  const { config, paths } = options
  let store: Promise<StoreClient> | undefined = openStoreClient({
    path: paths.catalog,
    crashAt: config.crashAt,
  })
  store.catch(() => undefined) // its taker is told
  const index = beginIndex(options)
  const log = startLog({
    folder: paths.log,
    durability: config.durability,
    crashAt: config.crashAt,
    fileBytes: config.logFileBytes,
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

/** The index's thread alone. */
export function beginIndex({ config, paths, kernel, onFault, onRebuild }: BeginOptions): StartedIndex {
  return startIndex({
    folder: paths.index,
    segmentFolder: paths.segment,
    kernel,
    crashAt: config.crashAt,
    nice: BACKGROUND_NICE,
    onFailed: onFault,
    onProgress: onRebuild,
  })
}
