/**
 * Salvage: makes a new log of the records that can still be read of a damaged one. Only `weir
 * repair` does this; a start stops at damage (W-2).
 *
 * It takes every record that is valid under its file's salt, in rising sequence. The sequences
 * between them are missing and stand in the new log as fillers. A log file with a damaged header
 * has no salt, so none of its records can be checked, and all of them are missing.
 */
import { dirname, join } from 'node:path'
import { RECORD_HEADER_BYTES } from '../format/log-record.ts'
import { type Disk, readDamagedFile, withFile } from '../util/disk.ts'
import { Damaged } from '../util/errors.ts'
import { growingSpares, LogCopy } from './copy-log.ts'
import {
  decodeFileHeader,
  FILE_HEADER_BYTES,
  filesOfLog,
  type LogHeader,
  listFolder,
  logHeaderPath,
  type NamedFile,
  numberOfSpare,
  readLogHeader,
  writeLogHeader,
} from './log-folder.ts'
import { Generation } from './log-writer.ts'
import type { LoadedFile } from './read-log.ts'
import { decodeRecord, isRequest, type ReadRecord, recordIsWhole, viewOf } from './record-codec.ts'

/** A run of sequences whose records cannot be read. */
interface MissingSequences {
  readonly from: number
  readonly to: number
}

export interface Salvage {
  /** Number of posts and deletes that were read. */
  readonly salvaged: number
  readonly missing: readonly MissingSequences[]
  /** True when an unknown number of requests may be missing at the end of the log. */
  readonly mayMissEnd: boolean
  readonly places: readonly Damaged[]
  /** Existing files of the log folder that have such a place. */
  readonly files: readonly string[]
  /** The next sequence is above it. */
  readonly lastSequence: number
}

interface SalvageOptions {
  readonly disk: Disk
  readonly folder: string
  /** Bytes of the largest file of the new log. */
  readonly fileBytesMax: number
  /**
   * True for a pool that the catalog knows, living or deleted. Records of other pools cannot be
   * replayed.
   */
  readonly isKnown: (pool: number) => boolean
  /** The highest sequence that is in a segment. */
  readonly flushedSequence: number
}

/** Takes the salvaged records and the runs of missing sequences, in order. */
interface Sink {
  add(record: ReadRecord): Promise<void>
  skip(range: Pick<ReadRecord, 'sequence' | 'lastSequence'>): void
}

/** Reads everything that can be read and changes nothing. */
export async function planSalvage(options: SalvageOptions): Promise<Salvage> {
  return await salvage(options, { add: () => Promise.resolve(), skip: () => undefined })
}

/**
 * Makes the new log. It is whole and synced before the log header names it, as in a recovery (W-3).
 */
export async function salvageLog(options: SalvageOptions): Promise<Salvage> {
  const { disk, folder, fileBytesMax: bytesMax } = options
  const list = listFolder(disk, folder)
  const header = tryHeader(disk, folder, [])
  const number = Math.max(header?.generation ?? 0, ...list.files.map(file => file.generation)) + 1
  const generation = new Generation(disk, folder, number)
  const above = Math.max(0, ...list.spares.map(numberOfSpare))
  const copy = new LogCopy(generation, growingSpares(disk, folder, { above, bytesMax }))
  const found = await salvage(options, copy)
  await copy.finish(found.lastSequence + 1)
  generation.close()
  writeLogHeader(disk, folder, { generation: number, position: 0, lastSequence: found.lastSequence })
  return found
}

