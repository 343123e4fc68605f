/** CRC-32 (zlib's) of log records, segments and backups: native where the module was built, else Node's. */
import { crc32 as nodeCrc32 } from 'node:zlib'
import { tryNative } from './native.ts'

type Crc32 = (bytes: Uint8Array, before: number) => number

/** Of fewer bytes Node's own is as fast. */
const NATIVE_BYTES_MIN = 256

let long: Crc32 | undefined

/** @param before the checksum of the bytes in front of these */
export function crc32(bytes: Uint8Array, before = 0): number {
  if (bytes.byteLength < NATIVE_BYTES_MIN) return nodeCrc32(bytes, before)
  long ??= (tryNative()?.['crc32'] as Crc32 | undefined) ?? nodeCrc32
  return long(bytes, before)
}
