/**
 * The one seam to the file system. Every write, rename and sync of the product goes through a `Disk`,
 * so that a test can record them, refuse them, or build the state after a power cut.
 *
 * Calls are synchronous: they run on threads of their own, never on the main thread under load (W-11).
 */
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { Damaged } from '../errors.ts'
import { DIRECT_WRITE_BYTES_MIN } from '../limits.ts'
import { writeDirect } from './direct.ts'
import { asDamage } from './lost.ts'

/** An open file. */
export type FileHandle = number

/** What Weir asks of a file system. Errors are Node's own (`code`, `syscall`, `path`). */
export interface Disk {
  open(path: string, flags: string, mode?: number): FileHandle
  close(file: FileHandle): void
  /** Reads up to `into.byteLength` bytes at `position`; returns how many, 0 at the end. */
  read(file: FileHandle, into: Uint8Array, position: number): number
  /**
   * Writes all of `buffers` at `position`, going on after a short write.
   * @param past `the cache`: the file is new, and is read late: large ones need no page of the cache (decision 0021)
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
}

/** The real one. */
export const disk: Disk = {
  open: (path, flags, mode = 0o600) => fs.openSync(path, flags, mode),
  close: file => fs.closeSync(file),
  read: (file, into, position) => fs.readSync(file, into, 0, into.byteLength, position),
  write: (file, buffers, position, past) => {
    if (past === undefined) writeAll(file, buffers, position)
    else writePastCache(file, buffers, position)
  },
  fdatasync: file => fs.fdatasyncSync(file),
  fsync: file => fs.fsyncSync(file),
  truncate: (file, bytes) => fs.ftruncateSync(file, bytes),
  rename: (from, to) => fs.renameSync(from, to),
  unlink: path => fs.unlinkSync(path),
  mkdir: makeFolder,
  rmdir: path => fs.rmdirSync(path),
  readdir: path => fs.readdirSync(path).sort(),
  exists: path => fs.existsSync(path),
  size: path => fs.statSync(path).size,
}

/** IOV_MAX of Linux: one writev takes no more buffers. */
const WRITE_BUFFERS_MAX = 1024

/** With its parents. Not Node's `recursive`, which tries for ever where a parent is there and refuses (/proc). */
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

/** Buffers of DIRECT_WRITE_BYTES_MIN or more at the beginning of a file, past the cache; the rest as usual. */
function writePastCache(file: FileHandle, buffers: readonly Uint8Array[], position: number): void {
  const [first] = buffers
  const isLarge = first !== undefined && position === 0 && first.byteLength >= DIRECT_WRITE_BYTES_MIN
  const written = isLarge ? writeDirect(file, first) : 0
  writeAll(file, dropBytes(buffers, written), position + written)
}

/** What is left of `buffers` after their first `bytes` bytes. */
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

/** Makes the names in a folder durable: a new, renamed or removed file survives a power cut after this. */
export function syncFolder(on: Disk, path: string): void {
  const folder = on.open(path, 'r')
  try {
    on.fsync(folder)
  } finally {
    on.close(folder)
  }
}

/** Makes what was written to a file durable, whoever wrote it. */
export function syncFile(on: Disk, path: string): void {
  const file = on.open(path, 'r')
  try {
    on.fdatasync(file)
  } finally {
    on.close(file)
  }
}

/** Removes a folder and the files in it, where it is there. Synced with its parent's next sync. */
export function removeFolder(on: Disk, folder: string): void {
  if (!on.exists(folder)) return
  for (const name of on.readdir(folder)) on.unlink(join(folder, name))
  on.rmdir(folder)
}

/**
 * Publishes a whole file in four steps: write beside it, sync, rename, sync the folder.
 * After a crash there is the old file or the new one, never a part.
 */
export function replaceFile(on: Disk, path: string, bytes: readonly Uint8Array[]): void {
  writeDurably(on, `${path}.tmp`, bytes)
  on.rename(`${path}.tmp`, path)
  syncFolder(on, dirname(path))
}

/** Writes a new file and syncs it; its name is durable only after a rename or folder sync. */
export function writeDurably(on: Disk, path: string, bytes: readonly Uint8Array[], past?: 'the cache'): void {
  const file = on.open(path, 'w')
  try {
    on.write(file, bytes, 0, past)
    on.fdatasync(file)
  } finally {
    on.close(file)
  }
}

/** The whole file. Throws Damaged naming it where its bytes cannot be read, else Node's error. */
export function readFile(on: Disk, path: string): Uint8Array {
  const bytes = new Uint8Array(on.size(path))
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

/** Zeros stand for as much as this around a place that cannot be read: a page, no less than any disk's sector. */
const LOST_BYTES = 4096

/** A file as far as its disk gives it. */
interface ReadAsCan {
  /** As long as the file; zeros for what cannot be read. */
  readonly bytes: Uint8Array
  /** The first place that cannot be read. */
  readonly damage: Damaged | undefined
}

/** The whole file as far as it can be read: for those who save the rest. Throws Node's error where it cannot be opened. */
export function readWhatCan(on: Disk, path: string): ReadAsCan {
  try {
    return { bytes: readFile(on, path), damage: undefined }
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
  }
  const bytes = new Uint8Array(on.size(path))
  const file = on.open(path, 'r')
  let damage: Damaged | undefined
  try {
    for (let position = 0; position < bytes.byteLength; position += LOST_BYTES) {
      const into = bytes.subarray(position, position + LOST_BYTES)
      try {
        on.read(file, into, position)
      } catch (error) {
        into.fill(0)
        damage ??= new Damaged(path, position, (error as Error).message)
      }
    }
    return { bytes, damage }
  } finally {
    on.close(file)
  }
}
