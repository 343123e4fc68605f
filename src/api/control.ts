/**
 * Every route but ingest: the table of routes, and the requests that it finds a handler for. A
 * handler gets a whole body and returns a Reply.
 *
 *   W-9  Handlers run for at most CONTROL_BYTES_MAX of requests. A body has at most its route's
 *        bytes and BODY_MS_MAX. At most CONTROL_INCOMPLETE_MAX bodies are incomplete, with at most
 *        CONTROL_INCOMPLETE_BYTES_MAX: beyond that the oldest gets 408, so a client that sends half
 *        a body keeps nobody out.
 */

import { monotonicMs } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import {
  BODY_MS_MAX,
  CONTROL_BYTES_MAX,
  CONTROL_REQUEST_BYTES,
  GRAPHQL_BODY_BYTES_MAX,
  MiB,
  ROUTE_BODY_BYTES_MAX,
  TOKEN_BODY_BYTES_MAX,
} from '../util/limits.ts'
import type { ApiDeps, ControlRequest, ControlRoute, Reply } from './api-types.ts'
import { preflightOf, withCors } from './cors.ts'
import type { Connections } from './http/connections.ts'
import { answerEarly, type Responder } from './http/responder.ts'
import type { Streams } from './http/stream.ts'
import { declaredBytesOf, type RequestHead, tryDecode } from './http/transport.ts'
import type { Imports } from './imports/import-route.ts'
import { livez, readyz } from './probes.ts'
import { BAD_PATH, problemReply, refusalOfError, refuse, TOO_SLOW } from './problem.ts'

/** Incomplete bodies; one more gives the oldest 408. Steady senders are complete before that. */
export const CONTROL_INCOMPLETE_MAX = 1_024
/** Bytes of incomplete bodies of control requests; beyond it the oldest gets 408. */
export const CONTROL_INCOMPLETE_BYTES_MAX = 32 * MiB

/** @param parameters of the path, percent-decoded; undefined when one is malformed */
type Handler = (head: RequestHead, responder: Responder, parameters: readonly string[] | undefined) => void

interface Route {
  /** As in `/v1/pools/{pool}/arrow`, for traces. */
  readonly template: string
  /** The parts of the path; undefined matches any one part. */
  readonly parts: readonly (string | undefined)[]
  /** For the log: graphql, token, health, metrics, console, import or other. */
  readonly name: string
  /** By method, in lower case. */
  readonly methods: Readonly<Record<string, Handler>>
  readonly otherwise: Handler
}

export class Router {
  readonly #routes: Route[] = []

  /**
   * @param path as in `/v1/pools/:pool/arrow`
   * @param cors pages of any origin may read that a method is refused
   */
  add(path: string, name: string, methods: Route['methods'], cors = false): void {
    const parts = path.split('/').map(part => (part.startsWith(':') ? undefined : part))
    const template = path.replaceAll(/:(\w+)/g, '{$1}')
    this.#routes.push({ template, parts, name, methods, otherwise: refusing(allowOf(methods), cors) })
  }

  /** Passes the request to its handler. Returns false where the table has no such path. */
  run(head: RequestHead, responder: Responder): boolean {
    const given = head.path.split('/')
    const route = this.#routes.find(({ parts }) => matches(parts, given))
    if (route === undefined) return false
    const { template, name, parts, methods, otherwise } = route
    responder.route = name
    responder.span?.route(head, template, head.path)
    const handler = Object.hasOwn(methods, head.method) ? methods[head.method]! : otherwise
    handler(head, responder, parametersOf(parts, given))
    return true
  }
}

function allowOf(methods: Route['methods']): string {
  return Object.keys(methods)
    .map(method => method.toUpperCase())
    .join(', ')
}

function matches(parts: Route['parts'], given: readonly string[]): boolean {
  return (
    given.length === parts.length &&
    parts.every((part, index) => (part === undefined ? given[index] !== '' : part === given[index]))
  )
}

function parametersOf(parts: Route['parts'], given: readonly string[]): string[] | undefined {
  const decoded: string[] = []
  for (const [index, part] of parts.entries()) {
    if (part !== undefined) continue
    const text = tryDecode(given[index]!)
    if (text === undefined) return undefined
    decoded.push(text)
  }
  return decoded
}

