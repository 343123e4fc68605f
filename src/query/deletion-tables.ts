/**
 * Deletion vectors as DuckDB tables, cached between queries: how live rows are found without the
 * native module. A segment never changes and its deleted rows only grow, so (file, number of
 * deleted rows) names one state of a vector.
 *
 *   W-9  Idle tables have a limit of bytes and of number; the least recently used go first. A newer
 *        state of a file's vector replaces the older one. The table of a removed file goes with it.
 *        A table in use is never dropped.
 *
 * The smallest table takes 10 KiB of DuckDB's memory and about as much outside of its memory limit.
 * Without a limit of their number, many small tables fill the memory long before their rows do.
 */
import type { DuckDBDataChunk as DataChunk, DuckDBConnection } from '@duckdb/node-api'
import type { DeletionVector, QuerySegment } from '../index/index-types.ts'
import { DuckDBDataChunk, UINTEGER } from '../util/duckdb.ts'
import { isOutOfMemory } from '../util/duckdb-errors.ts'
import { warn } from '../util/say.ts'
import { countDeletedRows, type DeletedRows, type HeldDeletedRows } from './live-rows.ts'

/** The limits of all tables together. */
export interface DeletionTableLimits {
  /** As `tableBytes` counts them. */
  readonly bytesMax: number
  readonly tablesMax: number
}

interface Entry {
  readonly file: string
  readonly table: string
  readonly rows: number
  /** Settles when the table is filled. */
  readonly filled: Promise<void>
  users: number
  /** True once it is not in #entries any more. Its last user then drops the table. */
  isObsolete: boolean
}

/** A table in use. */
export interface DeletionTable {
  /** Its name; it has one column, `r`. */
  readonly table: string
  /**
   * Ends the use, once. Drops the least recently used idle tables beyond the limits. Never rejects.
   */
  release(): Promise<void>
}

/**
 * The most memory that a table of `rows` rows takes: 10 KiB up to one chunk, and blocks of 256 KiB
 * beyond it.
 */
export function tableBytes(rows: number): number {
  const blocks = rows <= CHUNK_ROWS ? 0 : 1 + Math.ceil(rows / 32_768)
  return 10_240 + blocks * 262_144
}

export class DeletionTables implements DeletedRows {
  readonly #connection: DuckDBConnection
  readonly #limits: DeletionTableLimits
  /** By file, the least recently used first. */
  readonly #entries = new Map<string, Entry>()
  /** The end of the queue: the connection makes or drops one table at a time. */
  #lastTurn: Promise<void> = Promise.resolve()
  /** Obsolete entries that DuckDB had no memory to drop. Each release tries again. */
  readonly #undropped = new Set<Entry>()
  /** The bytes and the number of all tables that are not dropped yet. */
  #bytes = 0
  #tables = 0
  #tablesMade = 0

  constructor(connection: DuckDBConnection, limits: DeletionTableLimits) {
    this.#connection = connection
    this.#limits = limits
  }

