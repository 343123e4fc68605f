/** A query as an engine takes it, its answer, and the engine as its callers see it. */
import type { ColumnType } from '../../format/schema.ts'
import type { Expression, SqlStatement } from '../expression/ast.ts'
import type { BadQuery } from '../expression/values.ts'
import type { NativeStatement, SqlDialect } from '../statement/guard-statement.ts'
import type { PartialStatements } from './partials.ts'
import type { Dialect, Statement } from './plan.ts'

/** Rows as the API prints them: strings or null. */
export type PrintedRows = readonly (readonly (string | null)[])[]

/** A question to an engine. */
export interface QueryTask<Source = unknown> {
  /**
   * The rows of pools: `rows`, `rows_1`, `rows_2` and so on of the statement. The store makes it,
   * and only the engine of that store reads it.
   */
  readonly source: Source
  readonly statement: Statement
  readonly rowsMax: number
  /** For a question that is asked again, whose partial groups may be kept. */
  readonly partials?: PartialStatements | undefined
  /** It is work of a job: it brings no penalty, and gets none. */
  readonly isOfJob?: true
}

export interface QueryDone {
  readonly columns: readonly string[]
  /** The types of the columns, of a native statement alone. */
  readonly types?: readonly ColumnType[]
  readonly rows: PrintedRows
  readonly recordsProcessed: number
  readonly bytesProcessed: number
  readonly durationMs: number
  /** Segments whose rows were not read, because their partial groups are kept. */
  readonly segmentsKept?: number
  /** Memory of all partial groups that are kept. */
  readonly partialsBytes?: number
}

/** Who asks, as `run` takes it. */
export interface Asker {
  readonly fairKey: string
  readonly verify?: () => void
  readonly gone?: AbortSignal
}

/** The query stage as the main thread sees it (duckdb/engine-client.ts, clickhouse/engine.ts). */
export interface QueryEngine<Task = QueryTask> {
  /** What writes the statements that it runs. */
  readonly dialect: Dialect
  /**
   * Rejects with Unavailable (`queue_full`, `timeout`) or SegmentDamaged, or as `verify` throws.
   * @param fairKey the application
   * @param verify called when the query's turn comes, before it runs
   * @param gone when it is aborted the query ends, with Unavailable (`client_gone`)
   */
  run(task: Task, fairKey: string, verify?: () => void, gone?: AbortSignal): Promise<QueryDone>
  /** The expression of an SQL text, or BadQuery. Rejects with Unavailable (`queue_full`). */
  parse(text: string, fairKey: string): Promise<Expression | BadQuery>
  /** The same for a whole SELECT. */
  parseStatement(text: string, fairKey: string): Promise<SqlStatement | BadQuery>
  /**
   * A user's SELECT in the engine's own SQL, guarded. Absent where no text of a user may reach the
   * engine: statements are typed there.
   */
  guard?(text: string, dialect: SqlDialect, fairKey: string): Promise<NativeStatement | BadQuery>
  /** Queries that run at once, besides a short one and one of the penalty process. */
  readonly runningMax: number
  stats(): { readonly running: number; readonly waiting: number }
  /** The number of waiting queries of each application that has one. */
  waiting(): readonly (readonly [fairKey: string, queries: number])[]
  /** The applications in the penalty lane, and for how long they stay there. */
  penalised(): readonly (readonly [fairKey: string, ms: number])[]
  stop(): Promise<void>
}
