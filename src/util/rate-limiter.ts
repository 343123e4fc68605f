/**
 * A rate limiter per key (the generic cell rate algorithm): `burst` calls at once pass freely, and
 * each later call waits `intervalMs` longer. It slows guesses at secrets and limits the events of a
 * pool. The table of keys is bounded: a full table forgets the key that was not used for the
 * longest time.
 */
import { monotonicMs } from './clock.ts'

interface RateLimiterOptions {
  /** Calls at once that need not wait. */
  readonly burst: number
  /** Time that pays for one call. */
  readonly intervalMs: number
  readonly keysMax: number
  readonly now?: () => number
}

export class RateLimiter<K = string> {
  readonly #options: RateLimiterOptions
  readonly #now: () => number
  /** When all calls of a key are paid for. The key used last stands last. */
  readonly #paidMs = new Map<K, number>()

  constructor(options: RateLimiterOptions) {
    this.#options = options
    this.#now = options.now ?? monotonicMs
  }

  /** How long the key's next call has to wait. */
  waitMs(key: K): number {
    const { burst, intervalMs } = this.#options
    return Math.max(0, (this.#paidMs.get(key) ?? 0) - this.#now() - (burst - 1) * intervalMs)
  }

  /** Counts calls, also those that had to wait. */
  add(key: K, calls = 1): void {
    const paidMs = Math.max(this.#paidMs.get(key) ?? 0, this.#now()) + calls * this.#options.intervalMs
    if (!this.#paidMs.delete(key)) this.#makeRoom()
    this.#paidMs.set(key, paidMs)
  }

  /** Takes back one call that was counted by mistake. */
  remove(key: K): void {
    const paidMs = this.#paidMs.get(key)
    if (paidMs === undefined) return
    const left = paidMs - this.#options.intervalMs
    if (left > this.#now()) this.#paidMs.set(key, left)
    else this.#paidMs.delete(key)
  }

  #makeRoom(): void {
    if (this.#paidMs.size < this.#options.keysMax) return
    const oldest = this.#paidMs.keys().next()
    if (oldest.done !== true) this.#paidMs.delete(oldest.value)
  }
}
