/**
 * Answers whose clients do not read. A large one stays pending until the socket has all of it: the next request of
 * its connection closes it, so what a connection holds is one answer.
 *
 * Of small ones some look whether the socket took those before (SMALL_ANSWERS_LOOKED_AT): that one is pending then.
 *
 * NOTE: of an answer that fits into its buffer of 16 KiB uWebSockets.js does not say whether the socket took it. Small
 * refusals cost their client nothing and would pile up, so one in REFUSALS_PER_CLOSE is the last of its connection.
 *
 *   W-9  An answer takes ≤ ANSWER_MS_MAX, then its connection closes.
 */
import { REFUSALS_PER_CLOSE } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'
import type { Responder } from './reply.ts'

export class Unread {
  readonly #answerMsMax: number
  /** By the time they began. */
  readonly #pending = new Map<Pick<Responder, 'close'>, number>()
  #refusals = 0

  constructor(answerMsMax: number) {
    this.#answerMsMax = answerMsMax
  }

  get length(): number {
    return this.#pending.size
  }

  /** Is this refusal the last answer of its connection? */
  isLast(): boolean {
    this.#refusals += 1
    if (this.#refusals < REFUSALS_PER_CLOSE) return false
    this.#refusals = 0
    return true
  }

  add(responder: Pick<Responder, 'close'>): void {
    this.#pending.set(responder, monotonicMs() + this.#answerMsMax)
  }

  delete(responder: Pick<Responder, 'close'>): void {
    this.#pending.delete(responder)
  }

  /** Closes those whose time is over. */
  tick(nowMs: number): void {
    for (const [responder, untilMs] of this.#pending) {
      if (untilMs > nowMs) break
      this.#pending.delete(responder)
      responder.close()
    }
  }
}
