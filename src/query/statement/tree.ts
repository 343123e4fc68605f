/**
 * DuckDB's tree of a statement as a value, with every number as it was written, and the nodes that
 * the guard makes itself. JSON.parse would round numbers beyond 2^53, and a statement with a
 * rounded number is another one.
 */
import { isDeepStrictEqual } from 'node:util'
import { isNode, type Node } from '../expression/tree-node.ts'
import { Refused } from '../expression/values.ts'

/** Before the digits of a number, in a text. A statement has no NUL (text-problem.ts). */
const DIGITS = '\u0000'
/** As JSON writes that. */
const WRITTEN = '"\\u0000'
const OF_NUMBER = new Set('0123456789.eE+-')
const NO_NUMBERS = ['Infinity', 'NaN', 'inf', 'nan']

/** The tree of a JSON text. Numbers of a value become texts that begin with NUL. Throws Refused. */
export function readTree(text: string): unknown {
  let out = ''
  let from = 0
  for (let at = 0; at < text.length; ) {
    const char = text.charAt(at)
    if (char === '"') at = endOfText(text, at)
    else if (!OF_NUMBER.has(char) || char === 'e') {
      if (NO_NUMBERS.some(word => text.startsWith(word, at)))
        throw new Refused('a number is beyond the range of DOUBLE')
      at += 1
    } else {
      let end = at + 1
      while (OF_NUMBER.has(text.charAt(end))) end += 1
      const token = text.slice(at, end)
      if (!isExact(token)) {
        out += `${text.slice(from, at)}${JSON.stringify(`${DIGITS}${token}`)}`
        from = end
      }
      at = end
    }
  }
  return JSON.parse(out + text.slice(from))
}

/** Behind the quote that ends the text which begins at `at`. */
function endOfText(json: string, at: number): number {
  for (let end = at + 1; end < json.length; end++) {
    const char = json[end]
    if (char === '"') return end + 1
    if (char === '\\') end += 1
  }
  return json.length
}

function isExact(token: string): boolean {
  return /^-?\d{1,15}$/.test(token)
}

export function writeTree(tree: unknown): string {
  const [first = '', ...parts] = JSON.stringify(tree).split(WRITTEN)
  return parts.reduce((text, part) => `${text}${part.replace('"', '')}`, first)
}

/** The digits of a number in a tree. */
export function digitsOf(value: unknown): string {
  return String(value).replace(DIGITS, '')
}

/** True for trees that mean the same, wherever their parts stand in the text. */
export function areEqualTrees(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(comparable(a), comparable(b))
}

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable)
  if (!isNode(value)) return value
  const values = innerValues(value)
  if (values !== undefined) return comparable(values)
  const entries = Object.entries(value).filter(
    ([key]) => !['query_location', 'named_param_map'].includes(key),
  )
  return Object.fromEntries(entries.map(([key, each]) => [key, comparable(each)]))
}

/** DuckDB prints VALUES as a table in parentheses, and reads it as `SELECT * FROM` that table. */
function innerValues({ type, alias, subquery }: Node): unknown {
  if (type !== 'SUBQUERY' || alias !== 'valueslist' || !isNode(subquery)) return undefined
  const { node } = subquery
  if (!isNode(node)) return undefined
  const { from_table: table, ...select } = node
  const isValues = isNode(table) && table['type'] === 'EXPRESSION_LIST'
  return isValues && isDeepStrictEqual(comparable(select), SELECT_ALL) ? table : undefined
}

const STAR: Node = {
  class: 'STAR',
  type: 'STAR',
  alias: '',
  relation_name: '',
  exclude_list: [],
  replace_list: [],
  columns: false,
  expr: null,
  qualified_exclude_list: [],
  rename_list: [],
}

/** `SELECT *`, its FROM left out. */
const SELECT_ALL: Node = {
  type: 'SELECT_NODE',
  modifiers: [],
  cte_map: { map: [] },
  select_list: [STAR],
  where_clause: null,
  group_expressions: [],
  group_sets: [],
  aggregate_handling: 'STANDARD_HANDLING',
  having: null,
  sample: null,
  qualify: null,
}

const NO_ORDER: Node = { type: 'ORDER_MODIFIER', orders: [] }

export function callNode(name: string, children: readonly unknown[], more: Node = {}): Node {
  return {
    class: 'FUNCTION',
    type: 'FUNCTION',
    alias: '',
    query_location: 0,
    function_name: name,
    schema: '',
    children,
    filter: null,
    order_bys: NO_ORDER,
    distinct: false,
    is_operator: false,
    export_state: false,
    catalog: '',
    ...more,
  }
}

export function textNode(value: string): Node {
  return constantNode({ type: { id: 'VARCHAR', type_info: null }, is_null: false, value })
}

export function integerNode(value: number): Node {
  return constantNode({ type: { id: 'INTEGER', type_info: null }, is_null: false, value })
}

export function nullNode(): Node {
  return constantNode({ type: { id: 'NULL', type_info: null }, is_null: true })
}

function constantNode(value: Node): Node {
  return { class: 'CONSTANT', type: 'VALUE_CONSTANT', alias: '', query_location: 0, value }
}

export function castNode(child: unknown, type: string, isTry = false, info: unknown = null): Node {
  return {
    class: 'CAST',
    type: 'OPERATOR_CAST',
    alias: '',
    query_location: 0,
    child,
    cast_type: { id: type, type_info: info },
    try_cast: isTry,
  }
}

export function operatorNode(type: string, children: readonly unknown[]): Node {
  return { class: 'OPERATOR', type, alias: '', query_location: 0, children }
}

/** CASE with these pairs of condition and value. */
export function caseNode(pairs: readonly (readonly [unknown, unknown])[], otherwise: unknown): Node {
  const checks = pairs.map(([when_expr, then_expr]) => ({ when_expr, then_expr }))
  return {
    class: 'CASE',
    type: 'CASE_EXPR',
    alias: '',
    query_location: 0,
    case_checks: checks,
    else_expr: otherwise,
  }
}

export function comparisonNode(type: string, left: unknown, right: unknown): Node {
  return { class: 'COMPARISON', type, alias: '', query_location: 0, left, right }
}

/** The text of a constant; undefined for anything else. */
export function textOfConstant(node: unknown): string | undefined {
  const value = isNode(node) && node['class'] === 'CONSTANT' ? node['value'] : undefined
  const text = isNode(value) ? value['value'] : undefined
  const type = isNode(value) ? value['type'] : undefined
  return isNode(type) && type['id'] === 'VARCHAR' && typeof text === 'string' ? text : undefined
}
