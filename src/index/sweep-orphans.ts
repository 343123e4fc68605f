/**
 * The sweep removes files below data/segment that no transaction names. It runs after ready, on the
 * index thread.
 *
 *   W-5  Only files that no transaction names go. None goes on an index that is new or was rebuilt
 *        in this run, nor in a pool of which a file is missing.
 *   W-6  A power cut may come after any removal, and it undoes any removals that are not synced. A
 *        rebuild reads the files that are left, so the removal goes in steps, each durable before
 *        the next one begins:
 *        - Delete files go last. One without its Parquet file counts for nothing; a Parquet file
 *          without its delete file is damage.
 *        - Of obsolete segments (`obsoleteSteps`), one that covers others goes after those, and
 *          deletes go after all older rows: otherwise their rows are back. A segment that a live
 *          one covers may go at any time.
 *        - Of uncommitted flushes (`uncommittedSteps`, and files above the flushed sequence) the
 *          newest goes first: a rebuild takes the last segment for the end of all flushed rows, and
 *          the log's requests below it for flushed.
 *   W-8  A named file that is missing is reported. Queries that need it answer SEGMENT_DAMAGED.
 */

import { dirname, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { readDeleteFile } from '../format/delete-file.ts'
import { type Footer, fileNamesOf, readFooter } from '../format/segment-meta.ts'
import { type Disk, readFile, syncFolder } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, numberOfFile, segmentFile } from '../util/paths.ts'
import { footerOfDeletes, isCovered } from './folder-segments.ts'
import type { PoolState } from './index-types.ts'
import type { PoolFolder } from './uncommitted-files.ts'

/** Footers of orphans that the sweep reads in one turn of the index thread: about 5 ms. */
const SWEEP_FOOTERS_PER_TURN = 32

export interface SweepOptions {
  readonly disk: Disk
  /** Called before each step. It throws to end the sweep; earlier removals are durable then. */
  readonly mayGoOn: () => void
  readonly segmentFolder: string
  /**
   * The state of the index when it was opened. Later files belong to this run, and the sweep leaves
   * them alone.
   */
  readonly opened: readonly PoolState[]
  readonly now: readonly PoolState[]
  /** Folders that existed below `segmentFolder` when the index was opened. */
  readonly folders: readonly string[]
  /** Pool number by folder name. A folder without a number belongs to a deleted pool. */
  readonly poolsByFolder: ReadonlyMap<string, number>
  /** True where the index was whole when this process opened it. */
  readonly indexWasWhole: boolean
}

export interface Swept {
  /** Files and folders that were removed. */
  readonly removed: readonly string[]
  /** Files that the index names and that are missing. */
  readonly missing: readonly string[]
  /**
   * Unnamed files that stay because others of their pool are missing: they may be all that is left
   * of those.
   */
  readonly keptOrphans: readonly string[]
  /**
   * Pools of a rebuilt index whose folders hold segments that nothing names: the rebuild used
   * others instead.
   */
  readonly poolsWithOrphans: readonly number[]
}

/**
 * Removes temporary files, orphans and folders of deleted pools. Files that flushes of this run
 * wrote stay, named or not: they are numbered from the opened `nextSegment` on. Files that a flush
 * of this run replaced were named at opening, so they stay too: the manifest removes them when no
 * query needs them. Other work of the thread may run between two steps.
 * @throws what `mayGoOn` throws
 */
