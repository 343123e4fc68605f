/**
 * Group commit, the writing half: one group is numbered, written in one piece and synced before it is answered.
 * Free of threads; log-service.ts drives it in the log worker.
 *
 *   W-1   `write` returns only after the fdatasync that covers the group (durability `os`: after the write).
 *   W-2   Records get their sequences here, one after the other, without gaps.
 *   W-3   After one failed write or sync every later call throws. The check stands in the writer itself, after
 *         the group has taken its turn, so nothing that queued before the failure gets past it.
 *   W-13  `sync` covers everything written, in either mode.
 *
 * The group field of a record is the first sequence that was not synced when the record was written. With
 * durability `fsync` that is the first of its own group. With `os` it reaches back to the last sync, and so
 * recovery knows which records may be missing together after a power cut.
 */
import { align8 } from '../batch/layout.ts'
import { Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import { crashPoint } from '../util/crash.ts'
import { markRecord, sealRun } from './checksum.ts'
import { type Epoch, type EpochFile, roomOfFile } from './epoch.ts'
import type { Span } from './protocol.ts'
import { RECORD_HEADER_BYTES } from './record.ts'

export type Durability = 'fsync' | 'os'

/** Spans that are written together. May be empty: then only `sync` counts. */
export interface Group {
  readonly firstSequence: number
  readonly spans: readonly Span[]
  /** Sync whatever the durability is (W-13). */
  readonly sync: boolean
}

export interface Written {
  readonly bytes: number
  /** The file that was taken into use for this group, and the spare's former name. */
  readonly rolled: (EpochFile & { readonly spare: string }) | undefined
}

/** Bytes of a span in the log. */
export function spanBytes(span: Span): number {
  return span.bytes + (span.bits === undefined ? 0 : align8(span.bits.byteLength))
}

export class LogWriter {
  readonly #epoch: Epoch
  readonly #durability: Durability
  readonly #spares: string[]
  #nextSequence: number
  #group = 0
  #poison: Unavailable | undefined

  constructor(epoch: Epoch, durability: Durability, nextSequence: number, spares: readonly string[]) {
    this.#epoch = epoch
    this.#durability = durability
    this.#nextSequence = nextSequence
    this.#spares = [...spares]
  }

  /** A spare is ready under this name. */
  addSpare(name: string): void {
    this.#spares.push(name)
  }

  /**
   * Writes one group. `no_spare`: it does not fit and there is no empty file; nothing was changed, and the same
   * group may come again. Throws Unavailable `log_refused` on the first failure and ever after.
   */
  write(group: Group): Written | 'no_spare' {
    this.#refusePoisoned()
    assert(group.firstSequence === this.#nextSequence, 'groups come in sequence order')
    const bytes = group.spans.reduce((sum, span) => sum + spanBytes(span), 0)
    assert(bytes <= roomOfFile(this.#epoch.fileBytes), 'a group fits in a log file')
    const spare = this.#epoch.fits(bytes) ? undefined : this.#spares[0]
    if (spare === undefined && !this.#epoch.fits(bytes)) return 'no_spare'
    return this.#guarded(() => {
      const rolled = spare === undefined ? undefined : this.#roll(spare)
      if (group.spans.length > 0) this.#put(group.spans, bytes)
      if (this.#durability === 'fsync' || group.sync) this.#epoch.sync()
      if (group.spans.length > 0) crashPoint('log.synced')
      return { bytes, rolled }
    })
  }

  /** Syncs everything, leaves the clean-stop mark and closes. Throws as `write` does. */
  stop(): void {
    this.#refusePoisoned()
    this.#guarded(() => {
      this.#epoch.sync()
      const sequence = this.#nextSequence
      const mark = markRecord('stop', sequence, { sequence, group: sequence, salt: this.#epoch.salt })
      this.#epoch.put([mark], RECORD_HEADER_BYTES)
      this.#nextSequence += 1
      this.#epoch.close()
    })
  }

  #roll(spare: string): EpochFile & { spare: string } {
    const file = this.#epoch.roll(spare, this.#nextSequence)
    this.#spares.shift()
    crashPoint('log.rollover')
    return { ...file, spare }
  }

  #put(spans: readonly Span[], bytes: number): void {
    if (!this.#epoch.dirty) this.#group = this.#nextSequence
    const buffers: Uint8Array[] = []
    for (const span of spans) {
      const slab = new Uint8Array(span.slab)
      const stamp = { sequence: this.#nextSequence, group: this.#group, salt: this.#epoch.salt }
      const { offset, bytes: runBytes, records } = span
      sealRun(slab, { offset, bytes: runBytes, records, bitsBytes: span.bits?.byteLength ?? 0 }, stamp)
      this.#nextSequence += span.records
      gather(buffers, slab.subarray(span.offset, span.offset + span.bytes))
      if (span.bits !== undefined) buffers.push(padded(span.bits))
    }
    this.#epoch.put(buffers, bytes)
    crashPoint('log.written')
  }

  /** Any failure of the disk in here is the last thing the log does. */
  #guarded<T>(step: () => T): T {
    try {
      return step()
    } catch (error) {
      const what = error instanceof Error ? error.message : String(error)
      this.#poison = new Unavailable('log_refused', `the log takes no more writes until a restart: ${what}`)
      throw this.#poison
    }
  }

  #refusePoisoned(): void {
    if (this.#poison !== undefined) throw this.#poison
  }
}

/** Adds `bytes`, as one piece with the last buffer where they stand directly behind it. */
function gather(buffers: Uint8Array[], bytes: Uint8Array): void {
  const last = buffers.at(-1)
  const joins = last?.buffer === bytes.buffer && last.byteOffset + last.byteLength === bytes.byteOffset
  if (last === undefined || !joins) buffers.push(bytes)
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
