/**
 * Writes a backup: a data folder without its index, and the file `BACKUP`.
 *
 *   log (its files may go then) → catalog → segments → folders synced → BACKUP
 *
 * BACKUP is written when every file and every name is synced, and is synced before the backup is
 * reported as done. So a folder with BACKUP is complete. A failed backup is removed.
 *
 * A damaged segment does not stop the backup of all others. Each file of a segment is compared with
 * its checksum while it is copied, and BACKUP lists the damaged ones. Such a backup is incomplete:
 * it ends with an error.
 *
 *   W-6   The index is left out. The first start on the folder rebuilds it.
 */
import { join } from 'node:path'
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import { writeCatalog } from '../../catalog/lmdb/catalog-store.ts'
import { hasDeleteFile, type SegmentMeta } from '../../format/segment-meta.ts'
import { extractLog } from '../../log/copy-log.ts'
import type { LogSpan } from '../../log/log-types.ts'
import { wallMs } from '../../util/clock.ts'
import { SELF_CHECKED } from '../../util/crc32.ts'
import { type Disk, disk as realDisk, replaceFile, syncFolder, writeDurably } from '../../util/disk.ts'
import { isUnreadable, Unavailable } from '../../util/errors.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { BACKUP_CHUNK_BYTES } from '../../util/limits.ts'
import {
  BACKUP_FILE,
  deleteFile,
  type Paths,
  pathsOf,
  poolFolder,
  segmentFile,
  UNFINISHED_BACKUP_FILE,
} from '../../util/paths.ts'
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
import {
  type BackupThrottle,
  type Copied,
  type CopyDeps,
  type CopyProgress,
  copyFile,
  hashFile,
} from './copy-file.ts'

/** One pool as it was pinned. */
export interface BackupPool {
  readonly pool: number
  readonly poolId: string
  readonly flushedSequence: number
  /** Segments with rows, and segments that have deletes only. */
  readonly segments: readonly SegmentMeta[]
}

/** The whole server at one moment: everything up to `log.lastSequence`, nothing above. */
export interface BackupState {
  readonly pools: readonly BackupPool[]
  /** Every document of the catalog. */
  readonly documents: readonly Entry[]
  /** Numbers of deleted pools: their log records are left out. */
  readonly deletedPools: readonly number[]
  readonly log: LogSpan
}

export interface BackupTarget {
  /** Absolute path of the data folder. */
  readonly dataDir: string
  /** The folder of the backup, as the caller gave it. */
  readonly folder: string
}

/** Tests replace them, because LMDB writes to the real disk only. */
interface BackupDeps {
  readonly disk: Disk
  readonly extractLog: typeof extractLog
  readonly writeCatalog: typeof writeCatalog
}

export interface CopyControl {
  readonly throttle: BackupThrottle
  readonly onProgress: (progress: CopyProgress) => void
  /** Called when the log's files are no longer needed. */
  readonly onLogCopied: () => void
}

/** The state of a backup that is being written. */
interface Writing {
  readonly deps: BackupDeps
  readonly control: CopyControl
  readonly state: BackupState
  readonly from: Paths
  readonly to: Paths
  /** Folders that this backup made in its own folder, outermost first. */
  readonly folders: string[]
  readonly files: BackupFile[]
  readonly damaged: DamagedFile[]
}

/**
 * Writes the backup and returns when it is synced. It is incomplete where segments are damaged.
 * Rejects with Damaged where the log cannot be read, and with Unavailable where the backup was
 * cancelled or the disk has an error. Then it leaves nothing.
 */
