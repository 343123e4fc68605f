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
import { EXPORT_BATCH_BYTES, MiB } from '../../util/limits.ts'
import { dropParquetWasm, parquetWasm } from '../../util/parquet-wasm.ts'
import { firstMessageBytes } from './arrow-schema.ts'
import { csvLinesOf } from './arrow-texts.ts'
import type { ParquetPart, PartOfFile } from './export-stream.ts'

/** Memory of WebAssembly, which never shrinks, beyond which the next part has a new instance. */
const WASM_BYTES_MAX = 96 * MiB

/** Throws Damaged if the file is not what was copied. */
export async function parquetPart({ file, format, group, row }: PartOfFile): Promise<ParquetPart> {
  const { stream, ...part } = await withParquet(file, async parquet => {
    const { groups, rows, bytes } = sizeOf(parquet, group)
    if (groups === 0) return { stream: parquet.schema().intoIPCStream(), rows: 0 }
    const step = Math.max(1, Math.floor((EXPORT_BATCH_BYTES * rows) / Math.max(1, bytes)))
    const limit = Math.min(step, rows - row)
    const options = { rowGroups: [group], offset: row, limit, batchSize: limit }
    const table = await parquet.read(options)
    const at = { stream: table.intoIPCStream(), rows: limit } // consumes the table
    if (row + limit < rows) return { ...at, next: { group, row: row + limit } }
    return group + 1 < groups ? { ...at, next: { group: group + 1, row: 0 } } : at
  })
  const wasm = parquetWasm().wasmMemory() as { readonly buffer: ArrayBuffer }
  if (wasm.buffer.byteLength > WASM_BYTES_MAX) dropParquetWasm()
  if (format === 'csv') return { ...part, bytes: Buffer.from(csvLinesOf(stream)) }
  const isFirst = group === 0 && row === 0
  const bytes = stream.subarray(isFirst ? 0 : firstMessageBytes(stream), -END_OF_STREAM.length)
  return { ...part, bytes }
}

/** The row groups of a file, with the rows and bytes of one of them. */
function sizeOf(parquet: ParquetFile, group: number) {
  const metadata = parquet.metadata()
  const groups = metadata.numRowGroups()
  const own = group < groups ? metadata.rowGroup(group) : undefined
  const size = { groups, rows: own?.numRows() ?? 0, bytes: own?.totalByteSize() ?? 0 }
  own?.free()
  metadata.free()
  return size
}
