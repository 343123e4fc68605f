/**
 * Which requests the log still holds. The index asks it where a file of a seal stands on disk that it does not know: cut
 * short, the seal is made again from the log (W-13); else the file is all that is left of its rows.
 */
import { Damaged } from '../errors.ts'
import type { Disk } from '../util/disk.ts'
import { listFolder } from './file.ts'
import { readHead } from './head.ts'
import { readLog } from './read.ts'

/**
 * Sequences of the posts and deletes of `pools` that the log in `folder` holds; reads all of it. A folder that is not
 * there holds none. undefined: the log is damaged, which its recovery reports.
 */
export function heldSequences(
  disk: Disk,
  folder: string,
  pools: ReadonlySet<number>,
): ReadonlyMap<number, ReadonlySet<number>> | undefined {
  const held = new Map<number, Set<number>>([...pools].map(pool => [pool, new Set()]))
  if (!disk.exists(folder)) return held
  try {
    const head = readHead(disk, folder)
    if (head === undefined || head.epoch === 0) return held
    for (const { kind, pool, sequence } of readLog(
      disk,
      folder,
      listFolder(disk, folder).files,
      head,
      undefined,
    ))
      if (kind === 'post' || kind === 'delete') held.get(pool)?.add(sequence)
    return held
  } catch (error) {
    if (error instanceof Damaged) return undefined
    throw error
  }
}