  /** The number of tables, and their bytes. */
  stats(): { readonly tables: number; readonly bytes: number } {
    return { tables: this.#tables, bytes: this.#bytes }
  }

  async hold(segments: readonly QuerySegment[]): Promise<HeldDeletedRows> {
    const held: DeletionTable[] = []
    const release = async () => {
      for (const table of held) await table.release()
    }
    try {
      for (const { file, deletionVectors } of segments) held.push(await this.acquire(file, deletionVectors))
    } catch (error) {
      await release()
      throw error
    }
    return { skipping: { by: 'tables', tables: held.map(({ table }) => table) }, release }
  }

  /**
   * The table of a segment's deleted rows; the caller releases it when the query ended. If memory
   * runs out, this drops all idle tables and tries once more. Rejects with DuckDB's error.
   */
  async acquire(file: string, deletionVectors: readonly DeletionVector[]): Promise<DeletionTable> {
    try {
      return await this.#acquire(file, deletionVectors)
    } catch (error) {
      if (!isOutOfMemory(error) || !(await this.dropIdle())) throw error
      return await this.#acquire(file, deletionVectors)
    }
  }

  async forget(files: readonly string[]): Promise<void> {
    for (const file of files) {
      const entry = this.#entries.get(file)
      if (entry !== undefined) await this.#retire(entry)
    }
  }

  async dropIdle(): Promise<boolean> {
    const idle = [...this.#entries.values()].filter(entry => entry.users === 0)
    for (const entry of idle) if (entry.users === 0) await this.#retire(entry)
    return idle.length > 0
  }

  async #acquire(file: string, deletionVectors: readonly DeletionVector[]): Promise<DeletionTable> {
    const entry = this.#entryOf(file, countDeletedRows(deletionVectors), deletionVectors)
    entry.users++
    try {
      await entry.filled
    } catch (error) {
      entry.users--
      await this.#fillFailed(entry)
      throw error
    }
    return { table: entry.table, release: () => this.#release(entry) }
  }

  async #release(entry: Entry): Promise<void> {
    entry.users--
    if (entry.isObsolete && entry.users === 0) await this.#drop(entry)
    // Another release may have dropped the table meanwhile.
    for (const old of [...this.#undropped]) if (this.#undropped.has(old)) await this.#drop(old)
    for (const old of [...this.#entries.values()]) {
      if (this.#bytes <= this.#limits.bytesMax && this.#tables <= this.#limits.tablesMax) return
      if (old.users === 0) await this.#retire(old)
    }
  }

  /**
   * The entry of this state, made if there is none. A state older than the cached one serves only
   * its own query.
   */
  #entryOf(file: string, rows: number, deletionVectors: readonly DeletionVector[]): Entry {
    const known = this.#entries.get(file)
    const isOlder = known !== undefined && known.rows > rows
    if (known !== undefined && !isOlder) this.#entries.delete(file)
    if (known?.rows === rows) {
      this.#entries.set(file, known) // now the most recently used
      return known
    }
    if (known !== undefined && !isOlder) void this.#makeObsolete(known)
    const entry = this.#make(file, rows, deletionVectors)
    if (isOlder) entry.isObsolete = true
    else this.#entries.set(file, entry)
    return entry
  }

  #make(file: string, rows: number, deletionVectors: readonly DeletionVector[]): Entry {
    const table = `deleted_${++this.#tablesMade}`
    const filled = this.#inTurn(() => this.#fill(table, deletionVectors))
    const entry: Entry = { file, table, rows, filled, users: 0, isObsolete: false }
    this.#account(entry, 1)
    return entry
  }

  #account({ rows }: Entry, sign: 1 | -1): void {
    this.#bytes += sign * tableBytes(rows)
    this.#tables += sign
  }

  /** Removes an entry. Its table is dropped now, or by its last user. */
  async #retire(entry: Entry): Promise<void> {
    if (this.#entries.get(entry.file) !== entry) return // another call removed it
    this.#entries.delete(entry.file)
    await this.#makeObsolete(entry)
  }

  async #makeObsolete(entry: Entry): Promise<void> {
    entry.isObsolete = true
    if (entry.users === 0) await this.#drop(entry)
  }

  /** Never rejects, because the query that used the table has its answer. */
  async #drop(entry: Entry): Promise<void> {
    this.#undropped.delete(entry)
    this.#account(entry, -1)
    try {
      await this.#inTurn(async () => {
        await this.#connection.run(`DROP TABLE IF EXISTS ${entry.table}`)
      })
    } catch (error) {
      this.#undropped.add(entry)
      this.#account(entry, 1)
      if (!isOutOfMemory(error))
        warn(`the table of deleted rows of ${entry.file} cannot be dropped: ${(error as Error).message}`)
    }
  }

  /** Each user of an entry calls this when its table could not be filled. */
  async #fillFailed(entry: Entry): Promise<void> {
    if (this.#entries.get(entry.file) === entry) this.#entries.delete(entry.file)
    if (entry.users === 0) await this.#drop(entry)
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#lastTurn.then(work)
    // The caller handles a failure. The next turn comes all the same.
    this.#lastTurn = turn.catch(() => undefined)
    return turn
  }

  async #fill(table: string, deletionVectors: readonly DeletionVector[]): Promise<void> {
    await this.#connection.run(`CREATE TABLE ${table} (r UINTEGER)`)
    const appender = await this.#connection.createAppender(table)
    const chunk = DuckDBDataChunk.create([UINTEGER])
    try {
      for (const { rows } of deletionVectors)
        for (let from = 0; from < rows.length; from += CHUNK_ROWS) {
          fillChunk(chunk, rows.subarray(from, from + CHUNK_ROWS))
          appender.appendDataChunk(chunk)
        }
    } finally {
      appender.closeSync()
    }
  }
}

/** DuckDB's chunk size. */
const CHUNK_ROWS = 2048

/**
 * Four times as fast as appending value by value, which matters after an update that deletes rows
 * in many segments.
 */
function fillChunk(chunk: DataChunk, rows: Uint32Array): void {
  chunk.rowCount = rows.length
  const vector = chunk.getColumnVector(0)
  for (let index = 0; index < rows.length; index++) vector.setItem(index, rows[index]!)
  vector.flush()
}
