/** HTTP over uWebSockets.js. Its peculiarities are handled here and nowhere else. */

import type {
  AppOptions,
  HttpRequest,
  HttpResponse,
  TemplatedApp,
  us_listen_socket,
  us_socket,
} from 'uWebSockets.js'
import { type AddressInfo, createServer } from 'node:net'
import { monotonicMs } from '../../util/clock.ts'
import { assert, type Refusal } from '../../util/errors.ts'
import { CORK_BYTES, KiB, SMALL_ANSWER_LENGTH, STREAM_BACKED_BYTES } from '../../util/limits.ts'
import { REQUEST_ID } from '../../util/request-id.ts'
import type { Reply } from '../api-types.ts'
import type { Connections } from './connections.ts'
import { type DataHandler, hasLength, headText, keptHead, nothing, Responder } from './responder.ts'
import {
  CHUNKED,
  cannotListen,
  FramingHeaders,
  type Listening,
  type ListenOptions,
  type RequestHead,
  refuseMethod,
  type Transport,
} from './transport.ts'

export interface UwsModule {
  App(): TemplatedApp
  SSLApp(options: AppOptions): TemplatedApp
  us_listen_socket_close(socket: us_listen_socket): void
  us_socket_local_port(socket: us_socket | us_listen_socket): number
}

/**
 * Share of small answers that check whether earlier ones are still in memory. The choice is random,
 * so no client can evade it. A client that reads nothing leaves 16 answers on average.
 */
const SMALL_ANSWERS_CHECKED = 1 / 16
/** Bytes of a stream handed to the socket at once: they fit in CORK_BYTES with frame and head. */
export const STREAM_WRITE_BYTES = CORK_BYTES - 256
/** Bytes handed to such a socket first, to learn whether the waiting bytes have gone. */
export const STREAM_PROBE_BYTES = 1 * KiB

/**
 * LIBUS_LISTEN_EXCLUSIVE_PORT: otherwise a second server on the port would get half of the
 * connections. The package's types leave out both it and this form of listen().
 */
const EXCLUSIVE_PORT = 1
const SHARED_PORT = 0
type ListenWithOptions = (
  host: string,
  port: number,
  options: number,
  done: (socket: us_listen_socket | false) => void,
) => void

/** Time after which a client without a request is one that waits. */
const UNHEARD_MS_MIN = 1_000

export function uwsTransport(uws: UwsModule): Transport {
  return { name: 'uws', listen: options => listen(uws, options) }
}

function listen(uws: UwsModule, options: ListenOptions): Promise<Listening> {
  const { host, connections, onRequest, tls } = options
  const take = (res: HttpResponse, request: HttpRequest) => {
    const head = new UwsHead(res, request)
    const responder = new UwsResponder(res, head.method === 'head', connections)
    responder.isChunked = head.framing === CHUNKED
    onRequest(head, responder)
  }
  const countSocket = (res: HttpResponse, change: number) => {
    const { sockets } = connections
    if (change < 0) sockets.leave()
    else if (!sockets.enter()) res.close()
    else {
      const openedMs = monotonicMs()
      // NOTE: the first request replaces this. The library tells nothing else of a head that it
      // does not answer. A check that opens a connection and closes it at once waits for nothing.
      res.onAborted(() => sockets.closedUnheard(monotonicMs() - openedMs >= UNHEARD_MS_MIN))
    }
  }
  const makeApp = () => {
    const app =
      tls === undefined
        ? uws.App()
        : uws.SSLApp({ cert_file_name: tls.files.cert, key_file_name: tls.files.key })
    app.filter(countSocket as Parameters<typeof app.filter>[0])
    app.any('/*', take)
    return app
  }
  const listenAt = (app: TemplatedApp, at: number) => {
    const shares = tls === undefined ? EXCLUSIVE_PORT : SHARED_PORT
    let listening: us_listen_socket | false = false
    // The library calls back before listen() returns.
    ;(app.listen as unknown as ListenWithOptions).call(app, host, at, shares, socket => {
      listening = socket
    })
    return listening as us_listen_socket | false
  }
  return begin(uws, options, makeApp, listenAt)
}

/**
 * Listens. Another certificate is another app of uWebSockets.js, which listens at the same port
 * before the one before stops. Connections of the app before go on until they end. Connections that
 * the kernel holds for the socket before, not accepted yet, are reset.
 *
 * NOTE: a port that one socket alone may have cannot be taken again while connections of it are
 * open. So with TLS the port is shared, and was tried before: nobody else has it. Port 0 is never
 * shared.
 */
