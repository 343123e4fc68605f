/**
 * Answers that are produced while they are sent. The source is asked for its next chunk when the
 * socket has taken all but STREAM_AHEAD_BYTES, so a stream holds that much and one chunk, whatever
 * its length.
 *
 *   first chunk ──► head ──► chunks, as the socket takes them ──► end mark
 *        └ throws: a problem answer       └ throws, stalls, the server stops: closed without the
 *                                         end mark
 *
 *   W-8  The end mark is sent only after the source ended by itself: no client takes a part for the
 *        whole.
 *   W-9  At most STREAMS_MAX streams run, in shares of applications. STREAMS_ADMIN_MIN slots are
 *        reserved for routes of scope admin. A stream takes its slot before it does any work, and
 *        waits for one (stream-slots.ts). A client that takes nothing for STREAM_STALL_MS is
 *        disconnected; after STREAM_IDLE_MS if another stream waits.
 *        A stream buffers STREAM_AHEAD_BYTES and one chunk, and uWebSockets.js at most one piece.
 */

import { monotonicMs } from '../../util/clock.ts'
import { must } from '../../util/errors.ts'
import { KiB, MiB, STREAM_IDLE_MS } from '../../util/limits.ts'
import { fail, warn } from '../../util/say.ts'
import type { ApiTimes, Reply, StreamAnswer, StreamReply } from '../api-types.ts'
import { withCors } from '../cors.ts'
import { problemReply, refusalOfError } from '../problem.ts'
import type { Responder } from './responder.ts'
import { StreamSlots } from './stream-slots.ts'

/** Bytes a second that the server sees a stream's client take; below, it counts as idle. */
const STREAM_BYTES_PER_SECOND_MIN = 16 * KiB
/** Interval at which the write timer of uWebSockets.js (8 to 12 s) is set again (uws.ts). */
const STREAM_WAIT_ON_MS = 3_000
/** Time for streams to go on after SIGTERM; then they close without their end. */
const STREAM_STOP_MS = 2_000
/** Bytes made while the socket is full, more than the third of 4 MiB that frees it at most. */
const STREAM_AHEAD_BYTES = 2 * MiB

type Chunks = AsyncIterator<Uint8Array>

/** Bytes that a client takes in STREAM_IDLE_MS if it is not idle. */
const STREAM_TOOK_BYTES = (STREAM_BYTES_PER_SECOND_MIN * STREAM_IDLE_MS) / 1000

export class Streams {
  readonly #stallMs: number
  readonly #running = new Map<StreamAhead, StreamAnswer>()
  readonly #slots: StreamSlots
  #stopAtMs = Number.POSITIVE_INFINITY
  #waitOnAtMs = 0

  constructor({ streamStallMs, streamIdleMs, streamWaitMs }: ApiTimes) {
    this.#stallMs = streamStallMs
    this.#slots = new StreamSlots(streamWaitMs, (isWanted, nowMs) =>
      this.#idlest(isWanted, streamIdleMs, nowMs),
    )
  }

  get length(): number {
    return this.#slots.length
  }

  /**
   * Resolves when the answer has ended in any way and its source is closed.
   * @param cors pages of any origin may read it
   */
  async send(responder: Responder, answer: StreamAnswer, cors: boolean): Promise<void> {
    const readable = (reply: Reply) => (cors ? withCors(reply) : reply)
    const slot = await this.#slots.take(responder, answer)
    if (typeof slot !== 'function') {
      responder.send(readable(slot))
      return
    }
    try {
      if (!responder.open) return
      const reply = await answer.begin()
      if ('chunks' in reply) await this.#stream(responder, reply, answer, readable)
      else responder.send(readable(reply))
    } finally {
      slot()
    }
  }

  stop(): void {
    this.#stopAtMs = monotonicMs() + STREAM_STOP_MS
  }

  tick(nowMs: number): void {
    const again = nowMs >= this.#waitOnAtMs
    if (again) this.#waitOnAtMs = nowMs + STREAM_WAIT_ON_MS
    this.#slots.tick(nowMs)
    for (const { responder, fullSinceMs } of this.#running.keys()) {
      const stalled = fullSinceMs !== undefined && nowMs - fullSinceMs > this.#stallMs
      if (stalled || nowMs >= this.#stopAtMs)
        responder.close() // calls onGone
      else if (fullSinceMs !== undefined && again) responder.waitOn()
    }
  }

  /** Closes the stream that has been idle for the longest, of those that `isWanted` tells. */
  #idlest(isWanted: (answer: StreamAnswer) => boolean, idleMs: number, nowMs: number): boolean {
    let [idlest, longestMs]: [StreamAhead | undefined, number] = [undefined, idleMs]
    for (const [ahead, answer] of this.#running) {
      const ms = ahead.idleMs(nowMs)
      if (ms < longestMs || !ahead.responder.open || !isWanted(answer)) continue
      idlest = ahead
      longestMs = ms
    }
    idlest?.responder.close() // calls onGone
    return idlest !== undefined
  }

  async #stream(
    responder: Responder,
    reply: StreamReply,
    answer: StreamAnswer,
    readable: (reply: Reply) => Reply,
  ): Promise<void> {
    const ahead = new StreamAhead(responder)
    this.#running.set(ahead, answer)
    const source = reply.chunks[Symbol.asyncIterator]()
    try {
      if (responder.open) await this.#pump(ahead, reply, source, readable)
    } finally {
      this.#running.delete(ahead)
      await source.return?.().catch((error: Error) => {
        warn(`${responder.name}: a stream's source did not close: ${error.message}`)
      })
    }
  }

  async #pump(
    ahead: StreamAhead,
    { status, headers }: StreamReply,
    source: Chunks,
    readable: (reply: Reply) => Reply,
  ): Promise<void> {
    const { responder } = ahead
    let next: IteratorResult<Uint8Array>
    try {
      next = await source.next()
    } catch (error) {
      responder.send(readable(problemReply(refusalOfError(error, responder.route, responder.ids))))
      return
    }
    const head = readable({ status, ...(headers && { headers }), body: '' })
    if (!responder.open || responder.beginChunks(status, head.headers)) return
    try {
      for (; next.done !== true; next = await source.next()) if (!(await ahead.take(next.value))) return
      if (await ahead.flushed()) responder.endChunks(status)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const message = `${responder.name}: a stream ended early, its client sees no end mark: ${why}`
      if (responder.open) fail(message, responder.ids)
      responder.close()
    }
  }
}

