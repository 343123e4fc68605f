/**
 * The walk over the expressions of a statement: values, calls, windows, lambdas, parameters. What
 * they may be is listed by class, and a field that has no rule is refused.
 */
import { STATEMENT_DEPTH_MAX, STATEMENT_NODES_MAX } from '../../util/limits.ts'
import { quoted } from '../expression/operand.ts'
import { isNode, type Node, nodeOf, nodesOf, textOf } from '../expression/tree-node.ts'
import { Refused } from '../expression/values.ts'
import { copiesOf, isOver, isPlain, LISTED } from './functions.ts'
import { count } from './outputs.ts'
import { aggregateForm, REWRITTEN, rewritten } from './rewrite-call.ts'
import {
  absent,
  castType,
  constantOf,
  flag,
  kept,
  listOf,
  names,
  nodeList,
  noSchema,
  nullsFirstIn,
  oneOf,
  onlyKeys,
  pathNode,
  qualified,
  refusedKind,
  text,
  unknownForm,
  withPath,
} from './tree-rules.ts'

/** A table of WITH. */
export interface Common {
  readonly name: string
  /** Tables that are read where it is named. */
  readonly reads: number
  readonly width: number
}

/** Where a node stands. */
export interface Place {
  readonly commons: ReadonlyMap<string, Common>
  readonly depth: number
  /** Lambdas around it. */
  readonly lambdas: number
  /** How often the calls around it copy it. */
  readonly copies: number
  /** How often its SELECT names each column, in lower case. */
  readonly names: Map<string, number>
  /** The pool that its SELECT reads alone, and names of outputs that hide the pool's columns. */
  readonly own?: { readonly pool: number; readonly aliases: ReadonlySet<string> } | undefined
}

/** A column of a pool, by the pool's number among those of the statement. */
export interface OrderedColumn {
  readonly pool: number
  readonly name: string
}

/** Where nulls stand in a descending order that does not say it. */
export interface NullsOrder {
  readonly isFirst: boolean
  /** Of windows over a column of a pool they are last: the column is taken to have none. */
  readonly trustsColumns: boolean
}

export type Rule = (value: unknown, place: Place) => unknown
export type Shape = Readonly<Record<string, Rule>>

const LAMBDAS_MAX = 2
/** Copies of an argument, which calls around it make. */
const COPIES_MAX = 32
const OPERATORS: ReadonlySet<unknown> = new Set(
  `ARRAY_EXTRACT ARRAY_SLICE ARRAY_CONSTRUCTOR STRUCT_EXTRACT OPERATOR_COALESCE GROUPING_FUNCTION COMPARE_IN
  COMPARE_NOT_IN OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_UNPACK OPERATOR_TRY`.split(
    /\s+/,
  ),
)
/** Fields of every expression, and of a call. */
const NODE: Shape = { class: text, alias: text }
export const CALL: Shape = {
  ...NODE,
  schema: noSchema,
  catalog: noSchema,
  filter: absent('FILTER stands behind an aggregate'),
  distinct: flag,
  is_operator: flag,
  export_state: kept,
}
const CALLED = [...LISTED.scalars, ...LISTED.aggregates, ...LISTED.others, ...REWRITTEN]

/** A function that statements do not have. */
export class NoFunction extends Refused {
  readonly called: string
  readonly known: readonly string[]

  /** @param known names of which the nearest one helps */
  constructor(called: string, known: readonly string[], where: string) {
    super(`there is no function ${quoted(called)}${where}`)
    this.called = called
    this.known = known
  }
}

export abstract class ValueGuard {
  /** Names of parameters. The first one is $1 of the printed statement. */
  readonly parameters: string[] = []
  /** Columns by which windows descend, which could be taken to have no nulls. */
  readonly ordered: OrderedColumn[] = []
  readonly #nulls: NullsOrder
  protected nodes = 0

  constructor(nulls: NullsOrder) {
    this.#nulls = nulls
  }

  /** The query of a subquery, guarded. */
  protected abstract inner(value: unknown, place: Place): Node

