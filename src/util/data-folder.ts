/**
 * The data folder as a whole: its lock and its format version.
 *
 * The lock is an advisory lock on the open file `LOCK` and ends with the process, however it dies.
 * Node has no call for it, so flock(1) takes it on an inherited file descriptor. The lock belongs
 * to the open file, which this process keeps open, so it outlives flock(1).
 */
import { spawnSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { type Disk, disk, type FileHandle, readFile, removeFolder, replaceFile, syncFolder } from './disk.ts'
import { CannotRun, Damaged } from './errors.ts'
import { findLmdbDamage } from './lmdb-file.ts'
import { BACKUP_FILE, LMDB_FILES, type Paths, UNFINISHED_BACKUP_FILE } from './paths.ts'
import { printable, warn } from './say.ts'

/** Bytes of the file FORMAT: `weir`, a number of any likely length, a line break. */
const FORMAT_FILE_BYTES_MAX = 64

/**
 * Version of the whole folder. 2: the catalog's secrets are sealed, and a schema may name its key.
 * 3: a log record may give each of its events a received-at. 4: a log record may begin with what
 * columns read of its request. 5: columns may read the body around an event. 6: a schema may cut
 * epoch numbers, and an accepted time may end with ` UTC` or ` +0200`. An earlier folder is read,
 * and gets this version before its first change, so that no earlier Weir opens it afterwards.
 */
export const FORMAT_VERSION = 6
const FORMAT_VERSION_MIN = 1

/** Exit code of flock(1) when another process holds the lock. */
const LOCK_HELD = 75

/**
 * Makes the folder if it is missing, takes its lock, checks its format, and removes what a killed
 * `weir rebuild` or backup left.
 * @returns the lock's file, which must stay open while the process lives
 * @throws CannotRun where another process holds it, it has another format, or it cannot be used;
 *   Damaged where FORMAT or the catalog is missing
 */
export function openFolder(paths: Paths, on: Disk = disk): FileHandle {
  checkNoBackup(paths, on)
  const lock = lockNewFolder(paths, on)
  checkRestored(paths, on)
  if (!on.exists(paths.format)) makeFormat(paths, on)
  checkFormat(paths, on)
  removeUnfinishedCatalog(paths, on)
  checkCatalog(paths, on)
  upgradeFormat(paths, on)
  for (const folder of [paths.segment, paths.log, paths.temporary]) on.mkdir(folder)
  removeLeftFolders(paths, on)
  syncFolder(on, paths.root)
  return lock
}

/**
 * Removes what an interrupted rebuild left, also of earlier versions (W-6), and the requests that a
 * killed backup left. The lock is held.
 */
export function removeLeftFolders(paths: Paths, on: Disk = disk): void {
  for (const folder of [paths.indexNew, paths.indexOld, paths.backupLog]) removeFolder(on, folder)
}

/** Makes the folder if it is missing, and takes its lock. @throws CannotRun as `openFolder` */
export function lockNewFolder(paths: Paths, on: Disk): FileHandle {
  using(paths.root, () => {
    on.mkdir(paths.root)
    makePrivate(paths.root)
  })
  return takeLock(paths, on)
}

/** Refuses a folder that a restore has not finished; it may look complete. */
function checkRestored(paths: Paths, on: Disk): void {
  if (!on.exists(paths.restoring)) return
  throw new CannotRun(
    `a restore into ${paths.root} has not finished: run weir restore with --data-dir ${paths.root} again, it starts over`,
  )
}

/**
 * Takes the lock of an existing data folder and checks its format. It makes no file.
 * @returns the lock's file, which must stay open while the process lives
 * @throws CannotRun where this is impossible, or a restore has not finished
 */
export function lockFolder(paths: Paths, on: Disk = disk): FileHandle {
  checkNoBackup(paths, on)
  if (!on.exists(paths.format)) {
    checkRestored(paths, on) // an interrupted restore may not have made FORMAT
    const what = on.exists(paths.root) ? 'it has no file FORMAT' : 'it does not exist'
    throw new CannotRun(
      `${paths.root} is not a data folder: ${what}; name the data folder with --data-dir or WEIR_DATA_DIR`,
    )
  }
  const lock = takeLock(paths, on)
  checkRestored(paths, on)
  checkFormat(paths, on)
  return lock
}

/** Checks a backup that is read in place, without a lock. @throws CannotRun */
export function checkBackupFolder(paths: Paths): void {
  if (disk.exists(paths.format)) checkFormat(paths, disk)
}

/** Refuses a backup, which must not change, and a part of one, which is no data folder. */
function checkNoBackup(paths: Paths, on: Disk): void {
  if (on.exists(join(paths.root, UNFINISHED_BACKUP_FILE)))
    throw new CannotRun(`${paths.root} is an unfinished backup: remove it and make another`)
  // Unlike exists(), kind() sees a dangling link.
  if (on.kind(join(paths.root, BACKUP_FILE)) === undefined) return
  throw new CannotRun(
    `${paths.root} is a backup and must not change: weir restore ${paths.root} --data-dir NEW makes a data folder of it`,
  )
}

/**
 * A mounted volume may belong to another user, who alone can change its mode. All that Weir makes
 * inside is private all the same.
 */
function makePrivate(root: string): void {
  try {
    chmodSync(root, 0o700)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error
    warn(
      `the data folder ${printable(root)} belongs to another user, so it keeps its mode; what Weir makes inside it is private`,
    )
  }
}

/** The result of a first call on the folder: a file may have its name, or it may be read-only. */
function using<T>(root: string, call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw new CannotRun(`the data folder ${root} cannot be used: ${(error as Error).message}`)
  }
}

