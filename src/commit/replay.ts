/**
 * Fills replay chunks: bodies and bitmaps of recovered records, copied into shared memory for the parse workers.
 * A chunk holds at most REPLAY_CHUNK_BYTES of them, or one record. While one is cut, the next one is filled.
 */
import { align8 } from '../batch/layout.ts'
import { REPLAY_CHUNK_BYTES } from '../limits.ts'
import { assert } from '../util/assert.ts'
import { bitmapBytes } from './checksum.ts'
import type { ReplayChunk, Replayed } from './protocol.ts'
import type { ReadRecord } from './read.ts'
import { RECORD_HEADER_BYTES } from './record.ts'
import { tableOf } from './replayed.ts'

export class ChunkFiller {
  readonly #replay: (chunk: ReplayChunk) => Promise<void>
  #records: Replayed[] = []
  #parts: Uint8Array[] = []
  #bytes = 0
  /** Rejects where the chunk under way could not be replayed. */
  #underWay: Promise<void> = Promise.resolve()

  constructor(replay: (chunk: ReplayChunk) => Promise<void>) {
    this.#replay = replay
  }

  /** Adds a post or delete; hands the chunk over first where this record does not fit. */
  async add(record: ReadRecord): Promise<void> {
    assert(record.kind === 'post' || record.kind === 'delete', 'only requests are replayed')
    const from = record.fileOffset + RECORD_HEADER_BYTES
    const bytes = record.recordBytes - RECORD_HEADER_BYTES
    if (this.#records.length > 0 && this.#bytes + bytes > REPLAY_CHUNK_BYTES) await this.#handOver()
    const { sequence, kind, pool, version, receivedAtMs, events, accepted, bodyBytes } = record
    const bitsOffset = record.hasBits ? this.#bytes + align8(bodyBytes) : -1
    const place = {
      offset: this.#bytes,
      bodyBytes,
      bitsOffset,
      file: record.file,
      fileOffset: record.fileOffset,
    }
    this.#records.push({ sequence, kind, pool, version, receivedAtMs, events, accepted, ...place })
    assert(!record.hasBits || bytes >= align8(bodyBytes) + bitmapBytes(events), 'a bitmap is in its record')
    // The file's bytes stay as they are until the next chunk: the copy changes headers only.
    this.#parts.push(record.bytes.subarray(from, from + bytes))
    this.#bytes += bytes
  }

  /** Hands over what there is; resolves when all is replayed. */
  async flush(): Promise<void> {
    if (this.#records.length > 0) await this.#handOver()
    await this.#underWay
  }

  /** One chunk is under way at a time: the tails take the records in order. */
  async #handOver(): Promise<void> {
    const slab = new SharedArrayBuffer(this.#bytes)
    const into = new Uint8Array(slab)
    for (let index = 0; index < this.#parts.length; index++) {
      into.set(this.#parts[index]!, this.#records[index]!.offset)
    }
    const { table, files } = tableOf(this.#records)
    this.#records = []
    this.#parts = []
    this.#bytes = 0
    await this.#underWay
    this.#underWay = this.#replay({ slab, table, files })
    this.#underWay.catch(() => undefined) // whoever waits for it next is told
  }
}
