/**
 * The export thread: the schema message of an Arrow stream, and the record batches of temporary
 * files that the engine wrote, read one at a time.
 *
 * A temporary file is unlinked as soon as it is open, so that nothing is left behind, however the
 * export ends.
 *
 *   W-9  One message is in memory. record-batches.ts bounds its size.
 */
import type { MessagePort } from 'node:worker_threads'
import { MessageHeader } from 'apache-arrow'
import { Message, type RecordBatch } from 'apache-arrow/ipc/metadata/message'
import { MESSAGE_HEAD_BYTES, metadataBytes } from '../../format/arrow.ts'
import { disk, type FileHandle } from '../../util/disk.ts'
import { Damaged, must } from '../../util/errors.ts'
import { moved, serve } from '../../util/thread-server.ts'
import { hasTypes, schemaMessage, tableStream } from './arrow-schema.ts'
import { linesOf } from './export-formats.ts'
import {
  type BatchSource,
  type CopiedFile,
  copyFailed,
  type ExportCalls,
  type ExportText,
} from './export-stream.ts'
import { parquetPart } from './parquet-parts.ts'

export function serveExports(port: MessagePort): void {
  const open = new Map<number, BatchSource>()
  let files = 0
  const sourceOf = (file: number) => must(open.get(file), 'an open file')
  serve<ExportCalls>(port, {
    open: async ({ text, ...copied }) => {
      const source = text === undefined ? await openBatches(copied) : await openLines(copied, text)
      files += 1
      open.set(files, source)
      return files
    },
    next: async ({ file, room }) => {
      const bytes = await sourceOf(file).next(room)
      return moved(bytes, bytes === undefined ? [] : [bytes.buffer as ArrayBuffer])
    },
    close: async file => {
      const source = sourceOf(file)
      open.delete(file)
      await source.close()
    },
    schema: columns => new Uint8Array(schemaMessage(columns)),
    hasTypes: ({ schema, columns }) => hasTypes(schema, columns),
    lines: ({ batch, text: { format, columns } }) => {
      const bytes = linesOf(format, columns, batch)
      return moved(bytes, [bytes.buffer])
    },
    part: async of => {
      const part = await parquetPart(of)
      return moved(part, [part.bytes.buffer as ArrayBuffer])
    },
    table: table => {
      const bytes = new Uint8Array(tableStream(table))
      return moved(bytes, [bytes.buffer])
    },
  })
}

async function openLines(copied: CopiedFile, { format, columns }: ExportText): Promise<BatchSource> {
  const batches = await openBatches(copied)
  return {
    next: async () => {
      const batch = await batches.next()
      return batch === undefined ? undefined : linesOf(format, columns, batch)
    },
    close: () => batches.close(),
  }
}

/** Opens a copy. The calling thread waits for the disk. */
export async function openBatches(copied: CopiedFile): Promise<BatchSource> {
  return new Batches(copied)
}

class Batches implements BatchSource {
  readonly #copied: CopiedFile
  readonly #bytes: number
  readonly #file: FileHandle
  #position = 0
  #rows = 0
  /** The memory of the last batch; empty if it was moved away. */
  #room = new ArrayBuffer(0)

  constructor(copied: CopiedFile) {
    this.#copied = copied
    try {
      this.#bytes = disk.size(copied.file)
      this.#file = disk.open(copied.file, 'r')
    } finally {
      disk.unlink(copied.file)
    }
  }

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
    disk.close(this.#file)
  }

  /** The length of the next message, whose rows are counted. Throws if the file lacks a part. */
  #messageBytes(): number {
    const at = this.#position
    const metadataLength = metadataBytes(this.#read(at, new Uint8Array(MESSAGE_HEAD_BYTES)))
    if (metadataLength === undefined) throw this.#damaged('no record batch begins here')
    const metadataAt = at + MESSAGE_HEAD_BYTES
    const length = this.#checkLength(metadataAt, metadataLength)
    const { rows, bytes } = this.#describe(this.#read(metadataAt, new Uint8Array(length)))
    this.#rows += rows
    return this.#checkLength(at, MESSAGE_HEAD_BYTES + length + bytes)
  }

  #describe(metadata: Uint8Array): { readonly rows: number; readonly bytes: number } {
    try {
      const message = Message.decode(metadata)
      if (message.headerType !== MessageHeader.RecordBatch) throw new Error('another message')
      return { rows: Number((message.header() as RecordBatch).length), bytes: Number(message.bodyLength) }
    } catch (error) {
      throw this.#damaged(`this is not a record batch: ${(error as Error).message}`)
    }
  }

  /** Returns `length`. Throws if the file has fewer bytes at `from`. */
  #checkLength(from: number, length: number): number {
    if (!(length >= 0 && from + length <= this.#bytes)) throw this.#damaged('a record batch is cut short')
    return length
  }

  #read(from: number, into: Uint8Array): Uint8Array {
    let at = 0
    while (at < into.byteLength) {
      const read = this.#readSome(into.subarray(at), from + at)
      if (read === 0) throw this.#damaged('it ends early')
      at += read
    }
    return into
  }

  #readSome(into: Uint8Array, from: number): number {
    try {
      return disk.read(this.#file, into, from)
    } catch (error) {
      throw copyFailed(this.#copied.file, 'read', error)
    }
  }

  #damaged(what: string): Damaged {
    return new Damaged(this.#copied.file, this.#position, what)
  }
}
