/**
 * Recovery's copy: the records that are still needed, written again into a new epoch (W-3).
 *
 * Same sequences, same bytes, new salt and checksums. A run of records that are sealed, or belong to a deleted
 * pool, or are marks, becomes one gap record, so the sequences of the new epoch have no hole either (W-2).
 * Nothing of it counts until the head names the epoch (recover.ts).
 */
import { assert } from '../util/assert.ts'
import { markRecord, sealHeader, viewOf } from './checksum.ts'
import type { Epoch } from './epoch.ts'
import type { ReadRecord } from './read.ts'
import { RECORD_HEADER_BYTES } from './record.ts'

/** Bytes gathered for one write. */
const COPY_BYTES = 1024 * 1024

/** Takes an empty file into use; returns its name in the log folder. */
type TakeSpare = () => Promise<string>

export class EpochCopy {
  readonly #epoch: Epoch
  readonly #take: TakeSpare
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  #gap: { from: number; to: number } | undefined

  constructor(epoch: Epoch, take: TakeSpare) {
    this.#epoch = epoch
    this.#take = take
  }

  /** Not needed any more: it becomes part of a gap. */
  skip(record: Pick<ReadRecord, 'sequence' | 'lastSequence'>): void {
    if (this.#gap === undefined) this.#gap = { from: record.sequence, to: record.lastSequence }
    else {
      assert(record.sequence === this.#gap.to + 1, 'a gap grows by the next sequence')
      this.#gap.to = record.lastSequence
    }
  }

  /** Still needed. Seals the record's header anew where it stands: the reader is done with it. */
  async keep(record: ReadRecord): Promise<void> {
    await this.#writeGap()
    const at = record.fileOffset
    await this.#room(record.recordBytes, record.sequence)
    const stamp = { sequence: record.sequence, group: record.sequence, salt: this.#epoch.salt }
    sealHeader(record.bytes, viewOf(record.bytes), at, stamp)
    this.#add(record.bytes.subarray(at, at + record.recordBytes))
  }

  /** Writes the rest and syncs. `nextSequence` names the first file where nothing was copied. */
  async finish(nextSequence: number): Promise<void> {
    await this.#writeGap()
    await this.#room(0, nextSequence)
    this.#flush()
    this.#epoch.sync()
  }

  async #writeGap(): Promise<void> {
    const gap = this.#gap
    if (gap === undefined) return
    this.#gap = undefined
    await this.#room(RECORD_HEADER_BYTES, gap.from)
    this.#add(markRecord('gap', gap.to, { sequence: gap.from, group: gap.from, salt: this.#epoch.salt }))
  }

  async #room(bytes: number, sequence: number): Promise<void> {
    if (this.#epoch.fits(this.#pendingBytes + bytes)) return
    this.#flush()
    this.#epoch.roll(await this.#take(), sequence)
    assert(this.#epoch.fits(bytes), 'a record fits in a log file')
  }

  #add(bytes: Uint8Array): void {
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.byteLength
    if (this.#pendingBytes >= COPY_BYTES) this.#flush()
  }

  #flush(): void {
    if (this.#pendingBytes > 0) this.#epoch.put(this.#pending, this.#pendingBytes)
    this.#pending = []
    this.#pendingBytes = 0
  }
}
