/**
 * A lane of queries: turns (plan/query-turns.ts) before a query process of its own. There are two
 * (engine-client.ts): one for all, and the penalty lane.
 *
 *   add ──► its turn ──► in the process ──► onEnd
 *
 * While no process runs, all wait (engine-process.ts). A query that does not end `endMsMax` after
 * its time, that of the short slot too, or after its client has gone, is ended with the process.
 * The lane says how a query has ended, and the client decides whether and where it runs again.
 */
import { rm } from 'node:fs/promises'
import { CLIENT_GONE, type Moves, moved, must, Unavailable } from '../../util/errors.ts'
import type { QueryProcessName } from '../../util/paths.ts'
import type { QueryDone } from '../plan/query-task.ts'
import { QueryTurns, type TurnOptions, type TurnTaker } from '../plan/query-turns.ts'
import type { SegmentTask } from '../plan/segment-task.ts'
import type { EngineSettings, RunAnswer } from './engine-calls.ts'
import { type EngineCallee, EngineProcess } from './engine-process.ts'
import { MISSING_TRIES_MAX, segmentsOf, toSend, withSegments } from './sent-segments.ts'

export interface EngineQuery extends TurnTaker {
  /** It has an id of its own, by which it can be cancelled. */
  readonly task: SegmentTask & { readonly id: number }
  readonly verify: () => void
  readonly gone: AbortSignal | undefined
  readonly resolve: (done: QueryDone) => void
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
  | {
      readonly error: Error
      readonly lost?: 'own' | 'other' | 'crash'
      /** The short slot interrupted it, and not its client. */
      readonly isTooSlow?: boolean
    }

type TurnSettings = Omit<TurnOptions<EngineQuery>, 'isOpen' | 'start' | 'interrupt'>

interface LaneOptions extends TurnSettings {
  readonly name: QueryProcessName
  readonly settings: EngineSettings
  readonly crashAt: string
  /** See QUERY_END_MS_MAX. */
  readonly endMsMax: number
  /** The process ends when it had no query for this long. Absent: it stays. */
  readonly idleMs?: number
  readonly limited: (query: EngineQuery) => SegmentTask & { readonly msMax: number }
  readonly onEnd: (query: EngineQuery, end: RunEnd, lane: QueryProcessName) => void
  readonly onCrash: () => void
}

/** `slow`: interrupted in the short slot. `late`: its time has ended, or its client has gone. */
type RunState = 'runs' | 'slow' | 'late'

const RUN: Moves<RunState> = { runs: ['slow', 'late'], slow: ['late'], late: ['late'] }

interface Run {
  readonly process: EngineCallee
  state: RunState
  /** Ends the process if the query does not end. Set with the first interrupt. */
  end: NodeJS.Timeout | undefined
}

export class EngineLane {
  readonly #options: LaneOptions
  readonly #process: EngineProcess
  readonly turns: QueryTurns<EngineQuery>
  readonly #runs = new Map<EngineQuery, Run>()
  /** Processes that were ended because of these queries. */
  readonly #culprits = new WeakMap<EngineCallee, EngineQuery>()
  #idle: NodeJS.Timeout | undefined

  constructor(options: LaneOptions) {
    this.#options = options
    const { name, settings, crashAt, onCrash } = options
    this.#process = new EngineProcess({
      name,
      settings,
      crashAt,
      onOpen: () => this.#startWaiting(),
      onCannotOpen: error => this.turns.rejectWaiting(error),
      onCrash,
    })
    this.turns = new QueryTurns({
      ...options,
      isOpen: () => this.#process.open !== undefined,
      start: query => void this.#start(query),
      interrupt: query => this.#interrupt(query),
    })
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

  /** Starts the query, or lets it wait for its turn. Rejects it with Unavailable. */
  add(query: EngineQuery): void {
    this.#wake()
    this.turns.add(query)
  }

  /** The same before all queries that wait: it has had its turn. */
  addAgain(query: EngineQuery): void {
    this.#wake()
    this.turns.addAgain(query)
  }

  /** Ends a query whose client has gone. Returns false where it is not in this lane. */
  cancel(query: EngineQuery): boolean {
    const run = this.#runs.get(query)
    if (run === undefined) return this.turns.giveUp(query, CLIENT_GONE())
    run.process.tell('cancel', query.task.id)
    this.#mustEnd(query, run, 'late')
    return true
  }

