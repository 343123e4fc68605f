/**
 * The data folder as a whole: its lock, its format version.
 *
 * The lock is an advisory lock on the open file `LOCK` and dies with the process, however it dies. Node has no call
 * for it: flock(1) takes it on the file descriptor that it inherits, and since the lock belongs to the open file, which
 * this process keeps open, it stays when flock(1) has ended.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { CannotRun, Damaged } from './errors.ts'
import { BACKUP_FILE, LMDB_FILES, type Paths, UNFINISHED_BACKUP_FILE } from './paths.ts'
import {
  type Disk,
  disk,
  type FileHandle,
  readFile,
  removeFolder,
  replaceFile,
  syncFolder,
} from './util/disk.ts'
import { findLmdbFault } from './util/lmdb-file.ts'

/** Version of the whole folder. 1: the first. */
const FORMAT_VERSION = 1

/** flock(1) answers this when another process holds the lock. */
const HELD = 75

/**
 * Makes the folder if it is not there, takes its lock, checks its format, removes what `weir rebuild` left when it was killed.
 * @returns the lock's file, to be kept open while the process lives
 * @throws CannotRun: held by another process, of another format, or not usable; Damaged: FORMAT or the catalog is lost
 */
export function openFolder(paths: Paths, on: Disk = disk): FileHandle {
  checkNoBackup(paths, on)
  const lock = lockNewFolder(paths, on)
  checkRestored(paths, on)
  if (!on.exists(paths.format)) makeFormat(paths, on)
  checkFormat(paths, on)
  removeUnfinishedCatalog(paths, on)
  checkCatalog(paths, on)
  for (const folder of [paths.segment, paths.log, paths.temporary]) on.mkdir(folder)
  removeLeftIndexes(paths, on)
  syncFolder(on, paths.root)
  return lock
}

/**
 * What a rebuild left that was cut short: an index that nobody finished building, or has replaced already (W-6); index.old
 * is of versions that swapped folders. The folder is locked.
 */
export function removeLeftIndexes(paths: Paths, on: Disk = disk): void {
  for (const folder of [paths.indexNew, paths.indexOld]) removeFolder(on, folder)
}

/** The folder, made if it is not there, and its lock; nothing else. @throws CannotRun as `openFolder` */
export function lockNewFolder(paths: Paths, on: Disk = disk): FileHandle {
  makeFolder(paths.root, on)
  return takeLock(paths, on)
}

/** A folder that a restore has not filled may look whole and is not. */
function checkRestored(paths: Paths, on: Disk): void {
  if (!on.exists(paths.restoring)) return
  throw new CannotRun(
    `a restore into ${paths.root} has begun and not ended: run weir restore with --data-dir ${paths.root} again, it begins anew`,
  )
}

/**
 * Takes the lock of a data folder that is there, checks its format, and makes nothing.
 * @returns the lock's file, to be kept open while the process lives
 * @throws CannotRun: no data folder, held by another process, half restored, or of another format
 */
export function lockFolder(paths: Paths, on: Disk = disk): FileHandle {
  checkNoBackup(paths, on)
  if (!on.exists(paths.format)) {
    checkRestored(paths, on) // a restore that was cut short may not have made it
    const what = on.exists(paths.root) ? 'it has no file FORMAT' : 'it is not there'
    throw new CannotRun(`${paths.root} is not a data folder: ${what}; --data-dir or WEIR_DATA_DIR names it`)
  }
  const lock = takeLock(paths, on)
  checkRestored(paths, on)
  checkFormat(paths, on)
  return lock
}

/** A backup that is read in its place: nothing is written into it, so it is not locked. @throws CannotRun of another format */
export function checkBackupFolder(paths: Paths, on: Disk = disk): void {
  if (on.exists(paths.format)) checkFormat(paths, on)
}

