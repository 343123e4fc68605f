/**
 * Publishes and removes the files of a segment.
 *
 *   W-5  Each file is complete and synced, and its folder is synced, before any thread hears of it.
 *   W-6  The delete file is published first and removed last, with a sync of the folder in between.
 *        So a Parquet file without its delete file is damage, unless another segment covers it, and
 *        a delete file alone is an orphan (index/folder-segments.ts). Removed files are gone for
 *        good before the pool's next segment exists, and before the removal is answered.
 */
import { dirname, join } from 'node:path'
import { crc32 } from '../../util/crc32.ts'
import { type Disk, isDiskError, syncFolder, writeDurably } from '../../util/disk.ts'
import { crashPoint } from '../../util/fault-injection.ts'
import { deleteFile, segmentFile } from '../../util/paths.ts'
import type { Removal } from '../flush/segment-writer.ts'

/** The files of one segment, in memory. A file that the segment does not have is undefined. */
interface SegmentFiles {
  readonly parquet: Uint8Array | undefined
  readonly deletes: Uint8Array | undefined
}

/**
 * Makes both files durable under their names in `folder`, which is created if missing.
 * After a failure only files that orphan removal finds are left; throws Node's error.
 */
export function publishSegment(on: Disk, folder: string, segment: number, files: SegmentFiles): void {
  const names = namesOf(folder, segment)
  const parts = [files.deletes, files.parquet]
  try {
    makeRoom(on, folder, segment)
    parts.forEach((bytes, i) => {
      if (bytes !== undefined) writeDurably(on, `${names[i]}.tmp`, [bytes], 'the cache')
    })
    giveNames(
      on,
      folder,
      names.filter((_, i) => parts[i] !== undefined),
    )
  } catch (error) {
    tryRemove(on, folder, segment)
    throw error
  }
}

/** The files of one segment; the Parquet file is copied from another place, in pieces. */
interface SegmentPieces {
  /**
   * Reads the file's bytes from `position` on into `into` and returns their number; 0 at the end.
   */
  readonly parquet: ((into: Uint8Array, position: number) => number) | undefined
  readonly deletes: Uint8Array | undefined
}

/** The bytes of both files, and the CRC-32 of the Parquet file or null where there is none. */
interface Published {
  readonly bytes: number
  readonly checksum: number | null
}

/**
 * Works as publishSegment, and awaits `rest` after each piece of `pieceBytes`, which is synced by
 * then. An error of `rest` cancels the publication.
 */
export async function publishInPieces(
  on: Disk,
  folder: string,
  segment: number,
  files: SegmentPieces,
  pieceBytes: number,
  rest: (bytes: number) => Promise<void>,
): Promise<Published> {
  const names = namesOf(folder, segment)
  const made: string[] = []
  let total = 0
  let checksum: number | null = null
  try {
    makeRoom(on, folder, segment)
    const [deletes, parquet] = names as [string, string]
    if (files.deletes !== undefined) {
      writeDurably(on, `${deletes}.tmp`, [files.deletes])
      made.push(deletes)
      total += files.deletes.byteLength
      await rest(files.deletes.byteLength)
    }
    if (files.parquet !== undefined) {
      const copied = await copyDurably(on, `${parquet}.tmp`, files.parquet, pieceBytes, rest)
      total += copied.bytes
      checksum = copied.checksum
      made.push(parquet)
    }
    giveNames(on, folder, made)
    return { bytes: total, checksum }
  } catch (error) {
    tryRemove(on, folder, segment)
    throw error
  }
}

async function copyDurably(
  on: Disk,
  path: string,
  read: (into: Uint8Array, position: number) => number,
  pieceBytes: number,
  rest: (bytes: number) => Promise<void>,
): Promise<{ bytes: number; checksum: number }> {
  const piece = new Uint8Array(pieceBytes)
  const file = on.open(path, 'w')
  try {
    let checksum = 0
    for (let position = 0; ; ) {
      const bytes = read(piece, position)
      if (bytes === 0) return { bytes: position, checksum }
      on.write(file, [piece.subarray(0, bytes)], position)
      on.fdatasync(file)
      checksum = crc32(piece.subarray(0, bytes), checksum)
      position += bytes
      await rest(bytes)
    }
  } finally {
    on.close(file)
  }
}

/** Delete file first. */
function namesOf(folder: string, segment: number): string[] {
  return [deleteFile(segment), segmentFile(segment)].map(name => join(folder, name))
}

/** Removes files of an earlier process with this number. No transaction names them. */
function makeRoom(on: Disk, folder: string, segment: number): void {
  makeFolder(on, folder)
  if (namesOf(folder, segment).some(name => on.exists(name))) unlinkSegments(on, folder, [segment])
}

/** Renames the files, with a sync for each: only a segment that has both files pays for two. */
function giveNames(on: Disk, folder: string, names: readonly string[]): void {
  for (const name of names) {
    on.rename(`${name}.tmp`, name)
    crashPoint('segment.renamed')
    syncFolder(on, folder)
  }
  crashPoint('segment.durable')
}

