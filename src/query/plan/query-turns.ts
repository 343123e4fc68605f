/**
 * The turns of queries: a fair queue before the slots in which an engine runs them.
 * Both engines have one: duckdb/engine-lane.ts and clickhouse/engine.ts.
 *
 *   add ──► waits, in turn by application ──► start, in a slot ──► end
 *
 *   slots         `runningMax`, for queries of any length
 *   short slot    one more, open while all that run have run for QUERY_SHORT_MS. A query that takes
 *                 as long in it is interrupted, and waits for one of the other slots, in its turn.
 *   long copies   take all slots but one, and never the short slot
 *
 * Nobody knows before how long a query takes. So a short one waits for at most QUERY_SHORT_MS until
 * the short slot is open, and as long for each application before it (docs/decisions/0093).
 *
 * An application that runs nothing goes before one that runs something. One of which no further
 * query may run keeps its place in the queue; the others go on.
 *
 *   W-9  The engine lets no query in whose application has used up its share of
 *        QUERIES_WAITING_BYTES_MAX (waitingBytes).
 */

import { monotonicMs } from '../../util/clock.ts'
import { type Moves, moved, Unavailable } from '../../util/errors.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import { QUERY_SHORT_MS, QUERY_WAITING_BYTES_MIN } from '../../util/limits.ts'
import type { Statement } from './plan.ts'
import type { QueryTask } from './query-task.ts'

/** `out`: it neither waits nor runs. Lanes share the word: a query is in one of them. */
type State = 'out' | 'waits' | 'runs'

const LIFE: Moves<State> = { out: ['waits', 'runs'], waits: ['runs', 'out'], runs: ['out'] }

/** A query that waits or runs. */
export interface TurnTaker {
  readonly task: Pick<QueryTask, 'isOfJob'> & { readonly copyTo?: { readonly msMax?: number } }
  readonly fairKey: string
  readonly reject: (error: Error) => void
  /** Its begin is `out`. */
  state: State
  /** When it began to wait, and the timer that ends that. Undefined if it does not wait. */
  wait: { readonly sinceMs: number; readonly timer: NodeJS.Timeout | undefined } | undefined
  /** It was interrupted in the short slot, and is to begin again. */
  isSlow: boolean
}

export interface TurnOptions<Query> {
  readonly runningMax: number
  readonly hasShortSlot: boolean
  /** Only tests set it. Its default is QUERY_SHORT_MS. */
  readonly shortMs?: number | undefined
  readonly waitMsMax: number
  readonly queriesMaxOf: (fairKey: string) => number
  /** False while no query can run: all wait. */
  readonly isOpen: () => boolean
  /** Runs a query, and calls `end` and `startWaiting` when it has ended. */
  readonly start: (query: Query) => void
  /** Interrupts a query, which is slow. It may be called again while the query does not end. */
  readonly interrupt: (query: Query) => void
  /** A query of an application has waited this long for its turn, or in vain. */
  readonly onWaited: (fairKey: string, ms: number) => void
}

interface Run {
  readonly timer: NodeJS.Timeout
  isOld: boolean
  isInShortSlot: boolean
}

export class QueryTurns<Query extends TurnTaker> {
  readonly #options: TurnOptions<Query>
  /** Queries that run again: they have waited for their turn. */
  readonly #again: Query[] = []
  readonly #waiting = new FairQueue<Query>()
  readonly #running = new Map<Query, Run>()
  #ended: Unavailable | undefined

  constructor(options: TurnOptions<Query>) {
    this.#options = options
  }

  get running(): number {
    return this.#running.size
  }

  get waiting(): number {
    return this.#again.length + this.#waiting.size
  }

