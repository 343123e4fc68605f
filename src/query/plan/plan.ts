/**
 * A planned question: what it computes, as a value in which no engine's SQL stands. The planner
 * makes plans, a Dialect writes each in the SQL of its engine, and only then is it run.
 *
 *   question ──► planner ──► QueryPlan ──► Dialect ──► Statement ──► engine
 */
import type { QueryColumn } from '../expression/operand.ts'
import type { Select } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import type { Bound } from '../expression/values.ts'
import type { NativeStatement } from '../statement/guard-statement.ts'
import type { Pruning } from './prune-segments.ts'

/** The part of a pool that a reader may see. */
export interface VisibleRows {
  /** Names of columns; null where all are visible. */
  readonly columns: readonly string[] | null
  /** Undefined for all rows. */
  readonly where: Typed | undefined
}

/** A question over one pool, planned for one schema. */
export interface QueryPlan extends Pruning {
  readonly select: Select
  /** The rows and columns that `select` reads. Absent for all live rows and all columns. */
  readonly visible?: VisibleRows | undefined
  /** Its rows have ROW_NUMBER and SEQUENCE too. The plan then reads one segment at a time. */
  readonly hasPositions?: true
  /** Tables that `select` reads by name. Each may read those before it. */
  readonly commons?: readonly CommonTable[]
  /** Further pools that the plan reads: pool 1 of its sources, pool 2 and so on. */
  readonly others?: readonly PoolPart[]
  /** A user's statement in DuckDB's own SQL, instead of `select`. */
  readonly native?: NativeSelect
}

/** What a statement of a user answers: its rows, their columns alone, or its plan. */
export type AnswerForm = 'rows' | 'columns' | 'explain'

export interface NativeSelect {
  readonly statement: NativeStatement
  /** The pool of each of its names, as in PoolPart. */
  readonly poolOf: readonly number[]
  /** The visible columns of each pool. */
  readonly columnsOf: readonly (readonly QueryColumn[])[]
  /** For each of its names, what it says itself of the times of all rows that it reads. */
  readonly timesOf: readonly (Typed | undefined)[]
  /** The values of its parameters. */
  readonly bounds: readonly Bound[]
  readonly form: AnswerForm
  /** As the caller wrote it. */
  readonly text: string
}

/** The only column of a pool's rows for a reader whose policy shows none: rows can be counted. */
export const NO_COLUMN = '_service_none'

/** A further pool of a plan. */
export interface PoolPart extends Pruning {
  readonly visible?: VisibleRows | undefined
}

/** A table that a plan computes and reads by its name, which the planner made. */
export interface CommonTable {
  readonly name: string
  readonly select: Select
  /** It is read more than once: the engine computes it once and keeps it. */
  readonly isKept: boolean
}

/** The part of a plan that its statement says. */
type WrittenPart = Pick<QueryPlan, 'select' | 'visible' | 'hasPositions' | 'commons' | 'others' | 'native'>

/** The SQL of an engine. */
export interface Dialect {
  /** The engine's name in traces. */
  readonly system: 'duckdb' | 'clickhouse'
  /** The statement of a plan. Throws Refused where it has more patterns than a query may have. */
  write(plan: WrittenPart): Statement
}

/**
 * A plan in the SQL of an engine, as its dialect writes it. Every value of a caller is bound. The
 * FROM names `rows`, which the engine replaces by the manifest's segments minus their deletion
 * vectors.
 */
export interface Statement {
  /** `… FROM rows WHERE "amount" > $1 …` */
  readonly sql: string
  readonly bounds: readonly Bound[]
  /** The rows and columns that `rows` has. Absent for all live rows and all columns. */
  readonly restriction?: Restriction
  /** `rows` has ROW_NUMBER and SEQUENCE too (duckdb/live-rows.ts). */
  readonly hasPositions?: true
  /** Those of `rows_1`, `rows_2` and so on: the further pools of the task. */
  readonly otherRestrictions?: readonly (Restriction | undefined)[]
  /** `q1 AS (…), q2 AS (…)`: tables that the SQL names. They may name `rows`. */
  readonly commons?: string
  /** It is a user's own. What it meets is the user's fault. */
  readonly native?: { readonly form: AnswerForm; readonly shown: string }
  /** Absent where it does nothing with texts. */
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
  /** The pool whose policy does it, on hidden rows too. Absent: the question does it. */
  readonly policyOf?: number
}

/** VisibleRows, with the condition in the engine's SQL. */
export interface Restriction {
  /** Names of columns; null where all are visible. */
  readonly columns: readonly string[] | null
  /** A condition, whose values are among the statement's bounds. '': all rows. */
  readonly where: string
  /** The same condition with its own values. DuckDB's alone, and absent for all rows. */
  readonly alone?: Pick<Statement, 'sql' | 'bounds'>
}

/** True where the answer is the number of live rows: no row needs to be read. */
export function countsAllRows({ select, visible, commons = [], others = [] }: WrittenPart): boolean {
  const { from, outputs, limit, offset = 0 } = select
  const [output] = outputs
  const isOwnRows = from === undefined || ('kind' in from && from.kind === 'rows' && from.pool === 0)
  return (
    isOwnRows &&
    commons.length === 0 &&
    others.length === 0 &&
    select.where === undefined &&
    select.groupBy === undefined &&
    select.groupingSets === undefined &&
    select.having === undefined &&
    outputs.length === 1 &&
    output?.value.op === 'count_rows' &&
    output.value.filter === undefined &&
    limit !== 0 &&
    offset === 0 &&
    visible?.where === undefined
  )
}
