/**
 * The files of a segment get their names, and lose them.
 *
 *   W-5  Each is complete and synced, and so is its folder, before anybody hears of them.
 *   W-6  The delete file comes first and goes last, with a sync of the folder in between. So a Parquet file whose delete
 *        file is missing is damage, always; a delete file alone stands for nothing (keys/rebuild.ts).
 */
import { dirname, join } from 'node:path'
import { deleteFile, segmentFile } from '../paths.ts'
import { crashPoint } from '../util/crash.ts'
import { crc32 } from '../util/crc32.ts'
import { type Disk, syncFolder, writeDurably } from '../util/disk.ts'

/** The files of one segment, in memory; undefined: there is none. */
interface SegmentFiles {
  readonly parquet: Uint8Array | undefined
  readonly deletes: Uint8Array | undefined
}

/**
 * Makes both files durable under their names in `folder`, which is made if missing.
 * On a failure nothing of the segment is left but what the sweep removes; throws Node's error.
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

/** The files of one segment: the Parquet file is copied from another place, in pieces. */
interface SegmentPieces {
  /** Gives the file's bytes from `position` on, at most as many as `into` takes; 0 at the end. */
  readonly parquet: ((into: Uint8Array, position: number) => number) | undefined
  readonly deletes: Uint8Array | undefined
}

/** What was published: bytes of both files, and the CRC-32 of the Parquet file (null: there is none). */
interface Published {
  readonly bytes: number
  readonly checksum: number | null
}

/**
 * As publishSegment, with `rest` awaited after each piece of `pieceBytes`, which is synced by then. What `rest` throws
 * gives it up.
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

/** A file of an earlier life with this number was named by no transaction: it must not stand beside ours. */
function makeRoom(on: Disk, folder: string, segment: number): void {
  makeFolder(on, folder)
  if (namesOf(folder, segment).some(name => on.exists(name))) unlinkSegments(on, folder, [segment])
}

/** A sync for each: only a segment that has both files pays for two. */
function giveNames(on: Disk, folder: string, names: readonly string[]): void {
  for (const name of names) {
    on.rename(`${name}.tmp`, name)
    crashPoint('segment.renamed')
    syncFolder(on, folder)
  }
  crashPoint('segment.durable')
}

/**
 * Removes the files of segments that nothing names any more. A file that is not there is not an error. When it returns they
 * are gone for good, those too that an earlier try had removed without a sync. Throws Node's error; then some may be left,
 * and it can be tried again.
 */
export function unlinkSegments(on: Disk, folder: string, segments: readonly number[]): void {
  const error = unlinkEverywhere(on, new Map([[folder, segments]])).get(folder)
  if (error !== undefined) throw error
}

/**
 * The same in several folders at once: the first sync writes the journal's transaction for all, the others find it written.
 * Returns Node's error by folder for those where the disk refused.
 */
export function unlinkEverywhere(
  on: Disk,
  segmentsByFolder: ReadonlyMap<string, readonly number[]>,
): Map<string, Error> {
  const failed = new Map<string, Error>()
  const inEach = (folders: readonly string[], work: (folder: string) => void) => {
    for (const folder of folders) if (!failed.has(folder)) collect(failed, folder, () => work(folder))
  }
  // One that the disk refuses to remove does not keep the others; but then no delete file of its folder goes.
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

/** Only the disk may refuse; anything else is our own fault. */
function collect(failed: Map<string, Error>, folder: string, work: () => unknown): void {
  try {
    work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    if (!failed.has(folder)) failed.set(folder, error as Error)
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
 * After a failure: the first error is the one that counts. What stays is removed before the pool's next segment is
 * written (pipeline.ts, compact/scheduler-merge.ts), or by the sweep.
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
    // The disk refuses: the caller's error says so already.
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
  }
}
