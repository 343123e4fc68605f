/**
 * One log record in memory: the three header fields that the log thread fills in (sequence, group,
 * checksum), the check whether a record is whole, and its decoding. format/log-record.ts has the
 * layout of the header.
 *
 * The checksum half of W-2: the checksum of a record header begins with the salt of its file, as in
 * SQLite's WAL.
 */
import { crc32 as nodeCrc32 } from 'node:zlib'
import { align8 } from '../format/batch-layout.ts'
import {
  RECORD_HAS_BITS,
  RECORD_HEADER_BYTES,
  RECORD_KIND,
  RECORD_MAGIC,
  type RecordFields,
  readContextBytes,
  readEvents,
  readReceivedAtStepUs,
  readReceivedAtUs,
  readU64,
  recordBytes,
  writeRecordHeader,
  writeU64,
} from '../format/log-record.ts'
import { crc32 } from '../util/crc32.ts'
import { assert, Damaged } from '../util/errors.ts'

/** The fields of a record header that the log thread fills in. */
interface Stamp {
  readonly sequence: number
  /** The first sequence that was not synced when the record was written. */
  readonly group: number
  /** Salt of the log file. */
  readonly salt: number
}

/**
 * One whole, checked record. `bytes` is the file's content and lives until the next file is read.
 */
export interface ReadRecord extends Omit<RecordFields, 'kind' | 'bodyCrc' | 'bitsCrc'> {
  readonly sequence: number
  /** Equal to `sequence`, except for a filler record, which stands for a run of sequences. */
  readonly lastSequence: number
  readonly kind: keyof typeof RECORD_KIND
  readonly file: string
  readonly fileOffset: number
  readonly bytes: Uint8Array
  /** Bytes of the whole record with bitmap and padding. */
  readonly recordBytes: number
}

/** Bytes in memory that hold records, with the path of their file for messages. */
export interface RecordBytes {
  readonly path: string
  readonly bytes: Uint8Array
  readonly view: DataView
}

