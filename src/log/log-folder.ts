/**
 * The files of the log folder: their names, the log header, the header of a log file, and how a
 * spare file is made. format/log.md shows the bytes.
 *
 * The log header (the file `head`) says where the log begins. Replacing it is the one atomic step
 * by which a new generation becomes the log (W-3) and by which old files leave the log (W-4, W-13).
 * Files of other generations, and files before the header's position, do not belong to the log,
 * whether they still exist or not.
 *
 * W-2: every log file has a random salt, and the checksum of each record begins with it, as in
 * SQLite's WAL. So the old records in a recycled file are invalid, and no client can forge a record
 * inside a body. A missing file from the header's position on is damage. Every sequence up to the
 * header's `lastSequence` was synced when the header was written, so a log that ends below it is
 * damaged, not torn.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { readU64, writeU64 } from '../format/log-record.ts'
import { type Disk, readFile, replaceFile, syncFolder } from '../util/disk.ts'
import { assert, Damaged } from '../util/errors.ts'
import { LOG_FILE_BYTES_MIN } from '../util/limits.ts'

const LOG_HEADER_MAGIC = 0x44484557 // 'WEHD'
const LOG_HEADER_VERSION = 1
const LOG_HEADER_BYTES = 40
const LOG_HEADER_NAME = 'head'

const FILE_MAGIC = 0x474f4c57 // 'WLOG'
/** Version of a log file and of its records; format/log.md has the history. */
const FILE_VERSION = 4
/** The oldest version that is read. */
const FILE_VERSION_MIN = 1
const FILE_HEADER_USED_BYTES = 64
/** The file header takes a whole page, so that no record shares a sector with it. */
export const FILE_HEADER_BYTES = 4096
/** Room that no group takes: the clean-stop record always fits. */
export const STOP_RESERVE_BYTES = 64
/** Bytes of one write while a spare file is zero-filled. */
const ZERO_FILL_BYTES = 4 * 1024 * 1024

/** Where the log begins. Generation 0 means that there has never been a log. */
export interface LogHeader {
  readonly generation: number
  /** Position of the generation's first file that belongs to the log. */
  readonly position: number
  /** Every sequence up to this one was synced when the header was written. */
  readonly lastSequence: number
}

export interface LogFileHeader {
  readonly salt: number
  /** Grows by at least one with each start. */
  readonly generation: number
  /** Index of the file in its generation, from 0. */
  readonly position: number
  /** Sequence of the first record in the file, written or not. */
  readonly firstSequence: number
  /** Size of the whole file. A shorter file on disk is damage. */
  readonly fileBytes: number
}

export function logHeaderPath(folder: string): string {
  return join(folder, LOG_HEADER_NAME)
}

/** Replaces the log header durably: a crash leaves the old one or the new one. */
export function writeLogHeader(disk: Disk, folder: string, header: LogHeader): void {
  const bytes = new Uint8Array(LOG_HEADER_BYTES)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, LOG_HEADER_MAGIC, true)
  view.setUint32(8, LOG_HEADER_VERSION, true)
  writeU64(view, 16, header.generation)
  writeU64(view, 24, header.position)
  writeU64(view, 32, header.lastSequence)
  view.setUint32(4, crc32(bytes.subarray(8)), true)
  replaceFile(disk, logHeaderPath(folder), [bytes])
}

/** The log header; undefined where the file does not exist. Throws Damaged. */
export function readLogHeader(disk: Disk, folder: string): LogHeader | undefined {
  const path = logHeaderPath(folder)
  if (!disk.exists(path)) return undefined
  const bytes = readFile(disk, path)
  if (bytes.byteLength !== LOG_HEADER_BYTES)
    throw new Damaged(path, bytes.byteLength, `the log header has ${LOG_HEADER_BYTES} bytes`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, LOG_HEADER_BYTES)
  if (view.getUint32(0, true) !== LOG_HEADER_MAGIC || view.getUint32(4, true) !== crc32(bytes.subarray(8)))
    throw new Damaged(path, 0, 'the checksum of the log header does not match')
  const version = view.getUint32(8, true)
  if (version !== LOG_HEADER_VERSION)
    throw new Damaged(path, 8, `log header version ${version}, not ${LOG_HEADER_VERSION}`)
  return { generation: readU64(view, 16), position: readU64(view, 24), lastSequence: readU64(view, 32) }
}

/** A salt that nothing outside this process can predict. */
export function randomSalt(): number {
  return randomBytes(4).readUInt32LE()
}

/** The first FILE_HEADER_BYTES bytes of a log file. */
export function encodeFileHeader(header: LogFileHeader): Uint8Array {
  const bytes = new Uint8Array(FILE_HEADER_BYTES)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, FILE_MAGIC, true)
  view.setUint32(8, FILE_VERSION, true)
  view.setUint32(12, header.salt, true)
  writeU64(view, 16, header.generation)
  writeU64(view, 24, header.position)
  writeU64(view, 32, header.firstSequence)
  writeU64(view, 40, header.fileBytes)
  view.setUint32(4, crc32(bytes.subarray(8, FILE_HEADER_USED_BYTES)), true)
  return bytes
}

