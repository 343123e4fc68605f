/** DuckDB's dialect: a plan as one statement, in which every value of a caller is bound. */
import { AssertionFailed } from '../../util/errors.ts'
import { quoteName } from '../../util/sql.ts'
import type { QueryColumn } from '../expression/operand.ts'
import type { Order, Output, Select, Source } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import type { CommonTable, Dialect, NativeSelect, Restriction, VisibleRows } from '../plan/plan.ts'
import { withoutValues } from '../statement/read-form.ts'
import { rowsName } from './live-rows.ts'
import { DuckdbWriter } from './write-expression.ts'

export const duckdb: Dialect = {
  system: 'duckdb',
  write(plan) {
    const writer = newWriter()
    const { select, visible, commons = [], others = [], native } = plan
    // The parameters of a native statement are the first values.
    writer.binder.bounds.push(...(native?.bounds ?? []))
    const sql = native?.statement.sql ?? selectSql(select, writer)
    const tables =
      native === undefined
        ? commons.map(common => commonSql(common, writer)).join(', ')
        : relationsOf(native, writer)
    const restriction = restrictionOf(visible, 0, writer)
    const otherRestrictions = others.map((other, index) => restrictionOf(other.visible, index + 1, writer))
    for (const { value } of select.outputs) writer.work.answer(value, select.limit ?? Infinity)
    const work = writer.work.total()
    return {
      sql,
      bounds: writer.binder.bounds,
      ...(restriction === undefined ? {} : { restriction }),
      ...(plan.hasPositions === true ? { hasPositions: true as const } : {}),
      ...(others.length === 0 ? {} : { otherRestrictions }),
      ...(tables === '' ? {} : { commons: tables }),
      ...(native === undefined ? {} : { native: { form: native.form, shown: withoutValues(native.text) } }),
      ...(work.length === 0 ? {} : { work }),
    }
  },
}

/** The relations that a native statement names, which are new for each statement. */
function relationsOf({ statement, poolOf, columnsOf, timesOf }: NativeSelect, writer: DuckdbWriter): string {
  const relation = (pool: number, at: number) => {
    const columns = (columnsOf[pool] ?? []).flatMap(nativeColumn)
    const list = columns.length === 0 ? '*' : `* REPLACE (${columns.join(', ')})`
    const times = timesOf[at]
    const where = times === undefined ? '' : ` WHERE ${writer.write(times)}`
    return `${statement.prefix}rows${at} AS NOT MATERIALIZED (SELECT ${list} FROM ${rowsName(pool)}${where})`
  }
  return poolOf.map(relation).join(', ')
}

/**
 * A column whose type in files is another one. DuckDB's functions of a TIMESTAMP WITH TIME ZONE,
 * and its cast to a TIMESTAMP, take six times as long as those of this value.
 */
function nativeColumn({ name, type }: QueryColumn): string[] {
  const column = quoteName(name)
  if (type === 'JSON') return [`CAST(${column} AS JSON) AS ${column}`]
  return type === 'TIMESTAMP' ? [`make_timestamp(epoch_us(${column})) AS ${column}`] : []
}

function restrictionOf(
  visible: VisibleRows | undefined,
  pool: number,
  writer: DuckdbWriter,
): Restriction | undefined {
  if (visible === undefined) return undefined
  const { columns, where } = visible
  if (where === undefined) return { columns, where: '' }
  writer.work.policyOf = pool
  const sql = conditionSql(where, true, writer)
  writer.work.policyOf = undefined
  const alone = newWriter()
  return { columns, where: sql, alone: { sql: alone.write(where), bounds: alone.binder.bounds } }
}

/** DuckDB writes a table that is read once into its place, where conditions may reach it. */
function commonSql({ name, select, isKept }: CommonTable, writer: DuckdbWriter): string {
  return `${name} AS ${isKept ? '' : 'NOT '}MATERIALIZED (${selectSql(select, writer)})`
}

