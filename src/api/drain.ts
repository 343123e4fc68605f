/**
 * Answers that come before the end of a body: the rest is read and dropped up to DRAIN_BYTES_MAX or
 * DRAIN_MS_MAX, then the connection closes. Without it the client would see a reset in place of the answer.
 * Beyond the bytes it is only not read any more for DRAIN_GRACE_MS: a fast client can send 8 MiB before it
 * looks at what it was told (Go's did, 2 of 400 times).
 */
import { DRAIN_BYTES_MAX, DRAIN_GRACE_MS, DRAIN_MS_MAX } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import type { Responder } from './reply.ts'

/** What the drain closes. */
type Drained = Pick<Responder, 'close' | 'pause'>

/** All connections that are being drained; they hold no bytes. */
export class Drain {
  readonly #running = new Map<Drained, { bytes: number; untilMs: number }>()

  get length(): number {
    return this.#running.size
  }

  start(responder: Drained): void {
    this.#running.set(responder, { bytes: 0, untilMs: monotonicMs() + DRAIN_MS_MAX })
  }

  /** Counts a dropped chunk; closes after the last one, and soon after the limit. */
  count(responder: Drained, bytes: number, last: boolean): void {
    const state = this.#running.get(responder)
    if (state === undefined) return
    state.bytes += bytes
    if (last) this.#end(responder)
    else if (state.bytes > DRAIN_BYTES_MAX) {
      state.untilMs = Math.min(state.untilMs, monotonicMs() + DRAIN_GRACE_MS)
      responder.pause()
    }
  }

  /** Closes those whose time is over. */
  tick(nowMs: number): void {
    for (const [responder, state] of this.#running) {
      if (state.untilMs <= nowMs) this.#end(responder)
    }
  }

  #end(responder: Drained): void {
    this.#running.delete(responder)
    // In this turn the answer may still stand in the cork buffer, which close() would throw away.
    setImmediate(() => responder.close())
  }
}
