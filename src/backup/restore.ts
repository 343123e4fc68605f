/**
 * Makes a data folder of a backup: every checksum first, then the copy, then `done`.
 *
 *   lock → RESTORING, synced → copy, each file synced → folders synced → RESTORING removed, synced
 *
 * While RESTORING is there no server starts on the folder, and a restore into it begins again with an empty one. So a
 * folder that looks whole is whole.
 */
import { dirname, join } from 'node:path'
import { CannotRun, Damaged } from '../errors.ts'
import { lockNewFolder } from '../folder.ts'
import { BACKUP_FILE, type Paths } from '../paths.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, readFile, syncFolder, writeDurably } from '../util/disk.ts'
import { asDamage } from '../util/lost.ts'
import { type Copied, type CopyCalls, copyFile, hashFile } from './copy.ts'
import { makeFolders, removeFolders, syncParents } from './destination.ts'
import { type BackupContents, damagedText, decodeBackup, summaryOf } from './format.ts'
import { Pace } from './pace.ts'
import type { BackupSummary, Progress } from './protocol.ts'

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
  const made: string[] = []
  makeFolders(disk, to.root, made)
  const lock = lockNewFolder(to, disk)
  try {
    await fillFolder(options, contents, made)
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
  if (!disk.exists(path))
    throw new CannotRun(
      `${from} is no whole backup: it has no file ${BACKUP_FILE}, which a backup gets when everything else is in it`,
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
    const path = join(from, file.path)
    const damage = disk.exists(path)
      ? await damageOf(path, file, hashFile(calls, path))
      : new Damaged(path, 0, 'it is missing from the backup')
    if (damage !== undefined) yield damage
  }
  onProgress({ phase: 'verify', bytesDone: summaryOf(contents).bytes, bytesTotal: summaryOf(contents).bytes })
}

/** What is wrong with a file of the backup, while it is read. Rejects where something else is at fault. */
async function damageOf(
  path: string,
  want: BackupContents['files'][number],
  reading: Promise<Copied>,
): Promise<Damaged | undefined> {
  try {
    const found = await reading
    if (found.bytes !== want.bytes)
      return new Damaged(
        path,
        found.bytes,
        `the backup has ${want.bytes} bytes of it, here are ${found.bytes}`,
      )
    return found.sha256 === want.sha256
      ? undefined
      : new Damaged(path, 0, 'its checksum is not the one in BACKUP')
  } catch (error) {
    const damage = asDamage(error, path)
    if (damage instanceof Damaged) return damage
    throw error
  }
}

/** An empty folder, with the lock in it. @throws CannotRun where there is anything that no restore left */
function clear(disk: Disk, to: Paths): void {
  const names = disk.readdir(to.root).map(name => join(to.root, name))
  const others = names.filter(path => path !== to.lock && path !== to.restoring)
  if (others.length === 0) return
  if (!disk.exists(to.restoring))
    throw new CannotRun(`the data folder ${to.root} is not empty: a restore makes a new one`)
  const pools = disk.exists(to.segment) ? disk.readdir(to.segment).map(name => join(to.segment, name)) : []
  removeFolders(disk, [to.catalog, to.log, to.segment, ...pools])
  for (const path of [to.format, to.admin]) if (disk.exists(path)) disk.unlink(path)
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
    const source = join(from, file.path)
    const damage = await damageOf(source, file, copyFile(calls, source, path))
    if (damage !== undefined) throw damage
  }
  return [...folders]
}

function copyCalls(
  { disk, onProgress }: Pick<RestoreOptions, 'disk' | 'onProgress'>,
  contents: BackupContents,
  phase: Progress['phase'],
): CopyCalls {
  const bytesTotal = summaryOf(contents).bytes
  let bytesDone = 0
  return {
    disk,
    pace: new Pace(0),
    onBytes: bytes => {
      bytesDone += bytes
      onProgress({ phase, bytesDone, bytesTotal })
    },
  }
}
