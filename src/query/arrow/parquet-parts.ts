/**
 * A statement's copy, a Parquet file, in parts: messages of an Arrow stream, or lines of CSV.
 *
 *   W-9  A part has EXPORT_BATCH_BYTES of stored values, which have no dictionaries, or one row.
 *
 * Each part opens the file again: none of it stays in WebAssembly while a client reads slowly.
 */
import type { ParquetFile } from 'parquet-wasm'
import { END_OF_STREAM } from '../../format/arrow.ts'
import { withParquet } from '../../format/segment-file.ts'
import { disk, type FileHandle } from '../../util/disk.ts'
import { CHUNK_ROWS, EXPORT_BATCH_BYTES, MiB } from '../../util/limits.ts'
import { dropParquetWasm, parquetWasm } from '../../util/parquet-wasm.ts'
import { firstMessageBytes } from './arrow-schema.ts'
import { csvLinesOf } from './arrow-texts.ts'
import type { ParquetPart, PartOfFile } from './export-stream.ts'

/** What a value counts at least: Parquet has none for a null, and CSV 25 for a time. */
const CELL_BYTES_MIN = 16
/** Memory of WebAssembly, which never shrinks, beyond which the next part has a new instance. */
const WASM_BYTES_MAX = 96 * MiB

/** The calling thread waits for the disk. Throws Damaged if the file is not what was copied. */
export async function parquetPart({ file, format, group, row }: PartOfFile): Promise<ParquetPart> {
  const handle = disk.open(file, 'r')
  const size = disk.size(file)
  const read = (parquet: ParquetFile) => readPart(parquet, group, row)
  const { stream, ...part } = await withParquet(file, read, async () => blobOf(handle, size)).finally(() =>
    disk.close(handle),
  )
  const wasm = parquetWasm().wasmMemory() as { readonly buffer: ArrayBuffer }
  if (wasm.buffer.byteLength > WASM_BYTES_MAX) dropParquetWasm()
  if (format === 'csv') return { ...part, bytes: Buffer.from(csvLinesOf(stream)) }
  const isFirst = group === 0 && row === 0
  const bytes = stream.subarray(isFirst ? 0 : firstMessageBytes(stream), -END_OF_STREAM.length)
  return { ...part, bytes }
}

async function readPart(parquet: ParquetFile, group: number, row: number) {
  const { groups, rowGroups, rows, bytes } = sizeFrom(parquet, group)
  if (rowGroups.length === 0) return { stream: parquet.schema().intoIPCStream(), rows: 0 }
  const step = Math.floor(rows * Math.min(1, EXPORT_BATCH_BYTES / bytes))
  const limit = Math.min(Math.max(1, step), rows - row)
  // Each row group takes memory for so many rows before it is read.
  const batchSize = Math.min(limit, CHUNK_ROWS)
  const table = await parquet.read({ rowGroups, offset: row, limit, batchSize })
  const read = { stream: table.intoIPCStream(), rows: limit } // consumes the table
  if (row + limit < rows) return { ...read, next: { group, row: row + limit } }
  const next = group + rowGroups.length
  return next < groups ? { ...read, next: { group: next, row: 0 } } : read
}

/** A file as parquet-wasm reads it. Node's own Blob takes three times the CPU for small ranges. */
function blobOf(handle: FileHandle, size: number): Blob {
  const slice = (from: number, to: number) => ({
    arrayBuffer: async () => {
      const bytes = new Uint8Array(to - from)
      for (let at = 0; at < bytes.byteLength; ) {
        const read = disk.read(handle, bytes.subarray(at), from + at)
        if (read === 0) throw new Error('the file ends early')
        at += read
      }
      return bytes.buffer
    },
  })
  return { size, slice } as unknown as Blob
}

/** The number of row groups, and those from `group` on that fit into a part: one at least. */
function sizeFrom(parquet: ParquetFile, group: number) {
  const metadata = parquet.metadata()
  const groups = metadata.numRowGroups()
  const rowGroups: number[] = []
  let [rows, bytes] = [0, 0]
  for (let at = group; at < groups; at += 1) {
    const one = metadata.rowGroup(at)
    const ownRows = one.numRows()
    const ownBytes = Math.max(one.totalByteSize(), CELL_BYTES_MIN * ownRows * one.numColumns())
    one.free()
    if (rowGroups.length > 0 && bytes + ownBytes > EXPORT_BATCH_BYTES) break
    rowGroups.push(at)
    rows += ownRows
    bytes += ownBytes
  }
  metadata.free()
  return { groups, rowGroups, rows, bytes }
}
