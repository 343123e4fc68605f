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
 *   W-9  At most STREAMS_MAX streams run, at most STREAMS_PER_APPLICATION_MAX of one application.
 *        STREAMS_ADMIN_MIN places are reserved for routes of scope admin. A stream takes its place
 *        before it does any work. A client that takes nothing for STREAM_STALL_MS is disconnected.
 *        A stream buffers STREAM_AHEAD_BYTES and one chunk, and uWebSockets.js at most one piece.
 */

import { must } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import {
  STREAM_AHEAD_BYTES,
  STREAM_STOP_MS,
  STREAM_WAIT_ON_MS,
  STREAMS_ADMIN_MIN,
  STREAMS_MAX,
  STREAMS_PER_APPLICATION_MAX,
} from '../util/limits.ts'
import { warn } from '../util/say.ts'
import type { StreamAnswer, StreamReply } from './api-types.ts'
import { Places } from './places.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'
import type { Responder } from './responder.ts'

const BUSY = problemReply(refuse(503, 'busy', 'too many streams are under way', { 'retry-after': '1' }))
const OWN_BUSY = problemReply(
  refuse(
    503,
    'busy',
    `this application has ${STREAMS_PER_APPLICATION_MAX} streams under way: read or close them`,
    {
      'retry-after': '1',
    },
  ),
)

type Chunks = AsyncIterator<Uint8Array>

export class Streams {
  readonly #stallMs: number
  readonly #running = new Set<StreamAhead>()
  /**
   * Places of streams, including those that have not begun and ended ones whose sources are not
   * closed yet. A backup is an admin's.
   */
  readonly #places = new Places({
    max: STREAMS_MAX,
    perApplicationMax: STREAMS_PER_APPLICATION_MAX,
    adminMin: STREAMS_ADMIN_MIN,
  })
  #stopAtMs = Number.POSITIVE_INFINITY
  #waitOnAtMs = 0

  /** @param stallMs time after which a client that takes nothing is disconnected */
  constructor(stallMs: number) {
    this.#stallMs = stallMs
  }

  get length(): number {
    return this.#places.length
  }

  /**
   * Sends the answer. Resolves when it has ended in any way and the source is closed. Rejects when
   * `begin` does.
   */
  async send(responder: Responder, { owner, begin }: StreamAnswer): Promise<void> {
    const leave = this.#places.take(owner)
    if (typeof leave === 'string') {
      responder.send(leave === 'own' ? OWN_BUSY : BUSY)
      return
    }
    try {
      const reply = await begin()
      if ('chunks' in reply) await this.#stream(responder, reply)
      else responder.send(reply)
    } finally {
      leave()
    }
  }

  /** Gives all streams STREAM_STOP_MS to end. */
  stop(): void {
    this.#stopAtMs = monotonicMs() + STREAM_STOP_MS
  }

  /** Closes stalled streams, and all streams after stop(). */
  tick(nowMs: number): void {
    const again = nowMs >= this.#waitOnAtMs
    if (again) this.#waitOnAtMs = nowMs + STREAM_WAIT_ON_MS
    for (const { responder, fullSinceMs } of this.#running) {
      const stalled = fullSinceMs !== undefined && nowMs - fullSinceMs > this.#stallMs
      if (stalled || nowMs >= this.#stopAtMs)
        responder.close() // calls onGone
      else if (fullSinceMs !== undefined && again) responder.waitOn()
    }
  }

  async #stream(responder: Responder, reply: StreamReply): Promise<void> {
    const ahead = new StreamAhead(responder)
    this.#running.add(ahead)
    const source = reply.chunks[Symbol.asyncIterator]()
    try {
      if (responder.open) await this.#pump(ahead, reply, source)
    } finally {
      this.#running.delete(ahead)
      await close(source, responder.route)
    }
  }

  async #pump(ahead: StreamAhead, { status, headers }: StreamReply, source: Chunks): Promise<void> {
    const { responder } = ahead
    let next: IteratorResult<Uint8Array>
    try {
      next = await source.next()
    } catch (error) {
      responder.send(problemReply(refusalOfError(error, responder.route)))
      return
    }
    if (!responder.open || responder.beginChunks(status, headers)) return
    try {
      for (; next.done !== true; next = await source.next()) if (!(await ahead.take(next.value))) return
      if (await ahead.flushed()) responder.endChunks(status)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      if (responder.open)
        warn(`${responder.route}: a stream ended early, its client sees no end mark: ${why}`)
      responder.close()
    }
  }
}

/** Closes the source, so that it frees what it holds. */
async function close(source: Chunks, route: string): Promise<void> {
  try {
    await source.return?.()
  } catch (error) {
    warn(`${route}: a stream's source did not close: ${(error as Error).message}`)
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
  /** Since when the socket is full; undefined: it takes more. */
  fullSinceMs: number | undefined
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

  /**
   * Takes a chunk. Resolves when there is room for another chunk and the memory of this one is not
   * used any more. False: the client has disconnected.
   */
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

  /**
   * Resolves when the socket has taken everything and has room. False: the client has disconnected.
   */
  async flushed(): Promise<boolean> {
    while (this.responder.open && (this.#bytes > 0 || this.fullSinceMs !== undefined)) await this.#changed()
    return this.responder.open
  }

  #changed(): Promise<void> {
    return new Promise(resolve => {
      this.#onChange = resolve
    })
  }

  /** Writes until no bytes are left or the socket is full. */
  #write(): void {
    const { responder } = this
    while (responder.open && this.fullSinceMs === undefined && this.#bytes > 0) {
      const piece = this.#next(responder.chunkBytesMax)
      if (!responder.writeChunk(piece)) this.fullSinceMs = monotonicMs()
    }
  }

  /** The next bytes: at least one, at most `bytesMax`. */
  #next(bytesMax: number): Uint8Array {
    while (this.#chunks[0]?.byteLength === 0) this.#chunks.shift()
    const chunk = must(this.#chunks[0], 'bytes that are ahead')
    const piece = chunk.subarray(0, bytesMax)
    this.#chunks[0] = chunk.subarray(piece.byteLength) // the next call removes an empty chunk
    this.#bytes -= piece.byteLength
    return piece
  }
}
