/**
 * The real file system with a MemoryDisk beside it, which mirrors every change. Recovery, DuckDB
 * and LMDB get real files. At any moment the state that a power cut would leave can be taken and
 * written as real files.
 *
 *   onChange   called before each write, sync, create, rename, unlink, truncate, mkdir and rmdir of
 *              the folder
 *   cut        the folder as it may be after a power cut now, and LMDB's file as it is: LMDB is
 *              taken as it is
 *
 * Everything runs in one thread, and no call of a Disk comes inside an LMDB transaction. So at each
 * call LMDB's file has the synced transactions and nothing else. Its name is durable after a sync
 * of its folder; before, a cut keeps the file or not.
 */
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type Disk, type FileHandle, type FileKind, disk as real } from '../../src/util/disk.ts'
import { assert, must } from '../../src/util/errors.ts'
import { MemoryDisk } from './memory-disk.ts'
import type { Random } from './random.ts'

/** Files that only LMDB writes. */
const LMDB_FILES = /\/(data|lock)\.mdb$/

/** A folder after a power cut. Paths begin with "/". */
export interface CutState {
  readonly folders: readonly string[]
  readonly files: ReadonlyMap<string, Uint8Array>
}

interface Open {
  readonly path: string
  readonly real: FileHandle
  /** undefined for a file that the mirror does not follow. */
  readonly mirror: FileHandle | undefined
}

export class PowerDisk implements Disk {
  /** Called before a change, with its description. */
  onChange: (what: string) => void = () => {}
  readonly #root: string
  readonly #mirror = new MemoryDisk()
  readonly #open = new Map<FileHandle, Open>()
  /** Folders that were synced with LMDB's file in them: its name is durable. */
  readonly #lmdbNamed = new Set<string>()

  /** Mirrors `root`, a real folder. Everything in it counts as durable. */
  constructor(root: string) {
    this.#root = root
    this.#mirror.putFolder(root)
    load(this.#mirror, root)
    for (const path of this.#mirror.content().folders) this.#nameLmdb(path)
  }

  /**
   * The folder after a power cut now: paths are relative to the root. `lmdb`: folders whose data
   * file is copied where the cut keeps its name.
   */
  cut(random: Random, lmdb: readonly string[]): CutState {
    const after = this.#mirror.cut(random).content()
    const inside = (path: string) => path.startsWith(`${this.#root}/`)
    const relative = (path: string) => path.slice(this.#root.length)
    const folders = after.folders.filter(inside).map(relative)
    const files = new Map(
      [...after.files].filter(([path]) => inside(path)).map(([path, bytes]) => [relative(path), bytes]),
    )
    for (const folder of lmdb) {
      const path = join(folder, 'data.mdb')
      const isThere = this.#lmdbNamed.has(folder) || random() < 0.5
      if (folders.includes(relative(folder)) && isThere && real.exists(path))
        files.set(relative(path), readWhole(path))
    }
    return { folders, files }
  }

  /**
   * Checks this class itself: the mirror and the file system must have the same files.
   */
  verify(): void {
    for (const [path, bytes] of this.#mirror.content().files) {
      if (!path.startsWith(`${this.#root}/`)) continue
      const same = real.exists(path) && Buffer.compare(readFileSync(path), bytes) === 0
      assert(same, `the mirror of ${path} is its file`)
    }
  }

  open(path: string, flags: string, mode?: number): FileHandle {
    const changes = flags !== 'r' && (flags.startsWith('w') || !real.exists(path))
    if (changes && this.#follows(path)) this.onChange(`open ${path}`)
    const opened = real.open(path, flags, mode)
    const isFolder = statSync(path).isDirectory()
    const mirror = isFolder || this.#follows(path) ? this.#mirrored(path, flags, isFolder) : undefined
    // The file's own number: a lock of the open file works, too.
    this.#open.set(opened, { path, real: opened, mirror })
    return opened
  }

  close(file: FileHandle): void {
    const { real: opened, mirror } = this.#opened(file)
    this.#open.delete(file)
    if (mirror !== undefined) this.#mirror.close(mirror)
    real.close(opened)
  }

  read(file: FileHandle, into: Uint8Array, position: number): number {
    return real.read(this.#opened(file).real, into, position)
  }

  write(file: FileHandle, buffers: readonly Uint8Array[], position: number): void {
    this.#change(file, 'write', (on, handle) => on.write(handle, buffers, position))
  }

  /** The real file is not synced, because the machine's power stays on. */
  fdatasync(file: FileHandle): void {
    this.#change(file, 'fdatasync', (on, handle) => {
      if (on !== real) on.fdatasync(handle)
    })
  }

  fsync(file: FileHandle): void {
    this.#change(file, 'fsync', (on, handle) => {
      if (on !== real) on.fsync(handle)
    })
    this.#nameLmdb(this.#opened(file).path)
  }

  truncate(file: FileHandle, bytes: number): void {
    this.#change(file, 'truncate', (on, handle) => on.truncate(handle, bytes))
  }

  rename(from: string, to: string): void {
    this.onChange(`rename ${from} ${to}`)
    this.#adopt(from)
    this.#mirror.rename(from, to)
    real.rename(from, to)
  }

  unlink(path: string): void {
    this.onChange(`unlink ${path}`)
    if (this.#follows(path)) {
      this.#adopt(path)
      this.#mirror.unlink(path)
    }
    real.unlink(path)
  }

  mkdir(path: string): void {
    if (real.exists(path)) return
    this.onChange(`mkdir ${path}`)
    this.#mirror.mkdir(path)
    real.mkdir(path)
  }

  rmdir(path: string): void {
    this.onChange(`rmdir ${path}`)
    real.rmdir(path)
    this.#mirror.rmdir(path)
  }

  kind(path: string): FileKind | undefined {
    return real.kind(path)
  }

  readdir(path: string): string[] {
    return real.readdir(path)
  }

  exists(path: string): boolean {
    return real.exists(path)
  }

  size(path: string): number {
    return real.size(path)
  }

  #nameLmdb(folder: string): void {
    if (real.exists(join(folder, 'data.mdb'))) this.#lmdbNamed.add(folder)
  }

