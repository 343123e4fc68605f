/**
 * The folder of a backup: whether one can be written to it, its parents and their syncs, its
 * removal, and whether everything in a given backup is a plain file.
 */
import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, sep } from 'node:path'
import { readNames } from '../../util/data-folder.ts'
import { type Disk, syncFolder } from '../../util/disk.ts'
import { Damaged } from '../../util/errors.ts'
import { BACKUP_FILE, UNFINISHED_BACKUP_FILE } from '../../util/paths.ts'

/**
 * Returns one sentence that says why a backup of `dataDir` cannot go to `folder`, or undefined
 * where it can.
 */
export function whyNotTo(disk: Disk, folder: string, dataDir: string): string | undefined {
  if (!isAbsolute(folder)) return `the folder of a backup must be an absolute path, not "${folder}"`
  try {
    const real = realPath(folder)
    const data = realpathSync(dataDir)
    if (`${real}${sep}`.startsWith(`${data}${sep}`))
      return `${folder} is inside the data folder: name a folder outside it`
    if (!disk.exists(folder)) return undefined
    const names = readNames(disk, folder)
    if (names.includes(BACKUP_FILE)) return `${folder} has a backup already: name another folder`
    if (names.includes(UNFINISHED_BACKUP_FILE))
      return `${folder} has an unfinished backup: remove it, or name another folder`
    return names.length === 0 ? undefined : `${folder} is not empty: name another folder`
  } catch (error) {
    return `${folder} cannot be used: ${(error as Error).message}`
  }
}

/** Resolves the symbolic links of the existing part of a path. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    const parent = dirname(path)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === path) throw error
    return join(realPath(parent), basename(path))
  }
}

/** Makes a folder and its missing parents, and adds the new ones to `made`, outermost first. */
export function makeFolders(disk: Disk, folder: string, made: string[]): void {
  for (let path = folder; !disk.exists(path); path = dirname(path)) made.unshift(path)
  disk.mkdir(folder)
}

/** Makes the names of new folders durable. */
export function syncParents(disk: Disk, made: readonly string[]): void {
  for (const folder of made) syncFolder(disk, dirname(folder))
}

/** Removes folders and their files. A folder inside another one stands later in the list. */
export function removeFolders(disk: Disk, folders: readonly string[]): void {
  for (const folder of [...folders].reverse()) {
    if (!disk.exists(folder)) continue
    removeFiles(disk, folder)
    disk.rmdir(folder)
  }
}

/**
 * Removes empty folders; the outermost stands first.
 * @throws the disk's error where somebody has added a file to one, which stays
 */
export function removeEmptyFolders(disk: Disk, made: readonly string[]): void {
  for (const folder of [...made].reverse()) if (disk.exists(folder)) disk.rmdir(folder)
}

/**
 * Removes the files of a folder without subfolders. BACKUP.tmp goes last, so an interrupted removal
 * is never taken for a data folder.
 */
export function removeFiles(disk: Disk, folder: string): void {
  const names = readNames(disk, folder)
  const others = names.filter(name => name !== UNFINISHED_BACKUP_FILE)
  for (const name of [...others, ...names.filter(name => name === UNFINISHED_BACKUP_FILE)])
    disk.unlink(join(folder, name))
}

/**
 * A backup may come from somebody else. A symbolic link in it would copy another file, and a read
 * of a pipe would never end.
 * @returns the damage where `path` of the folder `root` is not a plain file in plain folders
 */
export function whyNotPlain(disk: Disk, root: string, path: string): Damaged | undefined {
  for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
    const kind = disk.kind(join(root, folder))
    if (kind === 'other' || kind === 'file') return new Damaged(join(root, folder), 0, 'it is not a folder')
  }
  const kind = disk.kind(join(root, path))
  if (kind === undefined) return new Damaged(join(root, path), 0, 'it is missing from the backup')
  return kind === 'file' ? undefined : new Damaged(join(root, path), 0, 'it is not a plain file')
}

/** Depth of folders that are searched. A backup has segment/ and folders of pools in it. */
const DEPTH_MAX = 3

/**
 * The first entry of a folder that is neither a plain file nor a folder; undefined if all are.
 */
export function firstNotPlain(disk: Disk, folder: string, depth = 0): Damaged | undefined {
  for (const name of readNames(disk, folder)) {
    const path = join(folder, name)
    const kind = disk.kind(path)
    if (kind === 'other') return new Damaged(path, 0, 'it is not a plain file')
    if (kind !== 'folder') continue
    if (depth === DEPTH_MAX) return new Damaged(path, 0, 'a backup has no folder here')
    const inside = firstNotPlain(disk, path, depth + 1)
    if (inside !== undefined) return inside
  }
  return undefined
}
