/** Keys of single values: an encoder beside that of the server, which writes them from columns. */
import {
  SIGN,
  STRING_PART_BYTES_MAX,
  writeDouble,
  writeLong,
  writeString,
  writeWord,
} from '../../src/format/key.ts'
import type { ColumnType } from '../../src/format/schema.ts'
import { assert } from '../../src/util/errors.ts'

/** One stored value of a key, typed by its column. */
export interface KeyPart {
  readonly type: ColumnType
  /**
   * TIMESTAMP: µs since 1970. DATE: days since 1970. STRING: its text or its UTF-8. Integers: a
   * bigint, or a number within ±2^53. FLOAT: as stored, widened. Never null: key columns are
   * required.
   */
  readonly value: bigint | number | string | Uint8Array | boolean
}

/**
 * The key of stored values, in the key's order. Throws AssertionFailed for a value that is not of
 * its type.
 */
export function encodeKeyParts(parts: readonly KeyPart[]): Uint8Array {
  const key = new Uint8Array(parts.length * STRING_PART_BYTES_MAX)
  let end = 0
  for (const part of parts) end = writePart(key, end, part)
  return key.slice(0, end)
}

function writePart(key: Uint8Array, at: number, part: KeyPart): number {
  const { type, value } = part
  switch (type) {
    case 'STRING': {
      const bytes = typeof value === 'string' ? Buffer.from(value, 'utf8') : value
      assert(bytes instanceof Uint8Array, 'the STRING part of a key is text')
      return writeString(key, at, bytes, 0, bytes.length)
    }
    case 'BOOLEAN':
      assert(typeof value === 'boolean', 'the BOOLEAN part of a key is a boolean')
      key[at] = value ? 1 : 0
      return at + 1
    case 'FLOAT':
    case 'DOUBLE':
      assert(typeof value === 'number', 'the floating part of a key is a number')
      return writeDouble(key, at, value)
    case 'DATE':
      assert(typeof value === 'number' || typeof value === 'bigint', 'the DATE part of a key is days')
      return writeWord(key, at, Number(value) ^ SIGN)
    case 'JSON':
      assert(false, 'a key has no JSON part')
      return at
    default: {
      assert(typeof value === 'bigint' || Number.isSafeInteger(value), 'this part of a key is an integer')
      const long = BigInt(value as bigint | number)
      return writeLong(key, at, Number(BigInt.asIntN(32, long >> 32n)), Number(BigInt.asIntN(32, long)))
    }
  }
}
