/**
 * Reading the log: every record in sequence order, or the place where it is damaged. Changes nothing on disk;
 * recovery and `weir verify` read through this.
 *
 * W-2: a bad record is a torn tail only where all of this holds; anything else throws Damaged.
 *   - it stands in the newest file (a file is left only when all of it is synced, epoch.ts)
 *   - every valid record after it was unsynced together with it: its group field is not above the bad sequence
 *   - its sequence is above every sealed sequence, and above what the head says was synced
 *   - no clean-stop mark stands right before it with something valid after it
 * The plain end of the log is the same case: the bad record is then zeros, or bytes of a former life.
 */
import { join } from 'node:path'
import { align8 } from '../batch/layout.ts'
import { Damaged } from '../errors.ts'
import { assert } from '../util/assert.ts'
import { crc32 } from '../util/crc32.ts'
import { type Disk, readFile } from '../util/disk.ts'
import { bitmapBytes, headerIsValid, viewOf, wholeRecordBytes } from './checksum.ts'
import { decodeFileHeader, FILE_HEADER_BYTES, type FileHeader, type NamedFile } from './file.ts'
import type { Head } from './head.ts'
import { RECORD_HAS_BITS, RECORD_HEADER_BYTES, RECORD_KIND, RECORD_MAGIC, readU64 } from './record.ts'

/** One whole, checked record. `bytes` is the file's content and lives until the next file is read. */
export interface ReadRecord {
  readonly sequence: number
  /** Equal to sequence but for a gap, which stands for a run. */
  readonly lastSequence: number
  readonly kind: keyof typeof RECORD_KIND
  readonly pool: number
  readonly version: number
  readonly receivedAtMs: number
  readonly events: number
  readonly accepted: number
  readonly hasBits: boolean
  readonly file: string
  readonly fileOffset: number
  readonly bytes: Uint8Array
  readonly bodyBytes: number
  /** Of the whole record, bitmap and padding included. */
  readonly recordBytes: number
}

/** What is known once the last record was read. */
export interface LogEnd {
  /** Sequence of the last whole record. */
  readonly lastSequence: number
  readonly cleanStop: boolean
  /** Where the log ends, and whether something unfinished stood there. */
  readonly file: string
  readonly fileOffset: number
  readonly torn: boolean
}

/** Where records stand in memory. */
export interface RecordBytes {
  readonly path: string
  readonly bytes: Uint8Array
  readonly view: DataView
}

/** A log file in memory. */
export interface LoadedFile extends RecordBytes {
  readonly header: FileHeader
}

interface Walk {
  expected: number
  cleanStop: boolean
}

const KIND_NAMES: Readonly<Record<number, keyof typeof RECORD_KIND>> = {
  [RECORD_KIND.post]: 'post',
  [RECORD_KIND.delete]: 'delete',
  [RECORD_KIND.gap]: 'gap',
  [RECORD_KIND.stop]: 'stop',
}

const NOTHING_SEALED: ReadonlyMap<number, number> = new Map()

/** The bytes that every record begins with. */
const MAGIC = Buffer.alloc(4)
MAGIC.writeUInt32LE(RECORD_MAGIC)

/**
 * All records of the epoch that `head` names, from its first file on; `files` is the folder's list.
 * `sealed` as in RecoverOptions; undefined: any pool may be named, and nothing is known to be sealed. Returns the end of the
 * log. Throws Damaged.
 */
export function* readLog(
  disk: Disk,
  folder: string,
  files: readonly NamedFile[],
  head: Head,
  sealed: ReadonlyMap<number, number> | undefined,
): Generator<ReadRecord, LogEnd> {
  const ours = filesOfHead(folder, files, head)
  let loaded = load(disk, join(folder, ours[0]!.name), ours[0]!)
  const walk: Walk = { expected: loaded.header.firstSequence, cleanStop: false }
  for (let index = 0; ; index++) {
    const end = yield* readRecords(loaded, walk, sealed)
    const next = ours[index + 1]
    if (next === undefined) return judgeEnd(loaded, walk, end, head, sealed ?? NOTHING_SEALED)
    const after = load(disk, join(folder, next.name), next)
    judgeTurn(loaded, walk, end, after)
    loaded = after
  }
}

