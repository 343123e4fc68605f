/**
 * Opens `data/index`. A valid index opens as it is. A damaged one is set aside, any other invalid
 * one is emptied, and both are rebuilt from the segments.
 *
 *   W-5  Files of segments are removed only where the index was whole.
 *   W-6  An index is rebuilt where it is missing, empty, damaged, of another folder or format, half
 *        rebuilt, or older than its segments (uncommitted-files.ts).
 */

import { dirname, join } from 'node:path'
import { syncFile, syncFolder } from '../util/disk.ts'
import { AssertionFailed, CannotRun, Damaged, must } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { findLmdbDamage } from '../util/lmdb-file.ts'
import type { KernelChoice } from '../util/native.ts'
import { damagedIndexFile, LMDB_FILES, numberOfDamagedIndex } from '../util/paths.ts'
import { INDEX_FORMAT } from './index-entry.ts'
import type { KeyStore } from './index-store.ts'
import { openLmdbStore } from './index-store-lmdb.ts'
import { tryOpenNativeStore } from './index-store-native.ts'
import { type IndexNotes, NEW_INDEX, type PoolState } from './index-types.ts'
import { Index, readIdentity, readPools } from './key-index.ts'
import type { RebuildOptions, Rebuilt } from './rebuild-index.ts'
import { clearUncommitted } from './sweep-orphans.ts'
import {
  comparePoolFolders,
  decideOnUncommitted,
  type FolderNames,
  type PoolFolder,
} from './uncommitted-files.ts'

/** LMDB map of the index: address space, not memory. Set large up front. */
export const INDEX_MAP_BYTES = 64 * 1024 * MiB

interface OpenOptions extends Omit<RebuildOptions, 'index'> {
  readonly folder: string
  readonly identity: string
}

/** An open index, and the findings of opening it. */
export interface Opened extends IndexNotes {
  readonly index: Index
  readonly keyLoop: KernelChoice
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  /** The folders below data/segment at this moment, for the sweep. */
  readonly folders: readonly string[]
}

/** The state that is read before the owner of the folder is known. */
export interface Early {
  readonly folders: readonly string[]
  /** The names in each folder of segments. */
  readonly files: ReadonlyMap<string, readonly string[]>
  readonly store: KeyStore
  /** The pools of the index; undefined where it is not whole. */
  readonly pools: readonly PoolState[] | undefined
}

type FolderOptions = Pick<OpenOptions, 'disk' | 'folder' | 'segmentFolder' | 'kernel'>

/**
 * Opens the store of an index that is there, and reads. Changes nothing. Returns undefined where
 * that fails: `openIndexFolder` then reads again and reports the reason.
 */
export function tryReadEarly(options: FolderOptions): Early | undefined {
  const { disk, segmentFolder } = options
  let store: KeyStore | undefined
  try {
    const folders = listFolders(options)
    const files = new Map(
      folders
        .filter(name => disk.kind(join(segmentFolder, name)) === 'folder')
        .map(name => [name, disk.readdir(join(segmentFolder, name))]),
    )
    store = openStore(options)
    const known = readIdentity(store)
    const isWhole = known?.format === INDEX_FORMAT && known.complete
    return { folders, files, store, pools: isWhole ? store.transact(readPools) : undefined }
  } catch {
    store?.close()
    return undefined
  }
}

/** The names below data/segment. */
function listFolders({ disk, segmentFolder }: FolderOptions): readonly string[] {
  return disk.exists(segmentFolder) ? disk.readdir(segmentFolder) : []
}

/** Opens the index and rebuilds it where needed. Throws Damaged (a segment) or CannotRun. */
export async function openIndexFolder(options: OpenOptions, early?: Early): Promise<Opened> {
  const { disk } = options
  const folders = early?.folders ?? listFolders(options)
  const whole = openWhole(options, early)
  if (typeof whole === 'string') return { ...(await openRebuilt(options, whole)), folders }
  const poolFolders = listPoolFolders(options, folders, early?.files, whole.pools)
  const decision = await decideOnUncommitted({ ...options, poolFolders })
  if (typeof decision === 'object') {
    whole.index.close()
    empty(options)
    return { ...(await openRebuilt(options, decision.rebuild)), folders }
  }
  const cleared = decision === 'keep' ? [] : clearUncommitted(disk, poolFolders)
  return { ...whole, folders, cleared, rebuiltBecause: undefined, unknownFolders: [], possibleLosses: [] }
}

type Whole = Pick<Opened, 'index' | 'keyLoop' | 'pools' | 'lastCommit'>

/**
 * The whole index, or the reason to rebuild it. An index with a reason is emptied, or set aside
 * where it is damaged.
 */
function openWhole(options: OpenOptions, early: Early | undefined): Whole | string {
  let store = early?.store
  try {
    store ??= openStore(options)
    const reason = reasonToRebuild(store, options.folder, options.identity)
    if (reason === undefined) {
      const pools = early?.pools ?? store.transact(readPools)
      const index = new Index(store, options.identity)
      const { commit } = must(readIdentity(store), 'the identity of a whole index')
      return { index, keyLoop: store.keyLoop, pools, lastCommit: commit }
    }
    store.close()
    empty(options)
    return reason
  } catch (error) {
    store?.close()
    if (error instanceof AssertionFailed) throw error
    const failure = failedToOpen(options.folder, error)
    if (!(failure instanceof Damaged)) throw failure
    return `${failure.message}; ${setAside(options)}`
  }
}

