/**
 * The thread of one import. Bytes come in and batches go out, both as the main thread asks:
 *
 *   give ──► pieces ──► inflate ──► a reader of the format ──► batches ──► next
 *
 *   W-9  The thread holds PIECES_MAX pieces of the body, one decoded piece and one batch.
 */
import type { MessagePort } from 'node:worker_threads'
import { must } from '../../util/assert.ts'
import { moved, serve } from '../../util/thread-server.ts'
import { CsvReader } from './csv.ts'
import {
  BodyBroken,
  type Done,
  type ImportCalls,
  type ImportOptions,
  type NextAnswer,
  type RowBatch,
} from './import-types.ts'
import { inflate, type Pieces } from './inflate.ts'
import { LineReader, type RowReader } from './lines.ts'
import { parquetBatches } from './parquet.ts'
import { RowBatches } from './row-batches.ts'

/** Pieces of the body that wait. The next `give` is answered when there is room for another. */
const PIECES_MAX = 2

/** Serves the main thread's calls until it stops the thread. */
export function serveImport(port: MessagePort): void {
  let input: PieceQueue | undefined
  let batches: RowBatches | undefined
  let output: AsyncIterator<RowBatch, Done> | undefined
  serve<ImportCalls>(port, {
    open: options => {
      input = new PieceQueue()
      batches = new RowBatches(options)
      output = batchesOf(options, input, batches)
    },
    give: piece => must(input, 'an open import').give(piece),
    end: () => must(input, 'an open import').end(),
    next: async room => {
      if (room !== undefined) must(batches, 'an open import').giveBack(room)
      const answer = await nextOf(must(output, 'an open import'))
      return 'batch' in answer ? moved(answer, buffersOf(answer.batch)) : answer
    },
  })
}

async function nextOf(output: AsyncIterator<RowBatch, Done>): Promise<NextAnswer> {
  try {
    const next = await output.next()
    return next.done === true ? { done: next.value } : { batch: next.value }
  } catch (error) {
    if (!(error instanceof BodyBroken)) throw error
    return { broken: { code: error.code, message: error.message } }
  }
}

function buffersOf({ body, places }: RowBatch): ArrayBuffer[] {
  return body.byteLength === 0
    ? [places.buffer as ArrayBuffer]
    : [body.buffer as ArrayBuffer, places.buffer as ArrayBuffer]
}

/** The batches of a body. After BodyBroken all rows before the place of the damage were given. */
export async function* batchesOf(
  options: ImportOptions,
  input: Pieces,
  batches: RowBatches,
): AsyncGenerator<RowBatch, Done, void> {
  if (options.format === 'parquet')
    return yield* parquetBatches(options, inflate(input, options.encoding), batches)
  const reader = readerOf(options, batches)
  try {
    for await (const piece of inflate(input, options.encoding)) yield* reader.read(piece)
    yield* reader.end()
  } catch (error) {
    if (error instanceof BodyBroken) yield* reader.flush()
    throw error
  }
  return { rows: batches.rows, bytes: reader.bytes }
}

function readerOf({ format, columns }: ImportOptions, batches: RowBatches): RowReader {
  return format === 'csv' ? new CsvReader(batches, columns) : new LineReader(batches)
}

/** The pieces of a body between the calls that bring them and the reader that takes them. */
class PieceQueue implements AsyncIterable<Uint8Array> {
  readonly #pieces: Uint8Array[] = []
  #isEnded = false
  #changed: () => void = () => {}

  /** Resolves when there is room for another piece. */
  async give(piece: Uint8Array): Promise<void> {
    this.#pieces.push(piece)
    this.#changed()
    while (this.#pieces.length >= PIECES_MAX) await this.#change()
  }

  end(): void {
    this.#isEnded = true
    this.#changed()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, void> {
    for (;;) {
      const piece = this.#pieces.shift()
      this.#changed()
      if (piece !== undefined) yield piece
      else if (this.#isEnded) return
      else await this.#change()
    }
  }

  /** Both sides wait for the other one, never at the same time. */
  #change(): Promise<void> {
    return new Promise(resolve => {
      this.#changed = resolve
    })
  }
}
