/**
 * Makes a data folder of a backup: every checksum first, then the copy, then `done`.
 *
 *   lock → RESTORING, synced → copy, each file synced → folders synced → RESTORING removed, synced
 *
 * While RESTORING is there no server starts on the folder, and a restore into it begins again with an empty one. So a
 * folder that looks whole is whole.
 */
import { dirname, join } from 'node:path'
import { lockNewFolder } from '../../util/data-folder.ts'
import { type Disk, readFile, syncFolder, writeDurably } from '../../util/disk.ts'
import { asDamage, CannotRun, Damaged } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { BACKUP_FILE_BYTES_MAX } from '../../util/limits.ts'
import { BACKUP_FILE, type Paths } from '../../util/paths.ts'
import { type BackupContents, damagedText, decodeBackup, summaryOf } from './backup-format.ts'
import { Pace } from './backup-throttle.ts'
import type { BackupSummary, Progress } from './backup-types.ts'
import { type Copied, type CopyDeps, copyFile, hashFile } from './copy-file.ts'
import { makeFolders, removeEmptyFolders, removeFolders, syncParents } from './destination.ts'
import { whyNotPlain } from './plain-files.ts'

interface RestoreOptions {
  readonly disk: Disk
  /** The backup's folder. */
  readonly from: string
  /** The new data folder: not there, empty, or left by a restore that did not end. */
  readonly to: Paths
  /** Takes a backup that says of itself that files of it were damaged. */
  readonly takesIncomplete: boolean
  readonly onProgress: (progress: Progress) => void
}

/** Rejects with Damaged (the backup is not whole) or CannotRun (no backup, the folder is in use or not empty). */
export async function restoreBackup(options: RestoreOptions): Promise<BackupSummary> {
  const { disk, from, to, takesIncomplete } = options
  const contents = await verifyBackup(options)
  if (contents.damaged !== undefined && !takesIncomplete)
    throw new Damaged(
      join(from, BACKUP_FILE),
      0,
      `the backup is incomplete, these files were damaged before it was made: ${damagedText(contents.damaged, from)}; --incomplete restores it as it is`,
    )
  checkEmpty(disk, to) // before anything is made in it, or its mode changed
  const made: string[] = []
  makeFolders(disk, to.root, made)
  const lock = lockNewFolder(to, disk)
  try {
    await fillFolder(options, contents, made)
  } catch (error) {
    leaveNothing(disk, to, made)
    throw error
  } finally {
    disk.close(lock)
  }
  return summaryOf(contents)
}

/** The steps between lock and done. `made` are the folders that had to be made, outermost first. */
export async function fillFolder(
  options: RestoreOptions,
  contents: BackupContents,
  made: readonly string[],
): Promise<void> {
  const { disk, to } = options
  clear(disk, to)
  writeDurably(disk, to.restoring, [Buffer.from('a restore fills this folder\n')])
  syncFolder(disk, to.root)
  syncParents(disk, made)
  crashPoint('restore.begun')
  const folders = await copyAll(options, contents)
  crashPoint('restore.copied')
  for (const folder of [...folders, to.root]) syncFolder(disk, folder)
  crashPoint('restore.synced')
  disk.unlink(to.restoring)
  syncFolder(disk, to.root)
}

/** Reads every file of the backup. Rejects as restoreBackup. */
export async function verifyBackup(
  options: Pick<RestoreOptions, 'disk' | 'from' | 'onProgress'>,
): Promise<BackupContents> {
  const { disk, from, onProgress } = options
  const contents = readContents(disk, from)
  for await (const damage of damagesOf(disk, from, contents, onProgress)) throw damage
  return contents
}

/** What BACKUP says. @throws CannotRun where there is none, Damaged where it is not whole */
export function readContents(disk: Disk, from: string): BackupContents {
  const path = join(from, BACKUP_FILE)
  if (disk.kind(path) === undefined)
    throw new CannotRun(
      `${from} is no whole backup: it has no file ${BACKUP_FILE}, which a backup gets when everything else is in it`,
    )
  const notPlain = whyNotPlain(disk, from, BACKUP_FILE)
  if (notPlain !== undefined) throw notPlain
  const bytes = disk.size(path)
  if (bytes > BACKUP_FILE_BYTES_MAX)
    throw new Damaged(
      path,
      0,
      `it has ${bytes} bytes, and the largest that is read has ${BACKUP_FILE_BYTES_MAX}`,
    )
  return decodeBackup(readFile(disk, path), path)
}