export async function sweep(options: SweepOptions): Promise<Swept> {
  const { disk, segmentFolder, opened, now, poolsByFolder, indexWasWhole, mayGoOn } = options
  const missing = missingOf(options, now)
  const incomplete = new Set(missing.map(file => dirname(file)))
  const removed: string[] = []
  const keptOrphans: string[] = []
  const states = new Map(opened.map(state => [state.pool, state]))
  for (const name of indexWasWhole ? options.folders : []) {
    mayGoOn()
    const folder = join(segmentFolder, name)
    if (!disk.exists(folder)) continue
    const pool = poolsByFolder.get(name)
    if (pool === undefined) removeFolder(disk, folder, removed)
    else {
      const orphans = orphansOf(disk, folder, states.get(pool))
      if (incomplete.has(folder)) keptOrphans.push(...orphans.map(one => join(folder, one)))
      else
        for (const step of await obsoleteSteps(options, folder, orphans, states.get(pool))) {
          mayGoOn()
          unlinkDurably(disk, folder, step, removed)
          await nextTurn()
        }
    }
    await nextTurn()
  }
  if (removed.length > 0) syncFolder(disk, segmentFolder)
  return {
    removed,
    missing,
    keptOrphans,
    poolsWithOrphans: indexWasWhole ? [] : poolsWithOrphansOf(options, states),
  }
}

function poolsWithOrphansOf(
  { disk, segmentFolder, folders, poolsByFolder }: SweepOptions,
  states: ReadonlyMap<number, PoolState>,
): number[] {
  const poolsWithOrphans: number[] = []
  for (const name of folders) {
    const pool = poolsByFolder.get(name)
    const folder = join(segmentFolder, name)
    if (pool === undefined || !disk.exists(folder)) continue
    const orphans = orphansOf(disk, folder, states.get(pool))
    if (orphans.some(one => numberOfFile(one) !== undefined)) poolsWithOrphans.push(pool)
  }
  return poolsWithOrphans
}

/**
 * Removes the files of flushes and merges that never committed: those numbered from `nextSegment`
 * on. It runs at opening, so that no later flush and no later rebuild finds an orphan among its
 * segments.
 */
export function clearUncommitted(disk: Disk, poolFolders: readonly PoolFolder[]): string[] {
  const removed: string[] = []
  for (const { state, folder, unnamed } of poolFolders) {
    const names = unnamed.filter(name => (numberOf(name) ?? 0) >= state.nextSegment)
    for (const step of uncommittedSteps(names)) unlinkDurably(disk, folder, step, removed)
  }
  return removed
}

/** The segment number of this file, or of the file that a temporary one was to become. */
function numberOf(name: string): number | undefined {
  return numberOfFile(name.replace(/\.tmp$/, ''))
}

function orphansOf(disk: Disk, folder: string, state: PoolState | undefined): string[] {
  const named = new Set(state?.segments.flatMap(fileNamesOf))
  const nextSegment = state?.nextSegment ?? 1
  return disk.readdir(folder).filter(name => !named.has(name) && (numberOf(name) ?? 0) < nextSegment)
}

/** Removes the files durably, together with all earlier removals in the folder. */
function unlinkDurably(disk: Disk, folder: string, names: readonly string[], removed: string[]): void {
  for (const name of names) {
    disk.unlink(join(folder, name))
    removed.push(join(folder, name))
  }
  syncFolder(disk, folder)
}

/**
 * Removes the folder of a deleted pool. No rebuild reads it, so its only order is delete files
 * last.
 */
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

function missingOf(options: SweepOptions, now: readonly PoolState[]): string[] {
  const folders = new Map([...options.poolsByFolder].map(([name, pool]) => [pool, name]))
  const missing: string[] = []
  for (const state of now) {
    const folder = folders.get(state.pool)
    if (folder === undefined) continue // a deleted pool that is being dropped
    for (const name of state.segments.flatMap(fileNamesOf)) {
      const file = join(options.segmentFolder, folder, name)
      if (!options.disk.exists(file)) missing.push(file)
    }
  }
  return missing
}

/** Names of files that are removed together: they are synced before the next step begins. */
type Steps = readonly (readonly string[])[]

/** The file of a segment that counts in a rebuild. The other one is removed after all of these. */
function mainOf(segment: number, names: ReadonlySet<string>): string {
  const parquet = segmentFile(segment)
  return names.has(parquet) ? parquet : deleteFile(segment)
}

/**
 * Puts `mains` between files that count for nothing in a rebuild: other names before them, delete
 * files after them.
 */
