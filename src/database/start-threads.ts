/**
 * Starts the threads of catalog, index and log. They read their files while the main thread loads
 * the rest of the program. An existing data folder is not changed yet. stages.ts opens them.
 */

import { openStoreClient } from '../catalog/lmdb/store-client.ts'
import { startIndex } from '../index/index-client.ts'
import { startLog } from '../log/open-log.ts'
import { BACKGROUND_NICE } from '../util/limits.ts'
import type { KernelChoice } from '../util/native.ts'
import type { Paths } from '../util/paths.ts'
import type { Config } from './config.ts'

/**
 * Functions that stop what was started and opened, in the order of starting. The caller runs them
 * in reverse order.
 */
export type Closers = (() => Promise<unknown>)[]

export interface StartOptions {
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
  readonly closers: Closers
}

/** Threads that run and are not opened yet. */
export type StartedThreads = ReturnType<typeof startThreads>

/** Starts all threads. The folder is locked. */
export function startThreads(options: StartOptions) {
  const { config, paths, closers } = options
  const threads = startMetadataThreads(options)
  const log = startLog({
    folder: paths.log,
    durability: config.durability,
    crashAt: config.crashAt,
    fileBytesMax: config.logFileBytes,
  })
  closers.push(() => log.stop())
  return { ...threads, log }
}

/** Starts the threads of catalog and index alone. `store` rejects with CannotRun or Damaged. */
export function startMetadataThreads(options: StartOptions) {
  const { config, paths, kernel, onFatal, onRebuild, closers } = options
  const store = openStoreClient({ path: paths.catalog, crashAt: config.crashAt })
  const storeOrNone = store.catch(() => undefined) // who awaits `store` reports the error
  closers.push(async () => (await storeOrNone)?.stop())
  const index = startIndex({
    folder: paths.index,
    segmentFolder: paths.segment,
    kernel,
    crashAt: config.crashAt,
    nice: BACKGROUND_NICE,
    onFailed: onFatal,
    onProgress: onRebuild,
  })
  closers.push(() => index.stop())
  return { store, index }
}
