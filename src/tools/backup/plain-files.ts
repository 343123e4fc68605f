/**
 * A backup comes from somebody else's hands: its folders must be folders and its files plain files. A symbolic link would
 * copy what it leads to, and a pipe would be waited for.
 */
import { dirname, join } from 'node:path'
import type { Disk } from '../../util/disk.ts'
import { Damaged } from '../../util/errors.ts'

/** Is `path` of the folder `root` a plain file, in folders that are no links? Else what to tell. */
export function whyNotPlain(disk: Disk, root: string, path: string): Damaged | undefined {
  for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
    const kind = disk.kind(join(root, folder))
    if (kind === 'other' || kind === 'file') return new Damaged(join(root, folder), 0, 'it is no folder')
  }
  const kind = disk.kind(join(root, path))
  if (kind === undefined) return new Damaged(join(root, path), 0, 'it is missing from the backup')
  return kind === 'file' ? undefined : new Damaged(join(root, path), 0, 'it is no plain file')
}

/** Folders in folders that a backup has: segment, and those of pools in it. One more is looked into. */
const DEPTH_MAX = 3

/** The first thing in a folder that is neither a plain file nor a folder; undefined: there is none. */
export function firstNotPlain(disk: Disk, folder: string, depth = 0): Damaged | undefined {
  for (const name of disk.readdir(folder)) {
    const path = join(folder, name)
    const kind = disk.kind(path)
    if (kind === 'other') return new Damaged(path, 0, 'it is no plain file')
    if (kind !== 'folder') continue
    if (depth === DEPTH_MAX) return new Damaged(path, 0, 'a backup has no folder there')
    const inside = firstNotPlain(disk, path, depth + 1)
    if (inside !== undefined) return inside
  }
  return undefined
}
