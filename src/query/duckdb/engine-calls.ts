/** The messages between the main thread and the query process. */
import type { DeletionVector, QuerySegment } from '../../index/index-types.ts'
import type { KernelChoice } from '../../util/native.ts'
import type { QueryProcessName } from '../../util/paths.ts'
import type { Expression, SqlStatement } from '../expression/ast.ts'
import type { BadQuery } from '../expression/values.ts'
import type { QueryDone } from '../plan/query-task.ts'
import type { SegmentTask } from '../plan/segment-task.ts'
import type { NativeStatement, SqlDialect } from '../statement/guard-statement.ts'

/** The settings that the query process starts with. Every user of the machine can read them. */
export interface EngineSettings {
  /** Absolute folder of all segments: queries may read it and the temporary one alone. */
  readonly segmentFolder: string
  /** Absolute folder of copies. DuckDB spills to a folder in it (util/paths.ts). */
  readonly temporaryFolder: string
  /** Absolute folder that copies may be written to, besides the temporary one. */
  readonly outputFolder?: string | undefined
  /** `js`: only TypeScript runs, even where the native module was built. */
  readonly kernel?: KernelChoice | undefined
  /** Names the folder for spilling, which no other process may use. Its default is `query`. */
  readonly process?: QueryProcessName
  readonly threads: number
  readonly memoryBytes: number
  /** See DELETION_VECTORS_BYTES_MAX. */
  readonly deletionVectorBytesMax: number
  /** Of partial groups that are kept. Absent: none are. */
  readonly partialsBytesMax?: number | undefined
  /** Only tests set it. See SEGMENT_ROWS_MIN (kept-partials.ts). */
  readonly partialsRowsMin?: number | undefined
  /** A query whose task says nothing else is interrupted after this. */
  readonly queryMsMax: number
}

/** A segment on its way to the query process. */
export interface SentSegment extends Omit<QuerySegment, 'deletionVectors'> {
  /** The number of its deleted rows. */
  readonly deleted: number
  /** Absent where the process may have them (sent-segments.ts). */
  readonly deletionVectors?: readonly DeletionVector[]
}

/** `missing`: nothing has run, because the process lacks the vectors of these segments. */
export type RunAnswer = QueryDone | { readonly missing: readonly number[] }

/** The calls of the main thread to the query process. A stop interrupts the queries that run. */
export interface EngineCalls {
  /** The first call. Resolves when the engine is open. */
  open(): void
  run(task: SegmentTask<SentSegment>): RunAnswer
  /** Interrupts the query of this id, if it runs. */
  cancel(id: number): void
  parse(text: string): Expression | BadQuery
  parseStatement(text: string): SqlStatement | BadQuery
  guard(question: { readonly text: string; readonly dialect: SqlDialect }): NativeStatement | BadQuery
  forget(files: readonly string[]): void
}
