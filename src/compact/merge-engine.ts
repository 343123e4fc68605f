/**
 * DuckDB in the merge thread. An instance serves small merges one after the other, or one large one, so that its memory goes
 * back (merge.ts). Its statements run in this very thread, task by task, with a rest after each (pace.ts).
 */

import type { DuckDBConnection } from '@duckdb/node-api'
import { MERGE_IDLE_MS, MERGE_INTERRUPTED_STEPS_MAX, MERGE_SLICE } from '../limits.ts'
import { assert } from '../util/assert.ts'
import { DuckDBInstance, DuckDBPendingResultState } from '../util/duckdb.ts'
import { quoteText } from '../util/sql.ts'
import type { Pacer } from './pace.ts'

/** A value of a result. */
type Value = string | number | bigint | null

export class MergeEngine {
  readonly #instance: DuckDBInstance
  readonly #connection: DuckDBConnection
  readonly #pacer: Pacer
  #isEnlarged = false

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection, pacer: Pacer) {
    this.#instance = instance
    this.#connection = connection
    this.#pacer = pacer
  }

  /** @param folder where it spills; its own, since DuckDB's names for such files are the same in every instance */
  static async open(folder: string, memoryBytes: number, pacer: Pacer): Promise<MergeEngine> {
    const instance = await DuckDBInstance.create(':memory:', { threads: '1' })
    const connection = await instance.connect()
    const engine = new MergeEngine(instance, connection, pacer)
    const settings = [
      "SET TimeZone = 'UTC'",
      `SET temp_directory = ${quoteText(folder)}`,
      `SET memory_limit = '${Math.trunc(memoryBytes / 1024)}KiB'`,
      'SET enable_external_file_cache = false', // each file is read once: 12 kB of each would stay
      'SET autoinstall_known_extensions = false',
      'SET autoload_known_extensions = false',
      'SET allow_community_extensions = false',
    ]
    for (const setting of settings) await connection.run(setting)
    return engine
  }

  /** It got more memory than it was opened with. */
  get isEnlarged(): boolean {
    return this.#isEnlarged
  }

  /** More memory for what runs from here on. */
  async enlarge(bytes: number): Promise<void> {
    this.#isEnlarged = true
    await this.#connection.run(`SET memory_limit = '${Math.trunc(bytes / 1024)}KiB'`)
  }

  /** Runs one statement; its rows. Rejects with DuckDB's error, or Unavailable where the merge is given up. */
  async run(sql: string): Promise<readonly (readonly Value[])[]> {
    const prepared = await this.#connection.prepare(sql)
    try {
      const pending = prepared.start()
      try {
        await this.#steps(() => pending.runTask())
      } catch (error) {
        if (this.#pacer.isStopped) this.#interrupt(() => pending.runTask())
        throw error
      }
      const result = await pending.getResult()
      return (await result.getRows()) as unknown as Value[][]
    } finally {
      prepared.destroySync()
    }
  }

  /** A table of (f, r): for each list, its place in `lists` and its rows. Takes the place of one of this name. */
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
          if (i % MERGE_SLICE === MERGE_SLICE - 1) await this.#pacer.rest()
        }
      }
    } finally {
      appender.closeSync()
    }
    await this.#pacer.rest()
  }

  /** Gives its memory back. */
  close(): void {
    this.#connection.closeSync()
    this.#instance.closeSync()
  }

  async #steps(runTask: () => DuckDBPendingResultState): Promise<void> {
    for (;;) {
      const state = runTask()
      await this.#pacer.rest()
      if (state === DuckDBPendingResultState.RESULT_READY) return
      if (state === DuckDBPendingResultState.NO_TASKS_AVAILABLE)
        await new Promise(resolve => setTimeout(resolve, MERGE_IDLE_MS))
    }
  }

  /** A statement that is given up ends by itself, and removes what it wrote. */
  #interrupt(runTask: () => DuckDBPendingResultState): void {
    this.#connection.interrupt()
    for (let i = 0; i < MERGE_INTERRUPTED_STEPS_MAX; i++) {
      try {
        if (runTask() === DuckDBPendingResultState.RESULT_READY) return
      } catch {
        return // it says that it was interrupted
      }
    }
    assert(false, 'an interrupted statement ends')
  }
}
