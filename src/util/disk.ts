/**
 * The one seam to the file system. Every write, rename and sync of the product goes through a
 * `Disk`, so that a test can record them, refuse them, or build the state after a power cut.
 *
 * Calls are synchronous: they run on threads of their own, never on the main thread under load
 * (W-11).
 */
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { asDamage, Damaged } from './errors.ts'
import { MiB } from './limits.ts'
import { tryNative } from './native.ts'

/** Bytes of a segment's file that is written past the page cache (docs/decisions/0021). */
export const DIRECT_WRITE_BYTES_MIN = 1 * MiB
/** Bytes of a file that is read as a whole. Log and delete files are much smaller. */
const WHOLE_FILE_BYTES_MAX = 2 * 1024 * MiB

/** An open file. */
export type FileHandle = number

/** The file system as Weir uses it. Errors are Node's own (`code`, `syscall`, `path`). */
export interface Disk {
  open(path: string, flags: string, mode?: number): FileHandle
  close(file: FileHandle): void
  /** Reads up to `into.byteLength` bytes at `position`; returns how many, 0 at the end. */
  read(file: FileHandle, into: Uint8Array, position: number): number
  /**
   * Writes all of `buffers` at `position`, going on after a short write.
   * @param past `the cache`: the bytes of a new file bypass the page cache (docs/decisions/0021)
   */
  write(file: FileHandle, buffers: readonly Uint8Array[], position: number, past?: 'the cache'): void
  /** The data, and the metadata needed to read it back. */
  fdatasync(file: FileHandle): void
  fsync(file: FileHandle): void
  truncate(file: FileHandle, bytes: number): void
  rename(from: string, to: string): void
  unlink(path: string): void
  mkdir(path: string): void
  rmdir(path: string): void
  readdir(path: string): string[]
  exists(path: string): boolean
  size(path: string): number
  /** The kind of an entry; undefined where there is none. It follows no symbolic link. */
  kind(path: string): FileKind | undefined
}

/** `other`: a symbolic link, a pipe, a socket or a device. */
export type FileKind = 'file' | 'folder' | 'other'

/** The real file system. */
export const disk: Disk = {
  open: (path, flags, mode = 0o600) => fs.openSync(path, flags === READ_PLAIN ? PLAIN_FLAGS : flags, mode),
  close: file => fs.closeSync(file),
  read: (file, into, position) => naming(file, () => fs.readSync(file, into, 0, into.byteLength, position)),
  write: (file, buffers, position, past) =>
    naming(file, () => {
      if (past === undefined) writeAll(file, buffers, position)
      else writePastCache(file, buffers, position)
    }),
  fdatasync: file => naming(file, () => fs.fdatasyncSync(file)),
  fsync: file => naming(file, () => fs.fsyncSync(file)),
  truncate: (file, bytes) => naming(file, () => fs.ftruncateSync(file, bytes)),
  rename: (from, to) => fs.renameSync(from, to),
  unlink: path => fs.unlinkSync(path),
  mkdir: makeFolder,
  rmdir: path => fs.rmdirSync(path),
  readdir: path => fs.readdirSync(path).sort(),
  exists: path => fs.existsSync(path),
  size: path => fs.statSync(path).size,
  kind: kindOf,
}

/** Flags of `open` in a folder that others fill: it follows no link and waits for no pipe. */
export const READ_PLAIN = 'r, plain'
const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants
const PLAIN_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK

function kindOf(path: string): FileKind | undefined {
  const found = tryLstat(path)
  if (found === undefined) return undefined
  if (found.isFile()) return 'file'
  return found.isDirectory() ? 'folder' : 'other'
}

