/** A stopped data folder, read by a command that changes nothing: lock, catalog, index. No replay, no rebuild. */
import { join } from 'node:path'
import { Memory } from '../catalog/memory.ts'
import { readStore } from '../catalog/store.ts'
import type { Config } from '../config.ts'
import { lockFolder } from '../folder.ts'
import { type IndexLook, lookAtIndex } from '../keys/look.ts'
import type { PoolState } from '../keys/protocol.ts'
import { type Paths, pathsOf } from '../paths.ts'
import { sealedSequences } from '../stages.ts'
import { disk } from '../util/disk.ts'
import { chooseNative } from '../util/native.ts'
import { probe } from './probe.ts'

export interface FolderLook {
  readonly paths: Paths
  readonly kernel: 'native' | 'js'
}

/** An index that can be read, and the number of its keys by pool. */
export interface WholeIndex extends IndexLook {
  readonly states: readonly PoolState[]
  readonly keys: ReadonlyMap<number, number>
}

/** Takes the lock. Throws CannotRun. */
export function lookAtFolder(config: Config): FolderLook {
  const paths = pathsOf(config.dataDir)
  const kernel = chooseNative(config.kernel)
  lockFolder(paths)
  return { paths, kernel }
}

/** The catalog's documents. Throws Damaged, or CannotRun. */
export async function readCatalog({ paths, kernel }: FolderLook): Promise<Memory> {
  const found = await probe({ kind: 'catalog', folder: paths.catalog, kernel })
  if (found instanceof Error) throw found
  const memory = new Memory()
  memory.load(await readStore(paths.catalog), paths.catalog)
  return memory
}

/**
 * The index of the folder whose catalog is `memory`.
 * @returns a text where there is none that counts, with why a start would rebuild it
 * @throws Error where it cannot be read
 */
export async function readIndex(look: FolderLook, memory: Memory): Promise<WholeIndex | string> {
  const { paths, kernel } = look
  if (!disk.exists(join(paths.index, 'data.mdb'))) return 'it is missing'
  const keys = await probe({ kind: 'index', folder: paths.index, kernel })
  if (keys instanceof Error) throw keys
  const found = lookAtIndex({ disk, folder: paths.index, kernel }, memory.meta().folderId)
  if (typeof found === 'string') return found
  return { ...found, keys, states: found.index.state().pools }
}

/** As the log is read by it; nothing is sealed where there is no index. */
export function sealedOf(memory: Memory, states: readonly PoolState[]): Map<number, number> {
  const pools = [...memory.pools.byId.values()]
  return sealedSequences({ pools: () => pools, tombstones: () => [...memory.tombstones.values()] }, states)
}
