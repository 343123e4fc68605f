/**
 * Answers that are made while they are sent. The source is asked for a chunk only when the socket took the last one, so
 * a stream holds one chunk however much there is to send.
 *
 *   first chunk ──► head ──► pieces, as large as the socket's state allows ──► end mark
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

const BUSY = problemReply(refuse(503, 'busy', 'too many streams are under way', { 'retry-after': '1' }))

/** One stream between its first look at the source and its end. */
interface Running {
  readonly responder: Responder
  /** What was not written yet of the source's last chunk. */
  rest: Uint8Array
  /** Waits for the socket: since when it took nothing, and what ends the wait. */
  wait: { sinceMs: number; readonly end: (isThere: boolean) => void } | undefined
}

type Chunks = AsyncIterator<Uint8Array>

const NOTHING = new Uint8Array(0)

export class Streams {
  readonly #stallMs: number
  readonly #running = new Set<Running>()
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
    const running: Running = { responder, rest: NOTHING, wait: undefined }
    this.#running.add(running)
    responder.onGone = () => running.wait?.end(false)
    responder.onWritable = () => goOn(running)
    const source = reply.chunks[Symbol.asyncIterator]()
    try {
      await this.#pump(running, reply, source)
    } finally {
      this.#running.delete(running)
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
    for (const { responder, wait } of this.#running) {
      const stalled = wait !== undefined && nowMs - wait.sinceMs > this.#stallMs
      if (stalled || nowMs >= this.#stopAtMs)
        responder.close() // calls onGone
      else if (wait !== undefined && again) responder.waitOn()
    }
  }

  async #pump(running: Running, { status, headers }: StreamReply, source: Chunks): Promise<void> {
    const { responder } = running
    let next: IteratorResult<Uint8Array>
    try {
      next = await source.next()
    } catch (error) {
      responder.send(problemReply(refusalOfError(error, responder.route)))
      return
    }
    if (!responder.open || responder.beginChunks(status, headers)) return
    try {
      for (; next.done !== true; next = await source.next())
        if (!(await this.#write(running, next.value))) return
      if (responder.open) responder.endChunks(status)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      if (responder.open) warn(`${responder.route}: a stream was broken off: ${why}`)
      responder.close()
    }
  }

  /** Resolves when the socket has taken the chunk and takes more. False: the client is gone. */
  #write(running: Running, chunk: Uint8Array): boolean | Promise<boolean> {
    if (!running.responder.open) return false
    running.rest = chunk
    if (writeRest(running)) return true
    return new Promise(resolve => {
      const end = (isThere: boolean) => {
        running.wait = undefined
        resolve(isThere)
      }
      running.wait = { sinceMs: monotonicMs(), end }
    })
  }
}

/** Writes until the socket is full. True: everything, and the socket takes more. */
function writeRest(running: Running): boolean {
  const { responder } = running
  while (running.rest.byteLength > 0) {
    const piece = running.rest.subarray(0, responder.chunkBytesMax)
    running.rest = running.rest.subarray(piece.byteLength)
    if (!responder.writeChunk(piece)) return false
  }
  return true
}

/** The socket takes more: in the same turn, see Responder.chunkBytesMax. */
function goOn(running: Running): void {
  if (running.wait === undefined) return
  if (writeRest(running)) running.wait.end(true)
  else running.wait.sinceMs = monotonicMs()
}

/** Lets the source free what it holds. */
async function close(source: Chunks, route: string): Promise<void> {
  try {
    await source.return?.()
  } catch (error) {
    warn(`${route}: a stream's source did not close: ${(error as Error).message}`)
  }
}