  /** The number of waiting queries of each application that has one. */
  waitingOf(): Map<string, number> {
    const all = new Map<string, number>()
    const add = (fairKey: string, queries: number) => all.set(fairKey, (all.get(fairKey) ?? 0) + queries)
    for (const { fairKey } of this.#again) add(fairKey, 1)
    for (const [key, queries] of this.#waiting.sizes()) add(key.replace(LONG, ''), queries)
    return all
  }

  /** Starts the query, or lets it wait for its turn. Rejects it with Unavailable. */
  add(query: Query): void {
    if (this.#ended !== undefined) query.reject(this.#ended)
    else if (this.#mayRun(query)) this.#start(query)
    else {
      this.#beginWait(query)
      this.#waiting.push(queueKey(query), query)
    }
  }

  /** The same before all queries that wait: it has had its turn. */
  addAgain(query: Query): void {
    if (this.#ended !== undefined) {
      query.reject(this.#ended)
      return
    }
    this.#again.push(query)
    this.#beginWait(query)
    this.startWaiting()
  }

  /** The query no longer runs. */
  end(query: Query): void {
    move(query, 'out')
    clearInterval(this.#running.get(query)?.timer)
    this.#running.delete(query)
  }

  /** More than one may start: a propeller may have become larger meanwhile. */
  startWaiting(): void {
    if (this.#ended !== undefined) return
    for (const query of [...this.#again]) {
      if (!this.#mayRun(query)) continue
      this.#again.splice(this.#again.indexOf(query), 1)
      this.#start(query)
    }
    for (let next = this.#next(); next !== undefined; next = this.#next()) this.#start(next)
  }

  #next(): Query | undefined {
    const mayRun = (_key: string, query: Query) => this.#mayRun(query)
    const isFirst = (key: string, query: Query) => this.#runningOf(query) === 0 && mayRun(key, query)
    return this.#waiting.tryShift(isFirst) ?? this.#waiting.tryShift(mayRun)
  }

  /** Rejects a query that waits. Returns false where it does not wait. */
  giveUp(query: Query, why: Error): boolean {
    const at = this.#again.indexOf(query)
    if (at >= 0) this.#again.splice(at, 1)
    else if (!this.#waiting.remove(queueKey(query), query)) return false
    move(query, 'out')
    this.#endWait(query, why)
    return true
  }

  /** Takes queries out of the queue, those first that run again. */
  takeWaiting(isTaken: (query: Query) => boolean): Query[] {
    const taken = this.#again.filter(isTaken)
    for (const query of taken) this.#again.splice(this.#again.indexOf(query), 1)
    const mayGo = (_key: string, query: Query) => isTaken(query)
    for (let next = this.#waiting.tryShift(mayGo); next !== undefined; next = this.#waiting.tryShift(mayGo))
      taken.push(next)
    for (const query of taken) {
      move(query, 'out')
      clearTimeout(query.wait?.timer)
    }
    return taken
  }

  /** Rejects all queries that wait. */
  rejectWaiting(why: Error): void {
    for (const { reject } of this.takeWaiting(() => true)) reject(why)
  }

  /** No query runs any more, but those that run already. */
  stop(why: Unavailable): void {
    this.#ended ??= why
    this.rejectWaiting(this.#ended)
  }

  #mayRun(query: Query): boolean {
    const { runningMax, queriesMaxOf, isOpen } = this.#options
    if (!isOpen() || !(this.#hasSlot() || this.#hasShortSlotFor(query))) return false
    const copies = [...this.#running.keys()].filter(isLongCopy).length
    if (isLongCopy(query) && copies >= Math.max(1, runningMax - 1)) return false
    return this.#runningOf(query) < queriesMaxOf(query.fairKey)
  }

  /** The number of queries of its application that run. */
  #runningOf({ fairKey }: Query): number {
    return [...this.#running.keys()].filter(one => one.fairKey === fairKey).length
  }

  #hasSlot(): boolean {
    const taken = [...this.#running.values()].filter(run => !run.isInShortSlot).length
    return taken < this.#options.runningMax
  }

  /** Only where there is no other slot: all that run are long then. */
  #hasShortSlotFor(query: Query): boolean {
    const mayBeShort = this.#options.hasShortSlot && !query.isSlow && !isLongCopy(query)
    return mayBeShort && [...this.#running.values()].every(run => run.isOld && !run.isInShortSlot)
  }

  #start(query: Query): void {
    const timer = setInterval(() => this.#grow(query, run), this.#options.shortMs ?? QUERY_SHORT_MS)
    const run: Run = { timer, isOld: false, isInShortSlot: !this.#hasSlot() }
    this.#running.set(query, run)
    move(query, 'runs')
    this.#endWait(query)
    this.#options.start(query)
  }

  /** The query has run for QUERY_SHORT_MS, or as long once more. */
  #grow(query: Query, run: Run): void {
    run.isOld = true
    if (this.#hasSlot()) run.isInShortSlot = false
    if (run.isInShortSlot) {
      query.isSlow = true
      this.#options.interrupt(query)
    } else this.startWaiting()
  }

  /** Work of a job waits as long as it must: long copies of others may take minutes. */
  #beginWait(query: Query): void {
    move(query, 'waits')
    const giveUp = () => this.giveUp(query, WAITED_TOO_LONG())
    const timer = query.task.isOfJob === true ? undefined : setTimeout(giveUp, this.#options.waitMsMax)
    query.wait = { sinceMs: query.wait?.sinceMs ?? monotonicMs(), timer }
  }

  /** @param why it waited in vain; absent: its turn has come */
  #endWait(query: Query, why?: Error): void {
    const { fairKey, wait } = query
    if (wait !== undefined) {
      clearTimeout(wait.timer)
      query.wait = undefined
      this.#options.onWaited(fairKey, monotonicMs() - wait.sinceMs)
    }
    if (why !== undefined) query.reject(why)
  }
}

function move(query: TurnTaker, next: State): void {
  query.state = moved(LIFE, query.state, next)
}

export const QUEUE_FULL = () => new Unavailable('queue_full', 'too many queries are waiting')
const WAITED_TOO_LONG = () => new Unavailable('queue_timeout', 'the query waited too long for its turn')

/** A copy with a time limit of its own, longer than that of a query. */
export function isLongCopy({ task }: Pick<TurnTaker, 'task'>): boolean {
  return task.copyTo?.msMax !== undefined
}

/** What is long waits apart, so that the other queries of its application may pass it. */
function queueKey(query: TurnTaker): string {
  return query.isSlow || isLongCopy(query) ? query.fairKey + LONG : query.fairKey
}

const LONG = '\nlong'

/** Bytes of memory of a query that waits, with what its caller keeps for the answer. */
export function waitingBytes({ sql, bounds }: Statement, segments = 0): number {
  let bytes = QUERY_WAITING_BYTES_MIN + 2 * sql.length + segments * WAITING_SEGMENT_BYTES
  for (const { value } of bounds) if (typeof value === 'string') bytes += 2 * value.length
  return bytes
}

/** Two lists of the main thread name each segment. */
const WAITING_SEGMENT_BYTES = 16
