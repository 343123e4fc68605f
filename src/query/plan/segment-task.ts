/** A query over segments, as DuckDB's engine takes it. */
import type { Propeller } from '../../catalog/documents/model.ts'
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import type { QueryEngine, QueryTask } from './query-task.ts'

/**
 * A new file that takes the rows of a statement; the answer is then their number. The file must not
 * exist, and its folder must be one that the engine may write to. After a failure the caller
 * removes the file.
 *
 * A copy with a time limit of its own, `msMax`, is a long copy. Long copies never take all places
 * of queries, and none of them runs again after a crash.
 */
export type CopyTarget = ArrowTarget | ParquetTarget

interface NewFile {
  readonly file: string
  /** Makes it a long copy. Without a value the copy has the time of a query. */
  readonly msMax?: number
}

/** Arrow record batches as messages of the IPC stream format, without schema and end. */
interface ArrowTarget extends NewFile {
  readonly format: 'arrow'
  readonly types: readonly ColumnType[]
}

export interface ParquetTarget extends NewFile {
  readonly format: 'parquet'
  readonly compression: 'snappy' | 'zstd' | 'gzip' | 'uncompressed'
  /** Stores a text that repeats once a row group. Old readers refuse such files. */
  readonly hasDictionaries: boolean
  readonly rowGroupRows: number
  /**
   * The rows are those of a user's statement, at most so many. Its columns may be of any type, and
   * their names may be equal: see duckdb/parquet-columns.ts. The answer has the names of the file.
   */
  readonly rowsMax?: number
}

/** Rows of a segment by their position: from `from` to before `to`. */
export interface RowRange {
  readonly from: number
  readonly to: number
}

export interface PoolSegments<Segment = QuerySegment> {
  readonly schema: PoolSchema
  readonly segments: readonly Segment[]
}

export interface SegmentRows<Segment = QuerySegment> {
  readonly pools: readonly PoolSegments<Segment>[]
  /** The first pool has one segment, and these rows of it are read; absent for all rows. */
  readonly rowRange?: RowRange | undefined
  /** Only rows of the first pool with a higher sequence are read; absent for all rows. */
  readonly sequenceAfter?: number
}

export interface SegmentTask<Segment = QuerySegment> extends QueryTask<SegmentRows<Segment>> {
  readonly copyTo?: CopyTarget
  /** Set by the engine's client. Its default is the largest. */
  readonly propeller?: Propeller
  /** Set by the engine's client: the query is interrupted after this. */
  readonly msMax?: number
  /** Set by the engine's client: names the query in `cancel`. */
  readonly id?: number
}

export type SegmentEngine = QueryEngine<SegmentTask>

/** The rows of one pool. */
export function rowsOfPool(
  schema: PoolSchema,
  { segments, ...part }: Pick<PoolSegments, 'segments'> & Omit<SegmentRows, 'pools'>,
): SegmentRows {
  return { pools: [{ schema, segments }], ...part }
}