  protected readonly expr: Rule = (value, place) => this.expression(value, place)
  protected readonly maybe: Rule = (value, place) => (value === null ? null : this.expression(value, place))
  protected readonly list: Rule = (value, place) => listOf(value).map(each => this.expression(each, place))
  readonly #orders: Rule = (value, place) => nodeList(value).map(order => this.#order(order, place, false))
  readonly #windowOrders: Rule = (value, place) =>
    nodeList(value).map(order => this.#order(order, place, true))

  #order(order: Node, place: Place, isOfWindow: boolean): Node {
    const isDefault = order['type'] === 'DESCENDING' && order['null_order'] === 'ORDER_DEFAULT'
    const mayTrust = isDefault && isOfWindow && this.#isOwnColumn(order['expression'], place)
    const isFirst = this.#nulls.isFirst && isDefault && !(mayTrust && this.#nulls.trustsColumns)
    const shape = { type: text, null_order: isFirst ? () => 'NULLS FIRST' : text, expression: this.expr }
    return this.copy(order, shape, place)
  }

  /** True for a column of the pool that the SELECT reads alone. It is noted. */
  #isOwnColumn(node: unknown, { own }: Place): boolean {
    const names = isNode(node) && node['class'] === 'COLUMN_REF' ? listOf(node['column_names']).map(text) : []
    const [name, ...more] = names
    if (own === undefined || name === undefined || more.length > 0 || own.aliases.has(name.toLowerCase()))
      return false
    this.ordered.push({ pool: own.pool, name })
    return true
  }

  protected readonly modifiers: Rule = (value, place) =>
    nodeList(value).map(modifier => {
      const type = String(modifier['type'])
      const shape = Object.hasOwn(this.#modifierShapes, type) ? this.#modifierShapes[type] : undefined
      if (shape === undefined) throw unknownForm()
      return this.copy(modifier, { type: text, ...shape }, place)
    })

  readonly #modifierShapes: Readonly<Record<string, Shape>> = {
    LIMIT_MODIFIER: { limit: this.maybe, offset: this.maybe },
    LIMIT_PERCENT_MODIFIER: { limit: this.maybe, offset: this.maybe },
    ORDER_MODIFIER: { orders: this.#orders },
    DISTINCT_MODIFIER: { distinct_on_targets: this.list },
  }

  protected expression(value: unknown, outer: Place): Node {
    if (!isNode(value)) throw unknownForm()
    const place = this.deeper(outer)
    const kind = String(value['class'])
    switch (kind) {
      case 'CONSTANT':
        return constantOf(this.copy(value, { ...NODE, value: kept }, place))
      case 'FUNCTION':
        return this.#call(value, place)
      case 'WINDOW':
        return this.#window(value, place)
      case 'LAMBDA':
        return this.#lambda(value, place)
      case 'PARAMETER':
        return this.copy(value, { ...NODE, identifier: this.#parameter }, place)
      case 'SUBQUERY': {
        const subquery: Rule = each => ({ node: this.inner(each, place), named_param_map: [] })
        return this.copy(
          value,
          { ...NODE, subquery, subquery_type: text, child: this.maybe, comparison_type: text },
          place,
        )
      }
      default: {
        const shape = Object.hasOwn(this.#shapes, kind) ? this.#shapes[kind] : undefined
        if (shape === undefined) throw refusedKind(kind)
        return this.copy(value, { ...NODE, ...shape }, place)
      }
    }
  }

  /** By the class of an expression. */
  readonly #shapes: Readonly<Record<string, Shape>> = {
    COLUMN_REF: {
      column_names: (value, { names: known }) => {
        const parts = names(value)
        count(known, parts[0]?.toLowerCase() ?? '')
        return parts
      },
    },
    POSITIONAL_REFERENCE: { index: kept },
    OPERATOR: { type: oneOf(OPERATORS), children: this.list },
    COMPARISON: { left: this.expr, right: this.expr },
    CONJUNCTION: { children: this.list },
    BETWEEN: { input: this.expr, lower: this.expr, upper: this.expr },
    COLLATE: { child: this.expr, collation: text },
    CAST: { child: this.expr, cast_type: castType, try_cast: flag },
    CASE: {
      case_checks: (value, place) =>
        nodeList(value).map(each => this.copy(each, { when_expr: this.expr, then_expr: this.expr }, place)),
      else_expr: this.expr,
    },
    STAR: {
      relation_name: text,
      exclude_list: kept,
      replace_list: (value, place) =>
        nodeList(value).map(each => this.copy(each, { key: text, value: this.expr }, place)),
      columns: flag,
      expr: this.maybe,
      qualified_exclude_list: qualified,
      rename_list: value =>
        nodeList(value).map(each => {
          onlyKeys(each, ['key', 'value'])
          const [key] = qualified([each['key']])
          return { key, value: text(each['value']) }
        }),
    },
  }

  #call(node: Node, place: Place): Node {
    const written = textOf(node, 'function_name')
    const copies = place.copies * copiesOf(written)
    if (copies > COPIES_MAX) throw new Refused(`${written} stands in too many calls like it`)
    const inner = { ...place, copies }
    const children = nodesOf(node, 'children').map(child => this.expression(child, inner))
    const shape = {
      ...CALL,
      function_name: text,
      children: () => children,
      filter: this.maybe,
      order_bys: this.#orderBy,
    }
    const walked = this.copy(node, shape, place)
    const { name, args, isDistinct, filter } = aggregateForm(written, children)
    const own = { ...walked, function_name: name, children: args }
    if (filter !== null && walked['filter'] !== null)
      throw new Refused(`${written} has its condition, and FILTER another one`)
    if (isDistinct || filter !== null)
      return { ...own, distinct: isDistinct || walked['distinct'], filter: filter ?? walked['filter'] }
    const other = rewritten({ name, args, isInner: place.lambdas > 0 })
    if (other !== undefined) {
      if (walked['filter'] !== null || walked['distinct'] === true)
        throw new Refused(`${written} has no FILTER and no DISTINCT`)
      return { ...other, alias: walked['alias'] }
    }
    if (!isPlain(name) && name !== 'unnest')
      throw new NoFunction(written, CALLED, isOver(name) ? ' without OVER' : '')
    if (name === 'list_sort' && this.#nulls.isFirst) return nullsFirstIn(own)
    return name === '->>' ? withPath(own) : own
  }

  #window(node: Node, place: Place): Node {
    const written = textOf(node, 'function_name')
    const children = nodesOf(node, 'children').map(child => this.expression(child, place))
    const { name, args, isDistinct, filter } = aggregateForm(written, children)
    if (!isOver(name)) throw new NoFunction(written, [...LISTED.windows, ...LISTED.aggregates], ' with OVER')
    const own = this.copy(
      node,
      {
        ...NODE,
        function_name: () => name,
        schema: noSchema,
        catalog: noSchema,
        children: () => args,
        partitions: this.list,
        orders: this.#windowOrders,
        start: text,
        end: text,
        start_expr: this.maybe,
        end_expr: this.maybe,
        offset_expr: this.maybe,
        default_expr: this.maybe,
        ignore_nulls: flag,
        filter_expr: this.maybe,
        exclude_clause: text,
        distinct: flag,
        arg_orders: this.#orders,
      },
      place,
    )
    return { ...own, distinct: isDistinct || own['distinct'], filter_expr: filter ?? own['filter_expr'] }
  }

  readonly #orderBy: Rule = (value, place) => {
    if (!isNode(value)) throw unknownForm()
    return this.copy(value, { type: text, orders: this.#orders }, place)
  }

  /** A lambda, or `json -> 'key'`, which the grammar does not tell from one. */
  #lambda(node: Node, place: Place): Node {
    const key = nodeOf(node, 'expr')
    const isPath = ['CONSTANT', 'PARAMETER'].includes(String(key['class']))
    const inner = isPath ? place : { ...place, lambdas: place.lambdas + 1 }
    if (inner.lambdas > LAMBDAS_MAX) throw new Refused(`a lambda stands in at most ${LAMBDAS_MAX - 1} other`)
    const shape: Shape = {
      ...NODE,
      lhs: value => this.expression(value, place),
      expr: value => this.expression(value, inner),
    }
    const own = this.copy(node, shape, place)
    return isPath ? { ...own, expr: pathNode(own['expr']) } : own
  }

  readonly #parameter: Rule = value => {
    const name = text(value)
    const known = this.parameters.indexOf(name)
    return String((known < 0 ? this.parameters.push(name) - 1 : known) + 1)
  }

  protected deeper(place: Place): Place {
    this.nodes += 1
    if (this.nodes > STATEMENT_NODES_MAX)
      throw new Refused(`the statement has more than ${STATEMENT_NODES_MAX} parts`)
    if (place.depth >= STATEMENT_DEPTH_MAX)
      throw new Refused(`the statement nests deeper than ${STATEMENT_DEPTH_MAX}`)
    return { ...place, depth: place.depth + 1 }
  }

  /** The node with each field by its rule. A field without a rule is refused. */
  protected copy(node: Node, shape: Shape, place: Place): Node {
    const own: Record<string, unknown> = {}
    for (const [key, value] of Object.entries(node)) {
      const rule = Object.hasOwn(shape, key) ? shape[key] : undefined
      if (key === 'query_location') own[key] = 0
      else if (rule !== undefined) own[key] = rule(value, place)
      else if (key === 'type' && typeof value === 'string') own[key] = value
      else throw unknownForm()
    }
    return own
  }
}
