/**
 * `weir restore`: copies a backup to a new data folder, from a folder or from a bucket. Of a folder
 * it reads every checksum first.
 */
import { dirname, join, relative, resolve } from 'node:path'
import { CLEAN, type CommandInput, DAMAGED } from '../database/command.ts'
import { type Disk, readFile, disk as realDisk } from '../util/disk.ts'
import { asDamage, CannotRun, Damaged, must, Unavailable } from '../util/errors.ts'
import { MiB } from '../util/limits.ts'
import { BACKUP_FILE, pathsOf } from '../util/paths.ts'
import { fail, note, say } from '../util/say.ts'
import { whyNotPlain } from './backup/backup-folder.ts'
import { type BackupContents, damagedText, decodeBackup, summaryOf } from './backup/backup-format.ts'
import {
  BackupThrottle,
  type Copied,
  type CopyDeps,
  type CopyProgress,
  copyFile,
  hashFile,
} from './backup/copy-file.ts'
import { fillNewFolder, type LostFile, type Restored, type RestoreOptions } from './backup/new-folder.ts'
import { isBucketUrl } from './bucket/bucket-address.ts'
import { restoreBucket } from './bucket/restore-bucket.ts'
import { whenInterrupted } from './interrupts.ts'
import { withCopyProgress } from './progress.ts'

/** Bytes of the file BACKUP, which is parsed in memory: 150 a file, so over a million segments. */
const BACKUP_FILE_BYTES_MAX = 256 * MiB

/** Runs `weir restore`. The exit code is 1 where the backup is incomplete. */
export async function restore({ config, positionals, flags }: CommandInput): Promise<number> {
  const given = must(positionals[0], 'the folder')
  const isBucket = isBucketUrl(given)
  const from = isBucket ? given : resolve(given)
  const [id, endpoint] = [flags.get('backup'), flags.get('endpoint')]
  if (!isBucket && (id !== undefined || endpoint !== undefined))
    throw new CannotRun('--backup and --endpoint are for a bucket: weir restore s3://bucket/prefix')
  const to = pathsOf(config.dataDir)
  if (realDisk.exists(to.restoring))
    note(`an earlier restore into ${to.root} was interrupted: this one starts again with an empty folder`)
  const forget = whenInterrupted(() => {
    if (realDisk.exists(to.restoring))
      note(
        `the restore into ${to.root} was interrupted, and no server starts on this folder: run weir restore again`,
      )
  })
  try {
    const takesIncomplete = flags.has('incomplete')
    const { sequence, pools, segments, bytes, damaged, leftOut } = await withCopyProgress(
      'restore',
      onProgress =>
        isBucket
          ? restoreBucket({ from, id, endpoint, to, takesIncomplete, onProgress })
          : restoreBackup({ disk: realDisk, from, to, takesIncomplete, onProgress }),
    )
    say(
      `restored sequence ${sequence} to ${config.dataDir}: ${pools} pools, ${segments} segments, ${bytes} bytes, synced; the first start builds the index`,
    )
    for (const line of leftOut) fail(`left out, because the backup has lost it: ${line}`)
    if (damaged.length === 0) return leftOut.length === 0 ? CLEAN : DAMAGED
    fail(
      `these files were damaged before the backup was made, and still are: ${damagedText(damaged, to.root)}; weir repair --data-dir ${to.root} moves them aside`,
    )
    return DAMAGED
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException
    if (error instanceof Unavailable) throw new CannotRun(message) // the bucket
    throw syscall === undefined
      ? error
      : new CannotRun(`the backup ${from} could not be restored to ${to.root}: ${message}`)
  } finally {
    forget()
  }
}

interface FolderRestore extends RestoreOptions {
  readonly disk: Disk
}

/**
 * Restores a backup. Rejects with Damaged (the backup is damaged or incomplete) or CannotRun (there
 * is no backup, or the new folder is in use or not empty).
 */
