/**
 * `rows`, which statements read: the live rows of a pool's table, with the columns that the reader
 * sees.
 *
 * Where a policy hides rows, nothing of the statement is computed on a row before the policy has
 * let it pass: no condition, index or column of a reader crosses a LIMIT (docs/decisions/0059).
 * With several shards all of this is done on each of them.
 */
import { must } from '../../util/assert.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { queryColumns } from '../expression/operand.ts'
import type { Restriction, Statement } from '../plan/plan.ts'
import type { PoolRows } from '../plan/query-task.ts'

/** The table of a pool, where one query reads it. */
export interface PoolTable {
  /** `database.table` */
  readonly table: string
  /** What leaves deleted rows out, after FINAL those that were replaced; '' where no row is. */
  readonly isLive: string
  /** A SELECT over each shard's table as one table. Absent where there is one shard. */
  readonly ofShards?: (select: string) => string
}

/**
 * The name of a pool's rows, where it stands in no quotes. Every quote is closed: that one may be
 * open keeps the expression linear.
 */
const ROWS = /`(?:[^`\\]|\\.)*`?|'(?:[^'\\]|\\.)*'?|\brows(?:_(\d{1,2}))?\b/gs

/**
 * The whole statement, with a table in the place of each name. The only table of a statement stands
 * there as it is, so that shards group their rows; else its rows come from the shards.
 */
export function withRows(
  pools: readonly { readonly rows: PoolRows; readonly table: PoolTable }[],
  { sql, commons, restriction, otherRestrictions = [] }: Statement,
): string {
  const whole = commons === undefined ? sql : `WITH ${commons} ${sql}`
  const isOnly = [...whole.matchAll(ROWS)].filter(([name]) => name.startsWith('rows')).length === 1
  return whole.replaceAll(ROWS, (name, other: string | undefined) => {
    if (!name.startsWith('rows')) return name
    const index = Number(other ?? 0)
    const { rows, table } = must(pools[index], 'the table of a pool')
    const select = visibleRows(rows, table, index === 0 ? restriction : otherRestrictions[index - 1])
    if (table.ofShards === undefined) return `(${select})`
    const all = table.ofShards(select)
    return isOnly ? all : `(SELECT * FROM ${all})`
  })
}

function visibleRows(
  { schema }: PoolRows,
  { table, isLive }: PoolTable,
  { columns = null, where = '' }: Partial<Restriction> = {},
): string {
  const names = columns ?? queryColumns(schema).map(({ name }) => name)
  // Without a column, rows can still be counted.
  const list = names.length === 0 ? '1 AS _service_none' : names.map(quoteClickHouseName).join(', ')
  const conditions = [isLive, where].filter(each => each !== '')
  const from = `${table} AS r${isLive === '' ? '' : ' FINAL'}`
  const barrier = where === '' ? '' : ` LIMIT ${2n ** 63n - 1n}`
  return `SELECT ${list} FROM ${from}${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`}${barrier}`
}
