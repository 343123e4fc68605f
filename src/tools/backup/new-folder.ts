/**
 * A new data folder that a restore fills.
 *
 *   lock → RESTORING, synced → copy, each file synced → folders synced → RESTORING removed, synced
 *
 * While RESTORING exists no server starts on the folder, and a restore into it starts again with an
 * empty folder. So a folder that looks complete is complete.
 */
import { join } from 'node:path'
import { lockNewFolder, readNames } from '../../util/data-folder.ts'
import { type Disk, syncFolder, writeDurably } from '../../util/disk.ts'
import { CannotRun } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import type { Paths } from '../../util/paths.ts'
import { makeFolders, removeEmptyFolders, removeFolders, syncParents } from './backup-folder.ts'

/**
 * Fills a new folder that is marked as unfinished meanwhile.
 * @param copy makes the files, each synced, and returns their folders, outermost first
 */
export async function fillNewFolder(
  disk: Disk,
  to: Paths,
  copy: () => Promise<readonly string[]>,
): Promise<void> {
  checkEmpty(disk, to) // before the folder gets a lock or another mode
  const made: string[] = []
  makeFolders(disk, to.root, made)
  const lock = lockNewFolder(to, disk)
  try {
    await fillFolder(disk, to, copy, made)
  } catch (error) {
    undoRestore(disk, to, made)
    throw error
  } finally {
    disk.close(lock)
  }
}

/** The steps after the lock. `made` are the folders that this restore made, outermost first. */
export async function fillFolder(
  disk: Disk,
  to: Paths,
  copy: () => Promise<readonly string[]>,
  made: readonly string[],
): Promise<void> {
  emptyFolder(disk, to)
  writeDurably(disk, to.restoring, [Buffer.from('a restore fills this folder\n')])
  syncFolder(disk, to.root)
  syncParents(disk, made)
  crashPoint('restore.begun')
  const folders = await copy()
  crashPoint('restore.copied')
  for (const folder of [...folders, to.root]) syncFolder(disk, folder)
  crashPoint('restore.synced')
  disk.unlink(to.restoring)
  syncFolder(disk, to.root)
}

/** @throws CannotRun where the folder has files that no restore left */
function checkEmpty(disk: Disk, to: Paths): void {
  if (disk.kind(to.root) !== 'folder' || disk.exists(to.restoring)) return
  if (readNames(disk, to.root).some(name => join(to.root, name) !== to.lock))
    throw new CannotRun(`the data folder ${to.root} is not empty: name a new folder with --data-dir`)
}

/** Removes what a restore copied; RESTORING and the lock stay. @throws CannotRun as `checkEmpty` */
function emptyFolder(disk: Disk, to: Paths): void {
  checkEmpty(disk, to)
  const pools = disk.exists(to.segment) ? disk.readdir(to.segment).map(name => join(to.segment, name)) : []
  removeFolders(disk, [to.catalog, to.log, to.segment, ...pools])
  for (const path of [to.format, to.admin, to.secretKey]) if (disk.exists(path)) disk.unlink(path)
}

/**
 * Removes what a failed restore made. Where the disk does not allow it, RESTORING stays and marks
 * the folder.
 */
function undoRestore(disk: Disk, to: Paths, made: readonly string[]): void {
  if (!disk.exists(to.restoring)) return
  try {
    emptyFolder(disk, to)
    syncFolder(disk, to.root)
    disk.unlink(to.restoring)
    disk.unlink(to.lock)
    removeEmptyFolders(disk, made)
  } catch {
    // The caller throws the first error.
  }
}
