/**
 * The query stage on the main thread: a bounded, fair queue before the query process (W-9).
 *
 *   run ──► files checked ──► waiting, one lane per application ──► at most `runningMax` in the
 *   process ──► answer
 *
 * An application whose propeller lets no further query of it run keeps its lane waiting; the other
 * lanes go on. While no process runs, all wait (engine-process.ts). The queries that were in a
 * process when it ended reject with Unavailable (`query_process`). A process that does not end a
 * query after its time is replaced.
 */

import type { Propeller } from '../catalog/model.ts'
import type { EnsureWhole } from '../store/check/segment-checks.ts'
import { must } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import { Unavailable } from '../util/errors.ts'
import { FairQueue } from '../util/fair-queue.ts'
import {
  DELETION_VECTORS_BYTES_MAX,
  QUERIES_RUNNING_MAX,
  QUERIES_WAITING_MAX,
  QUERY_END_MS_MAX,
  QUERY_MEMORY_BYTES,
  QUERY_MS_MAX,
  STOP_MS_MAX,
} from '../util/limits.ts'
import { loadPackage } from '../util/load-package.ts'
import type { KernelChoice } from '../util/native.ts'
import { MISSING_TRIES_MAX, segmentsOf, toSend, withSegments } from './deletion-vector-cache.ts'
import { type EngineCallee, EngineProcess } from './engine-process.ts'
import type { Expression, SqlStatement } from './expression/ast.ts'
import { ExpressionCache } from './expression/expression-cache.ts'
import { ParseQueue } from './expression/parse-queue.ts'
import { textProblem } from './expression/text-problem.ts'
import { RESOURCES } from './propeller.ts'
import type {
  BadQuery,
  EngineSettings,
  QueryDone,
  QueryEngine,
  QueryTask,
  RunAnswer,
  SentTask,
} from './query-types.ts'

/** The options of an engine. Only tests set those that have a default in limits.ts. */
export interface EngineOptions {
  readonly segmentFolder: string
  readonly temporaryFolder: string
  /** See EngineSettings. */
  readonly outputFolder?: string | undefined
  readonly kernel?: KernelChoice | undefined
  readonly threads: number
  readonly crashAt: string
  /** Every statement waits until the files that it reads are known to be whole (W-8). */
  readonly ensureWhole: EnsureWhole
  /** The propeller of an application. Absent: all queries have the resources of the largest. */
  readonly propellerOf?: (fairKey: string) => Propeller
  /** A query of an application has waited this long for its turn, or in vain. */
  readonly onWaited?: (fairKey: string, ms: number) => void
  /** The query process has ended by itself, and another one starts. */
  readonly onCrash?: () => void
  readonly memoryBytes?: number
  readonly deletionVectorBytesMax?: number
  readonly queryMsMax?: number
  readonly queryEndMsMax?: number
  readonly runningMax?: number
  readonly waitingMax?: number
}

interface Waiter {
  /** It has an id of its own, by which it can be cancelled. */
  readonly task: QueryTask
  readonly fairKey: string
  readonly verify: () => void
  readonly gone: AbortSignal | undefined
  readonly resolve: (done: QueryDone) => void
  readonly reject: (error: Error) => void
  /** When it began to wait, and the timer that ends that; undefined: it did not wait. */
  wait: { readonly sinceMs: number; readonly timer: NodeJS.Timeout } | undefined
}

/** An engine whose process is started by the first query, or by `warm`. */
export interface LazyEngine extends QueryEngine {
  /** Starts the process if no query has started it. */
  warm(): void
}

/**
 * The engine of a server, whose start does not wait for DuckDB. Both folders must exist.
 *
 * DuckDB's library is loaded here, so that a failure ends the start and not the first query. Merges
 * need it in this process too.
 * @throws CannotRun if DuckDB's library cannot be loaded
 */
export function createQueryEngine(options: EngineOptions): LazyEngine {
  loadPackage('@duckdb/node-api')
  return new EngineClient(options)
}

/** Starts the process. Resolves when it can run queries. Both folders must exist. */
export async function openQueryEngine(options: EngineOptions): Promise<QueryEngine> {
  const engine = new EngineClient(options)
  await engine.open()
  return engine
}

