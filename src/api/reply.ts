/**
 * The only file that writes to a socket. A Responder is one request's way back: it knows whether the client is
 * still there, and answers at most once. What a streaming answer writes, and when, is stream.ts's.
 */

import type { HttpRequest, HttpResponse } from 'uWebSockets.js'
import { STATUS_CODES } from 'node:http'
import { STREAM_BACKED_BYTES, STREAM_PROBE_BYTES, STREAM_WRITE_BYTES } from '../limits.ts'
import { assert } from '../util/assert.ts'
import type { Reply } from './protocol.ts'
import type { Unread } from './unread.ts'

/** What all responders share: how many are open, whether the server stops, what is drained. */
export interface Connections {
  open: number
  stopping: boolean
  /** Called when the last open request was answered or went away. */
  onIdle: () => void
  /** Counts an answer. */
  onReply: (route: string, status: number) => void
  /** Reads and drops the rest of a body; see drain.ts. */
  drain: (responder: Responder) => void
  /** Called with each dropped chunk's bytes and whether it was the last. */
  drained: (responder: Responder, bytes: number, last: boolean) => void
  /** Answers that are not wholly in the socket. */
  readonly unread: Unread
}

type DataHandler = (chunk: ArrayBuffer, last: boolean) => void

/** Of uWebSockets.js: an answer that does not fit is known to be taken or not. */
const WRITE_BUFFER_BYTES = 16 * 1024

const statusLines = new Map<number, string>()

function statusLine(status: number): string {
  let line = statusLines.get(status)
  if (line === undefined) {
    line = `${status} ${STATUS_CODES[status] ?? 'Status'}`
    statusLines.set(status, line)
  }
  return line
}

/** One request's way back to its client. */
export class Responder {
  readonly route: string
  /** Set by whoever answers: every byte of the body was read. */
  bodyRead = false
  /** Called once when the client goes away before the answer. */
  onGone: () => void = nothing
  /** Called when the socket takes more of an answer in chunks. */
  onWritable: () => void = nothing
  readonly #res: HttpResponse
  readonly #head: boolean
  readonly #connections: Connections
  #open = true
  #closed = false
  #paused = false
  #draining = false
  /** Is this the call that says that the socket takes more? */
  #writable: 'now' | 'and nothing is kept' | 'later' = 'later'
  #onData: DataHandler | undefined

