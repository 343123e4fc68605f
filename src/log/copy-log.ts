/**
 * Copies of log records into a new generation: recovery copies the records that are not flushed
 * (W-3), a backup copies the running log into another folder.
 *
 *   W-2   A copied record keeps its sequence and bytes and gets a new salt and checksum. A run of
 *         records that are not needed (flushed, of a deleted pool, control records) becomes one
 *         filler record, so no sequence is missing.
 *
 * A copy does not count until a log header names its generation.
 */

import { RECORD_HEADER_BYTES } from '../format/log-record.ts'
import type { Disk } from '../util/disk.ts'
import { assert } from '../util/errors.ts'
import { LOG_FILE_BYTES_MIN } from '../util/limits.ts'
import {
  firstFileBytes,
  listFolder,
  logFileName,
  makeSpare,
  spareFileName,
  writeLogHeader,
} from './log-folder.ts'
import type { LogSpan } from './log-types.ts'
import { Generation } from './log-writer.ts'
import { readLog } from './read-log.ts'
import { controlRecord, isUnflushed, type ReadRecord, stampHeader, viewOf } from './record-codec.ts'

/** Bytes that are gathered for one write. */
const COPY_BYTES = 1024 * 1024

/** Provides an empty file and returns its name in the log folder. */
type TakeSpare = () => Promise<string>

/**
 * Makes the empty files of a copy. Each file is twice as large as the one before it, up to
 * `bytesMax`.
 * @param above the number of the last spare in the folder: new names are above it
 * @param rest as in makeSpare
 */
export function growingSpares(
  disk: Disk,
  folder: string,
  { above, bytesMax, rest }: { above: number; bytesMax: number; rest?: () => Promise<void> },
): TakeSpare {
  let number = above
  let bytes = firstFileBytes(bytesMax)
  return async () => {
    number += 1
    const spare = { name: spareFileName(number), bytes }
    bytes = Math.min(2 * bytes, bytesMax)
    await makeSpare(disk, folder, spare, rest ?? (() => Promise.resolve()))
    return spare.name
  }
}

/** Writes records into a new generation, in rising sequence. */
export class LogCopy {
  readonly #generation: Generation
  readonly #take: TakeSpare
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  #filler: { from: number; to: number } | undefined

  constructor(generation: Generation, take: TakeSpare) {
    this.#generation = generation
    this.#take = take
  }

  /** Leaves a record out: its sequences become part of a filler record. */
  skip(record: Pick<ReadRecord, 'sequence' | 'lastSequence'>): void {
    if (this.#filler === undefined) this.#filler = { from: record.sequence, to: record.lastSequence }
    else {
      assert(record.sequence === this.#filler.to + 1, 'a filler grows by the next sequence')
      this.#filler.to = record.lastSequence
    }
  }

  /**
   * Copies a record. It stamps the header in the record's own bytes, which the reader no longer
   * needs.
   */
  async add(record: ReadRecord): Promise<void> {
    await this.#writeFiller()
    const at = record.fileOffset
    await this.#makeRoom(record.recordBytes, record.sequence)
    const stamp = { sequence: record.sequence, group: record.sequence, salt: this.#generation.salt }
    stampHeader(record.bytes, viewOf(record.bytes), at, stamp)
    this.#gather(record.bytes.subarray(at, at + record.recordBytes))
  }

  /**
   * Writes the rest and syncs. `nextSequence` is the first sequence of the first file where nothing
   * was copied.
   */
  async finish(nextSequence: number): Promise<void> {
    await this.#writeFiller()
    await this.#makeRoom(0, nextSequence)
    this.#write()
    this.#generation.sync()
  }

  async #writeFiller(): Promise<void> {
    const filler = this.#filler
    if (filler === undefined) return
    this.#filler = undefined
    await this.#makeRoom(RECORD_HEADER_BYTES, filler.from)
    const stamp = { sequence: filler.from, group: filler.from, salt: this.#generation.salt }
    this.#gather(controlRecord('filler', filler.to, stamp))
  }

  async #makeRoom(bytes: number, sequence: number): Promise<void> {
    if (this.#generation.fits(this.#pendingBytes + bytes)) return
    this.#write()
    this.#generation.roll(this.#generation.open(await this.#take()), sequence)
    assert(this.#generation.fits(bytes), 'a record fits in a log file')
  }

  #gather(bytes: Uint8Array): void {
    this.#pending.push(bytes)
    this.#pendingBytes += bytes.byteLength
    if (this.#pendingBytes >= COPY_BYTES) this.#write()
  }

  #write(): void {
    if (this.#pendingBytes > 0) this.#generation.append(this.#pending, this.#pendingBytes)
    this.#pending = []
    this.#pendingBytes = 0
  }
}

interface ExtractOptions {
  readonly disk: Disk
  /** Folder of the running log, whose files are pinned. */
  readonly from: string
  /** Folder of the copy, which must not exist. */
  readonly to: string
  readonly span: LogSpan
  /** As in RecoverOptions. The copy leaves out flushed records and those of deleted pools (-1). */
  readonly flushed: ReadonlyMap<number, number>
  /**
   * Called and awaited with the bytes of each record read. An error that it throws ends the copy.
   */
  readonly onBytes: (bytes: number) => Promise<void>
}

const EXTRACT_GENERATION = 1

/**
 * Copies the running log up to the span's last sequence into a folder of its own, which recovery
 * takes like any log, and syncs it. The log thread may write to the files meanwhile: everything up
 * to the span's last sequence is synced and does not change, and the copy does not read further.
 * Its log header names the last sequence, so a copy that loses its end is damaged, not torn.
 * @returns the names of the files in `to`
 * @throws Damaged where the running log cannot be read
 */
export async function extractLog(options: ExtractOptions): Promise<string[]> {
  const { disk, to, span } = options
  disk.mkdir(to)
  const generation = new Generation(disk, to, EXTRACT_GENERATION)
  const sizes = { above: 0, bytesMax: LOG_FILE_BYTES_MIN, rest: () => options.onBytes(0) }
  const copy = new LogCopy(generation, growingSpares(disk, to, sizes))
  // A start that finds everything flushed makes a log that begins above its last sequence. It has
  // no records.
  if (span.firstSequence <= span.lastSequence) await copyRecords(options, copy)
  await copy.finish(span.lastSequence + 1)
  generation.close()
  writeLogHeader(disk, to, { generation: EXTRACT_GENERATION, position: 0, lastSequence: span.lastSequence })
  return ['head', ...generation.files.map(({ position }) => logFileName(EXTRACT_GENERATION, position))]
}

async function copyRecords(options: ExtractOptions, copy: LogCopy): Promise<void> {
  const { disk, from, span, flushed, onBytes } = options
  for (const record of readLog(disk, from, listFolder(disk, from).files, span, flushed)) {
    if (isUnflushed(record, flushed)) await copy.add(record)
    else copy.skip(record)
    await onBytes(record.recordBytes)
    // The next record may be half written. readLog reports a log that ends before the span's last
    // sequence.
    if (record.lastSequence >= span.lastSequence) return
  }
}