/** The head's files without a hole. Files of other epochs and before the head are not the log's. */
function filesOfHead(folder: string, files: readonly NamedFile[], head: Head): readonly NamedFile[] {
  const ours = files.filter(file => file.epoch === head.epoch && file.position >= head.position)
  const count = Math.max(1, (ours.at(-1)?.position ?? head.position) - head.position + 1)
  for (let index = 0; index < count; index++) {
    const want = head.position + index
    if (ours[index]?.position === want) continue
    const text = `log file ${want} of epoch ${head.epoch} is missing, the log begins with file ${head.position}`
    throw new Damaged(join(folder, ours[index]?.name ?? 'head'), 0, text)
  }
  return ours
}

function load(disk: Disk, path: string, name: NamedFile): LoadedFile {
  const bytes = readFile(disk, path)
  const header = decodeFileHeader(bytes, path)
  if (header.epoch !== name.epoch || header.position !== name.position) {
    throw new Damaged(path, 16, `the header names epoch ${header.epoch}, file ${header.position}`)
  }
  if (header.fileBytes !== bytes.byteLength) {
    throw new Damaged(path, bytes.byteLength, `the file was made with ${header.fileBytes} bytes`)
  }
  return { path, bytes, view: viewOf(bytes), header }
}

/** Yields the file's records; returns the offset where none follows. */
function* readRecords(
  file: LoadedFile,
  walk: Walk,
  sealed: ReadonlyMap<number, number> | undefined,
): Generator<ReadRecord, number> {
  let offset = FILE_HEADER_BYTES
  while (recordIsWhole(file, offset)) {
    const record = decodeRecord(file, offset)
    const place = (what: string) => new Damaged(file.path, offset, what)
    if (record.sequence !== walk.expected) {
      throw place(`expected sequence ${walk.expected}, found ${record.sequence}`)
    }
    if (walk.cleanStop) throw place(`sequence ${record.sequence} follows a clean-stop mark`)
    if (record.lastSequence < record.sequence) {
      throw place(`the gap from sequence ${record.sequence} ends at ${record.lastSequence}`)
    }
    if ((record.kind === 'post' || record.kind === 'delete') && sealed?.has(record.pool) === false) {
      throw place(`sequence ${record.sequence} belongs to pool ${record.pool}, which was never known`)
    }
    walk.expected = record.lastSequence + 1
    walk.cleanStop = record.kind === 'stop'
    yield record
    offset += record.recordBytes
  }
  return offset
}

/** Header, body and bitmap are there and validate. */
export function recordIsWhole(file: LoadedFile, offset: number): boolean {
  const { bytes, view } = file
  if (!headerIsValid(bytes, view, offset, file.header.salt)) return false
  if (offset + wholeRecordBytes(view, offset) > bytes.byteLength) return false
  const body = offset + RECORD_HEADER_BYTES
  const bodyBytes = view.getUint32(offset + 40, true)
  if (crc32(bytes.subarray(body, body + bodyBytes)) !== view.getUint32(offset + 44, true)) return false
  if ((view.getUint16(offset + 58, true) & RECORD_HAS_BITS) === 0) return true
  const bits = body + align8(bodyBytes)
  const end = bits + bitmapBytes(view.getUint32(offset + 48, true))
  return crc32(bytes.subarray(bits, end)) === view.getUint32(offset + 60, true)
}

