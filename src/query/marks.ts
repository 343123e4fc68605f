/**
 * Marks as DuckDB tables, kept between queries: a segment never changes and its marks only grow, so (file, count)
 * names a set of marks. A table in use is never dropped.
 */
import type { DuckDBDataChunk as DataChunk, DuckDBConnection } from '@duckdb/node-api'
import type { MarkDelta } from '../keys/protocol.ts'
import { DuckDBDataChunk, UINTEGER } from '../util/duckdb.ts'
import { warn } from '../util/say.ts'

interface Entry {
  readonly table: string
  readonly rows: number
  readonly made: Promise<void>
  users: number
}

/** Marked rows of a segment. */
export function countMarks(marks: readonly MarkDelta[]): number {
  return marks.reduce((sum, part) => sum + part.rows.length, 0)
}

export class MarkTables {
  readonly #connection: DuckDBConnection
  readonly #rowsMax: number
  /** In the order of use, the longest unused first. */
  readonly #entries = new Map<string, Entry>()
  /** The connection makes or drops one table at a time. */
  #last: Promise<void> = Promise.resolve()
  #rows = 0
  #made = 0

  /** @param rowsMax marks kept beyond those in use */
  constructor(connection: DuckDBConnection, rowsMax: number) {
    this.#connection = connection
    this.#rowsMax = rowsMax
  }

  /** Marks held as tables. */
  get rows(): number {
    return this.#rows
  }

  /** The table of a segment's marks, column `r`; `release` it by the same arguments when the query has ended. */
  async acquire(file: string, marks: readonly MarkDelta[]): Promise<string> {
    const rows = countMarks(marks)
    const key = keyOf(file, rows)
    const entry = this.#entries.get(key) ?? this.#make(rows, marks)
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    entry.users++
    try {
      await entry.made
    } catch (error) {
      entry.users--
      if (this.#entries.get(key) === entry) this.#forget(key, entry)
      throw error
    }
    return entry.table
  }

  /** Ends a use, and drops the longest unused tables where there are too many. Never rejects. */
  async release(file: string, marks: readonly MarkDelta[]): Promise<void> {
    const entry = this.#entries.get(keyOf(file, countMarks(marks)))
    if (entry !== undefined) entry.users--
    for (const [key, old] of [...this.#entries]) {
      if (this.#rows <= this.#rowsMax) return
      // Another release may have dropped it while this one dropped the one before.
      if (old.users > 0 || this.#entries.get(key) !== old) continue
      this.#forget(key, old)
      try {
        await this.#inTurn(async () => {
          await this.#connection.run(`DROP TABLE ${old.table}`)
        })
      } catch (error) {
        // The query has its answer; the table is in nobody's way.
        warn(`a table of marks stays in memory: ${(error as Error).message}`)
      }
    }
  }

  #make(rows: number, marks: readonly MarkDelta[]): Entry {
    const table = `marks_${++this.#made}`
    this.#rows += rows
    return { table, rows, users: 0, made: this.#inTurn(() => this.#fill(table, marks)) }
  }

  #forget(key: string, entry: Entry): void {
    this.#entries.delete(key)
    this.#rows -= entry.rows
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => undefined) // the failure is the caller's; the next turn comes all the same
    return turn
  }

  async #fill(table: string, marks: readonly MarkDelta[]): Promise<void> {
    await this.#connection.run(`CREATE TABLE ${table} (r UINTEGER)`)
    try {
      await this.#append(table, marks)
    } catch (error) {
      await this.#connection.run(`DROP TABLE ${table}`)
      throw error
    }
  }

  async #append(table: string, marks: readonly MarkDelta[]): Promise<void> {
    const appender = await this.#connection.createAppender(table)
    const chunk = DuckDBDataChunk.create([UINTEGER])
    try {
      for (const { rows } of marks)
        for (let from = 0; from < rows.length; from += CHUNK_ROWS) {
          fillChunk(chunk, rows.subarray(from, from + CHUNK_ROWS))
          appender.appendDataChunk(chunk)
        }
    } finally {
      appender.closeSync()
    }
  }
}

/** DuckDB's own size of a chunk. */
const CHUNK_ROWS = 2048

/** Four times as fast as value by value: an update marks rows all over, and each query after it asks for them anew. */
function fillChunk(chunk: DataChunk, rows: Uint32Array): void {
  chunk.rowCount = rows.length
  const vector = chunk.getColumnVector(0)
  for (let index = 0; index < rows.length; index++) vector.setItem(index, rows[index]!)
  vector.flush()
}

function keyOf(file: string, rows: number): string {
  return `${rows} ${file}`
}
