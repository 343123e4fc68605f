/**
 * A log file: its name, its header, and how an empty one is made. See FORMAT.md for the bytes.
 *
 * W-2: each header carries a random salt with which every record checksum of the file begins, so that records
 * of a recycled file's former life never validate, and no client can forge one inside a body.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Damaged } from '../errors.ts'
import { assert } from '../util/assert.ts'
import { type Disk, syncFolder } from '../util/disk.ts'
import { readU64, writeU64 } from './record.ts'

const FILE_MAGIC = 0x474f4c57 // 'WLOG'
/** Version of the file and of the records in it. 1: the first. */
const FILE_VERSION = 1
const HEADER_USED_BYTES = 64
/** The header has a page to itself, so that no record shares a sector with it. */
export const FILE_HEADER_BYTES = 4096
/** Room that no group takes: the clean-stop mark always fits. */
export const STOP_RESERVE_BYTES = 64
/** Bytes of one write while zero-filling. */
const FILL_BYTES = 4 * 1024 * 1024

/** What a log file says of itself. */
export interface FileHeader {
  readonly salt: number
  /** Grows by one at least with each start. */
  readonly epoch: number
  /** Index of the file in its epoch, from 0. */
  readonly position: number
  /** Sequence of the first record that is or will be in it. */
  readonly firstSequence: number
  /** Size of the whole file. A shorter one on disk is damage. */
  readonly fileBytes: number
}

/** A salt that nothing outside this process can know. */
export function randomSalt(): number {
  return randomBytes(4).readUInt32LE()
}

/** The first FILE_HEADER_BYTES of a log file. */
export function encodeFileHeader(header: FileHeader): Uint8Array {
  const bytes = new Uint8Array(FILE_HEADER_BYTES)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, FILE_MAGIC, true)
  view.setUint32(8, FILE_VERSION, true)
  view.setUint32(12, header.salt, true)
  writeU64(view, 16, header.epoch)
  writeU64(view, 24, header.position)
  writeU64(view, 32, header.firstSequence)
  writeU64(view, 40, header.fileBytes)
  view.setUint32(4, crc32(bytes.subarray(8, HEADER_USED_BYTES)), true)
  return bytes
}

/** The header at the start of `bytes`. Throws Damaged naming `path`. */
export function decodeFileHeader(bytes: Uint8Array, path: string): FileHeader {
  if (bytes.byteLength < FILE_HEADER_BYTES) {
    throw new Damaged(path, bytes.byteLength, `a log file has a header of ${FILE_HEADER_BYTES} bytes`)
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_USED_BYTES)
  const checksum = crc32(bytes.subarray(8, HEADER_USED_BYTES))
  if (view.getUint32(0, true) !== FILE_MAGIC || view.getUint32(4, true) !== checksum) {
    throw new Damaged(path, 0, 'the log file header does not validate')
  }
  const version = view.getUint32(8, true)
  if (version !== FILE_VERSION) throw new Damaged(path, 8, `log version ${version}, not ${FILE_VERSION}`)
  return {
    salt: view.getUint32(12, true),
    epoch: readU64(view, 16),
    position: readU64(view, 24),
    firstSequence: readU64(view, 32),
    fileBytes: readU64(view, 40),
  }
}

/** `00000003-00000012.log`: position 12 of epoch 3. */
export function logFileName(epoch: number, position: number): string {
  assert(epoch < 1e8 && position < 1e8, 'epoch and position have eight digits')
  return `${String(epoch).padStart(8, '0')}-${String(position).padStart(8, '0')}.log`
}

/** `spare-7.log`: empty, zero-filled or recycled. */
export function spareFileName(number: number): string {
  return `spare-${number}.log`
}

/** A file of an epoch in the log folder. */
export interface NamedFile {
  readonly name: string
  readonly epoch: number
  readonly position: number
}

/** What the log folder holds, told by the names alone. */
export interface FolderList {
  /** By epoch, then position. */
  readonly files: readonly NamedFile[]
  readonly spares: readonly string[]
  /** Unfinished files of a former life. */
  readonly temporary: readonly string[]
}

/** Sorts the names of the log folder. Names that are not ours are left alone. */
export function listFolder(disk: Disk, folder: string): FolderList {
  const files: NamedFile[] = []
  const spares: string[] = []
  const temporary: string[] = []
  for (const name of disk.readdir(folder)) {
    const match = /^(\d{8})-(\d{8})\.log$/.exec(name)
    if (match !== null) files.push({ name, epoch: Number(match[1]), position: Number(match[2]) })
    else if (/^spare-\d+\.log$/.test(name)) spares.push(name)
    else if (name.endsWith('.tmp')) temporary.push(name)
  }
  files.sort((a, b) => a.epoch - b.epoch || a.position - b.position)
  return { files, spares, temporary }
}

/** The number in a spare's name. */
export function numberOfSpare(name: string): number {
  return Number(/^spare-(\d+)\.log$/.exec(name)?.[1] ?? -1)
}

/**
 * Makes the spare `name`: zero-filled, synced, then renamed, so that a spare by name is always whole. Syncs piece
 * by piece and rests between pieces, because the log's own sync queues behind ours. Zeros and not
 * ftruncate or fallocate: only written blocks make the log's fdatasync cheap.
 * Errors are the disk's own; the unfinished file is removed before they are thrown.
 */
export async function makeSpare(
  disk: Disk,
  folder: string,
  name: string,
  fileBytes: number,
  rest: () => Promise<void>,
): Promise<void> {
  const path = join(folder, name)
  const temporary = `${path}.tmp`
  const zeros = new Uint8Array(Math.min(FILL_BYTES, fileBytes))
  try {
    const file = disk.open(temporary, 'w')
    try {
      for (let position = 0; position < fileBytes; position += zeros.byteLength) {
        disk.write(file, [zeros.subarray(0, Math.min(zeros.byteLength, fileBytes - position))], position)
        disk.fdatasync(file)
        await rest()
      }
    } finally {
      disk.close(file)
    }
    disk.rename(temporary, path)
    syncFolder(disk, folder)
  } catch (error) {
    // A full disk gets its blocks back. The first error is the one to report.
    if (disk.exists(temporary)) tryUnlink(disk, temporary)
    throw error
  }
}

/** Removes a file that nothing names; one that stays is removed at the next start. */
function tryUnlink(disk: Disk, path: string): void {
  try {
    disk.unlink(path)
  } catch {
    // The caller is reporting an error of the same disk already.
  }
}
