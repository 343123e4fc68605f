/**
 * `weir rebuild`: makes the key index again from segments, delete files and catalog. The next start
 * replays the log.
 *
 * The new index is built beside the old one and replaces it by a rename when it is complete and
 * synced (W-6). After a crash the folder has the old index or the new one. The next rebuild,
 * command or start removes what an interrupted rebuild left.
 */
import { join } from 'node:path'
import type { Memory } from '../catalog/documents/memory.ts'
import { CLEAN, type CommandInput } from '../database/command.ts'
import type { Config } from '../database/config.ts'
import { rebuildPoolsOf } from '../database/stages.ts'
import { openIndex } from '../index/index-client.ts'
import type { PoolState } from '../index/index-types.ts'
import { removeLeftFolders } from '../util/data-folder.ts'
import { disk, removeFolder, syncFolder } from '../util/disk.ts'
import { CHECKSUM_DIFFERS, Damaged, must } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { BACKGROUND_NICE } from '../util/limits.ts'
import { LMDB_FILES, type Paths, poolFolder, segmentFile } from '../util/paths.ts'
import { note, say } from '../util/say.ts'
import { whenInterrupted } from './interrupts.ts'
import { withProgress } from './progress.ts'
import { openStopped, readCatalog, readIndex, type StoppedFolder } from './stopped-folder.ts'
import { countText } from './text-tables.ts'

/**
 * Runs `weir rebuild`. A damaged segment keeps the old index: it throws Damaged with the file.
 * Damage may decode, so segments are compared with their checksums in the old index, where that
 * can be read: the new one gets its checksums from the files.
 */
export async function rebuild({ config }: CommandInput): Promise<number> {
  const folder = openStopped(config)
  const memory = await readCatalog(folder)
  const { pools, segments } = await rebuildIndex(config, folder, memory, await statesBefore(folder, memory))
  say(`the index was rebuilt: ${countText(segments)} segments of ${countText(pools)} pools`)
  return CLEAN
}

/** The segments as the present index has them; none where it cannot be read. */
async function statesBefore(folder: StoppedFolder, memory: Memory): Promise<readonly PoolState[]> {
  const before = await readIndex(folder, memory, 'keys').catch((error: Error) => error.message)
  if (typeof before !== 'string') {
    before.index.close()
    return before.states
  }
  note(`note: ${folder.paths.index}: ${before}; damaged segments that decode are not found without it`)
  return []
}

/** Throws Damaged where a segment is not what it was when the index got its checksum. */
function compare(paths: Paths, memory: Memory, before: readonly PoolState[], after: readonly PoolState[]) {
  const checksumsOf = ({ segments }: PoolState) =>
    new Map(segments.map(({ segment, checksum }) => [segment, checksum]))
  const known = new Map(before.map(state => [state.pool, checksumsOf(state)]))
  for (const { pool, segments } of after)
    for (const { segment, checksum } of segments) {
      const was = known.get(pool)?.get(segment) ?? checksum
      if (checksum === was) continue
      const folder = poolFolder(paths, must(memory.poolsByNumber.get(pool), 'a pool of the index').id)
      const what = `${CHECKSUM_DIFFERS} in the index, which stays as it is; run "weir repair"`
      throw new Damaged(join(folder, segmentFile(segment)), 0, what)
    }
}

/**
 * Rebuilds the index. Throws Damaged.
 * @param before segments that must have the checksums that they have here
 */
export async function rebuildIndex(
  config: Config,
  { paths, kernel }: Pick<StoppedFolder, 'paths' | 'kernel'>,
  memory: Memory,
  before: readonly PoolState[] = [],
): Promise<{ readonly pools: number; readonly segments: number }> {
  const pools = [...memory.pools.all()]
  const schema = (pool: number, version: number) => memory.schema(pool, version)?.schema
  removeLeftFolders(paths)
  const forget = whenInterrupted(() => removeFolder(disk, paths.indexNew))
  try {
    const { index, opened } = await withProgress('rebuilding the index', progress =>
      openIndex({
        folder: paths.indexNew,
        segmentFolder: paths.segment,
        identity: memory.meta().folderId,
        pools: rebuildPoolsOf({ pools: () => pools, schema }),
        kernel,
        crashAt: config.crashAt,
        nice: BACKGROUND_NICE,
        onProgress: (done, of, pool) =>
          progress.step(done, of, `rows, in pool ${memory.poolsByNumber.get(pool)?.uniqueName ?? pool}`),
      }),
    )
    await index.stop()
    compare(paths, memory, before, opened.pools)
    replaceIndex(paths)
    const segments = opened.pools.reduce((sum, state) => sum + state.segments.length, 0)
    return { pools: opened.pools.length, segments }
  } catch (error) {
    removeFolder(disk, paths.indexNew)
    throw error
  } finally {
    forget()
  }
}

/** Renames the new data file over the old one. LMDB has closed both, and makes a new lock file. */
function replaceIndex({ root, index, indexNew }: Paths): void {
  crashPoint('rebuild.built')
  disk.mkdir(index)
  syncFolder(disk, root)
  const lock = join(index, LMDB_FILES.lock)
  if (disk.exists(lock)) disk.unlink(lock)
  disk.rename(join(indexNew, LMDB_FILES.data), join(index, LMDB_FILES.data))
  syncFolder(disk, index)
  crashPoint('rebuild.swapped')
  removeFolder(disk, indexNew)
}