async function begin(
  uws: UwsModule,
  options: ListenOptions,
  makeApp: () => TemplatedApp,
  listenAt: (app: TemplatedApp, port: number) => us_listen_socket | false,
): Promise<Listening> {
  const wanted = options.tls === undefined ? options.port : await tryPort(options)
  const apps = [makeApp()]
  const first = listenAt(apps[0]!, wanted)
  if (first === false) {
    await tryPort(options)
    throw cannotListen(options, REFUSED)
  }
  let socket = first
  const port = uws.us_socket_local_port(socket as unknown as us_socket)
  return {
    port,
    renew: () => {
      const app = makeApp()
      const next = listenAt(app, port)
      if (next === false) {
        app.close()
        throw new Error(`uWebSockets.js cannot listen again at ${options.host}:${port}`)
      }
      uws.us_listen_socket_close(socket)
      socket = next
      apps.push(app)
      if (apps.length > APPS_MAX) apps.shift()!.close()
    },
    stopListening: () => uws.us_listen_socket_close(socket),
    // NOTE: closing the listening socket before close() in one turn crashes the process.
    close: () => {
      for (const app of apps) app.close()
    },
  }
}

/** Apps whose connections go on. One more closes those of the oldest. */
const APPS_MAX = 4

const REFUSED = new Error('uWebSockets.js refused it; try again, or use --http node')

/**
 * A port that can be had: the wanted one, or a free one for 0. Rejects with the reason why it
 * cannot, which uWebSockets.js does not say.
 */
function tryPort(options: ListenOptions): Promise<number> {
  const { host, port } = options
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', error => reject(cannotListen(options, error)))
    server.listen({ host, port, exclusive: true }, () => {
      const { port: had } = server.address() as AddressInfo
      server.close(() => resolve(had))
    })
  })
}

/** A head that reads from uWebSockets.js on demand: each read is a call into C++. */
class UwsHead implements RequestHead {
  readonly method: string
  readonly path: string
  readonly framing: number | Refusal
  readonly requestId: string
  readonly #response: HttpResponse
  readonly #request: HttpRequest

  constructor(response: HttpResponse, request: HttpRequest) {
    // NOTE: getMethod() changes the request's own memory to lower case.
    const sent = request.getCaseSensitiveMethod()
    this.method = sent.toLowerCase()
    this.path = request.getUrl()
    this.#response = response
    this.#request = request
    const headers = new FramingHeaders()
    // One call into C++ for all headers: 0.4 µs for six of them.
    request.forEach((name, value) => {
      headers.take(name, value)
    })
    this.framing = refuseMethod(sent) ?? headers.framingOf(this.method)
    this.requestId = headers.requestId
  }

  get query(): string {
    return this.#request.getQuery() ?? ''
  }

  header(name: string): string {
    return this.#request.getHeader(name)
  }

  headerCount(name: string): number {
    let count = 0
    this.#request.forEach(key => {
      if (key === name) count += 1
    })
    return count
  }

  eachHeader(visit: (name: string, value: string) => void): void {
    this.#request.forEach(visit)
  }

  address(): string {
    return Buffer.from(this.#response.getRemoteAddressAsText()).toString('latin1')
  }
}

/** The write buffer of uWebSockets.js. For larger answers it tells whether the socket took them. */
const WRITE_BUFFER_BYTES = 16 * 1024

export class UwsResponder extends Responder {
  /**
   * The body arrives in chunks. A chunk extension makes uWebSockets.js lose its position (it takes
   * ";" for a hexadecimal digit), and the rest of the body would run as further requests. So the
   * answer is the last one of its connection, and the response stays pending until the close:
   * meanwhile uWebSockets.js runs no request behind it.
   */
  isChunked = false
  readonly #res: HttpResponse
  #paused = false
  /** `now` inside the call that reports room in the socket, until something is written. */
  #writable: 'now' | 'and nothing is kept' | 'later' = 'later'

  constructor(res: HttpResponse, isHead: boolean, connections: Connections) {
    super(isHead, connections)
    this.#res = res
    res.onAborted(() => this.gone())
  }

  onData(handler: DataHandler): void {
    const known = this.dataHandler !== undefined
    this.dataHandler = handler
    if (!known) this.#res.onData((chunk, last) => this.data(new Uint8Array(chunk), last))
  }

  pause(): void {
    if (this.#paused || this.isClosed) return
    this.#paused = true
    this.#res.pause()
  }

  resume(): void {
    if (!this.#paused || this.isClosed) return
    this.#paused = false
    this.#res.resume()
  }

  send(reply: Reply): void {
    if (!this.open) return
    if (this.#isLast(reply)) {
      this.sendAndDrain(reply)
      return
    }
    this.resume()
    this.finish(reply.status)
    const whole = this.connections.stopping || this.isHead || isEnded(reply.body)
    this.isClosed = whole
    this.#res.cork(() => {
      this.#res.writeStatus(this.#head(reply.status, reply.headers, reply.head))
      if (whole) this.#end(reply)
      else this.#tryEnd(reply.body)
    })
  }

