/**
 * The files of the running generation, and the writing half of group commit: one group is numbered,
 * written in one piece and synced before it is answered. log-thread.ts drives the writer on the log
 * thread.
 *
 *   W-1   `write` returns only after the fdatasync that covers the group (durability `os`: after
 *         the write). A file gets its header, is synced, renamed and its folder synced before the
 *         first record goes into it.
 *   W-2   Records get their sequences here, in order and without gaps. The writer leaves a file
 *         only when everything in it is synced, so a torn tail stands in the newest file only.
 *   W-3   After one failed write or sync every later call throws. The writer checks this after the
 *         group has taken its turn, so no group that was queued before the failure gets past it.
 *         Two things are no such failure, because nothing of the group can be read back: no file
 *         descriptor is left, or the disk has no room for a write (decision 0057). A sync that
 *         finds no room is one.
 *   W-13  `sync` covers everything written, in both durability modes.
 *
 * The group field of a record is the first sequence that was not synced when the record was
 * written. With durability `fsync` it is the first sequence of the record's own group. With `os` it
 * reaches back to the last sync, so recovery knows which records may be missing together after a
 * power cut.
 */
import { join } from 'node:path'
import { align8 } from '../format/batch-layout.ts'
import { RECORD_HEADER_BYTES, RECORD_MARK_BYTES } from '../format/log-record.ts'
import { monotonicMs } from '../util/clock.ts'
import { type Disk, type FileHandle, isOutOfDescriptors, isOutOfRoom } from '../util/disk.ts'
import { assert, must, Unavailable } from '../util/errors.ts'
import { crashPoint } from '../util/fault-injection.ts'
import { GROUP_BYTES_MAX } from '../util/limits.ts'
import {
  encodeFileHeader,
  FILE_HEADER_BYTES,
  type LogFileHeader,
  logFileName,
  randomSalt,
  STOP_RESERVE_BYTES,
} from './log-folder.ts'
import type { Span } from './log-types.ts'
import { controlRecord, stampRun } from './record-codec.ts'

/** A file of the running generation. */
export interface GenerationFile {
  readonly position: number
  readonly firstSequence: number
}

/** Handles of a spare that is about to be used. Nothing on disk has changed. */
interface OpenedSpare {
  readonly name: string
  readonly handle: FileHandle
  readonly folder: FileHandle
}

interface OpenFile {
  readonly handle: FileHandle
  readonly header: LogFileHeader
  /** Offset of the next record. */
  end: number
}

/** Bytes that groups may take in a file of `fileBytes`. */
export function roomOfFile(fileBytes: number): number {
  return fileBytes - FILE_HEADER_BYTES - STOP_RESERVE_BYTES
}

export type Durability = 'fsync' | 'os'

/** Spans that are written together. A group without spans only syncs. */
export interface Group {
  readonly firstSequence: number
  readonly spans: readonly Span[]
  /** Sync in every durability mode (W-13). */
  readonly sync: boolean
}

export interface Written {
  readonly bytes: number
  /** Duration of writing and syncing the group. */
  readonly ms: number
  /** The file that the writer began for this group, with the former name of the spare. */
  readonly rolled: (GenerationFile & { readonly spare: string }) | undefined
}

/**
 * No file descriptor is left for the next file, or the disk has no room. No reader takes the group
 * for written, and its sequences may be given out again.
 */
export interface NoRoom {
  readonly noRoom: string
  readonly rolled: Written['rolled']
}

/** Bytes of a span in the log. */
export function spanBytes(span: Span): number {
  return span.bytes + (span.bits === undefined ? 0 : align8(span.bits.byteLength))
}

/**
 * The files of one generation, the last of them open for appending. Recovery's copy and the log
 * writer use it.
 */
export class Generation {
  readonly number: number
  readonly folder: string
  readonly #disk: Disk
  readonly #files: GenerationFile[] = []
  #open: OpenFile | undefined
  #dirty = false

  constructor(disk: Disk, folder: string, number: number) {
    this.#disk = disk
    this.folder = folder
    this.number = number
  }

  get files(): readonly GenerationFile[] {
    return this.#files
  }