/** The header at the start of `bytes`. Throws Damaged naming `path`. */
export function decodeFileHeader(bytes: Uint8Array, path: string): LogFileHeader {
  if (bytes.byteLength < FILE_HEADER_BYTES)
    throw new Damaged(path, bytes.byteLength, `a log file begins with a header of ${FILE_HEADER_BYTES} bytes`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, FILE_HEADER_USED_BYTES)
  const checksum = crc32(bytes.subarray(8, FILE_HEADER_USED_BYTES))
  if (view.getUint32(0, true) !== FILE_MAGIC || view.getUint32(4, true) !== checksum)
    throw new Damaged(
      path,
      0,
      'the checksum of the log file header does not match, so its records cannot be checked',
    )
  const version = view.getUint32(8, true)
  if (version < FILE_VERSION_MIN || version > FILE_VERSION)
    throw new Damaged(path, 8, `log version ${version}, not ${FILE_VERSION_MIN} to ${FILE_VERSION}`)
  return {
    salt: view.getUint32(12, true),
    generation: readU64(view, 16),
    position: readU64(view, 24),
    firstSequence: readU64(view, 32),
    fileBytes: readU64(view, 40),
  }
}

/** Bytes of the first files of a log whose largest file has `fileBytesMax`. */
export function firstFileBytes(fileBytesMax: number): number {
  return Math.min(LOG_FILE_BYTES_MIN, fileBytesMax)
}

/** A file without records, zero-filled or recycled. */
export interface Spare {
  readonly name: string
  readonly bytes: number
}

/** `00000003-00000012.log`: position 12 of generation 3. */
export function logFileName(generation: number, position: number): string {
  assert(generation < 1e8 && position < 1e8, 'generation and position have eight digits')
  return `${String(generation).padStart(8, '0')}-${String(position).padStart(8, '0')}.log`
}

/** The name of a spare, `spare-7.log`. */
export function spareFileName(number: number): string {
  return `spare-${number}.log`
}

/** The number in a spare's name, -1 for any other name. */
export function numberOfSpare(name: string): number {
  return Number(/^spare-(\d+)\.log$/.exec(name)?.[1] ?? -1)
}

/** A log file, as its name describes it. */
export interface NamedFile {
  readonly name: string
  readonly generation: number
  readonly position: number
}

/** The content of the log folder, by names alone. */
export interface FolderList {
  /** Sorted by generation, then position. */
  readonly files: readonly NamedFile[]
  readonly spares: readonly string[]
  /** Unfinished files of an earlier process. */
  readonly temporary: readonly string[]
}

/** Lists the log folder by kind of file; a missing folder is empty. Foreign names are ignored. */
export function listFolder(disk: Disk, folder: string): FolderList {
  const files: NamedFile[] = []
  const spares: string[] = []
  const temporary: string[] = []
  for (const name of disk.exists(folder) ? disk.readdir(folder) : []) {
    const match = /^(\d{8})-(\d{8})\.log$/.exec(name)
    if (match !== null) files.push({ name, generation: Number(match[1]), position: Number(match[2]) })
    else if (/^spare-\d+\.log$/.test(name)) spares.push(name)
    else if (name.endsWith('.tmp')) temporary.push(name)
  }
  files.sort((a, b) => a.generation - b.generation || a.position - b.position)
  return { files, spares, temporary }
}

/**
 * A log folder: its list and its header. The header is undefined where the folder is empty or
 * missing.
 */
export interface OpenedFolder {
  readonly list: FolderList
  readonly header: LogHeader | undefined
}

/**
 * Lists the log folder and reads its header. Throws Damaged where there are log files without a
 * header.
 */
export function readLogFolder(disk: Disk, folder: string): OpenedFolder {
  const list = listFolder(disk, folder)
  const header = readLogHeader(disk, folder)
  if (header === undefined && (list.files.length > 0 || list.spares.length > 0))
    throw new Damaged(logHeaderPath(folder), 0, 'the log header is missing, but there are log files')
  return { list, header }
}

/**
 * The files from the header's position on. Files of other generations, and older files, are left
 * out.
 */
export function filesOfLog(files: readonly NamedFile[], header: LogHeader): readonly NamedFile[] {
  return files.filter(file => file.generation === header.generation && file.position >= header.position)
}

/**
 * Makes a spare file: zero-filled, synced, then renamed, so that a file with a spare's name is
 * always complete. It syncs piece by piece and calls `rest` between pieces, because the
 * log's own sync queues behind these syncs. It writes zeros: fdatasync on the log is cheap only
 * where the blocks were written, which ftruncate and fallocate do not do. Throws the disk's own
 * errors, after it removed the unfinished file.
 */
export async function makeSpare(
  disk: Disk,
  folder: string,
  { name, bytes }: Spare,
  rest: () => Promise<void>,
): Promise<void> {
  const path = join(folder, name)
  const temporary = `${path}.tmp`
  const zeros = new Uint8Array(Math.min(ZERO_FILL_BYTES, bytes))
  try {
    const file = disk.open(temporary, 'w')
    try {
      for (let position = 0; position < bytes; position += zeros.byteLength) {
        disk.write(file, [zeros.subarray(0, Math.min(zeros.byteLength, bytes - position))], position)
        disk.fdatasync(file)
        await rest()
      }
    } finally {
      disk.close(file)
    }
    disk.rename(temporary, path)
    syncFolder(disk, folder)
  } catch (error) {
    if (disk.exists(temporary)) tryUnlink(disk, temporary) // a full disk gets its blocks back
    throw error
  }
}

/** Removes a file that nothing names. The next start removes the file if this fails. */
function tryUnlink(disk: Disk, path: string): void {
  try {
    disk.unlink(path)
  } catch {
    // The caller reports the first error of the same disk.
  }
}
