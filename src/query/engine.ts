/**
 * Runs statements in DuckDB, in the query worker's thread.
 *
 *   W-8   A damaged or missing segment rejects with SegmentDamaged that names it; a count is never short.
 *   W-11  Values become strings here, chunk by chunk, not on the main thread.
 *
 *   run(job)   marks → tables · schemas · `WITH rows AS (…) statement` · read chunks · print
 */

import { dirname } from 'node:path'
import type { DuckDBConnection, DuckDBInstance, DuckDBResult } from '@duckdb/node-api'
import { SegmentDamaged, Unavailable } from '../errors.ts'
import { MARKS_CACHED_MAX, SCHEMAS_CACHED_MAX } from '../limits.ts'
import { assert } from '../util/assert.ts'
import { monotonicMs } from '../util/clock.ts'
import { StatementType } from '../util/duckdb.ts'
import { quoteText } from '../util/sql.ts'
import { boundType, boundValue } from './bind.ts'
import { copyBatches } from './copy.ts'
import { explain, findDamaged } from './damage.ts'
import { countMarks, MarkTables } from './marks.ts'
import { printValue } from './print.ts'
import type { CopyTarget, ParquetTarget, QueryDone, QueryJob, QuerySegment } from './protocol.ts'
import { type Source, withRows } from './rows.ts'
import { openSandbox } from './sandbox.ts'
import type { EngineSettings } from './wire.ts'

/** An interrupt that meets no running statement is lost, so it is repeated this often. */
const INTERRUPT_AGAIN_MS = 50

interface Running {
  readonly connection: DuckDBConnection
  stopped: 'timeout' | 'stopping' | undefined
}

type Row = readonly (string | null)[]

export class Engine {
  readonly #instance: DuckDBInstance
  readonly #settings: EngineSettings
  readonly #tables: DuckDBConnection
  readonly #marks: MarkTables
  readonly #running = new Set<Running>()
  #stopping = false
  /** Columns of the files of a pool and plan version. */
  readonly #schemas = new Map<string, ReadonlySet<string>>()

  private constructor(instance: DuckDBInstance, tables: DuckDBConnection, settings: EngineSettings) {
    this.#instance = instance
    this.#settings = settings
    this.#tables = tables
    this.#marks = new MarkTables(tables, MARKS_CACHED_MAX)
  }

  /** An engine whose sandbox is closed. */
  static async open(settings: EngineSettings): Promise<Engine> {
    const instance = await openSandbox(settings)
    return new Engine(instance, await instance.connect(), settings)
  }

