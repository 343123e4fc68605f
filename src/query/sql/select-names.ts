/** The names inside of one SELECT: its columns, its outputs, and positions that stand for them. */
import type { Expression, SqlItem, SqlQuery, SqlSelect } from '../expression/ast.ts'
import { functionOf } from '../expression/functions.ts'
import { quoted } from '../expression/operand.ts'
import type { Typed } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import { type NamedColumn, type NameScope, resolveColumn, starColumns } from './scope.ts'

/** Columns of one SELECT, those of `*` included. */
export const STATEMENT_COLUMNS_MAX = 1_000

type ColumnReference = Extract<Expression, { kind: 'column' }>

/** An output before it is checked. `*` is one for each of its columns. */
export interface Item {
  readonly name: string
  readonly value: Expression
}

export class SelectNames {
  readonly #scope: NameScope
  /** The columns of `*`: their names alone may be ambiguous. */
  readonly #stars = new Map<Expression, NamedColumn>()
  readonly #found = new Map<string, NamedColumn | undefined>()
  /** By value. A column of USING has the value of the table whose column it is. */
  readonly #numbers = new Map<Typed, number>()
  #subqueries = 0

  constructor(scope: NameScope) {
    this.#scope = scope
  }

  /** The column; undefined if there is none. Throws Refused if the name stands for several. */
  resolve(reference: ColumnReference): NamedColumn | undefined {
    const star = this.#stars.get(reference)
    if (star !== undefined) return star
    const { name, table } = reference
    const key = JSON.stringify([name, table])
    if (!this.#found.has(key)) this.#found.set(key, resolveColumn(this.#scope, name, table))
    return this.#found.get(key)
  }

  /** The outputs of `*` or `table.*`. */
  star(table: string | null): readonly Item[] {
    return starColumns(this.#scope, table).map(column => {
      const value: Expression = { kind: 'column', name: column.name }
      this.#stars.set(value, column)
      return { name: column.name, value }
    })
  }

  /** Equal for expressions that are the same over the columns of this SELECT. */
  key(expression: Expression): string {
    return JSON.stringify(expression, (_, part: unknown) => this.#keyOf(part))
  }

  #keyOf(part: unknown): unknown {
    if (typeof part !== 'object' || part === null || !('kind' in part)) return part
    // The names inside of a subquery are about other tables.
    if (part.kind === 'subquery') return `subquery ${++this.#subqueries}`
    const column = part.kind === 'column' ? this.resolve(part as ColumnReference) : undefined
    if (column === undefined) return part
    const number = this.#numbers.get(column.value) ?? this.#numbers.size
    this.#numbers.set(column.value, number)
    return { column: number }
  }
}

/** The values of GROUP BY, by the keys of their expressions. */
export class Groups {
  readonly values: Typed[] = []
  readonly #byKey = new Map<string, Typed>()
  /** The kinds of their expressions: most others are told apart without a key. */
  readonly #kinds = new Set<string>()

  add(expression: Expression, value: Typed, select: SelectNames): void {
    this.values.push(value)
    this.#byKey.set(select.key(expression), value)
    this.#kinds.add(expression.kind)
  }

  /** The value for the whole of an expression, or undefined if GROUP BY does not have it. */
  find(expression: Expression, select: SelectNames): Typed | undefined {
    return this.#kinds.has(expression.kind) ? this.#byKey.get(select.key(expression)) : undefined
  }
}

/** Throws Refused for more columns than a SELECT may have. */
export function checkWidth(columns: number): void {
  if (columns > STATEMENT_COLUMNS_MAX)
    throw new Refused(`a SELECT has at most ${STATEMENT_COLUMNS_MAX} columns`)
}

/** The outputs of a SELECT in their order. */
export function itemsOf(items: readonly SqlItem[], select: SelectNames): readonly Item[] {
  const all: Item[] = []
  for (const item of items) {
    if (item.kind === 'star') all.push(...select.star(item.table))
    else all.push({ name: item.alias ?? nameOf(item.value, select), value: item.value })
    checkWidth(all.length)
  }
  // A policy may show the rows of a pool, and no column.
  if (all.length === 0) throw new Refused('a SELECT has at least one column')
  return all
}

/** The name of an output without an alias, as PostgreSQL has it. */
function nameOf(value: Expression, select: SelectNames): string {
  switch (value.kind) {
    case 'column':
      return select.resolve(value)?.name ?? value.name
    case 'call':
      return value.name === 'count_star' ? 'count' : value.name
    case 'cast':
      return nameOf(value.operand, select)
    case 'case':
      return 'case'
    case 'subquery':
      return value.form === 'exists' ? 'exists' : '?column?'
    default:
      return '?column?'
  }
}

/** The output that GROUP BY names by its position, or by a name that no column has. */
export function itemOfGroup(
  expression: Expression,
  items: readonly Item[],
  select: SelectNames,
): Item | undefined {
  if (expression.kind === 'number') return at(expression.text, items, 'GROUP BY')
  if (expression.kind !== 'column' || expression.table !== undefined) return undefined
  if (select.resolve(expression) !== undefined) return undefined
  return named(expression.name, items)
}

/** The output that ORDER BY names by its position or its name; undefined if it names none. */
export function outputNamed(expression: Expression, outputs: readonly NamedColumn[]): Typed | undefined {
  if (expression.kind === 'number') return at(expression.text, outputs, 'ORDER BY').value
  if (expression.kind !== 'column' || expression.table !== undefined) return undefined
  return named(expression.name, outputs)?.value
}

function at<T>(text: string, list: readonly T[], clause: string): T {
  const found = /^\d{1,9}$/.test(text) ? list[Number(text) - 1] : undefined
  if (found === undefined) throw new Refused(`${clause}: there is no output ${quoted(text)}`)
  return found
}

/** The one of exactly that name, else the one that is equal ignoring case. */
function named<T extends { readonly name: string; readonly value: unknown }>(
  name: string,
  list: readonly T[],
): T | undefined {
  const exact = list.filter(each => each.name === name)
  const lower = name.toLowerCase()
  const found = exact.length > 0 ? exact : list.filter(each => each.name.toLowerCase() === lower)
  if (found.some(each => each.value !== found[0]?.value))
    throw new Refused(`${quoted(name)} is the name of several outputs`)
  return found[0]
}

/** True for a SELECT whose outputs are about groups of rows, GROUP BY aside. */
export function hasAggregates({ items, having }: SqlSelect, { orderBy }: SqlQuery): boolean {
  const expressions = [
    ...items.map(item => (item.kind === 'value' ? item.value : null)),
    ...orderBy.map(({ value }) => value),
  ]
  return having !== null || expressions.some(hasAggregate)
}

function hasAggregate(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { kind, name } = value as Readonly<Record<string, unknown>>
  if (kind === 'subquery') return hasAggregate((value as { operand?: unknown }).operand)
  if (kind === 'call' && typeof name === 'string' && functionOf(name)?.isAggregate === true) return true
  return Object.values(value).some(hasAggregate)
}
