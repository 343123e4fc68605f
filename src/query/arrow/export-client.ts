/** The main thread's side of the export thread, which the first export starts. */
import { rm } from 'node:fs/promises'
import { Unavailable } from '../../util/errors.ts'
import { QUERY_NICE } from '../../util/limits.ts'
import { startThread, type Thread } from '../../util/thread-kit.ts'
import type { QueryColumn } from '../expression/operand.ts'
import type { Table } from '../plan/answer-table.ts'
import type {
  BatchSource,
  CopiedFile,
  ExportCalls,
  ExportText,
  ParquetPart,
  PartOfFile,
} from './export-stream.ts'

export class ExportClient {
  #thread: Thread<ExportCalls> | undefined
  #isStopped = false

  /** See OpenBatches. Rejects with Unavailable: `stopping`, or `export_thread` if that failed. */
  async open(copied: CopiedFile, text?: ExportText): Promise<BatchSource> {
    let thread: Thread<ExportCalls>
    let file: number
    try {
      thread = this.#running()
      file = await thread.call('open', text === undefined ? copied : { ...copied, text })
    } catch (error) {
      await rm(copied.file, { force: true }) // the thread may have failed before it opened the file
      throw error
    }
    let room: ArrayBuffer | undefined
    return {
      next: async () => {
        const bytes = await thread.call('next', { file, room }, room === undefined ? [] : [room])
        room = bytes?.buffer as ArrayBuffer | undefined
        return bytes
      },
      close: async () => {
        try {
          await thread.call('close', file)
        } catch (error) {
          // After Unavailable the thread has ended, and its files are closed.
          if (!(error instanceof Unavailable)) throw error
        }
      },
    }
  }

  /** The first message of a stream. The thread makes it, because loading Arrow takes 0.1 s. */
  async schema(columns: readonly QueryColumn[]): Promise<Uint8Array> {
    return await this.#running().call('schema', columns)
  }

  /** See ExportCalls. */
  async hasTypes(schema: Uint8Array, columns: readonly QueryColumn[]): Promise<boolean> {
    return await this.#running().call('hasTypes', { schema, columns })
  }

  /** @param batch is moved to the thread */
  async lines(batch: Uint8Array<ArrayBuffer>, text: ExportText): Promise<Uint8Array> {
    return await this.#running().call('lines', { batch, text }, [batch.buffer])
  }

  /** See parquetPart. */
  async part(of: PartOfFile): Promise<ParquetPart> {
    return await this.#running().call('part', of)
  }

  async table(table: Table): Promise<Uint8Array> {
    return await this.#running().call('table', table)
  }

  /** Rejects running and later calls with Unavailable. The thread's files close with it. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#thread?.giveUp(stopping())
    await this.#thread?.stop().catch(() => {}) // a thread that failed has ended too
  }

  #running(): Thread<ExportCalls> {
    if (this.#isStopped) throw stopping()
    this.#thread ??= startThread<ExportCalls>({
      name: 'export',
      data: undefined,
      nice: QUERY_NICE,
      lost: error =>
        this.#isStopped
          ? stopping()
          : new Unavailable('export_thread', `the export thread failed: ${error.message}`),
      // A failure of this thread loses nothing durable: its exports fail, and the next export
      // starts another thread.
      onCrash: () => {
        if (!this.#isStopped) this.#thread = undefined
      },
    })
    return this.#thread
  }
}

function stopping(): Unavailable {
  return new Unavailable('stopping', 'Weir is stopping')
}
