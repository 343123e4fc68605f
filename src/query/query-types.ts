/**
 * The types that planner, engine and their callers pass to each other, also from and to the query
 * process.
 *
 * A statement is SQL that the dialect wrote, with every value of a caller bound. Its FROM names
 * `rows`. The engine replaces `rows` by the manifest's segments minus their deletion vectors.
 */

import type { Propeller } from '../catalog/documents/model.ts'
import type { ColumnType, PoolSchema } from '../format/schema.ts'
import type { DeletionVector, QuerySegment } from '../index/index-types.ts'
import type { KernelChoice } from '../util/native.ts'
import type { QueryProcessName } from '../util/paths.ts'
import type { Expression, SqlStatement } from './expression/ast.ts'

/**
 * A bound value. Integers, TIMESTAMP (microseconds since 1970) and DATE (days) are decimal text, so
 * that 64 bits are exact.
 */
export interface Bound {
  readonly type: ColumnType
  readonly value: string | number | boolean
}

export interface Statement {
  /** `… FROM rows WHERE "amount" > $1 …` */
  readonly sql: string
  readonly bounds: readonly Bound[]
  /** The rows and columns that `rows` has. Absent: all live rows, all columns. */
  readonly restriction?: Restriction
  /** `rows` has ROW_NUMBER and SEQUENCE too (live-rows.ts). */
  readonly hasPositions?: true
  /** Those of `rows_1`, `rows_2` and so on: the further pools of the task. */
  readonly otherRestrictions?: readonly (Restriction | undefined)[]
  /** `q1 AS (…), q2 AS (…)`: tables that the SQL names. They may name `rows`. */
  readonly commons?: string
  /** Absent: it does nothing with texts. */
  readonly work?: readonly TextWork[]
}

/** What a statement does with the texts of one column in each chunk of rows. */
export interface TextWork {
  /** The column's name. Columns of other tables may have it too. */
  readonly name: string
  /** Nanoseconds for each byte. */
  readonly ns: number
  /** Copies that are held together. */
  readonly made: number
  /** On rows as they are scanned. Else the longest texts may be in one chunk. */
  readonly isScan: boolean
  /** Rows of a chunk at most; Infinity: as many as DuckDB takes. */
  readonly rows: number
  /** The statement joins tables: one text may be in all rows of a chunk. */
  readonly isOfJoin: boolean
}

