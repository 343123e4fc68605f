/**
 * A responder answers one request, at most once, and knows whether the client is still connected.
 * uws.ts and node.ts implement the writes to the socket; stream.ts decides when a streaming answer
 * writes.
 */
import { STATUS_CODES } from 'node:http'
import { BODY_BYTES_MAX } from '../../util/limits.ts'
import { inLog, type RequestIds } from '../../util/request-id.ts'
import type { TraceSpan } from '../../util/tracing.ts'
import type { Reply } from '../api-types.ts'
import { problemReply, refuse } from '../problem.ts'
import type { Connections } from './connections.ts'

/** Chunks of a body below this size are tiny. Each costs the main thread about 1 µs. */
export const TINY_CHUNK_BYTES = 32
/**
 * Tiny chunks in a body, less a credit for larger ones; more are 400. A client that writes each of
 * 500 events and each comma with one call sends 1,000. 2,048 chunks take 2 to 3 ms.
 */
export const TINY_CHUNKS_MAX = 2_048
/** Tiny chunks after that 400, of the same read, until the connection closes at once. */
const TINY_CHUNKS_CLOSE = 256
/** Tiny chunks forgiven in each API_TICK_MS: 1,000 a second, more than a pipe of lines sends. */
const TINY_CHUNKS_PER_TICK = 100

/** Reads a body. A chunk is valid only during the call. */
export type DataHandler = (chunk: Uint8Array, last: boolean) => void

/**
 * Status and headers as one text. uWebSockets.js ends the text of writeStatus() with a line break,
 * so headers may follow the status in it: one call into C++ instead of one per header
 * (docs/decisions/0018).
 */
export function headText(status: number, headers: Reply['headers'] = {}): string {
  let text = `${status} ${STATUS_CODES[status] ?? 'Status'}`
  for (const name in headers) text += `\r\n${name}: ${headers[name]!}`
  return text
}

/**
 * The same for an answer after which the client may send another request. uWebSockets.js closes an
 * idle connection after 8 to 12 s. A client that obeys closes it before, and sends no request into
 * the close.
 */
export function keptHead(status: number, headers: Reply['headers']): string {
  return `${headText(status, headers)}\r\nkeep-alive: timeout=5`
}

/**
 * True where an answer of this status declares the length of its body. A 204 has none, and that of
 * a 304 would be the length of the answer that the client knows (RFC 9110, 8.6).
 */
export function hasLength(status: number): boolean {
  return status !== 204 && status !== 304
}

export abstract class Responder {
  /** The name of the route, for the log; set by the router. */
  route = 'other'
  /** The request's own id, which its answer repeats (request-id.ts); "" without one. */
  requestId = ''
  /** Ends with the answer. Undefined where requests are not traced. */
  span: TraceSpan | undefined
  /** The body may be of any size, and take hours (upload-body.ts). */
  isUpload = false
  bodyRead = false
  /** True until the request is answered or the client disconnects. */
  open = true
  /** Called once when the client disconnects before the answer. */
  onGone: () => void = nothing
  /** Called when the socket can take more of an answer in chunks. */
  onWritable: () => void = nothing
  protected readonly isHead: boolean
  protected readonly connections: Connections
  /** True when the whole answer is written or the connection is closed. */
  protected isClosed = false
  /** The answer was sent before the end of the body. The rest of the body is dropped. */
  protected isDraining = false
  protected dataHandler: DataHandler | undefined
  /** Tiny chunks so far, minus an allowance for larger chunks and for time. */
  #tinyChunks = 0
  /** The tick up to which the allowance for time was granted. */
  #forgivenTicks: number

  constructor(isHead: boolean, connections: Connections) {
    this.isHead = isHead
    this.connections = connections
    connections.open += 1
    this.#forgivenTicks = connections.ticks
  }

  /** Route and id of the request, for the log. */
  get name(): string {
    return this.route + inLog(this.ids)
  }

  get ids(): RequestIds {
    return { requestId: this.requestId, traceId: this.span?.traceId ?? '' }
  }

  abstract onData(handler: DataHandler): void

  abstract pause(): void

  abstract resume(): void

  /** Answers. Does nothing when the client has disconnected. */
  abstract send(reply: Reply): void

  /** Answers while the body still arrives. Its rest is dropped, then the connection closed. */
  abstract sendAndDrain(reply: Reply): void

  /** Begins an answer in chunks. Returns true for a HEAD, whose answer is complete. */
  abstract beginChunks(status: number, headers: Reply['headers']): boolean

  /** The largest chunk that writeChunk takes at this moment, in bytes. */
  abstract get chunkBytesMax(): number

  /** Writes one chunk. False where the socket is full: `onWritable` is called when it has room. */
  abstract writeChunk(bytes: Uint8Array): boolean

  /** Restarts the library's timer for a client that takes no chunks or sends slowly. */
  abstract waitOn(): void

  /** Ends an answer in chunks. Only this tells the client that the answer is complete. */
  abstract endChunks(status: number): void

  abstract close(): void

  protected data(chunk: Uint8Array, last: boolean): void {
    if (last) this.bodyRead = true
    else if (this.#isTooTiny(chunk.byteLength)) return
    if (this.isDraining) this.connections.drain.count(this, chunk.byteLength, last)
    else if (this.open) this.dataHandler?.(chunk, last)
  }

  /** Refuses a body in too many tiny chunks, as a call per byte keeps the main thread busy. */
  #isTooTiny(bytes: number): boolean {
    this.#tinyChunks = Math.max(0, this.#tinyChunks + 1 - bytes / TINY_CHUNK_BYTES)
    if (this.#tinyChunks <= TINY_CHUNKS_MAX) return false
    const forgiven = TINY_CHUNKS_PER_TICK * (this.connections.ticks - this.#forgivenTicks)
    this.#tinyChunks = Math.max(0, this.#tinyChunks - forgiven)
    this.#forgivenTicks = this.connections.ticks
    if (this.#tinyChunks <= TINY_CHUNKS_MAX) return false
    if (this.open) {
      this.sendAndDrain(TINY_CHUNKS)
      this.onGone()
    } else if (this.#tinyChunks > TINY_CHUNKS_MAX + TINY_CHUNKS_CLOSE) this.close()
    return true
  }

  protected gone(): void {
    this.isClosed = true
    this.connections.unread.delete(this)
    if (this.isDraining) this.connections.drain.count(this, 0, true)
    if (!this.open) return
    this.finish(0)
    this.onGone()
  }

  protected finish(status: number): void {
    this.open = false
    this.span?.answered(status)
    this.connections.onReply(status)
    this.connections.open -= 1
    if (this.connections.open === 0) this.connections.onIdle()
  }
}

const TINY_CHUNKS = problemReply(
  refuse(
    400,
    'tiny_chunks',
    `the body comes in more than ${TINY_CHUNKS_MAX} chunks of less than ${TINY_CHUNK_BYTES} bytes: send it in larger ones`,
  ),
)

export function nothing(): void {}

/** A short rest of the body is read. A rest that may be long is drained, then comes the close. */
export function answerEarly(
  responder: Pick<Responder, 'bodyRead' | 'send' | 'sendAndDrain'>,
  reply: Reply,
  declaredBytes: number,
): void {
  const isShort = declaredBytes >= 0 && declaredBytes <= BODY_BYTES_MAX && reply.status !== 408
  if (responder.bodyRead || isShort) responder.send(reply)
  else responder.sendAndDrain(reply)
}
