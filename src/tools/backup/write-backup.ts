/**
 * Writes a backup to its target, a folder (write-folder.ts) or a bucket (bucket/write-bucket.ts).
 *
 *   log (its files may go then) → catalog → segments → the target names the backup
 *
 * The target names the backup when everything else is durable, so what has a name is complete.
 *
 * A damaged segment does not stop the backup of all others. Each file of a segment is compared with
 * its checksum while it is copied, and the backup lists the damaged ones. Such a backup is
 * incomplete: it ends with an error (docs/decisions/0014).
 *
 *   W-6   The index is left out. The first start on the folder rebuilds it.
 */
import { join } from 'node:path'
import type { Entry } from '../../catalog/documents/catalog-types.ts'
import { hasDeleteFile, type SegmentMeta } from '../../format/segment-meta.ts'
import { extractLog } from '../../log/copy-log.ts'
import type { LogSpan } from '../../log/log-types.ts'
import { SELF_CHECKED } from '../../util/crc32.ts'
import { type Disk, disk } from '../../util/disk.ts'
import { isUnreadable, Unavailable } from '../../util/errors.ts'
import { BACKUP_CHUNK_BYTES } from '../../util/limits.ts'
import { deleteFile, type Paths, segmentFile } from '../../util/paths.ts'
import { type BackupThrottle, type Copied, type CopyProgress, forEachAtOnce } from './copy-file.ts'

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

export interface CopyControl {
  readonly throttle: BackupThrottle
  readonly onProgress: (progress: CopyProgress) => void
  /** Called when the log's files are no longer needed. */
  readonly onLogCopied: () => void
}

/** A file of a segment as it was copied. `damaged`: what was wrong with it before. */
export type CopiedFile = Pick<Copied, 'bytes' | 'sha256'> & { readonly damaged?: string }

/** Where a backup goes. Paths stand below the data folder, with slashes. */
export interface Target<Summary> {
  /** Segments that are copied at once; a few where it is absent. */
  readonly atOnce?: number
  begin(): Promise<void>
  /** @param extract makes a copy of the log in the folder `to`, and returns its files */
  copyLog(extract: (to: string) => Promise<readonly string[]>): Promise<void>
  copyCatalog(): Promise<void>
  /**
   * Copies a file of a segment as it is.
   * @param checksum the CRC-32 that it should have
   * @throws the disk's error where it cannot be read
   */
  copyFile(path: string, checksum: number | null, onBytes: (bytes: number) => void): Promise<Copied>
  /** What the backup has of a file that could not be read to its end. */
  readPart(path: string): Promise<Copied>
  list(path: string, file: CopiedFile): Promise<void>
  /** Makes everything durable, and names the backup. */
  end(): Promise<Summary>
  /** Ends the work. A backup that failed leaves nothing that looks like one. */
  close(): Promise<void>
}

/**
 * Writes the backup of the data folder `from`. It is incomplete where segments are damaged. Rejects
 * with Damaged where the log cannot be read, and with Unavailable where the backup was cancelled,
 * or the target has an error.
 * @param log the log's copy, which tests replace
 */
export async function writeBackup<Summary>(
  target: Target<Summary>,
  from: Paths,
  state: BackupState,
  control: CopyControl,
  log: { readonly disk: Disk; readonly extractLog: typeof extractLog } = { disk, extractLog },
): Promise<Summary> {
  const begin = (phase: CopyProgress['phase']) => control.onProgress({ phase, bytesDone: 0, bytesTotal: 0 })
  try {
    await target.begin()
    const options = { disk: log.disk, from: from.log, ...logOptions(state, control) }
    await target.copyLog(to => log.extractLog({ ...options, to }))
    control.onLogCopied()
    begin('catalog')
    await target.copyCatalog()
    await copySegments(target, from, state, control)
    begin('sync')
    return await target.end()
  } catch (error) {
    throw asUnavailable(error)
  } finally {
    await target.close()
  }
}

/** What a copy of the log needs to know beside the folders. */
function logOptions(state: BackupState, control: CopyControl) {
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

async function copySegments(
  target: Target<unknown>,
  from: Paths,
  { pools }: BackupState,
  control: CopyControl,
): Promise<void> {
  const all = pools.flatMap(({ poolId, segments }) => segments.map(meta => ({ poolId, meta })))
  const bytesTotal = all.reduce((sum, { meta }) => sum + meta.bytes, 0)
  const counted = counter(control, 'segments', bytesTotal)
  counted(0)
  const copySegment = async ({ poolId, meta }: (typeof all)[number]) => {
    const parts: [path: string, checksum: number | null][] = []
    if (hasDeleteFile(meta)) parts.push([deleteFile(meta.segment), SELF_CHECKED])
    if (meta.rows > 0) parts.push([segmentFile(meta.segment), meta.checksum])
    const copied: (readonly [path: string, file: CopiedFile])[] = []
    for (const [name, checksum] of parts) {
      const path = `segment/${poolId}/${name}`
      copied.push([path, await copyPart(target, from, path, checksum, counted)])
    }
    const bytes = copied.reduce((sum, [, file]) => sum + file.bytes, 0)
    const isWhole = bytes === meta.bytes || copied.some(([, { damaged }]) => damaged !== undefined)
    const damaged = `the segment has ${bytes} bytes, it should have ${meta.bytes} by the index`
    for (const [index, [path, file]] of copied.entries())
      await target.list(path, isWhole || index > 0 ? file : { ...file, damaged })
  }
  await forEachAtOnce(all, copySegment, target.atOnce)
}

/** Copies a file of a segment, damaged or not. */
async function copyPart(
  target: Target<unknown>,
  from: Paths,
  path: string,
  checksum: number | null,
  counted: (bytes: number) => void,
): Promise<CopiedFile> {
  try {
    const { bytes, sha256, checksum: found } = await target.copyFile(path, checksum, counted)
    const what = { damaged: 'its bytes do not match their checksum' }
    return { sha256, bytes, ...(found === checksum ? {} : what) }
  } catch (error) {
    if (!isUnreadable(error, join(from.root, path))) throw error
    const { code, message } = error as NodeJS.ErrnoException
    const { bytes, sha256 } = await target.readPart(path)
    return { sha256, bytes, damaged: code === 'ENOENT' ? 'it is missing' : message }
  }
}

function counter({ onProgress }: CopyControl, phase: CopyProgress['phase'], bytesTotal: number) {
  let bytesDone = 0
  return (bytes: number): void => {
    bytesDone += bytes
    onProgress({ phase, bytesDone, bytesTotal })
  }
}

/**
 * Turns an error of the disk (it has a `syscall`) or of LMDB (it has a number as its code) into
 * Unavailable.
 */
function asUnavailable(error: unknown): Error {
  const { name, message, syscall, code } = error as NodeJS.ErrnoException
  const isOfDisk = syscall !== undefined || (name === 'Error' && typeof code === 'number')
  if (!isOfDisk) return error as Error
  const isFull = code === 'ENOSPC' || code === 'EDQUOT' || (code as unknown) === LMDB_NO_SPACE
  return new Unavailable(isFull ? 'disk_full' : 'backup_failed', `the disk of the backup failed: ${message}`)
}

/** ENOSPC as LMDB reports it. */
const LMDB_NO_SPACE = 28
