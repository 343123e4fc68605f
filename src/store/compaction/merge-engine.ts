/**
 * DuckDB in the merge thread: an instance, and the statements of a merge.
 *
 * One instance serves small merges one after the other, or one large merge, whose memory is freed
 * with it (merge.ts). Statements run in this thread, task by task, with a rest after each
 * (merge-throttle.ts). Every name and text in a statement is our own: file names, and columns of
 * the schema.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { DuckDBConnection } from '@duckdb/node-api'
import { KEY_RECEIVED_AT, PAYLOAD, type PoolSchema, RECEIVED_AT, SEQUENCE } from '../../format/schema.ts'
import { DuckDBInstance, DuckDBPendingResultState } from '../../util/duckdb.ts'
import { applySettings, setMemory } from '../../util/duckdb-settings.ts'
import { assert, Damaged, SegmentDamaged } from '../../util/errors.ts'
import { MiB, ROW_GROUP_ROWS } from '../../util/limits.ts'
import { quoteName, quoteText } from '../../util/sql.ts'
import type { MergeChanges } from './compaction-types.ts'
import { changesJoin, storedType, valueAfter } from './merge-changes.ts'
import type { MergeThrottle } from './merge-throttle.ts'

/** Bytes of a row group that a merge writes. Writers and readers hold one, uncompressed. */
const MERGE_GROUP_BYTES = 16 * MiB
/** Wait before the merge thread asks DuckDB again where it has no task yet. */
const MERGE_IDLE_MS = 1
/** Tasks that an interrupted statement may still run. */
const MERGE_INTERRUPTED_STEPS_MAX = 1_000
/** Deleted rows that a merge handles between two rests: some 20 ms. */
const MERGE_SLICE = 65_536

type Value = string | number | bigint | null

export class MergeEngine {
  readonly #instance: DuckDBInstance
  readonly #connection: DuckDBConnection
  readonly #throttle: MergeThrottle
  #isEnlarged = false

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection, throttle: MergeThrottle) {
    this.#instance = instance
    this.#connection = connection
    this.#throttle = throttle
  }

  /**
   * @param folder for spilled data; one instance alone may use it, since every instance gives its
   * files the same names
   */
  static async open(folder: string, memoryBytes: number, throttle: MergeThrottle): Promise<MergeEngine> {
    const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    const connection = await instance.connect()
    const engine = new MergeEngine(instance, connection, throttle)
    await applySettings(connection, { memoryBytes, threads: 1, spillFolder: folder })
    return engine
  }

  get isEnlarged(): boolean {
    return this.#isEnlarged
  }

  async enlarge(bytes: number): Promise<void> {
    this.#isEnlarged = true
    await setMemory(this.#connection, bytes)
  }

  /**
   * Runs one statement and returns its rows. Rejects with DuckDB's error, or Unavailable where the
   * merge is cancelled.
   */
  async run(sql: string): Promise<readonly (readonly Value[])[]> {
    const prepared = await this.#connection.prepare(sql)
    try {
      const pending = prepared.start()
      try {
        await this.#runTasks(() => pending.runTask())
      } catch (error) {
        if (this.#throttle.isStopped) this.#interrupt(() => pending.runTask())
        throw error
      }
      const result = await pending.getResult()
      return (await result.getRows()) as unknown as Value[][]
    } finally {
      prepared.destroySync()
    }
  }

  /**
   * Calls `take` with each value of a statement's one column, chunk by chunk. Rejects as `run`
   * does.
   */
  async eachInteger(sql: string, take: (value: number) => void): Promise<void> {
    const result = await this.#connection.stream(sql)
    for (;;) {
      const chunk = await result.fetchChunk()
      if (chunk === null || chunk.rowCount === 0) return
      for (const value of chunk.getColumnValues(0)) take(Number(value))
      await this.#throttle.rest()
    }
  }

  /**
   * Makes a table of (f, r): for each list, its place in `lists` and its rows. Replaces a table of
   * this name.
   */
  async makeTable(name: string, lists: readonly Uint32Array[]): Promise<void> {
    await this.#connection.run(`CREATE OR REPLACE TABLE ${name} (f UBIGINT, r BIGINT)`)
    const appender = await this.#connection.createAppender(name)
    try {
      for (const [f, rows] of lists.entries()) {
        const place = BigInt(f)
        for (let i = 0; i < rows.length; i++) {
          appender.appendUBigInt(place)
          appender.appendBigInt(BigInt(rows[i] as number))
          appender.endRow()
          if (i % MERGE_SLICE === MERGE_SLICE - 1) await this.#throttle.rest()
        }
      }
    } finally {
      appender.closeSync()
    }
    await this.#throttle.rest()
  }

  close(): void {
    this.#connection.closeSync()
    this.#instance.closeSync()
  }

  async #runTasks(runTask: () => DuckDBPendingResultState): Promise<void> {
    for (;;) {
      const state = runTask()
      await this.#throttle.rest()
      if (state === DuckDBPendingResultState.RESULT_READY) return
      if (state === DuckDBPendingResultState.NO_TASKS_AVAILABLE) await delay(MERGE_IDLE_MS)
    }
  }

  /** Runs a cancelled statement to its end: DuckDB then removes the file that it wrote. */
  #interrupt(runTask: () => DuckDBPendingResultState): void {
    this.#connection.interrupt()
    for (let i = 0; i < MERGE_INTERRUPTED_STEPS_MAX; i++) {
      try {
        if (runTask() === DuckDBPendingResultState.RESULT_READY) return
      } catch {
        return // DuckDB reports that the statement was interrupted
      }
    }
    assert(false, 'an interrupted statement ends')
  }
}

