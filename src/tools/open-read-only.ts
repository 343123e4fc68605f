/**
 * A stopped data folder, read by a command that changes nothing: lock, catalog, index. No replay, no rebuild.
 *
 * A backup is such a folder too, without an index, and nothing at all is written into it: no lock is taken, and the catalog
 * is read in a copy, because LMDB makes a lock file beside the one that it reads.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readStore } from '../catalog/catalog-store.ts'
import { Memory } from '../catalog/memory.ts'
import type { Config } from '../engine/config.ts'
import { flushedSequences } from '../engine/stages.ts'
import type { PoolState } from '../index/index-types.ts'
import { type InspectedIndex, inspectIndex } from '../index/inspect-index.ts'
import { checkBackupFolder, lockFolder } from '../util/data-folder.ts'
import { disk } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { chooseNative, type KernelChoice } from '../util/native.ts'
import { BACKUP_FILE, LMDB_FILES, type Paths, pathsOf } from '../util/paths.ts'
import { Pace } from './backup/backup-throttle.ts'
import { copyFile } from './backup/copy-file.ts'
import { firstNotPlain } from './backup/plain-files.ts'
import { whenInterrupted } from './interrupt.ts'
import { probe } from './probe-lmdb.ts'

export interface FolderLook {
  readonly paths: Paths
  readonly kernel: KernelChoice
  /** It has a file BACKUP, and is left as it is. */
  readonly isBackup: boolean
}

/** An index that can be read, and the number of its keys by pool. */
export interface WholeIndex extends InspectedIndex {
  readonly states: readonly PoolState[]
  readonly keys: ReadonlyMap<number, number>
}

/** Takes the lock; of a backup none, and only where the command `takesBackup`. Throws CannotRun. */
export function lookAtFolder(config: Config, takesBackup = false): FolderLook {
  const paths = pathsOf(config.dataDir)
  const kernel = chooseNative(config.kernel)
  const isBackup = takesBackup && disk.kind(join(paths.root, BACKUP_FILE)) !== undefined
  if (isBackup) {
    const notPlain = firstNotPlain(disk, paths.root)
    if (notPlain !== undefined) throw notPlain
    checkBackupFolder(paths)
  } else lockFolder(paths)
  return { paths, kernel, isBackup }
}

/** The catalog's documents. Throws Damaged, or CannotRun. */
export async function readCatalog({ paths, kernel, isBackup }: FolderLook): Promise<Memory> {
  if (!isBackup) return await readFrom(paths.catalog, kernel)
  const data = join(paths.catalog, LMDB_FILES.data)
  if (!disk.exists(data)) throw new Damaged(data, 0, 'it is missing from the backup')
  const folder = mkdtempSync(join(tmpdir(), 'weir-catalog-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const forget = whenInterrupted(remove)
  try {
    const calls = { disk, pace: new Pace(0), isForeign: true, onBytes: () => undefined }
    await copyFile(calls, data, join(folder, LMDB_FILES.data))
    return await readFrom(folder, kernel)
  } catch (error) {
    throw new Damaged(data, 0, (error as Error).message.replaceAll(folder, paths.catalog))
  } finally {
    remove()
    forget()
  }
}

async function readFrom(folder: string, kernel: KernelChoice): Promise<Memory> {
  const found = await probe({ kind: 'catalog', folder, kernel })
  if (found instanceof Error) throw found
  const memory = new Memory()
  memory.load(await readStore(folder), folder)
  return memory
}

/**
 * The index of the folder whose catalog is `memory`; with `keys` no key may be looked up in it.
 * @returns a text where there is none that counts, with why a start would rebuild it
 * @throws Error where it cannot be read
 */
export async function readIndex(
  look: FolderLook,
  memory: Memory,
  kind: 'index' | 'keys' = 'index',
): Promise<WholeIndex | string> {
  const { paths, kernel, isBackup } = look
  if (isBackup) return 'a backup has none'
  if (!disk.exists(join(paths.index, LMDB_FILES.data))) return 'there is none yet, as after weir restore'
  const keys = await probe({ kind, folder: paths.index, kernel })
  if (keys instanceof Error) throw keys
  const found = inspectIndex({ disk, folder: paths.index, kernel }, memory.meta().folderId)
  if (typeof found === 'string') return found
  return { ...found, keys, states: found.index.state().pools }
}

/** As the log is read by it; nothing is flushed where there is no index. */
export function flushedOf(memory: Memory, states: readonly PoolState[]): Map<number, number> {
  const pools = [...memory.pools.byId.values()]
  return flushedSequences({ pools: () => pools, tombstones: () => [...memory.tombstones.values()] }, states)
}
