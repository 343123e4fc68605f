/**
 * A record's key in bytes: its columns in key order. Keys compare as bytes in the order of their
 * values, except long strings, which are hashed. batch.md shows the boxes. The same value always
 * gives the same bytes, whether it comes from an event, from a DELETE, or from a segment when the
 * index is rebuilt.
 */
import { createHash } from 'node:crypto'
import { assert } from '../util/errors.ts'
import { type ColumnType, KEY_RECEIVED_AT, NUMBER_TYPES, type PoolSchema } from './schema.ts'

/** Bytes of a key part; a longer one is its SHA-256. parse/native/schema.h repeats it. */
export const KEY_PART_BYTES_MAX = 200

/** A length byte that no short string has: a SHA-256 follows. */
const HASHED = 255
const HASH_BYTES = 32
/** Bytes of a string's part at most: the length byte and the text. */
export const STRING_PART_BYTES_MAX = 1 + KEY_PART_BYTES_MAX
export const SIGN = 0x8000_0000
const DAY_US = 86_400_000_000

/** Values of a column of a key. Columns of the TypeScript kernel hold theirs so. */
export interface KeyValues {
  /** STRING: the texts of all rows. */
  readonly bytes: Uint8Array
  /**
   * STRING: the offsets of the texts. INT64 and TIMESTAMP: two words a row, the low one first.
   * BOOLEAN, DATE and smaller integers: a word a row.
   */
  readonly words: ArrayLike<number>
  /** FLOAT, widened, and DOUBLE. */
  readonly doubles: ArrayLike<number>
}

/** True where all rows of a key have the same primary timestamp. */
export function keyHasTimestamp({ key, timestamp }: PoolSchema): boolean {
  return key?.columns.includes(timestamp) ?? false
}

/**
 * The primary timestamp in a key, µs (a DATE is its midnight), as close as a number is; null where
 * keys do not begin with it. Throws RangeError for bytes that are no key of the schema.
 */
export function keyTimeUs(schema: PoolSchema, key: Uint8Array): number | null {
  if (schema.key === null || schema.key.columns[0] !== schema.timestamp) return null
  const view = new DataView(key.buffer, key.byteOffset, key.byteLength)
  const type = schema.timestamp === KEY_RECEIVED_AT ? 'TIMESTAMP' : schema.columns[schema.timestamp]?.type
  if (type === 'DATE') return (view.getUint32(0) ^ SIGN) * DAY_US
  assert(type === 'TIMESTAMP', 'a primary timestamp is a TIMESTAMP or a DATE')
  return Number(BigInt.asIntN(64, view.getBigUint64(0) ^ 0x8000_0000_0000_0000n))
}

/** Writes the part of row `row`, which is not null, at `at`. Returns its end. */
export function writeKeyPart(
  key: Uint8Array,
  at: number,
  type: ColumnType,
  { bytes, words, doubles }: KeyValues,
  row: number,
): number {
  switch (type) {
    case 'STRING':
      return writeString(key, at, bytes, words[row]!, words[row + 1]!)
    case 'BOOLEAN':
      key[at] = words[row]!
      return at + 1
    case 'FLOAT':
    case 'DOUBLE':
      return writeDouble(key, at, doubles[row]!)
    case 'DATE':
      return writeWord(key, at, words[row]! ^ SIGN)
    case 'INT64':
    case 'TIMESTAMP':
      return writeLong(key, at, words[2 * row + 1]!, words[2 * row]!)
    case 'JSON':
      assert(false, 'a key has no JSON part')
      return at
    default:
      return writeLong(key, at, words[row]! >> 31, words[row]!)
  }
}

/** The end of the part of `type` that begins at `at` of a key. */
export function keyPartEnd(key: Uint8Array, at: number, type: ColumnType): number {
  switch (type) {
    case 'STRING':
      return at + 1 + (key[at] === HASHED ? HASH_BYTES : key[at]!)
    case 'BOOLEAN':
      return at + 1
    case 'DATE':
      return at + 4
    default:
      return at + 8
  }
}

/** Big-endian, so that bytes compare as numbers. */
export function writeWord(key: Uint8Array, at: number, word: number): number {
  key[at] = word >>> 24
  key[at + 1] = word >>> 16
  key[at + 2] = word >>> 8
  key[at + 3] = word
  return at + 4
}

/** A 64-bit integer with its sign flipped: negative numbers come first. */
export function writeLong(key: Uint8Array, at: number, high: number, low: number): number {
  return writeWord(key, writeWord(key, at, high ^ SIGN), low)
}

const float = new Float64Array(1)
const floatWords = new Int32Array(float.buffer)

/** A double in total order: negative ones inverted, the others with the sign flipped. */
export function writeDouble(key: Uint8Array, at: number, value: number): number {
  float[0] = value + 0 // −0 is stored as 0, and a stored −0 of another writer is the same key
  const low = floatWords[0]!
  const high = floatWords[1]!
  const negative = high < 0
  return writeWord(key, writeWord(key, at, negative ? ~high : high ^ SIGN), negative ? ~low : low)
}

/** Length and bytes, or 255 and the SHA-256 where they are too many. */
export function writeString(
  key: Uint8Array,
  at: number,
  bytes: Uint8Array,
  from: number,
  to: number,
): number {
  const length = to - from
  if (length <= KEY_PART_BYTES_MAX) {
    key[at] = length
    for (let i = 0; i < length; i++) key[at + 1 + i] = bytes[from + i]!
    return at + 1 + length
  }
  key[at] = HASHED
  key.set(createHash('sha256').update(bytes.subarray(from, to)).digest(), at + 1)
  return at + 1 + HASH_BYTES
}

// ── versions of rows ─────────────────────────────────────────────────────────────────────────────

/**
 * Bytes of a row's version, in a pool with a version column: of the rows of a key since its last
 * delete the highest wins, and of equal ones the later one. Versions compare as bytes.
 * The native routines write the same bytes (parse/native/key.h).
 */
export const VERSION_BYTES = 8

/** The types that a version column may have: numbers and times. */
export const VERSION_TYPES: ReadonlySet<ColumnType> = new Set<ColumnType>([
  ...NUMBER_TYPES,
  'DATE',
  'TIMESTAMP',
])

/**
 * Writes the version of a stored value: µs of a TIMESTAMP and days of a DATE since 1970.
 * @param value a bigint or a number of one of VERSION_TYPES; a number is a float or has 32 bits
 */
export function writeVersion(into: Uint8Array, at: number, type: ColumnType, value: bigint | number): void {
  if (type === 'FLOAT' || type === 'DOUBLE') writeDouble(into, at, Number(value))
  else if (typeof value === 'number') writeLong(into, at, value >> 31, value)
  else writeLong(into, at, Number(BigInt.asIntN(32, value >> 32n)), Number(BigInt.asIntN(32, value)))
}
