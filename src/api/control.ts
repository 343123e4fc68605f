/** Control requests: /graphql, /oauth2/token and further routes. Handlers get a whole body, return a Reply. */
import type { HttpRequest } from 'uWebSockets.js'
import type { Refusal } from '../errors.ts'
import { CONTROL_BODY_BYTES_MAX, CONTROL_REQUESTS_MAX } from '../limits.ts'
import { tryDecode } from './admit.ts'
import { type ControlBodies, TOO_LARGE } from './control-body.ts'
import { withCors } from './cors.ts'
import { answerEarly, declaredBytesOf } from './early.ts'
import { problemReply, refusalOfError, refuse } from './problem.ts'
import type { ControlRequest, Reply, StreamReply } from './protocol.ts'
import type { Responder } from './reply.ts'
import type { Streams } from './stream.ts'

/** Parts of a request's head that a control handler sees. */
type ControlHead = Omit<ControlRequest, 'body'>

const BUSY = refuse(503, 'busy', 'too many requests are under way', { 'retry-after': '1' })
const BAD_PATH = refuse(404, 'not_found', 'the path is not well-formed')

/** Runs control requests, at most CONTROL_REQUESTS_MAX at once. */
export class Control {
  readonly #bodies: ControlBodies
  readonly #streams: Streams
  #running = 0

  constructor(bodies: ControlBodies, streams: Streams) {
    this.#bodies = bodies
    this.#streams = streams
  }

  /**
   * One request, to its answer.
   * @param parameters how many `:name` parts the path has
   * @param cors its answers are readable by pages of any origin
   */
  run(
    request: HttpRequest,
    responder: Responder,
    handle: (request: ControlRequest) => Promise<Reply | StreamReply>,
    parameters: number,
    cors: boolean,
  ): void {
    const declaredBytes = declaredBytesOf(request)
    const early = (why: Refusal): void => {
      const reply = problemReply(why)
      answerEarly(responder, cors ? withCors(reply) : reply, declaredBytes)
    }
    const head = headOf(request, parameters)
    if (head === undefined) {
      early(BAD_PATH)
      return
    }
    if (declaredBytes > CONTROL_BODY_BYTES_MAX) {
      early(TOO_LARGE)
      return
    }
    if (this.#running >= CONTROL_REQUESTS_MAX) {
      early(BUSY)
      return
    }
    this.#running += 1
    this.#bodies.read(responder, async body => {
      if (body !== undefined && 'status' in body) early(body)
      else if (body !== undefined) await this.#answer(responder, handle, { ...head, body }, cors)
      this.#running -= 1
    })
  }

  async #answer(
    responder: Responder,
    handle: (request: ControlRequest) => Promise<Reply | StreamReply>,
    request: ControlRequest,
    cors: boolean,
  ): Promise<void> {
    let reply: Reply
    try {
      const answer = await handle(request)
      if ('chunks' in answer) {
        await this.#streams.send(responder, answer)
        return
      }
      reply = answer
    } catch (error) {
      reply = problemReply(refusalOfError(error, responder.route))
    }
    // Nothing happens where a stream had begun: its connection is closed.
    responder.send(cors ? withCors(reply) : reply)
  }
}

function headOf(request: HttpRequest, parameters: number): ControlHead | undefined {
  const decoded: string[] = []
  for (let index = 0; index < parameters; index += 1) {
    const text = tryDecode(request.getParameter(index))
    if (text === undefined) return undefined
    decoded.push(text)
  }
  return {
    authorization: request.getHeader('authorization'),
    contentType: request.getHeader('content-type'),
    query: request.getQuery() ?? '',
    parameters: decoded,
  }
}
