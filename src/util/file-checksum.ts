/** The checksum of a whole file, read by pieces: a segment's, as the index keeps it. */
import { crc32 } from './crc32.ts'
import type { Disk } from './disk.ts'
import { asDamage } from './lost.ts'

/**
 * CRC-32 of any bytes that are followed by their own CRC-32, little-endian: whatever they are. So a file that ends with
 * its checksum, as a delete file does, is checked without a look inside.
 */
export const SELF_CHECKED = 0x2144df1c

/** Read at once. */
const PIECE_BYTES = 1024 * 1024

/** CRC-32 of a file's bytes. Throws Damaged where they cannot be read, else Node's error. */
export function fileChecksum(on: Disk, path: string): number {
  const piece = new Uint8Array(PIECE_BYTES)
  const file = on.open(path, 'r')
  try {
    let checksum = 0
    for (let position = 0; ; ) {
      const bytes = on.read(file, piece, position)
      if (bytes === 0) return checksum
      checksum = crc32(piece.subarray(0, bytes), checksum)
      position += bytes
    }
  } catch (error) {
    throw asDamage(error, path)
  } finally {
    on.close(file)
  }
}
