/**
 * DuckDB's tree of a parsed statement becomes an SqlStatement. This is the first gate of whole
 * statements, as read-tree.ts is of expressions: nodes and fields that are not listed are refused.
 * check-statement.ts is the second gate.
 */
import { EXPRESSION_DEPTH_MAX, STATEMENT_SELECTS_MAX, STATEMENT_TABLES_MAX } from '../../util/limits.ts'
import type {
  Expression,
  JoinKind,
  SqlCombination,
  SqlCommon,
  SqlItem,
  SqlOrder,
  SqlQuery,
  SqlSelect,
  SqlStatement,
  SqlTable,
} from './ast.ts'
import { ExpressionReader } from './read-tree.ts'
import { isNode, type Node, nodeOf, nodesOf, textOf } from './tree-node.ts'
import { Refused } from './values.ts'

const ONE_SELECT = 'a text of SQL is exactly one SELECT'
const OPERATORS: readonly unknown[] = ['UNION', 'INTERSECT', 'EXCEPT']
const JOINS: ReadonlyMap<unknown, JoinKind> = new Map([
  ['INNER', 'INNER'],
  ['LEFT', 'LEFT'],
  ['RIGHT', 'RIGHT'],
  ['OUTER', 'FULL'],
  ['FULL', 'FULL'],
])
/** Kinds of tables and queries that have no form here, as messages name them. */
const REFUSED_KINDS: ReadonlyMap<unknown, string> = new Map([
  ['TABLE_FUNCTION', 'functions after FROM, such as range and unnest, are not allowed: name a Data Pool'],
  ['EXPRESSION_LIST', 'VALUES is not allowed'],
  ['COLUMN_DATA', 'VALUES is not allowed'],
  ['SHOW_REF', 'DESCRIBE and SHOW are not allowed'],
  ['PIVOT', 'PIVOT is not allowed'],
  ['RECURSIVE_CTE_NODE', 'WITH RECURSIVE is not allowed'],
])
const DIRECTIONS: ReadonlyMap<unknown, SqlOrder['direction']> = new Map([
  ['ORDER_DEFAULT', 'ASC'],
  ['ASCENDING', 'ASC'],
  ['DESCENDING', 'DESC'],
])
const NULLS: ReadonlyMap<unknown, SqlOrder['nulls']> = new Map([
  ['ORDER_DEFAULT', null],
  ['NULLS FIRST', 'FIRST'],
  ['NULLS LAST', 'LAST'],
])

/** The tables of WITH clauses that can be named, by their names in lower case. */
type Commons = ReadonlyMap<string, number>

interface Modifiers {
  isDistinct: boolean
  orderBy: readonly SqlOrder[]
  limit: number | null
  offset: number
}

export class StatementReader {
  readonly #expressions: ExpressionReader
  readonly #pools: string[] = []
  readonly #commons: SqlCommon[] = []
  #selects = 0
  #tables = 0
  /** The common tables that the query which is read can name. */
  #scope: Commons = new Map()

  /** @param sql the parsed text, in which nodes name their places */
  constructor(sql: string) {
    this.#expressions = new ExpressionReader(sql, (node, depth) => this.#wrapped(node, depth))
  }

  /**
   * The statement. Throws Refused.
   * @param json the answer of json_serialize_sql, without nulls, empty lists and defaults
   */
  statement(json: unknown): SqlStatement {
    const [statement, ...others] = nodesOf(json, 'statements')
    if (statement === undefined || others.length > 0) throw new Refused(ONE_SELECT)
    const query = this.#wrapped(statement, 1)
    return withoutUnused({ pools: this.#pools, commons: this.#commons, query })
  }

  /** A statement in the tree is a node with one field, the query's node. */
  #wrapped(statement: Node, depth: number): SqlQuery {
    known(statement, ['node'])
    return this.#query(nodeOf(statement, 'node'), depth)
  }

  #query(node: Node, depth: number): SqlQuery {
    if (depth > EXPRESSION_DEPTH_MAX)
      throw new Refused(`a statement nests at most ${EXPRESSION_DEPTH_MAX} deep`)
    const scope = this.#scope
    this.#readCommons(node, depth)
    const modifiers = this.#modifiers(node, depth)
    const body = this.#body(node, modifiers, depth)
    this.#scope = scope
    const { orderBy, limit, offset } = modifiers
    return { body, orderBy, limit, offset }
  }

