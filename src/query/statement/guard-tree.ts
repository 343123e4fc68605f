/**
 * The walk over DuckDB's tree of a statement. Only listed nodes with listed fields pass, and each
 * is copied, so that nothing else can be in the result.
 *
 *   tables      Each name is looked up in its scope: the tables of WITH there, then pools. Tables
 *               of WITH get names of ours, so that none is ever taken for one of ours. A pool
 *               becomes the relation of its visible rows (duckdb/live-rows.ts).
 *   functions   By the list of functions.ts, or rewritten (rewrite-call.ts).
 *   limits      What a short text can multiply is counted: tables that WITH names again and again,
 *               columns of `*`, lambdas in lambdas.
 */
import { STATEMENT_READS_MAX, STATEMENT_TABLES_MAX } from '../../util/limits.ts'
import { quoted } from '../expression/operand.ts'
import { isNode, type Node, nodeOf, nodesOf, textOf } from '../expression/tree-node.ts'
import { Refused } from '../expression/values.ts'
import { isTable, LISTED } from './functions.ts'
import {
  CALL,
  type Common,
  NoFunction,
  type NullsOrder,
  type Place,
  type Rule,
  type Shape,
  ValueGuard,
} from './guard-values.ts'
import { Outputs } from './outputs.ts'
import { type ReadCondition, readConditions } from './read-conditions.ts'
import {
  absent,
  countStars,
  countTables,
  empty,
  flag,
  inOrderOfSets,
  kept,
  listOf,
  materialized,
  names,
  onlyKeys,
  queryOf,
  refusedKind,
  text,
  unordered,
} from './tree-rules.ts'

/** A query, and how many times as many columns as a table it may have. */
interface Wide {
  readonly node: Node
  readonly width: number
}

/** Columns of `*` in `*` may multiply up to this many times. */
const WIDTH_MAX = 64
/** Fields of every table. */
const TABLE: Shape = {
  alias: text,
  sample: absent('samples have no form here: use ORDER BY random() LIMIT'),
}
/** Sets of GROUP BY make nulls of columns. */
function ownColumns(pool: number, select: Node): Place['own'] {
  if (listOf(select['group_sets']).length > 1) return undefined
  const aliases = nodesOf(select, 'select_list').map(item => String(item['alias']).toLowerCase())
  return { pool, aliases: new Set(aliases) }
}

