/**
 * `rows`, which statements read: the live rows of a pool's table, with the columns that the reader
 * sees.
 *
 * Where a policy hides rows, nothing of the statement is computed on a row before the policy has let
 * it pass: no condition, index or column of a reader crosses a LIMIT (docs/decisions/0059). With
 * several shards all of this is done on each of them.
 */
import { queryColumns } from '../expression/operand.ts'
import type { Restriction, Statement } from '../plan/plan.ts'
import type { PoolRows } from '../plan/query-task.ts'
import { rowsName } from './write-sources.ts'
import { quoted } from './write-values.ts'

/** The table of a pool, where one query reads it. */
export interface PoolTable {
  /** `database.table` */
  readonly table: string
  /** It has replaced and deleted rows, which FINAL and this condition leave out; '' without them. */
  readonly isLive: string
  /** A SELECT over the table as one of all shards. Absent where there is one shard. */
  readonly ofShards?: (select: string) => string
}

/** The whole statement. */
export function withRows(
  pools: readonly { readonly rows: PoolRows; readonly table: PoolTable }[],
  statement: Statement,
): string {
  const { sql, commons, restriction, otherRestrictions = [] } = statement
  const tables = pools.map(({ rows, table }, index) => {
    const limits = index === 0 ? restriction : otherRestrictions[index - 1]
    return `${rowsName(index)} AS (${visibleRows(rows, table, limits)})`
  })
  return `WITH ${[...tables, ...(commons === undefined ? [] : [commons])].join(', ')} ${sql}`
}

function visibleRows(
  { schema }: PoolRows,
  { table, isLive, ofShards = select => select }: PoolTable,
  { columns = null, where = '' }: Partial<Restriction> = {},
): string {
  const names = columns ?? queryColumns(schema).map(({ name }) => name)
  // Without a column, rows can still be counted.
  const list = names.length === 0 ? '1 AS _service_none' : names.map(quoted).join(', ')
  const conditions = [isLive, where].filter(each => each !== '')
  const from = `${table} AS r${isLive === '' ? '' : ' FINAL'}`
  const barrier = where === '' ? '' : ` LIMIT ${2n ** 63n - 1n}`
  return ofShards(
    `SELECT ${list} FROM ${from}${conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`}${barrier}`,
  )
}
