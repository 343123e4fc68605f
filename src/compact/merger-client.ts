/**
 * Merger over the merge thread, which is started for the first merge and ended when none came for a while: a server that
 * has nothing to merge keeps no second DuckDB in memory, and its start does not wait for one.
 */
import { Worker } from 'node:worker_threads'
import { fromWire, SegmentDamaged, Unavailable } from '../errors.ts'
import { MERGE_THREAD_IDLE_MS } from '../limits.ts'
import { assert } from '../util/assert.ts'
import type { FromMerger, MergeThreadData, ToMerger } from './messages.ts'
import type { MergeDone, MergeJob, Merger, Pace } from './protocol.ts'

interface Waiter {
  readonly resolve: (done: MergeDone) => void
  readonly reject: (error: Error) => void
}

/** A thread, and what ends with it. */
interface Thread {
  readonly worker: Worker
  readonly exited: Promise<void>
  /** It was told to end. */
  isStopping: boolean
}

export class MergerClient implements Merger {
  readonly #data: MergeThreadData
  readonly #onFault: (error: Error) => void
  readonly #idleMs: number
  #pace: Pace
  #thread: Thread | undefined
  /** Of a thread that was told to end: the next one starts after it. */
  #exited: Promise<void> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined
  #waiter: Waiter | undefined
  #ended: Unavailable | undefined

  /**
   * @param onFault called once when a thread ends without being told to: no merge can run any more
   * @param idleMs a thread without a merge ends after this
   */
  constructor(data: MergeThreadData, onFault: (error: Error) => void, idleMs = MERGE_THREAD_IDLE_MS) {
    this.#data = data
    this.#pace = data.pace
    this.#onFault = onFault
    this.#idleMs = idleMs
  }

  /** See Merger. */
  async merge(job: MergeJob): Promise<MergeDone> {
    assert(this.#waiter === undefined, 'one merge at a time')
    clearTimeout(this.#idle)
    if (this.#thread === undefined) await this.#exited
    if (this.#ended !== undefined) throw this.#ended
    this.#thread ??= this.#start()
    const thread = this.#thread
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject }
      send(thread, { do: 'merge', job })
    })
  }

  /** Resolves when no thread runs any more: it ends `idleMs` after its last merge. */
  ended(): Promise<void> {
    return this.#thread?.exited ?? this.#exited
  }

  /** See Merger. */
  setPace(pace: Pace): void {
    if (pace === this.#pace) return
    this.#pace = pace
    if (this.#thread !== undefined) send(this.#thread, { do: 'pace', pace })
  }

  /** Gives up a running merge, which rejects with Unavailable (`stopping`); resolves when the thread has ended. */
  async stop(): Promise<void> {
    this.#ended ??= new Unavailable('stopping', 'Weir is stopping')
    clearTimeout(this.#idle)
    this.#endThread()
    await this.#exited
  }

  #start(): Thread {
    const workerData: MergeThreadData = { ...this.#data, pace: this.#pace }
    const worker = new Worker(new URL('../../workers/merge.js', import.meta.url), { workerData })
    const exited = new Promise<void>(resolve => {
      worker.once('exit', code => {
        if (!thread.isStopping) this.#fail(new Error(`the merge thread ended with code ${code}`))
        this.#giveUp()
        resolve()
      })
    })
    const thread: Thread = { worker, exited, isStopping: false }
    worker.on('message', (answer: FromMerger) => this.#settle(answer))
    worker.on('error', error => this.#fail(error instanceof Error ? error : new Error(String(error))))
    return thread
  }

  /** NOTE: never terminate(): ending the thread inside a DuckDB call aborts the process. */
  #endThread(): void {
    const thread = this.#thread
    if (thread === undefined) return
    thread.isStopping = true
    this.#thread = undefined
    this.#exited = thread.exited
    send(thread, { do: 'stop' })
  }

  #settle(answer: FromMerger): void {
    const waiter = this.#waiter
    assert(waiter !== undefined, 'an answer belongs to a merge')
    this.#waiter = undefined
    this.#idle = setTimeout(() => this.#endThread(), this.#idleMs).unref()
    if ('done' in answer) waiter.resolve(answer.done)
    else waiter.reject(refused(fromWire(answer.error)))
  }

  #fail(error: Error): void {
    const isFault = this.#ended === undefined
    this.#ended ??= new Unavailable('merge_thread_lost', `the merge thread failed: ${error.message}`)
    this.#giveUp()
    if (isFault) this.#onFault(error)
  }

  /** A merge whose thread is gone. */
  #giveUp(): void {
    this.#waiter?.reject(this.#ended ?? new Unavailable('stopping', 'Weir is stopping'))
    this.#waiter = undefined
  }
}

function send(thread: Thread, message: ToMerger): void {
  thread.worker.postMessage(message)
}

/** What the file system refused is the disk's, and comes as Unavailable. */
function refused(error: Error): Error {
  if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
  return Object.assign(new Unavailable('merge_io', error.message), { cause: error })
}
