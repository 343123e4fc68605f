/**
 * A lane of queries: a bounded, fair queue before a query process of its own (W-9). There are two
 * (engine-client.ts): one for all, and the penalty lane.
 *
 *   add ──► waiting, in turn by application ──► at most `runningMax` in the process ──► onEnd
 *
 * An application of which no further query may run keeps its place in the queue; the others go on.
 * While no process runs, all wait (engine-process.ts). A query that does not end `endMsMax` after
 * its time, or after its client has gone, is ended with the process. The lane says how a query has
 * ended, and the client decides whether it runs again.
 */
import { rm } from 'node:fs/promises'
import { must } from '../../util/assert.ts'
import { monotonicMs } from '../../util/clock.ts'
import { Unavailable } from '../../util/errors.ts'
import { FairQueue } from '../../util/fair-queue.ts'
import type { QueryProcessName } from '../../util/paths.ts'
import type { QueryDone, QueryTask } from '../plan/query-task.ts'
import type { EngineSettings, RunAnswer, SentTask } from './engine-calls.ts'
import { type EngineCallee, EngineProcess } from './engine-process.ts'
import { MISSING_TRIES_MAX, segmentsOf, toSend, withSegments } from './sent-segments.ts'

export interface EngineQuery {
  /** It has an id of its own, by which it can be cancelled. */
  readonly task: QueryTask & { readonly id: number }
  readonly fairKey: string
  readonly verify: () => void
  readonly gone: AbortSignal | undefined
  readonly resolve: (done: QueryDone) => void
  readonly reject: (error: Error) => void
  /** When it began to wait, and the timer that ends that. Undefined if it does not wait. */
  wait: { readonly sinceMs: number; readonly timer: NodeJS.Timeout | undefined } | undefined
  /** It ran in a process that was ended because of another query. */
  wasBesideCulprit: boolean
  /** The lane whose process ended by itself, or had no memory, while the query ran in it. */
  crashedIn: QueryProcessName | undefined
}

/**
 * How a run has ended. `lost`: with its process, which was ended because of this query (`own`) or
 * of another one (`other`), or ended by itself (`crash`).
 */
export type RunEnd =
  | { readonly done: QueryDone }
  | { readonly error: Error; readonly lost?: 'own' | 'other' | 'crash' }

interface LaneOptions {
  readonly name: QueryProcessName
  readonly settings: EngineSettings
  readonly crashAt: string
  readonly runningMax: number
  readonly waitingMax: number
  readonly waitMsMax: number
  /** See QUERY_END_MS_MAX. */
  readonly endMsMax: number
  /** The process ends when it had no query for this long. Absent: it stays. */
  readonly idleMs?: number
  readonly limited: (query: EngineQuery) => QueryTask & { readonly msMax: number }
  readonly queriesMaxOf: (fairKey: string) => number
  readonly onEnd: (query: EngineQuery, end: RunEnd, lane: QueryProcessName) => void
  readonly onWaited: (fairKey: string, ms: number) => void
  readonly onCrash: () => void
}

interface Run {
  readonly process: EngineCallee
  /** Set when the query was interrupted: it ends its process if the query does not end. */
  end: NodeJS.Timeout | undefined
}

export class EngineLane {
  readonly #options: LaneOptions
  readonly #process: EngineProcess
  /** Queries that run again: they have waited for their turn. */
  readonly #again: EngineQuery[] = []
  readonly #waiting: FairQueue<EngineQuery>
  readonly #runs = new Map<EngineQuery, Run>()
  /** Processes that were ended because of these queries. */
  readonly #culprits = new WeakMap<EngineCallee, EngineQuery>()
  #idle: NodeJS.Timeout | undefined
  #ended: Unavailable | undefined

