/**
 * The entries of `data/index`, byte for byte as FORMAT.md draws them. A key is a tag and big-endian
 * numbers, so that a pool's entries of one kind stand together and in order.
 */

import type { SegmentMeta } from '../format/segment-meta.ts'
import { assert } from '../util/errors.ts'

/**
 * Version of everything in `data/index`. An index of another version is rebuilt from the segments.
 * See FORMAT.md.
 */
export const INDEX_FORMAT = 2

/** Bytes of a key's value up to its version: segment and row. */
export const PLACE_BYTES = 8

/** First byte of a key in the store. */
export const TAG = { identity: 0x69, key: 0x6b, deletionVector: 0x6d, pool: 0x70, segment: 0x73 } as const

/** The one entry under TAG.identity. */
export interface IdentityEntry {
  readonly format: number
  /** Random id of the data folder. An index with another id belongs to another folder. */
  readonly identity: string
  readonly commit: number
  /** False from the first transaction of a rebuild to its last. */
  readonly complete: boolean
}

export interface PoolEntry {
  readonly flushedSequence: number
  readonly nextSegment: number
  /** As in PoolState; undefined where an older version of Weir wrote the entry last. */
  readonly receivedToUs?: number
}

/**
 * A segment's entry: its meta, and the number of its deleted rows, so that start-up reads no
 * deletion vectors.
 */
export interface SegmentEntry {
  readonly meta: SegmentMeta
  readonly deletedRows: number
}

export const IDENTITY_KEY = Uint8Array.of(TAG.identity)

/** `tag · pool`: the key of a pool's entry, or the prefix of its entries of one kind. */
export function poolKey(tag: number, pool: number): Uint8Array {
  const key = new Uint8Array(5)
  key[0] = tag
  new DataView(key.buffer).setUint32(1, pool)
  return key
}

export function segmentKey(pool: number, segment: number): Uint8Array {
  return numbered(TAG.segment, pool, segment, 9)
}

/** The rows of a segment that `commit` deleted. */
export function deletionVectorKey(pool: number, segment: number, commit: number): Uint8Array {
  const key = numbered(TAG.deletionVector, pool, segment, 17)
  const view = new DataView(key.buffer)
  view.setUint32(9, Math.floor(commit / 0x1_0000_0000))
  view.setUint32(13, commit >>> 0)
  return key
}

/** Prefix of all deletion vector entries of a segment. */
export function deletionVectorPrefix(pool: number, segment: number): Uint8Array {
  return numbered(TAG.deletionVector, pool, segment, 9)
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

/** The segment in a key of TAG.segment or TAG.deletionVector. */
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

/** The JSON of the identity. */
export function encodeIdentity(identity: IdentityEntry): Uint8Array {
  return jsonBytes(identity)
}

export function decodeIdentity(bytes: Uint8Array): IdentityEntry {
  return parseJson(bytes) as IdentityEntry
}

/** The JSON of a pool. Its names on disk are older than the names in the code. */
export function encodePool({ flushedSequence, ...rest }: PoolEntry): Uint8Array {
  return jsonBytes({ sealedSequence: flushedSequence, ...rest })
}

export function decodePool(bytes: Uint8Array): PoolEntry {
  const { sealedSequence, ...rest } = parseJson(bytes) as Omit<PoolEntry, 'flushedSequence'> & {
    readonly sealedSequence: number
  }
  return { flushedSequence: sealedSequence, ...rest }
}

/** u32 LE deleted rows, then the meta as JSON, whose `planVersion` is the schema version. */
export function encodeSegment({ meta, deletedRows }: SegmentEntry): Uint8Array {
  const { schemaVersion, ...rest } = meta
  const json = jsonBytes({ ...rest, planVersion: schemaVersion })
  const bytes = new Uint8Array(4 + json.byteLength)
  new DataView(bytes.buffer).setUint32(0, deletedRows, true)
  bytes.set(json, 4)
  return bytes
}

export function decodeSegment(bytes: Uint8Array): SegmentEntry {
  const deletedRows = viewOf(bytes).getUint32(0, true)
  const { planVersion, ...rest } = parseJson(bytes.subarray(4)) as Omit<SegmentMeta, 'schemaVersion'> & {
    readonly planVersion: number
  }
  return { meta: { ...rest, schemaVersion: planVersion }, deletedRows }
}

function jsonBytes(value: object): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value))
}

function parseJson(bytes: Uint8Array): unknown {
  return JSON.parse(new TextDecoder().decode(bytes))
}

/** Sorted row numbers, u32 LE each. */
export function encodeDeletionVector(rows: Uint32Array): Uint8Array {
  return new Uint8Array(rows.buffer, rows.byteOffset, rows.byteLength)
}

/** The rows of a deletion vector entry, in a buffer of their own. */
export function decodeDeletionVector(bytes: Uint8Array): Uint32Array {
  assert(bytes.byteLength % 4 === 0, 'a deletion vector entry holds whole row numbers')
  return new Uint32Array(Uint8Array.from(bytes).buffer)
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
