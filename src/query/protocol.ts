/**
 * Main thread ↔ query worker.
 *
 * A statement is SQL that the planner made, with every value bound; FROM names `rows`, which the worker
 * replaces by the manifest's segments minus their marks.
 */
import type { ColumnType, Plan } from '../batch/plan.ts'
import type { MarkDelta, SegmentMeta } from '../keys/protocol.ts'

/** One segment of a query's manifest; pinned until the query ends (W-8). */
export interface QuerySegment {
  readonly file: string
  readonly meta: SegmentMeta
  /** Sorted row numbers that are not visible, as of the query's manifest; parts may overlap in time, not in rows. */
  readonly marks: readonly MarkDelta[]
}

/** A bound value. Integers, TIMESTAMP (µs since 1970) and DATE (days) come as decimal text, so that 64 bits are exact. */
export interface Bound {
  readonly type: ColumnType
  readonly value: string | number | boolean
}

interface Statement {
  /** `… FROM rows WHERE "amount" > $1 …` */
  readonly sql: string
  readonly bounds: readonly Bound[]
  /** It is `SELECT COUNT(*) FROM rows`: footers and marks are counted, no row is read. */
  readonly countsAllRows?: boolean
}

/**
 * Where the rows of a statement go in place of the answer, which is then their number: a file that is not there, in a
 * folder that the engine may write to. What is there after a failure is the caller's to remove.
 */
export type CopyTarget = ArrowTarget | ParquetTarget

/** Arrow record batches as messages of the IPC stream format, without schema and end. */
interface ArrowTarget {
  readonly format: 'arrow'
  readonly file: string
  /** Of the statement's columns. */
  readonly types: readonly ColumnType[]
  /** In place of QUERY_MS_MAX. */
  readonly msMax: number
}

/** One Parquet file, written by DuckDB. */
export interface ParquetTarget {
  readonly format: 'parquet'
  readonly file: string
  readonly compression: 'snappy' | 'zstd' | 'gzip' | 'uncompressed'
  /** Texts that repeat are stored once a row group; old readers refuse that. */
  readonly hasDictionaries: boolean
  readonly rowGroupRows: number
  readonly msMax: number
}

export interface QueryJob {
  readonly plan: Plan
  readonly segments: readonly QuerySegment[]
  readonly statement: Statement
  readonly rowsMax: number
  readonly copyTo?: CopyTarget
}

export interface QueryDone {
  readonly columns: readonly string[]
  /** Strings or null, as the API prints them. */
  readonly rows: readonly (readonly (string | null)[])[]
  readonly recordsProcessed: number
  readonly bytesProcessed: number
  readonly durationMs: number
}

/** The query stage as main.ts sees it (query/engine-client.ts implements it over the query worker). */
export interface QueryEngine {
  /** Rejects with Unavailable (`queue_full`, `timeout`) or SegmentDamaged. `fairKey`: the application. */
  run(job: QueryJob, fairKey: string): Promise<QueryDone>
  stats(): { readonly running: number; readonly waiting: number }
  stop(): Promise<void>
}

// ── what a caller asks ───────────────────────────────────────────────────────────────────────────────

/** Filter operators as the API spells them. */
export const FILTER_OPERATORS = [
  'EQUALS',
  'NOT_EQUALS',
  'GREATER_THAN',
  'GREATER_THAN_OR_EQUAL_TO',
  'LESS_THAN',
  'LESS_THAN_OR_EQUAL_TO',
  'IS_NULL',
  'IS_NOT_NULL',
  'LIKE',
  'NOT_LIKE',
] as const
export type FilterOperator = (typeof FILTER_OPERATORS)[number]

/** ((column op value) AND all of `and`) OR any of `or`; elements of a list are ANDed. */
export interface Filter {
  readonly column: string
  readonly operator: FilterOperator
  readonly value?: string | null
  readonly and?: readonly Filter[] | null
  readonly or?: readonly Filter[] | null
}

/** As the API gives it; absent and null mean the same. */
export interface TimeRange {
  readonly timestamp?: string | null
  readonly relative?: string | null
  readonly n?: number | null
  readonly start?: string | null
  readonly stop?: string | null
}

export interface CounterQuery {
  readonly metric: { readonly kind: 'count' } | { readonly kind: 'sum'; readonly column: string }
  readonly timeRange?: TimeRange | null
  readonly timeZone?: string | null
  readonly filters?: readonly Filter[] | null
}

/** A query the caller got wrong: BAD_REQUEST with this sentence. */
export interface BadQuery {
  readonly badRequest: string
}

/** A statement, and what the planner knows to prune by (inclusive from, exclusive to, µs; tenant equal to). */
export interface Planned {
  readonly statement: Statement
  readonly timeFromUs: number | null
  readonly timeToUs: number | null
  /** The range is on the primary timestamp (else on another column: no pruning). */
  readonly timeIsPrimary: boolean
  readonly tenantEquals: string | null
}
