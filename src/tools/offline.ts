/**
 * A stopped data folder, opened for a command: its lock, its catalog, its index, and its segments to read.
 *
 * Where the command wants everything that was acknowledged, the log is replayed and flushed first, by the stages of the
 * server itself (stages.ts) and with its clean stop, so that a command sees what a start would.
 */
import { availableParallelism } from 'node:os'
import type { Catalog } from '../catalog/catalog.ts'
import type { Pool } from '../catalog/model.ts'
import { openCatalog } from '../catalog/open-catalog.ts'
import type { Config } from '../engine/config.ts'
import { flushedSequences, openIndexOf, openStages, rebuiltNotes } from '../engine/stages.ts'
import type { OpenedIndex } from '../index/index-client.ts'
import { createManifest, type Snapshot } from '../index/manifest.ts'
import type { QueryEngine } from '../query/query-types.ts'
import type { Merger } from '../store/compaction/compaction-types.ts'
import { assert, must } from '../util/assert.ts'
import { checkCatalog, lockFolder, removeLeftIndexes } from '../util/data-folder.ts'
import { disk, type FileHandle } from '../util/disk.ts'
import { endNow } from '../util/end-process.ts'
import { CannotRun, Unavailable } from '../util/errors.ts'
import { armCrash, setFaults } from '../util/fault-injection.ts'
import { OFFLINE_FLUSH_MS_MAX } from '../util/limits.ts'
import { chooseNative, type KernelChoice } from '../util/native.ts'
import { type Paths, pathsOf, poolFolder } from '../util/paths.ts'
import { errorText, note, warn } from '../util/say.ts'
import { choosePool } from './choose-pool.ts'
import { lookAtLog } from './inspect-log.ts'
import { putAwayNow } from './interrupt.ts'
import { createProgress } from './progress.ts'

/** An open folder. The process holds its lock until `close`. */
export interface Offline {
  readonly config: Config
  readonly paths: Paths
  readonly kernel: KernelChoice
  readonly catalog: Catalog
  readonly index: OpenedIndex
  /** Requests that were replayed from the log and flushed. */
  readonly replayed: number
  /** The flushed rows of a pool, pinned. */
  snapshot(pool: number): Promise<Snapshot>
  /** By id or unique name. Throws CannotRun naming it. */
  findPool(name: string): Pool
  /** Opened at the first call. `outputFolder`: an absolute folder that copies may be written to besides data/tmp. */
  engine(outputFolder?: string): Promise<QueryEngine>
  close(): Promise<void>
}

/**
 * Opens the folder of `config`.
 * @param replay replay and flush what stands in the log alone; without it only what is flushed is seen
 * @throws CannotRun no data folder, or a server runs on it; Damaged with the place
 */
export async function openOffline(
  config: Config,
  { replay }: { readonly replay: boolean },
): Promise<Offline> {
  setFaults(config.faultAt)
  armCrash(config.crashAt)
  const kernel = chooseNative(config.kernel)
  const paths = pathsOf(config.dataDir)
  const lock = lockFolder(paths)
  removeLeftIndexes(paths)
  checkCatalog(paths)
  // The options of the first application are the server's to apply.
  const folder: Folder = { config: { ...config, clientId: '', clientSecret: '' }, paths, kernel, lock }
  const first = await openBoth(folder)
  if (!replay || !hasUnflushed(folder, first)) return offlineOf(folder, first, 0)
  await closeBoth(first)
  const replayed = await replayAndFlush(folder)
  return offlineOf(folder, await openBoth(folder), replayed)
}

interface Folder {
  readonly config: Config
  readonly paths: Paths
  readonly kernel: KernelChoice
  readonly lock: FileHandle
}

interface Both {
  readonly catalog: Catalog
  readonly index: OpenedIndex
}

/** A thread died. What is on disk is what a kill would leave. */
function onFault(error: Error): void {
  putAwayNow()
  warn(`a thread failed, the command ends; nothing is lost: ${errorText(error)}`)
  endNow()
}

