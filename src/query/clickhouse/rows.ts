/**
 * `rows`, which statements read: the live rows of a pool's table, with the columns that the reader
 * sees.
 *
 * Where a policy hides rows, nothing of the statement is computed on a row before the policy has
 * let it pass: no condition, index or column of a reader crosses a LIMIT (docs/decisions/0059).
 * With several shards all of this is done on each of them.
 */
import type { PoolSchema } from '../../format/schema.ts'
import { must } from '../../util/errors.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { queryColumns } from '../expression/operand.ts'
import { internal, outputName } from '../expression/select.ts'
import type { Restriction, Statement } from '../plan/plan.ts'

/** Rises with each row of a cluster: the later of two rows of a key has the higher one. */
export const VERSION = '_version'
/** Bits of a version that count the rows of one write to Keeper. A job's version has them all. */
export const ROW_BITS = 16n
/** The same as INT64, where rows of some versions are read. */
export const READ_VERSION = '_service_version'
/**
 * The alias of a pool's rows, and that of an inner SELECT. ClickHouse looks for a column named
 * `r.name`, and for a part `name` of a column r, before it looks for the name in the table r.
 */
export const POOL = internal('r')
export const INNER = internal('s')

/** The table of a pool, where one query reads it. */
export interface PoolTable {
  /** `database.table` */
  readonly table: string
  /** What leaves deleted rows out, after FINAL those that were replaced; '' where no row is. */
  readonly isLive: string
  /** The columns of the key by which a row replaces another one. */
  readonly key: readonly string[]
  /** A SELECT over each shard's table as one table. Absent where there is one shard. */
  readonly ofShards?: (select: string) => string
}

/**
 * The name of a pool's rows, where it stands in no quotes. Every quote is closed: that one may be
 * open keeps the expression linear.
 */
const ROWS = /`(?:[^`\\]|\\.)*`?|'(?:[^'\\]|\\.)*'?|\brows(?:_(\d{1,2}))?\b/gs

/** Versions from `from` to before `to`, or those of a list. */
export type Versions = { readonly from: bigint; readonly to?: bigint } | { readonly of: readonly bigint[] }

/** The rows of a query's pools. */
export interface TableRows {
  readonly pools: readonly { readonly schema: PoolSchema }[]
  /** Those of the first pool that are read; absent for all rows. */
  readonly versions?: Versions | undefined
}

export interface ReadPool extends Pick<TableRows, 'versions'> {
  readonly schema: PoolSchema
  readonly table: PoolTable
}

/**
 * The whole statement, with a table in the place of each name. The only table of a statement stands
 * there as it is, so that shards group their rows; else its rows come from the shards.
 */
export function withRows(
  pools: readonly ReadPool[],
  { sql, commons, restriction, otherRestrictions = [] }: Statement,
): string {
  const whole = commons === undefined ? sql : `WITH ${commons} ${sql}`
  const isOnly = [...whole.matchAll(ROWS)].filter(([name]) => name.startsWith('rows')).length === 1
  return whole.replaceAll(ROWS, (name, other: string | undefined) => {
    if (!name.startsWith('rows')) return name
    const index = Number(other ?? 0)
    const pool = must(pools[index], 'the table of a pool')
    const { table } = pool
    const select = visibleRows(pool, index === 0 ? restriction : otherRestrictions[index - 1])
    if (table.ofShards === undefined) return `(${select})`
    const all = table.ofShards(select)
    return isOnly ? all : `(SELECT * FROM ${all})`
  })
}

/** The statement of a selection with the names that readers see, in the place of `outputName`. */
export function renamed(statement: Statement, names: readonly string[]): Statement {
  const columns = names.map((name, index) => `${INNER}.${outputName(index)} AS ${quoteClickHouseName(name)}`)
  return { ...statement, sql: `SELECT ${columns.join(', ')} FROM (${statement.sql}) AS ${INNER}` }
}

function visibleRows(
  { schema, table, versions }: ReadPool,
  { columns = null, where = '' }: Partial<Restriction> = {},
): string {
  const names = columns ?? queryColumns(schema).map(({ name }) => name)
  const read = [
    ...names.map(quoteClickHouseName),
    ...(versions === undefined ? [] : [`reinterpretAsInt64(${VERSION}) AS ${READ_VERSION}`]),
  ]
  // Without a column, rows can still be counted.
  const list = read.length === 0 ? '1 AS _service_none' : read.join(', ')
  const { isLive } = table
  const below = versions !== undefined && 'to' in versions ? `${VERSION} < ${versions.to}` : ''
  const conditions = [isLive, below, where].filter(each => each !== '')
  const all = isLive === '' ? `${table.table} AS ${POOL}` : `${table.table} AS ${POOL} FINAL`
  const from = versions === undefined ? all : `(${rowsOfVersions(table, versions)}) AS ${POOL}`
  const barrier = where === '' ? '' : ` LIMIT ${2n ** 63n - 1n}`
  return `SELECT ${list} FROM ${from}${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`}${barrier}`
}

/**
 * The last row of each key, of those in a range of versions or of a list. FINAL would read the
 * whole table for them. A row is as it was posted: what a job made of it has the job's version.
 */
function rowsOfVersions({ table, isLive, key }: PoolTable, versions: Versions): string {
  const isPosted = `bitAnd(${VERSION}, ${JOB_BITS}) != ${JOB_BITS}`
  const all = `SELECT * FROM ${table} WHERE`
  if ('of' in versions) return `${all} ${VERSION} IN (${versions.of.join(', ')}) LIMIT 1 BY ${VERSION}`
  const from = `${VERSION} >= ${versions.from}`
  if (isLive === '') return `${all} ${from} AND ${isPosted}`
  const by = key.map(quoteClickHouseName).join(', ')
  return `${all} ${from} AND (${isPosted} OR NOT (${isLive})) ORDER BY ${VERSION} DESC LIMIT 1 BY ${by}`
}

const JOB_BITS = 2n ** ROW_BITS - 1n
