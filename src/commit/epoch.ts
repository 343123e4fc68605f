/**
 * The files of the running epoch, one of them open for writing at its end. Both the recovery's copy and the
 * log writer put their bytes through here, so there is one place that takes a file into use.
 *
 * W-1, W-3: a file gets its header, is synced, renamed and its folder synced before the first record goes into
 * it. W-2: a file is left only when everything in it is synced, so a torn tail stands in the newest file only.
 */
import { join } from 'node:path'
import { assert, must } from '../util/assert.ts'
import { type Disk, type FileHandle, syncFolder } from '../util/disk.ts'
import {
  encodeFileHeader,
  FILE_HEADER_BYTES,
  type FileHeader,
  logFileName,
  randomSalt,
  STOP_RESERVE_BYTES,
} from './file.ts'

/** A file of the running epoch. */
export interface EpochFile {
  readonly position: number
  readonly firstSequence: number
}

interface OpenFile {
  readonly handle: FileHandle
  readonly header: FileHeader
  /** Where the next record goes. */
  end: number
}

/** The bytes that groups may take in a file of `fileBytes`. */
export function roomOfFile(fileBytes: number): number {
  return fileBytes - FILE_HEADER_BYTES - STOP_RESERVE_BYTES
}

export class Epoch {
  readonly epoch: number
  readonly folder: string
  readonly fileBytes: number
  readonly #disk: Disk
  readonly #files: EpochFile[] = []
  #open: OpenFile | undefined
  #dirty = false

  constructor(disk: Disk, folder: string, epoch: number, fileBytes: number) {
    this.#disk = disk
    this.folder = folder
    this.epoch = epoch
    this.fileBytes = fileBytes
  }

  get files(): readonly EpochFile[] {
    return this.#files
  }

  /** Salt of the open file: record checksums begin with it. */
  get salt(): number {
    return must(this.#open, 'the open log file').header.salt
  }

  /** Written since the last sync? */
  get dirty(): boolean {
    return this.#dirty
  }

  /** Do `bytes` fit in the open file beside the clean-stop mark? */
  fits(bytes: number): boolean {
    return this.#open !== undefined && this.#open.end + bytes + STOP_RESERVE_BYTES <= this.fileBytes
  }

  /** Takes the spare `name` (of exactly `fileBytes`) into use as the epoch's next file. */
  roll(name: string, firstSequence: number): EpochFile {
    this.close()
    const position = this.#files.length
    const from = join(this.folder, name)
    const header = {
      salt: randomSalt(),
      epoch: this.epoch,
      position,
      firstSequence,
      fileBytes: this.fileBytes,
    }
    assert(this.#disk.size(from) === this.fileBytes, 'a spare has the size of a log file')
    const handle = this.#disk.open(from, 'r+')
    this.#open = { handle, header, end: FILE_HEADER_BYTES }
    this.#disk.write(handle, [encodeFileHeader(header)], 0)
    this.#disk.fdatasync(handle)
    this.#disk.rename(from, join(this.folder, logFileName(this.epoch, position)))
    syncFolder(this.#disk, this.folder)
    const file = { position, firstSequence }
    this.#files.push(file)
    return file
  }

  /** Writes at the end of the open file. The caller has asked `fits`. */
  put(buffers: readonly Uint8Array[], bytes: number): void {
    const open = must(this.#open, 'the open log file')
    assert(open.end + bytes <= this.fileBytes, 'what is put fits in the file')
    this.#dirty = true
    this.#disk.write(open.handle, buffers, open.end)
    open.end += bytes
  }

  /** Makes everything put so far durable. */
  sync(): void {
    if (!this.#dirty || this.#open === undefined) return
    this.#disk.fdatasync(this.#open.handle)
    this.#dirty = false
  }

  /** Syncs and closes the open file. */
  close(): void {
    if (this.#open === undefined) return
    this.sync()
    this.#disk.close(this.#open.handle)
    this.#open = undefined
  }
}