// ── statements ───────────────────────────────────────────────────────────────────────────────────

/** A `COPY` of several files' rows into one. */
export interface Copy {
  readonly schema: PoolSchema
  /** In the order of their sequences, each with the first `columns` columns of the schema. */
  readonly files: readonly { readonly file: string; readonly columns: number }[]
  /**
   * Table of the rows to leave out: `f` is the file's place in `files`, `r` the row's number in the
   * file. It is undefined where every row is read.
   */
  readonly without: string | undefined
  readonly isSorted: boolean
  readonly to: string
  readonly footer: ReadonlyMap<string, string>
  /** Average size of a row before compression. */
  readonly rowBytes: number
  /** Changes of the rows of the one file. */
  readonly changes: MergeChanges | undefined
}

/** `COPY (…) TO …`; its result is the number of rows. */
export function copySql(copy: Copy): string {
  const { schema, files, without, changes } = copy
  const counts = files.map(({ columns }) => columns)
  const [stored, common] = [Math.max(...counts), Math.min(...counts)]
  const own = schema.columns.map(({ name, type }, index) => {
    const value = index < stored ? `s.${quoteName(name)}` : `NULL::${storedType(type)}`
    return `${valueAfter(value, schema, index, changes?.set)} AS ${quoteName(name)}`
  })
  const always = [RECEIVED_AT, PAYLOAD].map(name => `s.${quoteName(name)}`)
  const select = `SELECT ${[...always, ...own, `s.${quoteName(SEQUENCE)}`].join(', ')}`
  // Read by the names of columns, a file has null in a column that it lacks.
  const hasNumbers = without !== undefined || changes !== undefined
  const reading = `file_row_number = ${hasNumbers}, union_by_name = ${common < stored}`
  const scan = `read_parquet(${fileList(files.map(({ file }) => file))}, ${reading}) s`
  const join = changes === undefined ? '' : changesJoin(changes)
  const minus =
    without === undefined ? '' : ` ANTI JOIN ${without} m ON s.file_index = m.f AND s.file_row_number = m.r`
  const order = copy.isSorted ? ` ORDER BY ${orderOf(schema).map(quoteName).join(', ')}` : ''
  const footer = [...copy.footer].map(([name, value]) => `${quoteText(name)}: ${quoteText(value)}`).join(', ')
  const options = `FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${groupRows(copy.rowBytes)}, KV_METADATA {${footer}}`
  return `COPY (${select} FROM ${scan}${minus}${join}${order}) TO ${quoteText(copy.to)} (${options})`
}

/**
 * Row numbers of a file's rows below the cutoff. A null timestamp has no age; a DATE counts as its
 * midnight.
 */
export function expiredSql(schema: PoolSchema, file: string, beforeUs: number): string {
  const timestamp = `s.${quoteName(nameOf(schema, schema.timestamp))}`
  return (
    `SELECT s.file_row_number::INTEGER FROM read_parquet(${fileList([file])}, file_row_number = true) s ` +
    `WHERE coalesce(epoch_us(${timestamp}) < ${BigInt(Math.trunc(beforeUs))}, false)`
  )
}

/**
 * Columns that cluster rows as readers filter them: tenant, time, key; else the key; without a key
 * time and sequence.
 */
function orderOf(schema: PoolSchema): string[] {
  const key = schema.key?.columns ?? [schema.timestamp]
  const names = (schema.tenant < 0 ? key : [schema.tenant, schema.timestamp, ...key]).map(index =>
    nameOf(schema, index),
  )
  return [...new Set(schema.key === null ? [...names, SEQUENCE] : names)]
}

function nameOf(schema: PoolSchema, index: number): string {
  return index === KEY_RECEIVED_AT ? RECEIVED_AT : (schema.columns[index]?.name ?? RECEIVED_AT)
}

function groupRows(rowBytes: number): number {
  return Math.max(1, Math.min(ROW_GROUP_ROWS, Math.floor(MERGE_GROUP_BYTES / Math.max(rowBytes, 1))))
}

/** `['a', 'b']` */
function fileList(files: readonly string[]): string {
  return `[${files.map(quoteText).join(', ')}]`
}

// ── failures ─────────────────────────────────────────────────────────────────────────────────────

/**
 * The error of a reader of one input: a damaged or missing file becomes SegmentDamaged; other
 * errors stay.
 */
export function asSegmentDamaged(error: unknown): unknown {
  if (error instanceof Damaged) return new SegmentDamaged(error.file, error.message)
  const { code, path } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' && path !== undefined) return new SegmentDamaged(path, 'the file is missing')
  return error
}
