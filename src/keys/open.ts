/**
 * Opening of `data/index`: as it is where it is whole, else emptied and rebuilt from the segments.
 *
 *   W-5  Nothing is removed but on an index that was whole.
 *   W-6  A missing, empty, foreign, half-rebuilt or older index is rebuilt.
 */
import { dirname, join } from 'node:path'
import { CannotRun, Damaged } from '../errors.ts'
import { INDEX_MAP_BYTES } from '../limits.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { createIndex, type Index, readIdentity } from './index.ts'
import type { PoolState } from './protocol.ts'
import type { ParseDeletes, RebuildOptions, RebuildPool } from './rebuild.ts'
import { INDEX_FORMAT } from './record.ts'
import type { KeyStore } from './store.ts'
import { openLmdbStore } from './store-lmdb.ts'
import { tryOpenNativeStore } from './store-native.ts'
import { clearUncommitted } from './sweep.ts'

export interface OpenOptions {
  readonly disk: Disk
  readonly folder: string
  readonly segmentFolder: string
  readonly identity: string
  readonly pools: readonly RebuildPool[]
  readonly kernel: 'native' | 'js'
  readonly parseDeletes: ParseDeletes
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
  /** Folders below data/segment at this moment, for the sweep. */
  readonly folders: readonly string[]
}

/** Opens, rebuilding where needed. Throws Damaged (a segment, or the index's own files) or CannotRun. */
export async function openIndexFolder(options: OpenOptions): Promise<Opened> {
  const { disk, folder, segmentFolder } = options
  let store = openStore(options)
  const rebuiltBecause = reasonToRebuild(store, folder, options.identity)
  if (rebuiltBecause !== undefined) {
    store.close()
    empty(disk, folder)
    store = openStore(options)
  }
  const index = createIndex(store, options.identity)
  try {
    const unknownFolders = rebuiltBecause === undefined ? [] : await rebuilt({ ...options, index })
    const { pools, lastCommit } = index.state()
    const cleared = rebuiltBecause === undefined ? clearUncommitted(disk, foldersOf(options), pools) : []
    const folders = disk.exists(segmentFolder) ? disk.readdir(segmentFolder) : []
    const { keyLoop } = store
    return { index, keyLoop, pools, lastCommit, rebuiltBecause, cleared, unknownFolders, folders }
  } catch (error) {
    index.close()
    throw error
  }
}

function foldersOf({ segmentFolder, pools }: OpenOptions): Map<number, string> {
  return new Map(pools.map(({ pool, poolId }) => [pool, join(segmentFolder, poolId)]))
}

function openStore({ disk, folder, kernel }: OpenOptions): KeyStore {
  disk.mkdir(folder)
  const options = { folder, mapBytes: INDEX_MAP_BYTES }
  try {
    const store = (kernel === 'native' ? tryOpenNativeStore(options) : undefined) ?? openLmdbStore(options)
    syncFolder(disk, folder) // LMDB syncs its files, not their names
    syncFolder(disk, dirname(folder))
    return store
  } catch (error) {
    throw failedToOpen(folder, error)
  }
}

/** A file that is not an LMDB file, or a broken one, is damage; all else is a folder that cannot be used. */
export function failedToOpen(folder: string, error: unknown): Error {
  const { message } = error instanceof Error ? error : new Error(String(error))
  const isBroken = /MDB_(INVALID|CORRUPTED|PAGE_NOTFOUND|VERSION_MISMATCH)/.test(message)
  if (isBroken || error instanceof SyntaxError)
    // a record that is not JSON
    return new Damaged(join(folder, 'data.mdb'), 0, `${message}; remove ${folder} and it is rebuilt`)
  return new CannotRun(`${folder} cannot be opened: ${message}`)
}

/** Why a start would empty and rebuild the index; undefined: it is whole. Throws Damaged, the store closed. */
export function reasonToRebuild(store: KeyStore, folder: string, identity: string): string | undefined {
  try {
    const known = readIdentity(store)
    if (known === undefined) return 'it is new'
    if (known.format !== INDEX_FORMAT)
      return `its format is ${known.format}, this version writes ${INDEX_FORMAT}`
    if (known.identity !== identity) return 'it belongs to another data folder'
    return known.complete ? undefined : 'a rebuild was not finished'
  } catch (error) {
    store.close()
    throw failedToOpen(folder, error)
  }
}

/** Only LMDB's own files: a folder that holds anything else is not ours to empty. */
function empty(disk: Disk, folder: string): void {
  for (const name of ['data.mdb', 'lock.mdb']) {
    const file = join(folder, name)
    if (disk.exists(file)) disk.unlink(file)
  }
  syncFolder(disk, folder)
}

/** Loaded when it is needed: the Parquet reader would cost every start a quarter of a second. */
async function rebuilt(options: RebuildOptions): Promise<string[]> {
  const { rebuild } = await import('./rebuild.ts')
  return rebuild(options)
}