  #body(node: Node, { isDistinct }: Modifiers, depth: number): SqlSelect | SqlCombination {
    if (node['type'] === 'SELECT_NODE') return this.#select(node, isDistinct, depth)
    if (node['type'] !== 'SET_OPERATION_NODE') throw notAllowed(node)
    known(node, ['type', 'modifiers', 'cte_map', 'setop_type', 'setop_all', 'left', 'right'])
    const operator = node['setop_type']
    if (!OPERATORS.includes(operator) || isDistinct)
      throw new Refused(
        'queries are joined by UNION, INTERSECT or EXCEPT, with or without ALL, and without BY NAME',
      )
    return {
      kind: 'combination',
      operator: operator as SqlCombination['operator'],
      isAll: node['setop_all'] !== false,
      left: this.#query(nodeOf(node, 'left'), depth + 1),
      right: this.#query(nodeOf(node, 'right'), depth + 1),
    }
  }

  /** The tables of WITH. Each can name those before it, and hides others of its name after it. */
  #readCommons(node: Node, depth: number): void {
    if (node['cte_map'] === undefined) return
    const map = nodeOf(node, 'cte_map')
    known(map, ['map'])
    for (const entry of nodesOf(map, 'map')) {
      known(entry, ['key', 'value'])
      const value = nodeOf(entry, 'value')
      known(value, ['aliases', 'query', 'materialized'])
      const query = this.#wrapped(nodeOf(value, 'query'), depth + 1)
      const index = this.#commons.push({ columns: names(value, 'aliases'), query }) - 1
      this.#scope = new Map([...this.#scope, [textOf(entry, 'key').toLowerCase(), index]])
    }
  }

  #select(node: Node, isDistinct: boolean, depth: number): SqlSelect {
    this.#selects += 1
    if (this.#selects > STATEMENT_SELECTS_MAX)
      throw new Refused(`a statement has at most ${STATEMENT_SELECTS_MAX} SELECTs`)
    known(node, [
      'type',
      'modifiers',
      'cte_map',
      'select_list',
      'from_table',
      'where_clause',
      'group_expressions',
      'group_sets',
      'aggregate_handling',
      'having',
    ])
    if (node['aggregate_handling'] !== 'STANDARD_HANDLING') throw new Refused('GROUP BY ALL is not allowed')
    const read = (each: Node) => this.#expressions.read(each, depth + 1)
    const optional = (field: string) => (node[field] === undefined ? null : read(nodeOf(node, field)))
    return {
      kind: 'select',
      isDistinct,
      items: nodesOf(node, 'select_list').map(item => this.#item(item, depth)),
      from: this.#from(nodeOf(node, 'from_table'), depth + 1),
      where: optional('where_clause'),
      groupBy: groups(node).map(read),
      having: optional('having'),
    }
  }

  #item(node: Node, depth: number): SqlItem {
    if (node['class'] === 'STAR') {
      known(node, ['class', 'type', 'query_location', 'relation_name'])
      return {
        kind: 'star',
        table: node['relation_name'] === undefined ? null : textOf(node, 'relation_name'),
      }
    }
    const { alias = null, ...value } = node
    if (alias !== null && typeof alias !== 'string') throw new Refused(ONE_SELECT)
    return { kind: 'value', value: this.#expressions.read(value, depth + 1), alias }
  }

  /** Returns null where there is no FROM. */
  #from(node: Node, depth: number): SqlTable | null {
    if (node['type'] !== 'EMPTY') return this.#table(node, depth)
    known(node, ['type', 'query_location'])
    return null
  }

  #table(node: Node, depth: number): SqlTable {
    if (depth > EXPRESSION_DEPTH_MAX)
      throw new Refused(`a statement nests at most ${EXPRESSION_DEPTH_MAX} deep`)
    if (node['type'] === 'JOIN') return this.#join(node, depth)
    if (node['type'] === 'SUBQUERY') {
      known(node, ['type', 'query_location', 'alias', 'subquery', 'column_name_alias'])
      const query = this.#wrapped(nodeOf(node, 'subquery'), depth + 1)
      return { kind: 'query', query, alias: aliasOf(node, ''), columns: names(node, 'column_name_alias') }
    }
    if (node['type'] !== 'BASE_TABLE') throw notAllowed(node)
    this.#tables += 1
    if (this.#tables > STATEMENT_TABLES_MAX)
      throw new Refused(`a statement names at most ${STATEMENT_TABLES_MAX} tables`)
    const isQualified = node['schema_name'] !== undefined || node['catalog_name'] !== undefined
    if (isQualified)
      throw new Refused('a table is the unique name or the id of a Data Pool, without a schema')
    known(node, ['type', 'query_location', 'alias', 'table_name', 'column_name_alias'])
    const name = textOf(node, 'table_name')
    const aliased = { alias: aliasOf(node, name), columns: names(node, 'column_name_alias') }
    const common = this.#scope.get(name.toLowerCase())
    if (common !== undefined) return { kind: 'common', common, ...aliased }
    const index = this.#pools.indexOf(name)
    return { kind: 'pool', pool: index < 0 ? this.#pools.push(name) - 1 : index, ...aliased }
  }

  #join(node: Node, depth: number): SqlTable {
    known(node, [
      'type',
      'query_location',
      'left',
      'right',
      'condition',
      'join_type',
      'ref_type',
      'using_columns',
    ])
    const isCross = node['ref_type'] === 'CROSS'
    const join = isCross ? 'CROSS' : JOINS.get(node['join_type'])
    if (join === undefined || (!isCross && node['ref_type'] !== 'REGULAR'))
      throw new Refused('tables are joined by INNER, LEFT, RIGHT, FULL or CROSS JOIN, with ON or USING')
    const left = this.#table(nodeOf(node, 'left'), depth + 1)
    const right = this.#table(nodeOf(node, 'right'), depth + 1)
    const on =
      node['condition'] === undefined ? null : this.#expressions.read(nodeOf(node, 'condition'), depth + 1)
    return { kind: 'join', join, left, right, on, using: names(node, 'using_columns') }
  }

  #modifiers(node: Node, depth: number): Modifiers {
    const modifiers: Modifiers = { isDistinct: false, orderBy: [], limit: null, offset: 0 }
    for (const modifier of nodesOf(node, 'modifiers')) {
      if (modifier['type'] === 'DISTINCT_MODIFIER') {
        if (modifier['distinct_on_targets'] !== undefined) throw new Refused('DISTINCT ON is not allowed')
        known(modifier, ['type'])
        modifiers.isDistinct = true
      } else if (modifier['type'] === 'ORDER_MODIFIER') {
        known(modifier, ['type', 'orders'])
        modifiers.orderBy = nodesOf(modifier, 'orders').map(order => this.#order(order, depth))
      } else if (modifier['type'] === 'LIMIT_MODIFIER') {
        known(modifier, ['type', 'limit', 'offset'])
        modifiers.limit = this.#count(modifier, 'limit', depth)
        modifiers.offset = this.#count(modifier, 'offset', depth) ?? 0
      } else throw new Refused('LIMIT is a whole number of rows')
    }
    return modifiers
  }

  #order(node: Node, depth: number): SqlOrder {
    known(node, ['type', 'null_order', 'expression'])
    const direction = DIRECTIONS.get(node['type'])
    const nulls = NULLS.get(node['null_order'])
    if (direction === undefined || nulls === undefined)
      throw new Refused('ORDER BY has a form that is not allowed')
    const expression = nodeOf(node, 'expression')
    if (expression['class'] === 'STAR') throw new Refused('ORDER BY ALL is not allowed')
    return { value: this.#expressions.read(expression, depth + 1), direction, nulls }
  }

  /** Returns null where the clause is absent, and for LIMIT NULL. */
  #count(node: Node, field: 'limit' | 'offset', depth: number): number | null {
    if (node[field] === undefined) return null
    const value: Expression = this.#expressions.read(nodeOf(node, field), depth + 1)
    if (value.kind === 'null') return null
    if (value.kind === 'number' && /^\d{1,15}$/.test(value.text)) return Number(value.text)
    throw new Refused(`${field.toUpperCase()} is a whole number of rows`)
  }
}

