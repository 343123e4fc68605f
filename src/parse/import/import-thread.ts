/**
 * The thread of one import. Bytes come in and batches go out, both as the main thread asks:
 *
 *   give ──► pieces ──► inflate ──► a reader of the format ──► batches ──► next
 *
 *   W-9  The thread holds PIECES_MAX pieces of the body, one decoded piece and one batch.
 */
import type { MessagePort } from 'node:worker_threads'
import { must } from '../../util/errors.ts'
import { moved, serve } from '../../util/thread-server.ts'
import type { Pieces } from '../gunzip.ts'
import { CsvReader } from './csv.ts'
import type { Done, ImportCalls, ImportOptions, RowBatch } from './import-types.ts'
import { inflate } from './inflate.ts'
import { LineReader } from './lines.ts'
import { parquetBatches } from './parquet.ts'
import { RowBatches } from './row-batches.ts'

/** Pieces of the body that wait. The next `give` is answered when there is room for another. */
const PIECES_MAX = 2

/** Serves the main thread's calls until it stops the thread. */
export function serveImport(port: MessagePort): void {
  const input = new PieceQueue()
  let batches: RowBatches | undefined
  let output: AsyncIterator<RowBatch, Done> | undefined
  serve<ImportCalls>(port, {
    open: options => {
      batches = new RowBatches(options)
      output = batchesOf(options, input, batches)
    },
    give: piece => input.give(piece),
    end: () => input.end(),
    next: async room => {
      if (room !== undefined) must(batches, 'an open import').giveBack(room)
      const { done, value } = await must(output, 'an open import').next()
      return done === true ? { done: value } : moved({ batch: value }, buffersOf(value))
    },
  })
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
  const pieces = inflate(input, options.encoding)
  if (options.format === 'parquet') return yield* parquetBatches(options, pieces, batches)
  const reader = options.format === 'csv' ? new CsvReader(batches, options) : new LineReader(batches, options)
  try {
    for await (const piece of pieces) yield* reader.read(piece)
    yield* reader.end()
  } finally {
    if (batches.hasRows) yield batches.take(reader.rowsEnd)
  }
  return { rows: batches.rows, bytes: reader.bytes, ...batches.takeCompared() }
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
