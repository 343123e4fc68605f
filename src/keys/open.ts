/**
 * Opening of `data/index`: as it is where it is whole, else emptied, or set aside where it is damaged, and rebuilt from
 * the segments.
 *
 *   W-5  Nothing is removed but on an index that was whole.
 *   W-6  A missing, empty, damaged, foreign or half-rebuilt index is rebuilt, and one of another format or older than its
 *        segments (too-old.ts).
 */
import { dirname, join } from 'node:path'
import { CannotRun, Damaged } from '../errors.ts'
import { INDEX_MAP_BYTES } from '../limits.ts'
import { damagedIndexFile, LMDB_FILES, numberOfDamagedIndex } from '../paths.ts'
import { AssertionFailed, must } from '../util/assert.ts'
import { type Disk, syncFile, syncFolder } from '../util/disk.ts'
import { findLmdbFault } from '../util/lmdb-file.ts'
import type { ParseDeletes } from './folder-segments.ts'
import { createIndex, type Index, readIdentity, readPools } from './index.ts'
import { comparePoolFolders, type FolderNames, type PoolFolder } from './pool-folder.ts'
import type { PoolState } from './protocol.ts'
import type { HeldSequences, RebuildOptions, RebuildPool, Rebuilt } from './rebuild.ts'
import { INDEX_FORMAT } from './record.ts'
import type { KeyStore } from './store.ts'
import { openLmdbStore } from './store-lmdb.ts'
import { tryOpenNativeStore } from './store-native.ts'
import { clearUncommitted } from './sweep.ts'
import { NEW_INDEX } from './thread-protocol.ts'
import { judgeUncommitted } from './too-old.ts'

interface OpenOptions {
  readonly disk: Disk
  readonly folder: string
  readonly segmentFolder: string
  readonly identity: string
  readonly pools: readonly RebuildPool[]
  readonly kernel: 'native' | 'js'
  readonly parseDeletes: ParseDeletes
  readonly heldSequences: HeldSequences
  /** Of a rebuild: see RebuildOptions. */
  readonly onProgress: (done: number, of: number, pool: number) => void
}

/** An open index, and what was found. */
export interface Opened {
  readonly index: Index
  readonly keyLoop: 'native' | 'js'
  readonly pools: readonly PoolState[]
  readonly lastCommit: number
  /** undefined: the index was whole. */
  readonly rebuiltBecause: string | undefined
  readonly cleared: readonly string[]
  readonly unknownFolders: readonly string[]
  /** Rows that a rebuild did not find any more, in words. */
  readonly lost: readonly string[]
  /** Folders below data/segment at this moment, for the sweep. */
  readonly folders: readonly string[]
}

/** What can be read before anybody knows whose folder it is, and changes nothing where the index is there. */
export interface Early {
  /** Names below data/segment. */
  readonly listed: Tried<readonly string[]>
  /** Names in each of them that is a folder. */
  readonly files: ReadonlyMap<string, readonly string[]>
  /** The open store, or why it could not be opened. */
  readonly store: Tried<KeyStore>
  /** As the index has them, where it is whole. */
  readonly pools: Tried<readonly PoolState[]> | undefined
}

type Tried<T> = { readonly got: T } | { readonly failed: unknown }

/** Opens the store, made where it is missing, and reads. What fails is told by whoever needs it. */
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

function gotOf<T>(one: Tried<T>): T {
  if ('failed' in one) throw one.failed
  return one.got
}

/** Opens, rebuilding where needed. Throws Damaged (a segment) or CannotRun. */
export async function openIndexFolder(options: OpenOptions, early = readEarly(options)): Promise<Opened> {
  const { disk } = options
  const folders = gotOf(early.listed)
  const whole = openWhole(options, early)
  if (typeof whole === 'string') return { ...(await openRebuilt(options, whole)), folders }
  const poolFolders = lookIntoPools(options, early, whole.pools)
  const verdict = await judgeUncommitted({ ...options, poolFolders })
  if (typeof verdict === 'object') {
    whole.index.close()
    empty(options)
    return { ...(await openRebuilt(options, verdict.rebuild)), folders }
  }
  const cleared = verdict === 'keep' ? [] : clearUncommitted(disk, poolFolders)
  return { ...whole, folders, cleared, rebuiltBecause: undefined, unknownFolders: [], lost: [] }
}

