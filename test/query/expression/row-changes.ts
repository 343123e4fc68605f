/** Changes of a job over segments of a test pool: planned, found by the engine, and read again. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api'
import type { PoolSchema } from '../../../src/format/schema.ts'
import type { QuerySegment } from '../../../src/index/index-types.ts'
import { parseTexts } from '../../../src/query/ask.ts'
import { printValue } from '../../../src/query/duckdb/duckdb-values.ts'
import { isBadQuery } from '../../../src/query/expression/values.ts'
import { rowsOfPool, type SegmentEngine } from '../../../src/query/plan/segment-task.ts'
import { planRowChanges, type RowChanges } from '../../../src/query/plan-row-changes.ts'
import { valuesSql } from '../../../src/store/compaction/merge-changes.ts'
import { quoteText } from '../../../src/util/sql.ts'
import type { TestPool } from '../pool.ts'
import { NOW_MS } from './pool.ts'

/** The new values of a row, as the API prints them, by the number of the row. */
type Found = ReadonlyMap<number, readonly (string | null)[]>

/** The sequence of every row of a test pool. */
export const SEQUENCE = 0

export class RowChangesFinder {
  readonly #pool: TestPool
  readonly #schema: PoolSchema
  readonly #segment: QuerySegment
  readonly #engine: SegmentEngine
  #reader: DuckDBConnection | undefined
  #files = 0

  constructor(pool: TestPool, schema: PoolSchema, segment: QuerySegment, engine: SegmentEngine) {
    this.#pool = pool
    this.#schema = schema
    this.#segment = segment
    this.#engine = engine
  }

  /** The refusal of changes, or undefined. */
  async refusal(changes: Partial<RowChanges>): Promise<string | undefined> {
    const planned = await this.#plan(changes)
    return isBadQuery(planned) ? planned.badRequest : undefined
  }

  /**
   * The changes that the engine finds, or the refusal. Rejects where the engine fails by itself.
   */
  async find(changes: Partial<RowChanges>, beforeSequence = SEQUENCE + 1): Promise<Found | string> {
    const planned = await this.#plan(changes, beforeSequence)
    if (isBadQuery(planned)) return planned.badRequest
    const file = join(this.#pool.temporaryFolder, `changes-${++this.#files}.parquet`)
    const copyTo = {
      format: 'parquet',
      file,
      compression: 'zstd',
      hasDictionaries: true,
      rowGroupRows: 1000,
      msMax: 60_000,
    } as const
    const segments = [this.#segment]
    await this.#engine.run(
      { source: rowsOfPool(this.#schema, { segments }), statement: planned.statement, rowsMax: 1, copyTo },
      'APP',
    )
    try {
      return await this.#read(file, changes)
    } finally {
      rmSync(file)
    }
  }

  #plan(changes: Partial<RowChanges>, beforeSequence = SEQUENCE + 1) {
    const all = { filters: [], filterSql: null, set: [], ...changes }
    const parse = (texts: readonly string[]) => parseTexts(texts, this.#engine, 'APP')
    return planRowChanges(this.#schema, all, beforeSequence, NOW_MS, parse, this.#engine.dialect)
  }

  async #read(file: string, { set = [] }: Partial<RowChanges>): Promise<Found> {
    if (this.#reader === undefined) {
      this.#reader = await (await DuckDBInstance.create(':memory:')).connect()
      await this.#reader.run("SET TimeZone = 'UTC'")
    }
    // What a merge reads first.
    const indexes = set.map(({ column }) => this.#schema.columns.findIndex(({ name }) => name === column))
    if (set.length > 0) await this.#reader.run(valuesSql({ file, set: indexes }, this.#schema))
    const result = await this.#reader.runAndReadAll(
      `SELECT * FROM read_parquet(${quoteText(file)}) ORDER BY _service_row`,
    )
    const rows = result
      .getRows()
      .map(row => row.map((value, column) => printValue(value, result.columnType(column))))
    return new Map(rows.map(([row, ...values]) => [Number(row), values]))
  }

  close(): void {
    this.#reader?.closeSync()
  }
}
