/**
 * A new index built beside the old one, which stays as it is until the new one is whole and on disk (W-6).
 *
 * The swap is one rename of LMDB's data file: after a crash there is the old index or the new one. What a rebuild that was
 * cut short left beside it goes with the next rebuild, command or start.
 */
import { join } from 'node:path'
import type { Memory } from '../catalog/memory.ts'
import { CLEAN, type CommandInput } from '../engine/command.ts'
import type { Config } from '../engine/config.ts'
import { rebuildPoolsOf } from '../engine/stages.ts'
import { openIndex } from '../index/index-client.ts'
import { removeLeftIndexes } from '../util/data-folder.ts'
import { type Disk, disk, removeFolder, syncFolder } from '../util/disk.ts'
import { armCrash, crashPoint } from '../util/fault-injection.ts'
import { BACKGROUND_NICE } from '../util/limits.ts'
import { LMDB_FILES, type Paths } from '../util/paths.ts'
import { say } from '../util/say.ts'
import { whenInterrupted } from './interrupt.ts'
import { type FolderLook, lookAtFolder, readCatalog } from './open-read-only.ts'
import { createProgress } from './progress.ts'
import { countText } from './text-table.ts'

/** Rejects with Damaged naming the segment that cannot be read; the old index is as it was then. */
export async function rebuild({ config }: CommandInput): Promise<number> {
  armCrash(config.crashAt)
  const folder = lookAtFolder(config)
  const memory = await readCatalog(folder)
  const { pools, segments } = await rebuildIndex(config, folder, memory)
  say(`the index was rebuilt: ${countText(segments)} segments of ${countText(pools)} pools`)
  return CLEAN
}

/** Builds the index anew. Throws Damaged. */
export async function rebuildIndex(
  config: Config,
  { paths, kernel }: FolderLook,
  memory: Memory,
): Promise<{ readonly pools: number; readonly segments: number }> {
  const pools = [...memory.pools.byId.values()]
  const schema = (pool: number, version: number) => memory.schema(pool, version)?.schema
  removeLeftIndexes(paths)
  const progress = createProgress('rebuilding the index')
  const forget = whenInterrupted(() => removeFolder(disk, paths.indexNew))
  try {
    const { index, opened } = await openIndex({
      folder: paths.indexNew,
      segmentFolder: paths.segment,
      identity: memory.meta().folderId,
      pools: rebuildPoolsOf({ pools: () => pools, schema }),
      kernel,
      crashAt: config.crashAt,
      nice: BACKGROUND_NICE,
      onProgress: (done, of, pool) =>
        progress.step(done, of, `rows, in pool ${memory.poolsByNumber.get(pool)?.uniqueName ?? pool}`),
    })
    await index.stop()
    swapIn(disk, paths)
    const segments = opened.pools.reduce((sum, state) => sum + state.segments.length, 0)
    return { pools: opened.pools.length, segments }
  } catch (error) {
    removeFolder(disk, paths.indexNew)
    throw error
  } finally {
    forget()
    progress.end()
  }
}

/** LMDB has closed both. Its lock file speaks of the old one: LMDB makes another. */
function swapIn(on: Disk, { root, index, indexNew }: Paths): void {
  crashPoint('rebuild.built')
  on.mkdir(index)
  syncFolder(on, root)
  const lock = join(index, LMDB_FILES.lock)
  if (on.exists(lock)) on.unlink(lock)
  on.rename(join(indexNew, LMDB_FILES.data), join(index, LMDB_FILES.data))
  syncFolder(on, index)
  crashPoint('rebuild.swapped')
  removeFolder(on, indexNew)
}