type Whole = Pick<Opened, 'index' | 'keyLoop' | 'pools' | 'lastCommit'>

/** The index as it is, or why it must be rebuilt: it is emptied then, or set aside where it is damaged. */
function openWhole(options: OpenOptions, early: Early): Whole | string {
  let store: KeyStore | undefined
  try {
    store = gotOf(early.store)
    const reason = reasonToRebuild(store, options.folder, options.identity)
    if (reason === undefined) {
      const pools = gotOf(must(early.pools, 'the pools of a whole index'))
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

/** The folders of pools that the catalog knows, as far as they are there. */
function lookIntoPools(
  { disk, segmentFolder, pools }: OpenOptions,
  { listed, files }: Early,
  opened: readonly PoolState[],
): PoolFolder[] {
  const there = new Set(gotOf(listed))
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
    const { unknownFolders, lost } = await rebuilt({ ...options, index })
    const { keyLoop } = store
    return { index, keyLoop, ...index.state(), rebuiltBecause, unknownFolders, lost, cleared: [] }
  } catch (error) {
    index.close()
    throw error
  }
}

function openStore({ disk, folder, kernel }: Pick<OpenOptions, 'disk' | 'folder' | 'kernel'>): KeyStore {
  disk.mkdir(folder)
  const fault = findLmdbFault(folder, disk)
  if (fault !== undefined)
    throw new Damaged(fault.path, fault.kind === 'foreign' ? 0 : fault.bytes, fault.what)
  const options = { folder, mapBytes: INDEX_MAP_BYTES }
  try {
    const store = (kernel === 'native' ? tryOpenNativeStore(options) : undefined) ?? openLmdbStore(options)
    // What is read now may not be on disk yet: a kill or a failed write may have come before the sync of the last commit.
    // Files are removed by it from here on, so a power cut must not bring back the state before.
    syncFile(disk, join(folder, LMDB_FILES.data))
    syncFolder(disk, folder) // LMDB syncs its files, not their names
    syncFolder(disk, dirname(folder))
    return store
  } catch (error) {
    throw failedToOpen(folder, error)
  }
}

/** A file that is not an LMDB file, or a broken one, is damage; all else is a folder that cannot be used. */
export function failedToOpen(folder: string, error: unknown): Error {
  if (error instanceof Damaged || error instanceof CannotRun) return error
  const { message } = error instanceof Error ? error : new Error(String(error))
  const isBroken = /MDB_(INVALID|CORRUPTED|PAGE_NOTFOUND|VERSION_MISMATCH)/.test(message)
  // A record that is not JSON, or too short for what it should hold.
  const isNoRecord = error instanceof SyntaxError || error instanceof RangeError
  if (isBroken || isNoRecord) return new Damaged(join(folder, LMDB_FILES.data), 0, message)
  return new CannotRun(`${folder} cannot be opened: ${message}`)
}

/** Why a start would empty and rebuild the index; undefined: it is whole and this folder's. Throws Damaged or CannotRun. */
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

/** Only LMDB's own files: a folder that holds anything else is not ours to empty. */
function empty({ disk, folder }: OpenOptions): void {
  for (const name of [LMDB_FILES.data, LMDB_FILES.lock]) {
    const file = join(folder, name)
    if (disk.exists(file)) disk.unlink(file)
  }
  syncFolder(disk, folder)
}

/** Keeps the damaged file for whoever wants to look at it; of several the last one. Returns what it did, in words. */
function setAside(options: OpenOptions): string {
  const { disk, folder } = options
  const before = disk.readdir(folder).filter(name => numberOfDamagedIndex(name) !== undefined)
  const name = damagedIndexFile(Math.max(0, ...before.map(one => numberOfDamagedIndex(one) ?? 0)) + 1)
  disk.rename(join(folder, LMDB_FILES.data), join(folder, name))
  for (const old of before) disk.unlink(join(folder, old))
  empty(options)
  return `it was set aside as ${join(folder, name)}${before.length > 0 ? ', the one before is gone' : ''}`
}

/** Loaded when it is needed: the Parquet reader would cost every start a quarter of a second. */
async function rebuilt(options: RebuildOptions): Promise<Rebuilt> {
  const { rebuild } = await import('./rebuild.ts')
  return rebuild(options)
}