/** Whatever changed a backup would make it none; and a part of one is no data folder, whatever is in it. */
function checkNoBackup(paths: Paths, on: Disk): void {
  if (on.exists(join(paths.root, UNFINISHED_BACKUP_FILE)))
    throw new CannotRun(`${paths.root} is a backup that was not finished: remove it, and make another`)
  if (!on.exists(join(paths.root, BACKUP_FILE))) return
  throw new CannotRun(
    `${paths.root} is a backup and stays as it is: weir restore ${paths.root} --data-dir NEW makes a data folder of it`,
  )
}

function makeFolder(root: string, on: Disk): void {
  try {
    on.mkdir(root)
    chmodSync(root, 0o700)
  } catch (error) {
    throw unusable(root, error)
  }
}

function unusable(root: string, error: unknown): CannotRun {
  return new CannotRun(`the data folder ${root} cannot be used: ${(error as Error).message}`)
}

function openLock({ root, lock }: Paths, on: Disk): FileHandle {
  try {
    return on.open(lock, 'a')
  } catch (error) {
    throw unusable(root, error) // a file of that name, a folder that cannot be written
  }
}

/** Opens the lock's file and locks it. */
function takeLock(paths: Paths, on: Disk): FileHandle {
  const { root } = paths
  const lock = openLock(paths, on)
  const child = spawnSync('flock', ['--exclusive', '--nonblock', '--conflict-exit-code', String(HELD), '3'], {
    stdio: ['ignore', 'ignore', 'pipe', lock],
  })
  if (child.error !== undefined)
    throw new CannotRun(`flock(1) of util-linux is needed to lock ${root}: ${child.error.message}`)
  if (child.status === HELD)
    throw new CannotRun(
      `another process uses the data folder ${root}: stop it first (weir backup --url copies a running server)`,
    )
  if (child.status !== 0)
    throw new CannotRun(`the data folder ${root} cannot be locked: ${child.stderr.toString().trim()}`)
  return lock
}

/** FORMAT is the first thing in a folder: where there are others already, it was lost, or they are somebody else's. */
function makeFormat(paths: Paths, on: Disk): void {
  const found = findData(paths, on)
  if (found !== undefined) throw new Damaged(paths.format, 0, `it is missing, and ${found} is there`)
  replaceFile(on, paths.format, [Buffer.from(`weir ${FORMAT_VERSION}\n`)])
}

/**
 * A start makes the catalog before anything else: where there is something else, it was lost. A new one would give its first pool
 * the number of another, and that one's requests in the log with it.
 * @throws Damaged
 */
export function checkCatalog(paths: Paths, on: Disk = disk): void {
  const file = join(paths.catalog, LMDB_FILES.data)
  if (on.exists(file) && on.size(file) > 0) return
  const found = findData(paths, on)
  if (found !== undefined)
    throw new Damaged(file, 0, `the catalog is missing, and ${found} is there; only a backup has the catalog`)
}

/** A first start that was cut while LMDB made its file, or found the disk full, left one that nothing was ever kept in. */
function removeUnfinishedCatalog(paths: Paths, on: Disk): void {
  const fault = findLmdbFault(paths.catalog, on)
  if (fault?.kind === 'foreign' && findData(paths, on) === undefined) on.unlink(fault.path)
}

/** What a folder has only after its catalog was made; undefined: nothing of it. */
function findData({ admin, index, log, segment }: Paths, on: Disk): string | undefined {
  // A file system of its own, mounted on a folder, has a folder for what it found of others.
  const holdsSomething = (folder: string) =>
    on.exists(folder) && on.readdir(folder).some(name => name !== 'lost+found')
  return [admin, join(index, LMDB_FILES.data)].find(on.exists) ?? [log, segment].find(holdsSomething)
}

function checkFormat(paths: Paths, on: Disk): void {
  const found = Buffer.from(readFile(on, paths.format)).toString().trim()
  if (found === `weir ${FORMAT_VERSION}`) return
  const version = /^weir (\d+)$/.exec(found)?.[1]
  const what =
    Number(version) > FORMAT_VERSION
      ? 'a newer version of Weir wrote the folder, and reads it'
      : 'this is not known'
  throw new CannotRun(
    `${paths.format} says "${found}", this version of Weir reads "weir ${FORMAT_VERSION}": ${what}`,
  )
}
