/**
 * GraphQL's share of the time of the main thread.
 *
 *   slice   work that runs without a break: at most GRAPHQL_SLICE_MS, or what cannot be divided
 *   share   the part of the time that all slices together may use, GRAPHQL_SHARE
 *   burst   what may be used at once before the share counts, GRAPHQL_BURST_MS
 *
 *   W-11  GraphQL runs on the main thread beside the acknowledged path, so its work is divided into
 *         slices. After a slice of 5 ms the main thread is free for as long. The next slice goes to
 *         the application that used least of the share.
 *
 * A request is charged for the time that the main thread works for it, and never for what it waits
 * for: its time ends when the turn of the event loop in which it works does. A request that changes
 * nothing gets no further slice once its client has gone, and its lists are never completed.
 */

import { monotonicMs } from '../../util/clock.ts'
import { CLIENT_GONE, must } from '../../util/errors.ts'

/** Time for which a GraphQL request waits for its first slice; then it is 429. */
const GRAPHQL_WAIT_MS_MAX = 10_000
export const GRAPHQL_SLICE_MS = 5
export const GRAPHQL_SHARE = 0.5
export const GRAPHQL_BURST_MS = 20

/** The requests of an application that wait for a slice. Each waits at most once at a time. */
interface Line {
  /** They go before those that have not started, which hold less memory. */
  readonly started: (() => void)[]
  readonly fresh: (() => void)[]
}

export class MainThreadShare {
  /** By application; the one that was served last is the last. */
  readonly #lines = new Map<string, Line>()
  readonly #now: () => number
  readonly #waitMsMax: number
  /** Until this time the share of GraphQL is used up; monotonic ms. */
  #usedUntilMs = 0
  /** Until this time work was charged: none is charged twice. */
  #chargedUntilMs = 0
  /** What each application used while the share was never free, in ms (start-time fair queuing). */
  readonly #usedMs = new Map<string, number>()
  /** What the application that was served last had used: one that comes later begins with it. */
  #servedAtMs = 0
  #isTimed = false

  constructor(now: () => number = monotonicMs, waitMsMax = GRAPHQL_WAIT_MS_MAX) {
    this.#now = now
    this.#waitMsMax = waitMsMax
  }

