/**
 * Answers of statements that stream. The engine writes the rows to a file first, as a query like
 * any other: a client that reads slowly keeps no place of a query, and no manifest.
 *
 *   W-8  The rows are those of one manifest. A copy that fails leaves no file.
 */
import { rm } from 'node:fs/promises'
import { monotonicMs } from '../util/clock.ts'
import { CHUNK_ROWS, ROW_GROUP_ROWS } from '../util/limits.ts'
import { badAnswerOf, pinPools, type QuestionDeps } from './ask.ts'
import { nextExportFile } from './copy-rows.ts'
import { type BadQuery, badQueryOf } from './expression/values.ts'
import type { QueryPlan, Statement } from './plan/plan.ts'
import type { PoolsOfQuestion } from './plan/policy.ts'
import type { Reader } from './plan/question.ts'
import type { ParquetTarget, SegmentEngine, SegmentRows } from './plan/segment-task.ts'

/** A statement that may run, and who asks it. */
export interface PlannedStatement {
  readonly pools: PoolsOfQuestion
  readonly plan: Omit<QueryPlan, 'select'>
  readonly statement: Statement
  readonly reader: Reader
}

/** A Parquet file of temporaryFolder, which the caller removes. */
export interface CopiedStatement {
  readonly file: string
  readonly names: readonly string[]
  readonly rows: number
}

interface CopyOptions {
  readonly rowsMax: number
  /** The file itself is sent. Else the export thread reads it (arrow/parquet-parts.ts). */
  readonly isSent: boolean
}

/** Rejects as queries do. */
export type CopyStatement = (
  planned: PlannedStatement,
  options: CopyOptions,
) => Promise<CopiedStatement | BadQuery>

interface StatementCopiesDeps extends Pick<QuestionDeps, 'pin' | 'onQuery'> {
  readonly engine: SegmentEngine
  /** data/tmp, absolute. The engine may write there. */
  readonly temporaryFolder: string
}

export function statementCopies({
  pin,
  onQuery,
  engine,
  temporaryFolder,
}: StatementCopiesDeps): CopyStatement {
  return async ({ pools, plan, statement, reader }, options) => {
    const beganMs = monotonicMs()
    const span = reader.span?.child('copy SQL')
    const pinned = await pinPools(pools, plan, pin)
    const copyTo = targetOf(nextExportFile(temporaryFolder), options)
    const verify = () => reader.verifyAgain(pools)
    try {
      const task = { source: pinned.source as SegmentRows, statement, rowsMax: 1, copyTo }
      const { columns, rows } = await engine.run(task, reader.applicationId, verify, reader.gone)
      onQuery(monotonicMs() - beganMs)
      span?.end()
      return { file: copyTo.file, names: columns, rows: Number(rows[0]?.[0]) }
    } catch (error) {
      span?.end((error as Error).name)
      await rm(copyTo.file, { force: true })
      return badAnswerOf(error, plan.native?.text) ?? badQueryOf(error)
    } finally {
      pinned.release()
    }
  }
}

/**
 * Of a file that is read back, each row group tells the bytes that it takes in memory: it has no
 * dictionaries, so that a long text of many rows counts for each. DuckDB writes that in its memory
 * for few rows only.
 */
function targetOf(file: string, { rowsMax, isSent }: CopyOptions): ParquetTarget {
  return {
    format: 'parquet',
    file,
    compression: 'zstd',
    hasDictionaries: isSent,
    rowGroupRows: isSent ? ROW_GROUP_ROWS : CHUNK_ROWS,
    rowsMax,
  }
}