  /** Ends a query that is too slow for the short slot. */
  #interrupt(query: EngineQuery): void {
    const run = this.#runs.get(query)
    if (run === undefined) return
    run.process.tell('cancel', query.task.id)
    if (run.state === 'runs') this.#mustEnd(query, run, 'slow')
  }

  async stop(why: Unavailable): Promise<void> {
    clearTimeout(this.#idle)
    this.turns.stop(why)
    await this.#process.stop(why, this.#options.endMsMax)
  }

  #wake(): void {
    clearTimeout(this.#idle)
    this.#process.start()
  }

  /** Runs a query, then those that wait for its slot. */
  async #start(query: EngineQuery): Promise<void> {
    const end = await this.#run(query)
    this.turns.end(query)
    this.#options.onEnd(query, end, this.#options.name)
    this.#startWaiting()
  }

  async #run(query: EngineQuery): Promise<RunEnd> {
    const process = must(this.#process.use(), 'the process of a lane')
    const run: Run = { process, state: 'runs', end: undefined }
    const task = this.#options.limited(query)
    this.#runs.set(query, run)
    const limit = setTimeout(() => {
      if (run.state === 'runs') this.#mustEnd(query, run, 'late')
    }, task.msMax)
    try {
      query.verify()
      if (query.wasBesideCulprit || query.crashedIn !== undefined || query.isSlow) await removeCopy(task)
      return { done: await runIn(run.process, task, query.gone) }
    } catch (error) {
      const isTooSlow = run.state === 'slow'
      if (!(error instanceof Unavailable && error.code === 'query_process'))
        return { error: error as Error, isTooSlow: isTooSlow && codeOf(error) === CLIENT_GONE().code }
      const culprit = this.#culprits.get(run.process)
      if (culprit === undefined) return { error, lost: 'crash' }
      // Another one that was interrupted and still ran is no better than the culprit.
      const isOwn = culprit === query || run.state === 'late'
      return { error, lost: isOwn ? 'own' : 'other', isTooSlow }
    } finally {
      clearTimeout(limit)
      clearTimeout(run.end)
      this.#runs.delete(query)
    }
  }

  /** The query was interrupted. If it does not end, its process is replaced. */
  #mustEnd(query: EngineQuery, run: Run, state: RunState): void {
    const { endMsMax } = this.#options
    run.state = moved(RUN, run.state, state)
    run.end ??= setTimeout(() => {
      if (this.#process.open !== run.process) return
      this.#culprits.set(run.process, query)
      const what = `a query of ${query.fairKey} did not end within ${endMsMax} ms after its interrupt`
      void this.#process.replace(run.process, what)
    }, endMsMax)
  }

  #startWaiting(): void {
    this.turns.startWaiting()
    this.#restLater()
  }

  #restLater(): void {
    const { idleMs, endMsMax } = this.#options
    clearTimeout(this.#idle)
    if (idleMs === undefined || this.turns.running + this.turns.waiting > 0) return
    this.#idle = setTimeout(() => this.#process.rest(endMsMax), idleMs)
    this.#idle.unref()
  }
}

/** Removes what an ended process wrote: a copy goes to a new file. */
async function removeCopy({ copyTo }: SegmentTask): Promise<void> {
  if (copyTo !== undefined) await rm(copyTo.file, { force: true })
}

/** Runs a task in the process, and sends the deletion vectors that the process lacks. */
async function runIn(
  process: EngineCallee,
  task: SegmentTask,
  gone: AbortSignal | undefined,
): Promise<QueryDone> {
  let missing: ReadonlySet<number> | 'all' = new Set()
  for (let tries = 1; ; tries++) {
    throwIfGone(gone)
    const segments = toSend(segmentsOf(task.source), missing)
    const done: RunAnswer = await process.call('run', withSegments(task, segments))
    if (!('missing' in done)) return done
    missing = tries < MISSING_TRIES_MAX ? new Set(done.missing) : 'all'
  }
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Unavailable ? error.code : undefined
}

export function throwIfGone(gone: AbortSignal | undefined): void {
  if (gone?.aborted === true) throw CLIENT_GONE()
}
