/**
 * The query stage on the main thread: a bounded, fair queue before the query worker (W-9).
 *
 *   run ──► waiting, one lane per application ──► at most `runningMax` in the worker ──► answer
 */
import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { CannotRun, fromWire, Unavailable } from '../errors.ts'
import {
  QUERIES_RUNNING_MAX,
  QUERIES_WAITING_MAX,
  QUERY_MEMORY_BYTES,
  QUERY_MS_MAX,
  STOP_MS_MAX,
} from '../limits.ts'
import { FairQueue } from './fair-queue.ts'
import type { QueryDone, QueryEngine, QueryJob } from './protocol.ts'
import type { EngineWorkerData, FromEngine, ToEngine } from './wire.ts'

/** Where the engine works; the rest has its default in limits.ts and is given by tests only. */
export interface EngineOptions {
  readonly segmentFolder: string
  readonly temporaryFolder: string
  /** See EngineSettings. */
  readonly outputFolder?: string | undefined
  readonly kernel?: 'native' | 'js' | undefined
  readonly threads: number
  readonly crashAt: string
  /** Called once when the worker ends without being told to: no query can run any more. */
  readonly onFault: (error: Error) => void
  readonly memoryBytes?: number
  readonly queryMsMax?: number
  readonly runningMax?: number
  readonly waitingMax?: number
}

interface Waiter {
  readonly job: QueryJob
  readonly fairKey: string
  readonly resolve: (done: QueryDone) => void
  readonly reject: (error: Error) => void
  timer: NodeJS.Timeout | undefined
}

/** An engine whose worker is started by the first query, or by `warm`. */
export interface LazyEngine extends QueryEngine {
  /** Starts the worker where no query did. A failure to start is a fault, as its later end would be. */
  warm(): void
}

/**
 * The engine of a server, whose start does not wait for DuckDB. Both folders must exist.
 * @throws CannotRun where DuckDB is not installed for this machine: nobody should learn it from the first query
 */
export function createQueryEngine(options: EngineOptions): LazyEngine {
  checkInstalled()
  return new EngineClient(options)
}

/** Starts the worker; resolves when it can run queries. Both folders must exist. */
export async function openQueryEngine(options: EngineOptions): Promise<QueryEngine> {
  const engine = new EngineClient(options)
  await engine.open()
  return engine
}

/** DuckDB's library is a package of its own for each kind of machine. */
function checkInstalled(): void {
  const library = `@duckdb/node-bindings-${process.platform}-${process.arch}`
  const { resolve } = createRequire(createRequire(import.meta.url).resolve('@duckdb/node-bindings'))
  for (const name of [library, `${library}-musl`]) {
    try {
      resolve(`${name}/duckdb.node`)
      return
    } catch {
      // Told below, where none is there.
    }
  }
  throw new CannotRun(`DuckDB is not installed for this machine: the package ${library} is missing`)
}

class EngineClient implements LazyEngine {
  readonly #options: EngineOptions
  readonly #runningMax: number
  readonly #queryMsMax: number
  readonly #waiting: FairQueue<Waiter>
  readonly #running = new Map<number, Waiter>()
  /** undefined: not started yet. */
  #worker: Worker | undefined
  #exited: Promise<void> = Promise.resolve()
  #nextId = 1
  #ended: Unavailable | undefined

  constructor(options: EngineOptions) {
    this.#options = options
    this.#runningMax = options.runningMax ?? QUERIES_RUNNING_MAX
    this.#queryMsMax = options.queryMsMax ?? QUERY_MS_MAX
    this.#waiting = new FairQueue(options.waitingMax ?? QUERIES_WAITING_MAX)
  }

