/** Record batches as a file of Arrow's IPC file format. */

import { MetadataVersion } from 'apache-arrow'
import { FileBlock, Footer } from 'apache-arrow/ipc/metadata/file'
import { Message } from 'apache-arrow/ipc/metadata/message'
import { END_OF_STREAM, MESSAGE_HEAD_BYTES, metadataBytes } from '../util/arrow-frame.ts'
import { must } from '../util/assert.ts'
import type { ExportColumn } from './protocol.ts'
import { schemaMessage, schemaOf } from './schema.ts'

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
    const metadataEnd = MESSAGE_HEAD_BYTES + must(metadataBytes(batch), 'a batch is a message')
    const { bodyLength } = Message.decode(batch.subarray(MESSAGE_HEAD_BYTES, metadataEnd))
    blocks.push(new FileBlock(metadataEnd, bodyLength, position))
    yield batch
    position += batch.byteLength
  }
  const footer = Footer.encode(new Footer(schemaOf(columns), MetadataVersion.V5, blocks, []))
  const bytes = new Uint8Array(4)
  new DataView(bytes.buffer).setUint32(0, footer.byteLength, true)
  yield Buffer.concat([END_OF_STREAM, footer, bytes, MAGIC])
}
