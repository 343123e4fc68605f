/**
 * A Disk in memory that tells synced from unsynced data, for power cuts and injected faults.
 *
 *   cut(random)            the disk after a power cut: synced data stays, each unsynced sector of
 *                          512 bytes is written or not, each unsynced create, rename and unlink is
 *                          done or not, in order for one file
 *   failNext(op, code)     the next call of that operation throws `code` and does nothing
 *   limitBytes(n)          growing beyond n bytes in all throws ENOSPC
 *   stopAfter(n)           the nth change of the disk from now and every call after it throw
 *                          PowerCut
 *   calls                  the calls so far, as text
 *
 * Stricter than real file systems: fsync of a file does not make its name durable, only fsync of
 * the folder does. A new folder is durable after the fsync of its parent, and so is its removal. A
 * folder that is lost takes its content along.
 */
import { basename, dirname } from 'node:path'
import type { Disk, FileHandle } from '../../src/util/disk.ts'
import type { Random } from './random.ts'

const SECTOR_BYTES = 512

/** Thrown by every call after a power cut. */
export class PowerCut extends Error {
  override readonly name = 'PowerCut'
}

type DiskOperation = Exclude<keyof Disk, 'exists' | 'size'>

/** A change of a file's content since its last sync. */
type Change = { readonly position: number; readonly bytes: Uint8Array } | { readonly truncate: number }

class Inode {
  live: Buffer
  size: number
  synced: Buffer
  changes: Change[] = []
  /** The last name: after a rename, open handles are reported by the new one. */
  path = ''

  constructor(synced: Buffer) {
    this.live = Buffer.from(synced)
    this.size = synced.byteLength
    this.synced = synced
  }

  write(bytes: Uint8Array, position: number): void {
    const end = position + bytes.byteLength
    if (end > this.live.byteLength) {
      const grown = Buffer.alloc(Math.max(end, 2 * this.live.byteLength))
      this.live.copy(grown, 0, 0, this.size)
      this.live = grown
    }
    this.live.set(bytes, position)
    this.size = Math.max(this.size, end)
    this.changes.push({ position, bytes: Uint8Array.from(bytes) })
  }

  truncate(size: number): void {
    const kept = Buffer.alloc(size)
    this.live.copy(kept, 0, 0, Math.min(size, this.size))
    this.live = kept
    this.size = size
    this.changes.push({ truncate: size })
  }

  sync(): void {
    if (this.changes.length === 0) return
    this.synced = applied(this.synced, this.changes)
    this.changes = []
  }
}

/** One change of a folder since its last sync: a removed name and an added one. */
interface NameChange {
  readonly inode: Inode
  readonly from: string | undefined
  readonly to: string | undefined
}

interface OpenFile {
  readonly path: string
  readonly inode: Inode | undefined
  readonly writable: boolean
}

export class MemoryDisk implements Disk {
  /** `write /log/x 4096+64`, `fdatasync /log/x`, … in order. */
  readonly calls: string[] = []
  /** Called with each line of `calls`. */
  onCall: (call: string) => void = () => {}
  #live = new Map<string, Inode>()
  #durable = new Map<string, Inode>()
  /** The data folder exists from the start. */
  #folders = new Set<string>(['/', '/data'])
  #durableFolders = new Set<string>(['/', '/data'])
  #pending: NameChange[] = []
  #open = new Map<FileHandle, OpenFile>()
  #nextHandle = 3
  #faults: { operation: DiskOperation; code: string; path: RegExp }[] = []
  #limit = Number.POSITIVE_INFINITY
  #room: { readonly path: RegExp; left: number } | undefined
  #changesLeft = Number.POSITIVE_INFINITY
  /** The number of disk changes so far, which `stopAfter` counts. */
  changes = 0

  /** The next `operation` on a path that matches throws an error with `code`, once. */
  failNext(operation: DiskOperation, code: string, path = /./): void {
    this.#faults.push({ operation, code, path })
  }

  limitBytes(bytes: number): void {
    this.#limit = bytes
  }

