/**
 * DuckDB's tree of a parsed statement becomes an Expression. This is the first of two gates: it
 * knows a list of nodes and their fields, and refuses every other node and field. So a new kind of
 * syntax in a later DuckDB is refused until it is listed here. The second gate is check.ts.
 */
import type { ColumnType } from '../../format/schema.ts'
import { EXPRESSION_DEPTH_MAX, EXPRESSION_NODES_MAX } from '../../util/limits.ts'
import type { Call, ComparisonOperator, Expression, SqlQuery } from './ast.ts'
import { POLICY_VALUE } from './placeholders.ts'
import { fromCast, intervalOf, numberText } from './read-literal.ts'
import { isNode, type Node, nodeOf, nodesOf, onlyFields, textOf } from './tree-node.ts'
import { Refused } from './values.ts'

const CONJUNCTIONS: Readonly<Record<string, 'and' | 'or'>> = {
  CONJUNCTION_AND: 'and',
  CONJUNCTION_OR: 'or',
}
const COMPARISONS: Readonly<Record<string, ComparisonOperator>> = {
  COMPARE_EQUAL: '=',
  COMPARE_NOTEQUAL: '<>',
  COMPARE_LESSTHAN: '<',
  COMPARE_LESSTHANOREQUALTO: '<=',
  COMPARE_GREATERTHAN: '>',
  COMPARE_GREATERTHANOREQUALTO: '>=',
  COMPARE_DISTINCT_FROM: 'DISTINCT_FROM',
  COMPARE_NOT_DISTINCT_FROM: 'NOT_DISTINCT_FROM',
}
/** DuckDB's names of LIKE: [negated, ignores case]. */
const LIKES: ReadonlyMap<string, readonly [boolean, boolean]> = new Map([
  ['~~', [false, false]],
  ['!~~', [true, false]],
  ['~~*', [false, true]],
  ['!~~*', [true, true]],
])
const SUBQUERY_FORMS: ReadonlyMap<unknown, 'scalar' | 'exists' | 'in'> = new Map([
  ['SCALAR', 'scalar'],
  ['EXISTS', 'exists'],
  ['ANY', 'in'],
])
/** Names that DuckDB's parser gives to syntax that has no form here: classes, types, functions. */
const REFUSED_SYNTAX: ReadonlyMap<string, string> = new Map([
  ['SUBQUERY', 'subqueries are not allowed'],
  ['WINDOW', 'window functions are not allowed'],
  ['PARAMETER', 'parameters are not allowed: write the value itself'],
  ['STAR', '* stands only in COUNT(*)'],
  ['COLLATE', 'COLLATE is not allowed'],
  ['POSITIONAL_REFERENCE', 'columns are named, not numbered'],
  ['ARRAY_CONSTRUCTOR', 'lists are not allowed'],
  ['ARRAY_EXTRACT', 'parts of values in [ ] are not allowed'],
  ['ARRAY_SLICE', 'parts of values in [ ] are not allowed'],
  ['list_sort', 'lists are not allowed'],
  ['list_value', 'lists are not allowed'],
  ['struct_pack', 'structs are not allowed'],
  ['regexp_full_match', "~ and SIMILAR TO are not allowed: write regexp_matches(text, '…')"],
  ['timezone', 'AT TIME ZONE is not allowed'],
])

const ARROW =
  "-> takes one key: write (column -> 'a') in parentheses, or column ->> '$.a.b'; lambdas are not allowed"

/** Reads the queries inside of a statement's expressions. */
type QueryReader = (node: Node, depth: number) => SqlQuery

export class ExpressionReader {
  readonly #sql: Buffer
  readonly #readQuery: QueryReader | undefined
  #nodes = 0

  /**
   * @param sql the parsed text, in which nodes name their places
   * @param readQuery given for a statement: columns may have a table, and values may be queries
   */
  constructor(sql: string, readQuery?: QueryReader) {
    this.#sql = Buffer.from(sql, 'utf8')
    this.#readQuery = readQuery
  }

  /**
   * The expression of the statement `SELECT (…)`. Only `SELECT <one expression>` has this form: no
   * FROM, no clause, no second statement. Throws Refused.
   * @param json the answer of json_serialize_sql, without nulls, empty lists and defaults
   */
  statement(json: unknown): Expression {
    const [statement, ...others] = nodesOf(json, 'statements')
    if (statement === undefined || others.length > 0) throw new Refused('this is not one expression')
    onlyFields(statement, ['node'])
    const select = nodeOf(statement, 'node')
    if (select['type'] !== 'SELECT_NODE') throw new Refused('this is not one expression')
    onlyFields(select, ['type', 'select_list', 'from_table', 'aggregate_handling'])
    const from = nodeOf(select, 'from_table')
    onlyFields(from, ['type', 'query_location'])
    if (from['type'] !== 'EMPTY' || select['aggregate_handling'] !== 'STANDARD_HANDLING')
      throw new Refused('this is not one expression')
    const [expression, ...more] = nodesOf(select, 'select_list')
    if (expression === undefined || more.length > 0) throw new Refused('this is not one expression')
    return this.read(expression, 1)
  }