/** The record at `offset`, which is whole. Throws Damaged for an unknown kind. */
export function decodeRecord({ bytes, view, path }: RecordBytes, offset: number): ReadRecord {
  const sequence = readU64(view, offset + 8)
  const kind = KIND_NAMES[view.getUint16(offset + 56, true)]
  if (kind === undefined) throw new Damaged(path, offset, `sequence ${sequence} is of an unknown kind`)
  const receivedAtMs = readU64(view, offset + 24)
  return {
    sequence,
    lastSequence: kind === 'gap' ? receivedAtMs : sequence,
    kind,
    pool: view.getUint32(offset + 32, true),
    version: view.getUint32(offset + 36, true),
    receivedAtMs,
    events: view.getUint32(offset + 48, true),
    accepted: view.getUint32(offset + 52, true),
    hasBits: (view.getUint16(offset + 58, true) & RECORD_HAS_BITS) !== 0,
    file: path,
    fileOffset: offset,
    bytes,
    bodyBytes: view.getUint32(offset + 40, true),
    recordBytes: wholeRecordBytes(view, offset),
  }
}

/** The step to the next file is right where that one begins with the sequence this one ended before. */
function judgeTurn(file: LoadedFile, walk: Walk, end: number, next: LoadedFile): void {
  const first = next.header.firstSequence
  if (walk.cleanStop) throw new Damaged(next.path, 0, `a file follows the clean-stop mark of ${file.path}`)
  if (first === walk.expected) return
  const what = `expected sequence ${walk.expected}, found no valid record; the next file begins with ${first}`
  throw new Damaged(file.path, end, what)
}

/** Is this the end of the log, a torn tail, or damage? */
function judgeEnd(
  file: LoadedFile,
  walk: Walk,
  end: number,
  head: Head,
  sealed: ReadonlyMap<number, number>,
): LogEnd {
  const { expected, cleanStop } = walk
  const unsynced = unsyncedAfter(file, end, walk)
  if (unsynced.fault !== undefined) throw endsBefore(file.path, end, expected, unsynced.fault)
  const torn = unsynced.found || startsAsNext(file, end, expected)
  assert(expected >= 1, 'sequences begin with 1')
  const found = { lastSequence: expected - 1, cleanStop, file: file.path, fileOffset: end, torn }
  checkEnd(found, sealed)
  if (expected > head.lastSequence) return found
  throw endsBefore(file.path, end, expected, `sequence ${head.lastSequence} was synced`)
}

/** Throws Damaged where a sequence above the log's end is sealed. */
export function checkEnd(end: LogEnd, sealed: ReadonlyMap<number, number>): void {
  const expected = end.lastSequence + 1
  const highest = highestSealed(sealed)
  if (expected <= highest)
    throw endsBefore(end.file, end.fileOffset, expected, `sequence ${highest} is sealed`)
}

function endsBefore(file: string, offset: number, expected: number, what: string): Damaged {
  return new Damaged(file, offset, `no valid record of sequence ${expected}, but ${what}`)
}

/** The highest sealed sequence of any pool, 0 where none is. */
export function highestSealed(sealed: ReadonlyMap<number, number>): number {
  let highest = 0
  for (const sequence of sealed.values()) highest = Math.max(highest, sequence)
  return highest
}

/**
 * Looks at every aligned place after `end` for valid headers, and whether they may be there. Most of a file is empty, and
 * every start looks through it: the mark that a header begins with is searched for, not each place read.
 */
function unsyncedAfter(
  file: LoadedFile,
  end: number,
  walk: Walk,
): { readonly found: boolean; readonly fault: string | undefined } {
  const { bytes, view } = file
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let found = false
  for (let offset = text.indexOf(MAGIC, end); offset !== -1; offset = text.indexOf(MAGIC, offset + 1)) {
    if (offset % 8 !== 0 || !headerIsValid(bytes, view, offset, file.header.salt)) continue
    const sequence = readU64(view, offset + 8)
    found = true
    if (walk.cleanStop || readU64(view, offset + 16) > walk.expected) {
      return { found, fault: `sequence ${sequence} stands after it at byte ${offset}` }
    }
  }
  return { found, fault: undefined }
}

/** Only to tell the operator: the torn record's header is there in part. */
function startsAsNext(file: LoadedFile, end: number, expected: number): boolean {
  if (end + RECORD_HEADER_BYTES > file.bytes.byteLength) return false
  return readU64(file.view, end + 8) === expected
}
