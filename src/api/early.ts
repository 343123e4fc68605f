/** Answers that come before the end of a request's body. */
import { BODY_BYTES_MAX } from '../limits.ts'
import type { Reply } from './protocol.ts'
import type { Responder } from './reply.ts'

/**
 * Content-Length, 0 where there is no body, -1 where it comes in chunks. uWebSockets.js has answered a malformed
 * length itself.
 */
export function declaredBytesOf(request: { getHeader(name: string): string }): number {
  const text = request.getHeader('content-length')
  if (text !== '') return Number(text)
  return request.getHeader('transfer-encoding') === '' ? 0 : -1
}

/**
 * Answers at once. A short rest of the body is read by uWebSockets.js, and the connection stays; where the rest
 * may be long it is drained, and the connection closes.
 */
export function answerEarly(responder: Responder, reply: Reply, declaredBytes: number): void {
  const short = declaredBytes >= 0 && declaredBytes <= BODY_BYTES_MAX && reply.status !== 408
  if (responder.bodyRead || short) responder.send(reply)
  else responder.sendAndDrain(reply)
}