export async function restoreBackup(options: FolderRestore): Promise<Restored> {
  const { disk, from, to, takesIncomplete } = options
  const contents = readContents(disk, from)
  const lost: LostFile[] = []
  for await (const damage of findDamage(disk, from, contents, options.onProgress)) {
    const path = relative(from, damage.file)
    if (!takesIncomplete || !path.startsWith('segment/')) throw damage
    lost.push({ path, what: 'it is not as BACKUP lists it', found: damage.file })
  }
  if (contents.damaged !== undefined && !takesIncomplete)
    throw new Damaged(
      join(from, BACKUP_FILE),
      0,
      `the backup is incomplete, these files were damaged before it was made: ${damagedText(contents.damaged, from)}; weir restore --incomplete restores it as it is`,
    )
  const isLost = new Set(lost.map(({ path }) => path))
  const files = contents.files.filter(({ path }) => !isLost.has(path))
  const leftOut = await fillNewFolder(disk, to, async () => {
    return { folders: await copyBackup(options, { ...contents, files }), lost }
  })
  const damaged = (contents.damaged ?? []).filter(({ path }) => !isLost.has(path))
  return { ...summaryOf(contents), damaged, leftOut }
}

/** Reads the file BACKUP. @throws CannotRun where it is missing, Damaged where it is damaged */
export function readContents(disk: Disk, from: string): BackupContents {
  const path = join(from, BACKUP_FILE)
  if (disk.kind(path) === undefined)
    throw new CannotRun(
      `${from} is not a complete backup: it has no file ${BACKUP_FILE}, which is written last; name the folder of another backup`,
    )
  const notPlain = whyNotPlain(disk, from, BACKUP_FILE)
  if (notPlain !== undefined) throw notPlain
  const bytes = disk.size(path)
  if (bytes > BACKUP_FILE_BYTES_MAX)
    throw new Damaged(path, 0, `it has ${bytes} bytes, more than the maximum of ${BACKUP_FILE_BYTES_MAX}`)
  return decodeBackup(readFile(disk, path), path)
}

/** Reads every file that BACKUP lists, and yields each difference. */
export async function* findDamage(
  disk: Disk,
  from: string,
  contents: BackupContents,
  onProgress: RestoreOptions['onProgress'],
): AsyncGenerator<Damaged, void, void> {
  const deps = copyDeps({ disk, onProgress }, contents, 'verify')
  for (const file of contents.files) {
    const damage = await damageOf(disk, from, file, path => hashFile(deps, path))
    if (damage !== undefined) yield damage
  }
  const { bytes } = summaryOf(contents)
  onProgress({ phase: 'verify', bytesDone: bytes, bytesTotal: bytes })
}

/**
 * Compares a file of the backup with BACKUP while `read` reads it. A file of another length is not
 * read, because it may be endless. Rejects with errors that are not the file's damage.
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
      return new Damaged(path, bytes, `it has ${bytes} bytes, BACKUP lists ${want.bytes}`)
    const { sha256 } = await read(path)
    return sha256 === want.sha256 ? undefined : new Damaged(path, 0, 'its checksum is not the one in BACKUP')
  } catch (error) {
    const damage = asDamage(error, path)
    if (damage instanceof Damaged) return damage
    throw error
  }
}

/** Copies all files. Returns their folders, outermost first. */
export async function copyBackup(
  options: FolderRestore,
  contents: BackupContents,
): Promise<readonly string[]> {
  const { disk, from, to } = options
  const deps = copyDeps(options, contents, 'copy')
  const folders = new Set<string>([to.segment])
  disk.mkdir(to.segment)
  for (const file of contents.files) {
    const path = join(to.root, file.path)
    const folder = dirname(path)
    if (folder !== to.root && !folders.has(folder)) {
      disk.mkdir(folder)
      folders.add(folder)
    }
    const damage = await damageOf(disk, from, file, source => copyFile(deps, source, path))
    if (damage !== undefined) throw damage
  }
  return [...folders]
}

function copyDeps(
  { disk, onProgress }: Pick<FolderRestore, 'disk' | 'onProgress'>,
  contents: BackupContents,
  phase: CopyProgress['phase'],
): CopyDeps {
  const bytesTotal = summaryOf(contents).bytes
  let bytesDone = 0
  return {
    disk,
    throttle: new BackupThrottle(0),
    isForeign: true,
    onBytes: bytes => {
      bytesDone += bytes
      onProgress({ phase, bytesDone, bytesTotal })
    },
  }
}