/** GROUP BY of columns and expressions: one set that has each of them. */
function groups(node: Node): readonly Node[] {
  const expressions = nodesOf(node, 'group_expressions')
  const sets = node['group_sets']
  if (sets === undefined && expressions.length === 0) return []
  const [set, ...more] = Array.isArray(sets) ? (sets as readonly unknown[]) : []
  const isPlain =
    Array.isArray(set) && more.length === 0 && expressions.every((_, index) => set.includes(index))
  if (!isPlain || expressions.length === 0) throw new Refused('GROUP BY is a list of columns and expressions')
  return expressions
}

function aliasOf(node: Node, name: string): string {
  return node['alias'] === undefined ? name : textOf(node, 'alias')
}

function names(node: Node, field: string): readonly string[] {
  const list = node[field] ?? []
  if (Array.isArray(list) && list.every(each => typeof each === 'string')) return list as string[]
  throw new Refused(ONE_SELECT)
}

/** Throws Refused if the node has any other field. Such a field has the name of a clause. */
function known(node: Node, fields: readonly string[]): void {
  const unknown = Object.keys(node).find(key => !fields.includes(key))
  if (unknown !== undefined)
    throw new Refused(
      `${unknown
        .replace(/_list$/, '')
        .replaceAll('_', ' ')
        .toUpperCase()} is not allowed in a statement`,
    )
}

function notAllowed(node: Node): Refused {
  const type = isNode(node) ? node['type'] : undefined
  return new Refused(REFUSED_KINDS.get(type) ?? ONE_SELECT)
}

/** The statement without tables of WITH that nothing reads, and pools that only they name. */
function withoutUnused({ pools, commons, query }: SqlStatement): SqlStatement {
  const used = { pool: new Set<number>(), common: new Set<number>() }
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    const { kind, pool, common } = value as Node
    if (kind === 'pool') used.pool.add(Number(pool))
    if (kind === 'common' && !used.common.has(Number(common))) {
      used.common.add(Number(common))
      walk(commons[Number(common)])
    }
    for (const part of Object.values(value)) walk(part)
  }
  walk(query)
  const [poolsLeft, commonsLeft] = [used.pool, used.common].map(set => [...set].sort((a, b) => a - b))
  const inUse = {
    pools: pools.filter((_, index) => used.pool.has(index)),
    commons: commons.filter((_, index) => used.common.has(index)),
    query,
  }
  const renumber = (_: string, value: unknown): unknown => {
    if (!isNode(value)) return value
    if (value['kind'] === 'pool') return { ...value, pool: poolsLeft?.indexOf(Number(value['pool'])) }
    if (value['kind'] === 'common') return { ...value, common: commonsLeft?.indexOf(Number(value['common'])) }
    return value
  }
  return JSON.parse(JSON.stringify(inUse, renumber)) as SqlStatement
}
