/**
 * HTTP over node:http, for machines where uWebSockets.js has no binary that loads. A connection
 * runs one request at a time. Requests that are pipelined behind it wait, unread, in order. A
 * connection starts at most one request in a turn of the event loop: without that limit eight
 * connections that pipelined refused requests delayed acks by 2.8 s.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { assert, must, type Refusal } from '../../util/errors.ts'
import {
  DRAIN_GRACE_MS,
  HTTP_CHECK_MS,
  HTTP_HEAD_BYTES_MAX,
  HTTP_HEAD_MS_MAX,
  HTTP_PIPELINED_MAX,
  HTTP_REQUEST_MS_MAX,
  HTTP_UNREAD_BODY_BYTES,
  STREAM_BACKED_BYTES,
} from '../../util/limits.ts'
import { REQUEST_ID } from '../../util/request-id.ts'
import type { Reply } from '../api-types.ts'
import { problemReply, refuse } from '../problem.ts'
import type { Connections } from './connections.ts'
import { type DataHandler, hasLength, headText, nothing, Responder } from './responder.ts'
import {
  beginsWithMethod,
  CHUNKED,
  cannotListen,
  FramingHeaders,
  type Listening,
  type ListenOptions,
  MALFORMED,
  NO_TUNNEL,
  type RequestHead,
  type Transport,
  UNKNOWN_METHOD,
} from './transport.ts'

export const nodeTransport: Transport = { name: 'node', listen }

function listen(options: ListenOptions): Promise<Listening> {
  const { tls } = options
  const settings = {
    maxHeaderSize: HTTP_HEAD_BYTES_MAX,
    headersTimeout: HTTP_HEAD_MS_MAX,
    requestTimeout: HTTP_REQUEST_MS_MAX,
    keepAliveTimeout: options.idleMsMax,
    connectionsCheckingInterval: HTTP_CHECK_MS,
    highWaterMark: HTTP_UNREAD_BODY_BYTES,
    insecureHTTPParser: false,
    requireHostHeader: true,
    noDelay: true,
  }
  const encrypted = tls && createTlsServer({ ...settings, ...tls.pair, handshakeTimeout: HTTP_HEAD_MS_MAX })
  const server = encrypted ?? createServer(settings)
  // NOTE: a half-closed connection is closed, as over uWebSockets.js.
  server.timeout = 0 // requests, answers and idle connections have times of their own
  // HTTP_HEAD_BYTES_MAX bounds the headers. With a count node:http would drop headers silently.
  server.maxHeadersCount = 0
  const connections = new WeakMap<Socket, Connection>()
  const connectionOf = (socket: Socket) => must(connections.get(socket), 'the connection of a socket')
  const { sockets } = options.connections
  server.on('connection', socket => {
    socket.on('close', () => sockets.leave())
    if (!sockets.enter()) socket.destroy()
  })
  // Requests come through the socket that decrypts, where there is one.
  server.on(encrypted === undefined ? 'connection' : 'secureConnection', (socket: Socket) => {
    connections.set(socket, new Connection(socket, options))
  })
  const take = (expectsContinue: boolean) => (request: IncomingMessage, response: ServerResponse) =>
    connectionOf(request.socket).take({ request, response, expectsContinue })
  server.on('request', take(false))
  server.on('checkContinue', take(true))
  server.on('checkExpectation', take(false))
  server.on('connect', (_, socket) => connectionOf(socket as Socket).fail(NO_TUNNEL))
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const connection = connections.get(socket as Socket)
    // NOTE: node:http reports it once for a request, and goes on with the request.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && connection?.isUploading === true) return
    // Before the end of its handshake a socket has no connection, and nothing can be answered.
    if (connection === undefined || error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
    else connection.fail(refusalOf(error))
  })
  const { host, port } = options
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(cannotListen(options, error))
    })
    server.listen({ host, port, exclusive: true }, () => {
      resolve({
        port: (server.address() as AddressInfo).port,
        renew: pair => encrypted?.setSecureContext(pair),
        // NOTE: close() of node:http would close idle connections too.
        stopListening: () => void NetServer.prototype.close.call(server),
        close: () => {
          server.close()
          server.closeAllConnections()
        },
      })
    })
  })
}

/** One connection: the request that runs, and the requests pipelined behind it. */
class Connection {
  /** It takes no further request and closes after the answer. */
  isEnding = false
  /** The request that runs has a body of any size, which has no time of its own. */
  get isUploading(): boolean {
    return this.#current?.isUpload === true && !this.#current.bodyRead
  }

