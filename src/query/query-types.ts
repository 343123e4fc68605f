/**
 * The types that planner, engine and their callers pass to each other, across the query thread too.
 *
 * A statement is SQL that the planner made, with every value bound. Its FROM names `rows`. The
 * engine replaces `rows` by the manifest's segments minus their deletion vectors.
 */

import type { ColumnType, PoolSchema } from '../format/schema.ts'
import type { QuerySegment } from '../index/index-types.ts'
import type { KernelChoice } from '../util/native.ts'

/**
 * A bound value. Integers, TIMESTAMP (microseconds since 1970) and DATE (days) are decimal text, so
 * that 64 bits are exact.
 */
export interface Bound {
  readonly type: ColumnType
  readonly value: string | number | boolean
}

interface Statement {
  /** `… FROM rows WHERE "amount" > $1 …` */
  readonly sql: string
  readonly bounds: readonly Bound[]
  /**
   * True for `SELECT COUNT(*) FROM rows`: the engine counts footers and deleted rows and reads no
   * row.
   */
  readonly countsAllRows?: boolean
}

/**
 * The facts by which `prune` leaves out segments. `null`: nothing is known.
 */
export interface Pruning {
  /** Inclusive, in microseconds since 1970. */
  readonly timeFromUs: number | null
  /** Exclusive, in microseconds since 1970. */
  readonly timeToUs: number | null
  /** The range is on the primary timestamp. A range on another column prunes nothing. */
  readonly timeIsPrimary: boolean
  readonly tenantEquals: string | null
}

/** A question, planned for one schema. */
export interface QueryPlan extends Pruning {
  readonly statement: Statement
}

/** The caller's question is wrong: the answer is BAD_REQUEST with this sentence. */
export interface BadQuery {
  readonly badRequest: string
}

/**
 * A new file that takes the rows of a statement; the answer is then their number. The file must not
 * exist, and its folder must be one that the engine may write to. After a failure the caller
 * removes the file.
 */
export type CopyTarget = ArrowTarget | ParquetTarget

/** Arrow record batches as messages of the IPC stream format, without schema and end. */
interface ArrowTarget {
  readonly format: 'arrow'
  readonly file: string
  /** The types of the statement's columns. */
  readonly types: readonly ColumnType[]
  /** Replaces QUERY_MS_MAX. */
  readonly msMax: number
}

/** One Parquet file, written by DuckDB. */
export interface ParquetTarget {
  readonly format: 'parquet'
  readonly file: string
  readonly compression: 'snappy' | 'zstd' | 'gzip' | 'uncompressed'
  /** Stores a text that repeats once a row group. Old readers refuse such files. */
  readonly hasDictionaries: boolean
  readonly rowGroupRows: number
  /** Replaces QUERY_MS_MAX. */
  readonly msMax: number
}

export interface QueryTask {
  readonly schema: PoolSchema
  readonly segments: readonly QuerySegment[]
  readonly statement: Statement
  readonly rowsMax: number
  readonly copyTo?: CopyTarget
}

/** Rows as the API prints them: strings or null. */
export type PrintedRows = readonly (readonly (string | null)[])[]

export interface QueryDone {
  readonly columns: readonly string[]
  readonly rows: PrintedRows
  readonly recordsProcessed: number
  readonly bytesProcessed: number
  readonly durationMs: number
}

/**
 * The query stage as the main thread sees it; engine-client.ts implements it over the query thread.
 */
export interface QueryEngine {
  /**
   * Rejects with Unavailable (`queue_full`, `timeout`) or SegmentDamaged. `fairKey`: the
   * application.
   */
  run(task: QueryTask, fairKey: string): Promise<QueryDone>
  /**
   * Drops all cached data of these files. No manifest and no snapshot names them any more.
   */
  forget(files: readonly string[]): void
  stats(): { readonly running: number; readonly waiting: number }
  stop(): Promise<void>
}

/** The settings that the query thread starts with. */
export interface EngineSettings {
  /**
   * Absolute folder of all segments: the only one that queries may read, besides the temporary one.
   */
  readonly segmentFolder: string
  /** Absolute folder that DuckDB spills to. */
  readonly temporaryFolder: string
  /** Absolute folder that copies may be written to, besides the temporary one. */
  readonly outputFolder?: string | undefined
  /** `js`: only TypeScript runs, even where the native module was built. */
  readonly kernel?: KernelChoice | undefined
  readonly threads: number
  readonly memoryBytes: number
  /** A query is interrupted after this. */
  readonly queryMsMax: number
}

/** The calls of the main thread to the query thread. A stop interrupts the queries that run. */
export interface EngineCalls {
  /** The first call. Resolves when the engine is open. */
  open(): void
  run(task: QueryTask): QueryDone
  /** Drops all cached data of these files. No manifest names them any more. */
  forget(files: readonly string[]): void
}
