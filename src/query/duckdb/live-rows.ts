/**
 * `rows`, which statements read: the manifest's segments minus their deletion vectors, with the
 * columns and types of the pool's schema.
 *
 * Segments without deleted rows are one plain scan. Segments with deleted rows are one scan too.
 * One scan for each file loses the push-down of filters: 190 instead of 93 ms for 8M rows. A
 * deleted row is left out by (file_index, file_row_number) in one of two ways: by a condition of
 * the scan over a view, or by an anti-join with a table (deleted-rows.ts).
 *
 * Where a policy hides rows, a barrier stands above them: nothing of the statement is computed on a
 * row before the policy has let it pass, so that neither time nor memory tells of hidden rows.
 *
 *   statement ──► columns as new values ──► LIMIT of all rows ──► policy ──► deleted rows ──► scan
 */
import { ROW_NUMBER } from '../../format/row-changes.ts'
import { COLUMN_TYPE, type PoolSchema, SEQUENCE } from '../../format/schema.ts'
import type { DeletionVector, QuerySegment } from '../../index/index-types.ts'
import { assert } from '../../util/errors.ts'
import { quoteName, quoteText } from '../../util/sql.ts'
import { type QueryColumn, queryColumns } from '../expression/operand.ts'
import { NO_COLUMN, type Restriction, type Statement } from '../plan/plan.ts'
import type { RowRange } from '../plan/segment-task.ts'

export interface SegmentSource {
  readonly file: string
  /** Names of the file's columns. Files with equal columns share one set. */
  readonly columns: ReadonlySet<string>
}

/** How deleted rows are left out. Segments are told apart by their position. */
type Skipping =
  | { readonly by: 'view'; readonly view: number }
  /** Its columns are `f`, the position of the segment, and `r`, the row. */
  | { readonly by: 'table'; readonly table: string }

export interface PoolSources {
  readonly schema: PoolSchema
  readonly whole: readonly SegmentSource[]
  /** Segments with deleted rows, and how these are skipped. Undefined if there is none. */
  readonly reduced: { readonly sources: readonly SegmentSource[]; readonly skipping: Skipping } | undefined
  readonly restriction?: Restriction | undefined
  /** Rows of the only segment; absent for all rows. */
  readonly rowRange?: RowRange | undefined
  /** Only rows with a higher sequence; absent for all rows. */
  readonly sequenceAfter?: number | undefined
  /** The rows have ROW_NUMBER and SEQUENCE too. */
  readonly hasPositions?: boolean
}

/** DuckDB's name of the native function. No statement of a user may name it. */
export const IS_LIVE = '_service_is_live'

/** The name of a pool's rows in a statement. Pool 0 is the task's own. */
export function rowsName(pool: number): string {
  return `rows${suffix(pool)}`
}

export function deletedName(pool: number): string {
  return `deleted${suffix(pool)}`
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
  // A native statement may have a WITH of its own.
  const [own, recursive = ''] = /^WITH (RECURSIVE )?/.exec(sql) ?? []
  if (own === undefined) return tables.length === 0 ? sql : `WITH ${tables.join(', ')} ${sql}`
  return `WITH ${recursive}${[...tables, sql.slice(own.length)].join(', ')}`
}

/** The tables of one pool, `rows` last. */
function rowsOf(
  { schema, whole, reduced, restriction, rowRange, sequenceAfter, hasPositions = false }: PoolSources,
  pool: number,
): readonly string[] {
  const bounds = [
    ...(rowRange ? [`s.file_row_number >= ${rowRange.from} AND s.file_row_number < ${rowRange.to}`] : []),
    ...(sequenceAfter === undefined ? [] : [`s.${SEQUENCE} > ${sequenceAfter}`]),
  ]
  const inRange = bounds.length === 0 ? undefined : bounds.join(' AND ')
  const parts: string[] = []
  const columns = (read: readonly SegmentSource[]) => selectList(schema, read, hasPositions)
  if (whole.length > 0) {
    const all = `${columns(whole)} FROM ${scan(whole, hasPositions || rowRange !== undefined)} s`
    parts.push(inRange === undefined ? all : `${all} WHERE ${inRange}`)
  }
  if (reduced !== undefined) {
    const { sources, skipping } = reduced
    const all = `${columns(sources)} FROM ${scan(sources, true)} s`
    if (skipping.by === 'view') {
      const isLive = `${IS_LIVE}(${skipping.view}, s.file_index, s.file_row_number)`
      parts.push(`${all} WHERE ${inRange === undefined ? isLive : `${inRange} AND ${isLive}`}`)
    } else {
      const joined = `${all} ANTI JOIN ${skipping.table} d ON s.file_index = d.f AND s.file_row_number = d.r`
      parts.push(inRange === undefined ? joined : `${joined} WHERE ${inRange}`)
    }
  }
  if (parts.length === 0) parts.push(`${selectList(schema, [], false)} WHERE false`)
  const all = parts.join(' UNION ALL ')
  if (restriction === undefined) return [`${rowsName(pool)} AS NOT MATERIALIZED (${all})`]
  assert(!hasPositions || restriction.where === '', 'a reader with a policy reads no positions')
  const allName = `all_rows${suffix(pool)}`
  return [
    `${allName} AS NOT MATERIALIZED (${all})`,
    `${rowsName(pool)} AS NOT MATERIALIZED (${visibleRows(schema, restriction, allName)})`,
  ]
}