/** Opens the lock's file and locks it. */
function takeLock(paths: Paths, on: Disk): FileHandle {
  const { root } = paths
  const lock = using(root, () => on.open(paths.lock, 'a'))
  const options = ['--exclusive', '--nonblock', '--conflict-exit-code', String(LOCK_HELD)]
  const child = spawnSync('flock', [...options, '3'], { stdio: ['ignore', 'ignore', 'pipe', lock] })
  if (child.error !== undefined)
    throw new CannotRun(`flock(1) is needed to lock ${root}; install util-linux: ${child.error.message}`)
  if (child.status === LOCK_HELD)
    throw new CannotRun(
      `another process uses the data folder ${root}: stop it first, or name a running server to a command that takes --url`,
    )
  if (child.status !== 0)
    throw new CannotRun(`the data folder ${root} cannot be locked: ${child.stderr.toString().trim()}`)
  return lock
}

/** Writes FORMAT, the first file of a new folder. Where others exist, it was lost. */
function makeFormat(paths: Paths, on: Disk): void {
  const found = findData(paths, on)
  if (found !== undefined) throw new Damaged(paths.format, 0, `it is missing, but ${found} exists`)
  replaceFile(on, paths.format, [Buffer.from(`weir ${FORMAT_VERSION}\n`)])
}

/**
 * Checks that the catalog was not lost. A start makes it before all other data. A new catalog would
 * give its first pool the number of an old one, and the old pool's requests in the log with it.
 * @throws Damaged
 */
export function checkCatalog(paths: Paths, on: Disk = disk): void {
  const file = join(paths.catalog, LMDB_FILES.data)
  if (on.exists(file) && on.size(file) > 0) return
  const found = findData(paths, on)
  if (found !== undefined)
    throw new Damaged(
      file,
      0,
      `the catalog is missing, but ${found} exists; restore the folder from a backup, nothing else has the catalog`,
    )
}

/** Removes the catalog's file where LMDB was making it when a first start was interrupted. */
function removeUnfinishedCatalog(paths: Paths, on: Disk): void {
  const damage = findLmdbDamage(paths.catalog, on)
  if (damage?.kind === 'foreign' && findData(paths, on) === undefined) on.unlink(damage.path)
}

/** The names in a folder, without the `lost+found` that a mounted file system has. */
export function readNames(on: Disk, folder: string): string[] {
  return on.readdir(folder).filter(name => name !== 'lost+found')
}

/** A file that exists only after the catalog was made; undefined where there is none. */
function findData({ admin, index, log, segment }: Paths, on: Disk): string | undefined {
  const holdsSomething = (folder: string) => on.exists(folder) && readNames(on, folder).length > 0
  return [admin, join(index, LMDB_FILES.data)].find(on.exists) ?? [log, segment].find(holdsSomething)
}

/** Gives a folder of an earlier version this version, before its first change. The lock is held. */
export function upgradeFormat(paths: Paths, on: Disk = disk): void {
  if (checkFormat(paths, on) === FORMAT_VERSION) return
  replaceFile(on, paths.format, [Buffer.from(`weir ${FORMAT_VERSION}\n`)])
}

/** Returns the version. @throws CannotRun where this version of Weir does not read it */
function checkFormat(paths: Paths, on: Disk): number {
  const bytes = on.size(paths.format)
  if (bytes > FORMAT_FILE_BYTES_MAX)
    throw new Damaged(paths.format, 0, `it has ${bytes} bytes; Weir did not write it`)
  const found = Buffer.from(readFile(on, paths.format)).toString().trim()
  const version = Number(/^weir ([1-9]\d*)$/.exec(found)?.[1])
  if (version >= FORMAT_VERSION_MIN && version <= FORMAT_VERSION) return version
  const what =
    version > FORMAT_VERSION
      ? 'a newer version of Weir wrote the folder; use that version'
      : 'the format is unknown'
  throw new CannotRun(
    `${paths.format} says ${JSON.stringify(found)}, this version of Weir reads "weir ${FORMAT_VERSION}": ${what}`,
  )
}
