/**
 * Decides on files of a pool that no commit of the index names. Either a crash came before their
 * commit, or the index is older than its segments because it was restored from somewhere. Files of
 * the first kind are cleared: the log makes the flush again (W-13), and a merge's inputs are still
 * there. Clearing files of the second kind would lose data silently, so such an index is rebuilt
 * (W-6).
 *
 * The index is older where an unnamed file covers a segment that the index names and that is gone,
 * or holds a request above the pool's flushed sequence that the log does not have. Files are read
 * only where some are numbered from the next segment number on. Where a named file is missing, all
 * unnamed files are read: a merge takes its number when it begins, and flushes that commit
 * meanwhile have higher ones.
 */

import { join } from 'node:path'
import { readDeleteFile } from '../format/delete-file.ts'
import { covers, type Footer, fileNamesOf, readFooter } from '../format/segment-meta.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { deleteFile, numberOfFile } from '../util/paths.ts'
import { footerOfDeletes } from './folder-segments.ts'
import { emptyPool, type PoolState } from './index-types.ts'
import type { LoggedSequences } from './rebuild-index.ts'

interface UncommittedOptions {
  readonly disk: Disk
  readonly loggedSequences: LoggedSequences
  /** The folder of each pool that the catalog knows. */
  readonly poolFolders: readonly PoolFolder[]
}

/**
 * `clear`: the files are removed. `keep`: the log is damaged, so nobody knows. Else the reason to
 * rebuild the index.
 */
type Decision = 'clear' | 'keep' | { readonly rebuild: string }

/** The requests of a file above the pool's flushed sequence. */
interface Unflushed {
  readonly pool: number
  readonly file: string
  readonly sequences: readonly number[]
}

/** Decides on files that no commit names. Reads files only where there are such. */
export async function decideOnUncommitted(options: UncommittedOptions): Promise<Decision> {
  const { poolFolders, loggedSequences } = options
  const unflushed: Unflushed[] = []
  for (const { state, folder, unnamed, missing } of poolFolders) {
    for (const name of numberedFrom(unnamed, missing.length > 0 ? 1 : state.nextSegment)) {
      const file = join(folder, name)
      const found = await readUncommitted(options, file, name)
      const gone = missing.find(one => isCopyOf(found, state, numberOfFile(one) ?? 0))
      if (gone !== undefined)
        return { rebuild: `it is older than its segments: ${file} replaces ${gone}, which is missing` }
      const above = new Set(found.sequences.filter(sequence => sequence > state.flushedSequence))
      if (above.size > 0) unflushed.push({ pool: state.pool, file, sequences: [...above] })
    }
  }
  if (unflushed.length === 0) return 'clear'
  const logged = loggedSequences(new Set(unflushed.map(({ pool }) => pool)))
  if (logged === undefined) return 'keep'
  for (const { pool, file, sequences } of unflushed) {
    const lost = sequences.find(sequence => logged.get(pool)?.has(sequence) !== true)
    if (lost !== undefined)
      return { rebuild: `it is older than its segments: ${file} holds request ${lost}, the log does not` }
  }
  return 'clear'
}

/** The files of segments numbered from `from` on. */
function numberedFrom(unnamed: readonly string[], from: number): string[] {
  return unnamed.filter(name => (numberOfFile(name) ?? 0) >= from)
}

interface Uncommitted {
  readonly sequences: ArrayLike<number> & { filter(keep: (sequence: number) => boolean): Iterable<number> }
  /** undefined where the file cannot be read. */
  readonly footer: Footer | undefined
}

/** True where the file covers that segment of the pool. */
function isCopyOf({ footer }: Uncommitted, { segments }: PoolState, segment: number): boolean {
  const meta = segments.find(one => one.segment === segment)
  return footer !== undefined && meta !== undefined && covers(footer, meta)
}

/** A file that cannot be read proves nothing: a rebuild could not read it either. */
async function readUncommitted(
  options: UncommittedOptions,
  file: string,
  name: string,
): Promise<Uncommitted> {
  try {
    return await readFileOf(options, file, name)
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    return { footer: undefined, sequences: new Float64Array(0) }
  }
}

/**
 * Reads the sequences of a file. Loads the reader of Parquet columns only when it is needed: it
 * would cost every start a quarter of a second.
 */
async function readFileOf({ disk }: UncommittedOptions, file: string, name: string): Promise<Uncommitted> {
  if (name === deleteFile(numberOfFile(name) ?? 0)) {
    const footer = footerOfDeletes(readDeleteFile(readFile(disk, file), file))
    return { footer, sequences: Float64Array.from(footer.sequences) }
  }
  const { readSequences } = await import('../format/segment-keys.ts')
  return { footer: readFooter(disk, file), sequences: await readSequences(file) }
}

/**
 * A pool's existing folder beside the index. It is read once when the index is opened. Nothing else
 * writes there until then.
 */
export interface PoolFolder {
  /** The state of the pool; that of an empty pool where the index does not know it. */
  readonly state: PoolState
  /** Absolute. */
  readonly folder: string
  /** The names in it that the index does not name. */
  readonly unnamed: readonly string[]
  /** The names of the index that are not in it. */
  readonly missing: readonly string[]
}

/** The content of the folder of a pool that the catalog knows. */
export interface FolderNames {
  readonly pool: number
  /** Absolute. */
  readonly folder: string
  readonly names: readonly string[]
}

/** Compares each folder with the files that the index names in it. */
export function comparePoolFolders(
  folders: readonly FolderNames[],
  opened: readonly PoolState[],
): PoolFolder[] {
  const states = new Map(opened.map(state => [state.pool, state]))
  return folders.map(({ pool, folder, names }) => {
    const state = states.get(pool) ?? emptyPool(pool)
    const named = state.segments.flatMap(fileNamesOf)
    const known = new Set(named)
    const unnamed = names.filter(name => !known.has(name))
    const isWhole = names.length - unnamed.length === named.length
    return { state, folder, unnamed, missing: isWhole ? [] : missingOf(named, names) }
  })
}

function missingOf(named: readonly string[], names: readonly string[]): string[] {
  const there = new Set(names)
  return named.filter(name => !there.has(name))
}
