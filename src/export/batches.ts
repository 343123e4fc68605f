/**
 * A temporary file of Arrow record batches, one read at a time. The file loses its name as soon as it is open, so that
 * nothing is left behind however this ends.
 *
 *   W-9  One message is in memory, which the copy bounded (query/record-batch.ts).
 */
import { MessageHeader } from 'apache-arrow'
import { Message, type RecordBatch } from 'apache-arrow/ipc/metadata/message'
import { Damaged } from '../errors.ts'
import { MESSAGE_HEAD_BYTES, metadataBytes } from '../util/arrow-frame.ts'
import { type Disk, disk, type FileHandle } from '../util/disk.ts'
import type { BatchSource, CopiedFile } from './protocol.ts'

/** Opens a copy, on a thread that may wait for the disk. */
export async function openBatches(copied: CopiedFile): Promise<BatchSource> {
  return new Batches(disk, copied)
}

class Batches implements BatchSource {
  readonly #disk: Disk
  readonly #copied: CopiedFile
  readonly #bytes: number
  readonly #file: FileHandle
  #position = 0
  #rows = 0
  /** Of the last batch; empty where it was moved away. */
  #room = new ArrayBuffer(0)

  constructor(on: Disk, copied: CopiedFile) {
    this.#disk = on
    this.#copied = copied
    try {
      this.#bytes = on.size(copied.file)
      this.#file = on.open(copied.file, 'r')
    } finally {
      on.unlink(copied.file)
    }
  }

  /** Rejects with Damaged naming the file where it does not hold what was copied. */
  async next(room?: ArrayBuffer): Promise<Uint8Array | undefined> {
    if (room !== undefined) this.#room = room
    if (this.#position === this.#bytes) {
      if (this.#rows !== this.#copied.rows)
        throw this.#damaged(`it has ${this.#rows} rows, ${this.#copied.rows} were copied`)
      return undefined
    }
    const length = this.#messageBytes()
    if (this.#room.byteLength < length) this.#room = new ArrayBuffer(Math.ceil(length * 1.125))
    const message = this.#read(this.#position, new Uint8Array(this.#room, 0, length))
    this.#position += length
    return message
  }

  async close(): Promise<void> {
    this.#disk.close(this.#file)
  }

  /** Of the message at the position, all of which the file must hold. Counts its rows. */
  #messageBytes(): number {
    const at = this.#position
    const told = metadataBytes(this.#read(at, new Uint8Array(MESSAGE_HEAD_BYTES)))
    if (told === undefined) throw this.#damaged('no record batch begins here')
    const metadataAt = at + MESSAGE_HEAD_BYTES
    const length = this.#within(metadataAt, told)
    const { rows, bytes } = this.#describe(this.#read(metadataAt, new Uint8Array(length)))
    this.#rows += rows
    return this.#within(at, MESSAGE_HEAD_BYTES + length + bytes)
  }

  #describe(metadata: Uint8Array): { readonly rows: number; readonly bytes: number } {
    try {
      const message = Message.decode(metadata)
      if (message.headerType !== MessageHeader.RecordBatch) throw new Error('another message')
      return { rows: Number((message.header() as RecordBatch).length), bytes: Number(message.bodyLength) }
    } catch (error) {
      throw this.#damaged(`it is no record batch: ${(error as Error).message}`)
    }
  }

  /** `length`, of bytes that the file must have at `from`. */
  #within(from: number, length: number): number {
    if (!(length >= 0 && from + length <= this.#bytes)) throw this.#damaged('a record batch is cut short')
    return length
  }

  #read(from: number, into: Uint8Array): Uint8Array {
    let at = 0
    while (at < into.byteLength) {
      const read = this.#disk.read(this.#file, into.subarray(at), from + at)
      if (read === 0) throw this.#damaged('it ends early')
      at += read
    }
    return into
  }

  #damaged(what: string): Damaged {
    return new Damaged(this.#copied.file, this.#position, what)
  }
}