  /** @param head as headText() makes it */
  #withId(head: string): string {
    return this.requestId === '' ? head : `${head}\r\n${REQUEST_ID}: ${this.requestId}`
  }

  /** While the server stops, each answer is the last one of its connection. */
  #head(status: number, headers: Reply['headers'], kept?: string): string {
    const { stopping } = this.connections
    return this.#withId(stopping ? headText(status, headers) : (kept ?? keptHead(status, headers)))
  }

  #isLast(reply: Reply): boolean {
    if (this.isChunked) return true
    if (this.connections.stopping) return !this.bodyRead
    if (reply.status < 400 || typeof reply.body !== 'string') return false
    return reply.body.length <= WRITE_BUFFER_BYTES && this.connections.unread.isLast()
  }

  /**
   * NOTE: after `end()` of uWebSockets.js nobody can close the connection any more, and its own
   * immediate close is a reset for a client that still sends. So the answer is written as headers,
   * the last of which carries the body, and the response stays open until close(). The line break
   * that ends a header is the last two bytes of the body.
   */
  sendAndDrain(reply: Reply): void {
    if (!this.open) return
    const body = typeof reply.body === 'string' ? reply.body : Buffer.from(reply.body).toString()
    const text = this.isHead ? '' : body
    const answerBytes = Buffer.byteLength(text)
    this.finish(reply.status)
    this.isDraining = true
    this.onData(nothing)
    this.resume()
    this.#res.cork(() => {
      this.#res.writeStatus(this.#withId(headText(reply.status, reply.headers)))
      this.#res.writeHeader('connection', 'close')
      this.#res.writeHeader('content-length', `${answerBytes + 2}\r\n\r\n${text}`)
    })
    this.connections.drain.start(this, answerBytes)
  }

  beginChunks(status: number, headers: Reply['headers']): boolean {
    assert(this.open && this.bodyRead, 'a streaming answer begins once, after the body')
    assert(!this.isChunked, 'only GET and HEAD are answered with a stream, and have no body in chunks')
    this.resume()
    this.#res.cork(() => {
      this.#res.writeStatus(this.#head(status, headers))
      this.#sayLast()
      if (this.isHead) this.#res.endWithoutBody()
    })
    if (!this.isHead) {
      // NOTE: registered once, because a handler that is set inside the handler is discarded.
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
    this.isClosed = true
    this.finish(status)
    return true
  }

  /**
   * NOTE: uWebSockets.js loses a chunk that does not fit in its cork buffer when the socket takes
   * only a part of the chunk's frame, and reports that it waits (seen once in 5 GB; uWebSockets.js
   * issue 1249). A chunk that fits is gathered in the buffer with its frame, and the library keeps
   * the bytes that the socket does not take. Inside `onWritable` nothing is corked: bytes go to the
   * socket or are kept, so slow clients get large chunks there. But `onWritable` is called when the
   * socket takes something, not when all kept bytes are gone. So a small chunk is written first,
   * and a large one only if the socket took all of the small one. Otherwise the kept bytes would
   * grow with each call (seen with a small send buffer).
   */
  get chunkBytesMax(): number {
    if (this.#writable === 'later') return STREAM_WRITE_BYTES
    return this.#writable === 'now' ? STREAM_PROBE_BYTES : STREAM_BACKED_BYTES
  }

  writeChunk(bytes: Uint8Array): boolean {
    assert(this.open, 'chunks go to a client that is there')
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
   * NOTE: uWebSockets.js closes a connection within 12 s after a write that did not fit, or while
   * less than 16 KiB/s arrive, even if its client is alive (seen). resume() restarts that time. A
   * socket that stays paused never reports that it is writable (seen).
   */
  waitOn(): void {
    if (this.isClosed) return
    this.#res.pause()
    this.#res.resume()
  }

  endChunks(status: number): void {
    assert(this.open, 'the end goes to a client that is there')
    this.isClosed = true
    this.finish(status)
    // NOTE: not end(undefined, true), which writes `connection: close` into the body.
    this.#res.cork(() => this.#res.end())
  }

  close(): void {
    if (this.isClosed) return
    this.isClosed = true
    this.#res.close()
  }

  #end(reply: Reply): void {
    const res = this.#res
    if (!hasLength(reply.status)) {
      this.#sayLast()
      res.endWithoutBody()
    } else if (this.isHead) {
      this.#sayLast()
      // NOTE: in this release endWithoutBody(bytes) leaves the response pending, and the next
      // request of the connection closes it. Writing the header here avoids that.
      res.writeHeader('content-length', String(Buffer.byteLength(reply.body)))
      res.endWithoutBody()
    } else res.end(reply.body, this.connections.stopping)
  }

  /** For an answer that the library lets nobody close behind: its client closes. */
  #sayLast(): void {
    if (this.connections.stopping) this.#res.writeHeader('connection', 'close')
  }

  /** The response is pending until the socket has taken all of the body. */
  #tryEnd(body: string | Uint8Array): void {
    const total = Buffer.byteLength(body)
    this.isClosed = this.#res.tryEnd(body, total)[1]
    if (this.isClosed) return
    const bytes = Buffer.from(body)
    this.connections.unread.add(this)
    this.#res.onWritable(offset => {
      const [taken, done] = this.#res.tryEnd(bytes.subarray(offset), total)
      if (done) {
        this.isClosed = true
        this.connections.unread.delete(this)
      }
      return taken
    })
  }
}

/**
 * Most answers that fit in the cork buffer are sent with end(), which is cheaper than tryEnd() but
 * does not report a full socket.
 */
function isEnded(body: string | Uint8Array): boolean {
  return body.length === 0 || (body.length <= SMALL_ANSWER_LENGTH && Math.random() >= SMALL_ANSWERS_CHECKED)
}
