/**
 * What can still be read of a damaged log, and a new log made of it. For `weir repair` alone: a start stops at damage (W-2).
 *
 * Every record that validates under its file's salt is taken, in rising sequence. What is between them is lost, and stands
 * in the new log as gaps. A file whose header is lost gives its salt away by its first record: the checksum is
 * begun with it, and CRC-32 runs backwards as well.
 */
import { dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Damaged } from '../errors.ts'
import { type Disk, readWhatCan } from '../util/disk.ts'
import { viewOf } from './checksum.ts'
import { EpochCopy } from './copy.ts'
import { Epoch } from './epoch.ts'
import {
  decodeFileHeader,
  FILE_HEADER_BYTES,
  type FolderList,
  listFolder,
  makeSpare,
  numberOfSpare,
  spareFileName,
} from './file.ts'
import { type Head, headPath, readHead, writeHead } from './head.ts'
import { decodeRecord, type LoadedFile, type ReadRecord, recordIsWhole } from './read.ts'
import { RECORD_HEADER_BYTES, RECORD_MAGIC } from './record.ts'

/** A stretch of sequences of which nothing can be read. */
interface LostSequences {
  readonly from: number
  readonly to: number
}

/** What a salvage finds. */
export interface Salvage {
  /** Posts and deletes that are kept. */
  readonly kept: number
  readonly lost: readonly LostSequences[]
  /** The disk does not give all bytes: what stood there at the end of the log is lost too, and nobody knows how much. */
  readonly isUnread: boolean
  /** Where the log is damaged. */
  readonly places: readonly Damaged[]
  /** Files that the places are in, by name; those that are there. */
  readonly files: readonly string[]
  /** The next sequence is above it. */
  readonly lastSequence: number
}

interface SalvageOptions {
  readonly disk: Disk
  readonly folder: string
  readonly fileBytes: number
  /** Is this pool known, living or deleted? Records of others cannot be replayed. */
  readonly isKnown: (pool: number) => boolean
  /** The highest sequence that is in a segment. */
  readonly sealedSequence: number
}

/** Takes what a salvage keeps and what it loses, in the order of sequences. */
interface Sink {
  keep(record: ReadRecord): Promise<void>
  skip(range: Pick<ReadRecord, 'sequence' | 'lastSequence'>): void
}

/** Reads what can be read; changes nothing. */
export async function planSalvage(options: SalvageOptions): Promise<Salvage> {
  return await salvage(options, { keep: () => Promise.resolve(), skip: () => undefined })
}

/** Makes the new log: whole and synced before the head names it, as a recovery does (W-3). */
export async function salvageLog(options: SalvageOptions): Promise<Salvage> {
  const { disk, folder, fileBytes } = options
  const list = listFolder(disk, folder)
  const { head } = headOf(disk, folder)
  const number = Math.max(head?.epoch ?? 0, ...list.files.map(file => file.epoch)) + 1
  const epoch = new Epoch(disk, folder, number, fileBytes)
  let spare = Math.max(0, ...list.spares.map(numberOfSpare))
  const copy = new EpochCopy(epoch, async () => {
    spare += 1
    await makeSpare(disk, folder, spareFileName(spare), fileBytes, () => Promise.resolve())
    return spareFileName(spare)
  })
  const found = await salvage(options, copy)
  await copy.finish(found.lastSequence + 1)
  epoch.close()
  writeHead(disk, folder, { epoch: number, position: 0, lastSequence: found.lastSequence })
  return found
}

async function salvage(options: SalvageOptions, sink: Sink): Promise<Salvage> {
  const { disk, folder, sealedSequence } = options
  const places: Damaged[] = []
  const { head, damage } = headOf(disk, folder)
  if (damage !== undefined) places.push(damage)
  let isUnread = false
  const walk = new Walk(sink, options.isKnown)
  for (const file of filesOf(listFolder(disk, folder), head)) {
    const path = join(folder, file.name)
    const { bytes, damage: unread } = readWhatCan(disk, path)
    if (unread !== undefined) places.push(unread)
    isUnread ||= unread !== undefined
    const loaded = load(path, bytes, places)
    if (loaded === undefined) continue
    if (walk.expected === undefined && loaded.header.firstSequence > 0)
      walk.expected = loaded.header.firstSequence
    await walkFile(loaded, walk, places)
  }
  walk.loseUpTo(Math.max(head?.lastSequence ?? 0, sealedSequence))
  const files = new Set(
    places.map(place => place.file).filter(file => disk.exists(file) && dirname(file) === folder),
  )
  const { kept, lost } = walk
  return { kept, lost, isUnread, places, files: [...files], lastSequence: (walk.expected ?? 1) - 1 }
}

