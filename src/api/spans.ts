/**
 * A job's result becomes spans for the log and parts for the tail.
 *
 * Records are numbered in the order in which the bodies stand in the slab, whatever groups they are in: then
 * neighbours are written to the log in one piece. Within a group that is the order of its rows.
 */

import {
  OUTCOME_ACCEPTED,
  OUTCOME_WORDS,
  REQUEST_OFFSET,
  REQUEST_RECEIVED_AT,
  REQUEST_WORDS,
} from '../batch/kernel.ts'
import type { JobResult } from '../batch/protocol.ts'
import type { Span } from '../commit/protocol.ts'
import { RECORD_HEADER_BYTES } from '../commit/record.ts'
import { ENTRY_WORDS } from '../segment/protocol.ts'
import type { Batch } from './job.ts'
import type { CommitBatch, CommitPart } from './protocol.ts'

/** Spans and parts of the live groups' accepted requests. `isLive` is asked once a group. */
export function commitBatchOf(batch: Batch, result: JobResult, live: readonly boolean[]): CommitBatch {
  const places = new Int32Array(batch.requests.length).fill(-1)
  const run = new Runs(batch.job.slab)
  const own = new Map(result.ownRecords.map(record => [record.request, record]))
  const bits = new Map(result.bits.map(entry => [entry.request, entry.bytes]))
  let records = 0
  for (const row of batch.order) {
    const bytes = result.recordBytes[row]!
    if (bytes === 0 || live[batch.groupOf[row]!] !== true) continue
    places[row] = records
    records += 1
    const elsewhere = own.get(row)
    const offset = batch.job.table[row * REQUEST_WORDS + REQUEST_OFFSET]! - RECORD_HEADER_BYTES
    if (elsewhere !== undefined) run.addAlone(elsewhere.slab, elsewhere.offset, bytes, bits.get(row))
    else run.add(offset, bytes, bits.get(row))
  }
  run.end()
  return { spans: run.spans, records, bytes: run.bytes, parts: partsOf(batch, result, places) }
}

/** Joins neighbouring records. */
class Runs {
  readonly spans: Span[] = []
  bytes = 0
  readonly #slab: SharedArrayBuffer
  #from = 0
  #to = -1
  #records = 0

  constructor(slab: SharedArrayBuffer) {
    this.#slab = slab
  }

  add(offset: number, bytes: number, bits: Uint8Array | undefined): void {
    if (offset !== this.#to) {
      this.end()
      this.#from = offset
    }
    this.#to = offset + bytes
    this.#records += 1
    this.bytes += bytes
    if (bits !== undefined) this.end(bits)
  }

  addAlone(slab: SharedArrayBuffer, offset: number, bytes: number, bits: Uint8Array | undefined): void {
    this.end()
    this.bytes += bytes
    this.spans.push(withBits({ slab, offset, bytes, records: 1 }, bits))
  }

  end(bits?: Uint8Array): void {
    if (this.#records > 0) {
      const bytes = this.#to - this.#from
      this.spans.push(withBits({ slab: this.#slab, offset: this.#from, bytes, records: this.#records }, bits))
    }
    this.#records = 0
    this.#to = -1
  }
}

function withBits(span: Span, bits: Uint8Array | undefined): Span {
  return bits === undefined ? span : { ...span, bits }
}

/** The parts whose requests are logged. A part is of one group, so all of it is or nothing. */
function partsOf(batch: Batch, result: JobResult, places: Int32Array): CommitPart[] {
  const parts: CommitPart[] = []
  const { table } = batch.job
  for (const part of result.parts) {
    const first = part.requests[0]
    if (first === undefined || places[first]! < 0) continue
    const { kind, pool, version } = batch.job.groups[batch.groupOf[first]!]!
    const requests = new Float64Array(part.requests.length * ENTRY_WORDS)
    for (let index = 0; index < part.requests.length; index += 1) {
      const row = part.requests[index]!
      requests[index * ENTRY_WORDS] = places[row]!
      requests[index * ENTRY_WORDS + 1] = table[row * REQUEST_WORDS + REQUEST_RECEIVED_AT]!
      requests[index * ENTRY_WORDS + 2] = result.outcomes[row * OUTCOME_WORDS + OUTCOME_ACCEPTED]!
    }
    parts.push({ kind, pool, version, batch: part.batch, requests })
  }
  return parts
}
