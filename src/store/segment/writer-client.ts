/**
 * SegmentWriter over the segment thread. Jobs are posted as they come and done in order; the flusher has at most
 * FLUSHES_MAX under way, so that the next one waits in the thread's queue while one is written.
 */
import { Worker } from 'node:worker_threads'
import { assert } from '../../util/assert.ts'
import { fromWire, Unavailable } from '../../util/errors.ts'
import {
  buffersOf,
  type FlushDone,
  FlushFailed,
  type FlushTask,
  type SegmentAnswer,
  type SegmentRequest,
  type SegmentWorkerData,
  type SegmentWriter,
} from '../flush/flush-types.ts'

interface Waiter {
  readonly resolve: (answer: FlushDone | undefined) => void
  readonly reject: (error: Error) => void
}

/** Starts the segment thread. */
export class SegmentWriterClient implements SegmentWriter {
  readonly #worker: Worker
  readonly #waiters = new Map<number, Waiter>()
  #nextId = 1
  #lost: Error | undefined
  readonly #ended: Promise<void>

  /** @param onLost called when the thread ended by a fault: its entries are gone from memory, so the process
   *  must end and recover them from the log */
  constructor(data: SegmentWorkerData, onLost: (error: Error) => void) {
    this.#worker = new Worker(new URL('../../../workers/segment.js', import.meta.url), { workerData: data })
    this.#worker.on('message', (answer: SegmentAnswer) => this.#settle(answer))
    this.#ended = new Promise(resolve => this.#worker.on('exit', () => resolve()))
    this.#worker.on('error', error => {
      this.#lost = error
      for (const waiter of this.#waiters.values()) waiter.reject(error)
      this.#waiters.clear()
      onLost(error)
    })
  }

  /** See SegmentWriter. The entries' batches and requests are moved. */
  async flush(task: FlushTask): Promise<FlushDone> {
    const done = await this.#post({ id: this.#nextId++, do: 'flush', task }, buffersOf(task.entries))
    assert(done !== undefined, 'a flush has an answer')
    return done
  }

  /** See SegmentWriter. */
  async unlink(folder: string, segments: readonly number[]): Promise<void> {
    await this.#post({ id: this.#nextId++, do: 'unlink', folder, segments }, [])
  }

  /** Resolves when everything posted before is done and the thread has ended. */
  async stop(): Promise<void> {
    if (this.#lost === undefined) await this.#post({ id: this.#nextId++, do: 'stop' }, [])
    await this.#ended
  }

  #post(request: SegmentRequest, buffers: ArrayBuffer[]): Promise<FlushDone | undefined> {
    if (this.#lost !== undefined)
      return Promise.reject(new Unavailable('segment_thread_lost', this.#lost.message))
    return new Promise((resolve, reject) => {
      this.#waiters.set(request.id, { resolve, reject })
      this.#worker.postMessage(request, buffers)
    })
  }

  #settle(answer: SegmentAnswer): void {
    const waiter = this.#waiters.get(answer.id)
    assert(waiter !== undefined, 'an answer belongs to a request')
    this.#waiters.delete(answer.id)
    if ('error' in answer) waiter.reject(failed(answer))
    else waiter.resolve(answer.done)
  }
}

function failed(answer: Extract<SegmentAnswer, { error: unknown }>): Error {
  const cause = fromWire(answer.error)
  if (answer.entries.length === 0) return cause
  return Object.assign(new FlushFailed(cause.message, answer.entries), { cause })
}
