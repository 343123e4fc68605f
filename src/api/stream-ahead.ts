/**
 * What a stream has made and the socket has not taken. While the socket is full it grows to STREAM_AHEAD_BYTES, so that there is
 * enough to fill the socket again in the very call that says that it takes more: only there large chunks are safe, and
 * clients that are slower than we are need them (Responder.chunkBytesMax).
 *
 *   W-9  STREAM_AHEAD_BYTES and one chunk, and in uWebSockets.js at most one piece that the socket did not take.
 */
import { STREAM_AHEAD_BYTES } from '../limits.ts'
import { must } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import type { Responder } from './reply.ts'

export class StreamAhead {
  readonly responder: Responder
  /** Since when the socket takes nothing; undefined: it takes more. */
  fullSinceMs: number | undefined
  readonly #chunks: Uint8Array[] = []
  #bytes = 0
  #onChange: () => void = () => undefined

  constructor(responder: Responder) {
    this.responder = responder
    responder.onGone = () => this.#onChange()
    responder.onWritable = () => {
      this.fullSinceMs = undefined
      this.#write()
      this.#onChange()
    }
  }

  /** Takes a chunk. Resolves when there is room for another, and this one is its maker's again; false: the client is gone. */
  async take(chunk: Uint8Array): Promise<boolean> {
    this.#chunks.push(chunk)
    this.#bytes += chunk.byteLength
    this.#write()
    while (this.responder.open && this.#bytes > STREAM_AHEAD_BYTES) await this.#changed()
    const rest = this.#chunks.pop()
    if (rest !== undefined && rest.byteLength > 0 && this.responder.open)
      this.#chunks.push(new Uint8Array(rest)) // a copy; slice() of a Buffer is none
    return this.responder.open
  }

  /** Resolves when the socket has everything and would take more; false: the client is gone. */
  async emptied(): Promise<boolean> {
    while (this.responder.open && (this.#bytes > 0 || this.fullSinceMs !== undefined)) await this.#changed()
    return this.responder.open
  }

  #changed(): Promise<void> {
    return new Promise(resolve => {
      this.#onChange = resolve
    })
  }

  /** Writes until there is nothing or the socket is full. */
  #write(): void {
    const { responder } = this
    while (responder.open && this.fullSinceMs === undefined && this.#bytes > 0) {
      const piece = this.#next(responder.chunkBytesMax)
      if (!responder.writeChunk(piece)) this.fullSinceMs = monotonicMs()
    }
  }

  /** The next bytes, at most so many, and at least one. */
  #next(bytesMax: number): Uint8Array {
    while (this.#chunks[0]?.byteLength === 0) this.#chunks.shift()
    const chunk = must(this.#chunks[0], 'bytes that are ahead')
    const piece = chunk.subarray(0, bytesMax)
    this.#chunks[0] = chunk.subarray(piece.byteLength) // an empty one goes with the next call
    this.#bytes -= piece.byteLength
    return piece
  }
}
