/**
 * The sweep: removes files below data/segment that nothing names. Runs after ready, on the index thread.
 *
 *   W-5  Only files that no transaction names go, and never on an index that is new or was rebuilt in this run.
 *   W-8  A named file that is missing is reported; queries that need it answer SEGMENT_DAMAGED.
 */
import { join } from 'node:path'
import { deleteFile, numberOfFile, segmentFile } from '../paths.ts'
import { assert } from '../util/assert.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
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
  /** Pools in whose folders files of earlier runs stay that nothing names. */
  readonly stale: readonly number[]
}

/**
 * Removes temporary files, orphans and folders of deleted pools. Files that seals of this run wrote stay, named
 * or not: they are numbered from the opened `nextSegment` on. What a seal of this run replaced was named at
 * opening, so it stays too; the manifest gives it up when no query needs it.
 */
export function sweep(options: SweepOptions): Swept {
  const { disk, segmentFolder, opened, now, poolsByFolder, indexWasWhole } = options
  const removed: string[] = []
  const states = new Map(opened.map(state => [state.pool, state]))
  for (const name of indexWasWhole ? options.folders : []) {
    const folder = join(segmentFolder, name)
    if (!disk.exists(folder)) continue
    const pool = poolsByFolder.get(name)
    if (pool === undefined) removeFolder(disk, folder, removed)
    else removeOrphans(disk, folder, states.get(pool), removed)
  }
  if (removed.length > 0) syncFolder(disk, segmentFolder)
  return { removed, missing: missingOf(options, now), stale: staleOf(options, states) }
}

/** Files of this run, named or not, are numbered from the opened `nextSegment` on. */
function staleOf(options: SweepOptions, states: ReadonlyMap<number, PoolState>): number[] {
  const stale: number[] = []
  for (const name of options.folders) {
    const pool = options.poolsByFolder.get(name)
    const folder = join(options.segmentFolder, name)
    if (pool === undefined || !options.disk.exists(folder)) continue
    const state = states.get(pool)
    const named = new Set(state === undefined ? [] : filesOf(state))
    const isStale = (file: string) =>
      (numberOfFile(file) ?? Number.POSITIVE_INFINITY) < (state?.nextSegment ?? 1)
    if (options.disk.readdir(folder).some(file => isStale(file) && !named.has(file))) stale.push(pool)
  }
  return stale
}

/**
 * Removes what seals wrote whose commit never came: files numbered from `nextSegment` on. Runs at opening, so
 * that no later seal, and no later rebuild, finds a stranger among its segments. One readdir per pool.
 */
export function clearUncommitted(
  disk: Disk,
  folderOfPool: ReadonlyMap<number, string>,
  opened: readonly PoolState[],
): string[] {
  const states = new Map(opened.map(state => [state.pool, state]))
  const removed: string[] = []
  for (const [pool, folder] of folderOfPool) {
    if (!disk.exists(folder)) continue
    const nextSegment = states.get(pool)?.nextSegment ?? 1
    const before = removed.length
    for (const name of disk.readdir(folder)) {
      const number = numberOfFile(name.replace(/\.tmp$/, ''))
      if (number === undefined || number < nextSegment) continue
      disk.unlink(join(folder, name))
      removed.push(join(folder, name))
    }
    if (removed.length > before) syncFolder(disk, folder)
  }
  return removed
}

function removeOrphans(disk: Disk, folder: string, state: PoolState | undefined, removed: string[]): void {
  const named = new Set(state === undefined ? [] : filesOf(state))
  const nextSegment = state?.nextSegment ?? 1
  const before = removed.length
  for (const name of disk.readdir(folder)) {
    const number = numberOfFile(name.replace(/\.tmp$/, ''))
    if (named.has(name) || (number !== undefined && number >= nextSegment)) continue
    disk.unlink(join(folder, name))
    removed.push(join(folder, name))
  }
  if (removed.length > before) syncFolder(disk, folder)
}

function removeFolder(disk: Disk, folder: string, removed: string[]): void {
  for (const name of disk.readdir(folder)) {
    disk.unlink(join(folder, name))
    removed.push(join(folder, name))
  }
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

/** Names of the files that a pool's segments have. */
export function filesOf(state: PoolState): string[] {
  const names: string[] = []
  for (const { segment, rows, deletes } of state.segments) {
    assert(rows > 0 || deletes > 0, 'a segment has rows or deletes')
    if (rows > 0) names.push(segmentFile(segment))
    if (deletes > 0) names.push(deleteFile(segment))
  }
  return names
}
