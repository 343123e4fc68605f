/**
 * The seam between the front end and the HTTP library: uws.ts and node.ts implement it,
 * choose-transport.ts picks one. A request is a head and a Responder (responder.ts), which reads
 * the body and sends the answer. Everything peculiar to a library stays in this folder.
 *
 * The framing of a body is checked here too. Both libraries accept requests that another reader
 * could take differently. Weir refuses those, so that a proxy in front of it and Weir never
 * disagree about where a request ends (RFC 9112, 6.3). Methods and expectations are checked here
 * too, because the libraries differ in them.
 */
import { METHODS } from 'node:http'
import { CannotRun, type Refusal } from '../../util/errors.ts'
import { REQUEST_ID, requestIdOf } from '../../util/request-id.ts'
import { refuse } from '../problem.ts'
import type { Connections } from './connections.ts'
import type { Responder } from './responder.ts'
import type { Tls, TlsPair } from './tls.ts'

/** Valid only while its handler runs. A read may be a call into C++: read once. */
export interface RequestHead {
  /** In lower case. */
  readonly method: string
  /** As sent, without the query. Begins with "/", except `*` and the like. */
  readonly path: string
  /** Without the "?". */
  readonly query: string
  /** Bytes of the body (0: none), CHUNKED for a body in chunks, or the refusal of a bad framing. */
  readonly framing: number | Refusal
  /** The request's own id (util/request-id.ts); "" without one. */
  readonly requestId: string
  /** "" when there is none. The name is in lower case. */
  header(name: string): string
  headerCount(name: string): number
  /** Visits each header in the order of the request. Names are in lower case, values are UTF-8. */
  eachHeader(visit: (name: string, value: string) => void): void
  address(): string
}

/** Called once for each request, also for one with a refused framing. Must answer it. */
export type OnRequest = (head: RequestHead, responder: Responder) => void

export interface ListenOptions {
  readonly host: string
  readonly port: number
  readonly connections: Connections
  readonly onRequest: OnRequest
  /** Absent for plain HTTP. */
  readonly tls: Tls | undefined
  /** Over node:http: time between two requests of a connection; then it closes. */
  readonly idleMsMax: number
}

export interface Transport {
  readonly name: 'uws' | 'node'
  /** Rejects with CannotRun when the address cannot be used. */
  listen(options: ListenOptions): Promise<Listening>
}

const LISTEN_ERRORS: Readonly<Record<string, (host: string, port: number) => string>> = {
  EADDRINUSE: () =>
    'the port is in use: stop the process that has it, or choose another --port (0 takes a free one)',
  EADDRNOTAVAIL: host =>
    `this machine has no address ${host}: --host takes one of its own, or 0.0.0.0 for all of IPv4`,
  EACCES: (_, port) => `port ${port} needs a privilege: choose a --port from 1024 on`,
  ENOTFOUND: host => `no host has the name ${host}: give --host an address of this machine`,
}

export function cannotListen({ host, port }: ListenOptions, error: NodeJS.ErrnoException): CannotRun {
  const why = LISTEN_ERRORS[error.code ?? '']?.(host, port) ?? error.message
  return new CannotRun(`cannot listen on ${host}:${port}: ${why}`)
}

export interface Listening {
  readonly port: number
  /** Takes another certificate for the connections that come. Only with TLS. Throws if it fails. */
  renew(pair: TlsPair): void
  /** Takes no further connection. Those that are open go on. */
  stopListening(): void
  /** Stops listening and closes every connection at once. In a later turn than stopListening(). */
  close(): void
}

/** The framing of a body in chunks, whose length is not declared. */
export const CHUNKED = -1

const HOSTS = badFraming('a request has one Host')
const LENGTHS = badFraming('a request has at most one Content-Length, a whole number')
const CODINGS = badFraming('the only Transfer-Encoding is chunked, given once')
const BOTH = badFraming('a request has a Content-Length or a Transfer-Encoding, never both')
const NO_BODY = badFraming('GET and HEAD have no body in chunks')
const EXPECTATION = refuse(417, 'unknown_expectation', 'the only Expect is 100-continue')
/** Of every method that RFC 9110 and its extensions do not name. Methods are in capital letters. */
export const UNKNOWN_METHOD = refuse(
  501,
  'unknown_method',
  'HTTP has no such method; methods are in capital letters, such as GET and POST',
)
export const MALFORMED = refuse(400, 'malformed_http', 'this is not a well-formed HTTP request')
export const NO_TUNNEL = refuse(405, 'method_not_allowed', 'this server is no proxy')

const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS)

/** The characters of a method (RFC 9110, 5.6.2). */
const METHOD = /^[\w!#$%&'*+.^`|~-]+$/

export function beginsWithMethod(line: string): boolean {
  const end = line.indexOf(' ')
  return end > 0 && METHOD.test(line.slice(0, end))
}

/** The refusal of a method that no route may have. @param method as sent */
export function refuseMethod(method: string): Refusal | undefined {
  if (method === 'CONNECT') return NO_TUNNEL
  if (KNOWN_METHODS.has(method)) return undefined
  return METHOD.test(method) ? UNKNOWN_METHOD : MALFORMED
}

/**
 * Takes each header on the one walk over them, because a library's look-up returns only the first
 * of a name. Of a request with several ids none counts.
 */
export class FramingHeaders {
  #ids = 0
  #id = ''
  #hosts = 0
  #lengths = 0
  #length = ''
  #codings = 0
  #coding = ''
  #isUnexpected = false

  take(name: string, value: string): void {
    if (name === 'content-length') {
      if (this.#lengths === 0) this.#length = value
      this.#lengths += 1
    } else if (name === 'transfer-encoding') {
      if (this.#codings === 0) this.#coding = value
      this.#codings += 1
    } else if (name === 'host') this.#hosts += 1
    else if (name === 'expect' && value !== '' && value.toLowerCase() !== '100-continue')
      this.#isUnexpected = true
    else if (name === REQUEST_ID) {
      this.#ids += 1
      this.#id = value
    }
  }

  get requestId(): string {
    return this.#ids === 1 ? requestIdOf(this.#id) : ''
  }

  /** Bytes of the body, CHUNKED, or the refusal. The method is in lower case. */
  framingOf(method: string): number | Refusal {
    if (this.#hosts > 1) return HOSTS
    if (this.#isUnexpected) return EXPECTATION
    if (this.#lengths === 0 && this.#codings === 0) return 0
    if (this.#codings === 0)
      return this.#lengths === 1 && DIGITS.test(this.#length) ? Number(this.#length) : LENGTHS
    if (this.#lengths > 0) return BOTH
    if (this.#codings > 1 || this.#coding.toLowerCase() !== 'chunked') return CODINGS
    return method === 'get' || method === 'head' ? NO_BODY : CHUNKED
  }
}

/** 15 digits exceed every limit of Weir and are exact as a number. */
const DIGITS = /^\d{1,15}$/

function badFraming(message: string): Refusal {
  return refuse(400, 'bad_framing', message)
}

/** Content-Length, 0 without a body, CHUNKED when the length is not declared or not trusted. */
export function declaredBytesOf(head: RequestHead): number {
  const { framing } = head
  return typeof framing === 'number' ? framing : CHUNKED
}

export function tryDecode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined // URIError is the only error it throws
  }
}
