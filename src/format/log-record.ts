/**
 * A log record: one accepted request. log.md has its bytes, and those of the file around it.
 *
 *   W-12  A request is one record with one sequence: it is in the log whole, or not at all.
 *
 * The parse worker writes all but checksum, sequence and group, which the log thread writes.
 */

export const RECORD_MAGIC = 0x43455257
export const RECORD_HEADER_BYTES = 64
/** Bytes of magic and checksum. Records are aligned to 8, so no page ends between them. */
export const RECORD_MARK_BYTES = 8
export const RECORD_KIND = { post: 1, delete: 2, filler: 3, stop: 4 } as const
export const RECORD_HAS_BITS = 1
/** Flag: received-at is in µs. Records of log version 1 lack the flag and hold ms. */
const RECORD_IN_MICROS = 2
/** Flag: each accepted event has a received-at of its own. Posts of log version 3 and later. */
const RECORD_RISES = 4

/**
 * Microseconds from the received-at of an accepted event to that of the next one in its request: 1
 * in pools whose key holds received-at, so that no event is lost to another one's key; 0 elsewhere.
 */
export type ReceivedAtStepUs = 0 | 1

/** Bytes of a record without its bitmap. */
export function recordBytes(bodyBytes: number): number {
  return RECORD_HEADER_BYTES + ((bodyBytes + 7) & ~7)
}

/** The fields of a record that the parse worker knows. */
export interface RecordFields {
  readonly kind: number
  readonly pool: number
  readonly version: number
  readonly receivedAtUs: number
  readonly receivedAtStepUs: ReceivedAtStepUs
  /** Context and document. */
  readonly bodyBytes: number
  readonly bodyCrc: number
  /** Bytes of the request's context, with which the body begins; at most CONTEXT_BYTES_MAX. */
  readonly contextBytes: number
  readonly events: number
  readonly accepted: number
  readonly hasBits: boolean
  readonly bitsCrc: number
}

/** Writes the header at `offset`; sequence, group and checksum stay zero. */
export function writeRecordHeader(view: DataView, offset: number, fields: RecordFields): void {
  view.setUint32(offset, RECORD_MAGIC, true)
  view.setUint32(offset + 4, 0, true)
  view.setFloat64(offset + 8, 0, true)
  view.setFloat64(offset + 16, 0, true)
  writeU64(view, offset + 24, fields.receivedAtUs)
  view.setUint32(offset + 32, fields.pool, true)
  view.setUint32(offset + 36, fields.version, true)
  view.setUint32(offset + 40, fields.bodyBytes, true)
  view.setUint32(offset + 44, fields.bodyCrc, true)
  view.setUint16(offset + 48, fields.events, true)
  view.setUint16(offset + 50, fields.contextBytes, true)
  view.setUint32(offset + 52, fields.accepted, true)
  view.setUint16(offset + 56, fields.kind, true)
  const flags = (fields.hasBits ? RECORD_HAS_BITS : 0) | (fields.receivedAtStepUs === 1 ? RECORD_RISES : 0)
  view.setUint16(offset + 58, RECORD_IN_MICROS | flags, true)
  view.setUint32(offset + 60, fields.bitsCrc, true)
}

/** Received-at in µs of the request whose record stands at `offset`. */
export function readReceivedAtUs(view: DataView, offset: number): number {
  const inMicros = (view.getUint16(offset + 58, true) & RECORD_IN_MICROS) !== 0
  return readU64(view, offset + 24) * (inMicros ? 1 : 1000)
}

export function readReceivedAtStepUs(view: DataView, offset: number): ReceivedAtStepUs {
  return (view.getUint16(offset + 58, true) & RECORD_RISES) === 0 ? 0 : 1
}

/** Events of the request whose record stands at `offset`, accepted or not. */
export function readEvents(view: DataView, offset: number): number {
  return view.getUint16(offset + 48, true)
}

/** Bytes of the context with which the body begins; 0 in records before log version 4. */
export function readContextBytes(view: DataView, offset: number): number {
  return view.getUint16(offset + 50, true)
}

/** A safe integer as u64, without BigInt. */
export function writeU64(view: DataView, offset: number, value: number): void {
  view.setUint32(offset, value >>> 0, true)
  view.setUint32(offset + 4, Math.floor(value / 0x1_0000_0000), true)
}

/** A u64 below 2^53. */
export function readU64(view: DataView, offset: number): number {
  return view.getUint32(offset, true) + view.getUint32(offset + 4, true) * 0x1_0000_0000
}
