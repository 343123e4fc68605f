/** The export thread: files opened by the main thread's ids, one answer to each question. */
import { toWire } from '../errors.ts'
import { must } from '../util/assert.ts'
import { openBatches } from './batches.ts'
import type { BatchSource, FromExport, ToExport } from './protocol.ts'
import { schemaMessage } from './schema.ts'

type Tell = (message: FromExport, move: readonly ArrayBuffer[]) => void

export class ExportService {
  readonly #tell: Tell
  readonly #open = new Map<number, BatchSource>()

  constructor(tell: Tell) {
    this.#tell = tell
  }

  async handle(message: Exclude<ToExport, { kind: 'stop' }>): Promise<void> {
    const { id } = message
    try {
      const bytes = await this.#answer(message)
      const moved = bytes === undefined ? [] : [bytes.buffer as ArrayBuffer]
      this.#tell({ kind: 'done', id, bytes }, moved)
    } catch (error) {
      this.#tell({ kind: 'failed', id, error: toWire(error) }, [])
    }
  }

  async #answer(message: Exclude<ToExport, { kind: 'stop' }>): Promise<Uint8Array | undefined> {
    const { id } = message
    if (message.kind === 'open') {
      this.#open.set(id, await openBatches(message.copied))
      return undefined
    }
    if (message.kind === 'schema') return new Uint8Array(schemaMessage(message.columns))
    const source = must(this.#open.get(id), 'an open file')
    if (message.kind === 'next') return await source.next(message.room)
    this.#open.delete(id)
    await source.close()
    return undefined
  }
}