async function salvage(options: SalvageOptions, sink: Sink): Promise<Salvage> {
  const { disk, folder, flushedSequence } = options
  const places: Damaged[] = []
  const header = tryHeader(disk, folder, places)
  let isUnread = false
  let isNewestLoaded = true
  const progress = new Progress(sink, options.isKnown)
  const { files } = listFolder(disk, folder)
  const ours = header === undefined ? files : filesOfLog(files, header)
  for (const [index, { name, generation }] of ours.entries()) {
    const path = join(folder, name)
    const { bytes, damage: unread } = readDamagedFile(disk, path)
    if (unread !== undefined) places.push(unread)
    const loaded = attempt(places, (): LoadedFile => {
      return { path, bytes, view: viewOf(bytes), header: decodeFileHeader(bytes, path) }
    })
    isUnread ||= unread !== undefined
    isNewestLoaded = loaded !== undefined
    if (loaded === undefined) continue
    progress.expected ??= loaded.header.firstSequence
    // A later generation may be the unfinished copy of a start: this one has records that it lacks.
    const after = ours[index + 1]
    const next = after?.generation === generation ? firstSequenceOf(disk, folder, after) : undefined
    await salvageFile(loaded, progress, places, next)
  }
  progress.missUpTo(Math.max(header?.lastSequence ?? 0, flushedSequence))
  const damaged = new Set(
    places.map(place => place.file).filter(file => disk.exists(file) && dirname(file) === folder),
  )
  const { salvaged, missing } = progress
  const lastSequence = (progress.expected ?? 1) - 1
  const mayMissEnd = isUnread || !isNewestLoaded
  return { salvaged, missing, mayMissEnd, places, files: [...damaged], lastSequence }
}

/** Reads a part of the log; undefined where it is damaged, which `places` then names. */
function attempt<T>(places: Damaged[], read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    places.push(error)
    return undefined
  }
}

/** The log header. Without one a salvage reads all log files. */
function tryHeader(disk: Disk, folder: string, places: Damaged[]): LogHeader | undefined {
  return attempt(places, () => {
    const header = readLogHeader(disk, folder)
    if (header !== undefined) return header
    throw new Damaged(logHeaderPath(folder), 0, 'the log header is missing')
  })
}

/** The sequence with which a file begins; undefined where its header is damaged. */
function firstSequenceOf(disk: Disk, folder: string, { name }: NamedFile): number | undefined {
  const path = join(folder, name)
  return withFile(disk, path, 'r', file => {
    const bytes = new Uint8Array(FILE_HEADER_BYTES)
    try {
      disk.read(file, bytes, 0)
      return decodeFileHeader(bytes, path).firstSequence
    } catch {
      return undefined // the salvage of that file names the damage
    }
  })
}

/**
 * Takes all records of a file. After a bad record it goes on at the next aligned place with a valid
 * one.
 * @param next the sequence with which the next file of the generation begins. Records from there on
 * are those of a group that had no room, which this file holds in part.
 */
async function salvageFile(
  file: LoadedFile,
  progress: Progress,
  places: Damaged[],
  next = Number.POSITIVE_INFINITY,
): Promise<void> {
  let offset = FILE_HEADER_BYTES
  let badFrom: number | undefined
  while (offset + RECORD_HEADER_BYTES <= file.bytes.byteLength) {
    if (!recordIsWhole(file, offset, file.header.salt)) {
      badFrom ??= offset
      offset += 8
      continue
    }
    const record = attempt(places, () => decodeRecord(file, offset))
    if (record !== undefined && record.sequence >= next) return
    if (badFrom !== undefined)
      places.push(new Damaged(file.path, badFrom, `no valid record up to byte ${offset}`))
    badFrom = undefined
    if (record === undefined) offset += 8
    else {
      await progress.take(record)
      offset += record.recordBytes
    }
  }
}

/** Passes records to the sink in rising sequence and notes the missing sequences. */
class Progress {
  readonly missing: MissingSequences[] = []
  salvaged = 0
  /** The next sequence; undefined until a file was read. */
  expected: number | undefined
  readonly #sink: Sink
  readonly #isKnown: (pool: number) => boolean

  constructor(sink: Sink, isKnown: (pool: number) => boolean) {
    this.#sink = sink
    this.#isKnown = isKnown
  }

  async take(record: ReadRecord): Promise<void> {
    const { sequence, lastSequence, pool } = record
    this.expected ??= sequence
    // It was read before, or is a filler that ends before it begins.
    if (sequence < this.expected || lastSequence < sequence) return
    this.missUpTo(sequence - 1)
    this.expected = lastSequence + 1
    if (isRequest(record) && this.#isKnown(pool)) {
      this.salvaged += 1
      await this.#sink.add(record)
      return
    }
    if (isRequest(record)) this.missing.push({ from: sequence, to: sequence })
    this.#sink.skip(record)
  }

  missUpTo(last: number): void {
    const from = this.expected ?? last + 1
    this.expected = Math.max(from, last + 1)
    if (last < from) return
    this.missing.push({ from, to: last })
    this.#sink.skip({ sequence: from, lastSequence: last })
  }
}