  /** Salt of the open file. Record checksums begin with it. */
  get salt(): number {
    return must(this.#open, 'the open log file').header.salt
  }

  /** False before the first file, and after a write without room closed its file. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** True when something was written since the last sync. */
  get dirty(): boolean {
    return this.#dirty
  }

  /** True when `bytes` and the clean-stop record fit in the open file. */
  fits(bytes: number): boolean {
    if (this.#open === undefined) return false
    const { end, header } = this.#open
    return end + bytes + STOP_RESERVE_BYTES <= header.fileBytes
  }

  /**
   * Opens the handles that `roll` needs. Throws Node's error and changes nothing, so the caller may
   * try again.
   */
  open(name: string): OpenedSpare {
    const handle = this.#disk.open(join(this.folder, name), 'r+')
    try {
      return { name, handle, folder: this.#disk.open(this.folder, 'r') }
    } catch (error) {
      this.#disk.close(handle)
      throw error
    }
  }

  /**
   * Makes an opened spare the generation's next file, whatever its size. The spare is still one if
   * this throws before the file has its name.
   */
  roll({ name, handle, folder }: OpenedSpare, firstSequence: number): GenerationFile {
    this.close()
    const position = this.#files.length
    const from = join(this.folder, name)
    const header = {
      salt: randomSalt(),
      generation: this.number,
      position,
      firstSequence,
      fileBytes: this.#disk.size(from),
    }
    try {
      this.#disk.write(handle, [encodeFileHeader(header)], 0)
      this.#disk.fdatasync(handle)
      this.#disk.rename(from, join(this.folder, logFileName(this.number, position)))
    } catch (error) {
      this.#disk.close(handle)
      this.#disk.close(folder)
      throw error
    }
    this.#open = { handle, header, end: FILE_HEADER_BYTES }
    this.#disk.fsync(folder)
    this.#disk.close(folder)
    const file = { position, firstSequence }
    this.#files.push(file)
    return file
  }

  /**
   * Writes at the end of the open file. The caller has checked `fits`. Magic and checksum of the
   * first record come last, and no page ends between them: a write that fails before leaves no
   * record at that place.
   */
  append(buffers: readonly Uint8Array[], bytes: number): void {
    const open = must(this.#open, 'the open log file')
    assert(open.end + bytes <= open.header.fileBytes, 'appended bytes fit in the file')
    const [first, ...rest] = buffers
    const record = must(first, 'the first record')
    this.#dirty = true
    this.#disk.write(open.handle, [record.subarray(RECORD_MARK_BYTES), ...rest], open.end + RECORD_MARK_BYTES)
    this.#disk.write(open.handle, [record.subarray(0, RECORD_MARK_BYTES)], open.end)
    open.end += bytes
  }

  /**
   * Writes zeros to the spare `name`, as many as a group may have, and syncs them. Throws Node's
   * error where there is no descriptor or no room for a group in a new file.
   */
  tryRoom(name: string): void {
    const { handle, folder } = this.open(name)
    try {
      const zeros = new Uint8Array(FILE_HEADER_BYTES)
      const room = roomOfFile(this.#disk.size(join(this.folder, name)))
      const pages = Math.floor(Math.min(GROUP_BYTES_MAX, room) / zeros.byteLength)
      this.#disk.write(handle, new Array<Uint8Array>(pages).fill(zeros), 0)
      this.#disk.fdatasync(handle)
    } finally {
      this.#disk.close(handle)
      this.#disk.close(folder)
    }
  }

  /** Makes everything appended so far durable. */
  sync(): void {
    if (!this.#dirty || this.#open === undefined) return
    this.#disk.fdatasync(this.#open.handle)
    this.#dirty = false
  }

  close(): void {
    if (this.#open === undefined) return
    this.sync()
    this.#disk.close(this.#open.handle)
    this.#open = undefined
  }
}

export class LogWriter {
  readonly #generation: Generation
  readonly #durability: Durability
  readonly #spares: string[]
  #nextSequence: number
  #group = 0
  #poison: Unavailable | undefined

  constructor(
    generation: Generation,
    durability: Durability,
    nextSequence: number,
    spares: readonly string[],
  ) {
    this.#generation = generation
    this.#durability = durability
    this.#nextSequence = nextSequence
    this.#spares = [...spares]
  }

  /** Tells the writer the name of a new spare. */
  addSpare(name: string): void {
    this.#spares.push(name)
  }

  /**
   * Writes one group. `no_spare`: the group does not fit and there is no spare; nothing changed,
   * and the same group may come again, as after NoRoom. Throws Unavailable `log_refused` at the
   * first failure and ever after.
   */
  write(group: Group): Written | NoRoom | 'no_spare' {
    const begin = monotonicMs()
    this.#refusePoisoned()
    assert(group.firstSequence === this.#nextSequence, 'groups come in sequence order')
    const bytes = group.spans.reduce((sum, span) => sum + spanBytes(span), 0)
    const fits = bytes === 0 || this.#generation.fits(bytes)
    const spare = fits ? undefined : this.#spares[0]
    if (spare === undefined && !fits) return 'no_spare'
    return this.#guarded(() => {
      let rolled: Written['rolled']
      try {
        if (spare !== undefined) rolled = this.#roll(spare)
        assert(bytes === 0 || this.#generation.fits(bytes), 'a group fits in the next log file')
        if (group.spans.length > 0) this.#append(group.spans, bytes)
      } catch (error) {
        if (!isOutOfDescriptors(error) && !isOutOfRoom(error)) throw error
        return this.#giveUp(group, error, rolled)
      }
      if (this.#durability === 'fsync' || group.sync) this.#generation.sync()
      if (group.spans.length > 0) crashPoint('log.synced')
      return { bytes, ms: monotonicMs() - begin, rolled }
    })
  }

  /** Throws Node's error while the next file has no descriptor, or no room for a group. */
  tryRoom(): void {
    const spare = this.#spares[0]
    if (spare !== undefined) this.#generation.tryRoom(spare)
  }

  /**
   * Syncs everything, writes the clean-stop record and closes. Throws as `write` does. Without room
   * for the record the next start reads the log as after a crash.
   */
  stop(): void {
    this.#refusePoisoned()
    this.#guarded(() => {
      this.#generation.sync()
      if (!this.#generation.isOpen) return
      const sequence = this.#nextSequence
      const stop = controlRecord('stop', sequence, {
        sequence,
        group: sequence,
        salt: this.#generation.salt,
      })
      try {
        this.#generation.append([stop], RECORD_HEADER_BYTES)
      } catch (error) {
        if (!isOutOfRoom(error)) throw error
      }
      this.#nextSequence += 1
      this.#generation.close()
    })
  }

  #roll(spare: string): GenerationFile & { spare: string } {
    const file = this.#generation.roll(this.#generation.open(spare), this.#nextSequence)
    this.#spares.shift()
    crashPoint('log.rollover')
    return { ...file, spare }
  }

  /**
   * Takes a group back that had no room. Whole records of it may stand in the file behind the place
   * where its first record is missing. They would be valid there after records that come later, so
   * the next group begins a file of its own, with another salt.
   */
  #giveUp(group: Group, error: unknown, rolled: Written['rolled']): NoRoom {
    if (isOutOfRoom(error)) this.#generation.close()
    this.#nextSequence = group.firstSequence
    return { noRoom: (error as Error).message, rolled }
  }

  #append(spans: readonly Span[], bytes: number): void {
    if (!this.#generation.dirty) this.#group = this.#nextSequence
    const buffers: Uint8Array[] = []
    for (const span of spans) {
      const slab = new Uint8Array(span.slab)
      const stamp = { sequence: this.#nextSequence, group: this.#group, salt: this.#generation.salt }
      const { offset, bytes: runBytes, records } = span
      stampRun(slab, { offset, bytes: runBytes, records, bitsBytes: span.bits?.byteLength ?? 0 }, stamp)
      this.#nextSequence += span.records
      gather(buffers, slab.subarray(span.offset, span.offset + span.bytes))
      if (span.bits !== undefined) buffers.push(padded(span.bits))
    }
    this.#generation.append(buffers, bytes)
    crashPoint('log.written')
  }

  /** Runs one step of writing. A failure of the disk poisons the log. */
  #guarded<T>(step: () => T): T {
    try {
      return step()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      this.#poison = new Unavailable('log_refused', `the log takes no more writes until a restart: ${reason}`)
      throw this.#poison
    }
  }

  #refusePoisoned(): void {
    if (this.#poison !== undefined) throw this.#poison
  }
}

/** Adds `bytes`. Extends the last buffer where `bytes` directly follow it. */
function gather(buffers: Uint8Array[], bytes: Uint8Array): void {
  const last = buffers.at(-1)
  const isAdjacent = last?.buffer === bytes.buffer && last.byteOffset + last.byteLength === bytes.byteOffset
  if (last === undefined || !isAdjacent) buffers.push(bytes)
  else
    buffers[buffers.length - 1] = new Uint8Array(
      bytes.buffer,
      last.byteOffset,
      last.byteLength + bytes.byteLength,
    )
}

function padded(bits: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(align8(bits.byteLength))
  bytes.set(bits)
  return bytes
}
