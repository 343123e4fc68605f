/**
 * GraphQL's share of the main thread.
 *
 *   W-11  GraphQL runs on the main thread beside the acknowledged path, so its work is divided into
 *         slices. A slice starts when the slices before it have been paid back: after 5 ms of work
 *         the main thread is free for as long. Applications take turns.
 */

import { assert, must } from '../../util/assert.ts'
import { monotonicMs } from '../../util/clock.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import { GRAPHQL_APPLICATION_REQUESTS_MAX, GRAPHQL_REQUESTS_MAX } from '../../util/limits.ts'

/** Time after which GraphQL pauses inside a list, so that other work gets a turn. */
export const GRAPHQL_SLICE_MS = 5
/** Share of the main thread that GraphQL may take over time. */
export const GRAPHQL_SHARE = 0.5
/**
 * Time that GraphQL may use before its share counts, so that the requests of one page do not wait.
 */
export const GRAPHQL_CREDIT_MS = 20

/** The share of all requests together. */
export class MainThreadShare {
  /** Has room for all requests, because each waits at most once at a time. */
  readonly #waiting = new FairQueue<() => void>(GRAPHQL_REQUESTS_MAX)
  /**
   * Requests between enter() and leave(), by application. Requests that wait for a query count too,
   * because each takes one of the places for control requests.
   */
  readonly #underWay = new Map<string, number>()
  #allUnderWay = 0
  readonly #now: () => number
  /** Until this time the share of GraphQL is used up; monotonic ms. */
  #paidMs = 0
  #isTimed = false

  constructor(now: () => number = monotonicMs) {
    this.#now = now
  }

  /**
   * Waits for a request's first slice; leave() ends the request. False: the application, or all
   * together, have too many requests under way.
   */
  async enter(application: string): Promise<boolean> {
    const own = this.#underWay.get(application) ?? 0
    if (own >= GRAPHQL_APPLICATION_REQUESTS_MAX || this.#allUnderWay >= GRAPHQL_REQUESTS_MAX) return false
    this.#underWay.set(application, own + 1)
    this.#allUnderWay += 1
    if (!this.#isFree())
      await new Promise<void>(resolve => this.#wait(this.#waiting.tryPush(application, resolve)))
    return true
  }

  /** Ends a request for which enter() resolved to true. */
  leave(application: string): void {
    const left = must(this.#underWay.get(application), 'a request enters before it leaves') - 1
    if (left > 0) this.#underWay.set(application, left)
    else this.#underWay.delete(application)
    this.#allUnderWay -= 1
  }

  /**
   * Waits for a further slice. It goes before the application's requests that have not started, so
   * that few unfinished answers are in memory.
   */
  next(application: string): Promise<void> {
    return new Promise(resolve => this.#wait(this.#waiting.tryPushFirst(application, resolve)))
  }

  #wait(isQueued: boolean): void {
    assert(isQueued, 'each request waits once, and enter() bounds them')
    this.#serve()
  }

  /** Charges `ms` of the main thread. */
  spend(ms: number): void {
    this.#paidMs = Math.max(this.#paidMs, this.#now() - ms) + ms / GRAPHQL_SHARE
  }

  #isFree(): boolean {
    return this.#waiting.size === 0 && this.#owedMs() <= 0
  }

  /** Time until the next slice may start; negative or zero: it may start now. */
  #owedMs(): number {
    return this.#paidMs - this.#now() - GRAPHQL_CREDIT_MS
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

/** One request's slices. */
export class Slices {
  readonly #share: MainThreadShare
  readonly #application: string
  readonly #now: () => number
  /** The begin of the current slice; undefined: none is measured. */
  #beganMs: number | undefined
  #pause: Promise<void> | undefined
  #turns: Promise<void> = Promise.resolve()
  #pieces: Promise<unknown> = Promise.resolve()
  /** Time of the pieces since the last one that waited for a slice. */
  #piecesMs = 0

  constructor(share: MainThreadShare, application: string, now: () => number = monotonicMs) {
    this.#share = share
    this.#application = application
    this.#now = now
  }

  /**
   * Called between two pieces of work. undefined: go on. A promise: the slice is over, wait for the
   * next one.
   */
  step(): Promise<void> | undefined {
    if (this.#pause !== undefined) return this.#pause // all lists of a request wait together
    if (this.#beganMs === undefined) this.#beganMs = this.#now()
    if (this.#now() - this.#beganMs < GRAPHQL_SLICE_MS) return undefined
    this.rest()
    this.#pause = this.#share.next(this.#application).then(() => {
      this.#pause = undefined
    })
    return this.#pause
  }

  /** Waits for the request's earlier lists, and for a slice. */
  turn(): Promise<void> {
    this.#turns = this.#turns.then(() => this.step())
    return this.#turns
  }

  /**
   * Waits for the request's earlier pieces, and for a slice where they took one; then runs and
   * charges a piece of work. What a piece waits for before and after is not charged.
   */
  inTurn<T>(work: () => T): Promise<T> {
    const done = this.#pieces.then(async () => {
      if (this.#piecesMs >= GRAPHQL_SLICE_MS) {
        this.#piecesMs = 0
        await this.#share.next(this.#application)
      }
      const beganMs = this.#now()
      try {
        return this.whole(work)
      } finally {
        this.#piecesMs += this.#now() - beganMs
      }
    })
    this.#pieces = done.catch(() => {}) // the caller gets the error
    return done
  }

  /** Runs and charges a piece of work that cannot be divided. */
  whole<T>(work: () => T): T {
    this.rest()
    this.#beganMs = this.#now()
    try {
      return work()
    } finally {
      this.rest()
    }
  }

  /** Ends and charges the current slice. */
  rest(): void {
    if (this.#beganMs === undefined) return
    this.#share.spend(this.#now() - this.#beganMs)
    this.#beganMs = undefined
  }
}

/**
 * The list, when its turn comes, so that the lists of a request are completed one after another.
 */
export async function later<T>(items: readonly T[], slices: Slices): Promise<readonly T[]> {
  await slices.turn()
  return items
}

/**
 * As `later`, for a long list: each item is a promise that resolves when the item before it is
 * completed, except for that item's own long lists.
 */
export async function inSlices<T>(items: readonly T[], slices: Slices): Promise<readonly Promise<T>[]> {
  await slices.turn()
  const resolvers: ((item: T) => void)[] = []
  const promises = items.map(
    () =>
      new Promise<T>(resolve => {
        resolvers.push(resolve)
      }),
  )
  void resolveInSlices(items, resolvers, slices)
  return promises
}

async function resolveInSlices<T>(
  items: readonly T[],
  resolvers: readonly ((item: T) => void)[],
  slices: Slices,
): Promise<void> {
  for (const [index, resolve] of resolvers.entries()) {
    // The await lets graphql complete the item before, even if the slice goes on.
    await slices.step()
    resolve(items[index]!)
  }
}