export function controlRoutes(
  deps: ApiDeps,
  connections: Connections,
  control: Control,
  imports: Imports,
): Router {
  const routes = new Router()
  const controlled =
    (route: Pick<ControlRoute, 'handle' | 'bodyBytesMax' | 'headers'>, cors: boolean): Handler =>
    (head, responder, parameters) =>
      control.run(head, responder, route, parameters, cors)
  const add = (name: string, route: ControlRoute) => {
    const { path, cors = false } = route
    const handler = controlled(route, cors)
    const methods: Record<string, Handler> = {}
    for (const method of route.methods) methods[method.toLowerCase()] = handler
    if (route.methods.includes('GET')) methods['head'] = handler
    if (cors) methods['options'] = (_, responder) => responder.send(preflightOf(allowOf(methods)))
    routes.add(path, name, methods, cors)
  }
  add('graphql', {
    methods: ['POST'],
    path: '/graphql',
    bodyBytesMax: GRAPHQL_BODY_BYTES_MAX,
    cors: true,
    handle: deps.graphql,
  })
  add('token', {
    methods: ['POST'],
    path: '/oauth2/token',
    bodyBytesMax: TOKEN_BODY_BYTES_MAX,
    cors: true,
    handle: deps.token,
  })
  for (const route of deps.routes) add('other', route)

  const list = { handle: (asked: ControlRequest) => imports.list(asked), bodyBytesMax: ROUTE_BODY_BYTES_MAX }
  const listing = controlled(list, false)
  routes.add('/v1/pools/:pool/import', 'import', {
    post: (head, responder, parameters) => imports.take(head, responder, parameters),
    get: listing,
    head: listing,
  })

  const addRead = (path: string, name: string, read: (head: RequestHead) => Reply | Promise<Reply>) => {
    const answer: Handler = async (head, responder) => {
      // Read before the first await, while the head is valid.
      const declaredBytes = declaredBytesOf(head)
      answerEarly(responder, await replyOf(() => read(head), responder), declaredBytes)
    }
    routes.add(path, name, { get: answer, head: answer })
  }
  for (const { path, read } of deps.pages) addRead(path, 'console', read)
  addRead('/livez', 'health', livez)
  addRead('/readyz', 'health', () => readyz(deps.health(), connections.stopping))
  addRead('/metrics', 'metrics', async head => {
    const refusal = deps.metricsAccess(head.header('authorization'))
    if (refusal !== undefined) return problemReply(refusal)
    return { status: 200, headers: METRICS_TYPE, body: await deps.metricsText() }
  })
  return routes
}

/** The reply of a read, or the answer to its error. */
async function replyOf(read: () => Reply | Promise<Reply>, responder: Responder): Promise<Reply> {
  try {
    return await read()
  } catch (error) {
    return problemReply(refusalOfError(error, responder.route, responder.ids))
  }
}

const METRICS_TYPE = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }

function refusing(allow: string, cors: boolean): Handler {
  const refusal = refuse(405, 'method_not_allowed', `this path takes ${allow}`, { allow })
  const reply = cors ? withCors(problemReply(refusal)) : problemReply(refusal)
  return (head, responder) => answerEarly(responder, reply, declaredBytesOf(head))
}

type ControlHead = Omit<ControlRequest, 'body' | 'gone' | 'ids' | 'span'>

const BUSY = refuse(503, 'busy', 'too many requests are under way')

/** Runs control requests. One counts against CONTROL_BYTES_MAX once its body is complete. */
export class Control {
  readonly bodies = new ControlBodies()
  readonly #streams: Streams
  #heldBytes = 0

  constructor(streams: Streams) {
    this.#streams = streams
  }

