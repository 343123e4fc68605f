/**
 * A temporary Parquet file as Arrow record batches, on demand: only what one batch needs is read. The file loses its
 * name as soon as it is open, so that nothing is left behind however this ends.
 *
 *   W-9  A batch has at most EXPORT_BATCH_ROWS rows and, by the footer's sizes, about EXPORT_BATCH_BYTES.
 */
import { ParquetFile } from 'parquet-wasm'
import { EXPORT_BATCH_BYTES, EXPORT_BATCH_ROWS } from '../limits.ts'
import { assert } from '../util/assert.ts'
import { type Disk, disk, type FileHandle } from '../util/disk.ts'
import type { BatchSource, CopiedFile, ExportColumn } from './protocol.ts'
import { batchesOf, checkSchema } from './schema.ts'

/** Rows of one row group to read at once. */
interface Slice {
  readonly rowGroup: number
  readonly offset: number
  readonly limit: number
}

/** Opens a file, on a thread that may wait for the disk. */
export async function openBatches(copied: CopiedFile, columns: readonly ExportColumn[]): Promise<Batches> {
  const handle = openUnlinked(disk, copied.file)
  try {
    const parquet = await ParquetFile.fromFile(blobOf(disk, handle.file, handle.bytes))
    const slices = slicesOf(parquet)
    const rows = slices.reduce((sum, { limit }) => sum + limit, 0)
    assert(rows === copied.rows, `a copy of ${copied.rows} rows holds them: ${rows}`)
    return new Batches(parquet, slices, handle.file, columns)
  } catch (error) {
    disk.close(handle.file)
    throw error
  }
}

function openUnlinked(on: Disk, path: string): { readonly file: FileHandle; readonly bytes: number } {
  try {
    return { file: on.open(path, 'r'), bytes: on.size(path) }
  } finally {
    on.unlink(path)
  }
}

/** An open file in the shape that parquet-wasm reads: it asks for `size` and `slice(…).arrayBuffer()`. */
function blobOf(on: Disk, file: FileHandle, size: number): Blob {
  const slice = (from: number, to: number) => ({
    arrayBuffer: async () => {
      const bytes = new Uint8Array(to - from)
      let at = 0
      while (at < bytes.byteLength) {
        const read = on.read(file, bytes.subarray(at), from + at)
        assert(read > 0, 'a copy does not end early')
        at += read
      }
      return bytes.buffer
    },
  })
  return { size, slice } as unknown as Blob
}

function slicesOf(parquet: ParquetFile): Slice[] {
  const slices: Slice[] = []
  const metadata = parquet.metadata()
  try {
    for (let rowGroup = 0; rowGroup < metadata.numRowGroups(); rowGroup += 1) {
      const group = metadata.rowGroup(rowGroup)
      const rows = group.numRows()
      const limit = rowsPerBatch(rows, group.totalByteSize())
      group.free()
      for (let offset = 0; offset < rows; offset += limit)
        slices.push({ rowGroup, offset, limit: Math.min(limit, rows - offset) })
    }
  } finally {
    metadata.free()
  }
  return slices
}

/** `bytes`: of the row group before compression. */
function rowsPerBatch(rows: number, bytes: number): number {
  const fit = Math.floor((EXPORT_BATCH_BYTES * rows) / Math.max(1, bytes))
  return Math.max(1, Math.min(EXPORT_BATCH_ROWS, fit))
}

export class Batches implements BatchSource {
  readonly #parquet: ParquetFile
  readonly #slices: Slice[]
  readonly #file: FileHandle
  readonly #columns: readonly ExportColumn[]
  #checked = false

  constructor(parquet: ParquetFile, slices: Slice[], file: FileHandle, columns: readonly ExportColumn[]) {
    this.#parquet = parquet
    this.#slices = slices
    this.#file = file
    this.#columns = columns
  }

  async next(): Promise<Uint8Array | undefined> {
    const slice = this.#slices.shift()
    if (slice === undefined) return undefined
    const { rowGroup, offset, limit } = slice
    const table = await this.#parquet.read({ rowGroups: [rowGroup], offset, limit, batchSize: limit })
    const stream = table.intoIPCStream() // consumes the table
    if (!this.#checked) checkSchema(stream, this.#columns)
    this.#checked = true
    return batchesOf(stream)
  }

  async close(): Promise<void> {
    this.#parquet.free()
    disk.close(this.#file)
  }
}
