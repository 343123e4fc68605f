/**
 * A new index built beside the old one, which stays until the new one is whole (W-6).
 *
 * The swap is two renames. A crash between them leaves no index, and the next start rebuilds it.
 */
import { join } from 'node:path'
import type { Memory } from '../catalog/memory.ts'
import type { Config } from '../config.ts'
import { openIndex } from '../keys/index-client.ts'
import { BACKGROUND_NICE } from '../limits.ts'
import type { Paths } from '../paths.ts'
import { rebuildPoolsOf } from '../stages.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, disk, syncFolder } from '../util/disk.ts'
import { say } from '../util/say.ts'
import { type FolderLook, lookAtFolder, readCatalog } from './look.ts'
import { createProgress } from './progress.ts'
import { CLEAN, type CommandInput } from './protocol.ts'
import { countText } from './table.ts'

/** Rejects with Damaged naming the segment that cannot be read; the old index is as it was then. */
export async function rebuild({ config }: CommandInput): Promise<number> {
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
  const plan = (pool: number, version: number) => memory.plan(pool, version)?.plan
  for (const folder of [paths.indexNew, paths.indexOld]) removeIndex(disk, folder)
  const progress = createProgress('rebuilding the index')
  try {
    const { index, opened } = await openIndex({
      folder: paths.indexNew,
      segmentFolder: paths.segment,
      identity: memory.meta().folderId,
      pools: rebuildPoolsOf({ pools: () => pools, plan }),
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
    removeIndex(disk, paths.indexNew)
    throw error
  } finally {
    progress.end()
  }
}

function swapIn(on: Disk, paths: Paths): void {
  if (on.exists(paths.index)) on.rename(paths.index, paths.indexOld)
  crashPoint('rebuild.moved')
  on.rename(paths.indexNew, paths.index)
  syncFolder(on, paths.root)
  removeIndex(on, paths.indexOld)
}

/** An index's folder with all that LMDB makes in it. */
function removeIndex(on: Disk, folder: string): void {
  if (!on.exists(folder)) return
  for (const name of on.readdir(folder)) on.unlink(join(folder, name))
  on.rmdir(folder)
}
