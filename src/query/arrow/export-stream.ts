/**
 * Segments become the chunks of one Arrow IPC stream. One group of segments is read while the next
 * one is copied, and one batch is in memory at a time. Nothing more is copied or read before the
 * caller asks for it.
 *
 *   group of segments ──copy──► temporary file of record batches ──► schema, batches, end
 *
 *   W-8  The end of the stream comes only after the last batch of the last group.
 *   W-9  A group has at most EXPORT_GROUP_ROWS rows and EXPORT_GROUP_FILES files.
 */
import { END_OF_STREAM } from '../../format/arrow.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import { Unavailable } from '../../util/errors.ts'
import { warn } from '../../util/say.ts'
import type { QueryColumn } from '../expression/operand.ts'
import type { Table } from '../plan/answer-table.ts'
import type { PoolSegments, RowRange, SegmentRows } from '../plan/segment-task.ts'

/**
 * Rows of segments that are copied together; a larger segment is copied in ranges. The smallest
 * propeller copies so many payloads of 450 bytes in about a second, of the ten that it has.
 */
export const EXPORT_GROUP_ROWS = 262_144
/** Files that are copied together: DuckDB opens all of them. */
const EXPORT_GROUP_FILES = 256

/** A file of Arrow record batches: messages of the IPC stream format, without schema and end. */
export interface CopiedFile {
  readonly file: string
  readonly rows: number
}

/** Some segments, or a range of the rows of one. */
export type SegmentGroup = Pick<PoolSegments, 'segments'> & Pick<SegmentRows, 'rowRange'>

/** Writes live rows of a group to a new file, until `ended`. Leaves no file when it rejects. */
export type CopySegments = (group: SegmentGroup, ended: AbortSignal) => Promise<CopiedFile>

/** One file as Arrow record batches, each a whole message. */
export interface BatchSource {
  /**
   * The next batch; undefined after the last one. Its bytes stay unchanged until the next call,
   * which uses their memory again. Rejects with Damaged if the file does not hold what was copied.
   * @param room memory of an earlier batch that was moved to the caller, and is moved back
   */
  next(room?: ArrayBuffer): Promise<Uint8Array | undefined>
  /** Closes the file. Called once, while no next() runs. */
  close(): Promise<void>
}

/** Opens a file as batches. The file is unlinked once it is open, or when it cannot be opened. */
export type OpenBatches = (copied: CopiedFile) => Promise<BatchSource>

export interface ExportText {
  readonly format: 'ndjson' | 'csv'
  readonly columns: readonly QueryColumn[]
}

/** A place in the Parquet file of a statement: a row of a row group. */
export interface PartOfFile {
  readonly file: string
  readonly format: 'arrow' | 'csv'
  readonly group: number
  readonly row: number
}

export interface ParquetPart {
  /** Messages, the first with the schema before it; or lines. */
  readonly bytes: Uint8Array
  readonly rows: number
  /** Undefined after the last part. */
  readonly next?: Pick<PartOfFile, 'group' | 'row'>
}

export interface ExportCalls {
  /** Returns a number, which names the file in the other calls. */
  open(copied: CopiedFile & { readonly text?: ExportText }): number
  /** The next batch, moved. `room`: the last one's, moved back. A file has one call at a time. */
  next(from: { readonly file: number; readonly room: ArrayBuffer | undefined }): Uint8Array | undefined
  close(file: number): void
  schema(columns: readonly QueryColumn[]): Uint8Array
  /** True of a message that begins a stream of columns of the same types. */
  hasTypes(of: { readonly schema: Uint8Array; readonly columns: readonly QueryColumn[] }): boolean
  /** The lines of a record batch, moved. */
  lines(of: { readonly batch: Uint8Array; readonly text: ExportText }): Uint8Array
  /** A part of a Parquet file, its bytes moved. */
  part(of: PartOfFile): ParquetPart
  /** A whole stream of a table, moved. */
  table(table: Table): Uint8Array
}

/** A failure of a temporary file, not of a segment. The log has its path, clients do not see it. */
export function copyFailed(file: string, what: 'read' | 'written', error: unknown): Unavailable {
  warn(`${file} cannot be ${what}: ${(error as Error).message}`)
  const { code = 'failure' } = error as NodeJS.ErrnoException
  return new Unavailable(
    'query_io',
    `a temporary file of the query cannot be ${what} (${code}): try again later; the log of the server has the error`,
  )
}

/** Neighbours are copied together, and a large segment in ranges: each copy has a query's time. */
export function groupSegments(segments: readonly QuerySegment[]): SegmentGroup[] {
  const groups: { segments: QuerySegment[]; rowRange?: RowRange }[] = []
  let rows = Number.POSITIVE_INFINITY
  for (const segment of segments) {
    const last = groups.at(-1)
    rows += segment.meta.rows
    if (last !== undefined && rows <= EXPORT_GROUP_ROWS && last.segments.length < EXPORT_GROUP_FILES)
      last.segments.push(segment)
    else if (segment.meta.rows <= EXPORT_GROUP_ROWS) {
      groups.push({ segments: [segment] })
      rows = segment.meta.rows
    } else {
      for (const rowRange of rangesOf(segment.meta.rows)) groups.push({ segments: [segment], rowRange })
      rows = Number.POSITIVE_INFINITY
    }
  }
  return groups
}

function rangesOf(rows: number): RowRange[] {
  const begins = Array.from({ length: Math.ceil(rows / EXPORT_GROUP_ROWS) }, (_, n) => n * EXPORT_GROUP_ROWS)
  return begins.map(from => ({ from, to: Math.min(rows, from + EXPORT_GROUP_ROWS) }))
}

/**
 * The record batches of segments, in their order.
 * @param gone is aborted when nobody wants them any more, also while the next one is awaited
 */
export async function* recordBatches(
  segments: readonly QuerySegment[],
  copy: CopySegments,
  open: OpenBatches,
  gone?: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  const groups = groupSegments(segments)
  const closed = new AbortController()
  const ended = gone === undefined ? closed.signal : AbortSignal.any([gone, closed.signal])
  const begin = (group: SegmentGroup | undefined) => {
    const source = group && copy(group, ended).then(open)
    source?.catch(() => undefined) // awaited below, after the groups before it
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
    closed.abort()
    await ahead?.then(
      source => source.close(),
      () => undefined, // a copy that failed leaves no file
    )
  }
}

/** The stream. The schema comes with the first batch: an early failure comes before any byte. */
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
