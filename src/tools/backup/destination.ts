/** The folder that a backup goes to: may it be used, and what has to be made, synced and removed around it. */
import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, sep } from 'node:path'
import { type Disk, syncFolder } from '../../util/disk.ts'
import { BACKUP_FILE, UNFINISHED_BACKUP_FILE } from '../../util/paths.ts'

/** Why `folder` cannot take a backup of `dataDir`, one sentence; undefined: it can. */
export function whyNotTo(disk: Disk, folder: string, dataDir: string): string | undefined {
  if (!isAbsolute(folder)) return `the folder of a backup is an absolute path, not "${folder}"`
  try {
    const real = realPath(folder)
    const data = realpathSync(dataDir)
    if (`${real}${sep}`.startsWith(`${data}${sep}`)) return `${folder} is inside the data folder`
    if (!disk.exists(folder)) return undefined
    const names = disk.readdir(folder)
    if (names.includes(BACKUP_FILE)) return `${folder} holds a backup already`
    if (names.includes(UNFINISHED_BACKUP_FILE))
      return `${folder} is not empty: it is a backup that was not finished; remove it, or name another folder`
    return names.length === 0 ? undefined : `${folder} is not empty`
  } catch (error) {
    return `${folder} cannot be used: ${(error as Error).message}`
  }
}

/** The path without symbolic links, as far as it is there. */
function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch (error) {
    const parent = dirname(path)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === path) throw error
    return join(realPath(parent), basename(path))
  }
}

/** Makes a folder with its parents. `made` gets those that it makes, outermost first. */
export function makeFolders(disk: Disk, folder: string, made: string[]): void {
  for (let path = folder; !disk.exists(path); path = dirname(path)) made.unshift(path)
  disk.mkdir(folder)
}

/** Makes the names of new folders durable. */
export function syncParents(disk: Disk, made: readonly string[]): void {
  for (const folder of made) syncFolder(disk, dirname(folder))
}

/** Removes folders with the files in them; those within others stand later in the list. */
export function removeFolders(disk: Disk, folders: readonly string[]): void {
  for (const folder of [...folders].reverse()) {
    if (!disk.exists(folder)) continue
    removeFiles(disk, folder)
    disk.rmdir(folder)
  }
}

/**
 * Removes folders that were made, the outermost stands first.
 * @throws the disk's error where somebody has put something into one meanwhile, which stays
 */
export function removeEmptyFolders(disk: Disk, made: readonly string[]): void {
  for (const folder of [...made].reverse()) if (disk.exists(folder)) disk.rmdir(folder)
}

/** Removes the files of a folder that holds no folders; last what says of a backup that it is none. */
export function removeFiles(disk: Disk, folder: string): void {
  const names = disk.readdir(folder)
  const others = names.filter(name => name !== UNFINISHED_BACKUP_FILE)
  for (const name of [...others, ...names.filter(name => name === UNFINISHED_BACKUP_FILE)])
    disk.unlink(join(folder, name))
}
