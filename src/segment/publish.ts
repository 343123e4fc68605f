/**
 * The files of a seal get their names. W-5: each is complete and synced, the delete file before the Parquet file,
 * and the folder is synced, before anybody hears of them.
 */
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { deleteFile, segmentFile } from '../paths.ts'
import { crashPoint } from '../util/crash.ts'
import { type Disk, syncFolder, writeDurably } from '../util/disk.ts'

/** The files of one segment, in memory; undefined: there is none. */
export interface SegmentFiles {
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
    makeRoom(on, folder, names)
    parts.forEach((bytes, i) => {
      if (bytes !== undefined) writeDurably(on, `${names[i]}.tmp`, [bytes])
    })
    giveNames(
      on,
      folder,
      names.filter((_, i) => parts[i] !== undefined),
    )
  } catch (error) {
    tryUnlinkAll(on, names)
    throw error
  }
}

/** The files of one segment: the Parquet file is copied from another place, in pieces. */
export interface SegmentPieces {
  /** Gives the file's bytes from `position` on, at most as many as `into` takes; 0 at the end. */
  readonly parquet: ((into: Uint8Array, position: number) => number) | undefined
  readonly deletes: Uint8Array | undefined
}

/** What was published: bytes of both files, and the CRC-32 of the Parquet file (null: there is none). */
export interface Published {
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
    makeRoom(on, folder, names)
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
    tryUnlinkAll(on, names)
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
function makeRoom(on: Disk, folder: string, names: readonly string[]): void {
  makeFolder(on, folder)
  for (const name of names) if (on.exists(name)) on.unlink(name)
}

function giveNames(on: Disk, folder: string, names: readonly string[]): void {
  for (const name of names) on.rename(`${name}.tmp`, name)
  crashPoint('segment.renamed')
  syncFolder(on, folder)
  crashPoint('segment.durable')
}

/** Removes the files of segments that nothing names any more. A file that is not there is not an error. */
export function unlinkSegments(on: Disk, folder: string, segments: readonly number[]): void {
  for (const segment of segments)
    for (const name of [segmentFile(segment), deleteFile(segment)]) {
      const path = join(folder, name)
      if (on.exists(path)) on.unlink(path)
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

function tryUnlinkAll(on: Disk, names: readonly string[]): void {
  for (const name of names) {
    tryUnlink(on, `${name}.tmp`)
    tryUnlink(on, name)
  }
}

/** After a failure: the first error is the one that counts, and the sweep takes what stays. */
function tryUnlink(on: Disk, path: string): void {
  try {
    if (on.exists(path)) on.unlink(path)
  } catch {
    // The disk refuses; the sweep removes the file later.
  }
}
