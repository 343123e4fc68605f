/**
 * How selected live rows leave a pool, and how they leave one whose rows are in segments.
 *
 *   W-8  The rows are those of one manifest, which stays pinned until the last one was read. A
 *        failure is thrown: rows that end without one are whole.
 */
import type { PoolSchema } from '../format/schema.ts'
import type { ExportClient } from './arrow/export-client.ts'
import { type CopySegments, type ExportText, recordBatches } from './arrow/export-stream.ts'
import { copyRows, copyTo, parquetTarget } from './copy-rows.ts'
import { type PinDeps, pinSegments } from './pin-segments.ts'
import type { Asker } from './plan/query-task.ts'
import type { SegmentEngine } from './plan/segment-task.ts'
import type { WrittenSelection } from './selection.ts'

/** Time for a Parquet file that is downloaded. */
export const EXPORT_DOWNLOAD_MS_MAX = 600_000

export interface SelectedRows {
  readonly schema: PoolSchema
  readonly planned: WrittenSelection
  readonly asker: Asker
}

/** Its calls reject with Unavailable, or as queries do. */
export interface RowExports {
  /** Arrow record batches, each a whole message of a stream; or with `text` their lines. */
  batches(rows: SelectedRows, text?: ExportText): AsyncIterable<Uint8Array>
  /** Writes a new Parquet file of temporaryFolder. After a failure the caller removes it. */
  parquet(file: string, rows: SelectedRows): Promise<void>
}

export interface SegmentExportsDeps extends PinDeps {
  readonly engine: SegmentEngine
  /** data/tmp, absolute. The engine may write there. */
  readonly temporaryFolder: string
  readonly exportThread: Pick<ExportClient, 'open'>
}

export function segmentExports(deps: SegmentExportsDeps): RowExports {
  return {
    async *batches({ schema, planned, asker }, text) {
      const copy: CopySegments = (group, ended) =>
        copyRows(schema, planned, group, { ...asker, gone: ended }, deps)
      const { segments, release } = await pinSegments(schema, planned, deps)
      try {
        yield* recordBatches(segments, copy, copied => deps.exportThread.open(copied, text), asker.gone)
      } finally {
        release()
      }
    },
    async parquet(file, { schema, planned, asker }) {
      const { segments, release } = await pinSegments(schema, planned, deps)
      try {
        // DuckDB writes the file as a whole, because its table of contents stands at its end.
        const target = parquetTarget(file, segments, EXPORT_DOWNLOAD_MS_MAX)
        await copyTo(target, schema, planned, { segments }, asker, deps.engine)
      } finally {
        release()
      }
    },
  }
}