/**
 * The bytes that a source has produced and the socket has not taken. While the socket is full they
 * grow to STREAM_AHEAD_BYTES, enough to fill the socket again in the very call that reports room.
 * Only in that call are large chunks safe, and clients that read slower than Weir writes need them
 * (Responder.chunkBytesMax).
 */
export class StreamAhead {
  readonly responder: Responder
  /** The time at which the socket became full. It is undefined while the socket takes more. */
  fullSinceMs: number | undefined
  /** When the client had last taken STREAM_BYTES_PER_SECOND_MIN for STREAM_IDLE_MS. */
  #tookAtMs = monotonicMs()
  #tookBytes = 0
  readonly #chunks: Uint8Array[] = []
  #bytes = 0
  #onChange: () => void = () => undefined

  constructor(responder: Responder) {
    this.responder = responder
    const { onGone } = responder // the request's own: its source may work for long
    responder.onGone = () => {
      onGone()
      this.#onChange()
    }
    responder.onWritable = () => {
      this.fullSinceMs = undefined
      this.#write()
      this.#onChange()
    }
  }

  /** Time for which the client has taken next to nothing of what is ready. */
  idleMs(nowMs: number): number {
    return this.fullSinceMs === undefined ? 0 : nowMs - this.#tookAtMs
  }

  /** Resolves when there is room for another chunk and this memory is free. */
  async take(chunk: Uint8Array): Promise<boolean> {
    this.#chunks.push(chunk)
    this.#bytes += chunk.byteLength
    this.#write()
    while (this.responder.open && this.#bytes > STREAM_AHEAD_BYTES) await this.#changed()
    const rest = this.#chunks.pop()
    if (rest !== undefined && rest.byteLength > 0 && this.responder.open)
      this.#chunks.push(new Uint8Array(rest)) // a copy, which slice() of a Buffer is not
    return this.responder.open
  }

  /** Resolves when the socket has taken everything and has room; false without a client. */
  async flushed(): Promise<boolean> {
    while (this.responder.open && (this.#bytes > 0 || this.fullSinceMs !== undefined)) await this.#changed()
    return this.responder.open
  }

  #changed(): Promise<void> {
    return new Promise(resolve => {
      this.#onChange = resolve
    })
  }

  #write(): void {
    const { responder } = this
    while (responder.open && this.fullSinceMs === undefined && this.#bytes > 0) {
      const piece = this.#next(responder.chunkBytesMax)
      this.#tookBytes += piece.byteLength
      if (!responder.writeChunk(piece)) this.fullSinceMs = monotonicMs()
    }
    // While the socket has room, the client is not the slow one: its idle time begins anew.
    if (this.fullSinceMs !== undefined && this.#tookBytes < STREAM_TOOK_BYTES) return
    this.#tookBytes = 0
    this.#tookAtMs = monotonicMs()
  }

  #next(bytesMax: number): Uint8Array {
    while (this.#chunks[0]?.byteLength === 0) this.#chunks.shift()
    const chunk = must(this.#chunks[0], 'bytes that are ahead')
    const piece = chunk.subarray(0, bytesMax)
    this.#chunks[0] = chunk.subarray(piece.byteLength) // the next call removes an empty chunk
    this.#bytes -= piece.byteLength
    return piece
  }
}
