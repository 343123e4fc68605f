/**
 * Segments → the chunks of one Arrow IPC stream. One group of segments is read while the next one is copied, and one batch
 * is in memory at a time; nothing further is copied or read before it is asked for.
 *
 *   group of segments ──copy──► temporary file of record batches ──► schema, batches, end
 *
 *   W-8  The end of the stream comes only after the last batch of the last group.
 *   W-9  A group has at most EXPORT_GROUP_ROWS rows and EXPORT_GROUP_FILES files, or is one segment.
 */
import { EXPORT_GROUP_FILES, EXPORT_GROUP_ROWS } from '../limits.ts'
import type { QuerySegment } from '../query/protocol.ts'
import { END_OF_STREAM } from '../util/arrow-frame.ts'
import type { BatchSource, CopySegments, OpenBatches } from './protocol.ts'

/** Neighbours together, so that a thousand tiny segments are a few copies. */
function groupSegments(segments: readonly QuerySegment[]): QuerySegment[][] {
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

/** The record batches of some segments, in their order. While one group's are read the next group is copied. */
export async function* recordBatches(
  segments: readonly QuerySegment[],
  copy: CopySegments,
  open: OpenBatches,
): AsyncGenerator<Uint8Array, void, void> {
  const groups = groupSegments(segments)
  const begin = (group: QuerySegment[] | undefined) => {
    const source = group && copy(group).then(open)
    source?.catch(() => undefined) // awaited below, after what comes before it
    return source
  }
  let ahead = begin(groups.shift())
  try {
    while (ahead !== undefined) {
      const source: BatchSource = await ahead
      ahead = undefined
      try {
        ahead = begin(groups.shift())
        for (let bytes = await source.next(); bytes !== undefined; bytes = await source.next()) yield bytes
      } finally {
        await source.close()
      }
    }
  } finally {
    await ahead?.then(
      source => source.close(),
      () => undefined, // it left nothing
    )
  }
}

/** The whole stream. The schema comes with the first batch, so that what fails at once fails before any byte. */
export async function* arrowStream(
  schema: () => Promise<Uint8Array>,
  batches: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  let begun = false
  for await (const batch of batches) {
    if (!begun) yield await schema()
    begun = true
    yield batch
  }
  if (!begun) yield await schema()
  yield END_OF_STREAM
}
