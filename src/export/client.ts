/** The export thread as the main thread sees it. Started by the first export, kept until the stop. */
import { rm } from 'node:fs/promises'
import { Worker } from 'node:worker_threads'
import { fromWire, Unavailable } from '../errors.ts'
import { assert, must } from '../util/assert.ts'
import type { BatchSource, CopiedFile, ExportColumn, FromExport, ToExport } from './protocol.ts'

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
    const worker = this.#running()
    try {
      await this.#ask(worker, { kind: 'open', id, copied })
    } catch (error) {
      await rm(copied.file, { force: true }) // nobody may have come to open it
      throw error
    }
    let room: ArrayBuffer | undefined
    return {
      next: async () => {
        const bytes = await this.#ask(worker, { kind: 'next', id, room }, room === undefined ? [] : [room])
        room = bytes?.buffer as ArrayBuffer | undefined
        return bytes
      },
      close: async () => {
        try {
          await this.#ask(worker, { kind: 'close', id })
        } catch (error) {
          if (this.#whyGone(worker) === undefined) throw error // else the file went with its thread
        }
      },
    }
  }

  /** The message that begins a stream of `columns`. Made here: Arrow is a tenth of a second that the main thread does not have. */
  async schema(columns: readonly ExportColumn[]): Promise<Uint8Array> {
    const bytes = await this.#ask(this.#running(), { kind: 'schema', id: this.#nextId++, columns })
    return must(bytes, 'a schema')
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

  /** Started where there is none; undefined: stopped. */
  #running(): Worker | undefined {
    this.#worker ??= this.#ended === undefined ? this.#start() : undefined
    return this.#worker
  }

  /** `worker`: the one that has the file, or is to open it. Rejects with Unavailable where it is gone. */
  #ask(
    worker: Worker | undefined,
    message: Exclude<ToExport, { kind: 'stop' }>,
    move: readonly ArrayBuffer[] = [],
  ): Promise<Uint8Array | undefined> {
    return new Promise((resolve, reject) => {
      const gone = this.#whyGone(worker)
      if (gone !== undefined) throw gone
      assert(!this.#waiting.has(message.id), 'one question of a file at a time')
      this.#waiting.set(message.id, { resolve, reject })
      worker?.postMessage(message, move)
    })
  }

  #whyGone(worker: Worker | undefined): Unavailable | undefined {
    if (this.#ended !== undefined) return this.#ended
    if (worker !== undefined && worker === this.#worker) return undefined
    return new Unavailable('export_thread', 'the export thread that had this file failed')
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
