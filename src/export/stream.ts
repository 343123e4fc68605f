/**
 * Segments → the chunks of one Arrow IPC stream. One group of segments is copied at a time, and one batch of it is in
 * memory at a time; nothing is copied or read before it is asked for.
 *
 *   group of segments ──copy──► temporary Parquet file ──batches──► schema, batches, end
 *
 *   W-8  The end of the stream comes only after the last batch of the last group.
 *   W-9  A group has at most EXPORT_GROUP_ROWS rows and EXPORT_GROUP_FILES files, or is one segment.
 */
import { EXPORT_GROUP_FILES, EXPORT_GROUP_ROWS } from '../limits.ts'
import type { QuerySegment } from '../query/protocol.ts'
import type { CopySegments, ExportColumn, OpenBatches } from './protocol.ts'
import { END_OF_STREAM, schemaMessage } from './schema.ts'

/** Neighbours together, so that a thousand tiny segments are a few copies. */
export function groupSegments(segments: readonly QuerySegment[]): QuerySegment[][] {
  const groups: QuerySegment[][] = []
  let rows = 0
  for (const segment of segments) {
    const last = groups.at(-1)
    rows += segment.meta.rows
    if (last !== undefined && rows <= EXPORT_GROUP_ROWS && last.length < EXPORT_GROUP_FILES)
      last.push(segment)
    else {
      groups.push([segment])
      rows = segment.meta.rows
    }
  }
  return groups
}

/** The record batches of some segments, in their order. */
export async function* recordBatches(
  segments: readonly QuerySegment[],
  columns: readonly ExportColumn[],
  copy: CopySegments,
  open: OpenBatches,
): AsyncGenerator<Uint8Array, void, void> {
  for (const group of groupSegments(segments)) {
    const copied = await copy(group)
    const source = await open(copied, columns)
    try {
      for (let bytes = await source.next(); bytes !== undefined; bytes = await source.next())
        if (bytes.byteLength > 0) yield bytes
    } finally {
      await source.close()
    }
  }
}

/** The whole stream. The schema comes with the first batch, so that what fails at once fails before any byte. */
export async function* arrowStream(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  let begun = false
  for await (const batch of batches) {
    if (!begun) yield schemaMessage(columns)
    begun = true
    yield batch
  }
  if (!begun) yield schemaMessage(columns)
  yield END_OF_STREAM
}
