/**
 * The records of `data/index`, byte for byte as FORMAT.md draws them: one table tag, then big-endian numbers,
 * so that a pool's records of one kind stand together and in order.
 */
import { assert } from '../util/assert.ts'
import type { SegmentMeta } from './protocol.ts'

/** Version of everything in `data/index`. Another one is rebuilt from the segments. See FORMAT.md. */
export const INDEX_FORMAT = 2

/** First byte of a key in the store. */
export const TAG = { identity: 0x69, key: 0x6b, mark: 0x6d, pool: 0x70, segment: 0x73 } as const

/** The one record under TAG.identity. */
export interface IdentityRecord {
  readonly format: number
  /** Random id of the data folder. Another one: the index is foreign. */
  readonly identity: string
  readonly commit: number
  /** False from the first transaction of a rebuild to its last. */
  readonly complete: boolean
}

export interface PoolRecord {
  readonly sealedSequence: number
  readonly nextSegment: number
}

/** A segment's record: its meta, and how many of its rows are marked (so that start-up reads no marks). */
export interface SegmentRecord {
  readonly meta: SegmentMeta
  readonly marked: number
}

export const IDENTITY_KEY = Uint8Array.of(TAG.identity)

/** `tag · pool`: a pool's record, or the prefix of its records of one kind. */
export function poolKey(tag: number, pool: number): Uint8Array {
  const key = new Uint8Array(5)
  key[0] = tag
  new DataView(key.buffer).setUint32(1, pool)
  return key
}

export function segmentKey(pool: number, segment: number): Uint8Array {
  return numbered(TAG.segment, pool, segment, 9)
}

/** Marks that `commit` made in a segment. */
export function markKey(pool: number, segment: number, commit: number): Uint8Array {
  const key = numbered(TAG.mark, pool, segment, 17)
  const view = new DataView(key.buffer)
  view.setUint32(9, Math.floor(commit / 0x1_0000_0000))
  view.setUint32(13, commit >>> 0)
  return key
}

/** Prefix of all marks of a segment. */
export function markPrefix(pool: number, segment: number): Uint8Array {
  return numbered(TAG.mark, pool, segment, 9)
}

function numbered(tag: number, pool: number, segment: number, bytes: number): Uint8Array {
  const key = new Uint8Array(bytes)
  key[0] = tag
  const view = new DataView(key.buffer)
  view.setUint32(1, pool)
  view.setUint32(5, segment)
  return key
}

/** The pool in a key of any tag but identity. */
export function poolOfKey(key: Uint8Array): number {
  return viewOf(key).getUint32(1)
}

/** The segment in a key of TAG.segment or TAG.mark. */
export function segmentOfKey(key: Uint8Array): number {
  return viewOf(key).getUint32(5)
}

/** The smallest key above all keys that begin with `prefix`. */
export function after(prefix: Uint8Array): Uint8Array {
  const end = Uint8Array.from(prefix)
  for (let i = end.byteLength - 1; i >= 0; i--) {
    const byte = (end[i] as number) + 1
    end[i] = byte & 0xff
    if (byte <= 0xff) return end
  }
  assert(false, 'a prefix begins with a tag below 255')
}

export function encodeJson(value: IdentityRecord | PoolRecord): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value))
}

export function decodeIdentity(bytes: Uint8Array): IdentityRecord {
  return JSON.parse(new TextDecoder().decode(bytes)) as IdentityRecord
}

export function decodePool(bytes: Uint8Array): PoolRecord {
  return JSON.parse(new TextDecoder().decode(bytes)) as PoolRecord
}

/** u32 LE marked rows, then the meta as JSON. */
export function encodeSegment(record: SegmentRecord): Uint8Array {
  const json = Buffer.from(JSON.stringify(record.meta))
  const bytes = new Uint8Array(4 + json.byteLength)
  new DataView(bytes.buffer).setUint32(0, record.marked, true)
  bytes.set(json, 4)
  return bytes
}

export function decodeSegment(bytes: Uint8Array): SegmentRecord {
  const marked = viewOf(bytes).getUint32(0, true)
  return { meta: JSON.parse(new TextDecoder().decode(bytes.subarray(4))) as SegmentMeta, marked }
}

/** Sorted row numbers, u32 LE each. */
export function encodeMarks(rows: Uint32Array): Uint8Array {
  return new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength)
}

/** The rows of a mark record, in a buffer of their own. */
export function decodeMarks(bytes: Uint8Array): Uint32Array {
  assert(bytes.byteLength % 4 === 0, 'a mark record is whole row numbers')
  return new Uint32Array(Uint8Array.from(bytes).buffer)
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