function selectSql(select: Select, writer: DuckdbWriter): string {
  const {
    from,
    where,
    outputs,
    groupBy = [],
    groupingSets = [],
    having,
    isDistinct = false,
    orderBy = [],
    limit,
    offset,
  } = select
  const groupSql = (each: Typed) => writer.groupKey(each) ?? positionOr(each, outputs, writer)
  const setSql = (values: readonly Typed[]) => `(${values.map(groupSql).join(', ')})`
  for (const key of groupBy) writer.share(key)
  const { isScan: outer } = writer.work
  writer.work.isScan = false
  const clauses = [
    `SELECT ${isDistinct ? 'DISTINCT ' : ''}${outputs.map(output => outputSql(output, writer)).join(', ')}`,
    fromSql(from, writer),
    where === undefined ? '' : `WHERE ${conditionSql(where, isScan(from), writer)}`,
    list('GROUP BY', groupBy, groupSql),
    groupingSets.length === 0 ? '' : `GROUP BY GROUPING SETS (${groupingSets.map(setSql).join(', ')})`,
    having === undefined ? '' : `HAVING ${writer.write(having)}`,
    list('ORDER BY', orderBy, each => orderSql(each, outputs, writer)),
    limit === undefined ? '' : `LIMIT ${Math.trunc(limit)}`,
    offset === undefined || offset === 0 ? '' : `OFFSET ${Math.trunc(offset)}`,
  ]
  writer.work.isScan = outer
  return clauses.filter(clause => clause !== '').join(' ')
}

/** True where the rows come from the segments of a pool, in their order. */
function isScan(from: Select['from']): boolean {
  return from === undefined || ('kind' in from && from.kind === 'rows')
}

function conditionSql(where: Typed, onScan: boolean, writer: DuckdbWriter): string {
  const { isScan: before } = writer.work
  writer.work.isScan = onScan
  const sql = writer.write(where)
  writer.work.isScan = before
  return sql
}

function fromSql(from: Select['from'], writer: DuckdbWriter): string {
  if (from === undefined) return 'FROM rows'
  if ('outputs' in from) return `FROM (${selectSql(from, writer)})`
  if ('kind' in from) return from.kind === 'nothing' ? '' : `FROM ${sourceSql(from, writer)}`
  return `FROM (${from.map(each => `(${selectSql(each, writer)})`).join(' UNION ALL ')})`
}

function sourceSql(source: Source, writer: DuckdbWriter): string {
  switch (source.kind) {
    case 'rows':
      return `${rowsName(source.pool)} AS ${source.alias}`
    case 'common':
      return `${source.name} AS ${source.alias}`
    case 'select':
      return `(${selectSql(source.select, writer)}) AS ${source.alias}`
    case 'combination': {
      const { operator, isAll, left, right, alias } = source
      const all = isAll ? `${operator} ALL` : operator
      return `((${selectSql(left, writer)}) ${all} (${selectSql(right, writer)})) AS ${alias}`
    }
    case 'join': {
      const { join, left, right, on } = source
      writer.work.join()
      const tables = `${sourceSql(left, writer)} ${join} JOIN ${sourceSql(right, writer)}`
      return on === undefined ? `(${tables})` : `(${tables} ON ${writer.write(on)})`
    }
    case 'nothing':
      throw new AssertionFailed('nothing joins no table')
  }
}

function list<T>(clause: string, items: readonly T[], write: (item: T) => string): string {
  return items.length === 0 ? '' : `${clause} ${items.map(write).join(', ')}`
}

function outputSql({ name, value }: Output, writer: DuckdbWriter): string {
  writer.work.output(name, value)
  return `${writer.write(value)} AS ${quoteName(name)}`
}

function orderSql(
  { value, direction, nulls = undefined }: Order,
  outputs: readonly Output[],
  writer: DuckdbWriter,
) {
  return `${positionOr(value, outputs, writer)} ${direction} NULLS ${nulls ?? 'LAST'}`
}

/** The position of an output that is this value: DuckDB does not take two parameters for equal. */
function positionOr(value: Typed, outputs: readonly Output[], writer: DuckdbWriter): string {
  const index = outputs.findIndex(output => output.value === value)
  return index < 0 ? writer.write(value) : String(index + 1)
}

/** Throws Refused for an expression that alone has more patterns than a query may have. */
export function checkPatterns(typed: Typed): void {
  newWriter().write(typed)
}

function newWriter(): DuckdbWriter {
  const writer: DuckdbWriter = new DuckdbWriter(select => selectSql(select, writer))
  return writer
}