function tryLstat(path: string): fs.Stats | undefined {
  try {
    return fs.lstatSync(path, { throwIfNoEntry: false })
  } catch (error) {
    // A file stands where the folder of the path would be.
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Adds the file to Node's errors of calls on open files: `EIO: i/o error, write`. */
function naming<T>(file: FileHandle, call: () => T): T {
  try {
    return call()
  } catch (error) {
    const failed = error as NodeJS.ErrnoException
    if (failed.path === undefined && isDiskError(failed)) {
      failed.path = pathOf(file)
      failed.message += ` '${failed.path}'`
    }
    throw error
  }
}

/** The path that an open file has now. */
function pathOf(file: FileHandle): string {
  try {
    return fs.readlinkSync(`/proc/self/fd/${file}`)
  } catch {
    return `file descriptor ${file}`
  }
}

/** IOV_MAX of Linux: one writev takes no more buffers. */
const WRITE_BUFFERS_MAX = 1024

/** Makes a folder and its parents. Node's `recursive` hangs below /proc. */
function makeFolder(path: string): void {
  if (fs.existsSync(path)) return
  const parent = dirname(path)
  if (parent !== path) makeFolder(parent)
  fs.mkdirSync(path, { mode: 0o700 })
}

function writeAll(file: FileHandle, buffers: readonly Uint8Array[], position: number): void {
  for (let from = 0; from < buffers.length; from += WRITE_BUFFERS_MAX) {
    let chunk = buffers.slice(from, from + WRITE_BUFFERS_MAX)
    while (chunk.length > 0) {
      const written = fs.writevSync(file, chunk, position)
      position += written
      chunk = dropBytes(chunk, written)
    }
  }
}

/** Writes a first buffer of DIRECT_WRITE_BYTES_MIN or more past the page cache. */
function writePastCache(file: FileHandle, buffers: readonly Uint8Array[], position: number): void {
  const [first] = buffers
  const isLarge = first !== undefined && position === 0 && first.byteLength >= DIRECT_WRITE_BYTES_MIN
  const written = isLarge ? writeDirect(file, first) : 0
  writeAll(file, dropBytes(buffers, written), position + written)
}

type WriteDirect = (file: number, bytes: Uint8Array) => number

let nativeWriteDirect: WriteDirect | undefined

/**
 * Writes `bytes` to the beginning of a new file past the page cache, where that is possible.
 * @returns how many bytes were written: a multiple of 4,096, or 0. The caller writes the rest
 */
export function writeDirect(file: number, bytes: Uint8Array): number {
  nativeWriteDirect ??= tryNative<{ readonly writeDirect: WriteDirect }>()?.writeDirect ?? (() => 0)
  return nativeWriteDirect(file, bytes)
}

/** `buffers` without their first `bytes` bytes. */
function dropBytes(buffers: readonly Uint8Array[], bytes: number): Uint8Array[] {
  const rest: Uint8Array[] = []
  for (const buffer of buffers) {
    if (bytes >= buffer.byteLength) bytes -= buffer.byteLength
    else {
      rest.push(bytes === 0 ? buffer : buffer.subarray(bytes))
      bytes = 0
    }
  }
  return rest
}

/** True for an error of the file system. Only those have a `syscall`. */
export function isDiskError(error: unknown): error is NodeJS.ErrnoException {
  return (error as NodeJS.ErrnoException).syscall !== undefined
}

/** True when there is no file descriptor left. Nothing was opened; the caller may try again. */
export function isOutOfDescriptors(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException
  return code === 'EMFILE' || code === 'ENFILE'
}

/**
 * True when a write or a rename found no room on the disk or in the quota. A sync that fails so is
 * another case: nobody knows which bytes it lost.
 */
export function isOutOfRoom(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException
  return (code === 'ENOSPC' || code === 'EDQUOT') && syscall !== 'fdatasync' && syscall !== 'fsync'
}

/** Closes the file however the work with it ends. */
export function withFile<T>(on: Disk, path: string, flags: string, work: (file: FileHandle) => T): T {
  const file = on.open(path, flags)
  try {
    return work(file)
  } finally {
    on.close(file)
  }
}

/** Makes the names in a folder durable: those of new, renamed and removed files. */
export function syncFolder(on: Disk, path: string): void {
  withFile(on, path, 'r', folder => on.fsync(folder))
}

/** Makes the bytes of a file durable, whoever wrote them. */
export function syncFile(on: Disk, path: string): void {
  withFile(on, path, 'r', file => on.fdatasync(file))
}

/** Removes a folder and its files, if it exists. The next sync of its parent makes that durable. */
export function removeFolder(on: Disk, folder: string): void {
  if (!on.exists(folder)) return
  for (const name of on.readdir(folder)) on.unlink(join(folder, name))
  on.rmdir(folder)
}

/**
 * Publishes a file in four steps: write beside it, sync, rename, sync the folder. After a crash the
 * folder has the old file or the new one.
 */
export function replaceFile(on: Disk, path: string, bytes: readonly Uint8Array[]): void {
  writeDurably(on, `${path}.tmp`, bytes)
  on.rename(`${path}.tmp`, path)
  syncFolder(on, dirname(path))
}

/** Writes a new file and syncs it. Its name is durable only after a folder sync. */
export function writeDurably(on: Disk, path: string, bytes: readonly Uint8Array[], past?: 'the cache'): void {
  withFile(on, path, 'w', file => {
    on.write(file, bytes, 0, past)
    on.fdatasync(file)
  })
}

/** The whole file. Throws Damaged where the disk cannot read it, else Node's error. */
export function readFile(on: Disk, path: string): Uint8Array {
  const size = on.size(path)
  if (size > WHOLE_FILE_BYTES_MAX)
    throw new Damaged(
      path,
      0,
      `it has ${size} bytes; Weir writes no such file larger than ${WHOLE_FILE_BYTES_MAX}`,
    )
  const bytes = new Uint8Array(size)
  const file = on.open(path, 'r')
  try {
    let position = 0
    while (position < bytes.byteLength) {
      const read = on.read(file, bytes.subarray(position), position)
      if (read === 0) break
      position += read
    }
    return bytes.subarray(0, position)
  } catch (error) {
    throw asDamage(error, path)
  } finally {
    on.close(file)
  }
}

/** Bytes of one read in `readDamagedFile`: a page, which is no less than a disk's sector. */
const DAMAGED_READ_BYTES = 4096

/**
 * The whole file, zeros for unreadable pages, and the first unreadable place. Throws Node's error
 * where it cannot be opened.
 */
export function readDamagedFile(on: Disk, path: string): { bytes: Uint8Array; damage: Damaged | undefined } {
  try {
    return { bytes: readFile(on, path), damage: undefined }
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
  }
  const bytes = new Uint8Array(on.size(path))
  return withFile(on, path, 'r', file => {
    let damage: Damaged | undefined
    for (let position = 0; position < bytes.byteLength; position += DAMAGED_READ_BYTES) {
      const into = bytes.subarray(position, position + DAMAGED_READ_BYTES)
      try {
        on.read(file, into, position)
      } catch (error) {
        into.fill(0)
        damage ??= new Damaged(path, position, (error as Error).message)
      }
    }
    return { bytes, damage }
  })
}
