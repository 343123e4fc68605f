/**
 * A body of any size, read as its consumer asks for it. While UPLOAD_BUFFER_BYTES wait, the socket
 * is paused, so that TCP slows the client down.
 *
 *   W-9  An upload buffers UPLOAD_BUFFER_BYTES and what the library had read when it was paused. A
 *        client that sends nothing for UPLOAD_STALL_MS is refused; time while Weir pauses it does
 *        not count.
 */
import { monotonicMs } from '../../util/clock.ts'
import type { Refusal } from '../../util/errors.ts'
import { BODY_WAIT_ON_MS, MiB, UPLOAD_PIECE_BYTES } from '../../util/limits.ts'
import { nothing, type Responder } from '../http/responder.ts'
import { refuse } from '../problem.ts'

/** Bytes of an upload that wait on the main thread; beyond it the socket is paused. */
export const UPLOAD_BUFFER_BYTES = 1 * MiB

/** Why an upload ended early. There may be no client any more to tell it to. */
export class UploadEnded extends Error {
  override readonly name = 'UploadEnded'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(refusal.message)
    this.refusal = refusal
  }
}

const STALLED = refuse(408, 'body_too_slow', 'the client sent no byte of the body for too long')
const GONE = refuse(499, 'client_gone', 'the client disconnected before the end of its body')

/** Copied chunks of the socket in one buffer. Whoever takes the piece owns the buffer. */
interface Piece {
  readonly bytes: Buffer
  used: number
}

export class UploadBody {
  readonly #responder: Responder
  readonly #stallMs: number
  readonly #pieces: Piece[] = []
  #bufferedBytes = 0
  bytes = 0
  #isComplete = false
  #isPaused = false
  #ended: UploadEnded | undefined
  #lastByteMs = monotonicMs()
  #waitOnAtMs = 0
  #changed: () => void = nothing
  /** Called when it ends early. */
  onEnded: () => void = nothing

  /** Called in the turn of the request's head: a library drops a body that nobody reads. */
  constructor(responder: Responder, stallMs: number) {
    this.#responder = responder
    this.#stallMs = stallMs
    responder.isUpload = true
    responder.onGone = () => this.end(GONE)
    responder.onData((chunk, last) => this.#take(chunk, last))
  }

  get whyEnded(): Refusal | undefined {
    return this.#ended?.refusal
  }

  /** Bytes for the caller to own, undefined at the end. One call at a time. @throws UploadEnded */
  async next(): Promise<Uint8Array<ArrayBuffer> | undefined> {
    for (;;) {
      if (this.#ended !== undefined) throw this.#ended
      const piece = this.#pieces.shift()
      if (piece !== undefined) {
        this.#bufferedBytes -= piece.used
        if (this.#bufferedBytes < UPLOAD_BUFFER_BYTES / 2) this.#resume()
        return new Uint8Array(piece.bytes.buffer as ArrayBuffer, piece.bytes.byteOffset, piece.used)
      }
      if (this.#isComplete) return undefined
      this.#resume()
      await new Promise<void>(resolve => {
        this.#changed = resolve
      })
    }
  }

  end(why: Refusal): void {
    this.#ended ??= new UploadEnded(why)
    this.#pieces.length = 0
    this.#changed()
    this.onEnded()
  }

  /** Refuses a client that stalls. Restarts the library's own timer for one that is slow. */
  tick(nowMs: number): void {
    if (this.#isComplete || this.#isPaused || this.#ended !== undefined) return
    if (nowMs - this.#lastByteMs > this.#stallMs) this.end(STALLED)
    else if (nowMs >= this.#waitOnAtMs) {
      this.#waitOnAtMs = nowMs + BODY_WAIT_ON_MS
      this.#responder.waitOn()
    }
  }

  #take(chunk: Uint8Array, last: boolean): void {
    if (this.#ended !== undefined) return
    this.#lastByteMs = monotonicMs()
    this.bytes += chunk.byteLength
    if (chunk.byteLength > 0) this.#buffer(chunk)
    if (last) this.#isComplete = true
    else if (this.#bufferedBytes >= UPLOAD_BUFFER_BYTES) this.#pause()
    this.#changed()
  }

  /** Copies a chunk, whose memory is valid only during the call. */
  #buffer(chunk: Uint8Array): void {
    this.#bufferedBytes += chunk.byteLength
    let piece = this.#pieces.at(-1)
    if (piece === undefined || piece.used + chunk.byteLength > piece.bytes.byteLength) {
      const bytes = Buffer.allocUnsafeSlow(Math.max(UPLOAD_PIECE_BYTES, chunk.byteLength))
      piece = { bytes, used: 0 }
      this.#pieces.push(piece)
    }
    piece.bytes.set(chunk, piece.used)
    piece.used += chunk.byteLength
  }

  #pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    this.#responder.pause()
  }

  #resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#lastByteMs = monotonicMs()
    this.#responder.resume()
  }
}