/** The rows of a segment that a policy lets pass, deleted ones too, with ROW_NUMBER. */
export function passedRows(schema: PoolSchema, source: SegmentSource, where: string): string {
  const all = `${selectList(schema, [source], true)} FROM ${scan([source], true)} s`
  return `(SELECT * FROM (${all}) WHERE ${where})`
}

/** The columns and rows of `allName` that a reader sees. */
function visibleRows(schema: PoolSchema, { columns: names, where }: Restriction, allName: string): string {
  // Without a column, rows can still be counted.
  if (names?.length === 0)
    return `SELECT NULL AS ${NO_COLUMN} FROM ${allName}${where === '' ? '' : whereAndBarrier(where)}`
  const quoted = (names ?? queryColumns(schema).map(({ name }) => name)).map(quoteName).join(', ')
  if (where === '') return `SELECT ${names === null ? '*' : quoted} FROM ${allName}`
  const columns = queryColumns(schema).filter(({ name }) => names?.includes(name) !== false)
  const passed = `SELECT ${quoted} FROM ${allName}${whereAndBarrier(where)}`
  return `SELECT ${columns.map(beyondBarrier).join(', ')} FROM (${passed})`
}

/**
 * The policy, and the barrier above it: no condition and no computed value crosses a LIMIT. Where
 * no order of rows is kept, as here, it passes the chunks of all threads on without a copy.
 */
function whereAndBarrier(where: string): string {
  return ` WHERE ${where} LIMIT ${LIMIT_OF_ALL}`
}

/** The largest that DuckDB takes: every row passes. */
const LIMIT_OF_ALL = 2n ** 63n - 1n

/**
 * A column as a value of visible rows alone. Three things cross the LIMIT with a plain column:
 *
 *   statistics        `id > 5000000`, above the largest id of all rows, reads nothing
 *   dynamic filters   of joins and of the newest rows: the scan leaves out rows by them
 *   dictionaries      a function of one column runs over every text of a row group's dictionary
 *
 * TRY has no statistics and is no plain column, and its values are a copy without dictionary. Of a
 * text that repeats it would copy every repetition: COALESCE copies references to texts, and runs
 * TRY where the column is null.
 */
function beyondBarrier({ name, type }: QueryColumn): string {
  const column = quoteName(name)
  const isText = type === 'STRING' || type === 'JSON'
  return `${isText ? `COALESCE(${column}, TRY(${column}))` : `TRY(${column})`} AS ${column}`
}

/** True where a policy hides rows or columns of a pool that the statement reads. */
export function isLimited({
  restriction,
  otherRestrictions = [],
}: Pick<Statement, 'restriction' | 'otherRestrictions'>): boolean {
  return [restriction, ...otherRestrictions].some(each => each !== undefined)
}

/** A column that no file has, because it was added later, is null. */
function selectList(schema: PoolSchema, sources: readonly SegmentSource[], hasPositions: boolean): string {
  const columns = queryColumns(schema).map(({ name, type }) => {
    const isStored = sources.some(source => source.columns.has(name))
    return isStored ? `s.${quoteName(name)}` : `NULL::${COLUMN_TYPE[type].duckdb} AS ${quoteName(name)}`
  })
  const positions = hasPositions ? [`s.file_row_number AS ${ROW_NUMBER}`, `s.${SEQUENCE}`] : []
  return `SELECT ${[...columns, ...positions].join(', ')}`
}

/** Files whose columns differ are read by column name, with nulls where one lacks a column. */
function scan(sources: readonly SegmentSource[], hasRowNumbers: boolean): string {
  const columns = sources[0]?.columns
  const areEqual = sources.every(source => source.columns === columns)
  const options = [
    ...(hasRowNumbers ? ['file_row_number = true'] : []),
    ...(areEqual ? [] : ['union_by_name = true']),
  ]
  const files = sources.map(({ file }) => quoteText(file)).join(', ')
  return `read_parquet(${[`[${files}]`, ...options].join(', ')})`
}

export function countDeletedRows(deletionVectors: readonly DeletionVector[]): number {
  return deletionVectors.reduce((sum, part) => sum + part.rows.length, 0)
}

/** The rows of a segment's range, deleted ones left out. It looks at each deleted row. */
export function countLiveRowsIn({ deletionVectors }: QuerySegment, { from, to }: RowRange): number {
  let live = to - from
  for (const { rows } of deletionVectors) for (const row of rows) if (row >= from && row < to) live -= 1
  return live
}

export function countLiveRows(segments: readonly QuerySegment[]): number {
  return segments.reduce(
    (sum, { meta, deletionVectors }) => sum + meta.rows - countDeletedRows(deletionVectors),
    0,
  )
}