export class TreeGuard extends ValueGuard {
  /** Names of pools as they are written, in the order of their relations. */
  readonly pools: string[] = []
  /** What is true of all rows that are read of a pool, for each pool that is read once. */
  get conditions(): readonly (readonly ReadCondition[])[] {
    return this.pools.map((_, pool) => (this.#readsOf[pool] === 1 ? (this.#conditions.get(pool) ?? []) : []))
  }

  readonly #conditions = new Map<number, readonly ReadCondition[]>()
  readonly #readsOf: number[] = []
  readonly #prefix: string
  #reads = 0
  #commons = 0

  /** @param prefix begins the names of all relations */
  constructor(prefix: string, nulls: NullsOrder) {
    super(nulls)
    this.#prefix = prefix
  }

  /** The tree of a whole statement, guarded. Throws Refused. */
  statement(statement: Node): Node {
    const place = {
      commons: new Map<string, Common>(),
      depth: 0,
      lambdas: 0,
      copies: 1,
      names: new Map<string, number>(),
    }
    return { node: this.#query(queryOf(statement), place).node, named_param_map: [] }
  }

  protected override inner(value: unknown, place: Place): Node {
    return this.#query(queryOf(value), place).node
  }

  // Queries

  #query(node: Node, outer: Place): Wide {
    const place = this.deeper({ ...outer, copies: 1, names: new Map(), own: undefined })
    const { commons, map } = this.#withCommons(nodeOf(node, 'cte_map'), place)
    const inner = { ...place, commons }
    const wide = this.#queryNode(node, inner)
    if (wide.width > WIDTH_MAX) throw new Refused('the statement has `*` in `*` too often')
    return { ...wide, node: { ...wide.node, cte_map: { map } } }
  }

  #queryNode(node: Node, place: Place): Wide {
    switch (node['type']) {
      case 'SELECT_NODE':
        return this.#select(node, place)
      case 'SET_OPERATION_NODE': {
        const left = this.#query(nodeOf(node, 'left'), place)
        const right = this.#query(nodeOf(node, 'right'), place)
        const shape = { modifiers: this.modifiers, setop_type: text, setop_all: flag }
        const own = this.copy(
          node,
          { ...shape, left: () => left.node, right: () => right.node, cte_map: kept },
          place,
        )
        return { node: own, width: Math.max(left.width, right.width) }
      }
      default:
        throw refusedKind(node['type'])
    }
  }

  #select(node: Node, outer: Place): Wide {
    if (countTables(node['from_table']) > STATEMENT_TABLES_MAX)
      throw new Refused(`a SELECT has at most ${STATEMENT_TABLES_MAX} tables after FROM and JOIN`)
    const table = this.#table(nodeOf(node, 'from_table'), outer)
    const items = nodesOf(node, 'select_list')
    const pool = this.#isWholePool(nodeOf(node, 'from_table'), outer) ? this.pools.length - 1 : undefined
    if (pool !== undefined)
      this.#conditions.set(pool, readConditions(node['where_clause'], String(table.node['alias'])))
    const place = { ...outer, own: pool === undefined ? undefined : ownColumns(pool, node) }
    const outputs = new Outputs(place.names)
    const ordered = new Map<string, number>()
    const filtered = new Map<string, number>()
    const list = items.map(item => outputs.add(item, () => [this.expression(item, place), this.nodes]))
    const own = this.copy(
      node,
      {
        cte_map: kept,
        from_table: () => table.node,
        select_list: () => list,
        where_clause: this.maybe,
        group_expressions: this.list,
        group_sets: kept,
        aggregate_handling: text,
        having: value => this.maybe(value, { ...place, names: filtered }),
        sample: absent('samples have no form here: use ORDER BY random() LIMIT'),
        qualify: value => this.maybe(value, { ...place, names: filtered }),
        // ORDER BY means an output by its name, so its names are no columns.
        modifiers: value => this.modifiers(value, { ...place, names: ordered }),
      },
      place,
    )
    const named = outputs.named(list, ordered, filtered)
    const stars = items.reduce((sum, item) => sum + countStars(item), 0)
    return { node: { ...inOrderOfSets(own), select_list: named }, width: Math.max(1, stars) * table.width }
  }

  /** The tables of a WITH: each sees those before it, and a recursive one itself. */
  #withCommons(cteMap: Node, place: Place) {
    onlyKeys(cteMap, ['map'])
    const commons = new Map(place.commons)
    const map = nodesOf(cteMap, 'map').map(entry => {
      onlyKeys(entry, ['key', 'value'])
      const key = textOf(entry, 'key').toLowerCase()
      const name = `${this.#prefix}with${++this.#commons}`
      const before = this.#reads
      let width = 1
      const query: Rule = value => {
        const wide = this.#common(queryOf(value), key, name, { ...place, commons })
        width = wide.width
        return { node: wide.node, named_param_map: [] }
      }
      const shape = { aliases: names, query, materialized, key_targets: this.list }
      const value = this.copy(nodeOf(entry, 'value'), shape, place)
      commons.set(key, { name, reads: Math.max(1, this.#reads - before), width })
      return { key: name, value }
    })
    return { commons, map }
  }

  #common(node: Node, key: string, name: string, place: Place): Wide {
    if (node['type'] !== 'RECURSIVE_CTE_NODE') return this.#query(node, place)
    const own = { ...place, commons: new Map(place.commons).set(key, { name, reads: 1, width: 1 }) }
    const left = this.#query(nodeOf(node, 'left'), place)
    const right = this.#query(nodeOf(node, 'right'), own)
    const shape: Shape = {
      modifiers: this.modifiers,
      cte_map: empty,
      cte_name: () => name,
      union_all: flag,
      left: () => left.node,
      right: () => right.node,
      aliases: names,
      key_targets: this.list,
    }
    return { node: this.copy(node, shape, place), width: left.width }
  }

  /** True for a pool alone, read here for the first time, whose columns keep their names. */
  #isWholePool(table: Node, { commons }: Place): boolean {
    const name = table['type'] === 'BASE_TABLE' ? textOf(table, 'table_name') : undefined
    if (name === undefined || commons.has(name.toLowerCase())) return false
    const isNew = this.pools.at(-1) === name && this.#readsOf[this.pools.length - 1] === 1
    return isNew && listOf(table['column_name_alias']).length === 0
  }