async function openBoth({ config, paths, kernel }: Folder): Promise<Both> {
  const { catalog } = await openCatalog({ paths, crashAt: config.crashAt })
  const progress = createProgress('rebuilding the index')
  try {
    const onRebuild = (done: number, of: number) => progress.step(done, of, 'rows')
    const index = await openIndexOf({ config, paths, kernel, onFault, onRebuild }, catalog)
    for (const line of rebuiltNotes(index)) note(line)
    return { catalog, index }
  } catch (error) {
    await catalog.stop()
    throw error
  } finally {
    progress.end()
  }
}

async function closeBoth({ catalog, index }: Both): Promise<void> {
  await index.index.stop()
  await catalog.stop()
}

/** Throws Damaged, after closing, where the log is damaged. */
function hasUnflushed({ paths }: Folder, { catalog, index }: Both): boolean {
  const look = lookAtLog(paths.log, flushedSequences(catalog, index.opened.pools))
  return look.unflushedRequests > 0 || look.damage !== undefined // the start of the log says what is wrong
}

/** Compaction is the server's: its scheduler is never started here. */
const NO_MERGER: Merger = {
  merge: () => Promise.reject(new Unavailable('stopped', 'a command merges no segments')),
  setSpeed: () => undefined,
  stop: () => Promise.resolve(),
}

/** A start and a clean stop without HTTP. Returns how many requests were replayed. */
async function replayAndFlush({ config, paths, kernel }: Folder): Promise<number> {
  const closers: (() => Promise<unknown>)[] = []
  try {
    const merger = () => NO_MERGER
    const onRebuild = () => undefined // it was rebuilt when the folder was opened
    const stages = await openStages({ config, paths, kernel, onFault, closers, merger, onRebuild })
    const { replayed } = stages.log.summary
    const flushed = await stages.pools.stop(OFFLINE_FLUSH_MS_MAX)
    stages.metrics.stop()
    if (!flushed)
      throw new CannotRun('what was replayed from the log could not be flushed; the log has it still')
    note(`replayed ${replayed} requests from the log and flushed them`)
    return replayed
  } finally {
    // The log before the index and the catalog, as at a clean stop.
    for (const close of closers.reverse()) await close()
  }
}

function offlineOf({ config, paths, kernel, lock }: Folder, both: Both, replayed: number): Offline {
  const { catalog, index } = both
  const manifest = createManifest({
    pools: index.opened.pools.filter(state => catalog.poolByNumber(state.pool) !== undefined),
    lastCommit: index.opened.lastCommit,
    readDeletionVectors: pool => index.index.readDeletionVectors(pool),
    folderOf: pool => poolFolder(paths, must(catalog.poolByNumber(pool), `pool ${pool}`).id),
    onUnpinned: () => assert(false, 'a command replaces no segments'),
  })
  let engine: Promise<QueryEngine> | undefined
  return {
    config,
    paths,
    kernel,
    catalog,
    index,
    replayed,
    snapshot: pool => manifest.snapshot(pool),
    findPool: name =>
      choosePool(name, {
        byId: id => catalog.pool(id),
        byName: one => catalog.poolByName(one),
        all: catalog.pools(),
      }),
    engine: outputFolder => {
      engine ??= openEngine(paths, config, kernel, outputFolder)
      return engine
    },
    close: async () => {
      if (engine !== undefined) await (await engine).stop()
      await closeBoth(both)
      disk.close(lock)
    },
  }
}

async function openEngine(
  paths: Paths,
  config: Config,
  kernel: KernelChoice,
  outputFolder: string | undefined,
): Promise<QueryEngine> {
  const { openQueryEngine } = await import('../query/engine-client.ts')
  for (const folder of [paths.segment, paths.temporary]) disk.mkdir(folder)
  return await openQueryEngine({
    segmentFolder: paths.segment,
    temporaryFolder: paths.temporary,
    outputFolder,
    kernel,
    threads: availableParallelism(),
    crashAt: config.crashAt,
    onFault,
  })
}