  /**
   * Writes to paths that match take `bytes` more bytes in all, also where they overwrite, as on a
   * file system that copies on write. The write that finds too few is done up to the last place
   * before there that a page may end at, at a multiple of 8.
   */
  limitWrites(path: RegExp, bytes: number): void {
    this.#room = { path, left: bytes }
  }

  stopAfter(changes: number): void {
    this.#changesLeft = changes
  }

  /** Bytes of all files. */
  usedBytes(): number {
    let used = 0
    for (const inode of new Set(this.#live.values())) used += inode.size
    return used
  }

  /** A new disk: the state of this one after a power cut now. */
  cut(random: Random): MemoryDisk {
    const after = new MemoryDisk()
    const names = new Map(this.#durable)
    const stuck = new Set<Inode>()
    for (const change of this.#pending) {
      // The changes of one file are done in order: once one is lost, all later ones are lost.
      if (stuck.has(change.inode) || random() < 0.5) stuck.add(change.inode)
      else applyName(names, change)
    }
    const copies = new Map<Inode, Inode>()
    for (const [path, inode] of names) {
      const copy = copies.get(inode) ?? new Inode(torn(inode, random))
      copies.set(inode, copy)
      after.#durable.set(path, copy)
      after.#live.set(path, copy)
      copy.path = path
    }
    const folders = this.#cutFolders(random)
    for (const path of [...after.#live.keys()]) {
      if (folders.has(dirname(path))) continue
      after.#live.delete(path)
      after.#durable.delete(path)
    }
    for (const folder of folders) {
      after.#folders.add(folder)
      after.#durableFolders.add(folder)
    }
    return after
  }

  /**
   * The folders after a power cut. An unsynced creation or removal is done or not, with everything
   * below.
   */
  #cutFolders(random: Random): Set<string> {
    const kept = new Set<string>(['/'])
    for (const folder of [...new Set([...this.#folders, ...this.#durableFolders])].sort()) {
      const isSettled = this.#folders.has(folder) && this.#durableFolders.has(folder)
      if (kept.has(dirname(folder)) && (isSettled || random() < 0.5)) kept.add(folder)
    }
    return kept
  }

  /** Adds a durable file, and its folders. */
  put(path: string, bytes: Uint8Array): void {
    const inode = new Inode(Buffer.from(bytes))
    inode.path = path
    this.#live.set(path, inode)
    this.#durable.set(path, inode)
    this.putFolder(dirname(path))
  }

  /** Adds a durable folder, and its parents. */
  putFolder(path: string): void {
    for (let folder = path; folder !== '/'; folder = dirname(folder)) {
      this.#folders.add(folder)
      this.#durableFolders.add(folder)
    }
  }

  /** All folders, parents first, and all files with their bytes. */
  content(): { readonly folders: string[]; readonly files: ReadonlyMap<string, Uint8Array> } {
    const files = new Map<string, Uint8Array>()
    for (const [path, inode] of this.#live) files.set(path, inode.live.subarray(0, inode.size))
    return { folders: [...this.#folders].sort(), files }
  }

  /**
   * Returns a disk in the state after a kill of the process. Writes are not lost, and no further
   * write has become durable.
   */
  killed(): MemoryDisk {
    const after = new MemoryDisk()
    after.#live = this.#live
    after.#durable = this.#durable
    after.#folders = this.#folders
    after.#durableFolders = this.#durableFolders
    after.#pending = this.#pending
    return after
  }

  /** Flips bits of a byte, on the live and the synced side. */
  damage(path: string, offset: number, mask = 0xff): void {
    const inode = this.#inode(path, 'open')
    inode.sync()
    inode.live[offset]! ^= mask
    inode.synced[offset]! ^= mask
  }

  open(path: string, flags: string): FileHandle {
    const creates = flags.startsWith('w') || flags.startsWith('a')
    this.#call('open', path, flags, creates && !this.#live.has(path))
    const handle = this.#nextHandle++
    if (this.#folders.has(path)) {
      this.#open.set(handle, { path, inode: undefined, writable: false })
      return handle
    }
    if (creates && !this.#folders.has(dirname(path))) throw fault('ENOENT', 'open', path)
    if (creates && !this.#live.has(path))
      this.#rename({ inode: new Inode(Buffer.alloc(0)), from: undefined, to: path })
    const inode = this.#inode(path, 'open')
    if (flags.startsWith('w') && inode.size > 0) inode.truncate(0)
    this.#open.set(handle, { path, inode, writable: !flags.startsWith('r') || flags === 'r+' })
    return handle
  }

  close(file: FileHandle): void {
    this.#call('close', this.#opened(file).path, '', false)
    this.#open.delete(file)
  }

  read(file: FileHandle, into: Uint8Array, position: number): number {
    const { path } = this.#opened(file)
    this.#call('read', path, '', false)
    const inode = this.#content(file)
    const count = Math.max(0, Math.min(into.byteLength, inode.size - position))
    into.set(inode.live.subarray(position, position + count))
    return count
  }

  write(file: FileHandle, buffers: readonly Uint8Array[], position: number): void {
    const { path, writable } = this.#opened(file)
    const bytes = Buffer.concat(buffers)
    this.#call('write', path, `${position}+${bytes.byteLength}`, true)
    if (!writable) throw fault('EBADF', 'write', path)
    const inode = this.#content(file)
    const grown = Math.max(0, position + bytes.byteLength - inode.size)
    if (grown > 0 && this.usedBytes() + grown > this.#limit) throw fault('ENOSPC', 'write', path)
    const room = this.#room?.path.test(path) ? this.#room : undefined
    const left = room?.left ?? bytes.byteLength
    const taken = left >= bytes.byteLength ? bytes.byteLength : Math.max(0, left - ((position + left) % 8))
    if (taken > 0) inode.write(bytes.subarray(0, taken), position)
    if (room !== undefined) room.left -= taken
    if (taken < bytes.byteLength) throw fault('ENOSPC', 'write', path)
  }

  fdatasync(file: FileHandle): void {
    this.#call('fdatasync', this.#opened(file).path, '', true)
    this.#content(file).sync()
  }

  fsync(file: FileHandle): void {
    const { path, inode } = this.#opened(file)
    this.#call('fsync', path, '', true)
    if (inode !== undefined) inode.sync()
    else this.#syncNames(path)
  }

  truncate(file: FileHandle, bytes: number): void {
    this.#call('truncate', this.#opened(file).path, String(bytes), true)
    this.#content(file).truncate(bytes)
  }

  rename(from: string, to: string): void {
    this.#call('rename', from, basename(to), true)
    this.#rename({ inode: this.#inode(from, 'rename'), from, to })
  }

  unlink(path: string): void {
    this.#call('unlink', path, '', true)
    this.#rename({ inode: this.#inode(path, 'unlink'), from: path, to: undefined })
  }

  mkdir(path: string): void {
    this.#call('mkdir', path, '', true)
    for (let folder = path; folder !== '/' && folder !== '.'; folder = dirname(folder))
      this.#folders.add(folder)
  }

  rmdir(path: string): void {
    this.#call('rmdir', path, '', true)
    if (this.#names(path).length > 0) throw fault('ENOTEMPTY', 'rmdir', path)
    if (!this.#folders.delete(path)) throw fault('ENOENT', 'rmdir', path)
  }

  readdir(path: string): string[] {
    this.#call('readdir', path, '', false)
    if (!this.#folders.has(path)) throw fault('ENOENT', 'readdir', path)
    return this.#names(path)
  }

  kind(path: string): 'file' | 'folder' | undefined {
    if (!this.exists(path)) return undefined
    return this.#folders.has(path) ? 'folder' : 'file'
  }

  exists(path: string): boolean {
    return this.#folders.has(path) || this.#live.has(path)
  }

  size(path: string): number {
    return this.#inode(path, 'stat').size
  }

  #names(path: string): string[] {
    const all = [...this.#live.keys(), ...this.#folders]
    return all
      .filter(name => name !== path && dirname(name) === path)
      .map(name => basename(name))
      .sort()
  }

  #rename(change: NameChange): void {
    applyName(this.#live, change)
    if (change.to !== undefined) change.inode.path = change.to
    this.#pending.push(change)
  }

  /** A rename between folders counts once either folder is synced. */
  #syncNames(folder: string): void {
    const touches = (path: string | undefined) => path !== undefined && dirname(path) === folder
    const rest: NameChange[] = []
    for (const change of this.#pending) {
      if (touches(change.from) || touches(change.to)) applyName(this.#durable, change)
      else rest.push(change)
    }
    this.#pending = rest
    for (const each of this.#folders) if (dirname(each) === folder) this.#durableFolders.add(each)
    for (const each of this.#durableFolders)
      if (dirname(each) === folder && !this.#folders.has(each)) this.#durableFolders.delete(each)
  }

  #inode(path: string, syscall: string): Inode {
    const inode = this.#live.get(path)
    if (inode === undefined) throw fault('ENOENT', syscall, path)
    return inode
  }

  #opened(file: FileHandle): OpenFile {
    const open = this.#open.get(file)
    if (open === undefined) throw fault('EBADF', 'fd', String(file))
    return open.inode === undefined ? open : { ...open, path: open.inode.path }
  }

  #content(file: FileHandle): Inode {
    const { inode, path } = this.#opened(file)
    if (inode === undefined) throw fault('EISDIR', 'read', path)
    return inode
  }

  #call(operation: DiskOperation, path: string, what: string, changes: boolean): void {
    if (this.#changesLeft <= 0) throw new PowerCut('the power is gone')
    if (changes) {
      this.#changesLeft -= 1
      this.changes += 1
      if (this.#changesLeft <= 0) throw new PowerCut(`the power went at ${operation} ${path}`)
    }
    const line = what === '' ? `${operation} ${path}` : `${operation} ${path} ${what}`
    this.calls.push(line)
    this.onCall(line)
    const index = this.#faults.findIndex(each => each.operation === operation && each.path.test(path))
    if (index >= 0) throw fault(this.#faults.splice(index, 1)[0]!.code, operation, path)
  }
}

function applyName(names: Map<string, Inode>, change: NameChange): void {
  if (change.from !== undefined && names.get(change.from) === change.inode) names.delete(change.from)
  if (change.to !== undefined) names.set(change.to, change.inode)
}

function applied(content: Buffer, changes: readonly Change[]): Buffer {
  let size = content.byteLength
  for (const change of changes) size = 'truncate' in change ? change.truncate : endOf(size, change)
  let most = content.byteLength
  for (const change of changes)
    most = Math.max(most, 'truncate' in change ? change.truncate : endOf(0, change))
  if (most === size && most === content.byteLength && !changes.some(change => 'truncate' in change)) {
    for (const change of changes) if ('bytes' in change) content.set(change.bytes, change.position)
    return content
  }
  const after = Buffer.alloc(most)
  content.copy(after)
  for (const change of changes) {
    if ('truncate' in change) after.fill(0, change.truncate)
    else after.set(change.bytes, change.position)
  }
  return Buffer.from(after.subarray(0, size))
}

function endOf(size: number, change: { position: number; bytes: Uint8Array }): number {
  return Math.max(size, change.position + change.bytes.byteLength)
}

/** The synced content with some of the unsynced changes, torn at sectors. */
function torn(inode: Inode, random: Random): Buffer {
  // All of it was written back already, or nothing, or each sector by chance.
  const kind = random()
  const chance = kind < 0.2 ? 1 : kind < 0.4 ? 0 : random()
  const survivors: Change[] = []
  for (const change of inode.changes) {
    if ('truncate' in change) {
      if (random() < chance) survivors.push(change)
      continue
    }
    const end = change.position + change.bytes.byteLength
    for (let from = change.position; from < end; ) {
      const to = Math.min(end, (Math.floor(from / SECTOR_BYTES) + 1) * SECTOR_BYTES)
      const bytes = change.bytes.subarray(from - change.position, to - change.position)
      if (random() < chance) survivors.push({ position: from, bytes })
      from = to
    }
  }
  return applied(Buffer.from(inode.synced), survivors)
}

function fault(code: string, syscall: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${syscall} '${path}'`), { code, syscall, path })
}
