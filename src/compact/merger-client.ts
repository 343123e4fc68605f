/** Merger over the merge thread. */
import { Worker } from 'node:worker_threads'
import { fromWire, SegmentDamaged, Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import type { FromMerger, MergeThreadData, ToMerger } from './messages.ts'
import type { MergeDone, MergeJob, Merger, Pace } from './protocol.ts'

interface Waiter {
  readonly resolve: (done: MergeDone) => void
  readonly reject: (error: Error) => void
}

/** Starts the merge thread. */
export class MergerClient implements Merger {
  readonly #worker: Worker
  readonly #exited: Promise<void>
  #waiter: Waiter | undefined
  #ended: Unavailable | undefined

  /** @param onFault called once when the thread ends without being told to: no merge can run any more */
  constructor(data: MergeThreadData, onFault: (error: Error) => void) {
    this.#worker = new Worker(new URL('../../workers/merge.js', import.meta.url), { workerData: data })
    this.#worker.on('message', (answer: FromMerger) => this.#settle(answer))
    this.#worker.on('error', error =>
      this.#fail(error instanceof Error ? error : new Error(String(error)), onFault),
    )
    this.#exited = new Promise(resolve => {
      this.#worker.once('exit', code => {
        this.#fail(new Error(`the merge thread ended with code ${code}`), onFault)
        resolve()
      })
    })
  }

  /** See Merger. */
  merge(job: MergeJob): Promise<MergeDone> {
    assert(this.#waiter === undefined, 'one merge at a time')
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject }
      this.#send({ do: 'merge', job })
    })
  }

  /** See Merger. */
  setPace(pace: Pace): void {
    if (this.#ended === undefined) this.#send({ do: 'pace', pace })
  }

  /** Gives up a running merge, which rejects with Unavailable (`stopping`); resolves when the thread has ended. */
  async stop(): Promise<void> {
    if (this.#ended === undefined) {
      this.#ended = new Unavailable('stopping', 'Weir is stopping')
      this.#send({ do: 'stop' })
    }
    // NOTE: never terminate(): ending the thread inside a DuckDB call aborts the process.
    await this.#exited
  }

  #send(message: ToMerger): void {
    this.#worker.postMessage(message)
  }

  #settle(answer: FromMerger): void {
    const waiter = this.#waiter
    assert(waiter !== undefined, 'an answer belongs to a merge')
    this.#waiter = undefined
    if ('done' in answer) waiter.resolve(answer.done)
    else waiter.reject(refused(fromWire(answer.error)))
  }

  #fail(error: Error, onFault: (error: Error) => void): void {
    const isFault = this.#ended === undefined
    this.#ended ??= new Unavailable('merge_thread_lost', `the merge thread failed: ${error.message}`)
    this.#waiter?.reject(this.#ended)
    this.#waiter = undefined
    if (isFault) onFault(error)
  }
}

/** What the file system refused is the disk's, and comes as Unavailable. */
function refused(error: Error): Error {
  if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
  return Object.assign(new Unavailable('merge_io', error.message), { cause: error })
}
