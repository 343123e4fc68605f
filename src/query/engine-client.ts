/**
 * The query stage on the main thread: a bounded, fair queue before the query worker (W-9).
 *
 *   run ──► waiting, one lane per application ──► at most `runningMax` in the worker ──► answer
 */
import { Worker } from 'node:worker_threads'
import { fromWire, Unavailable } from '../errors.ts'
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

/** Starts the worker; resolves when it can run queries. Both folders must exist. */
export async function openQueryEngine(options: EngineOptions): Promise<QueryEngine> {
  const workerData: EngineWorkerData = {
    segmentFolder: options.segmentFolder,
    temporaryFolder: options.temporaryFolder,
    outputFolder: options.outputFolder,
    kernel: options.kernel,
    threads: options.threads,
    memoryBytes: options.memoryBytes ?? QUERY_MEMORY_BYTES,
    queryMsMax: options.queryMsMax ?? QUERY_MS_MAX,
    crashAt: options.crashAt,
  }
  const worker = new Worker(new URL('../../workers/query.js', import.meta.url), { workerData })
  await new Promise<void>((resolve, reject) => {
    worker.once('message', () => resolve())
    worker.once('error', reject)
  })
  worker.removeAllListeners('error')
  return new EngineClient(worker, options)
}

class EngineClient implements QueryEngine {
  readonly #worker: Worker
  readonly #runningMax: number
  readonly #queryMsMax: number
  readonly #onFault: (error: Error) => void
  readonly #waiting: FairQueue<Waiter>
  readonly #running = new Map<number, Waiter>()
  readonly #exited: Promise<void>
  #nextId = 1
  #ended: Unavailable | undefined

  constructor(worker: Worker, options: EngineOptions) {
    this.#worker = worker
    this.#runningMax = options.runningMax ?? QUERIES_RUNNING_MAX
    this.#queryMsMax = options.queryMsMax ?? QUERY_MS_MAX
    this.#onFault = options.onFault
    this.#waiting = new FairQueue(options.waitingMax ?? QUERIES_WAITING_MAX)
    worker.on('message', (message: FromEngine) => this.#take(message))
    worker.on('error', error => this.#fail(error instanceof Error ? error : new Error(String(error))))
    this.#exited = new Promise(resolve => {
      worker.once('exit', code => {
        this.#fail(new Error(`the query worker ended with code ${code}`))
        resolve()
      })
    })
  }

  run(job: QueryJob, fairKey: string): Promise<QueryDone> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) throw this.#ended
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
    this.#worker.unref()
  }

  #send(message: ToEngine): void {
    this.#worker.postMessage(message)
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
    if (fault) this.#onFault(error)
  }

  #rejectWaiting(error: Error): void {
    for (let next = this.#waiting.tryShift(); next !== undefined; next = this.#waiting.tryShift()) {
      clearTimeout(next.timer)
      next.reject(error)
    }
  }
}
