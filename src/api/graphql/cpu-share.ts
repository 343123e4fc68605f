/**
 * GraphQL's share of the CPU time of the main thread.
 *
 *   slice   work that runs without a break: at most GRAPHQL_SLICE_MS, or what cannot be divided
 *   share   the part of the time that all slices together may use, GRAPHQL_SHARE
 *   burst   what may be used at once before the share counts, GRAPHQL_BURST_MS
 *
 *   W-11  GraphQL runs on the main thread beside the acknowledged path, so its work is divided into
 *         slices. After a slice of 5 ms the main thread is free for as long. The slices of
 *         applications alternate.
 */

import { assert, must } from '../../util/assert.ts'
import { monotonicMs } from '../../util/clock.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import { GRAPHQL_APPLICATION_REQUESTS_MAX, GRAPHQL_REQUESTS_MAX } from '../../util/limits.ts'

export const GRAPHQL_SLICE_MS = 5
export const GRAPHQL_SHARE = 0.5
export const GRAPHQL_BURST_MS = 20

export class MainThreadShare {
  /** Has room for all requests, because each waits at most once at a time. */
  readonly #waiting = new FairQueue<() => void>(GRAPHQL_REQUESTS_MAX)
  /** Requests by application, those that wait for a query included: each has a slot. */
  readonly #underWay = new Map<string, number>()
  #allUnderWay = 0
  readonly #now: () => number
  /** Until this time the share of GraphQL is used up; monotonic ms. */
  #usedUntilMs = 0
  #isTimed = false

  constructor(now: () => number = monotonicMs) {
    this.#now = now
  }

  /** Waits for the first slice; false where too many requests are under way. leave() ends it. */
  async enter(application: string): Promise<boolean> {
    const own = this.#underWay.get(application) ?? 0
    if (own >= GRAPHQL_APPLICATION_REQUESTS_MAX || this.#allUnderWay >= GRAPHQL_REQUESTS_MAX) return false
    this.#underWay.set(application, own + 1)
    this.#allUnderWay += 1
    if (this.#waiting.size > 0 || this.#owedMs() > 0)
      await new Promise<void>(resolve => this.#wait(this.#waiting.tryPush(application, resolve)))
    return true
  }

  leave(application: string): void {
    const left = must(this.#underWay.get(application), 'a request enters before it leaves') - 1
    if (left > 0) this.#underWay.set(application, left)
    else this.#underWay.delete(application)
    this.#allUnderWay -= 1
  }

  /** Waits for a further slice, before requests that have not started. */
  next(application: string): Promise<void> {
    return new Promise(resolve => this.#wait(this.#waiting.tryPushFirst(application, resolve)))
  }

  #wait(isQueued: boolean): void {
    assert(isQueued, 'each request waits once, and enter() bounds them')
    this.#serve()
  }

  charge(ms: number): void {
    this.#usedUntilMs = Math.max(this.#usedUntilMs, this.#now() - ms) + ms / GRAPHQL_SHARE
  }

  /** Time until the next slice may start; negative or zero: it may start now. */
  #owedMs(): number {
    return this.#usedUntilMs - this.#now() - GRAPHQL_BURST_MS
  }

  /** Starts one slice a timer, because its cost must be known before the next timer is set. */
  #serve(): void {
    if (this.#isTimed || this.#waiting.size === 0) return
    this.#isTimed = true
    setTimeout(
      () => {
        this.#isTimed = false
        if (this.#owedMs() <= 0) this.#waiting.tryShift()?.()
        setImmediate(() => this.#serve())
      },
      Math.max(1, Math.ceil(this.#owedMs())),
    )
  }
}

export class Slices {
  readonly #share: MainThreadShare
  readonly #application: string
  readonly #now: () => number
  /** The begin of the current slice. It is undefined while no slice is measured. */
  #beganMs: number | undefined
  #nextSlice: Promise<void> | undefined
  #lists: Promise<void> = Promise.resolve()
  #ordered: Promise<unknown> = Promise.resolve()
  #orderedMs = 0

  constructor(share: MainThreadShare, application: string, now: () => number = monotonicMs) {
    this.#share = share
    this.#application = application
    this.#now = now
  }

  /** Called between two steps of a list. The promise of the next slice where this one is over. */
  step(): Promise<void> | undefined {
    if (this.#nextSlice !== undefined) return this.#nextSlice // all lists of a request wait together
    if (this.#beganMs === undefined) this.#beganMs = this.#now()
    if (this.#now() - this.#beganMs < GRAPHQL_SLICE_MS) return undefined
    this.end()
    this.#nextSlice = this.#share.next(this.#application).then(() => {
      this.#nextSlice = undefined
    })
    return this.#nextSlice
  }

  /** Waits for the request's earlier lists, and for a slice. */
  inListOrder(): Promise<void> {
    this.#lists = this.#lists.then(() => this.step())
    return this.#lists
  }

  /** Runs and charges the work after the request's earlier calls, and after a slice was used up. */
  inOrder<T>(work: () => T): Promise<T> {
    const done = this.#ordered.then(async () => {
      if (this.#orderedMs >= GRAPHQL_SLICE_MS) {
        this.#orderedMs = 0
        await this.#share.next(this.#application)
      }
      const beganMs = this.#now()
      try {
        return this.whole(work)
      } finally {
        this.#orderedMs += this.#now() - beganMs
      }
    })
    this.#ordered = done.catch(() => {}) // the caller gets the error
    return done
  }

  /** Runs and charges work that cannot be divided, as one slice. */
  whole<T>(work: () => T): T {
    this.end()
    this.#beganMs = this.#now()
    try {
      return work()
    } finally {
      this.end()
    }
  }

  end(): void {
    if (this.#beganMs === undefined) return
    this.#share.charge(this.#now() - this.#beganMs)
    this.#beganMs = undefined
  }
}

/** As promises, each of which resolves after the item before it without that item's long lists. */
export async function inSlices<T>(items: readonly T[], slices: Slices): Promise<readonly Promise<T>[]> {
  await slices.inListOrder()
  let before: Promise<unknown> = Promise.resolve()
  return items.map(item => {
    // A turn of the microtasks lets graphql complete the item before, even if the slice goes on.
    const next = before.then(() => slices.step()).then(() => item)
    before = next
    return next
  })
}
