/**
 * A plan in the SQL of an engine, as its dialect writes it. Every value of a caller is bound. The
 * FROM names `rows`, which the engine replaces by the manifest's segments minus their deletion
 * vectors.
 */
import type { Bound } from '../expression/values.ts'

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
}

/** The part of a pool that a reader may see. */
export interface Restriction {
  /** Names of columns; null where all are visible. */
  readonly columns: readonly string[] | null
  /** A condition, whose values are among the statement's bounds. '': all rows. */
  readonly where: string
}
