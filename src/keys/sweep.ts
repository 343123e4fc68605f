/**
 * The sweep: removes files below data/segment that nothing names. Runs after ready, on the index thread.
 *
 *   W-5  Only files that no transaction names go, and never on an index that is new or was rebuilt in this run, nor in a pool
 *        of which a file is missing.
 *   W-6  Delete files go last: one that is alone stands for nothing, a Parquet file without its own is damage.
 *   W-8  A named file that is missing is reported; queries that need it answer SEGMENT_DAMAGED.
 */
import { dirname, join } from 'node:path'
import { deleteFile, numberOfFile } from '../paths.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { filesOf, type PoolFolder } from './pool-folder.ts'
import type { PoolState } from './protocol.ts'

export interface SweepOptions {
  readonly disk: Disk
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
 * opening, so it stays too; the manifest gives it up when no query needs it.
 */
export function sweep(options: SweepOptions): Swept {
  const { disk, segmentFolder, opened, now, poolsByFolder, indexWasWhole } = options
  const missing = missingOf(options, now)
  const incomplete = new Set(missing.map(file => dirname(file)))
  const removed: string[] = []
  const kept: string[] = []
  const states = new Map(opened.map(state => [state.pool, state]))
  for (const name of indexWasWhole ? options.folders : []) {
    const folder = join(segmentFolder, name)
    if (!disk.exists(folder)) continue
    const pool = poolsByFolder.get(name)
    if (pool === undefined) removeFolder(disk, folder, removed)
    else {
      const orphans = orphansOf(disk, folder, states.get(pool))
      if (incomplete.has(folder)) kept.push(...orphans.map(one => join(folder, one)))
      else unlinkAll(disk, folder, orphans, removed)
    }
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
    unlinkAll(disk, folder, names, removed)
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
  const orphans = disk.readdir(folder).filter(name => !named.has(name) && (numberOf(name) ?? 0) < nextSegment)
  return orphans.sort() // a file stands for lower numbers only: those go first (keys/given-up.ts)
}

/** Synced when it returns. */
function unlinkAll(disk: Disk, folder: string, names: readonly string[], removed: string[]): void {
  if (names.length === 0) return
  const isDeletes = (name: string) => name === deleteFile(numberOfFile(name) ?? 0)
  const unlink = (part: readonly string[]) => {
    for (const name of part) {
      disk.unlink(join(folder, name))
      removed.push(join(folder, name))
    }
    syncFolder(disk, folder)
  }
  unlink(names.filter(name => !isDeletes(name))) // without any too: an earlier life may have removed one and not synced
  const deletes = names.filter(isDeletes)
  if (deletes.length > 0) unlink(deletes)
}

function removeFolder(disk: Disk, folder: string, removed: string[]): void {
  unlinkAll(disk, folder, disk.readdir(folder), removed)
  disk.rmdir(folder)
  removed.push(folder)
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
