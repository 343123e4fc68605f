/**
 * Control requests: /graphql, /oauth2/token and further routes. A handler gets a whole body and returns
 * a Reply. Browsers may call the first two from any page: tokens, not cookies, identify the caller.
 *
 *   W-9  At most CONTROL_REQUESTS_MAX handlers run. A body has at most its route's bytes and BODY_MS_MAX.
 *        At most CONTROL_INCOMPLETE_MAX bodies with CONTROL_INCOMPLETE_BYTES_MAX are incomplete: beyond
 *        that the oldest gets 408, so a client that sends half a body keeps nobody out.
 */

import { monotonicMs } from '../util/clock.ts'
import type { Refusal } from '../util/errors.ts'
import {
  BODY_MS_MAX,
  CONTROL_INCOMPLETE_BYTES_MAX,
  CONTROL_INCOMPLETE_MAX,
  CONTROL_REQUESTS_MAX,
} from '../util/limits.ts'
import type { ControlRequest, ControlRoute, Reply } from './api-types.ts'
import { declaredBytesOf, type RequestHead } from './http/transport.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'
import { answerEarly, type Responder } from './responder.ts'
import type { Streams } from './stream.ts'

/** The parts of a request's head that a control handler gets. */
type ControlHead = Omit<ControlRequest, 'body'>

const BUSY = refuse(503, 'busy', 'too many requests are under way', { 'retry-after': '1' })
const BAD_PATH = refuse(404, 'not_found', 'the path is not well-formed')

/** Runs control requests, at most CONTROL_REQUESTS_MAX at once. A request counts once its body is complete. */
export class Control {
  readonly #bodies: ControlBodies
  readonly #streams: Streams
  #running = 0

  constructor(bodies: ControlBodies, streams: Streams) {
    this.#bodies = bodies
    this.#streams = streams
  }

  /**
   * Runs one request to its answer.
   * @param parameters the `:name` parts of the path; undefined when one is malformed
   * @param cors pages of any origin may read the answer
   */
  run(
    request: RequestHead,
    responder: Responder,
    { handle, bodyBytesMax }: Pick<ControlRoute, 'handle' | 'bodyBytesMax'>,
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
    }
    this.#bodies.read(responder, bodyBytesMax, async body => {
      if (body === undefined) return
      if ('status' in body) early(body)
      else if (this.#running >= CONTROL_REQUESTS_MAX) early(BUSY)
      else {
        this.#running += 1
        await this.#answer(responder, handle, { ...head, body }, cors)
        this.#running -= 1
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
      if ('begin' in answer) {
        await this.#streams.send(responder, answer)
        return
      }
      reply = answer
    } catch (error) {
      reply = problemReply(refusalOfError(error, responder.route))
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
export class ControlBodies {
  /** In the order in which they began. */
  readonly #incomplete = new Map<Responder, Incomplete>()
  #heldBytes = 0

  get length(): number {
    return this.#incomplete.size
  }

  /** @param bytesMax a longer body is 413 */
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
      else while (this.#heldBytes > CONTROL_INCOMPLETE_BYTES_MAX) this.#endOldest()
    })
  }

  /** Refuses bodies that arrive too slowly. */
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
      this.#heldBytes += grown.byteLength - body.buffer.byteLength
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
    this.#heldBytes -= body.buffer.byteLength
    body.done(result)
  }
}

/** 413 for a control request. */
function bodyTooLarge(bytesMax: number): Refusal {
  return refuse(413, 'body_too_large', `the body takes at most ${bytesMax} bytes`)
}

const NO_BYTES = new Uint8Array(0)
const TOO_SLOW = refuse(408, 'body_too_slow', 'the body did not arrive in time')

/** The answer to a preflight. */
export const PREFLIGHT: Reply = {
  status: 204,
  headers: {
    'access-control-allow-origin': '*',
    'access-control-allow-methods': 'POST, OPTIONS',
    'access-control-allow-headers': 'authorization, content-type',
    'access-control-max-age': '86400',
  },
  body: '',
}

/** The same reply, readable for pages of any origin. */
export function withCors(reply: Reply): Reply {
  const { status, headers, body } = reply // without its `head`, which lacks the new header
  return { status, headers: { ...headers, 'access-control-allow-origin': '*' }, body }
}
