/**
 * Writes a backup: a data folder without its index, and `BACKUP` beside it.
 *
 *   log (its files are free then) → catalog → segments → folders synced → BACKUP
 *
 * A folder with BACKUP in it is whole: BACKUP is written when every file and every name is synced, and synced itself
 * before anybody hears of it. Whatever goes wrong before, what was written is removed. Damage to a segment is no reason to
 * lose the rest: each file of one is compared with its checksum while it is copied, and one that is not what the index
 * says stands in BACKUP as damaged. Such a backup is incomplete: it says so, and nobody is told that it is done.
 *
 *   W-6   The index is left out: the first start on the folder makes it again.
 */
import { join } from 'node:path'
import { wallMs } from '../../util/clock.ts'
import { SELF_CHECKED } from '../../util/crc32.ts'
import { type Disk, replaceFile, syncFolder, writeDurably } from '../../util/disk.ts'
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
import {
  BACKUP_FORMAT,
  type BackupContents,
  type BackupFile,
  encodeBackup,
  summaryOf,
} from './backup-format.ts'
import type { Pace } from './backup-throttle.ts'
import type {
  BackupPool,
  BackupState,
  BackupSummary,
  BackupTarget,
  DamagedFile,
  Progress,
} from './backup-types.ts'
import { type Copied, type CopyDeps, copyFile, hashFile } from './copy-file.ts'
import { makeFolders, removeEmptyFolders, removeFiles, removeFolders, syncParents } from './destination.ts'

/** What the other stages do for a backup; each returns the names of the files that it made in `to`. */
export interface BackupDeps {
  readonly disk: Disk
  /** log/copy-log.ts */
  readonly extractLog: (options: {
    readonly disk: Disk
    readonly from: string
    readonly to: string
    readonly span: BackupState['log']
    readonly flushed: ReadonlyMap<number, number>
    readonly onBytes: (bytes: number) => Promise<void>
  }) => Promise<readonly string[]>
  /** catalog/catalog-store.ts */
  readonly writeCatalog: (
    to: string,
    documents: BackupState['documents'],
    disk: Disk,
  ) => Promise<readonly string[]>
}

interface BackupWriters {
  readonly pace: Pace
  readonly onProgress: (progress: Progress) => void
  /** The log's files are not needed any more. */
  readonly onLogCopied: () => void
}

/** One backup while it is written. */
interface Writing {
  readonly services: BackupDeps
  readonly calls: BackupWriters
  readonly state: BackupState
  readonly from: Paths
  readonly to: Paths
  /** Made by us, outermost first; beginning with the backup's own. */
  readonly folders: string[]
  readonly files: BackupFile[]
  readonly damaged: DamagedFile[]
}

/**
 * Writes the backup and returns when it is synced; with damaged segments it is incomplete. Rejects with Damaged where the
 * log cannot be read, Unavailable where it was given up or the disk refuses; nothing is left of it then.
 */
export async function writeBackup(
  target: BackupTarget,
  state: BackupState,
  services: BackupDeps,
  calls: BackupWriters,
): Promise<BackupSummary> {
  const { disk } = services
  const [from, to] = [pathsOf(target.dataDir), pathsOf(target.folder)]
  const writing: Writing = { services, calls, state, from, to, folders: [], files: [], damaged: [] }
  const made: string[] = []
  try {
    makeFolders(disk, target.folder, made)
    // A part of a backup looks like a data folder: nobody shall start on one.
    writeDurably(disk, join(target.folder, UNFINISHED_BACKUP_FILE), [])
    syncFolder(disk, target.folder)
    const contents = await copyAll(writing)
    crashPoint('backup.copied')
    calls.onProgress({ phase: 'sync', bytesDone: 0, bytesTotal: 0 })
    for (const folder of [...writing.folders, target.folder]) syncFolder(disk, folder)
    syncParents(disk, made)
    crashPoint('backup.synced')
    replaceFile(disk, join(target.folder, BACKUP_FILE), [encodeBackup(contents)])
    crashPoint('backup.named')
    return summaryOf(contents)
  } catch (error) {
    remove(disk, target.folder, writing.folders, made)
    throw worldsFault(error)
  }
}