  /** @param cors pages of any origin may read the answer */
  run(
    request: RequestHead,
    responder: Responder,
    { handle, bodyBytesMax, headers = [] }: Pick<ControlRoute, 'handle' | 'bodyBytesMax' | 'headers'>,
    parameters: readonly string[] | undefined,
    cors: boolean,
  ): void {
    const declaredBytes = declaredBytesOf(request)
    const early = (why: Refusal): void => {
      const reply = problemReply(why)
      answerEarly(responder, cors ? withCors(reply) : reply, declaredBytes)
    }
    if (parameters === undefined) {
      early(BAD_PATH)
      return
    }
    if (declaredBytes > bodyBytesMax) {
      early(bodyTooLarge(bodyBytesMax))
      return
    }
    // The head of the request is valid only before the first await.
    const head: ControlHead = {
      address: request.address(),
      authorization: request.header('authorization'),
      contentType: request.header('content-type'),
      query: request.query,
      parameters,
      headers: Object.fromEntries(headers.map(name => [name, request.header(name)])),
    }
    this.bodies.read(responder, bodyBytesMax, async body => {
      if (body === undefined) return
      if ('status' in body) early(body)
      else if (this.#heldBytes >= CONTROL_BYTES_MAX) early(BUSY)
      else {
        const bytes = body.byteLength + CONTROL_REQUEST_BYTES
        this.#heldBytes += bytes
        const gone = new AbortController()
        responder.onGone = () => gone.abort()
        await this.#answer(
          responder,
          handle,
          { ...head, body, gone: gone.signal, ids: responder.ids, span: responder.span },
          cors,
        )
        this.#heldBytes -= bytes
      }
    })
  }

  async #answer(
    responder: Responder,
    handle: ControlRoute['handle'],
    request: ControlRequest,
    cors: boolean,
  ): Promise<void> {
    let reply: Reply
    try {
      const answer = await handle(request)
      if ('open' in answer) {
        answer.open(responder)
        return
      }
      if ('begin' in answer) {
        await this.#streams.send(responder, answer, cors)
        return
      }
      reply = answer
    } catch (error) {
      reply = problemReply(refusalOfError(error, responder.route, responder.ids))
    }
    responder.send(cors ? withCors(reply) : reply)
  }
}

/** Called once: with the body, with a refusal, or with undefined when the client disconnected. */
type Done = (body: Uint8Array | Refusal | undefined) => void

interface Incomplete {
  readonly untilMs: number
  readonly done: Done
  buffer: Uint8Array
  bytes: number
}

/** Incomplete bodies of control requests, each whole in one buffer that grows. */
class ControlBodies {
  /** In the order in which they began. */
  readonly #incomplete = new Map<Responder, Incomplete>()
  #bufferedBytes = 0

  read(responder: Responder, bytesMax: number, done: Done): void {
    if (this.#incomplete.size >= CONTROL_INCOMPLETE_MAX) this.#endOldest()
    const body = { untilMs: monotonicMs() + BODY_MS_MAX, done, buffer: NO_BYTES, bytes: 0 }
    this.#incomplete.set(responder, body)
    responder.onGone = () => this.#end(responder, undefined)
    responder.onData((chunk, last) => {
      if (!this.#incomplete.has(responder)) return
      if (body.bytes + chunk.byteLength > bytesMax) {
        this.#end(responder, bodyTooLarge(bytesMax))
        return
      }
      this.#add(body, chunk, bytesMax)
      if (last) this.#end(responder, body.buffer.subarray(0, body.bytes))
      else while (this.#bufferedBytes > CONTROL_INCOMPLETE_BYTES_MAX) this.#endOldest()
    })
  }

  tick(nowMs: number): void {
    for (const [responder, { untilMs }] of this.#incomplete) {
      if (untilMs > nowMs) return
      this.#end(responder, TOO_SLOW)
    }
  }

  #add(body: Incomplete, chunk: Uint8Array, bytesMax: number): void {
    const end = body.bytes + chunk.byteLength
    if (end > body.buffer.byteLength) {
      const grown = new Uint8Array(Math.max(end, Math.min(2 * body.buffer.byteLength, bytesMax)))
      grown.set(body.buffer.subarray(0, body.bytes))
      this.#bufferedBytes += grown.byteLength - body.buffer.byteLength
      body.buffer = grown
    }
    body.buffer.set(chunk, body.bytes)
    body.bytes = end
  }

  #endOldest(): void {
    for (const responder of this.#incomplete.keys()) {
      this.#end(responder, TOO_SLOW)
      return
    }
  }

  #end(responder: Responder, result: Uint8Array | Refusal | undefined): void {
    const body = this.#incomplete.get(responder)
    if (body === undefined) return
    this.#incomplete.delete(responder)
    this.#bufferedBytes -= body.buffer.byteLength
    body.done(result)
  }
}

function bodyTooLarge(bytesMax: number): Refusal {
  return refuse(413, 'body_too_large', `the body takes at most ${bytesMax} bytes`)
}

const NO_BYTES = new Uint8Array(0)
