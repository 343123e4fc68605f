/** Small bodies of control requests: whole, in memory, at most CONTROL_BODY_BYTES_MAX. */
import type { Refusal } from '../errors.ts'
import { BODY_MS_MAX, CONTROL_BODY_BYTES_MAX } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import { refuse } from './problem.ts'
import type { Responder } from './reply.ts'

/** Control bodies that are not complete, by the time they began. */
export class ControlBodies {
  readonly #receiving = new Map<
    Responder,
    { readonly untilMs: number; readonly end: (why: Refusal) => void }
  >()

  /** Calls `done` once, with the body, why there is none, or undefined where the client went away. */
  read(responder: Responder, done: (body: Uint8Array | Refusal | undefined) => void): void {
    const chunks: Uint8Array[] = []
    let bytes = 0
    const finish = (result: Uint8Array | Refusal | undefined): void => {
      if (!this.#receiving.delete(responder)) return
      done(result)
    }
    this.#receiving.set(responder, { untilMs: monotonicMs() + BODY_MS_MAX, end: finish })
    responder.onGone = () => finish(undefined)
    responder.onData((chunk, last) => {
      bytes += chunk.byteLength
      if (bytes > CONTROL_BODY_BYTES_MAX) {
        finish(TOO_LARGE)
        return
      }
      if (chunk.byteLength > 0) chunks.push(new Uint8Array(chunk.slice(0)))
      if (last) finish(Buffer.concat(chunks))
    })
  }

  /** Ends bodies whose time is over. */
  tick(nowMs: number): void {
    for (const { untilMs, end } of this.#receiving.values()) {
      if (untilMs > nowMs) return
      end(TOO_SLOW)
    }
  }
}

/** 413 of a control request. */
export const TOO_LARGE = refuse(
  413,
  'body_too_large',
  `the body takes at most ${CONTROL_BODY_BYTES_MAX} bytes`,
)
const TOO_SLOW = refuse(408, 'body_too_slow', 'the body did not arrive in time')
