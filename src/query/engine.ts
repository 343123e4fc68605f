/**
 * Runs statements in DuckDB, on the query thread.
 *
 *   W-8   A statement over a damaged or missing segment rejects with SegmentDamaged, which names
 *         the segment. A count is never short.
 *   W-11  Values become strings here, chunk by chunk, not on the main thread.
 *
 *   run(task)   deletion vectors → tables · `WITH rows AS (…) statement` · read chunks · print
 */
import { dirname } from 'node:path'
import type { DuckDBConnection, DuckDBInstance, DuckDBResult } from '@duckdb/node-api'
import type { QuerySegment } from '../index/index-types.ts'
import { assert } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import { StatementType } from '../util/duckdb.ts'
import { SegmentDamaged, Unavailable } from '../util/errors.ts'
import { DELETION_TABLES_BYTES_MAX, DELETION_TABLES_MAX, SCHEMAS_CACHED_MAX } from '../util/limits.ts'
import { quoteText } from '../util/sql.ts'
import { copyBatches } from './arrow/record-batches.ts'
import { explainError, findDamaged, isOutOfMemory, openSandbox } from './duckdb-instance.ts'
import { boundType, boundValue, printValue } from './duckdb-values.ts'
import {
  countDeletedRows,
  countLiveRows,
  type DeletionTable,
  DeletionTables,
  type Source,
  withRows,
} from './live-rows.ts'
import type { CopyTarget, EngineSettings, ParquetTarget, QueryDone, QueryTask } from './query-types.ts'

/** An interrupt has no effect while no statement runs, so it is repeated at this interval. */
const INTERRUPT_AGAIN_MS = 50

interface Running {
  readonly connection: DuckDBConnection
  stopped: 'timeout' | 'stopping' | undefined
}

type Row = readonly (string | null)[]

export class Engine {
  readonly #instance: DuckDBInstance
  readonly #settings: EngineSettings
  readonly #tableConnection: DuckDBConnection
  readonly #deletionTables: DeletionTables
  readonly #running = new Set<Running>()
  #stopping = false
  /** The columns of segments, by pool and schema version. */
  readonly #columns = new Map<string, ReadonlySet<string>>()

