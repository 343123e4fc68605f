/** What a field of a tree may be, and the small changes of nodes that keep what they mean. */
import { quoted } from '../expression/operand.ts'
import { isNode, type Node } from '../expression/tree-node.ts'
import { Refused } from '../expression/values.ts'
import { castNode, digitsOf, textNode, textOfConstant } from './tree.ts'

/** The value of a field as it may stay. Throws Refused. */
export type Kept = (value: unknown) => unknown

const ARRAY_LENGTH_MAX = 10_000
const TYPE_DEPTH_MAX = 8

const TYPES: ReadonlySet<unknown> = new Set([
  ...'BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT'.split(
    ' ',
  ),
  ...'FLOAT DOUBLE DECIMAL VARCHAR BLOB BIT DATE TIME TIMESTAMP INTERVAL UUID LIST STRUCT MAP ARRAY'.split(
    ' ',
  ),
  ...['TIMESTAMP WITH TIME ZONE', 'TIME WITH TIME ZONE', 'TIMESTAMP_S', 'TIMESTAMP_MS', 'TIMESTAMP_NS'],
])
const CONSTANTS: ReadonlySet<unknown> = new Set(
  'INTEGER BIGINT HUGEINT UBIGINT UHUGEINT DECIMAL VARCHAR NULL'.split(' '),
)

/** Forms that DuckDB's grammar has and statements have not, by the kind of their node. */
const REFUSED: Readonly<Record<string, string>> = {
  PIVOT: 'PIVOT and UNPIVOT have no form here: use aggregates with FILTER',
  SHOW_REF:
    'SHOW, DESCRIBE and SUMMARIZE have no form here but SHOW TABLES and DESCRIBE before a Data Pool or a SELECT',
  POSITIONAL: 'POSITIONAL JOIN has no form here',
  DEFAULT: 'DEFAULT has no form here',
}

export function refusedKind(kind: unknown): Refused {
  const sentence = Object.hasOwn(REFUSED, String(kind)) ? REFUSED[String(kind)] : undefined
  return sentence === undefined ? unknownForm() : new Refused(sentence)
}

export function unknownForm(): Refused {
  return new Refused('the statement has a form that is not served here')
}

export const kept: Kept = value => value

export function text(value: unknown): string {
  if (typeof value === 'string') return value
  throw unknownForm()
}

export const flag: Kept = value => {
  if (typeof value === 'boolean') return value
  throw unknownForm()
}

export function names(value: unknown): readonly string[] {
  return listOf(value).map(text)
}

export const empty: Kept = value => {
  if (Array.isArray(value) && value.length === 0) return value
  if (isNode(value) && Array.isArray(value['map']) && value['map'].length === 0) return { map: [] }
  throw unknownForm()
}

/** Null, or Refused with this sentence. */
export function absent(sentence: string): Kept {
  return value => {
    if (value === null) return null
    throw new Refused(sentence)
  }
}

export function oneOf(known: ReadonlySet<unknown>): Kept {
  return value => {
    if (known.has(value)) return value
    throw unknownForm()
  }
}

/** Without a schema, or in the one that DuckDB's grammar writes itself. */
export const noSchema: Kept = value => {
  if (value === '' || value === 'main') return value
  throw new Refused('no schema stands before the name of a function')
}

/** The order of a table function's arguments: none. */
export const unordered: Kept = value => {
  if (isNode(value) && listOf(value['orders']).length === 0) return { type: 'ORDER_MODIFIER', orders: [] }
  throw unknownForm()
}

/** NOT MATERIALIZED would compute the table again wherever it is named. */
export const materialized: Kept = value =>
  value === 'CTE_MATERIALIZE_NEVER' ? 'CTE_MATERIALIZE_DEFAULT' : text(value)

/** Names of columns with their tables. */
export function qualified(value: unknown): readonly Node[] {
  return nodeList(value).map(each => {
    onlyKeys(each, ['catalog', 'schema', 'table', 'column'])
    return Object.fromEntries(Object.entries(each).map(([key, part]) => [key, text(part)]))
  })
}

export function listOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw unknownForm()
}

export function nodeList(value: unknown): readonly Node[] {
  return listOf(value).map(each => {
    if (isNode(each)) return each
    throw unknownForm()
  })
}

export function onlyKeys(node: Node, keys: readonly string[]): void {
  if (Object.keys(node).some(key => !keys.includes(key))) throw unknownForm()
}

/** The query of a subquery or of a table of WITH. */
export function queryOf(value: unknown): Node {
  if (!isNode(value) || !isNode(value['node'])) throw unknownForm()
  onlyKeys(value, ['node', 'named_param_map'])
  return value['node']
}

