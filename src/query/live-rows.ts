/**
 * `rows`, which statements read: the manifest's segments minus their deletion vectors, with the
 * columns and types of the pool's schema.
 *
 * Segments without deleted rows are one plain scan. Segments with deleted rows are one scan too.
 * One scan for each file loses the push-down of filters: 190 instead of 93 ms for 8M rows. A
 * deleted row is left out by (file_index, file_row_number) in one of two ways:
 *
 *   view     a function of the native module, as a condition of the scan (live-row-views.ts)
 *   tables   an anti-join with DuckDB tables of the deleted rows (deletion-tables.ts): without the
 *            native module, and for more deleted rows than it may keep
 */
import { ROW_NUMBER } from '../format/row-changes.ts'
import { type PoolSchema, SEQUENCE } from '../format/schema.ts'
import type { DeletionVector, QuerySegment } from '../index/index-types.ts'
import { quoteName, quoteText } from '../util/sql.ts'
import { sqlType } from './duckdb-values.ts'
import { queryColumns } from './operand.ts'
import type { Restriction, Statement } from './query-types.ts'

/** A segment to read. */
export interface Source {
  readonly file: string
  /** Names of the file's columns. Files with equal columns share one set. */
  readonly columns: ReadonlySet<string>
}

/**
 * How the deleted rows of some segments are left out. Segments are told apart by their position.
 */
type Skipping =
  | { readonly by: 'view'; readonly view: number }
  /** A table for each segment, with one column, `r`. */
  | { readonly by: 'tables'; readonly tables: readonly string[] }

/** What a query holds while it skips deleted rows. */
export interface HeldDeletedRows {
  readonly skipping: Skipping
  /** Ends the use, once. Never rejects. */
  release(): Promise<void>
}

/** Keeps the deleted rows of segments where a query can skip them, one instance of DuckDB each. */
export interface DeletedRows {
  /**
   * Each segment has deleted rows. The caller releases them when its query ended. Rejects with
   * DuckDB's error.
   */
  hold(segments: readonly QuerySegment[]): Promise<HeldDeletedRows>
  /** Drops what is kept of files that no manifest names any more. Never rejects. */
  forget(files: readonly string[]): Promise<void>
  /** Frees what DuckDB's memory holds for no query. False: there was nothing. Never rejects. */
  dropIdle(): Promise<boolean>
}

/** A pool that a statement reads. */
export interface PoolSources {
  readonly schema: PoolSchema
  /** Segments without deleted rows. */
  readonly whole: readonly Source[]
  /** Segments with deleted rows, and how these are skipped; undefined: there is none. */
  readonly reduced: { readonly sources: readonly Source[]; readonly skipping: Skipping } | undefined
  readonly restriction?: Restriction | undefined
  /** The rows have ROW_NUMBER and SEQUENCE too. */
  readonly hasPositions?: boolean
}

/** DuckDB's name of the native function. No statement of a user may name it. */
export const IS_LIVE = '_service_is_live'

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
  { schema, whole, reduced, restriction, hasPositions = false }: PoolSources,
  pool: number,
): readonly string[] {
  const deletedName = `deleted${suffix(pool)}`
  const parts: string[] = []
  const deleted: string[] = []
  const columns = (read: readonly Source[]) => selectList(schema, read, hasPositions)
  if (whole.length > 0) parts.push(`${columns(whole)} FROM ${scan(whole, hasPositions)} s`)
  if (reduced !== undefined) {
    const { sources, skipping } = reduced
    const all = `${columns(sources)} FROM ${scan(sources, true)} s`
    if (skipping.by === 'view') {
      parts.push(`${all} WHERE ${IS_LIVE}(${skipping.view}, s.file_index, s.file_row_number)`)
    } else {
      deleted.push(`${deletedName} AS MATERIALIZED (${deletedRows(skipping.tables)})`)
      parts.push(`${all} ANTI JOIN ${deletedName} d ON s.file_index = d.f AND s.file_row_number = d.r`)
    }
  }
  if (parts.length === 0) parts.push(`${selectList(schema, [], false)} WHERE false`)
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
function deletedRows(tables: readonly string[]): string {
  return tables
    .map((table, index) => `SELECT ${index}::UBIGINT AS f, r::BIGINT AS r FROM ${table}`)
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