  constructor(options: LaneOptions) {
    this.#options = options
    this.#waiting = new FairQueue(options.waitingMax)
    const { name, settings, crashAt, onCrash } = options
    this.#process = new EngineProcess({
      name,
      settings,
      crashAt,
      onOpen: () => this.#startWaiting(),
      onCannotOpen: error => this.#rejectWaiting(error),
      onCrash,
    })
  }

  get running(): number {
    return this.#runs.size
  }

  get waiting(): number {
    return this.#again.length + this.#waiting.size
  }

  waitingOf(): Map<string, number> {
    const all = new Map<string, number>()
    const add = (fairKey: string, queries: number) => all.set(fairKey, (all.get(fairKey) ?? 0) + queries)
    for (const { fairKey } of this.#again) add(fairKey, 1)
    for (const [key, queries] of this.#waiting.sizes()) add(key.replace(LONG, ''), queries)
    return all
  }

  warm(): void {
    this.#process.start()
  }

  opened(): Promise<EngineCallee> {
    return this.#process.opened()
  }

  forget(files: readonly string[]): void {
    this.#process.open?.tell('forget', files)
  }

  /** Starts the query, or lets it wait for its turn. Throws Unavailable. */
  add(query: EngineQuery): void {
    if (this.#ended !== undefined) throw this.#ended
    this.#wake()
    if (this.#mayRun(query)) {
      void this.#start(query)
      return
    }
    if (!this.#waiting.tryPush(queueKey(query), query)) throw QUEUE_FULL()
    this.#beginWait(query)
  }

  /** The same before all queries that wait: it has had its turn. */
  addAgain(query: EngineQuery): void {
    if (this.#ended !== undefined) {
      query.reject(this.#ended)
      return
    }
    this.#wake()
    this.#again.push(query)
    this.#beginWait(query)
    this.#startWaiting()
  }

  /** Ends a query whose client has gone. Returns false where it is not in this lane. */
  cancel(query: EngineQuery, why: () => Unavailable): boolean {
    const run = this.#runs.get(query)
    if (run === undefined) return this.#giveUp(query, why)
    run.process.tell('cancel', query.task.id)
    this.#mustEnd(query, run)
    return true
  }

  /** Takes queries out of the queue, those first that run again. */
  takeWaiting(isTaken: (query: EngineQuery) => boolean): EngineQuery[] {
    const taken = this.#again.filter(isTaken)
    for (const query of taken) this.#again.splice(this.#again.indexOf(query), 1)
    const mayGo = (_key: string, query: EngineQuery) => isTaken(query)
    for (let next = this.#waiting.tryShift(mayGo); next !== undefined; next = this.#waiting.tryShift(mayGo))
      taken.push(next)
    for (const { wait } of taken) clearTimeout(wait?.timer)
    return taken
  }

  async stop(why: Unavailable): Promise<void> {
    this.#ended ??= why
    clearTimeout(this.#idle)
    this.#rejectWaiting(this.#ended)
    await this.#process.stop(this.#ended, this.#options.endMsMax)
  }

  #wake(): void {
    clearTimeout(this.#idle)
    this.#process.start()
  }

  #mayRun(query: EngineQuery): boolean {
    const { runningMax, queriesMaxOf } = this.#options
    const running = [...this.#runs.keys()]
    if (this.#process.open === undefined || running.length >= runningMax) return false
    if (isLong(query) && running.filter(isLong).length >= Math.max(1, runningMax - 1)) return false
    return running.filter(({ fairKey }) => fairKey === query.fairKey).length < queriesMaxOf(query.fairKey)
  }

  /** Runs a query, then those that wait for its slot. */
  async #start(query: EngineQuery): Promise<void> {
    this.#endWait(query)
    const end = await this.#run(query)
    this.#options.onEnd(query, end, this.#options.name)
    if (this.#ended === undefined) this.#startWaiting()
  }

  async #run(query: EngineQuery): Promise<RunEnd> {
    const run: Run = { process: must(this.#process.use(), 'the process of a lane'), end: undefined }
    const task = this.#options.limited(query)
    this.#runs.set(query, run)
    const limit = setTimeout(() => this.#mustEnd(query, run), task.msMax)
    try {
      query.verify()
      if (query.wasBesideCulprit || query.crashedIn !== undefined) await removeCopy(task)
      return { done: await runIn(run.process, task, query.gone) }
    } catch (error) {
      if (!(error instanceof Unavailable && error.code === 'query_process')) return { error: error as Error }
      const culprit = this.#culprits.get(run.process)
      if (culprit === undefined) return { error, lost: 'crash' }
      // Another one that was interrupted and still ran is no better than the culprit.
      return { error, lost: culprit === query || run.end !== undefined ? 'own' : 'other' }
    } finally {
      clearTimeout(limit)
      clearTimeout(run.end)
      this.#runs.delete(query)
    }
  }

  /** The query was interrupted. If it does not end, its process is replaced. */
  #mustEnd(query: EngineQuery, run: Run): void {
    const { endMsMax } = this.#options
    run.end ??= setTimeout(() => {
      if (this.#process.open !== run.process) return
      this.#culprits.set(run.process, query)
      const what = `a query of ${query.fairKey} did not end within ${endMsMax} ms after its interrupt`
      void this.#process.replace(run.process, what)
    }, endMsMax)
  }

  /** More than one may start: a propeller may have become larger meanwhile. */
  #startWaiting(): void {
    const mayRun = (_key: string, query: EngineQuery) => this.#mayRun(query)
    for (const query of [...this.#again]) {
      if (!this.#mayRun(query)) continue
      this.#again.splice(this.#again.indexOf(query), 1)
      void this.#start(query)
    }
    for (let next = this.#waiting.tryShift(mayRun); next !== undefined; next = this.#waiting.tryShift(mayRun))
      void this.#start(next)
    this.#restLater()
  }

  #restLater(): void {
    const { idleMs, endMsMax } = this.#options
    clearTimeout(this.#idle)
    if (idleMs === undefined || this.running + this.waiting > 0) return
    this.#idle = setTimeout(() => this.#process.rest(endMsMax), idleMs)
    this.#idle.unref()
  }

  /** Work of a job waits as long as it must: long copies of others may take minutes. */
  #beginWait(query: EngineQuery): void {
    const giveUp = () => this.#giveUp(query, WAITED_TOO_LONG)
    const timer = query.task.isOfJob === true ? undefined : setTimeout(giveUp, this.#options.waitMsMax)
    query.wait = { sinceMs: query.wait?.sinceMs ?? monotonicMs(), timer }
  }

  #endWait(query: EngineQuery): void {
    const { fairKey, wait } = query
    if (wait === undefined) return
    clearTimeout(wait.timer)
    query.wait = undefined
    this.#options.onWaited(fairKey, monotonicMs() - wait.sinceMs)
  }

  /** Rejects a query that waits. Returns false where it does not wait. */
  #giveUp(query: EngineQuery, why: () => Unavailable): boolean {
    const at = this.#again.indexOf(query)
    if (at >= 0) this.#again.splice(at, 1)
    else if (!this.#waiting.remove(queueKey(query), query)) return false
    this.#endWait(query)
    query.reject(why())
    return true
  }

  #rejectWaiting(error: Error): void {
    for (const { reject } of this.takeWaiting(() => true)) reject(error)
  }
}

export const QUEUE_FULL = () => new Unavailable('queue_full', 'too many queries are waiting')
const WAITED_TOO_LONG = () => new Unavailable('queue_timeout', 'the query waited too long for its turn')

/** A copy with a time limit of its own, longer than that of a query. */
export function isLong({ task }: Pick<EngineQuery, 'task'>): boolean {
  return task.copyTo?.msMax !== undefined
}

/** Long copies wait apart, so that the other queries of their application may pass them. */
function queueKey(query: EngineQuery): string {
  return isLong(query) ? query.fairKey + LONG : query.fairKey
}

const LONG = '\nlong'

/** Removes what an ended process wrote: a copy goes to a new file. */
async function removeCopy({ copyTo }: QueryTask): Promise<void> {
  if (copyTo !== undefined) await rm(copyTo.file, { force: true })
}

/** Runs a task in the process, and sends the deletion vectors that the process lacks. */
async function runIn(
  process: EngineCallee,
  task: QueryTask,
  gone: AbortSignal | undefined,
): Promise<QueryDone> {
  let missing: ReadonlySet<number> | 'all' = new Set()
  for (let tries = 1; ; tries++) {
    throwIfGone(gone)
    const sent: SentTask = withSegments(task, toSend(segmentsOf(task), missing))
    const done: RunAnswer = await process.call('run', sent)
    if (!('missing' in done)) return done
    missing = tries < MISSING_TRIES_MAX ? new Set(done.missing) : 'all'
  }
}

export const CLIENT_GONE = () => new Unavailable('client_gone', 'the client has disconnected')

export function throwIfGone(gone: AbortSignal | undefined): void {
  if (gone?.aborted === true) throw CLIENT_GONE()
}
