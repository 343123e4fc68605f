/**
 * A pool's live rows as one Parquet file, which DuckDB writes itself, all segments in one statement.
 *
 * Row groups are by rows and by the bytes that rows take on disk: DuckDB holds one per thread before it writes it.
 */

import { copyTo } from '../api/arrow-export.ts'
import type { PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import type { ParquetTarget, QueryEngine } from '../query/query-types.ts'
import type { PlannedSelection } from '../query/selection.ts'
import { EXPORT_FILE_MS_MAX, EXPORT_ROW_GROUP_BYTES, ROW_GROUP_ROWS } from '../util/limits.ts'

export const COMPRESSIONS = ['zstd', 'snappy', 'gzip', 'none'] as const
export type ExportCompression = (typeof COMPRESSIONS)[number]

/** Writes `file`, absolute, in a folder where the engine may write. Returns the rows. What is there after a failure stays. */
export async function copyParquet(
  engine: QueryEngine,
  schema: PoolSchema,
  planned: PlannedSelection,
  segments: readonly QuerySegment[],
  file: string,
  compression: ExportCompression,
): Promise<number> {
  const target: ParquetTarget = {
    format: 'parquet',
    file,
    compression: compression === 'none' ? 'uncompressed' : compression,
    hasDictionaries: compression !== 'snappy', // what asks for snappy is old: parquetjs-lite reads no RLE_DICTIONARY
    rowGroupRows: rowGroupRows(segments),
    msMax: EXPORT_FILE_MS_MAX,
  }
  return await copyTo(target, schema, planned, segments, 'export', engine)
}

function rowGroupRows(segments: readonly QuerySegment[]): number {
  const rows = segments.reduce((sum, { meta }) => sum + meta.rows, 0)
  const bytes = segments.reduce((sum, { meta }) => sum + meta.bytes, 0)
  const fit = Math.floor((EXPORT_ROW_GROUP_BYTES * rows) / Math.max(1, bytes))
  return Math.max(2048, Math.min(ROW_GROUP_ROWS, fit))
}
