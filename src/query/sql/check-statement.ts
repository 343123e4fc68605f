/**
 * The second gate of whole statements: tables become pools, names become columns, and every value
 * gets a type, as check.ts does it for expressions. The result is a plan, in which no name that the
 * user made stands but those of the answer's columns: tables are s1, s2 and so on, tables of WITH
 * q1, q2, and columns of inner queries c1, c2.
 *
 *   WHERE, ON, GROUP BY    conditions and values of rows, without aggregates
 *   outputs, HAVING,       with GROUP BY or an aggregate: what GROUP BY has, and aggregates;
 *   ORDER BY               else values of rows
 */
import { must } from '../../util/errors.ts'
import { TEXTS_JOINED_MAX } from '../../util/limits.ts'
import type {
  Expression,
  SqlCombination,
  SqlOrder,
  SqlQuery,
  SqlSelect,
  SqlStatement,
  SqlTable,
  Subquery,
} from '../expression/ast.ts'
import { Checker, type Names } from '../expression/check.ts'
import { unify } from '../expression/kinds.ts'
import type { PoolView } from '../expression/operand.ts'
import { allOf, internal, type Order, outputName, type Select, type Source } from '../expression/select.ts'
import { castTo, operation, type Typed } from '../expression/typed.ts'
import { Refused } from '../expression/values.ts'
import type { CommonTable } from '../plan/plan.ts'
import {
  joinScope,
  type NamedColumn,
  type NameScope,
  NO_SCOPE,
  poolColumns,
  queryOutputs,
  tableScope,
  typeOf,
  usingScope,
} from './scope.ts'
import {
  checkWidth,
  Groups,
  hasAggregates,
  type Item,
  itemOfGroup,
  itemsOf,
  outputNamed,
  SelectNames,
} from './select-names.ts'

/** PostgreSQL's nulls are last in ascending order and first in descending, ClickHouse's last. */
export type SqlDialect = 'POSTGRESQL' | 'CLICKHOUSE'

interface StatementOptions {
  /** The pools as the reader sees them, by the indexes of `poolOf`. */
  readonly views: readonly PoolView[]
  /** The view of each name of the statement's `pools`. */
  readonly poolOf: readonly number[]
  readonly nowMs: number
  readonly dialect: SqlDialect
}

interface CheckedStatement {
  readonly select: Select
  readonly commons: readonly CommonTable[]
  readonly columns: readonly NamedColumn[]
  /**
   * For each view: the WHERE of the one SELECT that reads it, if its FROM has nothing else and
   * nothing else reads the view.
   */
  readonly conditions: readonly (Typed | undefined)[]
}

/** A checked query: its outputs have the names of `outputName` in its select. */
interface Relation {
  readonly select: Select
  readonly columns: readonly NamedColumn[]
  /** The most texts of rows that one of its values joins. */
  readonly texts: number
  readonly hasOneRow: boolean
}

interface CheckedSource {
  readonly source: Source
  readonly scope: NameScope
  readonly texts: number
}

export class StatementChecker {
  readonly #statement: SqlStatement
  readonly #options: StatementOptions
  readonly #commons: Relation[] = []
  readonly #commonUses: number[] = []
  readonly #poolUses: number[] = []
  readonly #conditions: (Typed | undefined)[] = []
  #aliases = 0

  constructor(statement: SqlStatement, options: StatementOptions) {
    this.#statement = statement
    this.#options = options
  }