/**
 * Removes the files of obsolete segments. A missing file is not an error. When it returns, they are
 * gone for good, those included that an earlier attempt removed without a sync. Throws Node's
 * error; then some files may be left, and the caller may try again.
 */
export function unlinkSegments(on: Disk, folder: string, segments: readonly number[]): void {
  const error = unlinkEverywhere(on, new Map([[folder, segments]])).get(folder)
  if (error !== undefined) throw error
}

/**
 * Removes segments in several folders at once. The first sync writes the journal's transaction for
 * all of them, and the others find it written. Returns Node's error for each folder where the disk
 * refused.
 */
function unlinkEverywhere(
  on: Disk,
  segmentsByFolder: ReadonlyMap<string, readonly number[]>,
): Map<string, Error> {
  const failed = new Map<string, Error>()
  const inEach = (folders: readonly string[], work: (folder: string) => void) => {
    for (const folder of folders) if (!failed.has(folder)) collect(failed, folder, () => work(folder))
  }
  // A file that cannot be removed does not stop the others, but it keeps the folder's delete files.
  const unlink = (folder: string, nameOf: (segment: number) => string) => {
    for (const segment of segmentsByFolder.get(folder) ?? []) {
      const path = join(folder, nameOf(segment))
      collect(failed, folder, () => on.exists(path) && on.unlink(path))
    }
  }
  const there = [...segmentsByFolder]
    .filter(([folder, segments]) => segments.length > 0 && on.exists(folder))
    .map(([folder]) => folder)
  inEach(there, folder => unlink(folder, segmentFile))
  inEach(there, folder => syncFolder(on, folder))
  const withDeletes = there.filter(folder =>
    (segmentsByFolder.get(folder) ?? []).some(segment => on.exists(join(folder, deleteFile(segment)))),
  )
  inEach(withDeletes, folder => unlink(folder, deleteFile))
  inEach(withDeletes, folder => syncFolder(on, folder))
  return failed
}

interface WaitingRemoval extends Removal {
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/**
 * Removals in the segment thread. Those that wait behind the same flushes are made together, so
 * that thousands of pools do not need a sync each. A flush never overtakes a removal in its own
 * folder.
 */
export class Unlinks {
  readonly #disk: Disk
  readonly #onUnlinked: (removal: Removal) => void
  #waiting: WaitingRemoval[] = []

  /** @param onUnlinked called as soon as the segments of a removal are gone for good */
  constructor(disk: Disk, onUnlinked: (removal: Removal) => void) {
    this.#disk = disk
    this.#onUnlinked = onUnlinked
  }

  /**
   * Queues a removal. It is made when no message is left in the port, or by `run`. Resolves when
   * the segments are gone for good; rejects with Node's error where the disk refuses.
   */
  add({ folder, segments }: Removal): Promise<void> {
    if (this.#waiting.length === 0) setImmediate(() => this.run())
    return new Promise((resolve, reject) => {
      this.#waiting.push({ folder, segments, resolve, reject })
    })
  }

  /** Makes the queued removals of one folder now, or all of them. */
  run(folder?: string): void {
    const now = this.#waiting.filter(one => folder === undefined || one.folder === folder)
    if (now.length === 0) return
    this.#waiting = this.#waiting.filter(one => !now.includes(one))
    const segments = new Map<string, number[]>()
    for (const one of now) segments.set(one.folder, [...(segments.get(one.folder) ?? []), ...one.segments])
    const failed = unlinkEverywhere(this.#disk, segments)
    for (const one of now) {
      const error = failed.get(one.folder)
      if (error !== undefined) one.reject(error)
      else {
        this.#onUnlinked(one)
        one.resolve()
      }
    }
  }
}

/** Collects errors of the disk. Any other error is a bug and is thrown. */
function collect(failed: Map<string, Error>, folder: string, work: () => unknown): void {
  try {
    work()
  } catch (error) {
    if (!isDiskError(error)) throw error
    if (!failed.has(folder)) failed.set(folder, error)
  }
}

function makeFolder(on: Disk, folder: string): void {
  if (on.exists(folder)) return
  const parent = dirname(folder)
  const isParentNew = !on.exists(parent)
  on.mkdir(folder)
  syncFolder(on, parent)
  if (isParentNew) syncFolder(on, dirname(parent))
}

/**
 * Cleans up after a failure, whose error is the one that counts. Files that stay are removed before
 * the pool's next segment is written (by the flush pipeline or by compaction), or by orphan
 * removal.
 */
function tryRemove(on: Disk, folder: string, segment: number): void {
  for (const name of namesOf(folder, segment))
    tryTo(() => on.exists(`${name}.tmp`) && on.unlink(`${name}.tmp`))
  tryTo(() => unlinkSegments(on, folder, [segment]))
}

function tryTo(work: () => void): void {
  try {
    work()
  } catch (error) {
    // The caller's error already says that the disk refuses.
    if (!isDiskError(error)) throw error
  }
}
