/** Clocks, received-at of requests, timers and timeouts. */

import { assert } from './errors.ts'
import { getOrMake } from './get-or-make.ts'

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
 * The values of a clock that are this process's own among several: those that leave the rest `slot`
 * when they are divided by the step.
 */
export interface ClockSlot {
  readonly stepUs: number
  /** Asked for each value: a node of a cluster has another slot in another session. */
  slot(): number
}

const EVERY_US: ClockSlot = { stepUs: 1, slot: () => 0 }

/**
 * Wall clock in microseconds that never gives a value twice. Where it is asked too fast or the wall
 * clock is set back, it runs ahead by one step per value.
 */
export class RisingClock {
  #lastUs = 0
  #shared: SharedArrayBuffer | undefined
  readonly #own: ClockSlot

  constructor(own = EVERY_US) {
    this.#own = own
  }

  /**
   * A value above all before. Of a shared clock: the wall clock, from which threads reserve. It
   * tells them the slot.
   */
  next(): number {
    const { stepUs } = this.#own
    const wallUs = Math.min(1000 * wallMs(), WALL_US_MAX)
    const slotUs = wallUs - (wallUs % stepUs) + this.#own.slot()
    const ownUs = slotUs < wallUs ? slotUs + stepUs : slotUs
    if (this.#shared !== undefined) return ownUs
    this.#lastUs = above(this.#lastUs, ownUs, stepUs)
    return this.#lastUs
  }

  /** Reserves a value; of a shared clock `count`, one step apart. Returns the first. */
  reserve(count: number): number {
    return this.#shared === undefined ? this.next() : reserveUs(this.#shared, this.next(), count)
  }

  /** Makes the next value larger than `us`. Called before the clock is shared. */
  raise(us: number): void {
    assert(this.#shared === undefined, 'a clock is raised before it is shared')
    this.#lastUs = Math.max(this.#lastUs, us)
  }

  /** Moves the clock to memory in which other threads reserve values with `reserveUs`. */
  share(): SharedArrayBuffer {
    if (this.#shared !== undefined) return this.#shared
    // The last value, then the step.
    this.#shared = new SharedArrayBuffer(16)
    new BigInt64Array(this.#shared).set([BigInt(this.#lastUs), BigInt(this.#own.stepUs)])
    return this.#shared
  }
}

/** `fromUs`, or the first value above `lastUs` that is whole steps later. */
function above(lastUs: number, fromUs: number, stepUs: number): number {
  if (fromUs > lastUs) return fromUs
  return fromUs + stepUs * (Math.floor((lastUs - fromUs) / stepUs) + 1)
}

/** Microseconds between the values that one call of `reserveUs` reserves. */
export function stepUsOf(clock: SharedArrayBuffer): number {
  return Number(new BigInt64Array(clock)[1])
}

/**
 * Reserves `count` values of a shared clock, one step apart. They are above all values that were
 * reserved before, and at or whole steps above `fromUs`, which next() gave. Any thread may call it.
 * @returns the first value
 */
export function reserveUs(clock: SharedArrayBuffer, fromUs: number, count: number): number {
  const last = new BigInt64Array(clock)
  const stepUs = stepUsOf(clock)
  // A round is repeated only when another thread has reserved values meanwhile.
  for (;;) {
    const lastUs = Atomics.load(last, 0)
    const firstUs = above(Number(lastUs), fromUs, stepUs)
    const reserved = BigInt(firstUs + (count - 1) * stepUs)
    if (Atomics.compareExchange(last, 0, lastUs, reserved) === lastUs) return firstUs
  }
}

/**
 * Received-at of each pool's requests: it rises strictly, also across restarts and when the wall
 * clock is set back. In a pool whose key holds received-at, it rises with each event.
 *
 * Otherwise two events with one unique id could share a key in a pool without a timestamp column,
 * and one of them would vanish. A start raises each clock above the pool's segments and above each
 * replayed event. Nodes of a cluster have values of their slots: these are unique over all nodes,
 * and rise on each.
 */
export class ReceivedClocks {
  readonly #clocks = new Map<number, RisingClock>()
  readonly #own: ClockSlot | undefined

  constructor(own?: ClockSlot) {
    this.#own = own
  }

  /** The clock of a pool, by the pool's number. */
  of(pool: number): RisingClock {
    return getOrMake(this.#clocks, pool, () => new RisingClock(this.#own))
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
