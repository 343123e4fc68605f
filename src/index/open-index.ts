/**
 * Opens `data/index`. A valid index opens as it is. A damaged one is set aside, any other invalid
 * one is emptied, and both are rebuilt from the segments.
 *
 *   W-5  Files are removed only on an index that was whole.
 *   W-6  An index is rebuilt where it is missing, empty, damaged, of another folder or format, half
 *        rebuilt, or older than its segments (uncommitted-files.ts).
 */

import { dirname, join } from 'node:path'
import { AssertionFailed, must } from '../util/assert.ts'
import { type Disk, syncFile, syncFolder } from '../util/disk.ts'
import { CannotRun, Damaged } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { findLmdbDamage } from '../util/lmdb-file.ts'
import type { KernelChoice } from '../util/native.ts'
import { damagedIndexFile, LMDB_FILES, numberOfDamagedIndex } from '../util/paths.ts'
import { INDEX_FORMAT } from './index-entry.ts'
import type { KeyStore } from './index-store.ts'
import { openLmdbStore } from './index-store-lmdb.ts'
import { tryOpenNativeStore } from './index-store-native.ts'
import { type IndexNotes, NEW_INDEX, type PoolState } from './index-types.ts'
import { createIndex, type Index, readIdentity, readPools } from './key-index.ts'
import type { LoggedSequences, RebuildOptions, RebuildPool, Rebuilt } from './rebuild-index.ts'
import { clearUncommitted } from './sweep-orphans.ts'
import {
  comparePoolFolders,
  decideOnUncommitted,
  type FolderNames,
  type PoolFolder,
} from './uncommitted-files.ts'

/** LMDB map of the index: address space, not memory. Set large up front. */
export const INDEX_MAP_BYTES = 64 * 1024 * MiB

interface OpenOptions {
  readonly disk: Disk
  readonly folder: string
  readonly segmentFolder: string
  readonly identity: string
  readonly pools: readonly RebuildPool[]
  readonly kernel: KernelChoice
  readonly loggedSequences: LoggedSequences
  /** See RebuildOptions. */
  readonly onProgress: (done: number, of: number, pool: number) => void
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

/**
 * The state that can be read before the owner of the folder is known. Reading it changes nothing
 * where the index is there.
 */
export interface Early {
  /** Names below data/segment. */
  readonly listed: Tried<readonly string[]>
  /** The names in each of them that is a folder. */
  readonly files: ReadonlyMap<string, readonly string[]>
  /** The open store, or the error of opening it. */
  readonly store: Tried<KeyStore>
  /** The pools of the index, where it is whole. */
  readonly pools: Tried<readonly PoolState[]> | undefined
}

type Tried<T> = { readonly got: T } | { readonly failed: unknown }

/**
 * Opens the store, creating it where it is missing, and reads. An error is thrown by whoever needs
 * the result.
 */
export function readEarly(options: Pick<OpenOptions, 'disk' | 'folder' | 'segmentFolder' | 'kernel'>): Early {
  const { disk, segmentFolder } = options
  const listed = tried(() => (disk.exists(segmentFolder) ? disk.readdir(segmentFolder) : []))
  const folders = 'got' in listed ? listed.got : []
  const files = new Map<string, readonly string[]>()
  for (const name of folders) {
    const read = tried(() => disk.readdir(join(segmentFolder, name)))
    if ('got' in read) files.set(name, read.got)
  }
  const store = tried(() => openStore(options))
  return { listed, files, store, pools: 'got' in store ? poolsOf(store.got) : undefined }
}

function poolsOf(store: KeyStore): Tried<readonly PoolState[]> | undefined {
  const known = tried(() => readIdentity(store))
  const isOurs = 'got' in known && known.got?.format === INDEX_FORMAT && known.got.complete
  return isOurs ? tried(() => store.transact(readPools)) : undefined
}

function tried<T>(work: () => T): Tried<T> {
  try {
    return { got: work() }
  } catch (failed) {
    return { failed }
  }
}

function resultOf<T>(one: Tried<T>): T {
  if ('failed' in one) throw one.failed
  return one.got
}

/** Opens the index and rebuilds it where needed. Throws Damaged (a segment) or CannotRun. */
export async function openIndexFolder(options: OpenOptions, early = readEarly(options)): Promise<Opened> {
  const { disk } = options
  const folders = resultOf(early.listed)
  const whole = openWhole(options, early)
  if (typeof whole === 'string') return { ...(await openRebuilt(options, whole)), folders }
  const poolFolders = listPoolFolders(options, early, whole.pools)
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
function openWhole(options: OpenOptions, early: Early): Whole | string {
  let store: KeyStore | undefined
  try {
    store = resultOf(early.store)
    const reason = reasonToRebuild(store, options.folder, options.identity)
    if (reason === undefined) {
      const pools = resultOf(must(early.pools, 'the pools of a whole index'))
      const index = createIndex(store, options.identity)
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
  { listed, files }: Early,
  opened: readonly PoolState[],
): PoolFolder[] {
  const there = new Set(resultOf(listed))
  const found: FolderNames[] = []
  for (const { pool, poolId } of pools) {
    if (!there.has(poolId)) continue
    const folder = join(segmentFolder, poolId)
    found.push({ pool, folder, names: files.get(poolId) ?? disk.readdir(folder) })
  }
  return comparePoolFolders(found, opened)
}

async function openRebuilt(options: OpenOptions, rebuiltBecause: string): Promise<Omit<Opened, 'folders'>> {
  const store = openStore(options)
  const index = createIndex(store, options.identity)
  try {
    const { unknownFolders, possibleLosses } = await rebuilt({ ...options, index })
    const { keyLoop } = store
    return { index, keyLoop, ...index.state(), rebuiltBecause, unknownFolders, possibleLosses, cleared: [] }
  } catch (error) {
    index.close()
    throw error
  }
}

function openStore({ disk, folder, kernel }: Pick<OpenOptions, 'disk' | 'folder' | 'kernel'>): KeyStore {
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