/** A type, and those inside of it. */
export const castType: Kept = value => checkedType(value, 0)

function checkedType(value: unknown, depth: number): unknown {
  if (!isNode(value)) throw unknownForm()
  if (depth > TYPE_DEPTH_MAX) throw new Refused(`a type nests at most ${TYPE_DEPTH_MAX} deep`)
  onlyKeys(value, ['id', 'type_info'])
  const { id, type_info: info } = value
  const name = isNode(info) ? String(info['name']) : ''
  if (id === 'UNBOUND' && isNode(info) && info['type'] === 'UNBOUND_TYPE_INFO') {
    if (name.toLowerCase() === 'json' && listOf(info['user_type_modifiers'] ?? []).length === 0) return value
    throw new Refused(`there is no type ${quoted(name)}`)
  }
  if (!TYPES.has(id)) throw new Refused(`the type ${quoted(String(id))} has no form here`)
  if (isNode(info)) checkInnerTypes(info, depth + 1)
  return value
}

function checkInnerTypes(info: Node, depth: number): void {
  const { child_type: child, child_types: children = [], size } = info
  if (child !== undefined) checkedType(child, depth)
  for (const each of listOf(children)) if (isNode(each)) checkedType(each['second'], depth)
  if (size !== undefined && Number(digitsOf(size)) > ARRAY_LENGTH_MAX)
    throw new Refused(`an array has at most ${ARRAY_LENGTH_MAX} elements`)
}

/** A constant as DuckDB prints and reads it again: real numbers and truth values are cast. */
export function constantOf(node: Node): Node {
  const { value, alias } = node
  if (!isNode(value)) throw unknownForm()
  onlyKeys(value, ['type', 'is_null', 'value'])
  const { type, value: inner } = value
  const id = isNode(type) ? type['id'] : undefined
  if (id === 'DOUBLE') return { ...castNode(textNode(digitsOf(inner)), 'DOUBLE'), alias }
  if (id === 'BOOLEAN') return { ...castNode(textNode(inner === true ? 't' : 'f'), 'BOOLEAN'), alias }
  // The end that a slice leaves out is an empty list.
  if (id === 'LIST' && isNode(inner) && listOf(inner['children']).length === 0) return node
  if (!CONSTANTS.has(id)) throw new Refused(`a constant of the type ${quoted(String(id))} has no form here`)
  return node
}

/** `json ->> 'key'` with the path of the key. */
export function withPath(node: Node): Node {
  const [json, key] = listOf(node['children'])
  return { ...node, children: [json, pathNode(key)] }
}

/** `list(x ORDER BY x DESC)`, which DuckDB's grammar makes a list_sort of. */
export function nullsFirstIn(node: Node): Node {
  const [list, direction, nulls] = listOf(node['children'])
  const isDefault = textOfConstant(direction) === 'DESCENDING' && textOfConstant(nulls) === 'ORDER_DEFAULT'
  return isDefault ? { ...node, children: [list, direction, textNode('NULLS FIRST')] } : node
}

/** DuckDB takes a key that begins with $ for a path, which it is only where a part follows. */
export function pathNode(node: unknown): unknown {
  const key = textOfConstant(node)
  if (key === undefined || !/^\$(?![.[]|$)/.test(key)) return node
  return textNode(`$."${key.replaceAll(/["\\]/g, '\\$&')}"`)
}

/** The columns of GROUPING SETS in the order of their sets: so DuckDB reads what it prints. */
export function inOrderOfSets(node: Node): Node {
  const expressions = listOf(node['group_expressions'])
  const sets = listOf(node['group_sets']).map(set => listOf(set).map(Number))
  const order = [...new Set(sets.flat())]
  return {
    ...node,
    group_expressions: order.map(index => expressions[index]),
    group_sets: sets.map(set => set.map(index => order.indexOf(index)).sort((a, b) => a - b)),
  }
}

/** The tables of a FROM, those of its subqueries aside. */
export function countTables(value: unknown): number {
  return isNode(value) && value['type'] === 'JOIN'
    ? countTables(value['left']) + countTables(value['right'])
    : 1
}

/** Those of an output, that of count(*) and of subqueries aside. */
export function countStars(value: unknown): number {
  if (Array.isArray(value)) return value.reduce((sum: number, each) => sum + countStars(each), 0)
  if (!isNode(value) || value['class'] === 'SUBQUERY') return 0
  if (value['class'] === 'STAR') return 1
  return countStars(Object.values(value))
}
