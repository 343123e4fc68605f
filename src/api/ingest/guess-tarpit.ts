/**
 * Slows guesses at the credentials of webhooks (docs/decisions/0026): a wrong one is answered late,
 * so that a guess occupies a connection for a second. The first wrong ones are answered at once,
 * for people who mistype. Right credentials are never delayed: guesses that come through the same
 * proxy as a producer must not stop the producer.
 */
import { networkOf } from '../../util/addresses.ts'
import { RateLimiter } from '../../util/rate-limiter.ts'
import type { Responder } from '../http/responder.ts'

/** Wrong credentials of one webhook from one address that are answered at once. */
const TARPIT_FREE = 10
/** Interval after which one more wrong credential is answered at once. */
const TARPIT_INTERVAL_MS = 1_000
const TARPIT_DELAY_MS = 1_000
/** Delayed answers at once; one more is answered at once. */
const TARPIT_DELAYED_MAX = 1_024
/** Pairs of address and webhook that are remembered. */
const TARPIT_KEYS_MAX = 10_000

export class Tarpit {
  readonly #guesses = new RateLimiter({
    burst: TARPIT_FREE,
    intervalMs: TARPIT_INTERVAL_MS,
    keysMax: TARPIT_KEYS_MAX,
  })
  #delayed = 0

  /** Calls `answer` now, or after TARPIT_DELAY_MS with the body unread. */
  refuse(address: string, webhook: string, responder: Responder, answer: () => void): void {
    const key = `${networkOf(address)} ${webhook}`
    const isDelayed = this.#guesses.waitMs(key) > 0 && this.#delayed < TARPIT_DELAYED_MAX
    this.#guesses.add(key)
    if (!isDelayed) {
      answer()
      return
    }
    this.#delayed += 1
    responder.pause()
    setTimeout(() => {
      this.#delayed -= 1
      answer()
    }, TARPIT_DELAY_MS)
  }
}
