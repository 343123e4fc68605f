/** The export thread as the main thread sees it. Started by the first export, kept until the stop. */
import { Worker } from 'node:worker_threads'
import { fromWire, Unavailable } from '../errors.ts'
import { assert } from '../util/assert.ts'
import type { BatchSource, CopiedFile, FromExport, ToExport } from './protocol.ts'

interface Waiter {
  readonly resolve: (bytes: Uint8Array | undefined) => void
  readonly reject: (error: Error) => void
}

export class ExportClient {
  #worker: Worker | undefined
  #ended: Unavailable | undefined
  #nextId = 1
  /** One question of an id at a time. */
  readonly #waiting = new Map<number, Waiter>()

  /** See OpenBatches. Rejects with Unavailable once stopped. */
  async open(copied: CopiedFile): Promise<BatchSource> {
    const id = this.#nextId++
    await this.#ask({ kind: 'open', id, copied })
    let room: ArrayBuffer | undefined
    return {
      next: async () => {
        const bytes = await this.#ask({ kind: 'next', id, room }, room === undefined ? [] : [room])
        room = bytes?.buffer as ArrayBuffer | undefined
        return bytes
      },
      close: async () => {
        await this.#ask({ kind: 'close', id })
      },
    }
  }

  /** What is asked from now on, or waits, rejects. Open files go with the thread. */
  async stop(): Promise<void> {
    this.#end(new Unavailable('stopping', 'Weir is stopping'))
    const worker = this.#worker
    if (worker === undefined) return
    const exited = new Promise(resolve => worker.once('exit', resolve))
    worker.postMessage({ kind: 'stop' } satisfies ToExport)
    await exited
  }

  #ask(
    message: Exclude<ToExport, { kind: 'stop' }>,
    move: readonly ArrayBuffer[] = [],
  ): Promise<Uint8Array | undefined> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) throw this.#ended
      assert(!this.#waiting.has(message.id), 'one question of a file at a time')
      this.#waiting.set(message.id, { resolve, reject })
      this.#worker ??= this.#start()
      this.#worker.postMessage(message, move)
    })
  }

  #start(): Worker {
    const worker = new Worker(new URL('../../workers/export.js', import.meta.url))
    worker.on('message', (message: FromExport) => {
      const waiter = this.#waiting.get(message.id)
      this.#waiting.delete(message.id)
      if (message.kind === 'done') waiter?.resolve(message.bytes)
      else waiter?.reject(fromWire(message.error))
    })
    worker.on('error', error => this.#lost(worker, error instanceof Error ? error : new Error(String(error))))
    worker.on('exit', code => this.#lost(worker, new Error(`the export thread ended with code ${code}`)))
    return worker
  }

  /** Nothing durable is lost with this thread: what it read is given up, and the next export starts another. */
  #lost(worker: Worker, error: Error): void {
    if (this.#worker !== worker) return
    this.#worker = undefined
    this.#rejectAll(new Unavailable('export_thread', `the export thread failed: ${error.message}`))
  }

  #end(error: Unavailable): void {
    this.#ended ??= error
    this.#rejectAll(error)
  }

  #rejectAll(error: Unavailable): void {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
