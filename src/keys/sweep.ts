/**
 * The sweep: removes files below data/segment that nothing names. Runs after ready, on the index thread.
 *
 *   W-5  Only files that no transaction names go, and never on an index that is new or was rebuilt in this run, nor in a pool
 *        of which a file is missing.
 *   W-6  They go in steps (orphan-order.ts): whenever the power goes, what is left says nothing that is not so.
 *   W-8  A named file that is missing is reported; queries that need it answer SEGMENT_DAMAGED.
 */
import { dirname, join } from 'node:path'
import { deleteFile, numberOfFile } from '../paths.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { givenUpSteps, type OrphanReader, uncommittedSteps } from './orphan-order.ts'
import { filesOf, type PoolFolder } from './pool-folder.ts'
import type { PoolState } from './protocol.ts'

export interface SweepOptions extends OrphanReader {
  readonly segmentFolder: string
  /** What the index named when it was opened. Later files are this run's, and none of our business. */
  readonly opened: readonly PoolState[]
  /** What it names now. */
  readonly now: readonly PoolState[]
  /** Folders that stood below `segmentFolder` when the index was opened. */
  readonly folders: readonly string[]
  /** Pool number of each folder's name. A folder that is not in here belongs to a deleted pool. */
  readonly poolsByFolder: ReadonlyMap<string, number>
  /** Was the index whole when this process opened it? */
  readonly indexWasWhole: boolean
  /** Called before each step; throws where the sweep is to end. What it has removed by then is gone for good. */
  readonly mayGoOn: () => void
}

export interface Swept {
  /** Files and folders that were removed. */
  readonly removed: readonly string[]
  /** Files that the index names and that are not there. */
  readonly missing: readonly string[]
  /** Files that no segment names and that stay, since others of their pool are missing: they may be all that is left of those. */
  readonly kept: readonly string[]
  /** Pools of an index that was rebuilt, in whose folders segments stay that nothing names: the rebuild took others for the truth. */
  readonly stale: readonly number[]
}

/**
 * Removes temporary files, orphans and folders of deleted pools. Files that seals of this run wrote stay, named
 * or not: they are numbered from the opened `nextSegment` on. What a seal of this run replaced was named at
 * opening, so it stays too; the manifest gives it up when no query needs it. Other work of the thread may come between two steps.
 * @throws what `mayGoOn` throws
 */
export async function sweep(options: SweepOptions): Promise<Swept> {
  const { disk, segmentFolder, opened, now, poolsByFolder, indexWasWhole, mayGoOn } = options
  const missing = missingOf(options, now)
  const incomplete = new Set(missing.map(file => dirname(file)))
  const removed: string[] = []
  const kept: string[] = []
  const states = new Map(opened.map(state => [state.pool, state]))
  for (const name of indexWasWhole ? options.folders : []) {
    mayGoOn()
    const folder = join(segmentFolder, name)
    if (!disk.exists(folder)) continue
    const pool = poolsByFolder.get(name)
    if (pool === undefined) removeFolder(disk, folder, removed)
    else {
      const orphans = orphansOf(disk, folder, states.get(pool))
      if (incomplete.has(folder)) kept.push(...orphans.map(one => join(folder, one)))
      else
        for (const step of await givenUpSteps(options, folder, orphans, states.get(pool))) {
          mayGoOn()
          unlinkDurably(disk, folder, step, removed)
          await nextTurn()
        }
    }
    await nextTurn()
  }
  if (removed.length > 0) syncFolder(disk, segmentFolder)
  return { removed, missing, kept, stale: indexWasWhole ? [] : staleOf(options, states) }
}

function staleOf(
  { disk, segmentFolder, folders, poolsByFolder }: SweepOptions,
  states: ReadonlyMap<number, PoolState>,
): number[] {
  const stale: number[] = []
  for (const name of folders) {
    const pool = poolsByFolder.get(name)
    const folder = join(segmentFolder, name)
    if (pool === undefined || !disk.exists(folder)) continue
    const orphans = orphansOf(disk, folder, states.get(pool))
    if (orphans.some(one => numberOfFile(one) !== undefined)) stale.push(pool)
  }
  return stale
}

/**
 * Removes what seals wrote whose commit never came: files numbered from `nextSegment` on. Runs at opening, so
 * that no later seal, and no later rebuild, finds a stranger among its segments.
 */
export function clearUncommitted(disk: Disk, poolFolders: readonly PoolFolder[]): string[] {
  const removed: string[] = []
  for (const { state, folder, unnamed } of poolFolders) {
    const names = unnamed.filter(name => (numberOf(name) ?? 0) >= state.nextSegment)
    for (const step of uncommittedSteps(names)) unlinkDurably(disk, folder, step, removed)
  }
  return removed
}

/** Of this file, or of that which a temporary one was to become. */
function numberOf(name: string): number | undefined {
  return numberOfFile(name.replace(/\.tmp$/, ''))
}

function orphansOf(disk: Disk, folder: string, state: PoolState | undefined): string[] {
  const named = new Set(state === undefined ? [] : filesOf(state))
  const nextSegment = state?.nextSegment ?? 1
  return disk.readdir(folder).filter(name => !named.has(name) && (numberOf(name) ?? 0) < nextSegment)
}

/** They are gone for good when it returns, with all that was removed before. */
function unlinkDurably(disk: Disk, folder: string, names: readonly string[], removed: string[]): void {
  for (const name of names) {
    disk.unlink(join(folder, name))
    removed.push(join(folder, name))
  }
  syncFolder(disk, folder)
}

/** Of a deleted pool: no rebuild reads it, so delete files last is all the order there is. */
function removeFolder(disk: Disk, folder: string, removed: string[]): void {
  const names = disk.readdir(folder)
  const isDeletes = (name: string) => name === deleteFile(numberOfFile(name) ?? 0)
  unlinkDurably(
    disk,
    folder,
    names.filter(name => !isDeletes(name)),
    removed,
  )
  unlinkDurably(disk, folder, names.filter(isDeletes), removed)
  disk.rmdir(folder)
  removed.push(folder)
}

/** Lets calls that wait come in between. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(resolve)
  })
}

function missingOf(options: SweepOptions, now: readonly PoolState[]): string[] {
  const folders = new Map([...options.poolsByFolder].map(([name, pool]) => [pool, name]))
  const missing: string[] = []
  for (const state of now) {
    const folder = folders.get(state.pool)
    if (folder === undefined) continue // a deleted pool that is being dropped
    for (const name of filesOf(state)) {
      const file = join(options.segmentFolder, folder, name)
      if (!options.disk.exists(file)) missing.push(file)
    }
  }
  return missing
}
