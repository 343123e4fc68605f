/**
 * The body of an import as decoded pieces: as it is, or inflated from gzip or zstd. A piece is made
 * when the one before it was used, so a small body that inflates to a terabyte takes no memory.
 *
 *   W-9  A window of zstd has at most ZSTD_WINDOW_BYTES_MAX (zstd-windows.ts), one of gzip 32 KiB.
 *
 * NOTE: Node 20 has no zstd. zstddec is libzstd as WebAssembly, 1,500 MB/s, and checks checksums.
 * It yields empty pieces for ever where the input is damaged, which is noticed here.
 */
import { ZSTDDecoder } from 'zstddec/stream'
import { BodyBroken } from '../../util/errors.ts'
import { gunzipPieces, type Pieces } from '../gunzip.ts'
import type { Encoding } from './import-types.ts'
import { ZstdWindows } from './zstd-windows.ts'

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
