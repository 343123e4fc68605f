/**
 * The tables that a SELECT reads, as SQL of ClickHouse.
 *
 *   joins         ClickHouse joins from left to right. A join on the right becomes a subquery,
 *                 whose columns have the names of their tables before theirs. A join needs an
 *                 equality: without one both sides get a column that is the same in all rows.
 *   combinations  UNION, INTERSECT and EXCEPT as groups: ClickHouse's INTERSECT ALL counts no rows.
 */
import { AssertionFailed, must } from '../../util/errors.ts'
import { quoteClickHouseName } from '../../util/sql.ts'
import { internal, type Select, type Source } from '../expression/select.ts'
import type { Typed } from '../expression/typed.ts'
import { INNER } from './rows.ts'
import type { ClickHouseWriter } from './write-expression.ts'

type Join = Extract<Source, { kind: 'join' }>
type Combination = Extract<Source, { kind: 'combination' }>

/** The name of a pool's rows in a statement. Pool 0 is the task's own. */
function rowsName(pool: number): string {
  return pool === 0 ? 'rows' : `rows_${pool}`
}

/** @param select whose tables these are */
export function sourceSql(source: Source, select: Select, writer: ClickHouseWriter): string {
  const columns = source.kind === 'join' ? columnsOf(select, source) : []
  return new Sources(columns, writer).write(source)
}

const ONE = '_service_one'

class Sources {
  /** The columns that the SELECT and its joins read. */
  readonly #columns: readonly Typed[]
  readonly #writer: ClickHouseWriter
  /** Aliases of tables that need the column ONE. */
  readonly #ones = new Set<string>()

  constructor(columns: readonly Typed[], writer: ClickHouseWriter) {
    this.#columns = columns
    this.#writer = writer
  }

  write(source: Source): string {
    switch (source.kind) {
      case 'rows':
        this.#writer.pools.add(source.alias)
        return this.#table(rowsName(source.pool), source.alias)
      case 'common':
        return this.#table(source.name, source.alias)
      case 'select':
        return this.#table(`(${this.#writer.select(source.select)})`, source.alias)
      case 'combination':
        return this.#table(combinationSql(source, this.#writer), source.alias)
      case 'join':
        return this.#join(source)
      case 'nothing':
        throw new AssertionFailed('nothing joins no table')
    }
  }