  /** An expression and its parts. Throws Refused. */
  read(node: Node, depth: number): Expression {
    this.#nodes += 1
    if (this.#nodes > EXPRESSION_NODES_MAX)
      throw new Refused(`an expression has at most ${EXPRESSION_NODES_MAX} parts`)
    if (depth > EXPRESSION_DEPTH_MAX)
      throw new Refused(`an expression nests at most ${EXPRESSION_DEPTH_MAX} deep`)
    const inner = (field: string) => this.read(nodeOf(node, field), depth + 1)
    const children = () => nodesOf(node, 'children').map(child => this.read(child, depth + 1))
    switch (node['class']) {
      case 'COLUMN_REF':
        return readColumn(node, this.#readQuery !== undefined)
      case 'CONSTANT':
        return this.#constant(node)
      case 'COMPARISON': {
        fields(node, ['left', 'right'])
        const operator = COMPARISONS[textOf(node, 'type')]
        if (operator === undefined) throw unknownSyntax(node)
        return { kind: 'compare', operator, left: inner('left'), right: inner('right') }
      }
      case 'CONJUNCTION': {
        fields(node, ['children'])
        const kind = CONJUNCTIONS[textOf(node, 'type')]
        if (kind === undefined) throw unknownSyntax(node)
        return { kind, operands: children() }
      }
      case 'BETWEEN':
        fields(node, ['input', 'lower', 'upper'])
        return { kind: 'between', operand: inner('input'), low: inner('lower'), high: inner('upper') }
      case 'OPERATOR':
        fields(node, ['children'])
        if (REFUSED_SYNTAX.has(textOf(node, 'type'))) throw unknownSyntax(node)
        return readOperator(node, children())
      case 'CASE':
        return this.#case(node, depth)
      case 'CAST': {
        fields(node, ['child', 'cast_type', 'try_cast'])
        const literal = fromCast(node)
        if (literal !== undefined) return literal
        return { kind: 'cast', operand: inner('child'), type: castType(nodeOf(node, 'cast_type')) }
      }
      case 'FUNCTION': {
        const interval = intervalOf(node)
        return interval ?? this.#call(node, depth)
      }
      case 'LAMBDA': {
        // The parser takes every -> for a lambda, and all that comes after it for the key.
        fields(node, ['lhs', 'expr'])
        if (nodeOf(node, 'expr')['class'] !== 'CONSTANT') throw new Refused(ARROW)
        const path = [inner('lhs'), inner('expr')]
        return { kind: 'call', name: '->', arguments: path, isDistinct: false, filter: null }
      }
      case 'SUBQUERY':
        return this.#subquery(node, depth)
      default:
        throw unknownSyntax(node)
    }
  }

  #subquery(node: Node, depth: number): Expression {
    if (this.#readQuery === undefined) throw unknownSyntax(node)
    fields(node, ['subquery_type', 'subquery', 'child', 'comparison_type'])
    const form = SUBQUERY_FORMS.get(node['subquery_type'])
    const isIn = form === 'in'
    if (form === undefined || (isIn && node['comparison_type'] !== 'COMPARE_EQUAL'))
      throw new Refused('a subquery is one value, or stands in EXISTS (…) or IN (…)')
    const operand = isIn ? this.read(nodeOf(node, 'child'), depth + 1) : null
    const query = this.#readQuery(nodeOf(node, 'subquery'), depth + 1)
    return { kind: 'subquery', form, query, operand }
  }

  #case(node: Node, depth: number): Expression {
    fields(node, ['case_checks', 'else_expr'])
    const branches = nodesOf(node, 'case_checks').map(check => {
      onlyFields(check, ['when_expr', 'then_expr'])
      return {
        when: this.read(nodeOf(check, 'when_expr'), depth + 1),
        value: this.read(nodeOf(check, 'then_expr'), depth + 1),
      }
    })
    return { kind: 'case', branches, otherwise: this.read(nodeOf(node, 'else_expr'), depth + 1) }
  }

  #call(node: Node, depth: number): Expression {
    fields(node, ['function_name', 'schema', 'children', 'filter', 'order_bys', 'distinct', 'is_operator'])
    // The parser itself names the schema `main` where a function has a syntax of its own.
    if (node['schema'] !== undefined && node['schema'] !== 'main')
      throw new Refused('functions are named without a schema')
    const orders = node['order_bys']
    if (isNode(orders) && nodesOf(orders, 'orders').length > 0)
      throw new Refused('ORDER BY is not allowed in a function')
    const name = asciiLower(textOf(node, 'function_name'))
    const refused = REFUSED_SYNTAX.get(name)
    if (refused !== undefined) throw new Refused(refused)
    const operands = nodesOf(node, 'children').map(child => this.read(child, depth + 1))
    const like = LIKES.get(name)
    const [operand, pattern] = operands
    if (like !== undefined && operand !== undefined && pattern !== undefined && operands.length === 2)
      return { kind: 'like', operand, pattern, isNegated: like[0], ignoresCase: like[1] }
    const call: Call = {
      kind: 'call',
      name,
      arguments: operands,
      isDistinct: node['distinct'] === true,
      filter: node['filter'] === undefined ? null : this.read(nodeOf(node, 'filter'), depth + 1),
    }
    return markerOf(call) ?? call
  }