  readonly #socket: Socket
  readonly #options: ListenOptions
  #current: NodeResponder | undefined
  /** A request of this connection has started in this turn of the event loop. */
  #hasRun = false
  readonly #pipelined: Exchange[] = []

  constructor(socket: Socket, options: ListenOptions) {
    this.#socket = socket
    this.#options = options
    // After a CONNECT nobody else handles its errors, and an unhandled one ends the process.
    socket.on('error', nothing)
    socket.on('close', () => {
      // A head that node:http does not take was answered.
      if (this.#current === undefined) options.connections.sockets.closedUnheard(false)
      this.#pipelined.length = 0
      this.#current?.connectionClosed()
    })
  }

  take(exchange: Exchange): void {
    // After the last answer no request runs. It stays unread until the connection closes.
    if (this.isEnding) return
    const current = this.#current
    if (current === undefined || (current.isDone && !this.#hasRun)) {
      this.#run(exchange)
      return
    }
    const isUnread = this.#options.connections.unread.has(current)
    if (isUnread || this.#pipelined.length >= HTTP_PIPELINED_MAX) {
      this.isEnding = true
      this.#socket.destroy()
      return
    }
    this.#pipelined.push(exchange)
    if (this.#pipelined.length === 1) this.goOn()
  }

  /** Refuses malformed bytes, at once or after the answer that is due, and closes. */
  fail(refusal: Refusal): void {
    if (this.isEnding) return
    this.isEnding = true
    this.#pipelined.length = 0
    const current = this.#current
    const owesOther = current !== undefined && !current.isDone && (current.bodyRead || !current.open)
    if (owesOther) {
      current.endConnection()
      return
    }
    const { status, headers, body } = problemReply(refusal)
    const length = String(Buffer.byteLength(body))
    const head = headText(status, { ...headers, connection: 'close', 'content-length': length })
    this.#socket.end(`HTTP/1.1 ${head}\r\n\r\n${body}`)
    // Reads on for a moment: closing now would be a reset that loses the answer.
    setTimeout(() => this.#socket.destroy(), DRAIN_GRACE_MS).unref()
  }

  /**
   * Runs the next pipelined request, at most one a turn, when the current answer is in the socket.
   * Before that its own answer has no socket. When it cannot run yet, this is called again: by the
   * answer, at the end of the answer, or in the next turn.
   */
  goOn(): void {
    if (this.#pipelined.length === 0 || this.#hasRun) return
    const current = must(this.#current, 'the answer before a pipelined request')
    if (current.isDone) {
      const next = this.isEnding ? undefined : this.#pipelined.shift()
      if (next !== undefined) this.#run(next)
    } else if (!current.open) current.whenDone(() => this.goOn())
  }

  #run(exchange: Exchange): void {
    const head = new NodeHead(exchange.request)
    const declaredBytes = typeof head.framing === 'number' ? head.framing : CHUNKED
    const responder = new NodeResponder(exchange, declaredBytes, this, this.#options.connections)
    this.#current = responder
    this.#hasRun = true
    setImmediate(() => {
      this.#hasRun = false
      this.goOn()
    })
    this.#options.onRequest(head, responder)
  }
}

class NodeHead implements RequestHead {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly framing: number | Refusal
  readonly requestId: string
  readonly #request: IncomingMessage

  constructor(request: IncomingMessage) {
    this.#request = request
    this.method = must(request.method, 'the method').toLowerCase()
    const target = originForm(must(request.url, 'the target'))
    const at = target.indexOf('?')
    this.path = at < 0 ? target : target.slice(0, at)
    this.query = at < 0 ? '' : target.slice(at + 1)
    const headers = new FramingHeaders()
    const { rawHeaders } = request
    for (let at = 0; at < rawHeaders.length; at += 2)
      headers.take(rawHeaders[at]!.toLowerCase(), rawHeaders[at + 1]!)
    this.framing = request.httpVersionMajor === 1 ? headers.framingOf(this.method) : BAD_VERSION
    this.requestId = headers.requestId
  }

  header(name: string): string {
    const value = this.#request.headers[name]
    if (value === undefined) return ''
    return typeof value === 'string' ? value : value[0]!
  }

  headerCount(name: string): number {
    let count = 0
    const { rawHeaders } = this.#request
    for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]!.toLowerCase() === name) count += 1
    return count
  }

  /** Node reads each byte of a value as a character. */
  eachHeader(visit: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#request
    for (let at = 0; at < rawHeaders.length; at += 2)
      visit(rawHeaders[at]!.toLowerCase(), Buffer.from(rawHeaders[at + 1]!, 'latin1').toString())
  }

  address(): string {
    return this.#request.socket.remoteAddress ?? '' // '': it disconnected
  }
}

/** The target without scheme and host, which proxies may send (RFC 9112, 3.2.2). */
function originForm(target: string): string {
  if (target.startsWith('/')) return target
  const match = /^https?:\/\/[^/?#]*/i.exec(target)
  if (match === null) return target
  const rest = target.slice(match[0].length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

const BAD_VERSION = refuse(505, 'bad_version', 'Weir speaks version 1 of HTTP')
const REFUSALS: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: refuse(
    431,
    'head_too_large',
    `a request's head takes at most ${HTTP_HEAD_BYTES_MAX} bytes`,
  ),
  HPE_INVALID_VERSION: BAD_VERSION,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: refuse(413, 'body_too_large', 'the chunk extensions are too long'),
  ERR_HTTP_REQUEST_TIMEOUT: refuse(408, 'too_slow', 'the request did not arrive in time'),
}

interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/** True where the line in which node:http stopped begins with a word that could be a method. */
function hasMethod({ rawPacket, bytesParsed = 0 }: ParseError): boolean {
  if (rawPacket === undefined) return false
  const from = rawPacket.lastIndexOf(10, bytesParsed - 1) + 1
  return beginsWithMethod(rawPacket.toString('latin1', bytesParsed === 0 ? 0 : from, from + 256))
}

function refusalOf(error: ParseError): Refusal {
  const { code = '' } = error
  if (code === 'HPE_INVALID_METHOD' && hasMethod(error)) return UNKNOWN_METHOD
  return Object.hasOwn(REFUSALS, code) ? REFUSALS[code]! : MALFORMED
}

const NO_BYTES = new Uint8Array(0)

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean
}

/** Answers through node:http, and counts answers that the socket does not take. */
class NodeResponder extends Responder {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #connection: Connection
  /** Bytes of the body; negative when they are not declared or not trusted. */
  readonly #declaredBytes: number
  #bytes = 0
  #expectsContinue: boolean

  constructor(exchange: Exchange, declaredBytes: number, connection: Connection, connections: Connections) {
    super(exchange.request.method === 'HEAD', connections)
    this.#request = exchange.request
    this.#response = exchange.response
    this.#expectsContinue = exchange.expectsContinue
    this.#declaredBytes = declaredBytes
    this.#connection = connection
    // A write failed because the connection closed: connectionClosed() handles its end.
    exchange.response.on('error', nothing)
  }

  get isDone(): boolean {
    // The socket is null once it is detached: the next response has it.
    return this.#response.writableFinished && this.#response.socket === null
  }

  whenDone(done: () => void): void {
    this.#response.once('finish', done)
  }

  onData(handler: DataHandler): void {
    if (this.#expectsContinue) {
      this.#expectsContinue = false
      this.#response.writeContinue()
    }
    this.#read(handler)
  }

  #read(handler: DataHandler): void {
    const known = this.dataHandler !== undefined
    this.dataHandler = handler
    if (known) return
    // With a declared length the last piece is known by its position, without a further event.
    this.#request.on('data', (chunk: Uint8Array) => {
      this.#bytes += chunk.byteLength
      this.data(chunk, this.#bytes === this.#declaredBytes)
    })
    if (this.#declaredBytes <= 0) this.#request.on('end', () => this.data(NO_BYTES, true))
  }

  pause(): void {
    if (!this.isClosed) this.#request.pause()
  }

  resume(): void {
    if (!this.isClosed && this.#request.isPaused()) this.#request.resume()
  }

  send(reply: Reply): void {
    if (!this.open) return
    // A client without `100 Continue` may send its body or not. Only a close is unambiguous.
    const isUnsure = this.#expectsContinue && !this.bodyRead && this.#declaredBytes !== 0
    if (isUnsure || (this.connections.stopping && !this.bodyRead)) {
      this.sendAndDrain(reply)
      return
    }
    this.resume()
    this.finish(reply.status)
    const response = this.#response
    if (this.connections.stopping) response.shouldKeepAlive = false
    if (!response.shouldKeepAlive) this.#connection.isEnding = true
    response.writeHead(reply.status, this.#headersOf(reply))
    if (this.isHead || !hasLength(reply.status)) response.end()
    else response.end(reply.body)
    this.#ended()
  }

  sendAndDrain(reply: Reply): void {
    if (!this.open) return
    this.finish(reply.status)
    this.isDraining = true
    this.#connection.isEnding = true
    this.#expectsContinue = false
    this.#read(nothing)
    this.resume()
    this.#response.shouldKeepAlive = false
    this.#response.writeHead(reply.status, this.#headersOf(reply))
    // NOTE: not end(), which closes the connection: a reset for a client that still sends.
    if (this.isHead || reply.body.length === 0) this.#response.flushHeaders()
    else this.#response.write(reply.body)
    this.connections.drain.start(this, Buffer.byteLength(reply.body))
  }

  beginChunks(status: number, headers: Reply['headers']): boolean {
    assert(this.open && this.bodyRead, 'a streaming answer begins once, after the body')
    const response = this.#response
    if (this.connections.stopping) response.shouldKeepAlive = false
    if (!response.shouldKeepAlive) this.#connection.isEnding = true
    response.writeHead(status, this.#listOf(headers))
    if (this.isHead) {
      response.end()
      this.finish(status)
      this.#ended()
      return true
    }
    response.on('drain', () => this.onWritable())
    response.flushHeaders()
    return false
  }

  get chunkBytesMax(): number {
    return STREAM_BACKED_BYTES
  }

  writeChunk(bytes: Uint8Array): boolean {
    assert(this.open, 'chunks go to a client that is there')
    // A copy: node:http keeps what the socket does not take, and the memory is reused.
    return this.#response.write(Uint8Array.prototype.slice.call(bytes))
  }

  /** node:http sets no timer on a slow connection. */
  waitOn(): void {}

  endChunks(status: number): void {
    assert(this.open, 'the end goes to a client that is there')
    this.finish(status)
    this.#response.end()
    this.#ended()
  }

  close(): void {
    if (this.isClosed) return
    this.isClosed = true
    const { socket, httpVersionMinor } = this.#request
    // Over HTTP/1.0 only a reset tells the client that the stream is incomplete. Over TLS the
    // missing close_notify does (RFC 9112, 9.8): destroy() sends none, end() does.
    if (httpVersionMinor === 0 && this.open && !('encrypted' in socket)) socket.resetAndDestroy()
    else socket.destroy()
  }

  endConnection(): void {
    this.#response.shouldKeepAlive = false
    this.whenDone(() => this.#request.socket.destroySoon())
  }

  connectionClosed(): void {
    if (!this.isClosed || this.open || this.isDraining) this.gone()
  }

  #headersOf(reply: Reply): string[] {
    const list = this.#listOf(reply.headers)
    if (hasLength(reply.status)) list.push('content-length', String(Buffer.byteLength(reply.body)))
    return list
  }

  /** Headers as a list, which node:http takes fastest: without a header that was set before. */
  #listOf(headers: Reply['headers']): string[] {
    const list = this.requestId === '' ? [] : [REQUEST_ID, this.requestId]
    for (const name in headers) list.push(name, headers[name]!)
    return list
  }

  /** Called when node:http has the whole answer: did the socket take all of it? */
  #ended(): void {
    const { socket } = this.#response
    if (socket !== null && socket.writableLength > 0) {
      this.connections.unread.add(this)
      this.#response.once('finish', () => {
        this.isClosed = true
        this.connections.unread.delete(this)
      })
    } else this.isClosed = true
    this.#connection.goOn()
  }
}