export async function writeBackup(
  target: BackupTarget,
  state: BackupState,
  control: CopyControl,
  deps: BackupDeps = { disk: realDisk, extractLog, writeCatalog },
): Promise<BackupSummary> {
  const { disk } = deps
  const [from, to] = [pathsOf(target.dataDir), pathsOf(target.folder)]
  const writing: Writing = { deps, control, state, from, to, folders: [], files: [], damaged: [] }
  const made: string[] = []
  try {
    makeFolders(disk, target.folder, made)
    // An unfinished backup looks like a data folder; this file keeps a server from starting on it.
    writeDurably(disk, join(target.folder, UNFINISHED_BACKUP_FILE), [])
    syncFolder(disk, target.folder)
    const contents = await copyAll(writing)
    crashPoint('backup.copied')
    control.onProgress({ phase: 'sync', bytesDone: 0, bytesTotal: 0 })
    for (const folder of [...writing.folders, target.folder]) syncFolder(disk, folder)
    syncParents(disk, made)
    crashPoint('backup.synced')
    replaceFile(disk, join(target.folder, BACKUP_FILE), [encodeBackup(contents)])
    crashPoint('backup.named')
    return summaryOf(contents)
  } catch (error) {
    remove(disk, target.folder, writing.folders, made)
    throw asUnavailable(error)
  }
}

async function copyAll(writing: Writing): Promise<BackupContents> {
  const { state, files, damaged } = writing
  const createdAt = new Date(wallMs()).toISOString()
  await copyLog(writing)
  writing.control.onLogCopied()
  await copyCatalog(writing)
  const segments = await copySegments(writing)
  files.sort((a, b) => (a.path < b.path ? -1 : 1))
  return {
    format: damaged.length === 0 ? BACKUP_FORMAT.complete : BACKUP_FORMAT.incomplete,
    weir: WEIR_VERSION,
    sequence: state.log.lastSequence,
    createdAt,
    pools: state.pools.length,
    segments,
    files,
    ...(damaged.length === 0 ? {} : { damaged }),
  }
}

async function copyLog(writing: Writing): Promise<void> {
  const { deps, control, state, from, to } = writing
  const folders = { disk: deps.disk, from: from.log, to: to.log }
  writing.folders.push(to.log)
  const names = await deps.extractLog({ ...folders, ...logOptions(state, control) })
  for (const name of names) await listFile(writing, join(to.log, name), `log/${name}`)
}

/** What a copy of the log needs to know beside the folders. */
export function logOptions(state: BackupState, control: CopyControl) {
  const flushed = new Map(state.deletedPools.map(pool => [pool, -1]))
  for (const { pool, flushedSequence } of state.pools) flushed.set(pool, flushedSequence)
  const counted = counter(control, 'log', 0)
  let uncounted = 0
  const onBytes = async (bytes: number): Promise<void> => {
    counted(bytes)
    uncounted += bytes
    // A wait takes at least a millisecond, which is too long for each small record.
    if (bytes > 0 && uncounted < BACKUP_CHUNK_BYTES) return
    await control.throttle.take(uncounted)
    uncounted = 0
  }
  return { span: state.log, flushed, onBytes }
}

async function copyCatalog(writing: Writing): Promise<void> {
  const { deps, control, state, from, to } = writing
  const { disk } = deps
  control.onProgress({ phase: 'catalog', bytesDone: 0, bytesTotal: 0 })
  // The key comes first: the catalog of the backup is sealed with it.
  for (const [source, copy] of [
    [from.format, to.format],
    [from.admin, to.admin],
    [from.secretKey, to.secretKey],
  ] as const) {
    // A folder whose first application was deleted may lack admin.json: no start writes it again.
    if (!disk.exists(source)) continue
    list(writing, copy.slice(to.root.length + 1), await copyFile(copyDeps(writing), source, copy))
  }
  writing.folders.push(to.catalog)
  for (const name of await deps.writeCatalog(to.catalog, state.documents, disk))
    await listFile(writing, join(to.catalog, name), `catalog/${name}`)
}

/** Returns the number of segments. */
async function copySegments(writing: Writing): Promise<number> {
  const { control, state, to } = writing
  const { disk } = writing.deps
  const all = state.pools.flatMap(pool => pool.segments)
  const counted = counter(
    control,
    'segments',
    all.reduce((sum, { bytes }) => sum + bytes, 0),
  )
  counted(0)
  disk.mkdir(to.segment)
  writing.folders.push(to.segment)
  for (const pool of state.pools) if (pool.segments.length > 0) await copyPool(writing, pool, counted)
  return all.length
}

