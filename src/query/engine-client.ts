/**
 * The query stage on the main thread: a bounded, fair queue before the query worker (W-9).
 *
 *   run ──► waiting, one lane per application ──► at most `runningMax` in the worker ──► answer
 */

import { must } from '../util/assert.ts'
import { Unavailable } from '../util/errors.ts'
import { FairQueue } from '../util/fair-queue.ts'
import {
  QUERIES_RUNNING_MAX,
  QUERIES_WAITING_MAX,
  QUERY_MEMORY_BYTES,
  QUERY_MS_MAX,
  QUERY_NICE,
  STOP_MS_MAX,
} from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import type { KernelChoice } from '../util/native.ts'
import { startThread, type Thread } from '../util/thread-kit.ts'
import type { EngineCalls, EngineSettings, QueryDone, QueryEngine, QueryTask } from './query-types.ts'

/** The options of an engine. Only tests set those that have a default in limits.ts. */
export interface EngineOptions {
  readonly segmentFolder: string
  readonly temporaryFolder: string
  /** See EngineSettings. */
  readonly outputFolder?: string | undefined
  readonly kernel?: KernelChoice | undefined
  readonly threads: number
  readonly crashAt: string
  /** Called once when the worker ends by itself. No query can run any more. */
  readonly onFatal: (error: Error) => void
  readonly memoryBytes?: number
  readonly queryMsMax?: number
  readonly runningMax?: number
  readonly waitingMax?: number
}

interface Waiter {
  readonly task: QueryTask
  readonly fairKey: string
  readonly resolve: (done: QueryDone) => void
  readonly reject: (error: Error) => void
  timer: NodeJS.Timeout | undefined
}

/** An engine whose worker is started by the first query, or by `warm`. */
export interface LazyEngine extends QueryEngine {
  /**
   * Starts the worker if no query has started it. A failure to start ends the engine, as a later
   * failure does.
   */
  warm(): void
}

/**
 * The engine of a server, whose start does not wait for DuckDB. Both folders must exist.
 *
 * DuckDB's library is loaded here, so that a failure ends the start and not the first query. A
 * process loads it once, so the worker loads it almost for free.
 * @throws CannotRun if DuckDB's library cannot be loaded
 */
export function createQueryEngine(options: EngineOptions): LazyEngine {
  loadPackage('@duckdb/node-api')
  return new EngineClient(options)
}

/** Starts the worker. Resolves when it can run queries. Both folders must exist. */
export async function openQueryEngine(options: EngineOptions): Promise<QueryEngine> {
  const engine = new EngineClient(options)
  await engine.open()
  return engine
}

class EngineClient implements LazyEngine {
  readonly #options: EngineOptions
  readonly #runningMax: number
  readonly #queryMsMax: number
  readonly #waiting: FairQueue<Waiter>
  #running = 0
  /** undefined: not started yet. */
  #thread: Thread<EngineCalls> | undefined
  #ended: Unavailable | undefined

  constructor(options: EngineOptions) {
    this.#options = options
    this.#runningMax = options.runningMax ?? QUERIES_RUNNING_MAX
    this.#queryMsMax = options.queryMsMax ?? QUERY_MS_MAX
    this.#waiting = new FairQueue(options.waitingMax ?? QUERIES_WAITING_MAX)
  }

  /**
   * Starts the worker. Resolves when it can run queries, which may be sent at once. Rejects if it
   * fails before.
   */
  async open(): Promise<void> {
    let isOpen = false
    let failure: Error | undefined
    this.#thread = startThread<EngineCalls>({
      name: 'query',
      data: settingsOf(this.#options),
      nice: QUERY_NICE,
      crashAt: this.#options.crashAt,
      lost: error =>
        this.#ended ?? new Unavailable('query_worker', `the query worker failed: ${error.message}`),
      onCrash: error => {
        failure = error
        if (isOpen) this.#fail(error)
      },
    })
    try {
      await this.#thread.call('open', undefined)
      isOpen = true
    } catch (error) {
      throw failure ?? error
    }
  }

  warm(): void {
    if (this.#thread === undefined && this.#ended === undefined)
      this.open().catch((error: Error) => this.#fail(error))
  }

  run(task: QueryTask, fairKey: string): Promise<QueryDone> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) throw this.#ended
      this.warm()
      const waiter: Waiter = { task, fairKey, resolve, reject, timer: undefined }
      if (this.#running < this.#runningMax) {
        void this.#start(waiter)
        return
      }
      if (!this.#waiting.tryPush(fairKey, waiter))
        throw new Unavailable('queue_full', 'too many queries are waiting')
      waiter.timer = setTimeout(() => this.#giveUp(waiter), this.#queryMsMax)
    })
  }

  forget(files: readonly string[]): void {
    if (this.#ended === undefined) this.#thread?.tell('forget', files)
  }

  stats(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running, waiting: this.#waiting.size }
  }

  async stop(): Promise<void> {
    if (this.#ended === undefined) {
      this.#ended = new Unavailable('stopping', 'Weir is stopping')
      this.#rejectWaiting(this.#ended)
      this.#thread?.stop().catch(() => {}) // a thread that failed has ended too
    }
    // NOTE: never terminate(): ending the thread inside a DuckDB call aborts the process
    // (Napi::Error).
    let last: NodeJS.Timeout | undefined
    const late = new Promise<void>(resolve => {
      last = setTimeout(resolve, STOP_MS_MAX / 2)
    })
    await Promise.race([this.#thread?.exited, late])
    clearTimeout(last)
    this.#thread?.unref()
  }

  /** Runs a query, then the next one that waits. */
  async #start(waiter: Waiter): Promise<void> {
    clearTimeout(waiter.timer)
    this.#running += 1
    try {
      waiter.resolve(await must(this.#thread, 'the query thread').call('run', waiter.task))
    } catch (error) {
      waiter.reject(error as Error)
    }
    this.#running -= 1
    if (this.#ended !== undefined) return
    const next = this.#waiting.tryShift()
    if (next !== undefined) void this.#start(next)
  }

  #giveUp(waiter: Waiter): void {
    this.#waiting.remove(waiter.fairKey, waiter)
    waiter.reject(new Unavailable('timeout', 'the query waited too long for its turn'))
  }

  /** Called when the worker has ended. The thread kit rejects the running queries. */
  #fail(error: Error): void {
    const fault = this.#ended === undefined
    this.#ended ??= new Unavailable('query_worker', `the query worker failed: ${error.message}`)
    this.#rejectWaiting(this.#ended)
    if (fault) this.#options.onFatal(error)
  }

  #rejectWaiting(error: Error): void {
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift()) {
      clearTimeout(next.timer)
      next.reject(error)
    }
  }
}

function settingsOf(options: EngineOptions): EngineSettings {
  return {
    segmentFolder: options.segmentFolder,
    temporaryFolder: options.temporaryFolder,
    outputFolder: options.outputFolder,
    kernel: options.kernel,
    threads: options.threads,
    memoryBytes: options.memoryBytes ?? QUERY_MEMORY_BYTES,
    queryMsMax: options.queryMsMax ?? QUERY_MS_MAX,
  }
}
