/**
 * Slows guesses at the secrets of applications (docs/decisions/0026).
 *
 * While few guesses have failed, a secret is checked at once. Later it waits, and where too many
 * wait it is refused unchecked. The right secret gives its cost back, so a client that is right
 * never waits for itself.
 *
 * Guesses from elsewhere lock nobody out. The first try of an address that has not failed
 * with the application is checked at once. An address that was right lately waits for its own
 * failures only.
 */
import { createHash } from 'node:crypto'
import { networkOf } from '../../util/addresses.ts'
import { GUESSES_WAITING_MAX } from '../../util/limits.ts'
import { RateLimiter } from '../../util/rate-limiter.ts'

/**
 * Wrong secrets of a pair of both that are answered at once: people mistype, clients start
 * together.
 */
export const GUESSES_FREE = 10
/** Interval of further checks for that pair: 16 random characters take 10^20 days. */
const GUESS_INTERVAL_MS = 100
/** Wrong secrets from one address, for all applications, that are answered at once. */
const GUESSES_ADDRESS_FREE = 50
const GUESS_ADDRESS_INTERVAL_MS = 50
/** Wrong secrets of one application, from all addresses, that are answered at once. */
export const GUESSES_APPLICATION_FREE = 100
/** Interval of further checks for that application, for addresses that have failed with it. */
const GUESS_APPLICATION_INTERVAL_MS = 10
/** Time for which a secret waits for its check; in a longer queue it is 429. */
export const GUESS_WAIT_MS_MAX = 5_000
/** Addresses, applications, and pairs of both that are remembered: about 1 MiB each. */
export const GUESSES_KEYS_MAX = 10_000

interface Try {
  readonly address: string
  readonly applicationId: string
}

interface TooMany {
  readonly retrySeconds: number
}

export class GuessThrottle {
  readonly #pairs: RateLimiter
  readonly #addresses: RateLimiter
  readonly #applications: RateLimiter
  /** Pairs of address and application that were right once, the latest last. */
  readonly #known = new Set<string>()
  /** Pairs of address and application that were wrong the last time. */
  readonly #failed = new Set<string>()
  #waiting = 0

  /** @param now the clock of a test */
  constructor(now?: () => number) {
    const make = (burst: number, intervalMs: number) =>
      new RateLimiter({ burst, intervalMs, keysMax: GUESSES_KEYS_MAX, ...(now === undefined ? {} : { now }) })
    this.#pairs = make(GUESSES_FREE, GUESS_INTERVAL_MS)
    this.#addresses = make(GUESSES_ADDRESS_FREE, GUESS_ADDRESS_INTERVAL_MS)
    this.#applications = make(GUESSES_APPLICATION_FREE, GUESS_APPLICATION_INTERVAL_MS)
  }

  /** Waits, and returns the result of `check`, which is undefined for a wrong secret. */
  async run<T extends object>(one: Try, check: () => T | undefined): Promise<T | undefined | TooMany> {
    const address = networkOf(one.address)
    const application = digestOf(one.applicationId)
    const pair = `${address} ${application}`
    const waitMs = this.#waitMs(pair, address, application)
    if (waitMs > GUESS_WAIT_MS_MAX || (waitMs > 0 && this.#waiting >= GUESSES_WAITING_MAX))
      return { retrySeconds: Math.max(1, Math.ceil((waitMs - GUESS_WAIT_MS_MAX) / 1000)) }
    const costs = [
      [this.#pairs, pair],
      [this.#addresses, address],
      [this.#applications, application],
    ] as const
    for (const [table, key] of costs) table.add(key)
    if (waitMs > 0) await this.#wait(waitMs)
    const found = check()
    if (found === undefined) {
      if (!this.#known.has(pair)) remember(this.#failed, pair)
      return undefined
    }
    for (const [table, key] of costs) table.remove(key)
    this.#failed.delete(pair)
    remember(this.#known, pair)
    return found
  }

  #waitMs(pair: string, address: string, application: string): number {
    const own = this.#pairs.waitMs(pair)
    if (this.#known.has(pair)) return own
    const others = this.#failed.has(pair) ? this.#applications.waitMs(application) : 0
    return Math.max(own, others, this.#addresses.waitMs(address))
  }

  async #wait(ms: number): Promise<void> {
    this.#waiting += 1
    await new Promise(resolve => setTimeout(resolve, ms))
    this.#waiting -= 1
  }
}

function remember(keys: Set<string>, key: string): void {
  keys.delete(key)
  keys.add(key)
  if (keys.size <= GUESSES_KEYS_MAX) return
  for (const oldest of keys) {
    keys.delete(oldest)
    return
  }
}

/** Equally long for every id. A slice would keep all of the request's text in memory. */
function digestOf(id: string): string {
  return createHash('sha256').update(id).digest('base64url')
}
