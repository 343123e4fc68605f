/**
 * Answers that are made while they are sent. The source is asked for a chunk when the socket took the last ones but for
 * STREAM_AHEAD_BYTES, so a stream holds that and one chunk, however much there is to send.
 *
 *   first chunk ──► head ──► stream-ahead.ts ──► end mark
 *        └ throws: a problem answer       └ throws, stalls, the server stops: closed without the end mark
 *
 *   W-8  The end mark is sent only after the source ended by itself: nobody takes a part for the whole.
 *   W-9  At most STREAMS_MAX; a client that takes nothing for STREAM_STALL_MS is closed.
 */
import { STREAM_STOP_MS, STREAM_WAIT_ON_MS, STREAMS_MAX } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import { warn } from '../util/say.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'
import type { StreamReply } from './protocol.ts'
import type { Responder } from './reply.ts'
import { StreamAhead } from './stream-ahead.ts'

const BUSY = problemReply(refuse(503, 'busy', 'too many streams are under way', { 'retry-after': '1' }))

type Chunks = AsyncIterator<Uint8Array>

export class Streams {
  readonly #stallMs: number
  readonly #running = new Set<StreamAhead>()
  /** Streams that ended and whose sources still hold what they held. */
  #closing = 0
  #stopAtMs = Number.POSITIVE_INFINITY
  #waitOnAtMs = 0

  /** @param stallMs a client that takes nothing for so long is closed */
  constructor(stallMs: number) {
    this.#stallMs = stallMs
  }

  get length(): number {
    return this.#running.size + this.#closing
  }

  /** Sends it all. Resolves when it ended, one way or another, and the source is closed. Never rejects. */
  async send(responder: Responder, reply: StreamReply): Promise<void> {
    if (this.length >= STREAMS_MAX) {
      responder.send(BUSY)
      return
    }
    const ahead = new StreamAhead(responder)
    this.#running.add(ahead)
    const source = reply.chunks[Symbol.asyncIterator]()
    try {
      await this.#pump(ahead, reply, source)
    } finally {
      this.#running.delete(ahead)
      this.#closing += 1
      await close(source, responder.route)
      this.#closing -= 1
    }
  }

  /** From now on streams have STREAM_STOP_MS left. */
  stop(): void {
    this.#stopAtMs = monotonicMs() + STREAM_STOP_MS
  }

  /** Closes those that stall, and all when the server stops. */
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
      if (await ahead.emptied()) responder.endChunks(status)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      if (responder.open) warn(`${responder.route}: a stream was broken off: ${why}`)
      responder.close()
    }
  }
}

/** Lets the source free what it holds. */
async function close(source: Chunks, route: string): Promise<void> {
  try {
    await source.return?.()
  } catch (error) {
    warn(`${route}: a stream's source did not close: ${(error as Error).message}`)
  }
}
