/**
 * Keeps one query process running: starts it when it is first needed, and again when it has ended.
 *
 *   start ──► opens ──► serves ──► fails ──► waits, the longer the more often it failed ──► starts
 *
 * DuckDB's native code may crash, and the kernel may end a process that takes too much memory. The
 * queries that run in the process then answer `query_process`; nothing else of Weir notices.
 */

import type { Callee } from '../util/callee.ts'
import { monotonicMs } from '../util/clock.ts'
import { Unavailable } from '../util/errors.ts'
import {
  ENGINE_RESTART_MS_MAX,
  ENGINE_RESTART_MS_MIN,
  ENGINE_STEADY_MS,
  QUERY_HEAP_MIB,
  QUERY_NICE,
} from '../util/limits.ts'
import { startProcess } from '../util/process-kit.ts'
import { warn } from '../util/say.ts'
import type { EngineCalls, EngineSettings } from './query-types.ts'

export type EngineCallee = Callee<EngineCalls>

interface EngineProcessOptions {
  readonly settings: EngineSettings
  readonly crashAt: string
  /** A process can run queries. */
  readonly onOpen: () => void
  /** A process could not start; the next one may. Queries should not wait for it. */
  readonly onCannotOpen: (error: Error) => void
  /** A process has ended by itself. Its calls are rejected. */
  readonly onCrash: () => void
}

interface Waiter {
  readonly resolve: (process: EngineCallee) => void
  readonly reject: (error: Error) => void
}

export class EngineProcess {
  readonly #options: EngineProcessOptions
  #current: EngineCallee | undefined
  #isOpen = false
  #openedMs = 0
  /** Processes that failed, one soon after the other. */
  #failures = 0
  #restart: NodeJS.Timeout | undefined
  #stopping: Unavailable | undefined
  #waiting: Waiter[] = []

  constructor(options: EngineProcessOptions) {
    this.#options = options
  }

  /** The process that can run queries now. */
  get open(): EngineCallee | undefined {
    return this.#isOpen ? this.#current : undefined
  }

  /** Starts a process, unless one runs or will start after a failure. */
  start(): void {
    if (this.#current === undefined && this.#restart === undefined && this.#stopping === undefined)
      this.#launch()
  }

  /** The process that can run queries, when there is one. Rejects if the next one cannot start. */
  opened(): Promise<EngineCallee> {
    this.start()
    return new Promise((resolve, reject) => {
      if (this.#stopping !== undefined) reject(this.#stopping)
      else if (this.open !== undefined) resolve(this.open)
      else this.#waiting.push({ resolve, reject })
    })
  }

  /** Ends the process in order, or after `msMax` at once. `why`: the error of all later calls. */
  async stop(why: Unavailable, msMax: number): Promise<void> {
    this.#stopping ??= why
    clearTimeout(this.#restart)
    this.#settleWaiting(({ reject }) => reject(why))
    const process = this.#current
    if (process === undefined) return
    process.stop().catch(() => {}) // a process that failed has ended too
    const last = setTimeout(() => void process.terminate(), msMax)
    await process.exited
    clearTimeout(last)
  }

  /** Ends the process, whose calls reject, and starts the next one. `why` stands in the log. */
  async replace(process: EngineCallee, why: string): Promise<void> {
    if (this.open !== process) return // it has failed meanwhile
    this.#isOpen = false // no further query is sent to it
    await process.terminate()
    if (this.#current === process) this.#failed(new Error(why), true)
  }

  #launch(): void {
    const { settings, crashAt, onOpen } = this.#options
    this.#restart = undefined
    const process = startProcess<EngineCalls>({
      name: 'query',
      data: settings,
      nice: QUERY_NICE,
      heapMiB: QUERY_HEAP_MIB,
      crashAt,
      lost: () => this.#stopping ?? new Unavailable('query_process', LOST),
      onCrash: error => this.#failed(error),
    })
    this.#current = process
    process.call('open', undefined).then(
      () => {
        this.#isOpen = true
        this.#openedMs = monotonicMs()
        this.#settleWaiting(({ resolve }) => resolve(process))
        onOpen()
      },
      async (error: Error) => {
        if (this.#current !== process) return // it crashed, and onCrash has told
        await process.terminate()
        this.#failed(error)
      },
    )
  }

  #failed(error: Error, wasOpen = this.#isOpen): void {
    this.#current = undefined
    this.#isOpen = false
    if (this.#stopping !== undefined) return
    const wasSteady = wasOpen && monotonicMs() - this.#openedMs >= ENGINE_STEADY_MS
    this.#failures = wasSteady ? 1 : this.#failures + 1
    const delayMs = restartDelayMs(this.#failures)
    const when = delayMs === 0 ? 'at once' : `in ${delayMs} ms`
    const [what] = error.message.split('\n', 1)
    warn(`queries fail: ${what}; the next query process starts ${when}`)
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
const LOST = 'the query process ended while it worked on this query: send the query again'

/** The first restart is at once; each further one waits twice as long. */
function restartDelayMs(failures: number): number {
  if (failures <= 1) return 0
  return Math.min(ENGINE_RESTART_MS_MAX, ENGINE_RESTART_MS_MIN * 2 ** (failures - 2))
}
