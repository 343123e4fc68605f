/**
 * Time: the wall clock for people, the monotonic clock for durations, received-at of requests,
 * timers and timeouts.
 */

/**
 * Wall clock in whole milliseconds, UTC. Only for times that people read (received-at, creation
 * dates).
 */
export function wallMs(): number {
  return Date.now()
}

/** Monotonic milliseconds, for timeouts, ages, rates and durations. */
export function monotonicMs(): number {
  return performance.now()
}

/** Calls `call` once, `ms` later. The returned function cancels it. */
export function callAfter(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms)
  return () => clearTimeout(timer)
}

/**
 * A `number` holds every microsecond up to 2^53 (the year 2255). A rising clock stops following the
 * wall clock before.
 */
const WALL_US_MAX = Date.UTC(2240, 0) * 1000

/**
 * Wall clock in microseconds that never gives a value twice. When it is asked faster than once per
 * microsecond, or the wall clock is set back, it runs ahead of the wall clock by one microsecond
 * per value.
 */
export class RisingClock {
  #lastUs = 0

  /** A value above every value that was given or raised to before. */
  next(): number {
    this.#lastUs = Math.max(this.#lastUs + 1, Math.min(1000 * wallMs(), WALL_US_MAX))
    return this.#lastUs
  }

  /** Makes the next value larger than `us`. */
  raise(us: number): void {
    this.#lastUs = Math.max(this.#lastUs, us)
  }
}

/**
 * Received-at of each pool's requests: it rises strictly, also across restarts and when the wall
 * clock is set back.
 *
 * Otherwise two requests with one unique id could share a key in a pool without a timestamp column,
 * and one of them would vanish. A start raises each clock above the pool's segments and above each
 * replayed request.
 */
export class ReceivedClocks {
  readonly #clocks = new Map<number, RisingClock>()

  /** The clock of a pool, by the pool's number. */
  of(pool: number): RisingClock {
    let clock = this.#clocks.get(pool)
    if (clock === undefined) {
      clock = new RisingClock()
      this.#clocks.set(pool, clock)
    }
    return clock
  }

  /** Forgets a deleted pool. Pool numbers are never used again. */
  drop(pool: number): void {
    this.#clocks.delete(pool)
  }
}

/**
 * True when `work` resolves in time; false when it rejects or the timeout of `msMax` passes first.
 */
export async function resolvesWithin(msMax: number, work: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<boolean>(resolve => {
    timer = setTimeout(() => resolve(false), msMax)
  })
  const done = work.then(
    () => true,
    () => false,
  )
  const inTime = await Promise.race([done, timeout])
  clearTimeout(timer)
  return inTime
}
