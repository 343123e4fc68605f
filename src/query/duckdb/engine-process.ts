/**
 * Keeps one query process running: starts it when it is first needed, and again when it has ended:
 * after queries at once, else the later the more often it failed. LIFE has its states.
 *
 * DuckDB's native code may crash, and the kernel may end a process that takes too much memory. The
 * calls of the process then reject with `query_process`; nothing else of Weir notices.
 *
 * A process that crashed while it ran queries starts again at once: these queries go to another
 * lane (engine-lane.ts), and others should not wait for what they did.
 */

import { workerFile } from '../../util/build-files.ts'
import type { Callee } from '../../util/callee.ts'
import { monotonicMs } from '../../util/clock.ts'
import { type Moves, moved, Unavailable } from '../../util/errors.ts'
import { QUERY_NICE } from '../../util/limits.ts'
import type { QueryProcessName } from '../../util/paths.ts'
import { startProcess } from '../../util/process-kit.ts'
import { warn } from '../../util/say.ts'
import { dataBytesOf, placesOf } from './duckdb-limits.ts'
import type { EngineCalls, EngineSettings } from './engine-calls.ts'

/**
 * Wait before the query process starts again after its second failure. The first restart is at
 * once, and each further one waits twice as long, up to ENGINE_RESTART_MS_MAX.
 */
const ENGINE_RESTART_MS_MIN = 100
/** Queries wait for up to QUERY_MS_MAX, so they outlast a few of these. */
const ENGINE_RESTART_MS_MAX = 10_000
/** A process that ran this long without a query failed for a new reason: its restart is at once. */
const ENGINE_STEADY_MS = 60_000
/**
 * Megabytes of JavaScript values in the query process for each place: the rows of two answers, of
 * 2M values each, take 250. A process that needs more aborts, and another one starts.
 */
const PLACE_HEAP_MIB = 256

export type EngineCallee = Callee<EngineCalls>

interface EngineProcessOptions {
  readonly name: QueryProcessName
  readonly settings: EngineSettings
  readonly crashAt: string
  /** A process can run queries. */
  readonly onOpen: () => void
  /** A process could not start; the next one may. Queries should not wait for it. */
  readonly onCannotOpen: (error: Error) => void
  /** A process has ended by itself. Its calls are rejected. */
  readonly onCrash: () => void
}

/**
 * `absent`: none is needed. `resting`: it ends because it has no work. `recalled`: so too, and the
 * next one starts then. `replacing`: it ends because of a query. `failed`: the next one starts
 * after a delay.
 */
type State = 'absent' | 'opening' | 'open' | 'resting' | 'recalled' | 'replacing' | 'failed' | 'stopped'

const LIFE: Moves<State> = {
  absent: ['opening', 'stopped'],
  opening: ['open', 'failed', 'stopped'],
  open: ['resting', 'replacing', 'failed', 'stopped'],
  resting: ['recalled', 'absent', 'stopped'],
  recalled: ['absent', 'stopped'],
  replacing: ['failed', 'stopped'],
  failed: ['opening', 'stopped'],
  stopped: ['stopped'],
}

interface Waiter {
  readonly resolve: (process: EngineCallee) => void
  readonly reject: (error: Error) => void
}

export class EngineProcess {
  readonly #options: EngineProcessOptions
  #state: State = 'absent'
  #current: EngineCallee | undefined
  #openedMs = 0
  #wasUsed = false
  /** Processes that failed without a query, one soon after the other. */
  #failures = 0
  #restart: NodeJS.Timeout | undefined
  /** Why it has stopped. */
  #why: Unavailable | undefined
  #waiting: Waiter[] = []

  constructor(options: EngineProcessOptions) {
    this.#options = options
  }

