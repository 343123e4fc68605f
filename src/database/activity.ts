/**
 * What comes in, for people who look: events accepted and rejected a second in the last five
 * minutes, and by pool since the start. Metrics count the same for machines (metrics.ts).
 *
 *   W-11  A request costs one lookup. Nothing runs while nobody asks.
 */

import { monotonicMs, wallMs } from '../util/clock.ts'
import { getOrMake } from '../util/get-or-make.ts'

/** Seconds that are kept: a chart shows five minutes. */
const ACTIVITY_SECONDS = 300

interface PoolActivity {
  readonly poolId: string
  accepted: number
  rejected: number
  /** Wall clock of the last request with an accepted event; undefined before it. */
  acceptedAtMs: number | undefined
}

/** What happened in one second. `second` counts from the start of the process. */
interface Second {
  second: number
  accepted: number
  rejected: number
  syncs: number
  syncMs: number
}

/** Seconds over which the time of a sync is averaged. */
const SYNC_SECONDS = 10

export class Activity {
  readonly startedAtMs = wallMs()
  accepted = 0
  rejected = 0
  readonly #pools = new Map<string, PoolActivity>()
  readonly #seconds: Second[] = Array.from({ length: ACTIVITY_SECONDS }, () => newSecond(-1))

  /** Counts the events of one answered request. */
  add(poolId: string, accepted: number, rejected: number): void {
    const pool = getOrMake(this.#pools, poolId, () => {
      return { poolId, accepted: 0, rejected: 0, acceptedAtMs: undefined }
    })
    pool.accepted += accepted
    pool.rejected += rejected
    if (accepted > 0) pool.acceptedAtMs = wallMs()
    this.accepted += accepted
    this.rejected += rejected
    const second = this.#second()
    second.accepted += accepted
    second.rejected += rejected
  }

  /** Counts a group of requests that took `ms` to be written and synced. */
  sync(ms: number): void {
    const second = this.#second()
    second.syncs += 1
    second.syncMs += ms
  }

  /** The mean of the last ten seconds; undefined where nothing was synced. */
  syncMs(): number | undefined {
    const since = this.#now() - SYNC_SECONDS
    const recent = this.#seconds.filter(one => one.second > since)
    const syncs = recent.reduce((sum, one) => sum + one.syncs, 0)
    return syncs === 0 ? undefined : recent.reduce((sum, one) => sum + one.syncMs, 0) / syncs
  }

  forget(poolId: string): void {
    this.#pools.delete(poolId)
  }

  of(poolId: string): PoolActivity | undefined {
    return this.#pools.get(poolId)
  }

  /** The pools with the most events since the start, accepted and rejected together. */
  busiest(count: number): PoolActivity[] {
    const events = ({ accepted, rejected }: PoolActivity) => accepted + rejected
    const busiest: PoolActivity[] = []
    // Most of thousands of pools are below the last of a few, which is one comparison.
    for (const pool of this.#pools.values()) {
      const last = busiest.at(-1)
      if (busiest.length >= count && (last === undefined || events(pool) <= events(last))) continue
      const at = busiest.findIndex(one => events(one) < events(pool))
      busiest.splice(at === -1 ? busiest.length : at, 0, pool)
      if (busiest.length > count) busiest.pop()
    }
    return busiest
  }

  /** Events of the last whole seconds, the oldest first, one number a second. */
  seconds(): { readonly accepted: number[]; readonly rejected: number[] } {
    const now = this.#now()
    const accepted: number[] = []
    const rejected: number[] = []
    for (let second = Math.max(0, now - ACTIVITY_SECONDS + 1); second < now; second += 1) {
      const slot = this.#seconds[second % ACTIVITY_SECONDS]!
      const isKept = slot.second === second
      accepted.push(isKept ? slot.accepted : 0)
      rejected.push(isKept ? slot.rejected : 0)
    }
    return { accepted, rejected }
  }

  #second(): Second {
    const now = this.#now()
    const at = now % ACTIVITY_SECONDS
    const known = this.#seconds[at]!
    if (known.second === now) return known
    const second = newSecond(now)
    this.#seconds[at] = second
    return second
  }

  #now(): number {
    return Math.floor(monotonicMs() / 1000)
  }
}

function newSecond(second: number): Second {
  return { second, accepted: 0, rejected: 0, syncs: 0, syncMs: 0 }
}
