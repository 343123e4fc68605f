/**
 * The windows that the frames of a zstd body ask for. A decoder holds the window of a frame in
 * memory as soon as it has the frame's header, so each header is read before the decoder gets it
 * (RFC 8878, 3.1).
 *
 *   frame            magic · descriptor · window, dictionary id, content size · blocks · checksum
 *   skippable frame  magic · length · bytes
 *
 *   W-9  No frame takes a window above ZSTD_WINDOW_BYTES_MAX.
 */
import { BodyBroken } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'

/**
 * Window of a zstd frame, which the thread of an import holds. Levels up to 19 take at most this,
 * and RFC 8878 asks decoders for it; levels 20 to 22 and --long take 32 to 128 MiB.
 */
const ZSTD_WINDOW_BYTES_MAX = 8 * MiB

const MAGIC = 0xfd2f_b528
/** The first of 16 magic numbers of frames that are skipped. */
const SKIPPABLE = 0x184d_2a50
const CHECKSUM_BYTES = 4

/** Bytes of the content size, by the first two bits of the descriptor. */
const SIZE_BYTES = [0, 2, 4, 8] as const
/** Bytes of the dictionary id, by the last two bits of the descriptor. */
const DICTIONARY_BYTES = [0, 1, 2, 4] as const

/** Steps from header to header of a body that comes in pieces. */
export class ZstdWindows {
  /** The body is no sequence of frames from some byte of the last piece on. */
  isBroken = false
  /** The error for a frame whose window is too large. */
  tooLarge: BodyBroken | undefined
  readonly #gathered = Buffer.alloc(16)
  #gatheredBytes = 0
  /** Bytes without a header that come next. */
  #skipBytes = 0
  readonly #headers = this.#readHeaders()
  #headerBytes = this.#headers.next().value ?? 0

  /** The bytes of the next piece that the decoder may get: all, without an error. */
  allowedBytes(piece: Uint8Array): number {
    let at = 0
    while (at < piece.byteLength && !this.isBroken) {
      const skipped = Math.min(this.#skipBytes, piece.byteLength - at)
      this.#skipBytes -= skipped
      at += skipped
      if (at === piece.byteLength) break
      this.#gathered[this.#gatheredBytes] = piece[at]!
      this.#gatheredBytes += 1
      if (this.#gatheredBytes === this.#headerBytes) {
        this.#gatheredBytes = 0
        this.#headerBytes = this.#headers.next(this.#gathered).value ?? 0
        this.isBroken = this.#headerBytes === 0
        // The decoder does not get the last byte of the header.
        if (this.tooLarge !== undefined) return at
      }
      at += 1
    }
    return piece.byteLength
  }

  /**
   * Reads the frames one after the other. It yields the bytes of the next header and gets them
   * back; between two headers #skipBytes are passed over. It ends where no frame stands.
   */
  *#readHeaders(): Generator<number, undefined, Buffer> {
    for (;;) {
      const magic = (yield 4).readUInt32LE()
      if ((magic & 0xffff_fff0) >>> 0 === SKIPPABLE) {
        this.#skipBytes = (yield 4).readUInt32LE()
        continue
      }
      if (magic !== MAGIC) return undefined
      const descriptor = (yield 1)[0]!
      const isWhole = (descriptor & 0x20) !== 0
      const hasChecksum = (descriptor & 0x04) !== 0
      const sizeFlag = descriptor >> 6
      const sizeBytes = sizeFlag === 0 && isWhole ? 1 : SIZE_BYTES[sizeFlag]!
      const sizeAt = (isWhole ? 0 : 1) + DICTIONARY_BYTES[descriptor & 3]!
      const head = yield sizeAt + sizeBytes
      const window = isWhole ? contentBytes(head, sizeAt, sizeBytes) : windowBytes(head[0]!)
      if (window > ZSTD_WINDOW_BYTES_MAX) this.tooLarge = windowTooLarge(window)
      for (let isLast = false; !isLast; ) {
        const block = (yield 3).readUIntLE(0, 3)
        const type = (block >> 1) & 3
        if (type === 3) return undefined
        isLast = (block & 1) !== 0
        this.#skipBytes = type === 1 ? 1 : block >> 3 // type 1 repeats one byte
      }
      if (hasChecksum) this.#skipBytes += CHECKSUM_BYTES
    }
  }
}

/** A frame in one segment has its content as its window. */
function contentBytes(head: Buffer, at: number, bytes: number): number {
  if (bytes === 8) return Number(head.readBigUInt64LE(at))
  return head.readUIntLE(at, bytes) + (bytes === 2 ? 256 : 0)
}

function windowBytes(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3))
  return base + (base / 8) * (descriptor & 7)
}

function windowTooLarge(bytes: number): BodyBroken {
  return new BodyBroken(
    'zstd_window',
    `a zstd frame of the body takes a window of ${bytes} bytes, and this server at most ${ZSTD_WINDOW_BYTES_MAX}: compress it without --long and with a level up to 19 (levels 20 to 22 take windows of 32 to 128 MiB), or with gzip`,
  )
}
