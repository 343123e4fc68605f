/** A plan as a statement of ClickHouse (25.3 and newer). */
import { must } from '../../util/errors.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { type Order, type Output, outputName, type Select } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import type { CommonTable, Dialect, Restriction, VisibleRows } from '../plan/plan.ts'
import { INNER, POOL } from './rows.ts'
import { ClickHouseWriter, operand } from './write-expression.ts'
import { sourceSql } from './write-sources.ts'

export const clickhouse: Dialect = {
  system: 'clickhouse',
  write({ select, visible, commons = [], others = [] }) {
    const writer: ClickHouseWriter = new ClickHouseWriter(inner => selectSql(inner, writer, false))
    const tables = commons.map(common => commonSql(common, writer)).join(', ')
    const sql = selectSql(select, writer, true)
    const restriction = restrictionOf(visible, writer)
    const otherRestrictions = others.map(other => restrictionOf(other.visible, writer))
    return {
      sql,
      bounds: writer.binder.bounds,
      ...(restriction === undefined ? {} : { restriction }),
      ...(others.length === 0 ? {} : { otherRestrictions }),
      ...(tables === '' ? {} : { commons: tables }),
    }
  },
}

function restrictionOf(visible: VisibleRows | undefined, writer: ClickHouseWriter): Restriction | undefined {
  if (visible === undefined) return undefined
  const { columns, where } = visible
  return { columns, where: where === undefined ? '' : writer.write(where) }
}

function commonSql({ name, select, isKept }: CommonTable, writer: ClickHouseWriter): string {
  return `${name} AS ${isKept ? 'MATERIALIZED ' : ''}(${selectSql(select, writer, false)})`
}

/** @param isOuter its outputs leave the engine: times have the types of columns */
function selectSql(select: Select, writer: ClickHouseWriter, isOuter: boolean): string {
  const { from, where, outputs, groupBy = [], groupingSets = [], having, isDistinct = false } = select
  const { orderBy = [], limit, offset = 0 } = select
  const tables = fromSql(select, from, writer)
  const { table } = writer
  writer.table = from === undefined || 'kind' in from ? POOL : INNER
  const sets = groupingSets.map(values => `(${values.map(each => writer.group(each)).join(', ')})`)
  const groups = groupBy.map(each => writer.group(each))
  const list = outputs.map(({ name, value }, index) => {
    // Users' names may be equal, or those of tables.
    const own = isOuter ? outputName(index) : name
    return `${valueSql(value, isDistinct, isOuter, writer)} AS ${quoteClickHouseName(own)}`
  })
  const clauses = [
    `SELECT ${isDistinct ? 'DISTINCT ' : ''}${list.join(', ')}`,
    tables,
    where === undefined ? '' : `WHERE ${writer.write(where)}`,
    groups.length === 0 ? '' : `GROUP BY ${groups.join(', ')}`,
    sets.length === 0 ? '' : `GROUP BY GROUPING SETS (${sets.join(', ')})`,
    having === undefined ? '' : `HAVING ${writer.write(having)}`,
    orderBy.length === 0
      ? ''
      : `ORDER BY ${orderBy.flatMap(each => orderSql(each, outputs, writer)).join(', ')}`,
    limitSql(limit, offset),
  ]
  writer.table = table
  return clauses.filter(clause => clause !== '').join(' ')
}

function limitSql(limit: number | undefined, offset: number): string {
  if (limit === undefined && offset === 0) return ''
  const rows = limit === undefined ? 2n ** 63n - 1n : Math.trunc(limit)
  return offset === 0 ? `LIMIT ${rows}` : `LIMIT ${rows} OFFSET ${Math.trunc(offset)}`
}

function fromSql(select: Select, from: Select['from'], writer: ClickHouseWriter): string {
  if (from === undefined) return `FROM rows AS ${POOL}`
  if ('outputs' in from) return `FROM (${selectSql(from, writer, false)}) AS ${INNER}`
  if ('kind' in from) return from.kind === 'nothing' ? '' : `FROM ${sourceSql(from, select, writer)}`
  const parts = from.map(each => `(${selectSql(each, writer, false)})`)
  return `FROM (${parts.join(' UNION ALL ')}) AS ${INNER}`
}

function valueSql(value: Typed, isDistinct: boolean, isOuter: boolean, writer: ClickHouseWriter): string {
  // A column of times has its zone.
  const stored = value.op === 'zoned' ? operand(value) : value
  if (isOuter && writer.isStored(stored)) return must(writer.raw(stored), 'a column')
  const sql = isDistinct ? writer.distinct(value) : writer.write(value)
  if (value.kind === 'boolean' && value.op !== 'column') return `CAST(${sql} AS Nullable(Bool))`
  if (!isOuter) return sql
  if (value.kind === 'instant') return `fromUnixTimestamp64Micro(${sql}, 'UTC')`
  // Date32 has no days of other years. Whole seconds are a date, as no column has them.
  return value.kind === 'date' ? `fromUnixTimestamp64Second(toInt64(${sql}) * 86400, 'UTC')` : sql
}

function orderSql(
  { value, direction, nulls = undefined }: Order,
  outputs: readonly Output[],
  writer: ClickHouseWriter,
): readonly string[] {
  const index = outputs.findIndex(output => output.value === value)
  const sql = index < 0 ? writer.write(value) : String(index + 1)
  const way = `${direction} NULLS ${nulls ?? 'LAST'}`
  // ClickHouse's NaN is among the nulls.
  return writer.nan(value) ? [`isNaN(${writer.write(value)}) ${way}`, `${sql} ${way}`] : [`${sql} ${way}`]
}
