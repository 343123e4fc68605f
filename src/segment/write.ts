/**
 * One seal in the segment thread: entries → winners → Arrow IPC stream → Parquet → durable files.
 * W-5: the answer is given only when the files are durable. W-7 within a seal: one row per key.
 */

import { FIRST_PLAN_COLUMN } from '../batch/layout.ts'
import type { SegmentMeta } from '../keys/protocol.ts'
import { assert } from '../util/assert.ts'
import { crc32 } from '../util/crc32.ts'
import type { Disk } from '../util/disk.ts'
import type { Assembler, Survey } from './assembler.ts'
import { checkEntries } from './check.ts'
import { writeDeleteFile } from './deletes.ts'
import type { Encoder } from './encoder.ts'
import type { SealDone, SealJob } from './protocol.ts'
import { publishSegment } from './publish.ts'
import { type Ranges, rangesOf } from './ranges.ts'
import { countKept } from './runs.ts'
import { layOutStream, writeStreamFrame } from './stream.ts'

/** A stream larger than this does not stay allocated between seals. */
const SCRATCH_BYTES_MAX = 96 * 1024 * 1024

/** Writes seals, one at a time, with one scratch buffer for their streams. */
export class Writer {
  readonly #assembler: Assembler
  readonly #encoder: Encoder
  readonly #disk: Disk
  #scratch = new ArrayBuffer(0)

  constructor(assembler: Assembler, encoder: Encoder, disk: Disk) {
    this.#assembler = assembler
    this.#encoder = encoder
    this.#disk = disk
  }

  /** Writes the seal's files. Throws Node's error where the disk refuses. */
  write(job: SealJob): SealDone {
    checkEntries(job)
    const { plan, entries } = job
    const survey = this.#assembler.survey(entries, plan.key !== null, FIRST_PLAN_COLUMN + plan.columns.length)
    const rows = countKept(survey.keep)
    const back = job.giveBack ? entries : []
    if (rows === 0 && survey.deletes.length === 0)
      return { meta: undefined, keys: survey.keys, entries: back }
    const { parquet, ranges } = rows === 0 ? emptyPart(job) : this.#parquet(job, survey, rows)
    const deletes = deletesOf(job, survey, rows)
    publishSegment(this.#disk, job.folder, job.segment, { parquet, deletes })
    const stored = {
      bytes: (parquet?.length ?? 0) + (deletes?.length ?? 0),
      checksum: parquet === undefined ? null : crc32(parquet),
    }
    return {
      meta: metaOf(job, rows, stored, survey.deletes.length, ranges),
      keys: survey.keys,
      entries: back,
    }
  }

  #parquet(job: SealJob, survey: Survey, rows: number): { parquet: Uint8Array; ranges: Ranges } {
    const { plan, entries } = job
    const layout = layOutStream(plan, rows, survey.sums, this.#encoder.headOf)
    const stream = this.#stream(layout.bytes)
    writeStreamFrame(stream, layout)
    this.#assembler.fill(entries, survey.keep, stream, layout.places)
    const ranges = rangesOf(plan, { stream, layout, rows, sums: survey.sums }, this.#assembler)
    const footer = footerOf(job, rows, survey.deletes.length)
    const source = { entries, keep: survey.keep }
    return { parquet: this.#encoder.encode(stream, layout, plan, rows, footer, source), ranges }
  }

  /** `bytes` bytes of scratch: fresh pages cost as much as filling them. */
  #stream(bytes: number): Uint8Array {
    if (bytes > SCRATCH_BYTES_MAX) return new Uint8Array(bytes)
    if (this.#scratch.byteLength < bytes) this.#scratch = new ArrayBuffer(Math.ceil(bytes * 1.125))
    return new Uint8Array(this.#scratch, 0, bytes)
  }
}

function deletesOf(job: SealJob, survey: Survey, rows: number): Uint8Array | undefined {
  if (survey.deletes.length === 0) return undefined
  assert(survey.keys !== undefined, 'deletes have keys')
  const header = {
    pool: job.plan.pool,
    planVersion: job.plan.version,
    segment: job.segment,
    sequenceFrom: job.sequenceFrom,
    sequenceTo: job.sequenceTo,
    rowsOfSeal: rows,
  }
  return writeDeleteFile(header, survey.keys, survey.deletes)
}

/** A seal of deletes alone: its received-at is that of its requests, so that retention can judge it. */
function emptyPart(job: SealJob): { parquet: undefined; ranges: Ranges } {
  let [from, to] = [Number.POSITIVE_INFINITY, 0]
  for (const { requests } of job.entries)
    for (let r = 1; r < requests.length; r += 3) {
      from = Math.min(from, requests[r]! * 1000)
      to = Math.max(to, requests[r]! * 1000)
    }
  const ranges = {
    receivedFromUs: from,
    receivedToUs: to,
    timestampFromUs: null,
    timestampToUs: null,
    tenant: null,
  }
  return { parquet: undefined, ranges }
}

function metaOf(
  job: SealJob,
  rows: number,
  stored: Pick<SegmentMeta, 'bytes' | 'checksum'>,
  deletes: number,
  ranges: Ranges,
): SegmentMeta {
  return {
    segment: job.segment,
    rows,
    ...stored,
    planVersion: job.plan.version,
    sequenceFrom: job.sequenceFrom,
    sequenceTo: job.sequenceTo,
    ...ranges,
    deletes,
  }
}

function footerOf(job: SealJob, rows: number, deletes: number): Map<string, string> {
  return new Map([
    ['weir.format', '1'],
    ['weir.pool', job.poolId],
    ['weir.pool_number', String(job.plan.pool)],
    ['weir.plan_version', String(job.plan.version)],
    ['weir.segment', String(job.segment)],
    ['weir.sequence_from', String(job.sequenceFrom)],
    ['weir.sequence_to', String(job.sequenceTo)],
    ['weir.rows', String(rows)],
    ['weir.deletes', String(deletes)],
    ['weir.replaces', job.replaces.join(',')],
  ])
}