/** The folders of the pools that the catalog knows, as far as they exist. */
function listPoolFolders(
  { disk, segmentFolder, pools }: OpenOptions,
  folders: readonly string[],
  files: Early['files'] | undefined,
  opened: readonly PoolState[],
): PoolFolder[] {
  const there = new Set(folders)
  const found: FolderNames[] = []
  for (const { pool, poolId } of pools) {
    if (!there.has(poolId)) continue
    const folder = join(segmentFolder, poolId)
    found.push({ pool, folder, names: files?.get(poolId) ?? disk.readdir(folder) })
  }
  return comparePoolFolders(found, opened)
}

async function openRebuilt(options: OpenOptions, rebuiltBecause: string): Promise<Omit<Opened, 'folders'>> {
  const store = openStore(options)
  const index = new Index(store, options.identity)
  try {
    const { unknownFolders, possibleLosses } = await rebuilt({ ...options, index })
    const { keyLoop } = store
    return { index, keyLoop, ...index.state(), rebuiltBecause, unknownFolders, possibleLosses, cleared: [] }
  } catch (error) {
    index.close()
    throw error
  }
}

function openStore({ disk, folder, kernel }: FolderOptions): KeyStore {
  disk.mkdir(folder)
  const fault = findLmdbDamage(folder, disk)
  if (fault !== undefined)
    throw new Damaged(fault.path, fault.kind === 'foreign' ? 0 : fault.bytes, fault.what)
  try {
    const store = openKeyStore(kernel, folder)
    // The state that is read now may not be on disk yet: a kill or a failed write may have come
    // before the sync of the last commit. Files are removed by that state from here on, so a power
    // cut must not bring back the state before.
    syncFile(disk, join(folder, LMDB_FILES.data))
    syncFolder(disk, folder) // LMDB syncs its files, not their names
    syncFolder(disk, dirname(folder))
    return store
  } catch (error) {
    throw failedToOpen(folder, error)
  }
}

/**
 * Turns an error of opening or reading into Damaged where the file is broken or not an LMDB file,
 * else into CannotRun.
 */
export function failedToOpen(folder: string, error: unknown): Error {
  if (error instanceof Damaged || error instanceof CannotRun) return error
  const { message } = error instanceof Error ? error : new Error(String(error))
  const isBroken = /MDB_(INVALID|CORRUPTED|PAGE_NOTFOUND|VERSION_MISMATCH)/.test(message)
  // An entry that is not JSON, or too short for its content.
  const isUnreadable = error instanceof SyntaxError || error instanceof RangeError
  if (isBroken || isUnreadable) return new Damaged(join(folder, LMDB_FILES.data), 0, message)
  return new CannotRun(`${folder} cannot be opened: ${message}`)
}

/**
 * Opens the files with the native store, or with lmdb-js where that is not built. Throws LMDB's
 * error.
 */
export function openKeyStore(kernel: KernelChoice, folder: string): KeyStore {
  const options = { folder, mapBytes: INDEX_MAP_BYTES }
  return tryOpenNativeStore(options, kernel) ?? openLmdbStore(options)
}

/**
 * The reason for a start to empty and rebuild the index; undefined where it is whole and of this
 * folder. Throws Damaged or CannotRun.
 */
export function reasonToRebuild(store: KeyStore, folder: string, identity: string): string | undefined {
  try {
    const known = readIdentity(store)
    if (known === undefined) return NEW_INDEX
    if (known.format !== INDEX_FORMAT)
      return `its format is ${known.format}, this version writes ${INDEX_FORMAT}`
    if (known.identity !== identity) return 'it belongs to another data folder'
    return known.complete ? undefined : 'a rebuild was not finished'
  } catch (error) {
    throw failedToOpen(folder, error)
  }
}

/** Removes LMDB's own files alone: a folder may hold files of others. */
function empty({ disk, folder }: OpenOptions): void {
  for (const name of [LMDB_FILES.data, LMDB_FILES.lock]) {
    const file = join(folder, name)
    if (disk.exists(file)) disk.unlink(file)
  }
  syncFolder(disk, folder)
}

/**
 * Keeps the damaged file for inspection; of several, the last one. Returns what it did, in words.
 */
function setAside(options: OpenOptions): string {
  const { disk, folder } = options
  const before = disk.readdir(folder).filter(name => numberOfDamagedIndex(name) !== undefined)
  const name = damagedIndexFile(Math.max(0, ...before.map(one => numberOfDamagedIndex(one) ?? 0)) + 1)
  disk.rename(join(folder, LMDB_FILES.data), join(folder, name))
  for (const old of before) disk.unlink(join(folder, old))
  empty(options)
  return `it was set aside as ${join(folder, name)}${before.length > 0 ? ', and the one before it was removed' : ''}`
}

/**
 * Loads the rebuild only when it is needed: the Parquet reader would cost every start a quarter of
 * a second.
 */
async function rebuilt(options: RebuildOptions): Promise<Rebuilt> {
  const { rebuild } = await import('./rebuild-index.ts')
  return rebuild(options)
}
