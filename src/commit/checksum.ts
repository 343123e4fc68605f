/**
 * The three fields of a record header that the log worker owns, and whether a header is one of this file's.
 * Enforces the checksum half of W-2.
 */
import { crc32 } from 'node:zlib'
import { align8 } from '../batch/layout.ts'
import { assert } from '../util/assert.ts'
import {
  RECORD_HAS_BITS,
  RECORD_HEADER_BYTES,
  RECORD_KIND,
  RECORD_MAGIC,
  recordBytes,
  writeRecordHeader,
  writeU64,
} from './record.ts'

/** A DataView over the same bytes. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Fills in sequence, group and checksum of the header at `offset`. */
export function sealHeader(
  bytes: Uint8Array,
  view: DataView,
  offset: number,
  stamp: { readonly sequence: number; readonly group: number; readonly salt: number },
): void {
  writeU64(view, offset + 8, stamp.sequence)
  writeU64(view, offset + 16, stamp.group)
  view.setUint32(offset + 4, checksumAt(bytes, offset, stamp.salt), true)
}

/** Is there a header at `offset` that was sealed with `salt`? */
export function headerIsValid(bytes: Uint8Array, view: DataView, offset: number, salt: number): boolean {
  if (offset + RECORD_HEADER_BYTES > bytes.byteLength) return false
  if (view.getUint32(offset, true) !== RECORD_MAGIC) return false
  return view.getUint32(offset + 4, true) === checksumAt(bytes, offset, salt)
}

function checksumAt(bytes: Uint8Array, offset: number, salt: number): number {
  return crc32(bytes.subarray(offset + 8, offset + RECORD_HEADER_BYTES), salt)
}

/** Bytes of the whole record at `offset`, its bitmap included. */
export function wholeRecordBytes(view: DataView, offset: number): number {
  const record = recordBytes(view.getUint32(offset + 40, true))
  const hasBits = (view.getUint16(offset + 58, true) & RECORD_HAS_BITS) !== 0
  return hasBits ? record + align8(bitmapBytes(view.getUint32(offset + 48, true))) : record
}

/** Bytes of an accepted-bitmap, without its padding. */
export function bitmapBytes(events: number): number {
  return Math.ceil(events / 8)
}

/**
 * Numbers `records` records that stand one behind the other in [offset, offset + bytes), from `sequence` on.
 * Asserts that they fill the range exactly: a record that lies about its length must not reach the disk.
 */
export function sealRun(
  bytes: Uint8Array,
  run: {
    readonly offset: number
    readonly bytes: number
    readonly records: number
    readonly bitsBytes: number
  },
  stamp: { readonly sequence: number; readonly group: number; readonly salt: number },
): void {
  const view = viewOf(bytes)
  const end = run.offset + run.bytes
  assert(run.offset % 8 === 0 && end <= bytes.byteLength, 'a span is aligned and inside its slab')
  let offset = run.offset
  for (let index = 0; index < run.records; index++) {
    assert(offset + RECORD_HEADER_BYTES <= end, 'a record header is inside its span')
    assert(view.getUint32(offset, true) === RECORD_MAGIC, 'a span is made of records')
    const hasBits = (view.getUint16(offset + 58, true) & RECORD_HAS_BITS) !== 0
    const bitsBytes = hasBits ? bitmapBytes(view.getUint32(offset + 48, true)) : 0
    const wanted = index === run.records - 1 ? run.bitsBytes : 0
    assert(bitsBytes === wanted, 'a record with a bitmap ends its span, and the bitmap has a bit per event')
    sealHeader(bytes, view, offset, {
      sequence: stamp.sequence + index,
      group: stamp.group,
      salt: stamp.salt,
    })
    offset += recordBytes(view.getUint32(offset + 40, true))
  }
  assert(offset === end, 'the records fill their span')
}

/** A record without a body: a gap up to `lastSequence`, or a clean-stop mark. */
export function markRecord(
  kind: 'gap' | 'stop',
  lastSequence: number,
  stamp: { readonly sequence: number; readonly group: number; readonly salt: number },
): Uint8Array {
  const bytes = new Uint8Array(RECORD_HEADER_BYTES)
  const view = viewOf(bytes)
  writeRecordHeader(view, 0, {
    kind: RECORD_KIND[kind],
    pool: 0,
    version: 0,
    receivedAtMs: lastSequence,
    bodyBytes: 0,
    bodyCrc: 0,
    events: 0,
    accepted: 0,
    hasBits: false,
    bitsCrc: 0,
  })
  sealHeader(bytes, view, 0, stamp)
  return bytes
}
