/**
 * CRC-32 (zlib's) of log records, segments, backups and whole files. Native where the module was
 * built, else Node's.
 */
import { crc32 as nodeCrc32 } from 'node:zlib'
import type { Disk } from './disk.ts'
import { asDamage } from './errors.ts'
import { tryNative } from './native.ts'

type Crc32 = (bytes: Uint8Array, before: number) => number

/** Node's function is as fast for fewer bytes. */
const NATIVE_BYTES_MIN = 256

let nativeOrNode: Crc32 | undefined

/** @param before the checksum of the bytes in front of these */
export function crc32(bytes: Uint8Array, before = 0): number {
  if (bytes.byteLength < NATIVE_BYTES_MIN) return nodeCrc32(bytes, before)
  nativeOrNode ??= tryNative<{ readonly crc32: Crc32 }>()?.crc32 ?? nodeCrc32
  return nativeOrNode(bytes, before)
}

/**
 * CRC-32 of any bytes followed by their own CRC-32 (little-endian): always this value. A delete
 * file ends with its checksum, so it is verified without being parsed.
 */
export const SELF_CHECKED = 0x2144df1c

/** Bytes of one read of `fileChecksum`. */
const READ_BYTES = 1024 * 1024

/** CRC-32 of a whole file. Throws Damaged where the disk cannot read it, else Node's error. */
export function fileChecksum(on: Disk, path: string): number {
  const buffer = new Uint8Array(READ_BYTES)
  const file = on.open(path, 'r')
  try {
    let checksum = 0
    for (let position = 0; ; ) {
      const bytes = on.read(file, buffer, position)
      if (bytes === 0) return checksum
      checksum = crc32(buffer.subarray(0, bytes), checksum)
      position += bytes
    }
  } catch (error) {
    throw asDamage(error, path)
  } finally {
    on.close(file)
  }
}
