/** Record batches as a file: Parquet by parquet-wasm, or Arrow's IPC file format. */

import { MetadataVersion } from 'apache-arrow'
import { FileBlock, Footer } from 'apache-arrow/ipc/metadata/file'
import { Message } from 'apache-arrow/ipc/metadata/message'
import {
  Compression,
  EnabledStatistics,
  Table,
  transformParquetStream,
  WriterPropertiesBuilder,
  WriterVersion,
  writeParquet,
} from 'parquet-wasm'
import { PAYLOAD } from '../batch/plan.ts'
import { ROW_GROUP_ROWS } from '../limits.ts'
import type { ExportColumn } from './protocol.ts'
import { END_OF_STREAM, schemaMessage, schemaOf } from './schema.ts'

export const COMPRESSIONS = ['zstd', 'snappy', 'gzip', 'none'] as const
export type ExportCompression = (typeof COMPRESSIONS)[number]

const CODEC: Readonly<Record<ExportCompression, Compression>> = {
  zstd: Compression.ZSTD,
  snappy: Compression.SNAPPY,
  gzip: Compression.GZIP,
  none: Compression.UNCOMPRESSED,
}

/** The bytes of one Parquet file, in pieces. */
export async function* parquet(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<Uint8Array>,
  compression: ExportCompression,
): AsyncGenerator<Uint8Array, void, void> {
  const head = schemaMessage(columns)
  const source = batches[Symbol.asyncIterator]()
  const tableOf = (batch: Uint8Array) => Table.fromIPCStream(Buffer.concat([head, batch, END_OF_STREAM]))
  const first = await source.next()
  if (first.done === true) {
    yield writeParquet(tableOf(new Uint8Array()), properties(columns, compression)) // consumes both
    return
  }
  let next: IteratorResult<Uint8Array> | undefined = first
  const input = new ReadableStream({
    pull: async controller => {
      next ??= await source.next()
      if (next.done === true) controller.close()
      else {
        const table = tableOf(next.value)
        for (const batch of table.recordBatches()) controller.enqueue(batch)
        table.free()
      }
      next = undefined
    },
    cancel: async () => {
      await source.return?.()
    },
  })
  yield* (await transformParquetStream(
    input,
    properties(columns, compression),
  )) as unknown as AsyncIterable<Uint8Array>
}

function properties(columns: readonly ExportColumn[], compression: ExportCompression) {
  let builder = new WriterPropertiesBuilder()
    .setWriterVersion(WriterVersion.V1)
    .setCompression(CODEC[compression])
    .setMaxRowGroupSize(ROW_GROUP_ROWS)
    .setCreatedBy('weir')
    .setStatisticsEnabled(EnabledStatistics.Chunk)
    .setDictionaryEnabled(compression !== 'snappy') // what asks for snappy is old: parquetjs-lite reads no RLE_DICTIONARY
  for (const { name, type } of columns) {
    if (type !== 'JSON' && name !== PAYLOAD) continue
    builder = builder.setColumnStatisticsEnabled(name, EnabledStatistics.None)
    builder = builder.setColumnDictionaryEnabled(name, false)
  }
  return builder.build()
}

const MAGIC = new TextEncoder().encode('ARROW1')

/** One Arrow IPC file: the stream between two magics, then a footer that says where each batch is. */
export async function* arrowFile(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  const head = Buffer.concat([MAGIC, new Uint8Array(2), schemaMessage(columns)])
  yield head
  const blocks: FileBlock[] = []
  let position = head.byteLength
  for await (const batch of batches) {
    let at = 0
    while (at < batch.byteLength) {
      const metadataBytes = 8 + new DataView(batch.buffer, batch.byteOffset + at).getUint32(4, true)
      const { bodyLength } = Message.decode(batch.subarray(at + 8, at + metadataBytes))
      blocks.push(new FileBlock(metadataBytes, bodyLength, position + at))
      at += metadataBytes + Number(bodyLength)
    }
    yield batch
    position += batch.byteLength
  }
  const footer = Footer.encode(new Footer(schemaOf(columns), MetadataVersion.V5, blocks, []))
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, footer.byteLength, true)
  yield Buffer.concat([END_OF_STREAM, footer, bytes, MAGIC])
}