  constructor(res: HttpResponse, request: HttpRequest, route: string, connections: Connections) {
    this.route = route
    this.#res = res
    this.#head = request.getMethod() === 'head'
    this.#connections = connections
    connections.open += 1
    res.onAborted(() => this.#gone())
  }

  /** Not answered, and the client is there. */
  get open(): boolean {
    return this.#open
  }

  /** Registers the reader of the body. A chunk is valid only during the call. */
  onData(handler: DataHandler): void {
    const known = this.#onData !== undefined
    this.#onData = handler
    if (!known) this.#res.onData((chunk, last) => this.#data(chunk, last))
  }

  /** Stops reading from the socket. */
  pause(): void {
    if (this.#paused || this.#closed) return
    this.#paused = true
    this.#res.pause()
  }

  resume(): void {
    if (!this.#paused || this.#closed) return
    this.#paused = false
    this.#res.resume()
  }

  /** Answers. Nothing happens where the client is gone. */
  send(reply: Reply): void {
    if (!this.#open) return
    if (this.#isLast(reply)) {
      this.sendAndDrain(reply)
      return
    }
    this.resume()
    this.#finish(reply.status)
    const whole = this.#connections.stopping || this.#head || reply.body.length === 0
    this.#closed = whole
    this.#res.cork(() => {
      this.#writeHead(reply)
      if (whole) this.#end(reply)
      else this.#tryEnd(reply.body)
    })
  }

  #isLast(reply: Reply): boolean {
    if (this.#connections.stopping) return !this.bodyRead
    if (reply.status < 400 || typeof reply.body !== 'string') return false
    return reply.body.length <= WRITE_BUFFER_BYTES && this.#connections.unread.isLast()
  }

  /**
   * Answers while the body is still coming: the client sees the answer, the rest is read and dropped, then the
   * connection closes.
   *
   * NOTE: `end()` of uWebSockets.js gives the response back for good; nobody could close the connection
   * afterwards, and its own close at once is a reset for a client that still sends. So the answer is written as
   * headers whose last one carries the body along, and the response stays ours until close(). The line break
   * that ends a header is the body's last two bytes.
   */
  sendAndDrain(reply: Reply): void {
    if (!this.#open) return
    assert(typeof reply.body === 'string', 'an answer before the end of the body is text')
    const text = this.#head ? '' : reply.body
    this.#finish(reply.status)
    this.#draining = true
    this.onData(nothing)
    this.resume()
    this.#res.cork(() => {
      this.#res.writeStatus(statusLine(reply.status))
      for (const name in reply.headers) this.#res.writeHeader(name, reply.headers[name]!)
      this.#res.writeHeader('connection', 'close')
      this.#res.writeHeader('content-length', `${Buffer.byteLength(text) + 2}\r\n\r\n${text}`)
    })
    this.#connections.drain(this)
  }

  /** Begins an answer in chunks. The client must be there. To HEAD it is the whole answer: true. */
  beginChunks(status: number, headers: Reply['headers']): boolean {
    assert(this.#open && this.bodyRead, 'a streaming answer begins once, after the body')
    this.resume()
    this.#res.cork(() => {
      this.#writeHead({ status, headers: headers ?? {} })
      if (this.#head) this.#res.endWithoutBody()
    })
    if (!this.#head) {
      // NOTE: once for all chunks: what is registered while the handler runs, uWebSockets.js throws away.
      this.#res.onWritable(() => {
        this.#writable = 'now'
        try {
          this.onWritable()
        } finally {
          this.#writable = 'later'
        }
        return true
      })
      return false
    }
    this.#closed = true
    this.#finish(status)
    return true
  }

  /**
   * Bytes that writeChunk takes at once, now.
   *
   * NOTE: of a chunk that does not fit in its cork buffer uWebSockets.js drops all bytes where the socket takes a part of the
   * chunk's frame only, and answers as if they waited (seen once in 5 GB; uWebSockets.js issue 1249). One that fits is
   * gathered there with its frame, and what the socket does not take is kept. Inside `onWritable` nothing is corked, and what is
   * written goes to the socket or is kept: clients that are slower than we are, get large chunks. But it is called when the
   * socket takes something, not when all that was kept has gone; so a small one goes first, and only where that was taken wholly a
   * large one: else what is kept would grow with each call (seen, where the send buffer is small).
   */
  get chunkBytesMax(): number {
    if (this.#writable === 'later') return STREAM_WRITE_BYTES
    return this.#writable === 'now' ? STREAM_PROBE_BYTES : STREAM_BACKED_BYTES
  }

  /** One chunk. False: the socket took a part, the rest waits in memory, and `onWritable` is called when there is room. */
  writeChunk(bytes: Uint8Array): boolean {
    assert(this.#open, 'chunks go to a client that is there')
    assert(bytes.byteLength <= this.chunkBytesMax, 'a chunk is as large as it may be now')
    let taken = true
    if (this.#writable === 'later')
      this.#res.cork(() => {
        taken = this.#res.write(bytes)
      })
    else {
      taken = this.#res.write(bytes)
      this.#writable = 'and nothing is kept'
    }
    return taken
  }

  /**
   * The client of an answer in chunks may go on taking nothing, that of a body may go on slowly.
   *
   * NOTE: after a write that did not fit, or while less than 16 KiB/s come in, uWebSockets.js closes the connection within
   * 12 s, however alive its client is (seen). Resuming begins that time anew. Left paused, the socket is never told to be
   * writable (seen).
   */
  waitOn(): void {
    if (this.#closed) return
    this.#res.pause()
    this.#res.resume()
  }

  /** Ends an answer in chunks: only now may the client take it for whole. */
  endChunks(status: number): void {
    assert(this.#open, 'the end goes to a client that is there')
    this.#closed = true
    this.#finish(status)
    // NOTE: not end(undefined, true) while stopping: uWebSockets.js writes its `connection: close` into the body then.
    this.#res.cork(() => this.#res.end())
  }

  /** Closes the connection at once. */
  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#res.close()
  }

  #writeHead(reply: Pick<Reply, 'status' | 'headers'>): void {
    this.#res.writeStatus(statusLine(reply.status))
    for (const name in reply.headers) this.#res.writeHeader(name, reply.headers[name]!)
  }

  #end(reply: Reply): void {
    const res = this.#res
    if (reply.status === 204) res.endWithoutBody()
    else if (this.#head) {
      // NOTE: endWithoutBody(bytes) leaves the response pending in this release: the next request of the
      // connection closes it. With the header written here it does not.
      res.writeHeader('content-length', String(Buffer.byteLength(reply.body)))
      res.endWithoutBody()
    } else res.end(reply.body, this.#connections.stopping)
  }

  /** Writes a body as the socket takes it. Until it has all, the response is pending. */
  #tryEnd(body: string | Uint8Array): void {
    const total = Buffer.byteLength(body)
    this.#closed = this.#res.tryEnd(body, total)[1]
    if (this.#closed) return
    const bytes = Buffer.from(body)
    this.#connections.unread.add(this)
    this.#res.onWritable(offset => {
      const [taken, done] = this.#res.tryEnd(bytes.subarray(offset), total)
      if (done) {
        this.#closed = true
        this.#connections.unread.delete(this)
      }
      return taken
    })
  }

  #data(chunk: ArrayBuffer, last: boolean): void {
    if (last) this.bodyRead = true
    if (this.#draining) this.#connections.drained(this, chunk.byteLength, last)
    else if (this.#open) this.#onData?.(chunk, last)
  }

  #gone(): void {
    this.#closed = true
    this.#connections.unread.delete(this)
    if (this.#draining) this.#connections.drained(this, 0, true)
    if (!this.#open) return
    this.#finish(0)
    this.onGone()
  }

  #finish(status: number): void {
    this.#open = false
    this.#connections.onReply(this.route, status)
    this.#connections.open -= 1
    if (this.#connections.open === 0) this.#connections.onIdle()
  }
}

function nothing(): void {}