/** A head that cannot be read says nothing: all files are looked at then. */
function headOf(disk: Disk, folder: string): { readonly head?: Head; readonly damage?: Damaged } {
  try {
    const head = readHead(disk, folder)
    return head === undefined ? { damage: new Damaged(headPath(folder), 0, 'it is missing') } : { head }
  } catch (error) {
    if (error instanceof Damaged) return { damage: error }
    throw error
  }
}

function filesOf(list: FolderList, head: Head | undefined) {
  if (head === undefined) return list.files
  return list.files.filter(file => file.epoch === head.epoch && file.position >= head.position)
}

/** The file with its header, or with the salt that its first record was sealed with. */
function load(path: string, bytes: Uint8Array, places: Damaged[]): LoadedFile | undefined {
  const view = viewOf(bytes)
  try {
    return { path, bytes, view, header: decodeFileHeader(bytes, path) }
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    places.push(error)
  }
  if (bytes.byteLength < FILE_HEADER_BYTES + RECORD_HEADER_BYTES) return undefined
  if (view.getUint32(FILE_HEADER_BYTES, true) !== RECORD_MAGIC) return undefined
  const salt = saltOf(bytes, view, FILE_HEADER_BYTES)
  const header = { salt, epoch: 0, position: 0, firstSequence: 0, fileBytes: bytes.byteLength }
  const file = { path, bytes, view, header }
  return recordIsWhole(file, FILE_HEADER_BYTES) ? file : undefined
}

/** All records of a file; where one does not validate, the next aligned place that does. */
async function walkFile(file: LoadedFile, walk: Walk, places: Damaged[]): Promise<void> {
  let offset = FILE_HEADER_BYTES
  let skippedFrom: number | undefined
  while (offset + RECORD_HEADER_BYTES <= file.bytes.byteLength) {
    if (!recordIsWhole(file, offset)) {
      skippedFrom ??= offset
      offset += 8
      continue
    }
    if (skippedFrom !== undefined)
      places.push(new Damaged(file.path, skippedFrom, `no valid record up to byte ${offset}`))
    skippedFrom = undefined
    const record = tryDecode(file, offset, places)
    if (record === undefined) offset += 8
    else {
      await walk.take(record)
      offset += record.recordBytes
    }
  }
}

function tryDecode(file: LoadedFile, offset: number, places: Damaged[]): ReadRecord | undefined {
  try {
    return decodeRecord(file, offset)
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    places.push(error)
    return undefined
  }
}

/** The sequences so far. */
class Walk {
  readonly lost: LostSequences[] = []
  kept = 0
  /** undefined: nothing was read yet. */
  expected: number | undefined
  readonly #sink: Sink
  readonly #isKnown: (pool: number) => boolean

  constructor(sink: Sink, isKnown: (pool: number) => boolean) {
    this.#sink = sink
    this.#isKnown = isKnown
  }

  async take(record: ReadRecord): Promise<void> {
    const { sequence, lastSequence, kind, pool } = record
    this.expected ??= sequence
    if (sequence < this.expected || lastSequence < sequence) return // it was read already
    this.loseUpTo(sequence - 1)
    this.expected = lastSequence + 1
    const isRequest = kind === 'post' || kind === 'delete'
    if (isRequest && this.#isKnown(pool)) {
      this.kept += 1
      await this.#sink.keep(record)
      return
    }
    if (isRequest) this.lost.push({ from: sequence, to: sequence })
    this.#sink.skip(record)
  }

  loseUpTo(last: number): void {
    const from = this.expected ?? last + 1
    this.expected = Math.max(from, last + 1)
    if (last < from) return
    this.lost.push({ from, to: last })
    this.#sink.skip({ sequence: from, lastSequence: last })
  }
}

/** CRC-32 backwards: what the checksum of the header at `offset` was begun with. */
function saltOf(bytes: Uint8Array, view: DataView, offset: number): number {
  let state = ~view.getUint32(offset + 4, true)
  for (let at = offset + RECORD_HEADER_BYTES - 1; at >= offset + 8; at--) {
    const index = TABLE.findIndex(entry => entry >>> 24 === state >>> 24)
    state = ((state ^ TABLE[index]!) << 8) | (index ^ bytes[at]!)
  }
  return ~state >>> 0
}

/** The step of CRC-32 for each byte, as zlib's checksum of that one byte gives it away. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => crc32(Uint8Array.of(byte ^ 0xff)) ^ 0xff000000)