  // Tables

  #table(node: Node, place: Place): Wide {
    const inner = this.deeper(place)
    switch (node['type']) {
      case 'EMPTY':
        return { node: this.copy(node, TABLE, inner), width: 1 }
      case 'BASE_TABLE':
        return this.#named(node, inner)
      case 'SUBQUERY': {
        const wide = this.#query(queryOf(node['subquery']), inner)
        const subquery = () => ({ node: wide.node, named_param_map: [] })
        return {
          node: this.copy(node, { ...TABLE, subquery, column_name_alias: names }, inner),
          width: wide.width,
        }
      }
      case 'JOIN':
        return this.#join(node, inner)
      case 'TABLE_FUNCTION': {
        this.#read(1)
        const shape = {
          ...TABLE,
          function: this.tableFunction,
          column_name_alias: names,
          with_ordinality: text,
        }
        return { node: this.copy(node, shape, inner), width: 1 }
      }
      case 'EXPRESSION_LIST': {
        const values: Rule = rows => listOf(rows).map(row => this.list(row, inner))
        return {
          node: this.copy(node, { ...TABLE, values, expected_names: empty, expected_types: empty }, inner),
          width: 1,
        }
      }
      default:
        throw refusedKind(node['type'])
    }
  }

  /** A table of WITH, or a pool. */
  #named(node: Node, place: Place): Wide {
    const name = textOf(node, 'table_name')
    if (node['schema_name'] !== '' || node['catalog_name'] !== '')
      throw new Refused(`${quoted(name)}: no schema stands before the name of a Data Pool`)
    const common = place.commons.get(name.toLowerCase())
    this.#read(common?.reads ?? 1)
    const shape: Shape = {
      ...TABLE,
      alias: value => (value === '' ? name : text(value)),
      schema_name: text,
      catalog_name: text,
      table_name: () => common?.name ?? `${this.#prefix}rows${this.#poolOf(name)}`,
      column_name_alias: names,
      at_clause: absent('AT has no form here: a Data Pool has its rows of now'),
    }
    return { node: this.copy(node, shape, place), width: common?.width ?? 1 }
  }

  #poolOf(name: string): number {
    const known = this.pools.indexOf(name)
    const pool = known < 0 ? this.pools.push(name) - 1 : known
    this.#readsOf[pool] = (this.#readsOf[pool] ?? 0) + 1
    return pool
  }

  #join(node: Node, place: Place): Wide {
    if (node['ref_type'] === 'POSITIONAL') throw refusedKind('POSITIONAL')
    const left = this.#table(nodeOf(node, 'left'), place)
    const right = this.#table(nodeOf(node, 'right'), place)
    const shape: Shape = {
      ...TABLE,
      left: () => left.node,
      right: () => right.node,
      condition: this.maybe,
      join_type: text,
      ref_type: text,
      using_columns: names,
      delim_flipped: flag,
      duplicate_eliminated_columns: empty,
    }
    return { node: this.copy(node, shape, place), width: left.width + right.width }
  }

  readonly tableFunction: Rule = (value, place) => {
    const name = isNode(value) ? String(value['function_name']) : ''
    if (!isNode(value) || !isTable(name)) throw new NoFunction(name, LISTED.tables, ' after FROM')
    return this.copy(
      value,
      { ...CALL, children: this.list, function_name: text, order_bys: unordered },
      place,
    )
  }

  #read(tables: number): void {
    this.#reads += tables
    if (this.#reads > STATEMENT_READS_MAX)
      throw new Refused(
        `the statement reads more than ${STATEMENT_READS_MAX} tables, those of WITH once for each time they are named`,
      )
  }
}