function around(names: ReadonlySet<string>, mains: Steps): Steps {
  const inside = new Set(mains.flat())
  const others = [...names].filter(name => !inside.has(name))
  const isDeletes = (name: string) => numberOfFile(name) !== undefined
  const first = others.filter(name => !isDeletes(name))
  // A step that removes nothing is a sync: an earlier run may have removed a Parquet file whose
  // delete file is alone now.
  const needsSync =
    first.length > 0 || mains.flat().some(name => name === deleteFile(numberOfFile(name) ?? 0))
  const last = others.filter(isDeletes)
  return [...(needsSync ? [first] : []), ...mains, ...(last.length > 0 ? [last] : [])]
}

function segmentsOf(names: ReadonlySet<string>): number[] {
  return [...new Set([...names].map(numberOfFile).filter(number => number !== undefined))]
}

/** The steps for files in a pool's folder whose commit never came. */
function uncommittedSteps(found: readonly string[]): Steps {
  const names = new Set(found)
  const newestFirst = segmentsOf(names).sort((a, b) => b - a)
  return around(
    names,
    newestFirst.map(segment => [mainOf(segment, names)]),
  )
}

/**
 * The steps for files in a pool's folder that the index named once, or that a flush wrote whose
 * commit failed while a merge with a higher number committed. `state` is the certain state of the
 * index.
 */
async function obsoleteSteps(
  { disk, mayGoOn }: SweepOptions,
  folder: string,
  found: readonly string[],
  state: PoolState | undefined,
): Promise<Steps> {
  const names = new Set(found)
  const segments = segmentsOf(names)
  // One segment needs no order: an unreadable one counts for nothing, and a readable one has
  // nothing to wait for.
  if (segments.length < 2) return around(names, segments.length === 0 ? [] : [[mainOf(segments[0]!, names)]])
  const [free, last]: [string[], string[]] = [[], []]
  const [uncommitted, bound]: [Footer[], Footer[]] = [[], []]
  for (const [read, segment] of segments.entries()) {
    if (read % SWEEP_FOOTERS_PER_TURN === 0) {
      await nextTurn()
      mayGoOn()
    }
    const footer = tryRead(disk, folder, mainOf(segment, names))
    if (footer === undefined) last.push(mainOf(segment, names))
    else if (footer.sequenceTo > (state?.flushedSequence ?? 0)) uncommitted.push(footer)
    else if (isCovered(footer, state?.segments ?? [])) free.push(mainOf(segment, names))
    else bound.push(footer)
  }
  const newestFirst = uncommitted.sort((a, b) => b.sequenceTo - a.sequenceTo)
  const steps = [...newestFirst.map(one => [one]), ...inOrder(bound)]
  const mains = [free, ...steps.map(step => step.map(one => mainOf(one.segment, names))), last]
  return around(
    names,
    mains.filter(step => step.length > 0),
  )
}

/**
 * The steps by rising sequence. A segment shares the step of the one before it, unless it has
 * deletes or covers a segment of that step.
 */
function inOrder(segments: readonly Footer[]): Footer[][] {
  const steps: Footer[][] = []
  const sorted = [...segments].sort((a, b) => a.sequenceTo - b.sequenceTo || a.segment - b.segment)
  for (const one of sorted) {
    const step = steps.at(-1)
    const mustWait = one.deletes > 0 || step?.some(other => other.sequenceFrom >= one.sequenceFrom) !== false
    if (mustWait) steps.push([one])
    else step?.push(one)
  }
  return steps
}

/** The footer of a file; undefined where a rebuild could not read it either. */
function tryRead(disk: Disk, folder: string, name: string): Footer | undefined {
  const file = join(folder, name)
  try {
    if (name === segmentFile(numberOfFile(name) ?? 0)) return readFooter(disk, file)
    return footerOfDeletes(readDeleteFile(readFile(disk, file), file))
  } catch (error) {
    if (error instanceof Damaged) return undefined
    throw error
  }
}