/** The part of a pool that a reader may see. */
export interface Restriction {
  /** Names; null: all. */
  readonly columns: readonly string[] | null
  /** A condition, whose values are among the statement's bounds. '': all rows. */
  readonly where: string
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

/** The caller's question is wrong: the answer is BAD_REQUEST with this sentence. */
export interface BadQuery {
  readonly badRequest: string
}

/** True for a BadQuery where a value was expected. */
export function isBadQuery(value: unknown): value is BadQuery {
  return typeof value === 'object' && value !== null && 'badRequest' in value
}

/**
 * A new file that takes the rows of a statement; the answer is then their number. The file must not
 * exist, and its folder must be one that the engine may write to. After a failure the caller
 * removes the file.
 *
 * A copy with a time limit of its own, `msMax`, is a long copy. Long copies never take all places
 * of queries, and none of them runs again after a crash.
 */
export type CopyTarget = ArrowTarget | ParquetTarget

/** Arrow record batches as messages of the IPC stream format, without schema and end. */
interface ArrowTarget {
  readonly format: 'arrow'
  readonly file: string
  /** The types of the statement's columns. */
  readonly types: readonly ColumnType[]
  /** Makes it a long copy. Absent: it has the time of a query. */
  readonly msMax?: number
}

/** One Parquet file, written by DuckDB. */
export interface ParquetTarget {
  readonly format: 'parquet'
  readonly file: string
  readonly compression: 'snappy' | 'zstd' | 'gzip' | 'uncompressed'
  /** Stores a text that repeats once a row group. Old readers refuse such files. */
  readonly hasDictionaries: boolean
  readonly rowGroupRows: number
  /** Makes it a long copy. Absent: it has the time of a query. */
  readonly msMax?: number
}

/** A pool and the segments of it that a task reads. */
export interface PoolRows {
  readonly schema: PoolSchema
  readonly segments: readonly QuerySegment[]
}

/** Rows of a segment by their position: from `from` to before `to`. */
export interface RowRange {
  readonly from: number
  readonly to: number
}

export interface QueryTask extends PoolRows {
  /** The task has one segment, and reads these rows of it. Absent: all rows. */
  readonly rowRange?: RowRange | undefined
  /** Further pools: `rows_1`, `rows_2` and so on of the statement. */
  readonly others?: readonly PoolRows[]
  readonly statement: Statement
  readonly rowsMax: number
  readonly copyTo?: CopyTarget
  /** It is work of a job: it brings no penalty, and gets none. */
  readonly isOfJob?: true
  /** Set by the engine's client. Absent: the largest. */
  readonly propeller?: Propeller
  /** Set by the engine's client: the query is interrupted after this. */
  readonly msMax?: number
  /** Set by the engine's client: names the query in `cancel`. */
  readonly id?: number
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
 * The query stage as the main thread sees it; engine-client.ts implements it over the query
 * process.
 */
export interface QueryEngine {
  /**
   * Rejects with Unavailable (`queue_full`, `timeout`) or SegmentDamaged, or as `verify` throws.
   * @param fairKey the application
   * @param verify called when the query's turn comes, before it runs
   * @param gone when it is aborted the query ends, with Unavailable (`client_gone`)
   */
  run(task: QueryTask, fairKey: string, verify?: () => void, gone?: AbortSignal): Promise<QueryDone>
  /**
   * The expression of an SQL text, or BadQuery. Rejects with Unavailable (`queue_full`).
   * `fairKey`: the application.
   */
  parse(text: string, fairKey: string): Promise<Expression | BadQuery>
  /** The same for a whole SELECT. */
  parseStatement(text: string, fairKey: string): Promise<SqlStatement | BadQuery>
  /**
   * Drops the deleted rows of these files that are kept for later queries. No manifest and no
   * snapshot names them any more.
   */
  forget(files: readonly string[]): void
  stats(): { readonly running: number; readonly waiting: number }
  /** The number of waiting queries of each application that has one. */
  waiting(): readonly (readonly [fairKey: string, queries: number])[]
  /** The applications in the penalty lane, and for how long they stay there. */
  penalised(): readonly (readonly [fairKey: string, ms: number])[]
  stop(): Promise<void>
}

/** The settings that the query process starts with. Every user of the machine can read them. */
export interface EngineSettings {
  /**
   * Absolute folder of all segments: the only one that queries may read, besides the temporary one.
   */
  readonly segmentFolder: string
  /** Absolute folder of copies. DuckDB spills to a folder in it (util/paths.ts). */
  readonly temporaryFolder: string
  /** Absolute folder that copies may be written to, besides the temporary one. */
  readonly outputFolder?: string | undefined
  /** `js`: only TypeScript runs, even where the native module was built. */
  readonly kernel?: KernelChoice | undefined
  /** Names the folder for spilling, which no other process may use. Absent: `query`. */
  readonly process?: QueryProcessName
  readonly threads: number
  readonly memoryBytes: number
  /** See DELETION_VECTORS_BYTES_MAX. */
  readonly deletionVectorBytesMax: number
  /** A query whose task says nothing else is interrupted after this. */
  readonly queryMsMax: number
}

/** A segment on its way to the query process. */
export interface SentSegment extends Omit<QuerySegment, 'deletionVectors'> {
  /** The number of its deleted rows. */
  readonly deleted: number
  /** Absent: the process may have them (sent-segments.ts). */
  readonly deletionVectors?: readonly DeletionVector[]
}

/** A task on its way to the query process. */
export interface SentTask extends Omit<QueryTask, 'segments' | 'others'> {
  readonly segments: readonly SentSegment[]
  readonly others?: readonly { readonly schema: PoolSchema; readonly segments: readonly SentSegment[] }[]
}

/** `missing`: nothing has run, because the process lacks the deletion vectors of these segments. */
export type RunAnswer = QueryDone | { readonly missing: readonly number[] }

/** The calls of the main thread to the query process. A stop interrupts the queries that run. */
export interface EngineCalls {
  /** The first call. Resolves when the engine is open. */
  open(): void
  run(task: SentTask): RunAnswer
  /** Interrupts the query of this id, if it runs. */
  cancel(id: number): void
  parse(text: string): Expression | BadQuery
  parseStatement(text: string): SqlStatement | BadQuery
  /**
   * Drops the deleted rows of these files that are kept for later queries. No manifest names them
   * any more.
   */
  forget(files: readonly string[]): void
}
