/** CRC-32 (zlib's): native where the module was built, else Node's (docs/decisions/0021). */
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

/** CRC-32 of any bytes followed by their own CRC-32 (little-endian), as in a delete file. */
export const SELF_CHECKED = 0x2144df1c

/** Bytes of one read of a file. */
const PIECE_BYTES = 1024 * 1024

/** Each piece is read and counted in one turn, so all files of a thread share the buffer. */
let pieceBuffer: Uint8Array | undefined

/** Yields the bytes of each piece of a file, and returns the CRC-32 of all. */
function* checksumPieces(on: Disk, path: string): Generator<number, number, void> {
  pieceBuffer ??= new Uint8Array(PIECE_BYTES)
  const file = on.open(path, 'r')
  try {
    let checksum = 0
    for (let position = 0; ; ) {
      const bytes = on.read(file, pieceBuffer, position)
      if (bytes === 0) return checksum
      checksum = crc32(pieceBuffer.subarray(0, bytes), checksum)
      position += bytes
      yield bytes
    }
  } catch (error) {
    throw asDamage(error, path)
  } finally {
    on.close(file)
  }
}

/** CRC-32 of a whole file. Throws Damaged where the disk cannot read it, else Node's error. */
export function fileChecksum(on: Disk, path: string): number {
  const pieces = checksumPieces(on, path)
  for (;;) {
    const { done, value } = pieces.next()
    if (done === true) return value
  }
}

/** The same with a rest after each piece. An error of `rest` ends the reading. */
export async function restingChecksum(
  on: Disk,
  path: string,
  rest: (bytes: number) => Promise<void>,
): Promise<number> {
  const pieces = checksumPieces(on, path)
  try {
    for (;;) {
      const { done, value } = pieces.next()
      if (done === true) return value
      await rest(value)
    }
  } finally {
    pieces.return(0) // closes the file
  }
}