class EngineClient implements LazyEngine {
  readonly #options: EngineOptions
  readonly #runningMax: number
  readonly #queryMsMax: number
  readonly #waitingMax: number
  readonly #waiting: FairQueue<Waiter>
  #running = 0
  /** Queries whose files are being checked. */
  #checking = 0
  /** Queries so far: the id of the last one. */
  #queries = 0
  /** Running queries by application. */
  readonly #runningOf = new Map<string, number>()
  /**
   * The unfinished queries of each client. Its signal has one listener for all of them: a document
   * asks hundreds of questions, and Node takes more than ten listeners for a leak.
   */
  readonly #ofClient = new Map<AbortSignal, Set<Waiter>>()
  readonly #onGone = ({ target }: Event) => {
    for (const waiter of [...(this.#ofClient.get(target as AbortSignal) ?? [])]) this.#cancel(waiter)
  }
  readonly #process: EngineProcess
  #ended: Unavailable | undefined
  readonly #parses = new ParseQueue(text => this.#parse(text))
  readonly #expressions = new ExpressionCache((text, fairKey) => this.#parses.run(text, fairKey))
  readonly #statementParses = new ParseQueue(text => this.#parseStatement(text))
  readonly #statements = new ExpressionCache<SqlStatement>((text, fairKey) =>
    this.#statementParses.run(text, fairKey),
  )

  constructor(options: EngineOptions) {
    this.#options = options
    this.#runningMax = options.runningMax ?? QUERIES_RUNNING_MAX
    this.#queryMsMax = options.queryMsMax ?? QUERY_MS_MAX
    this.#waitingMax = options.waitingMax ?? QUERIES_WAITING_MAX
    this.#waiting = new FairQueue(this.#waitingMax)
    this.#process = new EngineProcess({
      settings: settingsOf(options),
      crashAt: options.crashAt,
      onOpen: () => this.#startWaiting(),
      onCannotOpen: error => this.#rejectWaiting(error),
      onCrash: () => options.onCrash?.(),
    })
  }

  /** Starts the process. Resolves when it can run queries. Rejects if it fails before. */
  async open(): Promise<void> {
    try {
      await this.#process.opened()
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  warm(): void {
    this.#process.start()
  }

  async run(task: QueryTask, fairKey: string, verify = () => {}, gone?: AbortSignal): Promise<QueryDone> {
    throwIfGone(gone)
    if (this.#checking >= this.#waitingMax) throw QUEUE_FULL()
    const checked = this.#ensureWhole(task, gone)
    if (checked !== undefined) {
      await checked
      throwIfGone(gone)
    }
    const own = { ...task, id: ++this.#queries }
    let leave = () => {}
    const done = new Promise<QueryDone>((resolve, reject) => {
      const waiter: Waiter = { task: own, fairKey, verify, gone, resolve, reject, wait: undefined }
      this.#enqueue(waiter)
      leave = this.#listen(waiter)
    })
    try {
      return await done
    } finally {
      leave()
    }
  }

  /** Ends the query when its client disconnects. Returns the end of that. */
  #listen(waiter: Waiter): () => void {
    const { gone } = waiter
    if (gone === undefined) return () => {}
    const known = this.#ofClient.get(gone)
    const waiters = known ?? new Set<Waiter>()
    waiters.add(waiter)
    if (known === undefined) {
      this.#ofClient.set(gone, waiters)
      gone.addEventListener('abort', this.#onGone)
    }
    return () => {
      waiters.delete(waiter)
      if (waiters.size > 0) return
      this.#ofClient.delete(gone)
      gone.removeEventListener('abort', this.#onGone)
    }
  }

  /**
   * Checks files before the query takes a place, so that other queries go on meanwhile. undefined:
   * they are checked.
   */
  #ensureWhole(task: QueryTask, gone: AbortSignal | undefined): Promise<void> | undefined {
    const msMax = task.copyTo?.msMax ?? this.#queryMsMax
    const checked = this.#options.ensureWhole(segmentsOf(task), { msMax, gone })
    if (checked === undefined) return undefined
    this.#checking += 1
    return checked.finally(() => {
      this.#checking -= 1
    })
  }

  /** Starts the query, or lets it wait for its turn. Throws Unavailable. */
  #enqueue(waiter: Waiter): void {
    const { fairKey } = waiter
    if (this.#ended !== undefined) throw this.#ended
    this.#process.start()
    if (this.#mayRun(fairKey)) {
      void this.#start(waiter)
      return
    }
    if (!this.#waiting.tryPush(fairKey, waiter)) throw QUEUE_FULL()
    const timer = setTimeout(() => this.#giveUp(waiter, WAITED_TOO_LONG), this.#queryMsMax)
    waiter.wait = { sinceMs: monotonicMs(), timer }
  }

  /** Ends a query whose client has disconnected. */
  #cancel(waiter: Waiter): void {
    if (!this.#giveUp(waiter, CLIENT_GONE))
      this.#process.open?.tell('cancel', must(waiter.task.id, 'the id of a query'))
  }

  async parse(text: string, fairKey: string): Promise<Expression | BadQuery> {
    const problem = textProblem(text)
    return problem === undefined ? await this.#expressions.get(text, fairKey) : { badRequest: problem }
  }

  async parseStatement(text: string, fairKey: string): Promise<SqlStatement | BadQuery> {
    const problem = textProblem(text, 'statement')
    return problem === undefined ? await this.#statements.get(text, fairKey) : { badRequest: problem }
  }

  forget(files: readonly string[]): void {
    this.#process.open?.tell('forget', files)
  }

  stats(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running, waiting: this.#waiting.size }
  }

  waiting(): readonly (readonly [string, number])[] {
    return this.#waiting.sizes()
  }

  async stop(): Promise<void> {
    this.#ended ??= new Unavailable('stopping', 'Weir is stopping')
    this.#rejectWaiting(this.#ended)
    await this.#process.stop(this.#ended, STOP_MS_MAX / 2)
  }

  async #parse(text: string): Promise<Expression | BadQuery> {
    return await (await this.#process.opened()).call('parse', text)
  }

  async #parseStatement(text: string): Promise<SqlStatement | BadQuery> {
    return await (await this.#process.opened()).call('parseStatement', text)
  }

  #propellerOf(fairKey: string): Propeller | undefined {
    return this.#options.propellerOf?.(fairKey)
  }

  /** True while the process and the application's propeller have room for a query. */
  #mayRun(fairKey: string): boolean {
    if (this.#process.open === undefined || this.#running >= this.#runningMax) return false
    const propeller = this.#propellerOf(fairKey)
    return propeller === undefined || (this.#runningOf.get(fairKey) ?? 0) < RESOURCES[propeller].queriesMax
  }

  #countRunning(fairKey: string, change: 1 | -1): void {
    this.#running += change
    const count = (this.#runningOf.get(fairKey) ?? 0) + change
    if (count === 0) this.#runningOf.delete(fairKey)
    else this.#runningOf.set(fairKey, count)
  }

  /** Runs a query, then those that wait for its place. */
  async #start(waiter: Waiter): Promise<void> {
    const { fairKey, task, verify, gone } = waiter
    this.#endWait(waiter)
    this.#countRunning(fairKey, 1)
    const propeller = this.#propellerOf(fairKey)
    try {
      verify()
      const limited = propeller === undefined ? task : { ...task, propeller }
      waiter.resolve(await this.#runOrReplace(limited, gone))
    } catch (error) {
      waiter.reject(error as Error)
    }
    this.#countRunning(fairKey, -1)
    if (this.#ended === undefined) this.#startWaiting()
  }

  /** Runs a task. A process that does not end it, long after its time, is replaced. */
  async #runOrReplace(task: QueryTask, gone: AbortSignal | undefined): Promise<QueryDone> {
    const process = must(this.#process.open, 'the query process')
    const msMax = task.copyTo?.msMax ?? this.#queryMsMax
    let isReplaced = false
    const replace = () => {
      isReplaced = true
      void this.#process.replace(process, 'a query did not end after its time')
    }
    const timer = setTimeout(replace, msMax + (this.#options.queryEndMsMax ?? QUERY_END_MS_MAX))
    try {
      return await runIn(process, task, gone)
    } catch (error) {
      throw isReplaced ? TOOK_TOO_LONG() : error
    } finally {
      clearTimeout(timer)
    }
  }

  /** More than one may start: a propeller may have become larger meanwhile. */
  #startWaiting(): void {
    const mayRun = (fairKey: string) => this.#mayRun(fairKey)
    for (let next = this.#waiting.tryShift(mayRun); next !== undefined; next = this.#waiting.tryShift(mayRun))
      void this.#start(next)
  }

  #endWait({ fairKey, wait }: Waiter): void {
    if (wait === undefined) return
    clearTimeout(wait.timer)
    this.#options.onWaited?.(fairKey, monotonicMs() - wait.sinceMs)
  }

  /** Rejects a query that waits. False: it does not wait. */
  #giveUp(waiter: Waiter, why: () => Unavailable): boolean {
    if (!this.#waiting.remove(waiter.fairKey, waiter)) return false
    this.#endWait(waiter)
    waiter.reject(why())
    return true
  }

  #rejectWaiting(error: Error): void {
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift()) {
      clearTimeout(next.wait?.timer)
      next.reject(error)
    }
  }
}

const QUEUE_FULL = () => new Unavailable('queue_full', 'too many queries are waiting')
const WAITED_TOO_LONG = () => new Unavailable('queue_timeout', 'the query waited too long for its turn')
const TOOK_TOO_LONG = () => new Unavailable('timeout', 'the query took too long')
const CLIENT_GONE = () => new Unavailable('client_gone', 'the client has disconnected')

function throwIfGone(gone: AbortSignal | undefined): void {
  if (gone?.aborted === true) throw CLIENT_GONE()
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

function settingsOf(options: EngineOptions): EngineSettings {
  return {
    segmentFolder: options.segmentFolder,
    temporaryFolder: options.temporaryFolder,
    outputFolder: options.outputFolder,
    kernel: options.kernel,
    threads: options.threads,
    memoryBytes: options.memoryBytes ?? QUERY_MEMORY_BYTES,
    deletionVectorBytesMax: options.deletionVectorBytesMax ?? DELETION_VECTORS_BYTES_MAX,
    queryMsMax: options.queryMsMax ?? QUERY_MS_MAX,
  }
}