async function copyAll(writing: Writing): Promise<BackupContents> {
  const { state, files, damaged } = writing
  const createdAt = new Date(wallMs()).toISOString()
  await copyLog(writing)
  writing.calls.onLogCopied()
  await copyCatalog(writing)
  const segments = await copySegments(writing)
  files.sort((a, b) => (a.path < b.path ? -1 : 1))
  return {
    format: damaged.length === 0 ? BACKUP_FORMAT.whole : BACKUP_FORMAT.incomplete,
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
  const { services, calls, state, from, to } = writing
  const flushed = new Map(state.deletedPools.map(pool => [pool, -1]))
  for (const { pool, flushedSequence } of state.pools) flushed.set(pool, flushedSequence)
  const counted = counter(calls, 'log', 0)
  let untaken = 0
  writing.folders.push(to.log)
  const names = await services.extractLog({
    disk: services.disk,
    from: from.log,
    to: to.log,
    span: state.log,
    flushed,
    onBytes: async bytes => {
      counted(bytes)
      untaken += bytes
      // Not for each small record: a wait takes a millisecond at least.
      if (bytes > 0 && untaken < BACKUP_CHUNK_BYTES) return
      await calls.pace.take(untaken)
      untaken = 0
    },
  })
  for (const name of names) await listFile(writing, join(to.log, name), `log/${name}`)
}

async function copyCatalog(writing: Writing): Promise<void> {
  const { services, calls, state, from, to } = writing
  const { disk } = services
  calls.onProgress({ phase: 'catalog', bytesDone: 0, bytesTotal: 0 })
  writing.folders.push(to.catalog)
  for (const name of await services.writeCatalog(to.catalog, state.documents, disk))
    await listFile(writing, join(to.catalog, name), `catalog/${name}`)
  const plain = [from.format, from.admin].map((path, i) => [path, [to.format, to.admin][i]!] as const)
  for (const [source, copy] of plain) {
    // A folder whose first application was deleted has no admin.json.
    if (!disk.exists(source)) continue
    list(writing, copy.slice(to.root.length + 1), await copyFile(copyCalls(writing), source, copy))
  }
}

/** Returns how many. */
async function copySegments(writing: Writing): Promise<number> {
  const { calls, state, to } = writing
  const { disk } = writing.services
  const all = state.pools.flatMap(pool => pool.segments)
  const counted = counter(
    calls,
    'segments',
    all.reduce((sum, { bytes }) => sum + bytes, 0),
  )
  counted(0)
  disk.mkdir(to.segment)
  writing.folders.push(to.segment)
  for (const pool of state.pools) if (pool.segments.length > 0) await copyPool(writing, pool, counted)
  return all.length
}

async function copyPool(writing: Writing, pool: BackupPool, counted: (bytes: number) => void): Promise<void> {
  const { disk } = writing.services
  const [from, to] = [poolFolder(writing.from, pool.poolId), poolFolder(writing.to, pool.poolId)]
  disk.mkdir(to)
  writing.folders.push(to)
  for (const meta of pool.segments) {
    const parts: Part[] = []
    if (meta.deletes > 0) parts.push({ name: deleteFile(meta.segment), checksum: SELF_CHECKED })
    if (meta.rows > 0) parts.push({ name: segmentFile(meta.segment), checksum: meta.checksum })
    let bytes = 0
    const damagedBefore = writing.damaged.length
    for (const part of parts) bytes += await copyPart(writing, part, { pool, from, to }, counted)
    const isTold = writing.damaged.length > damagedBefore
    if (bytes !== meta.bytes && !isTold)
      writing.damaged.push({
        path: `segment/${pool.poolId}/${parts[0]?.name}`,
        what: `the segment has ${bytes} bytes, the index says ${meta.bytes}`,
      })
  }
}

/** One file of a segment, and the CRC-32 that it must have. */
interface Part {
  readonly name: string
  readonly checksum: number | null
}

/** Copies a file as it is, damaged or not, and lists it. Returns its bytes. */
async function copyPart(
  writing: Writing,
  { name, checksum }: Part,
  at: { readonly pool: BackupPool; readonly from: string; readonly to: string },
  counted: (bytes: number) => void,
): Promise<number> {
  const path = `segment/${at.pool.poolId}/${name}`
  const [source, copy] = [join(at.from, name), join(at.to, name)]
  const copied = await copyFile(copyCalls(writing, counted), source, copy).catch(async (error: unknown) => {
    if (!isUnreadable(error, source)) throw error
    const what =
      (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'it is missing' : (error as Error).message
    writing.damaged.push({ path, what })
    return { ...(await hashFile(copyCalls(writing), copy)), checksum }
  })
  list(writing, path, copied)
  if (copied.checksum !== checksum)
    writing.damaged.push({ path, what: 'its bytes do not match their checksum' })
  return copied.bytes
}

/** A file that another stage wrote into the backup. */
async function listFile(writing: Writing, path: string, name: string): Promise<void> {
  list(writing, name, await hashFile(copyCalls(writing), path))
}

function list(writing: Writing, path: string, { bytes, sha256 }: Pick<Copied, 'bytes' | 'sha256'>): void {
  writing.files.push({ path, bytes, sha256 })
}

function copyCalls({ services, calls }: Writing, onBytes: CopyDeps['onBytes'] = () => undefined): CopyDeps {
  return { disk: services.disk, pace: calls.pace, onBytes }
}

function counter({ onProgress }: BackupWriters, phase: Progress['phase'], bytesTotal: number) {
  let bytesDone = 0
  return (bytes: number): void => {
    bytesDone += bytes
    onProgress({ phase, bytesDone, bytesTotal })
  }
}

/** The error on its way is the one to tell; what the disk does not let go stays, and is no backup. */
function remove(disk: Disk, folder: string, folders: readonly string[], made: readonly string[]): void {
  try {
    const backup = join(folder, BACKUP_FILE)
    if (disk.exists(backup)) disk.unlink(backup) // first: what is left must not look whole
    removeFolders(disk, folders)
    if (disk.exists(folder)) removeFiles(disk, folder)
    removeEmptyFolders(disk, made)
  } catch {
    // The disk refuses this too.
  }
}

/** A disk's own error (it has a `syscall`) becomes one that a client can read. LMDB's has a number as its code. */
function worldsFault(error: unknown): Error {
  const { name, message, syscall, code } = error as NodeJS.ErrnoException
  const isDisks = syscall !== undefined || (name === 'Error' && typeof code === 'number')
  if (!isDisks) return error as Error
  const isFull = code === 'ENOSPC' || code === 'EDQUOT' || (code as unknown) === LMDB_NO_SPACE
  return new Unavailable(isFull ? 'disk_full' : 'backup_failed', `the backup cannot be written: ${message}`)
}

/** LMDB gives the number of the system's error. */
const LMDB_NO_SPACE = 28