  private constructor(instance: DuckDBInstance, tableConnection: DuckDBConnection, settings: EngineSettings) {
    this.#instance = instance
    this.#settings = settings
    this.#tableConnection = tableConnection
    this.#deletionTables = new DeletionTables(tableConnection, {
      bytesMax: DELETION_TABLES_BYTES_MAX,
      tablesMax: DELETION_TABLES_MAX,
    })
  }

  /** Opens an engine whose DuckDB instance is locked. */
  static async open(settings: EngineSettings): Promise<Engine> {
    const instance = await openSandbox(settings)
    return new Engine(instance, await instance.connect(), settings)
  }

  /**
   * Rejects with Unavailable (`timeout`, `stopping`, `query_memory`, `too_many_rows`) or
   * SegmentDamaged.
   */
  async run(task: QueryTask): Promise<QueryDone> {
    const began = monotonicMs()
    const running: Running = { connection: await this.#instance.connect(), stopped: undefined }
    if (this.#stopping) running.stopped = 'stopping' // the engine was stopped while the connection was made
    this.#running.add(running)
    const msMax = task.copyTo?.msMax ?? this.#settings.queryMsMax
    const timer = setTimeout(() => interrupt(running, 'timeout'), msMax)
    const again = setInterval(() => {
      if (running.stopped !== undefined) running.connection.interrupt()
    }, INTERRUPT_AGAIN_MS)
    const segments = task.segments.filter(({ meta }) => meta.rows > 0)
    try {
      const { columns, rows } = await this.#answer(running, task, segments)
      return { columns, rows, ...cost(segments), durationMs: monotonicMs() - began }
    } catch (error) {
      throw stoppedError(running) ?? (await this.#typedError(running, error, segments))
    } finally {
      clearTimeout(timer)
      clearInterval(again)
      this.#running.delete(running)
      running.connection.closeSync()
    }
  }

  /** Drops all cached data of these files. No manifest names them any more. */
  async forget(files: readonly string[]): Promise<void> {
    await this.#deletionTables.forget(files)
  }

  /** Interrupts all queries, later ones included. Each rejects with Unavailable (`stopping`). */
  interruptAll(): void {
    this.#stopping = true
    for (const running of this.#running) interrupt(running, 'stopping')
  }

  /** No query may run any more. */
  close(): void {
    assert(this.#running.size === 0, 'no query runs when the engine closes')
    this.#tableConnection.closeSync()
    this.#instance.closeSync()
  }

  async #typedError(running: Running, error: unknown, segments: readonly QuerySegment[]): Promise<unknown> {
    if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
    const found = await explainError(error, running.connection, segments)
    return stoppedError(running) ?? found
  }

  /**
   * If memory runs out, drops the idle tables and runs the query once more. A copy does not run
   * again: it has begun its file.
   */
  async #answer(running: Running, task: QueryTask, segments: readonly QuerySegment[]) {
    try {
      return await this.#answerOnce(running, task, segments)
    } catch (error) {
      const mayRunAgain = isOutOfMemory(error) && task.copyTo === undefined
      if (!mayRunAgain || !(await this.#deletionTables.dropIdle())) throw error
      return await this.#answerOnce(running, task, segments)
    }
  }

  async #answerOnce(running: Running, task: QueryTask, segments: readonly QuerySegment[]) {
    const counts = task.statement.countsAllRows === true
    const tables: DeletionTable[] = []
    try {
      const sources: Source[] = []
      for (const { file, meta, deletionVectors } of segments) {
        const columns = await this.#columnsOf(running, `${task.schema.pool} ${meta.schemaVersion}`, file)
        let deletedRows: string | undefined
        if (!counts && countDeletedRows(deletionVectors) > 0) {
          const table = await this.#deletionTables.acquire(file, deletionVectors)
          tables.push(table)
          deletedRows = table.table
        }
        sources.push({ file, columns, deletedRows })
      }
      const sql = withRows(task.schema, sources, task.statement.sql)
      const answer = await this.#execute(running, task, sql)
      return counts ? await minusDeletedRows(running, answer, segments) : answer
    } finally {
      for (const table of tables) await table.release()
    }
  }

  /**
   * The columns of a file. Segments of one pool and schema version have equal columns and share one
   * set.
   */
  async #columnsOf(running: Running, key: string, file: string): Promise<ReadonlySet<string>> {
    const known = this.#columns.get(key)
    if (known !== undefined) return known
    throwIfStopped(running)
    // Not DESCRIBE, whose names are values: the package removes U+FEFF from the beginning of a text
    // value.
    const sql = `SELECT * FROM read_parquet([${quoteText(file)}]) LIMIT 0`
    const columns = new Set((await running.connection.run(sql)).columnNames())
    if (this.#columns.size >= SCHEMAS_CACHED_MAX) this.#columns.clear()
    this.#columns.set(key, columns)
    return columns
  }

  async #execute(running: Running, task: QueryTask, select: string) {
    throwIfStopped(running)
    const { copyTo } = task
    if (copyTo !== undefined) this.#checkTarget(copyTo)
    const isCopy = copyTo?.format === 'parquet'
    const prepared = await running.connection.prepare(isCopy ? copySql(select, copyTo) : select)
    try {
      const type = isCopy ? StatementType.COPY : StatementType.SELECT
      assert(prepared.statementType === type, 'the planner makes SELECT statements only')
      const { bounds } = task.statement
      bounds.forEach((bound, index) => {
        prepared.bindValue(index + 1, boundValue(bound), boundType(bound))
      })
      throwIfStopped(running)
      const result = await prepared.stream()
      if (copyTo?.format === 'arrow') {
        const check = () => throwIfStopped(running)
        const rows = await copyBatches(result, copyTo.types, copyTo.file, this.#settings.kernel, check)
        return { columns: ['Count'], rows: [[String(rows)]] }
      }
      return { columns: result.columnNames(), rows: await readRows(running, result, task.rowsMax) }
    } finally {
      prepared.destroySync()
    }
  }

  #checkTarget({ file }: CopyTarget): void {
    const { temporaryFolder, outputFolder } = this.#settings
    assert([temporaryFolder, outputFolder].includes(dirname(file)), 'copies go to the folders for them')
  }
}

function copySql(sql: string, target: ParquetTarget): string {
  const options = [
    'FORMAT parquet',
    `COMPRESSION ${target.compression}`,
    // Level 1 takes half the CPU of DuckDB's level 3, and the files are as large.
    ...(target.compression === 'zstd' ? ['COMPRESSION_LEVEL 1'] : []),
    `ROW_GROUP_SIZE ${Math.trunc(target.rowGroupRows)}`,
    'USE_TMP_FILE false', // the caller renames the file when it is complete
    ...(target.hasDictionaries ? [] : ['DICTIONARY_SIZE_LIMIT 0']),
  ]
  return `COPY (${sql}) TO ${quoteText(target.file)} (${options.join(', ')})`
}

async function readRows(running: Running, result: DuckDBResult, rowsMax: number): Promise<Row[]> {
  const rows: Row[] = []
  for (;;) {
    throwIfStopped(running)
    const chunk = await result.fetchChunk()
    if (chunk === null || chunk.rowCount === 0) return rows
    if (rows.length + chunk.rowCount > rowsMax)
      throw new Unavailable('too_many_rows', `the answer has more than ${rowsMax} rows`)
    const columns = Array.from({ length: chunk.columnCount }, (_, column) => {
      const typeId = result.columnTypeId(column)
      return chunk.getColumnValues(column).map(value => printValue(value, typeId))
    })
    for (let row = 0; row < chunk.rowCount; row++) rows.push(columns.map(column => column[row] ?? null))
  }
}

/** The live rows. The footers' number of rows must agree with the manifest's (W-8). */
async function minusDeletedRows(
  running: Running,
  answer: { readonly columns: readonly string[]; readonly rows: readonly Row[] },
  segments: readonly QuerySegment[],
) {
  const stored = Number(answer.rows[0]?.[0])
  const expected = segments.reduce((sum, { meta }) => sum + meta.rows, 0)
  if (stored !== expected) {
    const damaged = await findDamaged(running.connection, segments)
    throw damaged ?? new Error(`segments hold ${stored} rows where ${expected} are expected`)
  }
  return { columns: answer.columns, rows: [[String(countLiveRows(segments))]] }
}

function cost(segments: readonly QuerySegment[]) {
  return {
    recordsProcessed: countLiveRows(segments),
    bytesProcessed: segments.reduce((sum, { meta }) => sum + meta.bytes, 0),
  }
}

function interrupt(running: Running, why: 'timeout' | 'stopping'): void {
  running.stopped ??= why
  running.connection.interrupt()
}

function stoppedError(running: Running): Unavailable | undefined {
  if (running.stopped === undefined) return undefined
  const what = running.stopped === 'timeout' ? 'the query took too long' : 'Weir is stopping'
  return new Unavailable(running.stopped, what)
}

function throwIfStopped(running: Running): void {
  const error = stoppedError(running)
  if (error !== undefined) throw error
}