  /** Starts the worker; resolves when it can run queries, which may be sent at once. Rejects where it fails before. */
  async open(): Promise<void> {
    const worker = new Worker(new URL('../../workers/query.js', import.meta.url), {
      workerData: workerDataOf(this.#options),
    })
    this.#worker = worker
    await new Promise<void>((opened, failed) => {
      let isOpen = false
      const fail = (error: Error) => (isOpen ? this.#fail(error) : failed(error))
      worker.on('message', (message: FromEngine) => {
        isOpen = true // the first one says so
        opened()
        this.#take(message)
      })
      worker.on('error', error => fail(error instanceof Error ? error : new Error(String(error))))
      this.#exited = new Promise(exited => {
        worker.once('exit', code => {
          fail(new Error(`the query worker ended with code ${code}`))
          exited()
        })
      })
    })
  }

  warm(): void {
    if (this.#worker === undefined && this.#ended === undefined)
      this.open().catch((error: Error) => this.#fail(error))
  }

  run(job: QueryJob, fairKey: string): Promise<QueryDone> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) throw this.#ended
      this.warm()
      const waiter: Waiter = { job, fairKey, resolve, reject, timer: undefined }
      if (this.#running.size < this.#runningMax) return this.#start(waiter)
      if (!this.#waiting.tryPush(fairKey, waiter))
        throw new Unavailable('queue_full', 'too many queries are waiting')
      waiter.timer = setTimeout(() => this.#giveUp(waiter), this.#queryMsMax)
    })
  }

  stats(): { readonly running: number; readonly waiting: number } {
    return { running: this.#running.size, waiting: this.#waiting.size }
  }

  async stop(): Promise<void> {
    if (this.#ended === undefined) {
      this.#ended = new Unavailable('stopping', 'Weir is stopping')
      this.#rejectWaiting(this.#ended)
      this.#send({ kind: 'stop' })
    }
    // NOTE: never terminate(): ending the thread inside a DuckDB call aborts the process (Napi::Error).
    let last: NodeJS.Timeout | undefined
    const late = new Promise<void>(resolve => {
      last = setTimeout(resolve, STOP_MS_MAX / 2)
    })
    await Promise.race([this.#exited, late])
    clearTimeout(last)
    this.#worker?.unref()
  }

  #send(message: ToEngine): void {
    this.#worker?.postMessage(message)
  }

  #start(waiter: Waiter): void {
    clearTimeout(waiter.timer)
    const id = this.#nextId++
    this.#running.set(id, waiter)
    this.#send({ kind: 'run', id, job: waiter.job })
  }

  #giveUp(waiter: Waiter): void {
    this.#waiting.remove(waiter.fairKey, waiter)
    waiter.reject(new Unavailable('timeout', 'the query waited too long for its turn'))
  }

  #take(message: FromEngine): void {
    if (message.kind === 'ready') return
    const waiter = this.#running.get(message.id)
    this.#running.delete(message.id)
    if (message.kind === 'done') waiter?.resolve(message.done)
    else waiter?.reject(fromWire(message.error))
    if (this.#ended !== undefined) return
    const next = this.#waiting.tryShift()
    if (next !== undefined) this.#start(next)
  }

  /** The worker is gone: nothing that runs or waits will be answered by it. */
  #fail(error: Error): void {
    const fault = this.#ended === undefined
    this.#ended ??= new Unavailable('query_worker', `the query worker failed: ${error.message}`)
    this.#rejectWaiting(this.#ended)
    for (const waiter of this.#running.values()) waiter.reject(this.#ended)
    this.#running.clear()
    if (fault) this.#options.onFault(error)
  }

  #rejectWaiting(error: Error): void {
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift()) {
      clearTimeout(next.timer)
      next.reject(error)
    }
  }
}

function workerDataOf(options: EngineOptions): EngineWorkerData {
  return {
    segmentFolder: options.segmentFolder,
    temporaryFolder: options.temporaryFolder,
    outputFolder: options.outputFolder,
    kernel: options.kernel,
    threads: options.threads,
    memoryBytes: options.memoryBytes ?? QUERY_MEMORY_BYTES,
    queryMsMax: options.queryMsMax ?? QUERY_MS_MAX,
    crashAt: options.crashAt,
  }
}
