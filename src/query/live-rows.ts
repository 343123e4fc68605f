/**
 * `rows`, which statements read: the manifest's segments minus their deletion vectors, with the
 * columns and types of the pool's schema.
 *
 * Segments without deleted rows are one plain scan. Segments with deleted rows are one scan too,
 * anti-joined on (file_index, file_row_number) with the deleted rows. One scan for each file loses
 * the push-down of filters: 190 instead of 93 ms for 8M rows.
 *
 * Deletion vectors are DuckDB tables, cached between queries. A segment never changes and its
 * deleted rows only grow, so (file, number of deleted rows) names one state of a vector.
 *
 *   W-9  Idle tables have a limit of bytes and of number; the least recently used go first. A newer
 *        state of a file's vector replaces the older one. The table of a removed file goes with it.
 *        A table in use is never dropped.
 *
 * The smallest table takes 10 KiB of DuckDB's memory and about as much outside of its memory limit.
 * Without a limit of their number, many small tables fill the memory long before their rows do.
 */
import type { DuckDBDataChunk as DataChunk, DuckDBConnection } from '@duckdb/node-api'
import { ROW_NUMBER } from '../format/row-changes.ts'
import { type PoolSchema, SEQUENCE } from '../format/schema.ts'
import type { DeletionVector, QuerySegment } from '../index/index-types.ts'
import { DuckDBDataChunk, UINTEGER } from '../util/duckdb.ts'
import { warn } from '../util/say.ts'
import { quoteName, quoteText } from '../util/sql.ts'
import { isOutOfMemory } from './duckdb-instance.ts'
import { sqlType } from './duckdb-values.ts'
import { queryColumns } from './operand.ts'
import type { Restriction, Statement } from './query-types.ts'

/** A segment to read. */
export interface Source {
  readonly file: string
  /** Names of the file's columns. Files with equal columns share one set. */
  readonly columns: ReadonlySet<string>
  /** The table of the segment's deleted rows; undefined if it has none. */
  readonly deletedRows: string | undefined
}

/** A pool that a statement reads. */
export interface PoolSources {
  readonly schema: PoolSchema
  readonly sources: readonly Source[]
  readonly restriction?: Restriction | undefined
  /** The rows have ROW_NUMBER and SEQUENCE too. */
  readonly hasPositions?: boolean
}

/** The name of a pool's rows in a statement. Pool 0 is the task's own. */
export function rowsName(pool: number): string {
  return `rows${suffix(pool)}`
}

function suffix(pool: number): string {
  return pool === 0 ? '' : `_${pool}`
}

/**
 * The statement with `rows`, `rows_1` and so on defined, and the tables that it makes of them. The
 * rows are not materialized, so that DuckDB pushes filters and columns into the scans.
 */
export function withRows(
  pools: readonly PoolSources[],
  { sql, commons }: Pick<Statement, 'sql' | 'commons'>,
): string {
  const tables = [...pools.flatMap(rowsOf), ...(commons === undefined ? [] : [commons])]
  return `WITH ${tables.join(', ')} ${sql}`
}

/** The tables of one pool, `rows` last. */
function rowsOf(
  { schema, sources, restriction, hasPositions = false }: PoolSources,
  pool: number,
): readonly string[] {
  const whole = sources.filter(source => source.deletedRows === undefined)
  const reduced = sources.filter(source => source.deletedRows !== undefined)
  const deletedName = `deleted${suffix(pool)}`
  const parts: string[] = []
  const columns = (read: readonly Source[]) => selectList(schema, read, hasPositions)
  if (whole.length > 0) parts.push(`${columns(whole)} FROM ${scan(whole, hasPositions)} s`)
  if (reduced.length > 0)
    parts.push(
      `${columns(reduced)} FROM ${scan(reduced, true)} s ` +
        `ANTI JOIN ${deletedName} d ON s.file_index = d.f AND s.file_row_number = d.r`,
    )
  if (parts.length === 0) parts.push(`${selectList(schema, [], false)} WHERE false`)
  const deleted = reduced.length > 0 ? [`${deletedName} AS MATERIALIZED (${deletedRows(reduced)})`] : []
  const all = parts.join(' UNION ALL ')
  if (restriction === undefined) return [...deleted, `${rowsName(pool)} AS NOT MATERIALIZED (${all})`]
  const { columns: names, where } = restriction
  // Without a column, rows can still be counted.
  const visible = names === null ? '*' : names.map(quoteName).join(', ') || 'NULL AS _service_none'
  const condition = where === '' ? '' : ` WHERE ${where}`
  const allName = `all_rows${suffix(pool)}`
  return [
    ...deleted,
    `${allName} AS NOT MATERIALIZED (${all})`,
    `${rowsName(pool)} AS NOT MATERIALIZED (SELECT ${visible} FROM ${allName}${condition})`,
  ]
}

/**
 * NOTE: materialized. A join built straight from the tables takes some 5 MB for each of them,
 * however small: 60 segments took all of DuckDB's memory.
 */
function deletedRows(sources: readonly Source[]): string {
  return sources
    .map((source, index) => `SELECT ${index}::UBIGINT AS f, r::BIGINT AS r FROM ${source.deletedRows}`)
    .join(' UNION ALL ')
}

/** A column that no file has, because it was added later, is null. */
function selectList(schema: PoolSchema, sources: readonly Source[], hasPositions: boolean): string {
  const columns = queryColumns(schema).map(({ name, type }) => {
    const isStored = sources.some(source => source.columns.has(name))
    return isStored ? `s.${quoteName(name)}` : `NULL::${sqlType(type)} AS ${quoteName(name)}`
  })
  const positions = hasPositions ? [`s.file_row_number AS ${ROW_NUMBER}`, `s.${SEQUENCE}`] : []
  return `SELECT ${[...columns, ...positions].join(', ')}`
}

/**
 * Files with equal columns are read by the first one's footer. Others are read by column name, with
 * nulls where a file lacks a column.
 */
function scan(sources: readonly Source[], hasRowNumbers: boolean): string {
  const columns = sources[0]?.columns
  const areEqual = sources.every(source => source.columns === columns)
  const options = [
    ...(hasRowNumbers ? ['file_row_number = true'] : []),
    ...(areEqual ? [] : ['union_by_name = true']),
  ]
  const files = sources.map(({ file }) => quoteText(file)).join(', ')
  return `read_parquet(${[`[${files}]`, ...options].join(', ')})`
}

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

/** The number of deleted rows of a segment. */
export function countDeletedRows(deletionVectors: readonly DeletionVector[]): number {
  return deletionVectors.reduce((sum, part) => sum + part.rows.length, 0)
}

/** The rows of segments, deleted ones left out. */
export function countLiveRows(segments: readonly QuerySegment[]): number {
  return segments.reduce(
    (sum, { meta, deletionVectors }) => sum + meta.rows - countDeletedRows(deletionVectors),
    0,
  )
}

/**
 * The most memory that a table of `rows` rows takes: 10 KiB up to one chunk, and blocks of 256 KiB
 * beyond it.
 */
export function tableBytes(rows: number): number {
  const blocks = rows <= CHUNK_ROWS ? 0 : 1 + Math.ceil(rows / 32_768)
  return 10_240 + blocks * 262_144
}

export class DeletionTables {
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

  /** Drops the tables of files that no manifest names any more. Never rejects. */
  async forget(files: readonly string[]): Promise<void> {
    for (const file of files) {
      const entry = this.#entries.get(file)
      if (entry !== undefined) await this.#retire(entry)
    }
  }

  /** Drops all tables that no query uses. False: there was none. Never rejects. */
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
