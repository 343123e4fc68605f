/**
 * The names that the expressions of one SELECT may use: the columns of the tables after FROM. A
 * column that the reader may not see has no entry, so no way of naming one finds it.
 */
import { type ColumnType, PAYLOAD, RECEIVED_AT } from '../../format/schema.ts'
import { unify } from '../expression/kinds.ts'
import { type PoolView, queryColumns, quoted } from '../expression/operand.ts'
import { outputName } from '../expression/select.ts'
import { columnOf, operation, type Typed, typeOfKind } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'

export interface NamedColumn {
  readonly name: string
  readonly value: Typed
  readonly isNullable: boolean
}

interface Table {
  readonly alias: string
  readonly columns: readonly NamedColumn[]
}

export interface NameScope {
  readonly tables: readonly Table[]
  /** The columns of `*`, which are those that need no table before them. */
  readonly columns: readonly NamedColumn[]
}

export const NO_SCOPE: NameScope = { tables: [], columns: [] }

/** One table. `names` replaces the names of its first columns. */
export function tableScope(alias: string, all: readonly NamedColumn[], names: readonly string[]): NameScope {
  if (names.length > all.length)
    throw new Refused(`table ${quoted(alias)} has ${all.length} columns, and ${names.length} names are given`)
  const columns = all.map((column, index) => ({ ...column, name: names[index] ?? column.name }))
  return { tables: [{ alias, columns }], columns }
}

/** The columns of a pool's rows under an alias of the statement. */
export function poolColumns(view: PoolView, table: string): readonly NamedColumn[] {
  const never = new Set([RECEIVED_AT, PAYLOAD, ...view.columns.filter(c => c.required).map(c => c.name)])
  return queryColumns(view).map(column => ({
    name: column.name,
    value: { ...columnOf(column), table },
    isNullable: !never.has(column.name),
  }))
}

/** The columns of a query under an alias of the statement. `outputName` gives their names. */
export function queryOutputs(outputs: readonly NamedColumn[], table: string): readonly NamedColumn[] {
  return outputs.map(({ name, value, isNullable }, index) => ({
    name,
    isNullable,
    value: {
      op: 'column',
      kind: value.kind,
      bits: value.bits,
      operands: [],
      table,
      column: { ...value.column, name: outputName(index), type: typeOf(value) },
    },
  }))
}

/** The type of a column of a pool that would hold the value. */
export function typeOf({ op, column, type, bound, kind, operands: [operand] }: Typed): ColumnType {
  if ((op === 'min' || op === 'max') && operand !== undefined) return typeOf(operand)
  return column?.type ?? type ?? bound?.type ?? typeOfKind(kind)
}

/** The column of a name; undefined if there is none. */
export function resolveColumn(
  scope: NameScope,
  name: string,
  table: string | undefined,
): NamedColumn | undefined {
  return only(table === undefined ? scope.columns : tableOf(scope, table).columns, name)
}

/** The table of exactly that alias, else the first one whose alias is equal ignoring case. */
function tableOf({ tables }: NameScope, alias: string): Table {
  const lower = alias.toLowerCase()
  const found =
    tables.find(each => each.alias === alias) ?? tables.find(each => each.alias.toLowerCase() === lower)
  if (found === undefined)
    throw new Refused(`there is no table ${quoted(alias)} after FROM of the same SELECT`)
  return found
}

/** The column of exactly that name, else the one that is equal ignoring case. */
function only(columns: readonly NamedColumn[], name: string): NamedColumn | undefined {
  const exact = columns.filter(column => column.name === name)
  const lower = name.toLowerCase()
  const found = exact.length > 0 ? exact : columns.filter(column => column.name.toLowerCase() === lower)
  if (found.length > 1) throw new Refused(`column ${quoted(name)} is ambiguous: write its table before it`)
  return found[0]
}

/** The columns of `*` or `table.*`. */
export function starColumns(scope: NameScope, table: string | null): readonly NamedColumn[] {
  if (scope.tables.length === 0) throw new Refused('* needs a table after FROM')
  return table === null ? scope.columns : tableOf(scope, table).columns
}

/** Two joined tables. Of an outer join, columns of the side that may be missing can be null. */
export function joinScope(
  join: 'INNER' | 'LEFT' | 'RIGHT' | 'FULL' | 'CROSS',
  leftSide: NameScope,
  rightSide: NameScope,
): { readonly left: NameScope; readonly right: NameScope; readonly both: NameScope } {
  const left = join === 'RIGHT' || join === 'FULL' ? nullable(leftSide) : leftSide
  const right = join === 'LEFT' || join === 'FULL' ? nullable(rightSide) : rightSide
  const aliases = new Set(left.tables.map(({ alias }) => alias.toLowerCase()))
  const twice = right.tables.find(({ alias }) => alias !== '' && aliases.has(alias.toLowerCase()))
  if (twice !== undefined)
    throw new Refused(`two tables are named ${quoted(twice.alias)}: give one of them an alias`)
  const both = {
    tables: [...left.tables, ...right.tables],
    columns: [...left.columns, ...right.columns],
  }
  return { left, right, both }
}

function nullable(scope: NameScope): NameScope {
  // The value stays one object, by which GROUP BY knows the column.
  const copy = (column: NamedColumn): NamedColumn => ({ ...column, isNullable: true })
  return {
    tables: scope.tables.map(({ alias, columns }) => ({ alias, columns: columns.map(copy) })),
    columns: scope.columns.map(copy),
  }
}

/** The condition of USING, and the scope in which each of its columns is one. */
export function usingScope(
  join: 'INNER' | 'LEFT' | 'RIGHT' | 'FULL' | 'CROSS',
  { left, right, both }: ReturnType<typeof joinScope>,
  names: readonly string[],
): { readonly scope: NameScope; readonly conditions: readonly Typed[] } {
  const merged: NamedColumn[] = []
  const gone = new Set<NamedColumn>()
  const conditions: Typed[] = []
  for (const name of names) {
    const [a, b] = [left, right].map(side => resolveColumn(side, name, undefined))
    if (a === undefined || b === undefined)
      throw new Refused(`USING: both tables need a column ${quoted(name)}`)
    if (gone.has(a) || gone.has(b)) throw new Refused(`USING has column ${quoted(name)} twice`)
    const equal = unify([a.value, b.value])
    const [kind = 'null'] = equal.map(each => each.kind)
    conditions.push(operation('=', 'boolean', equal))
    const value = join === 'FULL' ? operation('coalesce', kind, equal) : join === 'RIGHT' ? b.value : a.value
    merged.push({ name: a.name, value, isNullable: a.isNullable && b.isNullable })
    gone.add(a).add(b)
  }
  const rest = both.columns.filter(column => !gone.has(column))
  return { scope: { tables: both.tables, columns: [...merged, ...rest] }, conditions }
}