  /** The statement with all names resolved and all types known. Throws Refused. */
  check(): CheckedStatement {
    const { commons, query } = this.#statement
    for (const common of commons) {
      const relation = this.#query(common.query)
      // The names are checked where the table is made, and used where it is read.
      const { columns } = tableScope('', relation.columns, common.columns)
      this.#commons.push({ ...relation, columns })
    }
    const { select, columns } = this.#query(query)
    const outputs = select.outputs.map((output, index) => ({ ...output, name: columns[index]?.name ?? '' }))
    return {
      select: { ...select, outputs },
      columns,
      commons: this.#commons.map((common, index) => ({
        name: commonName(index),
        select: common.select,
        isKept: (this.#commonUses[index] ?? 0) > 1,
      })),
      conditions: this.#options.views.map((_, pool) =>
        this.#poolUses[pool] === 1 ? this.#conditions[pool] : undefined,
      ),
    }
  }

  #query(query: SqlQuery): Relation {
    const { body } = query
    return body.kind === 'select' ? this.#select(body, query) : this.#combination(body, query)
  }

  // ── tables ────────────────────────────────────────────────────────────────────────────────────

  #newAlias(): string {
    this.#aliases += 1
    return internal(`s${this.#aliases}`)
  }

  #source(table: SqlTable): CheckedSource {
    if (table.kind === 'join') return this.#join(table)
    const alias = this.#newAlias()
    switch (table.kind) {
      case 'pool': {
        const pool = must(this.#options.poolOf[table.pool], 'the pool of a name')
        this.#poolUses[pool] = (this.#poolUses[pool] ?? 0) + 1
        const columns = poolColumns(must(this.#options.views[pool], 'a pool'), alias)
        const scope = tableScope(table.alias, columns, table.columns)
        return { source: { kind: 'rows', pool, alias }, scope, texts: 1 }
      }
      case 'common': {
        const common = must(this.#commons[table.common], 'a common table')
        this.#commonUses[table.common] = (this.#commonUses[table.common] ?? 0) + 1
        const scope = tableScope(table.alias, queryOutputs(common.columns, alias), table.columns)
        return {
          source: { kind: 'common', name: commonName(table.common), alias },
          scope,
          texts: common.texts,
        }
      }
      case 'query': {
        const { select, columns, texts } = this.#query(table.query)
        const scope = tableScope(table.alias, queryOutputs(columns, alias), table.columns)
        return { source: { kind: 'select', select, alias }, scope, texts }
      }
    }
  }

  #join({ join, left: a, right: b, on, using }: Extract<SqlTable, { kind: 'join' }>): CheckedSource {
    const [left, right] = [this.#source(a), this.#source(b)]
    const joined = joinScope(join, left.scope, right.scope)
    const { scope, conditions } = usingScope(join, joined, using)
    checkWidth(scope.columns.length)
    const names = new SelectNames(joined.both)
    const checker = this.#checker('filter', { column: reference => names.resolve(reference)?.value })
    const condition = on === null ? undefined : checker.condition(on)
    const texts = Math.max(left.texts, right.texts)
    const source: Source = {
      kind: 'join',
      join,
      left: left.source,
      right: right.source,
      on: allOf([...conditions, condition]),
    }
    return { source, scope, texts }
  }

  // ── one SELECT ────────────────────────────────────────────────────────────────────────────────

  #select(body: SqlSelect, query: SqlQuery): Relation {
    const from = body.from === null ? NOTHING : this.#source(body.from)
    const select = new SelectNames(from.scope)
    let texts = from.texts
    let joined = 0
    const rows: Names = {
      column: reference => select.resolve(reference)?.value,
      joinTexts: count => {
        joined += count
      },
      subquery: (subquery, checker) => {
        const relation = this.#query(subquery.query)
        texts = Math.max(texts, relation.texts)
        return this.#subquery(subquery, relation, checker)
      },
    }
    const where = body.where === null ? undefined : this.#checker('filter', rows).condition(body.where)
    const items = itemsOf(body.items, select)
    const keys = this.#groups(body.groupBy, items, select)
    const names: Names = { ...rows, group: expression => keys.find(expression, select) }
    const isGrouped = keys.values.length > 0 || hasAggregates(body, query)
    const place = isGrouped ? 'outside' : 'filter'
    const columns = items.map(item => this.#output(item, place, names, select))
    const having = body.having === null ? undefined : this.#checker(place, names).condition(body.having)
    const itemKeys = items.map(item => select.key(item.value))
    const orderBy = query.orderBy.flatMap(order => {
      const value =
        outputNamed(order.value, columns) ??
        columns[itemKeys.indexOf(select.key(order.value))]?.value ??
        this.#ordered(order.value, place, names, body.isDistinct)
      return orderOf(order, value, this.#options.dialect)
    })
    if (from.source.kind === 'rows') this.#conditions[from.source.pool] = where
    const { limit, offset } = query
    return {
      columns,
      texts: textsOf(texts, joined),
      hasOneRow: limit === 1 || limit === 0 || (isGrouped && keys.values.length === 0),
      select: {
        from: from.source,
        where,
        outputs: columns.map(({ value }, index) => ({ name: outputName(index), value })),
        ...(keys.values.length === 0 ? {} : { groupBy: keys.values }),
        having,
        isDistinct: body.isDistinct,
        orderBy,
        ...(limit === null ? {} : { limit }),
        offset,
      },
    }
  }

  #checker(place: 'filter' | 'outside', names: Names): Checker {
    return new Checker({ nowMs: this.#options.nowMs }, place, names)
  }

  #output(item: Item, place: 'filter' | 'outside', names: Names, select: SelectNames): NamedColumn {
    const value = this.#checker(place, names).value(item.value)
    const column = item.value.kind === 'column' ? select.resolve(item.value) : undefined
    return { name: item.name, value, isNullable: column?.isNullable ?? !NEVER_NULL.has(value.op) }
  }

  #groups(groupBy: readonly Expression[], items: readonly Item[], select: SelectNames): Groups {
    const groups = new Groups()
    for (const expression of groupBy) {
      const item = itemOfGroup(expression, items, select)
      const grouped = item?.value ?? expression
      if (groups.find(grouped, select) !== undefined) continue
      const names: Names = { column: reference => select.resolve(reference)?.value }
      const value = this.#checker('filter', names).check(grouped)
      if (value.kind === 'interval' || (isConstant(value) && item === undefined))
        throw new Refused('GROUP BY takes columns, expressions over them, and positions of outputs')
      groups.add(grouped, value, select)
    }
    return groups
  }

  /** A value of ORDER BY that is no output. */
  #ordered(expression: Expression, place: 'filter' | 'outside', names: Names, isDistinct: boolean): Typed {
    if (isDistinct) throw new Refused('ORDER BY of SELECT DISTINCT takes outputs alone')
    const { subquery: _, ...plain } = names
    return this.#checker(place, plain).check(expression)
  }

  #subquery({ form, operand }: Subquery, relation: Relation, checker: Checker): Typed {
    const { select, columns, hasOneRow } = relation
    if (form === 'exists') return operation('exists', 'boolean', [], { select })
    const [column, ...more] = columns
    if (column === undefined || more.length > 0) throw new Refused('a subquery has one column here')
    if (form === 'scalar') {
      if (!hasOneRow)
        throw new Refused('a subquery that is a value has one row: an aggregate without GROUP BY, or LIMIT 1')
      const { kind, bits } = column.value
      return operation('scalar', kind, [], { bits, select, type: typeOf(column.value) })
    }
    const left = checker.equal(must(operand, 'the operand of IN'), column.value)
    const [a, b] = unify([left, column.value])
    const right = this.#inTypes(relation, [must(b, 'a column')])
    return operation('in_select', 'boolean', [must(a, 'an operand')], { select: right })
  }

  // ── UNION, INTERSECT, EXCEPT ──────────────────────────────────────────────────────────────────

  #combination({ operator, isAll, left: a, right: b }: SqlCombination, query: SqlQuery): Relation {
    const [left, right] = [this.#query(a), this.#query(b)]
    if (left.columns.length !== right.columns.length)
      throw new Refused(
        `${operator}: one query has ${left.columns.length} columns, the other ${right.columns.length}`,
      )
    const pairs = left.columns.map(({ value }, index) =>
      unify([value, must(right.columns[index], 'a column').value]),
    )
    const alias = this.#newAlias()
    const valuesOf = (side: 0 | 1) => pairs.map(pair => must(pair[side], 'a value'))
    const source: Source = {
      kind: 'combination',
      operator,
      isAll,
      left: this.#inTypes(left, valuesOf(0)),
      right: this.#inTypes(right, valuesOf(1)),
      alias,
    }
    const combined = left.columns.map(({ name, isNullable }, index) => {
      const [x, y] = must(pairs[index], 'two values')
      const value = wider(must(x, 'a value'), must(y, 'a value'))
      return { name, value, isNullable: isNullable || right.columns[index]?.isNullable === true }
    })
    const columns = queryOutputs(combined, alias)
    const { limit, offset } = query
    return {
      columns,
      texts: Math.max(left.texts, right.texts),
      hasOneRow: limit === 1 || limit === 0,
      select: {
        from: source,
        outputs: columns.map(({ value }, index) => ({ name: outputName(index), value })),
        orderBy: query.orderBy.flatMap(order => {
          const value = outputNamed(order.value, columns)
          if (value === undefined)
            throw new Refused(`ORDER BY after ${operator} takes names and positions of outputs`)
          return orderOf(order, value, this.#options.dialect)
        }),
        ...(limit === null ? {} : { limit }),
        offset,
      },
    }
  }

  /** The select with its columns in these types. A cast is around the query, not inside of it. */
  #inTypes({ select, columns }: Relation, values: readonly Typed[]): Select {
    if (values.every((value, index) => value === columns[index]?.value)) return select
    const alias = this.#newAlias()
    const inner = queryOutputs(columns, alias)
    const outputs = values.map((value, index) => {
      const from = must(inner[index], 'a column').value
      const isSame = value === columns[index]?.value
      const cast = value.op === 'null' ? value : castTo(typeOf(value), from)
      return { name: outputName(index), value: isSame ? from : cast }
    })
    return { from: { kind: 'select', select, alias }, outputs }
  }
}

