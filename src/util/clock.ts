/** Clocks, received-at of requests, timers and timeouts. */
import { assert } from './assert.ts'

/** Wall clock in whole milliseconds, UTC. Only for times that people read. */
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

/** Monotonic time and Node's timers, or those that a test moves. */
export interface Clock {
  readonly nowMs: () => number
  readonly after: typeof callAfter
}

export const realClock: Clock = { nowMs: monotonicMs, after: callAfter }

/** A `number` holds every microsecond up to 2^53 (the year 2255). A clock stops before. */
const WALL_US_MAX = Date.UTC(2240, 0) * 1000

/**
 * Wall clock in microseconds that never gives a value twice. Where it is asked too fast or the wall
 * clock is set back, it runs ahead by one microsecond per value.
 */
export class RisingClock {
  #lastUs = 0
  #shared: SharedArrayBuffer | undefined

  /** A value above all before. Of a shared clock: the wall clock, from which threads reserve. */
  next(): number {
    const wallUs = Math.min(1000 * wallMs(), WALL_US_MAX)
    if (this.#shared !== undefined) return wallUs
    this.#lastUs = Math.max(this.#lastUs + 1, wallUs)
    return this.#lastUs
  }

  /** A value that no other one of this clock equals, also where it is shared. */
  unique(): number {
    return this.#shared === undefined ? this.next() : reserveUs(this.#shared, this.next(), 1)
  }

  /** Makes the next value larger than `us`. Called before the clock is shared. */
  raise(us: number): void {
    assert(this.#shared === undefined, 'a clock is raised before it is shared')
    this.#lastUs = Math.max(this.#lastUs, us)
  }

  /** Moves the clock to memory in which other threads reserve values with `reserveUs`. */
  share(): SharedArrayBuffer {
    if (this.#shared !== undefined) return this.#shared
    this.#shared = new SharedArrayBuffer(8)
    new BigInt64Array(this.#shared)[0] = BigInt(this.#lastUs)
    return this.#shared
  }
}

/**
 * Reserves `count` values of a shared clock, one microsecond apart. They are above all values that
 * were reserved before, and at or above `fromUs`. Any thread may call it.
 * @returns the first value
 */
export function reserveUs(clock: SharedArrayBuffer, fromUs: number, count: number): number {
  const last = new BigInt64Array(clock)
  // A round is repeated only when another thread has reserved values meanwhile.
  for (;;) {
    const lastUs = Atomics.load(last, 0)
    const firstUs = Math.max(Number(lastUs) + 1, fromUs)
    const reserved = BigInt(firstUs + count - 1)
    if (Atomics.compareExchange(last, 0, lastUs, reserved) === lastUs) return firstUs
  }
}

/**
 * Received-at of each pool's requests: it rises strictly, also across restarts and when the wall
 * clock is set back. In a pool whose key holds received-at, it rises with each event.
 *
 * Otherwise two events with one unique id could share a key in a pool without a timestamp column,
 * and one of them would vanish. A start raises each clock above the pool's segments and above each
 * replayed event.
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

/** True when `work` resolves in time; false when it rejects or `msMax` passes first. */
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
