/**
 * A stopped data folder, opened for a command that reads rows: catalog, index, segments and a query
 * engine.
 *
 * Such a command sees every acknowledged row, so the log is replayed and flushed first. The code
 * of the server does this (database/stages.ts) and stops cleanly: the command sees what a start
 * would see.
 */
import { availableParallelism } from 'node:os'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Config } from '../database/config.ts'
import { flushedSequences, openMetadata, openStages, rebuiltNotes } from '../database/stages.ts'
import { type Closers, startMetadataThreads, startThreads } from '../database/start-threads.ts'
import { Manifest } from '../index/manifest.ts'
import type { SegmentEngine } from '../query/plan/segment-task.ts'
import { checkFile } from '../store/check/check-file.ts'
import { SegmentChecks } from '../store/check/segment-checks.ts'
import { checkCatalog, removeLeftFolders, upgradeFormat } from '../util/data-folder.ts'
import { disk } from '../util/disk.ts'
import { endNow } from '../util/end-process.ts'
import { assert, CannotRun, must } from '../util/errors.ts'
import { poolFolder } from '../util/paths.ts'
import { errorText, fail, note } from '../util/say.ts'
import { cleanUpNow } from './interrupts.ts'
import { withProgress } from './progress.ts'
import { inspectLog, openStopped, type StoppedFolder } from './stopped-folder.ts'

/** Time for a command on a stopped folder to flush what it replayed. The log still has the rows. */
const OFFLINE_FLUSH_MS_MAX = 600_000

/** An open folder. The process holds its lock until `close`. */
export type Offline = ReturnType<typeof offlineOf>

/**
 * Opens the folder of `config`.
 * @throws CannotRun no data folder, or a server uses it; Damaged with the place
 */
export async function openOffline(config: Config): Promise<Offline> {
  const stopped = openStopped(config)
  removeLeftFolders(stopped.paths)
  checkCatalog(stopped.paths)
  upgradeFormat(stopped.paths)
  // Only the server applies the options of the first application.
  const folder: Folder = { ...stopped, config: { ...config, clientId: '', clientSecret: '' } }
  const first = await openCatalogAndIndex(folder)
  if (!hasUnflushed(folder, first)) return offlineOf(folder, first, 0)
  await closeAll(first.closers)
  const replayed = await replayAndFlush(folder)
  return offlineOf(folder, await openCatalogAndIndex(folder), replayed)
}

interface Folder extends StoppedFolder {
  readonly config: Config
}

type CatalogAndIndex = Awaited<ReturnType<typeof openCatalogAndIndex>>

/** Ends the command after a thread failure. The folder is as a kill would leave it. */
function onFatal(error: Error): void {
  cleanUpNow()
  fail(`a thread failed and the command ends; nothing is lost: ${errorText(error)}`)
  endNow()
}

async function openCatalogAndIndex({ config, paths, kernel }: Folder) {
  const closers: Closers = []
  try {
    const { opened, index } = await withProgress('rebuilding the index', progress => {
      const onRebuild = (done: number, of: number) => progress.step(done, of, 'rows')
      const options = { config, paths, kernel, onFatal, onRebuild, closers }
      return openMetadata(startMetadataThreads(options), options)
    })
    for (const line of rebuiltNotes(index)) note(line)
    return { catalog: opened.catalog, index, closers }
  } catch (error) {
    await closeAll(closers).catch(() => undefined) // the first error says more
    throw error
  }
}

/** The log closes before the index and the catalog, as at a clean stop. */
async function closeAll(closers: Closers): Promise<void> {
  for (const close of closers.reverse()) await close()
}

/** True too where the log is damaged: the replay then reports the damage. */
function hasUnflushed({ paths }: Folder, { catalog, index }: CatalogAndIndex): boolean {
  const log = inspectLog(paths.log, flushedSequences(catalog, index.opened.pools))
  return log.unflushedRequests > 0 || log.damage !== undefined
}

/** A start and a clean stop without HTTP. Returns the number of requests that were replayed. */
async function replayAndFlush({ config, paths, kernel }: Folder): Promise<number> {
  const closers: Closers = []
  try {
    const onRebuild = () => undefined // openCatalogAndIndex has rebuilt the index
    const options = { config, paths, kernel, onFatal, onRebuild, closers }
    const stages = await openStages(startThreads(options), options)
    const { replayed } = stages.log.summary
    const flushed = await stages.pools.stop(OFFLINE_FLUSH_MS_MAX)
    stages.metrics.stop()
    if (!flushed)
      throw new CannotRun(
        `the requests in ${paths.log} could not be flushed within ${OFFLINE_FLUSH_MS_MAX / 1000} s; the log still has them: run the command again`,
      )
    note(`replayed ${replayed} requests from the log and flushed them`)
    return replayed
  } finally {
    await closeAll(closers)
  }
}

function offlineOf(folder: Folder, opened: CatalogAndIndex, replayed: number) {
  const { paths, lock } = folder
  const { catalog, index } = opened
  const manifest = new Manifest({
    pools: index.opened.pools.filter(state => catalog.poolByNumber(state.pool) !== undefined),
    lastCommit: index.opened.lastCommit,
    readDeletionVectors: pool => index.index.readDeletionVectors(pool),
    folderOf: pool => poolFolder(paths, must(catalog.poolByNumber(pool), `pool ${pool}`).id),
    onUnpinned: () => assert(false, 'a command replaces no segments'),
  })
  let engine: Promise<SegmentEngine> | undefined
  return {
    paths,
    catalog,
    index,
    /** Requests that were replayed from the log and flushed. */
    replayed,
    /** Pins the flushed rows of a pool. */
    snapshot: (pool: number) => manifest.snapshot(pool),
    /**
     * The query engine, opened at the first call. It writes copies to data/tmp, and to the absolute
     * folder `outputFolder` where one is given.
     */
    engine: (outputFolder?: string): Promise<SegmentEngine> => {
      engine ??= openEngine(folder, outputFolder)
      return engine
    },
    close: async () => {
      if (engine !== undefined) await (await engine).stop()
      await closeAll(opened.closers)
      disk.close(must(lock, 'the lock of a data folder'))
    },
  }
}

async function openEngine(
  { paths, config, kernel }: Folder,
  outputFolder: string | undefined,
): Promise<SegmentEngine> {
  const { openQueryEngine } = await import('../query/duckdb/engine-client.ts')
  for (const folder of [paths.segment, paths.temporary]) disk.mkdir(folder)
  // A command has no other work that a check could hold up, so it needs no thread for it.
  const checks = new SegmentChecks(file => checkFile(file, () => nextTurn()))
  return await openQueryEngine({
    segmentFolder: paths.segment,
    temporaryFolder: paths.temporary,
    outputFolder,
    kernel,
    threads: availableParallelism(),
    crashAt: config.crashAt,
    ensureWhole: checks.ensureWhole,
  })
}
