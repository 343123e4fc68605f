/**
 * The configured limit of events a second, per pool: a token bucket that holds one second's worth.
 *
 * How many events a body holds is known only after it was cut, so a request is let in while the bucket is not
 * empty and pays afterwards; the debt delays the next one.
 */
import { RATE_BUCKETS_MAX } from '../limits.ts'
import { monotonicMs } from '../util/clock.ts'

interface Bucket {
  tokens: number
  atMs: number
}

export class RateLimit {
  readonly #perSecond: number
  readonly #now: () => number
  readonly #buckets = new Map<number, Bucket>()

  /** @param perSecond events; 0: no limit */
  constructor(perSecond: number, now: () => number = monotonicMs) {
    this.#perSecond = perSecond
    this.#now = now
  }

  /** 0: come in. Else the seconds after which a retry may succeed. */
  retryAfterSeconds(pool: number): number {
    if (this.#perSecond === 0) return 0
    const bucket = this.#fill(pool)
    if (bucket.tokens > 0) return 0
    return Math.max(1, Math.ceil((1 - bucket.tokens) / this.#perSecond))
  }

  /** Takes the events of a request that was let in. */
  pay(pool: number, events: number): void {
    if (this.#perSecond > 0 && events > 0) this.#fill(pool).tokens -= events
  }

  #fill(pool: number): Bucket {
    const now = this.#now()
    let bucket = this.#buckets.get(pool)
    if (bucket === undefined) {
      if (this.#buckets.size >= RATE_BUCKETS_MAX) this.#forgetFull(now)
      bucket = { tokens: this.#perSecond, atMs: now }
      this.#buckets.set(pool, bucket)
    }
    this.#refill(bucket, now)
    return bucket
  }

  #refill(bucket: Bucket, now: number): void {
    bucket.tokens = Math.min(this.#perSecond, bucket.tokens + ((now - bucket.atMs) * this.#perSecond) / 1000)
    bucket.atMs = now
  }

  /** A full bucket is the same as none. */
  #forgetFull(now: number): void {
    for (const [pool, bucket] of this.#buckets) {
      this.#refill(bucket, now)
      if (bucket.tokens >= this.#perSecond) this.#buckets.delete(pool)
    }
  }
}
