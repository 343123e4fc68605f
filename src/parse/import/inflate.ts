/**
 * The body of an import as decoded pieces: as it is, or inflated from gzip or zstd. A piece is made
 * when the one before it was used, so a small body that inflates to a terabyte takes no memory.
 *
 *   W-9  A window of zstd has at most ZSTD_WINDOW_BYTES_MAX, one of gzip 32 KiB.
 *
 * NOTE: Node 20 has no zstd. zstddec is libzstd as WebAssembly, 1,500 MB/s, and checks checksums.
 * It yields empty pieces for ever where the input is damaged, which is noticed here.
 */
import { ZSTDDecoder } from 'zstddec/stream'
import { BodyBroken } from '../../util/errors.ts'
import { MiB } from '../../util/limits.ts'
import { gunzipPieces, type Pieces } from '../gunzip.ts'
import type { Encoding } from './import-types.ts'

/** Decodes the pieces of a body. Throws BodyBroken where they cannot be decoded. */
export function inflate(pieces: Pieces, encoding: Encoding): Pieces {
  if (encoding === 'identity') return pieces
  return encoding === 'gzip' ? gunzipPieces(pieces) : unzstd(pieces)
}

const BROKEN_ZSTD = 'the body is not a complete zstd stream, or its checksum is wrong'

async function* unzstd(pieces: Pieces): AsyncGenerator<Uint8Array, void, void> {
  const decoder = new ZSTDDecoder()
  await decoder.init()
  const stream = new ZstdStream(decoder)
  const windows = new ZstdWindows()
  let isEmpty = true
  for await (const piece of pieces) {
    if (piece.byteLength === 0) continue
    isEmpty = false
    const allowed = windows.allowedBytes(piece)
    if (allowed > 0) stream.give(piece.subarray(0, allowed))
    while (stream.hasInput) {
      const decoded = stream.next()
      if (decoded !== undefined && decoded.byteLength > 0) yield decoded
    }
    const problem = windows.isBroken ? new BodyBroken('broken_zstd', BROKEN_ZSTD) : windows.tooLarge
    if (problem !== undefined) {
      yield* stream.last(problem)
      return
    }
  }
  if (isEmpty) throw new BodyBroken('broken_zstd', BROKEN_ZSTD)
  yield* stream.last()
}

/** The smallest frame of zstd, in bytes: one that is skipped. */
const FRAME_BYTES_MIN = 8

/** Steps through the decoder's generator, which asks for its input itself and does not wait. */
class ZstdStream {
  readonly #decoded: Iterator<Uint8Array, void>
  #waiting: Uint8Array | undefined
  /** Pieces without bytes that the decoder may still yield for the input that it has. */
  #emptyLeft = 0

  constructor(decoder: ZSTDDecoder) {
    this.#decoded = decoder.decodeStreaming(this.#inputs())
  }

  /** True while the decoder has not asked for the bytes that were given last. */
  get hasInput(): boolean {
    return this.#waiting !== undefined
  }

  give(piece: Uint8Array): void {
    this.#waiting = piece
  }

  /** The next decoded bytes, undefined at the end. Called while hasInput, and at the end. */
  next(): Uint8Array | undefined {
    let step: IteratorResult<Uint8Array, void>
    try {
      step = this.#decoded.next()
    } catch {
      throw new BodyBroken('broken_zstd', BROKEN_ZSTD) // `Incomplete stream` is its only error
    }
    if (step.done === true) return undefined
    if (step.value.byteLength === 0) this.#emptyLeft -= 1
    if (this.#emptyLeft < 0) throw new BodyBroken('broken_zstd', BROKEN_ZSTD)
    return step.value
  }

  /** The decoded bytes that are left. Throws `problem` in place of the decoder's own error. */
  *last(problem?: BodyBroken): Generator<Uint8Array, void, void> {
    try {
      for (let last = this.next(); last !== undefined; last = this.next()) if (last.byteLength > 0) yield last
    } catch (error) {
      throw problem ?? error
    }
    if (problem !== undefined) throw problem
  }

  *#inputs(): Generator<Uint8Array, void, void> {
    for (let piece = this.#waiting; piece !== undefined; piece = this.#waiting) {
      this.#waiting = undefined
      this.#emptyLeft = 16 + piece.byteLength / FRAME_BYTES_MIN
      yield piece
    }
  }
}

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

/**
 * The windows that the frames of a zstd body ask for. A decoder holds the window of a frame in
 * memory as soon as it has the frame's header, so each header is read before the decoder gets it
 * (RFC 8878, 3.1).
 *
 *   frame            magic · descriptor · window, dictionary id, content size · blocks · checksum
 *   skippable frame  magic · length · bytes
 */
class ZstdWindows {
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