/** Reads every file that BACKUP names; yields what is not as it says. */
export async function* damagesOf(
  disk: Disk,
  from: string,
  contents: BackupContents,
  onProgress: RestoreOptions['onProgress'],
): AsyncGenerator<Damaged, void, void> {
  const calls = copyCalls({ disk, onProgress }, contents, 'verify')
  for (const file of contents.files) {
    const damage = await damageOf(disk, from, file, path => hashFile(calls, path))
    if (damage !== undefined) yield damage
  }
  onProgress({ phase: 'verify', bytesDone: summaryOf(contents).bytes, bytesTotal: summaryOf(contents).bytes })
}

/**
 * What is wrong with a file of the backup, while it is read; one of another length is not read at all, it may be endless.
 * Rejects where something else is at fault.
 */
async function damageOf(
  disk: Disk,
  from: string,
  want: BackupContents['files'][number],
  read: (path: string) => Promise<Copied>,
): Promise<Damaged | undefined> {
  const notPlain = whyNotPlain(disk, from, want.path)
  if (notPlain !== undefined) return notPlain
  const path = join(from, want.path)
  try {
    const bytes = disk.size(path)
    if (bytes !== want.bytes)
      return new Damaged(path, bytes, `the backup has ${want.bytes} bytes of it, here are ${bytes}`)
    const found = await read(path)
    return found.sha256 === want.sha256
      ? undefined
      : new Damaged(path, 0, 'its checksum is not the one in BACKUP')
  } catch (error) {
    const damage = asDamage(error, path)
    if (damage instanceof Damaged) return damage
    throw error
  }
}

/** @throws CannotRun where there is anything that no restore left */
function checkEmpty(disk: Disk, to: Paths): void {
  if (disk.kind(to.root) !== 'folder' || disk.exists(to.restoring)) return
  if (disk.readdir(to.root).some(name => join(to.root, name) !== to.lock))
    throw new CannotRun(`the data folder ${to.root} is not empty: a restore makes a new one`)
}

/** Leaves an empty folder, with the lock in it. @throws CannotRun as checkEmpty */
function clear(disk: Disk, to: Paths): void {
  checkEmpty(disk, to)
  const pools = disk.exists(to.segment) ? disk.readdir(to.segment).map(name => join(to.segment, name)) : []
  removeFolders(disk, [to.catalog, to.log, to.segment, ...pools])
  for (const path of [to.format, to.admin]) if (disk.exists(path)) disk.unlink(path)
}

/** Removes what a restore that failed has made. Where the disk refuses, RESTORING stays and says what the folder is. */
function leaveNothing(disk: Disk, to: Paths, made: readonly string[]): void {
  if (!disk.exists(to.restoring)) return
  try {
    clear(disk, to)
    syncFolder(disk, to.root)
    disk.unlink(to.restoring)
    disk.unlink(to.lock)
    removeEmptyFolders(disk, made)
  } catch {
    // The error on its way is the one to tell.
  }
}

/** Returns the folders with files in them, outermost first. */
async function copyAll(options: RestoreOptions, contents: BackupContents): Promise<readonly string[]> {
  const { disk, from, to } = options
  const calls = copyCalls(options, contents, 'copy')
  const folders = new Set<string>([to.segment])
  disk.mkdir(to.segment)
  for (const file of contents.files) {
    const path = join(to.root, file.path)
    const folder = dirname(path)
    if (folder !== to.root && !folders.has(folder)) {
      disk.mkdir(folder)
      folders.add(folder)
    }
    const damage = await damageOf(disk, from, file, source => copyFile(calls, source, path))
    if (damage !== undefined) throw damage
  }
  return [...folders]
}

function copyCalls(
  { disk, onProgress }: Pick<RestoreOptions, 'disk' | 'onProgress'>,
  contents: BackupContents,
  phase: Progress['phase'],
): CopyDeps {
  const bytesTotal = summaryOf(contents).bytes
  let bytesDone = 0
  return {
    disk,
    pace: new Pace(0),
    isForeign: true,
    onBytes: bytes => {
      bytesDone += bytes
      onProgress({ phase, bytesDone, bytesTotal })
    },
  }
}