async function copyPool(
  writing: Writing,
  { poolId, segments }: BackupPool,
  counted: (bytes: number) => void,
): Promise<void> {
  const folder = poolFolder(writing.to, poolId)
  writing.deps.disk.mkdir(folder)
  writing.folders.push(folder)
  for (const meta of segments) {
    const parts: [path: string, checksum: number | null][] = []
    if (hasDeleteFile(meta)) parts.push([`segment/${poolId}/${deleteFile(meta.segment)}`, SELF_CHECKED])
    if (meta.rows > 0) parts.push([`segment/${poolId}/${segmentFile(meta.segment)}`, meta.checksum])
    let bytes = 0
    const damagedBefore = writing.damaged.length
    for (const [path, checksum] of parts) bytes += await copyPart(writing, path, checksum, counted)
    const isListed = writing.damaged.length > damagedBefore
    if (bytes !== meta.bytes && !isListed)
      writing.damaged.push({
        path: `${parts[0]?.[0]}`,
        what: `the segment has ${bytes} bytes, it should have ${meta.bytes} by the index`,
      })
  }
}

/**
 * Copies a file of a segment, damaged or not, and lists it. Returns its bytes.
 * @param checksum the CRC-32 that it should have
 */
async function copyPart(
  writing: Writing,
  path: string,
  checksum: number | null,
  counted: (bytes: number) => void,
): Promise<number> {
  const [source, copy] = [join(writing.from.root, path), join(writing.to.root, path)]
  const copied = await copyFile(copyDeps(writing, counted), source, copy).catch(async (error: unknown) => {
    if (!isUnreadable(error, source)) throw error
    const what =
      (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it is missing' : (error as Error).message
    writing.damaged.push({ path, what })
    return { ...(await hashFile(copyDeps(writing), copy)), checksum }
  })
  list(writing, path, copied)
  if (copied.checksum !== checksum)
    writing.damaged.push({ path, what: 'its bytes do not match their checksum' })
  return copied.bytes
}

/** Lists a file that a lower layer wrote into the backup. */
async function listFile(writing: Writing, path: string, name: string): Promise<void> {
  list(writing, name, await hashFile(copyDeps(writing), path))
}

function list(writing: Writing, path: string, { bytes, sha256 }: Pick<Copied, 'bytes' | 'sha256'>): void {
  writing.files.push({ path, bytes, sha256 })
}

function copyDeps({ deps, control }: Writing, onBytes: CopyDeps['onBytes'] = () => undefined): CopyDeps {
  return { disk: deps.disk, throttle: control.throttle, onBytes }
}

export function counter({ onProgress }: CopyControl, phase: CopyProgress['phase'], bytesTotal: number) {
  let bytesDone = 0
  return (bytes: number): void => {
    bytesDone += bytes
    onProgress({ phase, bytesDone, bytesTotal })
  }
}

/**
 * Removes a failed backup. If the disk refuses to remove a file, the rest is still never taken for
 * a backup, because BACKUP is removed first and BACKUP.tmp last.
 */
function remove(disk: Disk, folder: string, folders: readonly string[], made: readonly string[]): void {
  try {
    const backup = join(folder, BACKUP_FILE)
    // BACKUP is removed first, so that an interrupted removal never looks complete.
    if (disk.exists(backup)) disk.unlink(backup)
    removeFolders(disk, folders)
    if (disk.exists(folder)) removeFiles(disk, folder)
    removeEmptyFolders(disk, made)
  } catch {
    // The caller throws the first error.
  }
}

/**
 * Turns an error of the disk (it has a `syscall`) or of LMDB (it has a number as its code) into
 * Unavailable.
 */
export function asUnavailable(error: unknown): Error {
  const { name, message, syscall, code } = error as NodeJS.ErrnoException
  const isOfDisk = syscall !== undefined || (name === 'Error' && typeof code === 'number')
  if (!isOfDisk) return error as Error
  const isFull = code === 'ENOSPC' || code === 'EDQUOT' || (code as unknown) === LMDB_NO_SPACE
  return new Unavailable(isFull ? 'disk_full' : 'backup_failed', `the disk of the backup failed: ${message}`)
}

/** ENOSPC as LMDB reports it. */
const LMDB_NO_SPACE = 28
