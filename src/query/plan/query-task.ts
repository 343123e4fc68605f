/** A query as an engine takes it, its answer, and the engine as its callers see it. */
import type { Propeller } from '../../catalog/documents/model.ts'
import type { ColumnType, PoolSchema } from '../../format/schema.ts'
import type { QuerySegment } from '../../index/index-types.ts'
import type { Expression, SqlStatement } from '../expression/ast.ts'
import type { BadQuery } from '../expression/values.ts'
import type { Dialect, Statement } from './plan.ts'

/** Rows as the API prints them: strings or null. */
export type PrintedRows = readonly (readonly (string | null)[])[]

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
}

export interface PoolRows {
  readonly schema: PoolSchema
  readonly segments: readonly QuerySegment[]
}

/** Rows of a segment by their position: from `from` to before `to`. */
export interface RowRange {
  readonly from: number
  readonly to: number
}

/** Versions of a cluster: from `from` to before `to`, or those of a list. */
export type Versions = { readonly from: bigint; readonly to?: bigint } | { readonly of: readonly bigint[] }

export interface QueryTask extends PoolRows {
  /** The task has one segment, and reads these rows of it; absent for all rows. */
  readonly rowRange?: RowRange | undefined
  /** Only rows with a higher sequence are read, of the task's own pool; absent for all rows. */
  readonly sequenceAfter?: number
  /** Of a cluster: the rows of these versions alone, of the task's own pool. */
  readonly versions?: Versions | undefined
  /** Further pools: `rows_1`, `rows_2` and so on of the statement. */
  readonly others?: readonly PoolRows[]
  readonly statement: Statement
  readonly rowsMax: number
  readonly copyTo?: CopyTarget
  /** It is work of a job: it brings no penalty, and gets none. */
  readonly isOfJob?: true
  /** Set by the engine's client. Its default is the largest. */
  readonly propeller?: Propeller
  /** Set by the engine's client: the query is interrupted after this. */
  readonly msMax?: number
  /** Set by the engine's client: names the query in `cancel`. */
  readonly id?: number
}

export interface QueryDone {
  readonly columns: readonly string[]
  readonly rows: PrintedRows
  readonly recordsProcessed: number
  readonly bytesProcessed: number
  readonly durationMs: number
}

/** Who asks, as `run` takes it. */
export interface Asker {
  readonly fairKey: string
  readonly verify?: () => void
  readonly gone?: AbortSignal
}

/** The query stage as the main thread sees it (duckdb/engine-client.ts, clickhouse/engine.ts). */
export interface QueryEngine {
  /** What writes the statements that it runs. */
  readonly dialect: Dialect
  /** The number of live rows, where no query needs to run for it. */
  readonly countLiveRows?: (segments: readonly QuerySegment[]) => number
  /**
   * Rejects with Unavailable (`queue_full`, `timeout`) or SegmentDamaged, or as `verify` throws.
   * @param fairKey the application
   * @param verify called when the query's turn comes, before it runs
   * @param gone when it is aborted the query ends, with Unavailable (`client_gone`)
   */
  run(task: QueryTask, fairKey: string, verify?: () => void, gone?: AbortSignal): Promise<QueryDone>
  /** The expression of an SQL text, or BadQuery. Rejects with Unavailable (`queue_full`). */
  parse(text: string, fairKey: string): Promise<Expression | BadQuery>
  /** The same for a whole SELECT. */
  parseStatement(text: string, fairKey: string): Promise<SqlStatement | BadQuery>
  /** Drops the deleted rows of these files, which no manifest and no snapshot names any more. */
  forget(files: readonly string[]): void
  stats(): { readonly running: number; readonly waiting: number }
  /** The number of waiting queries of each application that has one. */
  waiting(): readonly (readonly [fairKey: string, queries: number])[]
  /** The applications in the penalty lane, and for how long they stay there. */
  penalised(): readonly (readonly [fairKey: string, ms: number])[]
  stop(): Promise<void>
}