  #move(next: State): void {
    this.#state = moved(LIFE, this.#state, next)
  }

  /** The process that can run queries now. */
  get open(): EngineCallee | undefined {
    return this.#state === 'open' ? this.#current : undefined
  }

  /** The same, for a query that begins now. */
  use(): EngineCallee | undefined {
    if (this.#state === 'open') this.#wasUsed = true
    return this.open
  }

  /** Starts a process, unless one runs or will start after a failure. */
  start(): void {
    if (this.#state === 'resting') this.#move('recalled')
    else if (this.#state === 'absent') this.#launch()
  }

  /** The process that can run queries, when there is one. Rejects if the next one cannot start. */
  opened(): Promise<EngineCallee> {
    this.start()
    return new Promise((resolve, reject) => {
      if (this.#why !== undefined) reject(this.#why)
      else if (this.open !== undefined) resolve(this.open)
      else this.#waiting.push({ resolve, reject })
    })
  }

  /** Ends a process that has no work, in order. The next start waits for its end. */
  rest(msMax: number): void {
    const process = this.open
    if (process === undefined) return
    this.#move('resting')
    void this.#end(process, msMax).then(() => {
      if (this.#state === 'stopped') return
      const isNeeded = this.#state === 'recalled'
      this.#current = undefined
      this.#move('absent')
      if (isNeeded) this.start()
    })
  }

  /** Ends the process in order, or after `msMax` at once. `why`: the error of all later calls. */
  async stop(why: Unavailable, msMax: number): Promise<void> {
    this.#why ??= why
    this.#move('stopped')
    clearTimeout(this.#restart)
    this.#settleWaiting(({ reject }) => reject(why))
    if (this.#current !== undefined) await this.#end(this.#current, msMax)
  }

  async #end(process: EngineCallee, msMax: number): Promise<void> {
    process.stop().catch(() => {}) // a process that failed has ended too
    const last = setTimeout(() => void process.terminate(), msMax)
    await process.exited
    clearTimeout(last)
  }

  /** Ends the process, whose calls reject, and starts the next one. `why` stands in the log. */
  async replace(process: EngineCallee, why: string): Promise<void> {
    if (this.open !== process) return // it has failed meanwhile
    this.#move('replacing')
    await process.terminate()
    if (this.#current === process) this.#failed(new Error(why))
  }

  #launch(): void {
    const { name, settings, crashAt, onOpen } = this.#options
    this.#move('opening')
    this.#wasUsed = false
    const process = startProcess<EngineCalls>({
      name,
      file: workerFile('query'),
      data: settings,
      nice: QUERY_NICE,
      heapMiB: placesOf(settings.threads) * PLACE_HEAP_MIB,
      dataBytesMax: dataBytesOf(settings),
      crashAt,
      lost: () => this.#why ?? LOST(),
      onCrash: error => this.#failed(error),
    })
    this.#current = process
    process.call('open', undefined).then(
      () => {
        if (this.#current !== process || this.#state === 'stopped') return // it crashed in the same turn
        this.#move('open')
        this.#openedMs = monotonicMs()
        this.#settleWaiting(({ resolve }) => resolve(process))
        onOpen()
      },
      async (error: Error) => {
        if (this.#current !== process) return // it crashed, and onCrash has told
        await process.terminate()
        if (this.#current === process) this.#failed(error)
      },
    )
  }

  #failed(error: Error): void {
    const before = this.#state
    if (before === 'resting' || before === 'recalled') return // rest() goes on
    this.#current = undefined
    if (before === 'stopped') return
    this.#move('failed')
    const wasOpen = before !== 'opening'
    // One of the queries that it ran is the likely cause.
    const hadQueries = before === 'replacing' || (wasOpen && this.#wasUsed)
    const wasSteady = wasOpen && monotonicMs() - this.#openedMs >= ENGINE_STEADY_MS
    if (hadQueries) this.#failures = 0
    else this.#failures = wasSteady ? 1 : this.#failures + 1
    const delayMs = restartDelayMs(this.#failures)
    const when = delayMs === 0 ? 'at once' : `in ${delayMs} ms`
    const [what] = error.message.split('\n', 1)
    warn(`queries fail: ${what}; the next ${this.#options.name} process starts ${when}`)
    this.#restart = setTimeout(() => this.#launch(), delayMs)
    this.#options.onCrash()
    if (wasOpen) return
    const cause = new Unavailable('query_process', `the query process cannot start: ${what}`)
    this.#settleWaiting(({ reject }) => reject(cause))
    this.#options.onCannotOpen(cause)
  }

  #settleWaiting(settle: (waiter: Waiter) => void): void {
    for (const waiter of this.#waiting.splice(0)) settle(waiter)
  }
}

/** The cause stands in the log: clients should know what to do, not how the engine works. */
export const LOST = () =>
  new Unavailable(
    'query_process',
    'the query process ended while it worked on this query: send the query again',
  )

/** The first restart is at once; each further one waits twice as long. */
function restartDelayMs(failures: number): number {
  if (failures <= 1) return 0
  return Math.min(ENGINE_RESTART_MS_MAX, ENGINE_RESTART_MS_MIN * 2 ** (failures - 2))
}