  #constant(node: Node): Expression {
    fields(node, ['value'])
    const value = nodeOf(node, 'value')
    onlyFields(value, ['type', 'is_null', 'value'])
    const type = nodeOf(value, 'type')['id']
    if (value['is_null'] === true) return { kind: 'null' }
    // An empty text, false and 0 are defaults, which the answer leaves out.
    const held = value['value']
    if (type === 'VARCHAR') return { kind: 'text', text: typeof held === 'string' ? held : '' }
    if (type === 'BOOLEAN') return { kind: 'boolean', value: held === true }
    return { kind: 'number', text: numberText(node, this.#sql) }
  }
}

function markerOf({ name, arguments: [index, ...more] }: Call): Expression | undefined {
  if (name !== POLICY_VALUE) return undefined
  if (index?.kind !== 'number' || more.length > 0) throw new Refused(`there is no function ${name}`)
  return { kind: 'policyValue', index: Number(index.text) }
}

function readColumn(node: Node, mayHaveTable: boolean): Expression {
  fields(node, ['column_names'])
  const names = node['column_names']
  if (!Array.isArray(names) || names.some(name => typeof name !== 'string')) throw unknownSyntax(node)
  const [first = '', second = ''] = names as readonly string[]
  if (mayHaveTable && names.length === 2) return { kind: 'column', name: second, table: first }
  if (names.length !== 1)
    throw new Refused(
      `${JSON.stringify(names.join('.').slice(0, 80))}: a column is one name, ${mayHaveTable ? 'or a table and a name' : 'without a table'}`,
    )
  return { kind: 'column', name: first }
}

function readOperator(node: Node, operands: readonly Expression[]): Expression {
  const [operand, ...list] = operands
  if (operand === undefined) throw unknownSyntax(node)
  switch (node['type']) {
    case 'OPERATOR_NOT':
      return { kind: 'not', operand }
    case 'OPERATOR_IS_NULL':
    case 'OPERATOR_IS_NOT_NULL':
      return { kind: 'isNull', operand, isNegated: node['type'] === 'OPERATOR_IS_NOT_NULL' }
    case 'COMPARE_IN':
    case 'COMPARE_NOT_IN':
      return { kind: 'in', operand, list, isNegated: node['type'] === 'COMPARE_NOT_IN' }
    case 'OPERATOR_COALESCE':
      return { kind: 'call', name: 'coalesce', arguments: operands, isDistinct: false, filter: null }
    default:
      throw unknownSyntax(node)
  }
}

/** DuckDB's types, and the names of ClickHouse's that DuckDB does not know. */
const CAST_TYPES: ReadonlyMap<string, ColumnType> = new Map([
  ['BOOLEAN', 'BOOLEAN'],
  ['VARCHAR', 'STRING'],
  ['FLOAT', 'FLOAT'],
  ['DOUBLE', 'DOUBLE'],
  ['TINYINT', 'INT8'],
  ['SMALLINT', 'INT16'],
  ['INTEGER', 'INT32'],
  ['BIGINT', 'INT64'],
  ['DATE', 'DATE'],
  ['TIMESTAMP', 'TIMESTAMP'],
  ['TIMESTAMP WITH TIME ZONE', 'TIMESTAMP'],
  ['float32', 'FLOAT'],
  ['float64', 'DOUBLE'],
])

function castType(node: Node): ColumnType {
  const info = node['type_info']
  const given = node['id'] === 'UNBOUND' && isNode(info) ? asciiLower(textOf(info, 'name')) : node['id']
  const type = CAST_TYPES.get(String(given))
  if (type === undefined)
    throw new Refused(
      'CAST is to BOOLEAN, VARCHAR, INTEGER (or TINYINT, SMALLINT, BIGINT), FLOAT, DOUBLE, DATE or TIMESTAMP',
    )
  return type
}

/** Every expression may also have these; an alias is refused. */
function fields(node: Node, names: readonly string[]): void {
  if (node['alias'] !== undefined) throw new Refused('an expression has no alias')
  onlyFields(node, ['class', 'type', 'query_location', ...names])
}

function unknownSyntax(node: Node): Refused {
  const [known] = [node['class'], node['type']].flatMap(name => REFUSED_SYNTAX.get(String(name)) ?? [])
  return new Refused(known ?? `${String(node['type']).toLowerCase()} is not allowed`)
}

/** Not toLowerCase(): it makes ASCII letters of others, such as the Kelvin sign. */
function asciiLower(text: string): string {
  return text.replaceAll(/[A-Z]/g, letter => letter.toLowerCase())
}