  /** Rejects with Unavailable (`timeout`, `stopping`, `query_memory`, `too_many_rows`) or SegmentDamaged. */
  async run(job: QueryJob): Promise<QueryDone> {
    const began = monotonicMs()
    const running: Running = { connection: await this.#instance.connect(), stopped: undefined }
    if (this.#stopping) running.stopped = 'stopping' // told while the connection was made
    this.#running.add(running)
    const msMax = job.copyTo?.msMax ?? this.#settings.queryMsMax
    const timer = setTimeout(() => interrupt(running, 'timeout'), msMax)
    const again = setInterval(() => {
      if (running.stopped !== undefined) running.connection.interrupt()
    }, INTERRUPT_AGAIN_MS)
    const segments = job.segments.filter(({ meta }) => meta.rows > 0)
    try {
      const { columns, rows } = await this.#answer(running, job, segments)
      return { columns, rows, ...cost(segments), durationMs: monotonicMs() - began }
    } catch (error) {
      throw stoppedError(running) ?? (await this.#explained(running, error, segments))
    } finally {
      clearTimeout(timer)
      clearInterval(again)
      this.#running.delete(running)
      running.connection.closeSync()
    }
  }

  /** Interrupts what runs and what comes; each rejects with Unavailable (`stopping`). */
  interruptAll(): void {
    this.#stopping = true
    for (const running of this.#running) interrupt(running, 'stopping')
  }

  /** Only when nothing runs any more. */
  close(): void {
    assert(this.#running.size === 0, 'no query runs when the engine closes')
    this.#tables.closeSync()
    this.#instance.closeSync()
  }

  async #explained(running: Running, error: unknown, segments: readonly QuerySegment[]): Promise<unknown> {
    if (error instanceof Unavailable || error instanceof SegmentDamaged) return error
    const found = await explain(error, running.connection, segments)
    return stoppedError(running) ?? found
  }

  async #answer(running: Running, job: QueryJob, segments: readonly QuerySegment[]) {
    const counts = job.statement.countsAllRows === true
    const marked = counts ? [] : segments.filter(({ marks }) => countMarks(marks) > 0)
    const held: QuerySegment[] = []
    try {
      const tables = new Map<string, string>()
      for (const segment of marked) {
        tables.set(segment.file, await this.#marks.acquire(segment.file, segment.marks))
        held.push(segment)
      }
      const sources: Source[] = []
      for (const segment of segments) {
        const schema = await this.#schema(running, job, segment)
        sources.push({ file: segment.file, schema, marks: tables.get(segment.file) })
      }
      const sql = withRows(job.plan, sources, job.statement.sql)
      const answer = await this.#execute(running, job, sql)
      return counts ? await minusMarked(running, answer, segments) : answer
    } finally {
      for (const segment of held) await this.#marks.release(segment.file, segment.marks)
    }
  }

  /** Segments of one plan version have the same columns, and the very same set object. */
  async #schema(running: Running, job: QueryJob, segment: QuerySegment): Promise<ReadonlySet<string>> {
    const key = `${job.plan.pool} ${segment.meta.planVersion}`
    const known = this.#schemas.get(key)
    if (known !== undefined) return known
    throwIfStopped(running)
    const sql = `DESCRIBE SELECT * FROM read_parquet([${quoteText(segment.file)}])`
    const rows = await (await running.connection.run(sql)).getRows()
    const schema = new Set(rows.map(row => String(row[0])))
    if (this.#schemas.size >= SCHEMAS_CACHED_MAX) this.#schemas.clear()
    this.#schemas.set(key, schema)
    return schema
  }

  #copySql(sql: string, target: ParquetTarget): string {
    const options = [
      'FORMAT parquet',
      `COMPRESSION ${target.compression}`,
      ...(target.compression === 'zstd' ? ['COMPRESSION_LEVEL 1'] : []), // half the CPU of its 3, for files of the same size
      `ROW_GROUP_SIZE ${Math.trunc(target.rowGroupRows)}`,
      'USE_TMP_FILE false', // whoever asked for the file gives it its name when it is whole
      ...(target.hasDictionaries ? [] : ['DICTIONARY_SIZE_LIMIT 0']),
    ]
    return `COPY (${sql}) TO ${quoteText(target.file)} (${options.join(', ')})`
  }

  async #execute(running: Running, job: QueryJob, select: string) {
    throwIfStopped(running)
    const { copyTo } = job
    if (copyTo !== undefined) this.#checkTarget(copyTo)
    const isCopy = copyTo?.format === 'parquet'
    const prepared = await running.connection.prepare(isCopy ? this.#copySql(select, copyTo) : select)
    try {
      const type = isCopy ? StatementType.COPY : StatementType.SELECT
      assert(prepared.statementType === type, 'the planner makes SELECT statements only')
      const { bounds } = job.statement
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
      return { columns: result.columnNames(), rows: await readRows(running, result, job.rowsMax) }
    } finally {
      prepared.destroySync()
    }
  }

  #checkTarget({ file }: CopyTarget): void {
    const { temporaryFolder, outputFolder } = this.#settings
    assert([temporaryFolder, outputFolder].includes(dirname(file)), 'copies go to the folders for them')
  }
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

/** Footers say how many rows there are; they must agree with the manifest (W-8). */
async function minusMarked(
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
  const live = segments.reduce((sum, { meta, marks }) => sum + meta.rows - countMarks(marks), 0)
  return { columns: answer.columns, rows: [[String(live)]] }
}

function cost(segments: readonly QuerySegment[]) {
  return {
    recordsProcessed: segments.reduce((sum, { meta, marks }) => sum + meta.rows - countMarks(marks), 0),
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
