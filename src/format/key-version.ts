/**
 * The version of a row, in a pool that names a version column: of the rows of a key since its last
 * delete the highest version wins, and of equal versions the later one. A version has VERSION_BYTES
 * bytes, which compare as the values do. The native routines write the same bytes
 * (parse/native/key.h).
 */
import { writeDouble, writeLong } from './key.ts'
import { type ColumnType, NUMBER_TYPES } from './schema.ts'

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