const NOTHING: CheckedSource = { source: { kind: 'nothing' }, scope: NO_SCOPE, texts: 1 }

function commonName(index: number): string {
  return internal(`q${index + 1}`)
}

/** Of two values of one kind, the one whose type holds both. */
function wider(x: Typed, y: Typed): Typed {
  if (typeOf(x) !== typeOf(y) && x.kind === 'real') return castTo('DOUBLE', x)
  return x.bits >= y.bits ? x : y
}

/** The most texts that a value joins: each joins at most `joined` values of the tables below. */
function textsOf(below: number, joined: number): number {
  const texts = below * Math.max(1, joined)
  if (texts > TEXTS_JOINED_MAX)
    throw new Refused(`a statement joins at most ${TEXTS_JOINED_MAX} texts in one value`)
  return texts
}

function isConstant({ op }: Typed): boolean {
  return op === 'value' || op === 'null'
}

const NEVER_NULL = new Set('count count_rows count_distinct value is_null is_not_null exists'.split(' '))

function orderOf({ direction, nulls }: SqlOrder, value: Typed, dialect: SqlDialect): readonly Order[] {
  if (value.kind === 'interval') throw new Refused('ORDER BY takes values')
  if (value.kind === 'json') throw new Refused('JSON values have no order: read a part of one with ->>')
  // A constant orders nothing, and the engine takes none.
  if (isConstant(value)) return []
  const first = nulls === null ? direction === 'DESC' && dialect === 'POSTGRESQL' : nulls === 'FIRST'
  return [{ value, direction, ...(first ? { nulls: 'FIRST' } : {}) }]
}
