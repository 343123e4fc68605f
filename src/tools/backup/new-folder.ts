/**
 * A new data folder that a restore fills.
 *
 *   lock → RESTORING, synced → copy, each file synced → folders synced → RESTORING removed, synced
 *
 * Files of segments that the backup has lost are left out: all else is restored, and the folder
 * starts. Rows that the lost ones had updated or deleted come back.
 *
 * While RESTORING exists no server starts on the folder, and a restore into it starts again with an
 * empty folder. So a folder that looks complete is complete.
 */
import { basename, dirname, join } from 'node:path'
import type { Pool } from '../../catalog/documents/model.ts'
import { readStore } from '../../catalog/lmdb/catalog-store.ts'
import { readFooter } from '../../format/segment-meta.ts'
import { lockNewFolder, readNames } from '../../util/data-folder.ts'
import { type Disk, readFile, replaceFile, syncFolder, writeDurably } from '../../util/disk.ts'
import { CannotRun, must } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { deleteFile, numberOfFile, type Paths, segmentFile } from '../../util/paths.ts'
import { nameNoDeletes, standAlone } from '../lone-files.ts'
import { countText } from '../text-tables.ts'
import { makeFolders, removeEmptyFolders, removeFolders, syncParents } from './backup-folder.ts'
import { type BackupSummary, harmless } from './backup-format.ts'
import type { CopyProgress } from './copy-file.ts'

export interface RestoreOptions {
  /** A folder, or `s3://bucket/prefix`. */
  readonly from: string
  /** The new data folder: missing, empty, or left by an interrupted restore. */
  readonly to: Paths
  readonly takesIncomplete: boolean
  readonly onProgress: (progress: CopyProgress) => void
}

export interface Restored extends BackupSummary {
  /** A line for each file of a segment that the backup has lost. */
  readonly leftOut: readonly string[]
}

/** Makes the files, each synced. Returns their folders, outermost first, and what is lost. */
export type Copy = () => Promise<{ readonly folders: readonly string[]; readonly lost: readonly LostFile[] }>

/**
 * Fills a new folder that is marked as unfinished meanwhile. Returns a line for each file that was
 * left out.
 */
export async function fillNewFolder(disk: Disk, to: Paths, copy: Copy): Promise<readonly string[]> {
  checkEmpty(disk, to) // before the folder gets a lock or another mode
  const made: string[] = []
  makeFolders(disk, to.root, made)
  const lock = lockNewFolder(to, disk)
  try {
    return await fillFolder(disk, to, copy, made)
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
  copy: Copy,
  made: readonly string[],
): Promise<readonly string[]> {
  emptyFolder(disk, to)
  writeDurably(disk, to.restoring, [Buffer.from('a restore fills this folder\n')])
  syncFolder(disk, to.root)
  syncParents(disk, made)
  crashPoint('restore.begun')
  const { folders, lost } = await copy()
  const leftOut = await leaveOut(disk, to, lost)
  crashPoint('restore.copied')
  for (const folder of [...folders, to.root]) syncFolder(disk, folder)
  crashPoint('restore.synced')
  disk.unlink(to.restoring)
  syncFolder(disk, to.root)
  return leftOut
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

export interface LostFile {
  /** Below the data folder, with slashes: `segment/<pool>/0000000042.parquet`. */
  readonly path: string
  readonly what: string
  /** Its bytes as they were found, if any. */
  readonly found: string
}

/**
 * Removes lost files from a filled folder, and lets the other file of each segment stand alone.
 * Returns a line for each.
 */
async function leaveOut(disk: Disk, to: Paths, lost: readonly LostFile[]): Promise<string[]> {
  if (lost.length === 0) return []
  const documents = await readStore(to.catalog)
  const names = new Map<string | undefined, string | undefined>(
    documents.map(([, document]) => [(document as Partial<Pool>).id, (document as Partial<Pool>).uniqueName]),
  )
  const lines = lost.map(({ path, what, found }) => {
    const pool = basename(dirname(path))
    const name = names.get(pool) ?? pool
    return `${path} of the pool ${harmless(name)} (${what}): ${lossOf(disk, found)}`
  })
  const isLost = new Set(lost.map(({ path }) => join(to.root, path)))
  for (const file of isLost) if (disk.exists(file)) disk.unlink(file)
  for (const file of isLost) {
    const segment = must(numberOfFile(basename(file)), 'the number of a segment')
    const [rows, deletes] = [segmentFile(segment), deleteFile(segment)].map(one => join(dirname(file), one))
    if (file === deletes && rows !== undefined && disk.exists(rows)) nameNoDeletes(rows)
    if (file === rows && deletes !== undefined && disk.exists(deletes))
      replaceFile(disk, deletes, [standAlone(readFile(disk, deletes))])
  }
  return lines
}

function lossOf(disk: Disk, file: string): string {
  if (file.endsWith('.deletes')) return 'its deletes are lost, and the rows that they deleted are back'
  const back = 'older rows that they had updated or deleted are back as they were'
  try {
    const { rows, sequenceFrom, sequenceTo } = readFooter(disk, file)
    return `${countText(rows)} rows of the requests ${sequenceFrom} to ${sequenceTo} are missing, and ${back}`
  } catch {
    return `an unknown number of rows is missing, and ${back}`
  }
}