  #table(sql: string, alias: string): string {
    return this.#ones.has(alias)
      ? `(SELECT *, materialize(1) AS ${ONE} FROM ${sql}) AS ${alias}`
      : `${sql} AS ${alias}`
  }

  #join({ join, left, right, on }: Join): string {
    const [before, after] = [aliasesOf(left), aliasesOf(right)]
    const conditions = on === undefined ? [] : conjuncts(on)
    const isKeyed = conditions.some(each => this.#isKey(each, before, after))
    const ones = on === undefined || isKeyed ? [] : [must(before[0], 'a table'), must(after[0], 'a table')]
    for (const alias of ones) this.#ones.add(alias)
    const first = this.write(left)
    const second = right.kind === 'join' ? this.#nested(right, after) : this.write(right)
    if (on === undefined) return `${first} CROSS JOIN ${second}`
    const same = ones.map(alias => `ifNull(${this.#oneOf(alias)}, 1)`).join(' = ')
    const all = [...(same === '' ? [] : [same]), ...conditions.map(each => this.#condition(each))]
    return `${first} ${join} JOIN ${second} ON ${all.join(' AND ')}`
  }

  #oneOf(alias: string): string {
    const around = this.#writer.renamed.get(alias)
    return around === undefined ? `${alias}.${ONE}` : `${around}.${quoteClickHouseName(`${alias}.${ONE}`)}`
  }

  /** An equality of two sides is a key of the join, which ClickHouse compares by bytes. */
  #condition(condition: Typed): string {
    const [a, b] = condition.operands
    const isReal = condition.op === '=' && a?.kind === 'real' && b?.kind === 'real'
    if (!isReal || this.#writer.nan(a, b)) return this.#writer.write(condition)
    return `(${this.#writer.distinct(a)} = ${this.#writer.distinct(b)})`
  }

  #isKey({ op, operands: [a, b] }: Typed, before: readonly string[], after: readonly string[]): boolean {
    if (op !== '=' || a === undefined || b === undefined || this.#writer.nan(a, b)) return false
    const [one, two] = [tablesOf(a), tablesOf(b)]
    const isOf = (tables: readonly string[], aliases: readonly string[]) =>
      tables.length > 0 && tables.every(each => aliases.includes(each))
    return (isOf(one, before) && isOf(two, after)) || (isOf(one, after) && isOf(two, before))
  }

  #nested(join: Join, aliases: readonly string[]): string {
    const name = internal(`j${aliases.join('')}`)
    const inner = this.#join(join)
    const names = new Map<string, string>()
    for (const { table, column } of this.#columns)
      if (table !== undefined && aliases.includes(table))
        names.set(
          `${table}.${must(column, 'a column').name}`,
          `${table}.${quoteClickHouseName(must(column, 'a column').name)}`,
        )
    for (const alias of this.#ones)
      if (aliases.includes(alias)) names.set(`${alias}.${ONE}`, this.#oneOf(alias))
    const inside = [...names].map(([key, sql]) => {
      const around = this.#writer.renamed.get(key.slice(0, key.indexOf('.')))
      return `${around === undefined ? sql : `${around}.${quoteClickHouseName(key)}`} AS ${quoteClickHouseName(key)}`
    })
    for (const alias of aliases) this.#writer.renamed.set(alias, name)
    return `(SELECT ${inside.length === 0 ? '1' : inside.join(', ')} FROM ${inner}) AS ${name}`
  }
}

function aliasesOf(source: Source): readonly string[] {
  if (source.kind === 'join') return [...aliasesOf(source.left), ...aliasesOf(source.right)]
  return source.kind === 'nothing' ? [] : [source.alias]
}

function conjuncts(condition: Typed): readonly Typed[] {
  return condition.op === 'and' ? condition.operands.flatMap(conjuncts) : [condition]
}

function tablesOf(typed: Typed): readonly string[] {
  return columnsIn(typed).map(({ table }) => table ?? '')
}

function columnsIn(typed: Typed): readonly Typed[] {
  const own = typed.op === 'column' ? [typed] : []
  const filter = typed.filter === undefined ? [] : columnsIn(typed.filter)
  return [...own, ...filter, ...typed.operands.flatMap(columnsIn)]
}

function columnsOf(
  { where, outputs, groupBy = [], having, orderBy = [] }: Select,
  join: Join,
): readonly Typed[] {
  const conditions = [where, having].filter(each => each !== undefined)
  const values = [...outputs, ...orderBy].map(({ value }) => value)
  return [...conditions, ...values, ...groupBy, ...conditionsOf(join)].flatMap(columnsIn)
}

function conditionsOf(source: Source): readonly Typed[] {
  if (source.kind !== 'join') return []
  const { left, right, on } = source
  return [...conditionsOf(left), ...conditionsOf(right), ...(on === undefined ? [] : [on])]
}

function combinationSql({ operator, isAll, left, right }: Combination, writer: ClickHouseWriter): string {
  const [a, b] = [left, right].map(each => `(${writer.select(each)})`)
  if (operator === 'UNION' && isAll) return `(${a} UNION ALL ${b})`
  const names = left.outputs.map(({ name }) => quoteClickHouseName(name))
  // Zeros and NaN are told apart by their bytes.
  const keys = left.outputs.map(({ name, value }) => {
    const x = `${INNER}.${quoteClickHouseName(name)}`
    const key = value.kind === 'real' ? `multiIf(isNaN(${x}), nan, ${x} = 0, abs(${x}), ${x})` : x
    return `${key} AS ${quoteClickHouseName(name)}`
  })
  const list = names.join(', ')
  if (operator === 'UNION')
    return `(SELECT DISTINCT ${keys.join(', ')} FROM (${a} UNION ALL ${b}) AS ${INNER})`
  const [of, n] = [quoteClickHouseName('_service_left'), quoteClickHouseName('_service_n')]
  const both = [a, b].map(
    (each, index) => `SELECT ${keys.join(', ')}, ${1 - index} AS ${of} FROM ${each} AS ${INNER}`,
  )
  const [ofLeft, ofRight] = [`countIf(${of} = 1)`, `countIf(${of} = 0)`]
  const isExcept = operator === 'EXCEPT'
  const times = isExcept ? `toInt64(${ofLeft}) - toInt64(${ofRight})` : `least(${ofLeft}, ${ofRight})`
  const groups = `FROM (${both.join(' UNION ALL ')}) GROUP BY ${list}`
  if (!isAll)
    return `(SELECT ${list} ${groups} HAVING ${ofLeft} > 0 AND ${ofRight} ${isExcept ? '=' : '>'} 0)`
  const counted = `SELECT ${list}, toUInt64(greatest(${times}, 0)) AS ${n} ${groups}`
  return `(SELECT ${list} FROM (${counted}) ARRAY JOIN range(${n}) AS _service_i)`
}