const KIND_NAMES: Readonly<Record<number, keyof typeof RECORD_KIND>> = {
  [RECORD_KIND.post]: 'post',
  [RECORD_KIND.delete]: 'delete',
  [RECORD_KIND.filler]: 'filler',
  [RECORD_KIND.stop]: 'stop',
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Writes sequence, group and checksum into the record header at `offset`. */
export function stampHeader(bytes: Uint8Array, view: DataView, offset: number, stamp: Stamp): void {
  writeU64(view, offset + 8, stamp.sequence)
  writeU64(view, offset + 16, stamp.group)
  view.setUint32(offset + 4, headerChecksum(bytes, offset, stamp.salt), true)
}

/** True when a record header stands at `offset` and its checksum was made with `salt`. */
export function headerIsValid(bytes: Uint8Array, view: DataView, offset: number, salt: number): boolean {
  if (offset + RECORD_HEADER_BYTES > bytes.byteLength) return false
  if (view.getUint32(offset, true) !== RECORD_MAGIC) return false
  return view.getUint32(offset + 4, true) === headerChecksum(bytes, offset, salt)
}

function headerChecksum(bytes: Uint8Array, offset: number, salt: number): number {
  return nodeCrc32(bytes.subarray(offset + 8, offset + RECORD_HEADER_BYTES), salt)
}

function hasBitsAt(view: DataView, offset: number): boolean {
  return (view.getUint16(offset + 58, true) & RECORD_HAS_BITS) !== 0
}

/** Bytes of the whole record at `offset` with its bitmap. */
export function wholeRecordBytes(view: DataView, offset: number): number {
  const record = recordBytes(view.getUint32(offset + 40, true))
  if (!hasBitsAt(view, offset)) return record
  return record + align8(bitmapBytes(readEvents(view, offset)))
}

/** Bytes of an accepted-bitmap without padding. */
export function bitmapBytes(events: number): number {
  return Math.ceil(events / 8)
}

/**
 * Numbers `run.records` adjacent records in [offset, offset + bytes), from `stamp.sequence` on.
 * Asserts that the records fill the range exactly: a record with a wrong length must not reach the
 * disk.
 */
export function stampRun(
  bytes: Uint8Array,
  run: {
    readonly offset: number
    readonly bytes: number
    readonly records: number
    readonly bitsBytes: number
  },
  stamp: Stamp,
): void {
  const view = viewOf(bytes)
  const end = run.offset + run.bytes
  assert(run.offset % 8 === 0 && end <= bytes.byteLength, 'a span is aligned and inside its slab')
  let offset = run.offset
  for (let index = 0; index < run.records; index++) {
    assert(offset + RECORD_HEADER_BYTES <= end, 'a record header is inside its span')
    assert(view.getUint32(offset, true) === RECORD_MAGIC, 'a span is made of records')
    const bitsBytes = hasBitsAt(view, offset) ? bitmapBytes(readEvents(view, offset)) : 0
    const wanted = index === run.records - 1 ? run.bitsBytes : 0
    assert(bitsBytes === wanted, 'a record with a bitmap ends its span, and the bitmap has a bit per event')
    const { group, salt } = stamp
    stampHeader(bytes, view, offset, { sequence: stamp.sequence + index, group, salt })
    offset += recordBytes(view.getUint32(offset + 40, true))
  }
  assert(offset === end, 'the records fill their span')
}

/** A record without a body: the filler up to `lastSequence`, or the clean-stop record. */
export function controlRecord(kind: 'filler' | 'stop', lastSequence: number, stamp: Stamp): Uint8Array {
  const bytes = new Uint8Array(RECORD_HEADER_BYTES)
  const view = viewOf(bytes)
  writeRecordHeader(view, 0, {
    kind: RECORD_KIND[kind],
    pool: 0,
    version: 0,
    receivedAtUs: lastSequence,
    receivedAtStepUs: 0,
    bodyBytes: 0,
    bodyCrc: 0,
    contextBytes: 0,
    events: 0,
    accepted: 0,
    hasBits: false,
    bitsCrc: 0,
  })
  stampHeader(bytes, view, 0, stamp)
  return bytes
}

/**
 * True when header, body and bitmap of the record at `offset` are complete and their checksums
 * match.
 */
export function recordIsWhole({ bytes, view }: RecordBytes, offset: number, salt: number): boolean {
  if (!headerIsValid(bytes, view, offset, salt)) return false
  if (offset + wholeRecordBytes(view, offset) > bytes.byteLength) return false
  const body = offset + RECORD_HEADER_BYTES
  const bodyBytes = view.getUint32(offset + 40, true)
  if (crc32(bytes.subarray(body, body + bodyBytes)) !== view.getUint32(offset + 44, true)) return false
  if (!hasBitsAt(view, offset)) return true
  const bits = body + align8(bodyBytes)
  const end = bits + bitmapBytes(readEvents(view, offset))
  return crc32(bytes.subarray(bits, end)) === view.getUint32(offset + 60, true)
}

/** Decodes the whole record at `offset`. Throws Damaged for an unknown kind. */
export function decodeRecord({ bytes, view, path }: RecordBytes, offset: number): ReadRecord {
  const sequence = readU64(view, offset + 8)
  const kind = KIND_NAMES[view.getUint16(offset + 56, true)]
  if (kind === undefined)
    throw new Damaged(path, offset, `the record of sequence ${sequence} has an unknown kind`)
  return {
    sequence,
    lastSequence: kind === 'filler' ? readU64(view, offset + 24) : sequence,
    kind,
    pool: view.getUint32(offset + 32, true),
    version: view.getUint32(offset + 36, true),
    receivedAtUs: readReceivedAtUs(view, offset),
    receivedAtStepUs: readReceivedAtStepUs(view, offset),
    events: readEvents(view, offset),
    accepted: view.getUint32(offset + 52, true),
    hasBits: hasBitsAt(view, offset),
    file: path,
    fileOffset: offset,
    bytes,
    bodyBytes: view.getUint32(offset + 40, true),
    contextBytes: readContextBytes(view, offset),
    recordBytes: wholeRecordBytes(view, offset),
  }
}

/** True for a record of a client's request: a post or a delete. Control records are none. */
export function isRequest(record: ReadRecord): boolean {
  return record.kind === 'post' || record.kind === 'delete'
}

/**
 * True when the record is a request that recovery must replay: its pool exists and has not flushed
 * it.
 * @param flushed as in RecoverOptions; a pool that is missing there has flushed nothing
 */
export function isUnflushed(record: ReadRecord, flushed: ReadonlyMap<number, number>): boolean {
  if (!isRequest(record)) return false
  const below = flushed.get(record.pool) ?? 0
  return below !== -1 && record.sequence > below
}
