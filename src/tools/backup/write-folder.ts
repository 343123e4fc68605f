/**
 * A folder as the target of a backup: a data folder without its index, and the file `BACKUP`.
 *
 * BACKUP is written when every file and every name is synced, and is synced before the backup is
 * reported as done. So a folder with BACKUP is complete. A failed backup is removed.
 */
import { basename, dirname, join } from 'node:path'
import { writeCatalog } from '../../catalog/lmdb/catalog-store.ts'
import { wallMs } from '../../util/clock.ts'
import { disk, replaceFile, syncFolder, writeDurably } from '../../util/disk.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { BACKUP_FILE, pathsOf, UNFINISHED_BACKUP_FILE } from '../../util/paths.ts'
import { WEIR_VERSION } from '../../util/version.ts'
import { makeFolders, removeEmptyFolders, removeFiles, removeFolders, syncParents } from './backup-folder.ts'
import {
  BACKUP_FORMAT,
  type BackupContents,
  type BackupFile,
  type BackupSummary,
  type DamagedFile,
  encodeBackup,
  summaryOf,
} from './backup-format.ts'
import { type BackupThrottle, type CopyDeps, copyFile, hashFile } from './copy-file.ts'
import type { BackupState, CopiedFile, Target } from './write-backup.ts'

/**
 * @param folder as the caller gave it
 * @param deps tests replace them, because LMDB writes to the real disk only
 */
export function folderTarget(
  { dataDir, folder }: { readonly dataDir: string; readonly folder: string },
  state: BackupState,
  throttle: BackupThrottle,
  { disk: on, writeCatalog: write } = { disk, writeCatalog },
): Target<BackupSummary> {
  const [from, to] = [pathsOf(dataDir), pathsOf(folder)]
  const createdAt = new Date(wallMs()).toISOString()
  const made: string[] = []
  /** Folders that this backup made in its own folder, outermost first. */
  const folders = new Set<string>()
  const files: BackupFile[] = []
  const damaged: DamagedFile[] = []
  let isNamed = false
  const deps: CopyDeps = { disk: on, throttle, onBytes: () => undefined }
  const list = (path: string, { bytes, sha256 }: CopiedFile) => files.push({ path, bytes, sha256 })
  const readPart = (path: string) => hashFile(deps, join(folder, path))
  return {
    atOnce: 1,
    readPart,
    begin: async () => {
      makeFolders(on, folder, made)
      // An unfinished backup looks like a data folder; with this file no server starts on it.
      writeDurably(on, join(folder, UNFINISHED_BACKUP_FILE), [])
      syncFolder(on, folder)
    },
    copyLog: async extract => {
      folders.add(to.log)
      for (const name of await extract(to.log)) list(`log/${name}`, await readPart(`log/${name}`))
    },
    copyCatalog: async () => {
      // The key comes first: the catalog of the backup is sealed with it.
      for (const source of [from.format, from.admin, from.secretKey]) {
        const name = basename(source)
        // A folder whose first application was deleted may lack admin.json.
        if (on.exists(source)) list(name, await copyFile(deps, source, join(folder, name)))
      }
      folders.add(to.catalog)
      for (const name of await write(to.catalog, state.documents, on))
        list(`catalog/${name}`, await readPart(`catalog/${name}`))
      on.mkdir(to.segment)
      folders.add(to.segment)
    },
    copyFile: async (path, _, onBytes) => {
      const copy = join(folder, path)
      on.mkdir(dirname(copy))
      folders.add(dirname(copy))
      return await copyFile({ ...deps, onBytes }, join(from.root, path), copy)
    },
    list: async (path, file) => {
      list(path, file)
      if (file.damaged !== undefined) damaged.push({ path, what: file.damaged })
    },
    end: async () => {
      crashPoint('backup.copied')
      for (const path of [...folders, folder]) syncFolder(on, path)
      syncParents(on, made)
      crashPoint('backup.synced')
      const contents = contentsOf(state, createdAt, files, damaged)
      replaceFile(on, join(folder, BACKUP_FILE), [encodeBackup(contents)])
      isNamed = true
      crashPoint('backup.named')
      return summaryOf(contents)
    },
    close: async () => {
      if (!isNamed) remove(on, folder, [...folders], made)
    },
  }
}

function contentsOf(
  { pools, log }: BackupState,
  createdAt: string,
  files: readonly BackupFile[],
  damaged: readonly DamagedFile[],
): BackupContents {
  return {
    format: damaged.length === 0 ? BACKUP_FORMAT.complete : BACKUP_FORMAT.incomplete,
    weir: WEIR_VERSION,
    sequence: log.lastSequence,
    createdAt,
    pools: pools.length,
    segments: pools.reduce((sum, { segments }) => sum + segments.length, 0),
    files: files.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    ...(damaged.length === 0 ? {} : { damaged }),
  }
}

/**
 * Removes a failed backup. If the disk refuses to remove a file, the rest is still never taken for
 * a backup, because BACKUP is removed first and BACKUP.tmp last.
 */
function remove(on: typeof disk, folder: string, folders: readonly string[], made: readonly string[]): void {
  try {
    const backup = join(folder, BACKUP_FILE)
    // BACKUP is removed first, so that an interrupted removal never looks complete.
    if (on.exists(backup)) on.unlink(backup)
    removeFolders(on, folders)
    if (on.exists(folder)) removeFiles(on, folder)
    removeEmptyFolders(on, made)
  } catch {
    // The caller throws the first error.
  }
}
