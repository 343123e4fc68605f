/**
 * The files of a seal get their names. W-5: each is complete and synced, the delete file before the Parquet file,
 * and the folder is synced, before anybody hears of them.
 */
import { dirname, join } from 'node:path'
import { deleteFile, segmentFile } from '../paths.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, syncFolder, writeDurably } from '../util/disk.ts'

/** The files of one segment, in memory; undefined: there is none. */
export interface SegmentFiles {
  readonly parquet: Uint8Array | undefined
  readonly deletes: Uint8Array | undefined
}

/**
 * Makes both files durable under their names in `folder`, which is made if missing.
 * On a failure nothing of the segment is left but what the sweep removes; throws Node's error.
 */
export function publishSegment(on: Disk, folder: string, segment: number, files: SegmentFiles): void {
  makeFolder(on, folder)
  const names = [deleteFile(segment), segmentFile(segment)].map(name => join(folder, name))
  const parts = [files.deletes, files.parquet]
  try {
    // A file of an earlier life with this number was named by no transaction: it must not stand beside ours.
    for (const name of names) if (on.exists(name)) on.unlink(name)
    parts.forEach((bytes, i) => {
      if (bytes !== undefined) writeDurably(on, `${names[i]}.tmp`, [bytes])
    })
    parts.forEach((bytes, i) => {
      if (bytes !== undefined) on.rename(`${names[i]}.tmp`, names[i]!)
    })
    crashPoint('segment.renamed')
    syncFolder(on, folder)
    crashPoint('segment.durable')
  } catch (error) {
    for (const name of names) {
      tryUnlink(on, `${name}.tmp`)
      tryUnlink(on, name)
    }
    throw error
  }
}

/** Removes the files of segments that nothing names any more. A file that is not there is not an error. */
export function unlinkSegments(on: Disk, folder: string, segments: readonly number[]): void {
  for (const segment of segments)
    for (const name of [segmentFile(segment), deleteFile(segment)]) {
      const path = join(folder, name)
      if (on.exists(path)) on.unlink(path)
    }
}

function makeFolder(on: Disk, folder: string): void {
  if (on.exists(folder)) return
  const parent = dirname(folder)
  const isParentNew = !on.exists(parent)
  on.mkdir(folder)
  syncFolder(on, parent)
  if (isParentNew) syncFolder(on, dirname(parent))
}

/** After a failure: the first error is the one that counts, and the sweep takes what stays. */
function tryUnlink(on: Disk, path: string): void {
  try {
    if (on.exists(path)) on.unlink(path)
  } catch {
    // The disk refuses; the sweep removes the file later.
  }
}