  /** Waits for the first slice of a request; false where that takes long, or its client goes. */
  async enter(application: string, gone?: AbortSignal): Promise<boolean> {
    if (gone?.aborted === true) return false
    if (this.#lines.size === 0 && !this.#isTimed && this.owedMs() <= 0) {
      // The next one begins in another turn of the loop: 16 in one held it for 0.47 s.
      this.#serveLater()
      return true
    }
    return await new Promise(resolve => {
      const end = (isIn: boolean) => {
        clearTimeout(timer)
        gone?.removeEventListener('abort', giveUp)
        resolve(isIn)
      }
      const begin = () => end(true)
      const giveUp = () => {
        this.#forget(application, begin)
        end(false)
      }
      const timer = setTimeout(giveUp, this.#waitMsMax)
      gone?.addEventListener('abort', giveUp)
      this.#wait(application, 'fresh', begin)
    })
  }

  /** Waits for a further slice, before the requests of the application that have not started. */
  next(application: string): Promise<void> {
    return new Promise(resolve => this.#wait(application, 'started', resolve))
  }

  #wait(application: string, as: keyof Line, begin: () => void): void {
    const line = this.#lines.get(application) ?? { started: [], fresh: [] }
    line[as].push(begin)
    this.#lines.set(application, line)
    this.#serve()
  }

  /** Charges an application for work from `beganMs` until now, and returns its ms. */
  charge(application: string, beganMs: number): number {
    const nowMs = this.#now()
    const ms = nowMs - Math.max(beganMs, this.#chargedUntilMs)
    this.#chargedUntilMs = nowMs
    if (this.#usedUntilMs <= nowMs - ms) {
      this.#usedMs.clear() // all was paid back
      this.#servedAtMs = 0
    }
    this.#usedMs.set(application, this.#usedBy(application) + ms)
    this.#usedUntilMs = Math.max(this.#usedUntilMs, nowMs - ms) + ms / GRAPHQL_SHARE
    return ms
  }

  /** Time until the next slice may start; negative or zero: it may start now. */
  owedMs(): number {
    return this.#usedUntilMs - this.#now() - GRAPHQL_BURST_MS
  }

  /** Starts one slice at a time, because its cost must be known before the next one starts. */
  #serve(): void {
    if (this.#isTimed || this.#lines.size === 0) return
    this.#serveLater()
  }

  #serveLater(): void {
    this.#isTimed = true
    const serve = () => {
      if (this.owedMs() <= 0 && this.#lines.size > 0) {
        this.#begin()
        this.#serveLater()
        return
      }
      this.#isTimed = false
      this.#serve()
    }
    const owedMs = this.owedMs()
    if (owedMs > 0) setTimeout(serve, Math.ceil(owedMs))
    else setImmediate(serve)
  }

  /** Begins a slice of the application that used least; of equals the one served longest ago. */
  #begin(): void {
    let least: string | undefined
    for (const application of this.#lines.keys())
      if (least === undefined || this.#usedBy(application) < this.#usedBy(least)) least = application
    const application = must(least, 'an application that waits')
    this.#servedAtMs = this.#usedBy(application)
    const line = must(this.#lines.get(application), 'its line')
    const begin = line.started.shift() ?? must(line.fresh.shift(), 'a request of a line')
    this.#lines.delete(application)
    if (line.started.length + line.fresh.length > 0) this.#lines.set(application, line)
    begin()
  }

  #forget(application: string, begin: () => void): void {
    const line = must(this.#lines.get(application), 'the line of a request that waits')
    line.fresh.splice(line.fresh.indexOf(begin), 1)
    if (line.started.length + line.fresh.length === 0) this.#lines.delete(application)
  }

  #usedBy(application: string): number {
    return Math.max(this.#usedMs.get(application) ?? 0, this.#servedAtMs)
  }
}

export class Slices {
  readonly #share: MainThreadShare
  readonly #application: string
  readonly #now: () => number
  /** The begin of work that is not charged yet. It is undefined while the request waits. */
  #beganMs: number | undefined
  /** What was charged since the last turn. */
  #usedMs = 0
  #nextSlice: Promise<void> | undefined
  #lists: Promise<void> = Promise.resolve()
  #ordered: Promise<unknown> = Promise.resolve()
  #gone: AbortSignal | undefined
  /** One for each request, because a promise that lives keeps all who wait for it. */
  readonly #never = new Promise<never>(() => {})

  constructor(share: MainThreadShare, application: string, now: () => number = monotonicMs) {
    this.#share = share
    this.#application = application
    this.#now = now
  }

  /** From now on no slice begins after `gone` is aborted. Not for what makes changes. */
  endWith(gone: AbortSignal | undefined): void {
    this.#gone = gone
  }

  /** Settles as `work` does. Rejects with Unavailable once the client of a question has gone. */
  async untilGone<T>(work: T | Promise<T>): Promise<T> {
    const gone = this.#gone
    if (gone === undefined) return await work
    return await new Promise<T>((resolve, reject) => {
      const giveUp = () => reject(CLIENT_GONE())
      gone.addEventListener('abort', giveUp)
      if (gone.aborted) giveUp()
      const whole = Promise.resolve(work).then(resolve, reject)
      void whole.finally(() => gone.removeEventListener('abort', giveUp))
    })
  }

  /**
   * Called before a question. The promise of the next slice where this one is over. It rejects with
   * Unavailable where the client of a question has gone.
   */
  step(): Promise<void> | undefined {
    if (this.#gone?.aborted === true) return Promise.reject(CLIENT_GONE())
    if (this.#nextSlice !== undefined) return this.#nextSlice // all lists of a request wait together
    const beganMs = this.#begin()
    if (this.#usedMs + this.#now() - beganMs < GRAPHQL_SLICE_MS) return undefined
    this.#nextSlice = this.#share.next(this.#application).then(() => {
      this.#usedMs = 0
      this.#nextSlice = undefined
      return this.#gone?.aborted === true ? this.step() : undefined
    })
    return this.#nextSlice
  }

  /**
   * The same between two items of a list. Once the client has gone the promise stays as it is:
   * each of 20,000 items failed before, which took longer than to complete them.
   */
  itemStep(): Promise<void> | undefined {
    if (this.#gone?.aborted === true) return this.#never
    return this.step()?.catch(() => this.#never)
  }

  /** Waits for the request's earlier lists, and for a slice. */
  inListOrder(): Promise<void> {
    this.#lists = this.#lists.then(() => this.itemStep())
    return this.#lists
  }

  /** Runs and charges the work after the request's earlier calls, and after a slice was used up. */
  inOrder<T>(work: () => T): Promise<T> {
    const done = this.#ordered.then(async () => {
      await this.step()
      return this.whole(work)
    })
    this.#ordered = done.catch(() => {}) // the caller gets the error
    return done
  }

  /** Runs and charges work that cannot be divided. */
  whole<T>(work: () => T): T {
    this.#begin()
    try {
      return work()
    } finally {
      this.#charge()
      this.#begin() // of what follows in this turn of the loop
    }
  }

  /** Work lasts until the microtasks are done: then the request waits for something. */
  #begin(): number {
    if (this.#beganMs === undefined) {
      this.#beganMs = this.#now()
      process.nextTick(() => this.#charge())
    }
    return this.#beganMs
  }

  #charge(): void {
    if (this.#beganMs === undefined) return
    this.#usedMs += this.#share.charge(this.#application, this.#beganMs)
    this.#beganMs = undefined
  }
}

/** As promises, each of which resolves after the item before it without that item's long lists. */
export async function inSlices<T>(items: readonly T[], slices: Slices): Promise<readonly Promise<T>[]> {
  await slices.inListOrder()
  let before: Promise<unknown> = Promise.resolve()
  return items.map(item => {
    // A turn of the microtasks lets graphql complete the item before, even if the slice goes on.
    const next = before.then(() => slices.itemStep()).then(() => item)
    before = next.catch(() => {}) // an item that fails is no reason for the next one to fail
    return next
  })
}