  #follows(path: string): boolean {
    return path.startsWith(`${this.#root}/`) && !LMDB_FILES.test(path)
  }

  #mirrored(path: string, flags: string, isFolder: boolean): FileHandle {
    if (isFolder && !this.#mirror.exists(path)) this.#mirror.mkdir(path)
    if (!isFolder && !flags.startsWith('w')) this.#adopt(path)
    return this.#mirror.open(path, flags)
  }

  /**
   * A file that others wrote (DuckDB's temporary one): neither its content nor its name is synced.
   */
  #adopt(path: string): void {
    if (this.#mirror.exists(path)) return
    if (!this.#mirror.exists(dirname(path))) this.#mirror.mkdir(dirname(path))
    const handle = this.#mirror.open(path, 'w')
    this.#mirror.write(handle, [readFileSync(path)], 0)
    this.#mirror.close(handle)
  }

  #opened(file: FileHandle): Open {
    return must(this.#open.get(file), 'an open file')
  }

  #change(file: FileHandle, what: string, work: (on: Disk, handle: FileHandle) => void): void {
    const { path, real: opened, mirror } = this.#opened(file)
    if (mirror !== undefined) {
      this.onChange(`${what} ${path}`)
      work(this.#mirror, mirror)
    }
    work(real, opened)
  }
}

function load(mirror: MemoryDisk, folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) {
      mirror.putFolder(path)
      load(mirror, path)
    } else if (!LMDB_FILES.test(path)) mirror.put(path, readFileSync(path))
  }
}

/** Reads LMDB's file in pieces, because it is sparse and large. */
function readWhole(path: string): Uint8Array {
  const bytes = new Uint8Array(statSync(path).size)
  const file = openSync(path, 'r')
  try {
    for (let at = 0; at < bytes.length; ) {
      const read = readSync(file, bytes, at, bytes.length - at, at)
      if (read === 0) break
      at += read
    }
  } finally {
    closeSync(file)
  }
  return bytes
}

/** Writes a state as files below `root`, an empty or missing folder. */
export function materialise(state: CutState, root: string): void {
  mkdirSync(root, { recursive: true })
  for (const folder of state.folders) mkdirSync(join(root, folder), { recursive: true })
  for (const [path, bytes] of state.files) {
    const file = openSync(join(root, path), 'w', 0o600)
    writeSync(file, bytes)
    closeSync(file)
  }
}
