/**
 * A segment with rows and deletes is two files that count only together. These changes let one of
 * them count without the other, which is lost.
 */
import { crc32 } from 'node:zlib'
import { disk, withFile } from '../util/disk.ts'
import { assert } from '../util/errors.ts'

/** A delete file of a flush without rows: byte 36 of src/format/segment.md, and the checksum. */
export function standAlone(bytes: Uint8Array): Uint8Array {
  const alone = Uint8Array.from(bytes)
  const view = new DataView(alone.buffer)
  view.setUint32(36, 0, true)
  view.setUint32(alone.length - 4, crc32(alone.subarray(0, alone.length - 4)), true)
  return alone
}

/** The last bytes of a Parquet file: the length of its footer, and 'PAR1'. */
const TRAILER_BYTES = 8
const DELETES_KEY = 'weir.deletes'

/**
 * Overwrites the digits of `weir.deletes` in the footer with as many zeros, so that nothing moves.
 */
export function nameNoDeletes(file: string): void {
  withFile(disk, file, 'r+', handle => {
    const size = disk.size(file)
    const trailer = new Uint8Array(TRAILER_BYTES)
    disk.read(handle, trailer, size - TRAILER_BYTES)
    const footerBytes = new DataView(trailer.buffer).getUint32(0, true)
    const from = size - TRAILER_BYTES - footerBytes
    const footer = Buffer.alloc(footerBytes)
    disk.read(handle, footer, from)
    // Compact Thrift: the key's text, then 0x18 (the next field is a text), its length, its digits.
    const at = footer.indexOf(DELETES_KEY) + DELETES_KEY.length
    const digits = footer[at + 1] ?? 0
    const isFound = footer.indexOf(DELETES_KEY) >= 0 && footer[at] === 0x18 && digits < 20
    assert(isFound, `the footer of ${file} names its deletes`)
    disk.write(handle, [new Uint8Array(digits).fill(0x30)], from + at + 2)
    disk.fdatasync(handle)
  })
}
